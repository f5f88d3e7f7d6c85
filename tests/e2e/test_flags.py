# SPDX-License-Identifier: Apache-2.0
"""Flags that host and card poll: they move within a bound, or an attribute says that not."""

from test_programs import local_driver

MOVE = """flags in page-locked memory: ok
flags in much page-locked memory: ok
flags while another thread waits: ok
"""
# Both see the other's stores while the kernel runs; or neither before a wait.
NEAR = """concurrent managed access: 1
managed memory: the card saw 1, the host 7, and 7 after its wait
flags in managed memory: ok
"""
FAR = """concurrent managed access: 0
managed memory: the card saw 0, the host 0, and 7 after its wait
"""


def played(case, env, **options):
    pool = case.pool(**options)
    return pool.run(case.programs / "flags", core=100, memory="1GiB", env=env).out


def test_polled_flags_move_on_a_card_of_its_own(case):
    done = case.run([case.programs / "flags"], env=local_driver(case))
    case.equal(done.out, MOVE + NEAR, "flags on the driver itself")


def test_polled_flags_move_over_tcp(case):
    case.equal(played(case, {"GPUPOOL_TRANSPORT": "tcp"}), MOVE + FAR, "flags over TCP")


def test_polled_flags_move_over_shared_memory(case):
    case.equal(played(case, {"GPUPOOL_TRANSPORT": "shm"}), MOVE + FAR, "flags over shared memory")
