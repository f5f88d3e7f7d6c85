# SPDX-License-Identifier: Apache-2.0
"""PyOpenCL's own tests of arrays, functions, scans, reductions and random numbers, over
PoCL as pocl_tests.py builds it."""

import os
import re

from pocl_tests import built, environment
from suite import Pool, Report, Result, Venv, python_source, run_bounded

VERSION = "2026.1.4"
PACKAGES = [f"pyopencl=={VERSION}", "numpy", "mako", "pytest"]
MODULES = ["test_array", "test_clmath", "test_algorithm", "test_enqueue_copy",
           "test_arrays_in_structs", "test_clrandom"]
LIMIT_S = 2700
LINE = re.compile(r"(PASSED|FAILED|ERROR|XFAIL|XPASS) (\S+?)(?:\[.*\])?(?: - (.*))?$")
# What fails on any card, or on this one, for a reason of its own.
NOT_APPLICABLE = {
    "test_zeros_large_array": "needs 6 GiB",
    "test_xdg_cache_home": "counts on a cache that PyOpenCL does not keep for PoCL",
}


def judged(outcome, path, why):
    name = path.rpartition("/")[2]
    test = name.rpartition("::")[2]
    if outcome in ("PASSED", "XPASS"):
        return Result(name, "PASS")
    if outcome == "XFAIL":
        return Result(name, "NA", "PyOpenCL expects it to fail")
    if test in NOT_APPLICABLE:
        return Result(name, "NA", NOT_APPLICABLE[test])
    return Result(name, "FAIL", why or outcome)


def run(build, only):
    folder = built(build)
    venv = Venv(build, "pyopencl", PACKAGES)
    tests = python_source(build, venv, "pyopencl", VERSION) / "test"
    report = Report(build, "pyopencl")
    with Pool(build, "softgpu", {"SOFTGPU_SMS": str(os.cpu_count())}) as pool:
        env = {**pool.env, **environment(folder, pool)}
        for module in MODULES:
            if only not in module:
                continue
            log = build / "suites" / f"pyopencl-{module}.log"
            lines, status = run_bounded(
                [pool.gpupool, "run", "--core", "100", "--memory", "4GiB", "--", venv.python,
                 "-m", "pytest", "-q", "-rA", "--tb=short", "-p", "no:cacheprovider",
                 tests / f"{module}.py"], env, log, LIMIT_S)
            found = [match for match in map(LINE.match, lines) if match]
            for match in found:
                report.add(judged(*match.groups()))
            if not found:
                report.add(Result(module, "FAIL", f"exit status {status} ({log})"))
    return report.close()
