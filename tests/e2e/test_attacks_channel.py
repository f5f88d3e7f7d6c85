# SPDX-License-Identifier: Apache-2.0
"""A hostile worker abuses what it shares with its supervisor; nobody beside it notices."""

import errno
import os
import pathlib
import re
import signal
import socket
import struct

from harness.cudash import DEVICE_UNAVAILABLE
from harness.raw import where
from test_attacks_jail import Hostile


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def sends_descriptors(case, name):
    """Those of one worker would use up the server's limit of open files for everybody."""
    hostile = Hostile(case)
    before = descriptors(hostile.control.supervisor)
    print(name, errno.errorcode.get(hostile.attack(name, 500)))
    hostile.all_live()
    left = descriptors(hostile.control.supervisor) - before
    # Some are of the session that all_live() opens.
    case.check(left < 50, f"{left} descriptors stay in the supervisor")


def test_descriptors_beyond_the_one_of_a_request_are_closed(case):
    sends_descriptors(case, "surplus_descriptors")


def test_descriptor_of_a_request_that_has_none_is_closed(case):
    sends_descriptors(case, "unexpected_descriptors")


def test_supervisor_keeps_only_memory_for_others_of_a_session(case):
    hostile = Hostile(case)
    case.equal(hostile.attack("share_socket"), errno.EACCES, "a socket as an object to share")
    hostile.all_live()


def test_socket_that_lingers_does_not_stop_the_supervisor(case):
    """The client is stopped and reads nothing, so what its worker has sent stays unsent."""
    hostile = Hostile(case, client={"GPUPOOL_TRANSPORT": "tcp"})
    hostile.control.name = b"linger_and_die"
    hostile.control.armed = 1
    hostile.shell.send("alloc", 512)
    case.wait_for(lambda: hostile.control.armed == 2, "the attack has begun")
    os.kill(hostile.shell.process.pid, signal.SIGSTOP)
    hostile.control.armed = 3
    try:
        case.wait_for(lambda: hostile.worker not in hostile.pool.workers(), "its worker has ended")
        hostile.control.armed = 0
        hostile.all_live()
    finally:
        os.kill(hostile.shell.process.pid, signal.SIGCONT)


def test_log_of_the_server_is_out_of_a_workers_reach(case):
    hostile = Hostile(case)
    case.equal(hostile.attack("forge_log"), 0, "writing to its own standard error")
    lines = case.wait_for(lambda: [line for line in hostile.pool.log().splitlines()
                                   if "forged" in line], "the line in the log")
    case.check(len(lines) == 1, f"one line was written: {lines}")
    case.check(re.match(r"s\w+\.c\d+: 00:00:00.000 server error", lines[0]),
               f"the line says who wrote it: {lines[0]!r}")
    case.contains(lines[0], r"forged\x1b[2J\x1b[H\x0dforged", "its control characters")
    case.equal(hostile.attack("truncate_log"), errno.ESPIPE, "truncating the log")
    case.contains(hostile.pool.log(), lines[0], "the log")
    hostile.all_live()


def test_worker_that_floods_the_log_is_cut_off_alone(case):
    hostile = Hostile(case)
    hostile.attack("flood_log", 20000)  # 80 MB
    hostile.all_live()
    log = hostile.pool.log()
    case.check(len(log) < 2 << 20, f"{len(log)} bytes in the log")
    case.contains(log, "write more than 4096 bytes a second to the log", "the server's word")


def answers(address):
    """The server's loop has taken a connection, read it and let it go."""
    with socket.create_connection(address, timeout=60) as peer:
        peer.sendall(b"\xff" * 8)
        while peer.recv(4096):
            pass


def test_files_that_a_session_leaves_keep_nobody_waiting(case):
    hostile = Hostile(case)
    with open(f"/proc/{hostile.worker}/environ", "rb") as variables:
        exports = [pathlib.Path(text.split(b"=", 1)[1].decode())
                   for text in variables.read().split(b"\0")
                   if text.startswith(b"SOFTGPU_EXPORTS=")][0]
    case.equal(hostile.attack("fill_exports", 200000), 0, "files in the session's own folder")
    address = where(hostile.session)
    os.kill(hostile.worker, signal.SIGKILL)
    case.wait_for(lambda: f"worker {hostile.worker} was killed" in hostile.pool.log(),
                  "the server has seen its end")
    answers(address)
    left = sum(1 for _ in exports.parent.glob("*/*"))
    print(left, "files are left when the server answers")
    case.check(left, "the server answers before all files are removed")
    case.equal(list(exports.iterdir()), [], "the folder of the session's next worker")
    case.wait_for(lambda: not list(exports.parent.glob("gone-*")), "the files are removed")
    hostile.all_live()


def test_refused_requests_of_a_worker_do_not_fill_the_log(case):
    hostile = Hostile(case)
    case.equal(hostile.attack("refused_requests", 20000), 0, "requests that were sent")
    hostile.all_live()
    lines = [line for line in hostile.pool.log().splitlines() if "shar" in line]
    case.check(1 <= len(lines) <= 10, f"{len(lines)} lines about refused requests: {lines[:3]}")


def lingering():
    """A socket whose close waits for a peer that reads nothing, and what keeps it so."""
    listener = socket.create_server(("127.0.0.1", 0))
    reader = socket.create_connection(listener.getsockname())
    writer, _ = listener.accept()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    writer.setblocking(False)
    try:
        while True:
            writer.send(bytes(1 << 16))
    except BlockingIOError:
        return writer, (listener, reader)


def test_daemons_take_no_descriptors_from_local_peers(case):
    """The kernel closes those that come with bytes that somebody reads, in the reader."""
    passrights = 83  # SO_PASSRIGHTS
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, passrights, 0)
        except OSError:
            case.skip("only Linux 6.16 and later can refuse descriptors")
    pool = case.pool(servers=1, cards=1)
    session = pool.session()
    session.cudash({"GPUPOOL_TRANSPORT": "shm"}).begin().ok("alloc", 512)
    with open("/proc/net/unix", encoding="ascii") as lines:
        listening = {line.split()[7] for line in lines
                     if len(line.split()) > 7 and line.split()[3] == "00010000"}
    own = [path for path in listening if path.startswith(str(case.folder))]
    case.check(len(own) >= 2, f"sockets of this pool among {listening}")
    kept = []
    for path in own:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            writer, others = lingering()
            kept.append(others)
            try:
                socket.send_fds(peer, [b"\1"], [writer.fileno()])
                case.check(False, f"{path} takes descriptors")
            except PermissionError:
                print(path, "takes no descriptors")
            writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            writer.close()
    answers(where(session))
    pool.status()


def test_session_that_exports_too_many_files_is_ended(case):
    """They take the inodes of /dev/shm from everybody on the host."""
    hostile = Hostile(case)
    hostile.control.name = b"fill_exports"
    hostile.control.amount = 300000
    hostile.control.armed = 1
    case.check(hostile.shell("alloc", 512)[0] in (0, DEVICE_UNAVAILABLE), "the call of the attack")
    case.wait_for(lambda: hostile.worker not in hostile.pool.workers(), "its worker is ended")
    hostile.control.armed = 0
    case.contains(hostile.pool.log(), "exported more than 262144 blocks of memory", "the reason")
    hostile.all_live()
