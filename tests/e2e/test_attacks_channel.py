# SPDX-License-Identifier: Apache-2.0
"""A hostile worker abuses what it shares with its supervisor; nobody beside it notices."""

import errno
import os
import re
import signal

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
    case.equal(hostile.attack("forge_log"), errno.EAGAIN, "a worker that has used its share")
