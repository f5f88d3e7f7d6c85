# SPDX-License-Identifier: Apache-2.0
"""Requests that come while the pool's only server is away for a moment."""

import signal
import socket
import struct
import threading
from contextlib import suppress

SERVER = "gpupool-server"
ASKED_AGAIN = "refused, to be asked again: the only card does not fit"


def with_scheduler(case, *options):
    """A pool whose scheduler has @options, and knows its server."""
    pool = case.pool()
    pool.restart(pool.pid("gpupool-scheduler"), *options)
    case.wait_for(lambda: pool.status()["servers"][0]["state"] == "alive", "the server is back")
    return pool


def test_run_begins_when_the_server_has_come_back_to_a_restarted_scheduler(case):
    pool = case.pool()
    server, scheduler = pool.pid(SERVER), pool.pid("gpupool-scheduler")
    pool.kill(server, signal.SIGSTOP)
    pool.restart(scheduler)
    process = pool.spawn("echo", "served")
    log = case.folder / f"restarted-{scheduler}.log"
    case.wait_for(lambda: ASKED_AGAIN in log.read_text(), "it was told to ask again")
    pool.kill(server, signal.SIGCONT)
    case.equal(process.stdout.readline(), "served\n", "output of the program")
    case.equal(process.wait(case.patience), 0, "its exit status")


def test_run_begins_when_a_server_that_was_killed_runs_again(case):
    pool = case.pool()
    server = pool.pid(SERVER)
    start = pool.starter(server)
    pool.kill(server)
    process = pool.spawn("echo", "served")
    start()
    case.equal(process.stdout.readline(), "served\n", "output of the program")
    case.equal(process.wait(case.patience), 0, "its exit status")


def test_server_that_does_not_come_back_is_waited_for_no_longer(case):
    pool = with_scheduler(case, "--server-return-ms", "700")
    pool.kill(pool.pid(SERVER))
    case.contains(pool.run("true", status=3).err, "the server is not connected", "after a moment")


def test_server_that_took_its_leave_is_not_waited_for(case):
    pool = with_scheduler(case, "--server-return-ms", "60000")
    server = pool.pid(SERVER)
    pool.kill(server, signal.SIGTERM)
    case.wait_for(lambda: pool.status()["servers"][0]["state"] != "alive", "it has left")
    # Nothing but the limit of the command itself, 5 s, would end the wait.
    with case.within(4, "a refusal at once"):
        case.contains(pool.run("true", status=3).err, "the server is not connected", "why")


def test_server_that_the_pool_never_had_is_not_waited_for(case):
    pool = with_scheduler(case, "--server-return-ms", "60000")
    pool.kill(pool.pid(SERVER))
    case.wait_for(lambda: pool.status()["servers"][0]["state"] != "alive", "it is lost")
    with case.within(4, "a refusal at once"):
        refused = pool.run("true", options=("--server", "nobody"), status=3)
    case.contains(refused.err, "no server nobody", "why")


def test_card_that_a_server_came_back_without_is_out_of_use(case):
    pool = case.pool(cards=2, driver="null")
    holder = pool.session(core=10, memory="64MiB", options=["--card", "1@local-1"])
    server = pool.pid("gpupool-server")
    pool.restart(server, "--cards", "1")

    def cards():
        return {card["index"]: card["fault"] for card in pool.status()["servers"][0]["cards"]}
    case.wait_for(lambda: cards() == {0: "", 1: "its server does not have it any more"},
                  lambda: f"both cards, of which one has gone: {cards()}")
    table = pool.cli("status", "--output", "wide").out
    case.contains(table, "out of use", "the state of the card that has gone")
    # After a restart of the scheduler neither has been registered, until the server is back.
    pool.restart(pool.pid("gpupool-scheduler"))
    case.wait_for(lambda: cards() == {0: "", 1: "its server does not have it any more"},
                  lambda: f"the same after a restart: {cards()}")
    holder.close()
    case.wait_for(lambda: cards() == {0: ""}, "the card is not shown once nobody has a slice of it")


class Ending(threading.Thread):
    """A scheduler in clear text that reads requests and answers none: it dies, or, if it
    @stands still, keeps the connection."""

    def __init__(self, stands=False):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.stands, self.links, self.asked = stands, [], 0
        self.start()

    def run(self):
        with suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                size = struct.unpack("<I", link.recv(4, socket.MSG_WAITALL))[0]
                link.recv(size, socket.MSG_WAITALL)
                self.asked += 1
                self.links.append(link)
                if not self.stands:
                    link.close()


def run_past(case, ending):
    """A program of a pool whose schedulers are @ending and a good one."""
    good = f"127.0.0.1:{case.free_port()}"
    roles = [option for role in ("client", "server", "admin")
             for option in ("--allow-anonymous", role)]
    case.spawn(["gpupool-scheduler", "--listen", good, "--state-dir", case.folder / "state", *roles])
    case.spawn(["gpupool-server", "--listen", f"127.0.0.1:{case.free_port()}", "--driver",
                "softgpu", "--scheduler", good], env={"SOFTGPU_CARDS": "1"})
    command = ["gpupool", "run", "--core", "10", "--memory", "64MiB"]
    case.wait_for(lambda: case.run([*command, "--scheduler", good, "--", "true"],
                                   status=None).status == 0, "the pool has its server")
    with ending.listener:
        done = case.run([*command, "--scheduler", f"{ending.address},{good}", "--", "echo", "served"],
                        env={"GPUPOOL_TLS": "off"})
    case.equal(done.out, "served\n", "output of the program")
    case.equal(done.err, "", "what is said of the scheduler")
    case.equal(ending.asked, 2, "requests that the first scheduler has had: to open, to close")


def test_run_asks_another_scheduler_when_one_dies_over_its_request(case):
    run_past(case, Ending())


def test_run_asks_another_scheduler_when_one_stands_still_over_its_request(case):
    run_past(case, Ending(stands=True))


def test_run_does_not_ask_a_scheduler_for_ever_that_breaks_each_connection(case):
    ending = Ending()
    with ending.listener:
        done = case.run(["gpupool", "run", "--core", "10", "--scheduler", ending.address, "--", "true"],
                        status=4, env={"GPUPOOL_TLS": "off"})
    case.contains(done.err, f"scheduler {ending.address}: ", "its words")
    case.check(1 < ending.asked <= 101, f"asked {ending.asked} times in ten seconds")
