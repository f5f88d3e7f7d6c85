# SPDX-License-Identifier: Apache-2.0
"""What the scheduler says to systemd: ready when it listens, alive while its event loop
turns, stopping when it is told to."""

import signal
import socket


def test_scheduler_tells_the_service_manager_how_it_is(case):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(case.folder / "notify"))
    manager.settimeout(case.patience)
    ready = case.folder / "ready"
    scheduler = case.spawn(
        [case.build / "bin" / "gpupool-scheduler", "--state-dir", case.folder / "state",
         "--listen", "127.0.0.1:0", "--ready-file", ready],
        env={"NOTIFY_SOCKET": str(case.folder / "notify"), "WATCHDOG_USEC": "1000000"})
    case.equal(manager.recv(100), b"READY=1", "the first message")
    case.check(ready.exists(), "it is ready only when it listens")
    for _ in range(2):
        case.equal(manager.recv(100), b"WATCHDOG=1", "it is alive")
    scheduler.send_signal(signal.SIGSTOP)
    manager.setblocking(False)
    try:
        while manager.recv(100):  # what was said before
            pass
    except BlockingIOError:
        pass
    manager.settimeout(1.5)
    try:
        case.fail(f"a scheduler that stands still says {manager.recv(100)}")
    except TimeoutError:
        pass
    manager.settimeout(case.patience)
    scheduler.send_signal(signal.SIGCONT)
    case.equal(manager.recv(100), b"WATCHDOG=1", "it goes on")
    scheduler.send_signal(signal.SIGTERM)
    said = manager.recv(100)
    while said == b"WATCHDOG=1":
        said = manager.recv(100)
    case.equal(said, b"STOPPING=1", "the last message")
    case.equal(scheduler.wait(case.patience), 0, "its end")
