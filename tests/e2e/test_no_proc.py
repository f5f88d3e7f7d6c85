# SPDX-License-Identifier: Apache-2.0
"""Without /proc, as in many a chroot: programs run on the cards of others, and who wants a
pool there is told why there is none."""

import subprocess

HIDDEN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")


def need_namespace(case):
    if subprocess.run([*HIDDEN, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        case.skip("cannot hide /proc in a mount namespace (root)")


def test_programs_run_without_proc(case):
    need_namespace(case)
    pool = case.pool()
    for transport in ("tcp", "shm"):
        done = case.run([*HIDDEN, pool.gpupool, "run", "--core", 30, "--memory", "64MiB", "--",
                         case.programs / "vecadd"], env={"GPUPOOL_TRANSPORT": transport})
        case.contains(done.out, ": ok", f"the result over {transport}")
        case.equal(done.err, "", f"words over {transport}")
    doctor = case.run([*HIDDEN, pool.gpupool, "doctor"])
    case.contains(doctor.out, f"ok    library: {case.build}/lib/libcuda.so.1", "what doctor finds")


def test_up_says_that_proc_is_not_mounted(case):
    need_namespace(case)
    done = case.run([*HIDDEN, case.build / "bin" / "gpupool", "up"], status=1)
    case.contains(done.err, "/proc is not mounted", "why there is no pool")
