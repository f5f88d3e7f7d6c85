# SPDX-License-Identifier: Apache-2.0
"""Processes without a free descriptor: what needs one fails and says so, everything else
goes on, and with descriptors again so does the rest.  Server and scheduler as such are in
test_attacks_flood.py."""

import os
import resource

from harness.pool import SERVER
from test_adopt import Kept
from test_attacks_flood import at_rest, cpu_seconds

MIB = 1 << 20


class Shortage:
    """From now on @pid gets no descriptor, until end()."""

    def __init__(self, case, pid):
        case.wait_for(lambda: at_rest(pid), f"{pid} opens and closes nothing")
        used = set(os.listdir(f"/proc/{pid}/fd"))
        self.pid = pid
        self.before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        room = next(n for n in range(1 << 20) if str(n) not in used)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (room, self.before[1]))

    def end(self):
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, self.before)


def test_keeper_without_descriptors_loses_nobody(case):
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    shell = kept.shell(session, "tcp")
    memory = shell.ok("alloc", MIB)
    shell.ok("store", memory, 0, 4711)
    keeper, = kept.keepers()
    shortage = Shortage(case, keeper)
    refused = session.run(case.programs / "vecadd", status=None)
    case.check(refused.status != 0 and "Too many open files" in refused.err,
               f"a worker that the keeper cannot keep: {refused}")
    case.contains(kept.pool.log(), "the keeper has no descriptor left", "the log")
    case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
    # A successor finds room.
    kept.restart()
    case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
    kept.hand_over()
    # Whoever else comes waits, and the keeper sleeps meanwhile.
    kept.start(wait=False)
    before = cpu_seconds(keeper)
    kept.alive()
    session.run(case.programs / "vecadd", status=None)
    case.check(cpu_seconds(keeper) - before < 0.3, "the keeper spins")
    shortage.end()
    case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
    session.run(case.programs / "vecadd")
    case.equal(len(kept.keepers()), 1, "keepers")


def test_server_without_descriptors_keeps_those_who_are_there(case):
    pool = case.pool()
    session = pool.session(memory="64MiB")
    shell = session.cudash().begin()
    memory = shell.ok("alloc", MIB)
    shell.ok("store", memory, 0, 4711)
    shortage = Shortage(case, pool.pid(SERVER))
    waits = case.spawn([case.programs / "vecadd"], env=session.env)
    case.wait_for(lambda: "cannot accept a connection" in pool.log(), "the log says it")
    case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
    shell.ok("alloc", MIB)
    shortage.end()
    case.equal(waits.wait(case.patience), 0, "exit status of the program that came meanwhile")


def test_workers_with_few_descriptors_run_or_say_why(case):
    """A worker has the server's limit.  From the fewest on that one can be started with:
    its program's result is right, or a call fails with a word about it."""
    pool = case.pool()
    session = pool.session(memory="256MiB")
    server = pool.pid(SERVER)
    _, most = resource.prlimit(server, resource.RLIMIT_NOFILE)
    tour = case.build / "tests" / "torture" / "tour"
    right = 0
    files = max(pool.files(server)) + 1
    while right < 2:
        resource.prlimit(server, resource.RLIMIT_NOFILE, (files, most))
        for transport in ("tcp", "shm"):
            run = session.run(tour, status=None, env={"GPUPOOL_TRANSPORT": transport,
                                                      "GPUPOOL_ATTACH_SECONDS": "1"})
            case.check(run.status in (0, 2) and (run.status == 0 or run.err.strip()),
                       f"{files} descriptors: {run}")
            right = right + 1 if run.status == 0 else 0
            case.wait_for(lambda: not pool.workers(), "a worker is left")
        files += 3
    print(f"{files - 3} descriptors are enough", flush=True)
    resource.prlimit(server, resource.RLIMIT_NOFILE, (most, most))
    case.check(pool.pids(SERVER) == [server], "the server has ended")


def test_program_with_few_descriptors_runs_or_says_why(case):
    """From as many as its start needs up: never without a word."""
    if case.sanitizer:
        case.skip("the runtimes of sanitizers need descriptors and wait for them")
    pool = case.pool()
    session = pool.session(memory="64MiB")
    told = 0
    for transport in ("tcp", "shm"):
        for files in range(4, 20):  # 3 are not enough for the dynamic linker
            run = case.run(["sh", "-c", f"ulimit -n {files}; exec {case.programs}/vecadd"],
                           env={**session.env, "GPUPOOL_TRANSPORT": transport}, status=None)
            if run.status == 0:
                break
            case.contains(run.err, "Too many open files", f"{transport}, {files} descriptors")
            told += 1
        case.equal(run.status, 0, f"{transport}: {files} descriptors are not enough")
    case.check(told, "nobody said that there are too few")
    case.wait_for(lambda: not pool.workers(), "no worker is left")
    few = pool.cli("run", "--core", 10, "--memory", "64MiB", "--", "sh", "-c",
                   f"ulimit -n {files}; exec {case.programs}/vecadd",
                   env={"GPUPOOL_TRANSPORT": transport})
    case.equal(few.status, 0, "the same under gpupool run")
