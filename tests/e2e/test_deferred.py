# SPDX-License-Identifier: Apache-2.0
"""Calls that need no answer: when one fails, the program learns it at its next wait."""

import re


def test_first_error_of_every_unanswered_call_is_seen_and_once(case):
    library = case.need_file(case.build / "tests" / "softgpu-fault" / "libfaultdrv.so",
                             "the driver that fails calls is for x86-64 only")
    control = case.folder / "control"
    control.write_bytes(bytes(4096))
    env = {"FAULTDRV_CONTROL": str(control),
           "FAULTDRV_REAL": str(case.build / "lib" / "libsoftgpu.so")}
    pool = case.pool(env=env)
    pool.restart(pool.pid("gpupool-server"), "--driver", str(library))
    done = pool.run(case.programs / "deferred", control, env=env, status=None)
    print(done.out)
    case.equal(done.status, 0, f"exit status; it said\n{done.out}{done.err}")
    found = re.search(r"^(\d+) seen, 0 lost, 0 seen twice, 0 not reached$", done.out, re.M)
    case.check(found, f"not every call was made to fail and seen:\n{done.out}")
    case.check(int(found[1]) >= 130, f"only {found[1]} calls need no answer")
