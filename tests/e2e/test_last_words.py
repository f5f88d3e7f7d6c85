# SPDX-License-Identifier: Apache-2.0
"""Why a session ended stands on the program's stderr, once."""

import signal
import struct

from harness.raw import Raw

EVENT_LOST = 0xf004


def ended_shell(case, pool, end):
    """A process whose session is ended under it; what it has said on stderr."""
    session = pool.session(core=30)
    shell = session.cudash()
    shell.begin()
    shell.ok("alloc", 1 << 20)
    end(session)
    case.wait_for(lambda: not pool.workers(), "the worker is gone")
    case.check(shell("alloc", 1 << 20)[0] != 0, "a call on the ended session succeeded")
    case.check(shell("sync")[0] != 0, "and the next one")
    lines = (case.folder / "spawned.err").read_text().splitlines()
    lost = [line for line in lines if "is lost" in line]
    case.equal(len(lost), 1, f"lines that say so: {lines}")
    return lost[0]


def test_closed_by_somebody_else(case):
    pool = case.pool()
    line = ended_shell(case, pool, lambda session: pool.cli("close", "s1"))
    case.contains(line, "session s1 is lost: ended by the server: its session was closed: ",
                  "the line")


def test_server_that_stops(case):
    pool = case.pool()
    line = ended_shell(case, pool,
                       lambda session: pool.kill(pool.pid("gpupool-server"), signal.SIGTERM))
    case.contains(line, "session s1 is lost: ended by the server: the server is stopping",
                  "the line")


def test_worker_that_is_killed_points_to_the_log(case):
    pool = case.pool()
    line = ended_shell(case, pool,
                       lambda session: pool.kill(pool.workers()[0], signal.SIGKILL))
    case.contains(line, "session s1 is lost: connection closed; the server's log says more",
                  "the line")
    case.contains(pool.log(), "was killed by signal 9", "the server's log")


def test_bad_frame_is_answered_with_its_reason(case):
    raw = Raw(case, case.pool().session())
    raw.ping()
    raw.sock.sendall(raw.frame(0xe003, struct.pack("<Q", 1), seq=99))
    size, what, flags, _, _ = struct.unpack("<IHHIi", raw.take(16))
    case.equal((what, flags), (EVENT_LOST, 4), "the event")
    body = raw.take(size - 16)
    case.contains(body[8:].decode(), "bad frame", "the words")
    case.contains(body[8:].decode(), "out of order", "the words")
    raw.ends("a bad frame")
