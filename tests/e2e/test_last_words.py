# SPDX-License-Identifier: Apache-2.0
"""Why a session ended stands on the program's stderr, once."""

import fcntl
import pathlib
import signal
import socket
import struct
import termios

from harness.cudash import Cudash
from harness.images import cubin
from harness.raw import BULK, MALLOC, RETAIN, Raw

EVENT_LOST = 0xf004
COPY_DOWN = 0x0a1f
MIB = 1 << 20
SENT_MOST = int(pathlib.Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])


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


def test_worker_that_is_killed(case):
    pool = case.pool()
    line = ended_shell(case, pool,
                       lambda session: pool.kill(pool.workers()[0], signal.SIGKILL))
    case.contains(line, "session s1 is lost: the worker was killed by signal 9 (see the "
                  "server's log)", "the line")
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


def answer(raw, call, body, ctx=0):
    raw.sock.sendall(raw.frame(call, body, ctx=ctx))
    size, _, _, _, result = struct.unpack("<IHHIi", raw.take(16))
    raw.case.equal(result, 0, f"call {call:#06x}")
    return raw.take(size - 16)


def unread(sock):
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]


def test_server_that_stops_while_a_payload_is_under_way(case):
    """The last word waits for the end of a frame that is being sent."""
    pool = case.pool()
    raw = Raw(case, pool.session())
    answer(raw, RETAIN, struct.pack("<q", 0))
    # Little more than the sockets hold: the worker waits 250 ms for the rest to be sent.
    raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB // 16)
    size = SENT_MOST + MIB
    device, = struct.unpack("<Q", answer(raw, MALLOC, struct.pack("<Q", size), ctx=1)[:8])
    raw.sock.sendall(raw.frame(COPY_DOWN, struct.pack("<QQQ", device, size, 0), ctx=1))
    seen = []
    case.wait_for(lambda: seen.append(unread(raw.sock)) or
                  seen[-1] > 0 and seen[-3:] == [seen[-1]] * 3,
                  "the worker is held up by a client that does not read")
    pool.kill(pool.pid("gpupool-server"), signal.SIGTERM)
    head, _, flags, _, result = struct.unpack("<IHHIi", raw.take(16))
    case.equal((flags & BULK, result), (BULK, 0), "the answer has a payload")
    raw.take(head - 16)
    while size:
        size -= len(raw.sock.recv(min(size, MIB)) or case.fail("the payload broke off"))
    size, what, flags, _, _ = struct.unpack("<IHHIi", raw.take(16))
    case.equal((what, flags), (EVENT_LOST, 4), "the event behind it")
    case.contains(raw.take(size - 16)[8:].decode(), "the server is stopping", "the words")
    raw.ends("a server that stops")


def test_server_that_stops_speaks_for_a_worker_that_cannot(case):
    pool = case.pool()

    def stop(session):
        pool.kill(pool.workers()[0], signal.SIGSTOP)
        pool.kill(pool.pid("gpupool-server"), signal.SIGTERM)

    line = ended_shell(case, pool, stop)
    case.contains(line, "session s1 is lost: ended by the server: the server is stopping",
                  "the line")


def last_line_of_run(case, end, line_of="is lost", **options):
    """The end of a `gpupool run` whose program's session is ended under it by @end, and
    the line of the program."""
    pool = case.pool(**options)
    process = pool.spawn(case.programs / "cudash")
    shell = Cudash(case, process)
    shell.begin()
    shell.ok("alloc", 1 << 20)
    end(pool)
    case.wait_for(lambda: not pool.workers(), "the worker is gone")
    case.check(shell("alloc", 1 << 20)[0] != 0, "a call on the ended session succeeded")
    shell.close()
    lines = (case.folder / "spawned.err").read_text().splitlines()
    own = [line for line in lines if line_of in line and "run:" not in line]
    case.check(own, f"the program says nothing: {lines}")
    case.equal(len([line for line in lines if "run:" in line]), 1, f"lines of run: {lines}")
    return lines[-1], own[0]


def test_run_ends_with_why_its_session_was_closed(case):
    last, own = last_line_of_run(case, lambda pool: pool.cli("close", "s1"))
    case.contains(own, "session s1 is lost: ended by the server: its session was closed: ",
                  "the program's line")
    case.contains(last, "gpupool: run: session s1 is lost: ended by the server: its session "
                  "was closed: ", "the last line of gpupool run")


