# SPDX-License-Identifier: Apache-2.0
"""kill -9 at the Nth call of a kind, in each process of a pool: a program's result is right
or it fails and says so, whoever starts the killed process again finds everything, and nothing
is left behind.

tests/torture/torture.c kills; TORTURE=N as in test_torture.py.
"""

import os
import signal
import subprocess
import time

from harness import proc
from harness.cudash import SUCCESS
from harness.pool import SCHEDULER, SERVER, WORKER
from test_adopt import KEEPER, Kept, used
from test_torture import FAILED, KINDS, RIGHT, RUN, Page, places

MIB = 1 << 20
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


class Kills:
    def __init__(self, case, program):
        if case.sanitizer:
            case.skip("the runtimes of sanitizers allocate by themselves")
        self.case, self.program = case, program
        self.folder = case.build / "tests" / "torture"
        self.page = Page(case.folder / "torture")
        preload = {"LD_PRELOAD": str(self.folder / "libtorture.so"),
                   "TORTURE_PAGE": str(case.folder / "torture")}
        self.page.arm(program)
        self.kept = Kept(case, env=preload if program not in ("tour", RUN) else {},
                         options=("--lease-ms", "5000"))
        self.pool = self.kept.pool
        self.pool.env = preload if program == RUN else {}
        self.inside = preload if program == "tour" else {}
        self.scheduler = self.pool.pid(SCHEDULER)
        self.scheduler_ready = self.pool._ready_file(proc.command_line(self.scheduler))
        self.start_scheduler = self.pool.starter(self.scheduler)
        self.held = {}  # descriptors of a daemon at rest
        self.killed = self.right = 0

    # ------------------------------------------------------------ programs --

    def tour(self):
        """Run the program once, and start what dies meanwhile again; the exit status."""
        words = ["env", *(f"{key}={value}" for key, value in self.inside.items()),
                 self.folder / "tour"]
        with open(self.case.folder / "tour.out", "w+", encoding="utf-8") as out:
            run = self.pool.spawn(*words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            end = time.monotonic() + 3 * self.case.patience
            while run.poll() is None:
                self.case.check(time.monotonic() < end, "the program does not end")
                self.mend()
                time.sleep(0.01)
            out.seek(0)
            self.words = out.read()
        self.case._processes.remove(run)
        return run.returncode

    def mend(self):
        if not proc.is_alive(self.scheduler):
            proc.reap()
            self.scheduler = self.start_scheduler().pid
            self.case.wait_for(lambda: os.path.exists(self.scheduler_ready),
                               "the scheduler listens")
        if self.pool._gone(self.kept.server):
            if os.path.exists(self.kept.ready):
                os.unlink(self.kept.ready)
            self.kept.start()

    def stands(self):
        """Do both daemons run?  One that has counted the call it is killed at may die only
        after it was found alive."""
        self.mend()
        asked = self.pool.cli("status", "--json", status=None)
        return asked.status == 0 and self.pool._is_alive(self.kept.server)

    # -------------------------------------------------------------- sweeps --

    def sweep(self, act, settled, deadly=1):
        """@act() is what is done while calls are counted, @settled(words) checks what has to
        be as before.  @deadly 0: the calls fail instead."""
        self.page.arm(self.program)
        act()
        settled("without kills")
        calls = self.page.calls()
        for kind, name in enumerate(KINDS):
            for at in places(calls[kind]):
                words = (f"{self.program} is killed at call {at} of kind {name}" if deadly else
                         f"{self.program}: call {at} of kind {name} fails")
                print(words, flush=True)
                self.page.arm(self.program, kind, at, deadly=deadly)
                act(words)
                self.killed += self.page.failed()
                self.page.arm(self.program)
                settled(words)
        self.page.arm(self.program)
        act()
        print(f"{self.program}: {self.killed} {'kills' if deadly else 'faults'}, after which "
              f"{self.right} programs were right", flush=True)

    def run(self, words=None):
        status = self.tour()
        if not words:
            self.case.equal(status, RIGHT, f"a run without kills: {self.words}")
            return
        self.right += status == RIGHT
        own = KILLED + (-signal.SIGTERM,) if self.program in (RUN, "tour") else ()
        bad = FAILED + (1,) if "gpupool: run:" in self.words else FAILED
        self.case.check(status in (RIGHT, *bad, *own), f"{words}: {status}: {self.words}")
        self.case.check(status in (RIGHT, *own) or self.words.strip(),
                        f"{words}: it ended without a word")

    def settled(self, words):
        """Nothing of the program is left, and daemons that live hold what they held."""
        case, pool = self.case, self.pool
        starts = self.kept.starts
        case.wait_for(self.stands, f"{words}: the scheduler knows the server")
        case.check(self.kept.starts - starts <= 1, f"{words}: the server dies again and again")
        case.wait_for(lambda: not pool.pids("tour"), f"{words}: a program is left")
        case.wait_for(lambda: not pool.workers(), f"{words}: a worker is left")
        case.wait_for(lambda: not pool.status()["servers"][0]["cards"][0]["fault"],
                      f"{words}: the card stays out of use")
        case.wait_for(lambda: not pool.sessions(), f"{words}: a session is left")
        case.equal(used(pool), 0, f"{words}: memory in use")
        keepers = self.kept.keepers()
        case.equal(len(keepers), 1, f"{words}: keepers")
        for pid in (self.scheduler, self.kept.server, *keepers):
            if pid in self.held:
                case.wait_for(lambda pid=pid: len(pool.lasting(pid)) <= self.held[pid],
                              lambda pid=pid: f"{words}: {pid} held {self.held[pid]} descriptors, "
                                              f"now {pool.lasting(pid)}")
            else:
                self.held[pid] = len(pool.lasting(pid))


def kills(case, program, deadly=1):
    sweep = Kills(case, program)
    sweep.sweep(sweep.run, sweep.settled, deadly)


def test_client_that_is_killed_at_any_call_leaves_nothing(case):
    kills(case, "tour")


def test_worker_that_is_killed_at_any_call_leaves_nothing(case):
    kills(case, WORKER)


def test_server_that_is_killed_at_any_call_has_a_successor_that_goes_on(case):
    kills(case, SERVER)


def test_scheduler_that_is_killed_at_any_call_goes_on_when_started_again(case):
    kills(case, SCHEDULER)


def test_keeper_that_is_killed_at_any_call_leaves_nothing(case):
    kills(case, KEEPER)


def test_gpupool_run_that_is_killed_at_any_call_leaves_nothing(case):
    kills(case, RUN)


def test_calls_of_the_keeper_that_fail_leave_nothing(case):
    """It may end then, as it may when it is killed, and the server with it, which a service
    manager starts again."""
    kills(case, KEEPER, deadly=0)


class Living(Kills):
    """A program that has memory with a known word in it, while a daemon is started again and
    again, and killed while it starts."""

    def __init__(self, case, program):
        super().__init__(case, program)
        self.session = self.pool.session(memory="64MiB")
        self.shell = self.kept.shell(self.session, "tcp")
        self.memory = self.shell.ok("alloc", MIB)
        self.shell.ok("store", self.memory, 0, 4711)
        self.sessions = [session["name"] for session in self.pool.sessions()]

    def start_server(self, words=None):
        self.kept.kill()
        self.page.arm(self.program, *self.page.armed())
        process = self.kept.start(wait=False)
        self.case.wait_for(lambda: os.path.exists(self.kept.ready) or process.poll() is not None,
                           f"{words}: it neither dies nor listens")
        self.kept.server = process.pid

    def start_scheduler_anew(self, words=None):
        self.pool.kill(self.scheduler)
        self.page.arm(self.program, *self.page.armed())
        process = self.start_scheduler()
        self.case.wait_for(lambda: process.poll() is not None or
                           os.path.exists(self.scheduler_ready),
                           f"{words}: it neither dies nor listens")
        self.scheduler = process.pid

    def settled(self, words):
        self.page.arm(self.program)
        self.mend()
        self.kept.alive()
        self.case.equal(self.shell("peek", self.memory, 0)[:2], [SUCCESS, 4711], words)
        again = self.shell.ok("alloc", MIB)
        self.case.equal(self.shell("free", again)[0], SUCCESS, f"{words}: free")
        self.case.equal([session["name"] for session in self.pool.sessions()], self.sessions,
                        f"{words}: sessions")
        self.case.equal(len(self.pool.workers()), 1, f"{words}: workers")


def test_successor_that_is_killed_while_it_adopts_has_a_successor(case):
    living = Living(case, SERVER)
    living.sweep(living.start_server, living.settled)


def test_scheduler_that_is_killed_while_it_loads_its_state_loses_none(case):
    living = Living(case, SCHEDULER)
    living.sweep(living.start_scheduler_anew, living.settled)
