# SPDX-License-Identifier: Apache-2.0
"""Calls fail one by one in one process of a pool: a program ends with the right result or
with an error that says so, the daemons live on, and nothing is left behind.

tests/torture/torture.c makes the calls fail.  TORTURE=N tries N places of each kind of
call, spread over all of them; `all` tries every one.
"""

import mmap
import os
import random
import struct
import time

from harness import proc
from harness.pool import SCHEDULER, SERVER, WORKER

KINDS = ("memory", "send", "receive", "system")
PLACES = os.environ.get("TORTURE", "2")
SEED = int(os.environ.get("GPUPOOL_SEED", "1"))
# struct torture_page of tests/torture/torture.h.
STRUCT = struct.Struct(f"<32sIIQII{len(KINDS)}QQ")
FOREVER = 0xffffffff
RUN = "gpupool"  # run
# Right; wrong result, which must not be; a CUDA call failed, or `gpupool run`.
RIGHT, FAILED = 0, (2, 3, 4, 5, 126, 127)


class Page:
    """What is to fail where, shared with the processes."""

    def __init__(self, path):
        path.write_bytes(bytes(STRUCT.size))
        path.chmod(0o666)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), STRUCT.size)

    def arm(self, program, kind=0, at=0, count=1, deadly=0):
        self.map[:] = STRUCT.pack(program.encode(), kind, count, at, deadly, 0,
                                  *[0] * len(KINDS), 0)

    def armed(self):
        """(kind, at, count, deadly), for arm()."""
        _, kind, count, at, deadly, *_ = STRUCT.unpack(self.map[:])
        return kind, at, count, deadly

    def calls(self):
        return STRUCT.unpack(self.map[:])[6:6 + len(KINDS)]

    def failed(self):
        return STRUCT.unpack(self.map[:])[-1]


def places(calls):
    """Which of @calls are to fail."""
    if PLACES == "all" or calls <= int(PLACES):
        return range(1, calls + 1)
    part = calls / int(PLACES)
    choose = random.Random(SEED)
    return [1 + int(part * (i + choose.random())) for i in range(int(PLACES))]


class Torture:
    def __init__(self, case, program):
        if case.sanitizer:
            case.skip("the runtimes of sanitizers allocate by themselves")
        self.case, self.program = case, program
        self.folder = case.build / "tests" / "torture"
        self.page = Page(case.folder / "torture")
        self.preload = {"LD_PRELOAD": str(self.folder / "libtorture.so"),
                        "TORTURE_PAGE": str(case.folder / "torture")}
        self.page.arm(program)
        self.done = self.right = 0
        daemons = self.preload if program not in ("tour", RUN) else {}
        self.pool = case.pool(env=daemons)
        self.pool.env = self.preload if program == RUN else {}

    def tour(self):
        """Run the program once; its exit status, or None when it did not end."""
        env = self.preload if self.program == "tour" else {}
        words = ["env", *(f"{key}={value}" for key, value in env.items()),
                 self.folder / "tour"]
        result = proc.run([self.pool.gpupool, "run", "--core", 30, "--memory", "256MiB", "--",
                           *words], self.case.patience * 3,
                          env=self.case.environment(self.pool.env), cwd=self.case.folder)
        self.last = result
        return result.status

    def sweep(self):
        self.page.arm(self.program)
        self.case.equal(self.tour(), RIGHT, f"a run without faults: {self.last}")
        self.settled()
        calls = self.page.calls()
        for kind, name in enumerate(KINDS):
            for at in places(calls[kind]):
                for count in (1, FOREVER):
                    self.fault(kind, name, at, count)
        self.page.arm(self.program)
        self.case.equal(self.tour(), RIGHT, f"a run after all faults: {self.last}")
        print(f"{self.program}: {self.done} faults, {self.right} of them without effect",
              flush=True)

    def fault(self, kind, name, at, count):
        words = f"{self.program}: call {at} of kind {name} fails" + ("" if count == 1 else
                                                                 ", and all after it")
        print(words, flush=True)
        status = self.armed_tour(kind, at, count)
        failed = self.page.failed()
        self.page.arm(self.program)
        # 1 is a wrong result of the program's, but a failure that `gpupool run` names.
        bad = FAILED + (1,) if "gpupool: run:" in self.last.err else FAILED
        self.case.check(status == RIGHT or status in bad, f"{words}: {self.last}")
        if status == RIGHT:
            self.right += 1
        else:
            self.case.check(failed > 0 and self.last.err.strip(),
                            f"{words}: it ended without a word, or nothing failed: {self.last}")
        self.done += failed > 0
        self.settled(words)

    def armed_tour(self, kind, at, count):
        """Again, where a server that has registered just now ends what is left of the run
        before: that one places nothing meanwhile."""
        for _ in range(50):
            self.page.arm(self.program, kind, at, count)
            status = self.tour()
            if "still ending old sessions" not in self.last.err:
                break
            time.sleep(0.1)
        return status

    def settled(self, words="a run without faults"):
        """Daemons live, no worker and no session is left."""
        for daemon in (SCHEDULER, SERVER):
            self.case.check(self.pool.pids(daemon), f"{words}: no {daemon} any more")
        self.case.wait_for(lambda: not self.pool.workers(), f"{words}: a worker is left")
        self.case.wait_for(self.at_rest, f"{words}: a session is left, the server is lost, or "
                           "its card stays out of use")

    def at_rest(self):
        status = self.pool.status()
        return not status["sessions"] and all(
            server["state"] == "alive" and not any(card["fault"] for card in server["cards"])
            for server in status["servers"])


def test_client_bears_calls_that_fail(case):
    Torture(case, "tour").sweep()


def test_worker_bears_calls_that_fail(case):
    Torture(case, WORKER).sweep()


def test_descriptor_that_a_worker_does_not_get_is_not_taken_for_the_next(case):
    """Page-locked memory of a client on the same host comes as a descriptor.  One that is
    left in the socket was taken for that of the next piece, and the program's results came
    to lie in another buffer: the end of the connection is the right answer."""
    torture, receive = Torture(case, WORKER), KINDS.index("receive")
    case.equal(torture.tour(), RIGHT, f"a run without faults: {torture.last}")
    for at in range(1, torture.page.calls()[receive] + 1):
        torture.fault(receive, "receive", at, 1)


def test_worker_that_gets_no_thread_for_a_wait_ends(case):
    """The receive thread noticed that only with the next frame, which a client that waits for
    its answer never sends.  Which waits need a thread depends on the moment."""
    torture, system = Torture(case, WORKER), KINDS.index("system")
    case.equal(torture.tour(), RIGHT, f"a run without faults: {torture.last}")
    calls = torture.page.calls()[system]
    for at in range(max(1, calls - 8), calls + 1):
        torture.fault(system, "system", at, FOREVER)
        torture.fault(system, "system", at, FOREVER)


def test_server_bears_calls_that_fail(case):
    Torture(case, SERVER).sweep()


def test_scheduler_bears_calls_that_fail(case):
    Torture(case, SCHEDULER).sweep()


def test_gpupool_run_bears_calls_that_fail(case):
    Torture(case, RUN).sweep()
