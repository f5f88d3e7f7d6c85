# SPDX-License-Identifier: Apache-2.0
"""What the daemons say to systemd: ready when they listen, alive while their event loop
turns, stopping when they are told to; of a server also when it takes over from another."""

import signal
import socket
import struct
from pathlib import Path

WATCHDOG_US = 1_000_000
UNITS = Path(__file__).resolve().parents[2] / "deploy/systemd"


class Manager:
    """The service manager of one daemon."""

    def __init__(self, case):
        self.case = case
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(str(case.folder / "notify"))

    def start(self, *command):
        return self.case.spawn(command, env={"NOTIFY_SOCKET": str(self.case.folder / "notify"),
                                             "WATCHDOG_USEC": str(WATCHDOG_US)})

    def hear(self, process, patience=None):
        """The next message, which has to be the main process's (NotifyAccess=main)."""
        self.socket.settimeout(patience or self.case.patience)
        text, control, _, _ = self.socket.recvmsg(200, socket.CMSG_SPACE(12))
        sender = struct.unpack("iii", control[0][2][:12])[0]
        self.case.equal(sender, process.pid, f"who says {text}")
        return text.decode()

    def hear_of_life(self, process, times=2):
        for _ in range(times):
            self.case.equal(self.hear(process), "WATCHDOG=1", "it is alive")

    def hear_at_last(self, process, wanted):
        said = self.hear(process)
        while said == "WATCHDOG=1":
            said = self.hear(process)
        self.case.equal(said, wanted, "what it says")

    def drain(self):
        self.socket.setblocking(False)
        try:
            while self.socket.recv(200):
                pass
        except BlockingIOError:
            pass


def life_of_a_daemon(case, *command, reads):
    """From its start to its end, with a time in which it stands still."""
    manager = Manager(case)
    ready = case.folder / "ready"
    daemon = manager.start(*command, "--listen", "127.0.0.1:0", "--ready-file", ready)
    manager.hear_at_last(daemon, "READY=1")
    case.check(ready.exists(), "it is ready only when it listens")
    manager.hear_of_life(daemon)
    daemon.send_signal(signal.SIGHUP)
    manager.hear_at_last(daemon, f"STATUS=reading {reads} again")
    manager.hear_at_last(daemon, "STATUS=")
    daemon.send_signal(signal.SIGSTOP)
    manager.drain()  # what was said before
    try:
        case.fail(f"a daemon that stands still says {manager.hear(daemon, 1.5)}")
    except TimeoutError:
        pass
    daemon.send_signal(signal.SIGCONT)
    manager.hear_of_life(daemon, 1)
    daemon.send_signal(signal.SIGTERM)
    manager.hear_at_last(daemon, "STOPPING=1")
    case.equal(daemon.wait(case.patience), 0, "its end")


def server(case, *more):
    return (case.build / "bin" / "gpupool-server", "--driver", "null", "--cards", "1",
            "--scheduler", "127.0.0.1:9", *more)


def test_scheduler_tells_the_service_manager_how_it_is(case):
    life_of_a_daemon(case, case.build / "bin" / "gpupool-scheduler", "--state-dir",
                     case.folder / "state", reads="options and rules")


def test_server_tells_the_service_manager_how_it_is(case):
    life_of_a_daemon(case, *server(case), reads="options, token and keys")


def test_server_that_takes_over_tells_it_too(case):
    manager = Manager(case)
    command = server(case, "--listen", f"127.0.0.1:{case.free_port()}", "--state-dir",
                     case.folder / "state", "--adopt-window", "60")
    first = manager.start(*command)
    manager.hear_at_last(first, "READY=1")
    manager.hear_of_life(first, 1)
    # The same process with the program anew: ready again, and watched as before.
    first.send_signal(signal.SIGUSR1)
    manager.hear_at_last(first, "RELOADING=1")
    manager.hear_at_last(first, "READY=1")
    manager.hear_of_life(first)
    # Another process, which is the main one from then on; the keeper stays silent.
    first.send_signal(signal.SIGUSR2)
    manager.hear_at_last(first, "STOPPING=1")
    case.equal(first.wait(case.patience), 0, "its end")
    second = manager.start(*command)
    manager.hear_at_last(second, "READY=1")
    manager.hear_of_life(second)
    # One that the watchdog ended, as systemd does it.
    second.send_signal(signal.SIGABRT)
    case.equal(second.wait(case.patience), -signal.SIGABRT, "its end")
    manager.drain()
    third = manager.start(*command)
    manager.hear_at_last(third, "READY=1")
    case.contains((case.folder / "spawned.err").read_text(), "took over", "the log")
    third.send_signal(signal.SIGTERM)
    manager.hear_at_last(third, "STOPPING=1")
    case.equal(third.wait(case.patience), 0, "its end")


def test_units_of_both_are_watched(case):
    for name in ("scheduler", "server"):
        unit = (UNITS / f"gpupool-{name}.service").read_text()
        case.contains(unit, "\nType=notify\n", f"the unit of the {name}")
        case.contains(unit, "\nWatchdogSec=", f"the unit of the {name}")
