# SPDX-License-Identifier: Apache-2.0
"""Calls that need no answer: when one fails, the program learns it at its next wait."""

import json
import re

from harness.fault_driver import FaultDriver

NOT_PERMITTED = 800
ASKED = ("cuMemGetInfo_v2", "cuCtxSynchronize")  # the calls of deferred.c that wait


def test_first_error_of_every_unanswered_call_is_seen_and_once(case):
    driver = FaultDriver(case)
    done = driver.pool().run(case.programs / "deferred", driver.control, env=driver.env, status=None)
    print(done.out)
    case.equal(done.status, 0, f"exit status; it said\n{done.out}{done.err}")
    found = re.search(r"^(\d+) seen, 0 lost, 0 seen twice, 0 not reached$", done.out, re.M)
    case.check(found, f"not every call was made to fail and seen:\n{done.out}")
    case.check(int(found[1]) >= 2 * 130, f"only {int(found[1]) // 2} calls need no answer")


def test_call_that_failed_after_it_had_returned_is_named(case):
    """The next call that waits returns its error; doctor and the log say whose it is."""
    driver = FaultDriver(case)
    pool = driver.pool()
    done = pool.cli("doctor", "--json", "--", case.programs / "deferred", driver.control,
                    env={**driver.env, "GPUPOOL_LOG": "call:warn"})
    failed = [f for f in json.loads(done.out)["findings"] if f.get("code") == NOT_PERMITTED]
    returned = sum(f["count"] for f in failed if f["call"] in ASKED)
    late = re.search(r"(\d+) came late", done.out + done.err)
    case.check(late, f"the program did not say how many errors came late:\n{done.out}{done.err}")
    case.equal(returned, int(late[1]), "calls that failed late, by doctor and by the program")
    # Those of the other calls that are posted wait where the driver may refuse them.
    case.check(returned >= 2 * 119, f"only {returned} calls failed late")
    deferred = {f["call"]: f["count"] for f in failed if f["deferred"]}
    case.equal(sum(deferred.values()), returned, "errors whose call doctor names")
    case.check(not set(deferred) & set(ASKED), f"a call that waits is named: {deferred}")
    for call in ("cuLaunchKernel", "cuMemFree_v2", "cuModuleUnload", "cuMemcpyHtoDAsync_v2"):
        case.check(call in deferred, f"{call} is not named")
    case.equal(done.err.count("after it had returned; the next call that waits returns the error"),
               returned, "lines of the log")
    traced = pool.run(case.programs / "deferred", driver.control,
                      env={**driver.env, "GPUPOOL_TRACE": "1"})
    case.contains(traced.err, "  cuMemFree_v2 has failed since: CUDA_ERROR_NOT_PERMITTED (800)",
                  "the trace")
