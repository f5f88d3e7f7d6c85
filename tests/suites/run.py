#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-suites`: test-suites that no one here wrote, through `gpupool run`.

Each suite is a file beside this one with run(build, only).  What it needs comes from
Debian and PyPI into BUILD/suites; a suite that cannot be had is skipped by name.  Each
test is PASS, FAIL or NA (not applicable, with the reason) in BUILD/suites/NAME.txt; the
exit status is 0 only if none failed.
"""

import argparse
import importlib
import sys
from pathlib import Path

from suite import Missing

SUITES = ["nvptx_torture", "libgomp", "numba_tests", "tinygrad_tests", "csmith_programs"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--only", default="", help="SUITE or SUITE:part of a test's name")
    args = parser.parse_args()
    suite, _, part = args.only.partition(":")
    failed = 0
    for name in SUITES:
        if suite and suite not in name:
            continue
        try:
            failed += importlib.import_module(name).run(args.build.resolve(), part)
        except Missing as words:
            print(f"SKIP {name}: {words}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
