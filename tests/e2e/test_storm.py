# SPDX-License-Identifier: Apache-2.0
"""Many client processes that attach at once, and a driver that takes long to start."""

import os
import re

from harness.fault_driver import DELAY, FaultDriver

MIB = 1 << 20


def slow_pool(case, milliseconds):
    """A pool of one card whose driver's cuInit takes so long in every worker."""
    driver = FaultDriver(case)
    pool = driver.pool()
    driver.say(DELAY, milliseconds, b"cuInit")
    return pool


def test_worker_that_takes_long_to_start_is_waited_for(case):
    pool = slow_pool(case, 6000)  # the server has looked at the ticket long before
    session = pool.session(memory="64MiB")
    shell = session.cudash()
    shell.begin()
    shell.ok("alloc", MIB)


def starts(pool):
    """Seconds of the day at which workers were started, by the server's log."""
    return [int(hour) * 3600 + int(minute) * 60 + float(second) for hour, minute, second in
            re.findall(r"^(\d+):(\d+):([\d.]+) .*: attached, worker", pool.log(), re.M)]


def test_workers_of_a_storm_start_some_at_a_time_and_all_of_them(case):
    most = max(8, 4 * os.cpu_count())
    pool = slow_pool(case, 1200)
    session = pool.session(memory="512MiB")
    programs = [case.spawn([case.programs / "vecadd"], env=session.env)
                for _ in range(most + 4)]
    for program in programs:
        case.equal(program.wait(case.patience), 0, "status of a program")
    times = starts(pool)
    case.equal(len(times), most + 4, "workers")
    # One more starts when one of the first has, which takes that long.
    case.check((times[most] - times[0]) % 86400 > 1.1, f"starts at {times}")
    case.wait_for(lambda: not pool.workers(), "all workers have ended")
