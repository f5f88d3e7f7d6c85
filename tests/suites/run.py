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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chosen import end_if_none  # noqa: E402
from suite import Missing  # noqa: E402

SUITES = ["nvptx_torture", "libgomp", "numba_tests", "tinygrad_tests", "csmith_programs",
          "pocl_tests", "pyopencl_tests", "magma_tests", "pytorch_ops",
          "llama_cpp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--only", default="", help="SUITE or SUITE:part of a test's name")
    args = parser.parse_args()
    suite, _, part = args.only.partition(":")
    failed = 0
    some = [name for name in SUITES if suite in name]
    end_if_none(some, suite, SUITES)
    for name in some:
        try:
            failed += importlib.import_module(name).run(args.build.resolve(), part)
        except Missing as words:
            print(f"SKIP {name}: {words}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
