# SPDX-License-Identifier: Apache-2.0
"""Calls that need no answer: when one fails, the program learns it at its next wait."""

import re

from harness.fault_driver import FaultDriver


def test_first_error_of_every_unanswered_call_is_seen_and_once(case):
    driver = FaultDriver(case)
    done = driver.pool().run(case.programs / "deferred", driver.control, env=driver.env, status=None)
    print(done.out)
    case.equal(done.status, 0, f"exit status; it said\n{done.out}{done.err}")
    found = re.search(r"^(\d+) seen, 0 lost, 0 seen twice, 0 not reached$", done.out, re.M)
    case.check(found, f"not every call was made to fail and seen:\n{done.out}")
    case.check(int(found[1]) >= 2 * 130, f"only {int(found[1]) // 2} calls need no answer")
