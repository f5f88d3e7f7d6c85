# SPDX-License-Identifier: Apache-2.0
"""hashcat, Debian's package: words that are known are found again, by mask and from a list.

It compiles its kernels with NVRTC and looks for that by the bare name libnvrtc.so, which a
wheel does not have: a link of that name is made.  Its bitmaps, rules and generators of
candidates run on the card; which word belongs to a digest is hashlib's to say.
"""

import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile

from client import check, main

HASHCAT = shutil.which("hashcat")
HOME = pathlib.Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
WORDS = ["".join(chr(97 + (i * k + j) % 26) for j, k in enumerate((1, 3, 7, 11)))
         for i in range(500)] + ["correct horse", "Pass word!", "ärger", "x" * 31]
# Small pieces of work: a software card is thousands of times slower than a card.
OPTIONS = ["--backend-ignore-opencl", "--potfile-disable", "--restore-disable", "--quiet",
           "--outfile-format", "2", "--outfile-autohex-disable", "--hwmon-disable",
           "--logfile-disable", "--force", "-w", "1", "-n", "1", "-u", "16"]


def library_path():
    """The wheel's NVRTC under the name that hashcat looks for, beside its builtins."""
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    library = next(packages.glob("nvidia/*/lib/libnvrtc.so.1[0-9]"))
    (HOME / "libnvrtc.so").symlink_to(library)
    return f"{os.environ.get('LD_LIBRARY_PATH', '')}:{HOME}:{library.parent}"


ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": library_path(), "HOME": str(HOME)}


def hashcat(*words):
    done = subprocess.run([HASHCAT, *words], env=ENVIRONMENT, cwd=HOME, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout.decode(errors="replace"), flush=True)
    return done


def crack(mode, algorithm, wanted, *attack):
    """Those of @wanted that hashcat finds when it is given their digests."""
    digests = HOME / "digests"
    digests.write_text("".join(hashlib.new(algorithm, word.encode()).hexdigest() + "\n"
                               for word in wanted))
    found = HOME / "found"
    found.unlink(missing_ok=True)
    done = hashcat("-m", mode, *OPTIONS, "-o", found, digests, *attack)
    assert done.returncode in (0, 1), f"exit status {done.returncode}"
    return sorted(found.read_text().split("\n")[:-1]) if found.exists() else []


def word_list():
    path = HOME / "words"
    path.write_text("".join(word + "\n" for word in WORDS))
    return path


@check
def card_is_listed():
    shown = hashcat("-I", "--backend-ignore-opencl").stdout.decode()
    assert re.search(r"CUDA\.Version\.*: \d+\.\d", shown), shown
    assert len(re.findall(r"Backend Device ID", shown)) == 1, shown


@check
def md5_by_mask():
    wanted = ["a0z", "m5q", "zzz"]
    assert crack("0", "md5", wanted, "-a", "3", "-1", "?l?d", "?l?1?l") == wanted


@check
def sha256_by_mask():
    wanted = ["000", "314", "999"]
    assert crack("1400", "sha256", wanted, "-a", "3", "?d?d?d") == wanted


@check
def md5_from_a_list():
    wanted = sorted([WORDS[7], WORDS[499], *WORDS[500:]])
    assert crack("0", "md5", wanted, "-a", "0", word_list()) == wanted


@check
def sha256_from_a_list_with_rules():
    rules = HOME / "rules"
    rules.write_text(":\nc\nu\n$1\n")
    wanted = sorted([WORDS[3].upper(), WORDS[9].capitalize(), WORDS[11] + "1", WORDS[13]])
    assert crack("1400", "sha256", wanted, "-a", "0", "-r", rules, word_list()) == wanted


@check
def words_that_are_not_there_are_not_found():
    assert crack("0", "md5", ["not in the list", WORDS[5]], "-a", "0", word_list()) == [WORDS[5]]


try:
    main(f"hashcat {subprocess.run([HASHCAT, '--version'], text=True, stdout=subprocess.PIPE).stdout.strip()},"
         f" NVRTC {importlib.metadata.version('nvidia-cuda-nvrtc')}")
finally:
    shutil.rmtree(HOME)
