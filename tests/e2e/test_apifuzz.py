# SPDX-License-Identifier: Apache-2.0
"""Random programs give the same on a software card and on a slice of one (docs/fuzzing.md)."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "apifuzz"


def test_programs_answer_as_on_the_driver_itself(case):
    """Those that differed once, and random ones."""
    done = case.run([sys.executable, "-B", FOLDER / "fuzz.py", "--build", case.build, "--programs", 8,
                     "--program", *sorted((FOLDER / "programs").iterdir())],
                    env={"TMPDIR": str(case.folder)})
    case.contains(done.out, "differences at none", "the last line")
