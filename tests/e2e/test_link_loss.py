# SPDX-License-Identifier: Apache-2.0
"""A cable that is pulled: both ends notice in seconds, whatever is under way."""

import signal
import subprocess
import time

from harness import proc
from harness.cudash import DEVICE_UNAVAILABLE, SUCCESS, Cudash
from harness.netns import Cable
from harness.pool import SERVER

TIMEOUT_S = 4
# The timeout, keep-alive's rounding, the interval of checks, and a loaded machine.
NOTICED_S = TIMEOUT_S + 8
MIB = 1 << 20


class Far:
    """A pool here, and a cudash that uses it from the other end of a cable."""

    def __init__(self, case, resume=0):
        self.case = case
        self.resume = resume
        self.cable = Cable(case)
        self.pool = case.pool(env={"GPUPOOL_TRANSPORT": "tcp"}, options=("--listen", self.cable.near))
        self.pool.restart(self.pool.pid(SERVER), "--link-timeout", str(TIMEOUT_S))
        self.session = self.pool.session(memory="600MiB")
        self.shell = self.cudash()

    def cudash(self):
        env = {**self.session.env, "GPUPOOL_TRANSPORT": "tcp",
               "GPUPOOL_LINK_TIMEOUT": f"{TIMEOUT_S}s", "GPUPOOL_RESUME": f"{self.resume}s"}
        return Cudash(self.case, self.case.spawn(
            [*self.cable.far(), self.case.programs / "cudash"], env=env)).begin()

    def noticed(self, words):
        """The program's command fails and the worker ends, both in time."""
        worker, = self.pool.workers()
        start = time.monotonic()
        self.cable.pull()  # again changes nothing
        result = self.shell.answer(words, patience=NOTICED_S)[0]
        self.case.equal(result, DEVICE_UNAVAILABLE, f"{words} over a pulled cable")
        self.case.wait_for(lambda: not proc.is_alive(worker), "the worker outlives its link",
                           patience=NOTICED_S - (time.monotonic() - start))
        # Every later call fails at once.
        with self.case.within(1, "a call after the link was lost"):
            self.case.equal(self.shell("info")[0], DEVICE_UNAVAILABLE, "a call without a link")
        lines = (self.case.folder / "spawned.err").read_text().splitlines()
        self.case.contains(" ".join(line for line in lines if "is lost" in line),
                           "session s1 is lost: the server's host has acknowledged nothing "
                           f"for {TIMEOUT_S} s (GPUPOOL_LINK_TIMEOUT)", "the program's words")


def test_cable_pulled_under_copies_is_noticed_in_seconds(case):
    far = Far(case)
    memory = far.shell.ok("alloc", 64 * MIB)
    far.shell.send("copies", memory, 64 * MIB, 1000000)
    worker, = far.pool.workers()
    busy = proc.cpu_ticks(worker)
    case.wait_for(lambda: proc.cpu_ticks(worker) > busy + 20, "copies are under way")
    far.noticed(("copies",))


def test_cable_pulled_under_launches_is_noticed_in_seconds(case):
    far = Far(case)
    memory = far.shell.ok("alloc", MIB)
    far.shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    far.shell.send("flood", memory, 1000000000)
    worker, = far.pool.workers()
    busy = proc.cpu_ticks(worker)
    case.wait_for(lambda: proc.cpu_ticks(worker) > busy + 20, "launches are under way")
    far.noticed(("flood",))


def test_cable_pulled_before_a_call_is_noticed_in_seconds(case):
    """A program that has not called for a while, so that none of its threads is busy."""
    far = Far(case)
    far.shell.ok("alloc", MIB)
    time.sleep(4)  # the promise is that its threads sleep without timers by then
    far.cable.pull()
    far.shell.send("alloc", MIB)
    far.noticed(("alloc",))


def test_client_behind_an_idle_pulled_cable_is_given_up(case):
    far = Far(case)
    worker, = far.pool.workers()
    far.cable.pull()
    case.wait_for(lambda: not proc.is_alive(worker), "the worker outlives its link",
                  patience=NOTICED_S)


def test_worker_that_does_not_read_keeps_its_link(case):
    """A closed window is no dead host: what is under way waits until the worker goes on,
    far longer than the link timeout."""
    far = Far(case)
    memory = far.shell.ok("alloc", 64 * MIB)
    worker, = far.pool.workers()
    far.pool.kill(worker, signal.SIGSTOP)
    far.shell.send("copies", memory, 64 * MIB, 1)
    time.sleep(3 * TIMEOUT_S)  # the promise is that nothing happens in this time
    far.pool.kill(worker, signal.SIGCONT)
    case.equal(far.shell.answer(("copies",)), [SUCCESS, 1], "copies after the worker went on")


def test_cable_that_is_plugged_in_again_has_ended_nothing(case):
    """Out for longer than the link timeout, so that both ends have given the link up."""
    far = Far(case, resume=60)
    memory = far.shell.ok("alloc", 64 * MIB)
    worker, = far.pool.workers()
    far.shell.send("copies", memory, 64 * MIB, 40)
    busy = proc.cpu_ticks(worker)
    case.wait_for(lambda: proc.cpu_ticks(worker) > busy + 10, "copies are under way")
    far.cable.pull()
    time.sleep(NOTICED_S)  # the promise is that nothing ends in this time
    far.cable.plug()
    case.equal(far.shell.answer(("copies",), patience=NOTICED_S + case.patience), [SUCCESS, 40],
               "copies after the cable was plugged in again")
    case.equal(far.pool.workers(), [worker], "the workers")


