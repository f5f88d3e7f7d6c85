# SPDX-License-Identifier: Apache-2.0
"""Kernels that try to reach the memory of the process that runs them."""

import sys
from pathlib import Path

FORMS = Path(__file__).resolve().parents[1] / "forms" / "forms.py"


def test_no_instruction_reaches_memory_that_is_not_the_kernels(case):
    """One in forty of the language's forms; `make ptx-wild` runs all of them."""
    wild = case.build / "tests" / "forms" / "wild"
    done = case.run([sys.executable, "-B", FORMS, "--wild", wild, "--every", "40"])
    case.contains(done.out, " 0 kernels did what they must not", "what the runs came to")