def test_first_reason_of_the_scheduler_stays(case):
    """A report that was made before the session ended is answered with its end again, and
    that answer knows no reason."""
    pool = case.pool(servers=1, cards=1, options=("--heartbeat-ms", 50))
    shell = Cudash(case, pool.spawn(case.programs / "cudash", memory="64MiB",
                                    env={"GPUPOOL_LOG": "stub:error"})).begin()
    worker, = pool.workers()
    pool.kill(worker, signal.SIGSTOP)  # it is named in reports until the server kills it
    pool.cli("close", pool.sessions()[0]["name"])
    case.check(shell("sync") != [0], "a session that was closed goes on")
    shell.close()
    said = (case.folder / "spawned.err").read_text()
    case.contains(said, "its session was closed: closed by an administrator", "what the program is told")


def test_run_ends_with_the_signal_that_killed_its_worker(case):
    last, own = last_line_of_run(
        case, lambda pool: pool.kill(pool.workers()[0], signal.SIGKILL))
    words = "session s1 is lost: the worker was killed by signal 9 (see the server's log)"
    case.contains(own, words, "the program's line")
    case.contains(last, f"gpupool: run: {words}", "the last line of gpupool run")


def test_run_ends_with_the_server_that_stopped(case):
    last, _ = last_line_of_run(
        case, lambda pool: pool.kill(pool.pid("gpupool-server"), signal.SIGTERM))
    case.contains(last, "gpupool: run: session s1 is lost: ended by the server: the server is "
                  "stopping", "the last line of gpupool run")


def test_run_ends_with_the_lease_that_expired(case):
    """`gpupool run` and its keepalive are stopped for longer than the lease; the program goes on."""

    def expire(pool):
        stopped = pool.pids("gpupool")
        case.equal(len(stopped), 2, "gpupool run and what renews its lease")
        for pid in stopped:
            pool.kill(pid, signal.SIGSTOP)
        case.wait_for(lambda: not pool.workers(), "the lease ends", patience=case.patience * 3)
        for pid in stopped:
            pool.kill(pid, signal.SIGCONT)

    last, own = last_line_of_run(case, expire, options=("--lease-ms", 1000))
    case.contains(own, "its session was closed: ", "the program's line")
    case.contains(own, "lease", "the program's line")
    case.contains(last, "gpupool: run: session s1 is lost: ", "the last line of gpupool run")
    case.contains(last, "lease", "the last line of gpupool run")


def test_run_says_nothing_about_a_session_that_ended_well(case):
    result = case.pool().run(case.programs / "vecadd")
    case.check("run:" not in result.err, f"gpupool run says something: {result.err}")


def loads_a_cubin(case):
    """What makes cudash load machine code on a software card."""
    (case.folder / "image").write_bytes(cubin(90))
    commands = case.folder / "commands"
    commands.write_text("\n".join(("init", "device 0", "context",
                                   f"load {case.folder / 'image'}", "")))
    return commands


def test_run_ends_with_why_an_image_was_refused(case):
    pool = case.pool()
    program = case.folder / "program"
    program.write_text(f"#!/bin/sh\n{case.programs / 'cudash'} < {loads_a_cubin(case)}\nexit 3\n")
    program.chmod(0o755)
    lines = pool.run(program, status=3).err.splitlines()
    case.equal(len([line for line in lines if "runs PTX" in line]), 2, f"lines that say so: {lines}")
    case.contains(lines[-1], "gpupool: run: softgpu: loading a module: the image holds only "
                  "machine code for sm_90", "the last line of gpupool run")


def test_run_repeats_no_cause_for_a_program_that_ends_well(case):
    with open(loads_a_cubin(case), encoding="utf-8") as stdin:
        result = case.pool().run(case.programs / "cudash", stdin=stdin)
    case.contains(result.err, "runs PTX", "the program's stderr")
    case.check("run:" not in result.err, f"gpupool run says something: {result.err}")


def test_the_end_of_the_session_goes_before_the_cause_of_a_call(case):
    pool = case.pool()
    process = pool.spawn(case.programs / "cudash")
    shell = Cudash(case, process)
    shell.begin()
    (case.folder / "image").write_bytes(cubin(90))
    case.equal(shell("load", case.folder / "image")[0], 209, "the load")
    pool.kill(pool.workers()[0], signal.SIGKILL)
    case.wait_for(lambda: not pool.workers(), "the worker is gone")
    case.check(shell("alloc", 1 << 20)[0] != 0, "a call on the ended session succeeded")
    shell.close()
    last = (case.folder / "spawned.err").read_text().splitlines()[-1]
    case.contains(last, "gpupool: run: session s1 is lost: ", "the last line of gpupool run")