def test_program_on_another_host_says_that_it_ends(case):
    """Its worker would wait for it otherwise: nobody here can see that it is gone."""
    far = Far(case, resume=60)
    far.shell.ok("alloc", MIB)
    worker, = far.pool.workers()
    case.equal(far.shell.close(), 0, "exit status")
    case.wait_for(lambda: not proc.is_alive(worker), "the worker waits for who has ended")


def test_client_that_stays_away_is_given_up_and_told_so(case):
    far = Far(case, resume=2)
    worker, = far.pool.workers()
    far.shell.ok("alloc", MIB)
    far.cable.pull()
    case.wait_for(lambda: not proc.is_alive(worker), "the worker waits for ever",
                  patience=2 * NOTICED_S)
    case.equal(far.shell("alloc", MIB, patience=2 * NOTICED_S)[0], DEVICE_UNAVAILABLE,
               "a call over a pulled cable")
    lines = (case.folder / "spawned.err").read_text().splitlines()
    case.contains(" ".join(line for line in lines if "is lost" in line),
                  "its link broke and could not be replaced within 2 s (GPUPOOL_RESUME)",
                  "the program's words")


def test_session_that_was_closed_meanwhile_says_so_when_the_program_is_back(case):
    far = Far(case, resume=60)
    worker, = far.pool.workers()
    far.shell.ok("alloc", MIB)
    far.cable.pull()
    far.pool.cli("close", "s1")
    case.wait_for(lambda: not proc.is_alive(worker), "the worker ends", patience=NOTICED_S)
    far.shell.send("alloc", MIB)
    time.sleep(NOTICED_S)  # the client has given the link up by then
    far.cable.plug()
    case.equal(far.shell.answer(("alloc",), patience=NOTICED_S + case.patience)[0],
               DEVICE_UNAVAILABLE, "a call of a session that was closed")
    lines = (case.folder / "spawned.err").read_text().splitlines()
    case.contains(" ".join(line for line in lines if "is lost" in line),
                  "its session was closed: closed by an administrator", "the program's words")


def test_gpupool_run_ends_with_the_reason_when_its_link_stayed_broken(case):
    """Only the program is on the other host, so that its lease goes on."""
    far = Far(case)
    run = far.pool.spawn("sh", "-c", f"{' '.join(map(str, far.cable.far()))} "
                         f"{case.programs}/cudash; exit 5", core=10, memory="64MiB",
                         env={"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_RESUME": "2",
                              "GPUPOOL_LINK_TIMEOUT": str(TIMEOUT_S)}, stderr=subprocess.PIPE)
    before = set(far.pool.workers())
    shell = Cudash(case, run).begin()
    worker, = set(far.pool.workers()) - before
    shell.ok("alloc", MIB)
    far.cable.pull()
    case.equal(shell("alloc", MIB, patience=2 * NOTICED_S)[0], DEVICE_UNAVAILABLE,
               "a call over a pulled cable")
    err = run.communicate(timeout=case.patience)[1]
    case.equal(run.returncode, 5, "exit status, the program's own")
    last = err.splitlines()[-1]
    case.check(last.startswith("gpupool: run: session s2 is lost: ") and last.endswith(
        "its link broke and could not be replaced within 2 s (GPUPOOL_RESUME)"),
        f"the last line of gpupool run:\n{err}")
    case.wait_for(lambda: not proc.is_alive(worker), "the worker waits for ever",
                  patience=2 * NOTICED_S)


def test_server_whose_address_changes_comes_back(case):
    """Nobody tells its connection to the one scheduler: the old address is gone."""
    cable = Cable(case)
    pool = case.pool(driver="null", options=("--listen", cable.near))
    here = pool.pid(SERVER)
    args = proc.command_line(here)
    words = {name: args[args.index(name) + 1]
             for name in ("--scheduler", "--token-file", "--scheduler-key")}
    port = words["--scheduler"].rsplit(":", 1)[1]
    words["--scheduler"] = f"{cable.near}:{port}"
    pool.restart(pool.pid("gpupool-scheduler"), "--listen", f"0.0.0.0:{port}")
    case.spawn([*cable.far(), args[0], *[word for pair in words.items() for word in pair],
                "--name", "far", "--listen", "0.0.0.0:7470", "--advertise", "far.example:7470",
                "--driver", "null", "--cards", "1", "--local", f"unix:{case.folder}/far.sock"])

    def far_is(state):
        return any(row["name"] == "far" and row["state"] == state
                   for row in pool.status()["servers"])

    case.wait_for(lambda: far_is("alive"), "the server on the other host is there")
    cable.change_address()
    case.wait_for(lambda: far_is("dead"), "the scheduler misses it", patience=30)
    case.wait_for(lambda: far_is("alive"), "it is there again from another address", patience=40)
