# SPDX-License-Identifier: Apache-2.0
"""`make test-gpu` itself: it compares, and it says when there is nothing to compare with."""

import sys
from pathlib import Path


def script(case, *words, status=0):
    program = Path(__file__).parents[1] / "gpu" / "run.py"
    results = case.folder / "gpu.md"
    return case.run([sys.executable, "-B", program, "--build", case.build, "--results", results,
                     *words], status=status), results


def test_comparison_runs_each_program_on_both_sides(case):
    if case.sanitizer:
        case.skip("the script is the same without a sanitizer")
    done, _ = script(case, "--driver", "softgpu", "--only", "vecadd")
    case.contains(done.out, "PASS vecadd\n", "the same here and there")


def test_comparison_without_a_card_says_that_it_was_not_run(case):
    if case.sanitizer:
        case.skip("the script is the same without a sanitizer")
    done, results = script(case, "--driver", case.folder / "no-such-driver.so")
    case.contains(done.out, "it was not run", "what it says")
    case.check(not results.exists(), "no results are written")
