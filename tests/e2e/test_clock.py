# SPDX-License-Identifier: Apache-2.0
"""The wall clock jumps by an hour or a day, either way, on the scheduler's host, on the
server's, on both: no session ends, no request loses its turn, no old ticket is good again.

tests/torture/clock.c moves the clock.  GPUPOOL_CHAOS=1 tries every jump.
"""

import json
import mmap
import os
import re
import signal
import struct

from harness import Cudash
from test_full_disk import LEASES, renewed
from test_queue import waiting

MIB = 1 << 20
HOUR, DAY = 3600, 86400
JUMPS = (HOUR, -HOUR, DAY, -DAY)
# Of the scheduler's clock and the server's.
PAIRS = ((DAY, 0), (0, -HOUR), (-DAY, -DAY))
if "GPUPOOL_CHAOS" in os.environ:
    PAIRS = [(a * jump, b * jump) for jump in JUMPS for a, b in ((1, 0), (0, 1), (1, 1), (1, -1))]


class Clock:
    """.scheduler and .server are how far ahead the clocks are, in seconds."""

    def __init__(self, case):
        if case.sanitizer:
            case.skip("the runtimes of sanitizers want to be loaded first")
        path = case.folder / "clock"
        path.write_bytes(bytes(16))
        path.chmod(0o644)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 16)
        self.preload = {"LD_PRELOAD": str(case.build / "tests" / "torture" / "libclock.so"),
                        "CLOCK_PAGE": str(path)}

    def jump(self, scheduler, server):
        self.map[:] = struct.pack("<qq", scheduler, server)
        print(f"clocks: scheduler {scheduler:+} s, server {server:+} s", flush=True)


def test_jumps_of_the_clock_end_no_session(case):
    clock = Clock(case)
    pool = case.pool(env=clock.preload, options=LEASES)
    session = pool.session(memory="64MiB", options=["--time=1h"])
    name = session.field("session")
    shell = Cudash(case, case.spawn([case.programs / "cudash"], env=session.env)).begin()
    memory = shell.ok("alloc", MIB)
    shell.ok("store", memory, 0, 4711)
    for scheduler, server in PAIRS:
        clock.jump(scheduler, server)
        renewed(case, pool, name)
        case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
        if scheduler == server:
            # A process that came before the renewal showed a ticket of another time.  The new
            # one is signed and written after the scheduler has begun to count the lease anew.
            case.wait_for(lambda: session.run(case.programs / "vecadd", status=None).status == 0,
                          "a ticket of the servers' time in the session file")
            pool.run(case.programs / "vecadd", core=10)
    print(f"chaos: {len(PAIRS)} jumps of the clock, sessions lost "
          f"{1 - len(pool.sessions())}", flush=True)
    case.equal([s["name"] for s in pool.sessions()], [name], "sessions")
    case.wait_for(lambda: pool.sessions()[0]["attachments"] == 1, "attachments")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: pool.sessions() == [], "the session is closed")


def test_clock_that_jumps_back_lets_no_old_ticket_in(case):
    clock = Clock(case)
    pool = case.pool(env=clock.preload)
    session = pool.session(memory="64MiB")
    session.run(case.programs / "vecadd")
    old = case.folder / "old.session"
    with open(session.file, encoding="utf-8") as file:
        old.write_text(file.read())
    old.chmod(0o600)
    clock.jump(0, DAY)  # of a session that lives
    case.contains(session.run(case.programs / "vecadd", status=None).err, "expired ticket",
                  "a ticket that was good a day ago")
    clock.jump(0, -DAY)
    case.contains(session.run(case.programs / "vecadd", status=None).err, "not valid yet",
                  "a ticket that will be good tomorrow")
    clock.jump(0, 0)
    session.run(case.programs / "vecadd")
    env = {**session.env, "GPUPOOL_SESSION_FILE": str(old)}
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: pool.sessions() == [], "the session is closed")
    for jump in JUMPS:
        clock.jump(jump, jump)
        result = case.run([case.programs / "vecadd"], env=env, status=None)
        case.check(result.status != 0, "a ticket of a closed session is good")
    clock.jump(HOUR, HOUR)
    clock.jump(0, 0)  # back into the time of the ticket
    result = case.run([case.programs / "vecadd"], env=env, status=None)
    case.contains(result.err, "closed", "the refusal")
    case.equal((pool.workers(), pool.sessions()), ([], []), "workers and sessions")


def test_request_keeps_its_turn_when_the_clock_jumps_back(case):
    clock = Clock(case)
    pool = case.pool(env=clock.preload)
    holder = pool.session(core=80)
    runs = []
    for number, jump in enumerate((0, -DAY, DAY, -HOUR)):
        clock.jump(jump, jump)
        runs.append(pool.spawn("sh", "-c", f"echo {number} >>{case.folder}/turns", core=60,
                               options=["--wait"]))
        waiting(pool, number + 1)
    holder.close()
    case.equal([run.wait(case.patience) for run in runs], [0] * len(runs), "exit statuses")
    case.equal((case.folder / "turns").read_text().split(), ["0", "1", "2", "3"], "turns")


def test_clock_of_a_server_that_is_wrong_is_named(case):
    clock = Clock(case)
    pool = case.pool(env=clock.preload, options=LEASES)
    for jump, words, refused in ((HOUR, "ahead of", "expired ticket"),
                                 (-HOUR, "behind", "not valid yet")):
        clock.jump(0, jump)
        case.wait_for(lambda: re.search(rf"the clock of this host is 3\d\d\d s {words} that of "
                                        "the scheduler: tickets are refused", pool.log()),
                      lambda: f"the server's log:\n{pool.log()}")
        done = pool.run(case.programs / "vecadd", core=10, status=None)
        case.contains(done.err, refused, "why the program gets no card")
        case.check(re.search(rf"; the server's clock is 3\d\d\d s {words} the scheduler's", done.err),
                   f"the cause is not named: {done.err}")
        agrees = pool.log().count("agrees with that of the scheduler again")
        clock.jump(jump, jump)
        case.wait_for(lambda: pool.log().count("agrees with that of the scheduler again") > agrees,
                      "the clocks agree")
        pool.run(case.programs / "vecadd", core=10)


def test_clock_that_is_months_ahead_for_a_while_costs_no_accounts(case):
    clock = Clock(case)
    pool = case.pool(env=clock.preload)

    def owners():
        return [row["owner"] for row in json.loads(
            pool.cli("usage", "--since", "2020-01-01", "--json").out)["usage"]]

    def used(owner):
        case.wait_for(lambda: pool.run("true", options=["--owner", owner],
                                       status=None).status == 0, "the pool is there")
        case.wait_for(lambda: f"{owner}@" in " ".join(owners()) or owner in owners(),
                      lambda: f"accounts of {owner}: {owners()}")

    used("ada")
    clock.jump(200 * DAY, 200 * DAY)
    used("bob")  # a tick of the scheduler, and more, by that clock
    case.check("ada" in " ".join(owners()), f"forgotten: {owners()}")
    pid = pool.pid("gpupool-scheduler")
    start = pool.starter(pid)
    pool.kill(pid, signal.SIGTERM)  # it writes what it has
    case.wait_for(lambda: not pool.pids("gpupool-scheduler"), "the scheduler has ended")
    start()
    used("eve")
    clock.jump(0, 0)
    used("tom")
    case.equal(sorted(name.split("@")[0] for name in owners()), ["ada", "bob", "eve", "tom"],
               "owners that are accounted for")
