# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of client, worker, server and scheduler: nothing hangs, nothing leaks,
and `status` is true again within the heartbeat time."""

import os
import random
import signal
import time

from harness import proc
from harness.pool import SCHEDULER
from test_adopt import KEEPER, Kept, used

MIB = 1 << 20
SEED = int(os.environ.get("GPUPOOL_SEED", "1"))
HEARTBEAT_S = 2
# Of `make test-chaos`.
KILLS = 60
# Right; wrong results; a CUDA call failed, `gpupool run` found no place or lost its program.
RIGHT, WRONG, FAILED = 0, 1, (2, 3, 4, 5, 137, -signal.SIGKILL)


def attachments(pool):
    return sum(session["attachments"] for session in pool.sessions())


def spinning(case, session):
    """A Cudash whose kernel never ends, with a call waiting for it."""
    shell = session.cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", MIB)
    shell.ok("store", slot, 0, 7)
    shell.ok("launch", "spin", 1, 32, slot, 7)
    shell.send("sync")
    return shell


def own_files(pool, server):
    """Open files of the server without its sessions' memory: it keeps that for a while
    after the last client, to be there for the next."""
    return len([what for what in pool.files(server).values()
                if "gpupool-session" not in what and "gpupool-kept" not in what])


def test_daemon_outlives_a_peer_that_is_gone_when_it_writes(case):
    pool = case.pool()
    for pid in pool.daemons():
        case.check(proc.ignores(pid, signal.SIGPIPE), f"SIGPIPE ends {proc.program_of(pid)}")


def test_killed_client_leaves_nothing_even_while_its_kernel_spins(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    server = pool.pid("gpupool-server")
    before = own_files(pool, server)
    shell = spinning(case, session)
    case.equal(len(pool.workers()), 1, "workers")
    pool.kill(shell.process.pid)
    case.wait_for(lambda: not pool.workers(), "the worker of a killed client is gone")
    case.wait_for(lambda: attachments(pool) == 0, "status shows no attachment")
    case.wait_for(lambda: own_files(pool, server) == before, lambda:
                  f"descriptors of the server: {before} before, {pool.files(server)} now")
    session.run(case.programs / "vecadd")


def test_killed_worker_fails_its_client_and_nobody_else(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    victim = session.cudash().begin()
    first = set(pool.workers())
    other = session.cudash().begin()
    other.ok("alloc", MIB)
    case.equal(len(first), 1, "workers of the first client")
    pool.kill(first.pop())
    result, *_ = victim("alloc", MIB)
    case.check(result != 0, "a call after the worker's death succeeded")
    case.equal(victim("sync")[0], victim("info")[0], "every later call says the same")
    case.check(victim("sync")[0] != 0, "a later call succeeded")
    case.equal(victim.close(), 0, "the program itself goes on to its end")
    other.ok("alloc", MIB)
    case.wait_for(lambda: attachments(pool) == 1, "status shows the one that lives")
    session.run(case.programs / "vecadd")


def test_killed_server_ends_its_workers_and_is_shown_as_gone(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=50, memory="64MiB")
    client = session.cudash().begin()
    server = pool.pid("gpupool-server")
    pool.kill(server)
    killed = time.monotonic()
    result, *_ = client("info")
    case.check(result != 0, "a call after the server's death succeeded")
    case.wait_for(lambda: not pool.workers(), "its workers are gone")
    # Whoever asks two seconds after its end is not told that it lives.
    asked, state = killed, "alive"
    while state == "alive":
        case.check(asked - killed < HEARTBEAT_S, f"alive {asked - killed:.1f} s after its end")
        asked, state = time.monotonic(), pool.status()["servers"][0]["state"]


def test_restarted_server_serves_again(case):
    pool = case.pool(servers=1, cards=1)
    server = pool.pid("gpupool-server")
    pool.run(case.programs / "vecadd")
    pool.restart(server)
    pool.run(case.programs / "vecadd")


def test_killed_scheduler_leaves_running_sessions_alone_and_finds_them_again(case):
    pool = case.pool(servers=2, cards=1)
    session = pool.session(core=50, memory="64MiB")
    client = session.cudash().begin()
    name = pool.sessions()[0]["name"]
    pool.restart(pool.pid("gpupool-scheduler"))
    client.ok("alloc", MIB)
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: len([item for item in pool.status()["servers"]
                               if item["state"] == "alive"]) == 2, "both servers are back")
    case.equal([item["name"] for item in pool.sessions()], [name], "sessions")
    case.wait_for(lambda: attachments(pool) == 1, "and its attachment")
    client.ok("alloc", MIB)
    case.equal(client.close(), 0, "exit status of the client")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: pool.sessions() == [], "the session is closed")


def test_killed_gpupool_run_gives_its_slice_back(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=90, memory="64MiB")
    pool.kill(session.process.pid)
    case.wait_for(lambda: pool.sessions() == [],
                  "the lease of a killed gpupool run ends", patience=case.patience * 3)
    pool.run("true", core=90)


def test_astray_kernel_ends_its_own_process_only(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    astray, other = session.cudash().begin(), session.cudash().begin()
    astray.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = astray.ok("alloc", MIB)
    astray("launch", "astray", 1, 32, slot, 7)
    case.equal(astray("sync")[0], 700, "CUresult (CUDA_ERROR_ILLEGAL_ADDRESS)")
    case.equal(astray("alloc", MIB)[0], 700, "the context stays lost")
    other.ok("alloc", MIB)
    session.run(case.programs / "vecadd")


def test_down_ends_everything_with_programs_still_running(case):
    pool = case.pool(servers=2, cards=2)
    session = pool.session(core=50, memory="64MiB")
    spinning(case, session)
    pool.stop()
    for program in ("gpupool-scheduler", "gpupool-server", "gpupool-worker"):
        case.equal(pool.pids(program), [], f"{program} processes after down")


class Kills:
    """A pool whose processes are killed while a program runs."""

    def __init__(self, case):
        self.case = case
        self.kept = Kept(case)
        self.pool = self.kept.pool
        self.rnd = random.Random(SEED)
        self.killed, self.right, self.wrong, self.failed = {}, 0, 0, 0
        self.tour = case.build / "tests" / "torture" / "tour"
        began = time.monotonic()
        self.program().wait(case.patience)
        self.seconds = time.monotonic() - began
        self.at_first = self.settled()

    def program(self):
        return self.pool.spawn(self.tour, core=40, stdout=None,
                               env={"GPUPOOL_TRANSPORT": self.rnd.choice(("tcp", "shm"))})

    def settled(self):
        """What descriptors the daemons have once nothing of the program is left."""
        case, pool = self.case, self.pool
        self.kept.alive()
        case.wait_for(lambda: not pool.workers(), "a worker is left")
        case.wait_for(lambda: not pool.sessions(), "a session is left",
                      patience=3 * case.patience)
        case.equal(used(pool), 0, "memory in use")
        return {name: sorted(pool.lasting(pid).values()) for name, pid in
                ((SCHEDULER, pool.pid(SCHEDULER)), ("server", self.kept.server),
                 (KEEPER, self.kept.keepers()[0]))}

    def left(self):
        """How many descriptors more than at first the daemons have, and go on having: the
        scheduler closes the connection of the command that asked a moment after it ended."""
        end = time.monotonic() + self.case.patience
        while True:
            more = {name: names for name, names in self.settled().items()
                    if len(names) > len(self.at_first[name])}
            if not more or time.monotonic() > end:
                break
            time.sleep(0.1)
        for name, names in more.items():
            print(f"descriptors of {name}: {self.at_first[name]} at first, {names} now", flush=True)
        return sum(len(names) - len(self.at_first[name]) for name, names in more.items())

    def kill(self, who, run):
        """False: it was not there any more."""
        kept, pool = self.kept, self.pool
        if who == "server":
            kept.restart()
        elif who == SCHEDULER:
            pool.restart(pool.pid(SCHEDULER))
        elif who == KEEPER:
            pool.kill(kept.keepers()[0])
            self.case.wait_for(lambda: pool._gone(kept.server), "the server ends")
            if os.path.exists(kept.ready):
                os.unlink(kept.ready)
            kept.start()
        else:
            there = {"client": pool.pids("tour"), "worker": pool.workers(),
                     "gpupool run": [run.pid] if run.poll() is None else []}[who]
            for pid in there:
                proc.kill_all([pid])
            return bool(there)
        return True

    def round(self):
        who = self.rnd.choice(("client", "worker", "gpupool run", "server", SCHEDULER, KEEPER))
        run = self.program()
        time.sleep(self.rnd.uniform(0, 1.2 * self.seconds))
        if self.kill(who, run):
            self.killed[who] = self.killed.get(who, 0) + 1
        status = run.wait(self.case.patience)
        # A program whose `gpupool run` is gone goes on, or ends with its session.
        self.case.wait_for(lambda: not self.pool.pids("tour"), f"{who} was killed: a program is left",
                           patience=3 * self.case.patience)
        print(f"{who} was killed: exit status {status}", flush=True)
        self.case.check(status in (RIGHT, WRONG, *FAILED),
                        f"{who} was killed: exit status {status}")
        self.right += status == RIGHT
        self.wrong += status == WRONG
        self.failed += status in FAILED
        return self.left()


def test_chaos_of_processes_that_are_killed_at_any_moment(case):
    """kill -9 of each process of a pool, each time at another moment of a program's run:
    its result is right or it fails, and afterwards everything is as before."""
    if "GPUPOOL_CHAOS" not in os.environ:
        case.skip("it takes minutes: make test-chaos")
    kills, left, began = Kills(case), 0, time.monotonic()
    for _ in range(KILLS):
        left += kills.round()
    who = ", ".join(f"{name} {count}" for name, count in sorted(kills.killed.items()))
    print(f"chaos: seed {SEED}: {sum(kills.killed.values())} processes killed ({who}) in "
          f"{time.monotonic() - began:.0f} s, {kills.right} programs went on and were right, "
          f"{kills.failed} failed, results wrong {kills.wrong}, descriptors left {left}", flush=True)
    case.equal((kills.wrong, left), (0, 0), "wrong results; descriptors of daemons, beyond "
               "those at the start")
