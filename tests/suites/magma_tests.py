# SPDX-License-Identifier: Apache-2.0
"""MAGMA's own tests: linear algebra on a card against LAPACK, as Debian builds it, with PTX for
9.0.  What asks cuBLAS for a product is not applicable: its kernels are machine code."""

import os
import re

from debian_root import DebianRoot
from suite import Pool, Report, Result, run_all

FOLDER = "usr/lib/libmagma-test/testing"
# It prints a matrix, for a comparison with a file that the package lacks.
PRINTS = re.compile(r"testing_[sdcz]print")
# Their check fails on a processor alone, the null driver behind them.
WRONG_CHECK = {"testing_chetrf", "testing_zhetrf"}
# The smaller one is mostly left to the processor, the larger one mostly to cuBLAS.
SIZES = "70", "300"
LIMIT_S = 120


def one(pool, root, test, folder):
    program, size = test
    name = f"{program}-{size}"
    if PRINTS.fullmatch(program):
        return Result(name, "NA", "it compares with a file that is not packaged")
    if program in WRONG_CHECK:
        return Result(name, "NA", "its check fails without a card as well")
    words = root.command(f"/{FOLDER}/{program}", "-n", size, "-c", "-l")
    lines, status = pool.run(words, {}, folder / f"{name}.log", core=10, memory=512 << 20,
                             limit_s=LIMIT_S, options=["--policy", "burst-share"])
    text = "\n".join(lines)
    if status == 0 and "failed" not in text:
        return Result(name, "PASS")
    said = (folder / f"{name}.log").read_text(errors="replace")
    if "holds only machine code" in said:
        return Result(name, "NA", "it needs a kernel of cuBLAS")
    if "ended after" in text:
        return Result(name, "NA", f"it takes more than {LIMIT_S} s")
    return Result(name, "FAIL", f"exit status {status}: {text[-200:]}")


def run(build, only):
    root = DebianRoot(build, "trixie", ["libmagma-test"])
    folder = build / "suites" / "magma"
    folder.mkdir(exist_ok=True)
    tests = [(program, size) for program in sorted(os.listdir(root.folder / FOLDER))
             for size in SIZES
             if re.match(r"testing_[sdcz]", program) and only in f"{program}-{size}"]
    report = Report(build, "magma_tests")
    with Pool(build, "softgpu", {"SOFTGPU_CC": "9.0", "SOFTGPU_MEMORY": "4GiB"}) as pool:
        run_all(tests, lambda test: one(pool, root, test, folder), report)
    return report.close()
