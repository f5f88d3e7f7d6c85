# SPDX-License-Identifier: Apache-2.0
"""Random programs give the same on a software card and on a slice of one (docs/fuzzing.md)."""

import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[1] / "apifuzz" / "fuzz.py"


# The first of three in a row; each fourth differs, see docs/fuzzing.md.
SEEDS = (1, 5)


def run(case, *options, **how):
    return case.run([sys.executable, "-B", TOOL, "--build", case.build, *options],
                    env={"TMPDIR": str(case.folder)}, **how)


def test_random_programs_answer_as_on_the_driver_itself(case):
    for seed in SEEDS:
        done = run(case, "--programs", 3, "--seed", seed)
        case.contains(done.out, "differences at seeds none", "the last line")

