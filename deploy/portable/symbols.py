#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do these files run with an older C library?   symbols.py --glibc 2.28 FILE...

Names every symbol version of the C library that is newer, and every shared library that
is needed besides the C library's own.  The exit status is 1 if there is one.
"""

import argparse
import re
import subprocess
import sys

OWN = {"libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6", "librt.so.1",
       "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def number(text):
    return tuple(int(part) for part in text.split("."))


def troubles(objdump, path, limit):
    out = subprocess.run([objdump, "-T", "-p", path], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    for name in re.findall(r"^\s*NEEDED\s+(\S+)", out, re.M):
        if name not in OWN:
            yield f"needs {name}, which is not part of the C library"
    for line in out.splitlines():
        found = re.search(r"\*UND\*.*\(?GLIBC_([0-9.]+)\)?\s+(\S+)$", line)
        if found and number(found[1]) > number(limit):
            yield f"needs {found[2]} of glibc {found[1]}"
    if "GLIBC_PRIVATE" in out:
        yield "needs what is private to one version of the C library"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--glibc", required=True, metavar="VERSION")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    bad = 0
    for path in args.files:
        for words in sorted(set(troubles(args.objdump, path, args.glibc))):
            print(f"{path}: {words}; glibc {args.glibc} is to be enough "
                  "(common/gp_oldest_libc.c)", file=sys.stderr)
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
