# SPDX-License-Identifier: Apache-2.0
"""Connections that are cut again and again: programs do not notice, and nothing is
executed twice."""

import os
import socket
import struct

from harness import proc
from harness.cudash import Cudash, SUCCESS
from harness.cutter import Cutter
from harness.raw import field, where
from test_tls import Relay

MIB = 1 << 20
SEED = int(os.environ.get("GPUPOOL_SEED", "1"))
# Launches, copies both ways, managed memory, threads.
PROGRAMS = ("vecadd", "pipeline", "threads", "managed", "graphcopies", "copies")
COPIES = 3
# `make test-chaos`: all that need no arguments, no second session and no card of their own,
# but for two that spin on a card (unified, wakers) and one of 66,000 round trips (hostnodes).
if "GPUPOOL_CHAOS" in os.environ:
    COPIES = 20
    PROGRAMS += ("asked", "blocking", "conditions", "faults", "features", "graphframe", "graphs",
                 "histogram", "hostfuncs", "ipc", "landing", "limits", "linking",
                 "mandelbrot", "matmul", "moves", "negative", "nodes", "order", "pinned",
                 "rarecalls", "reduce", "stress", "textures")


class Line:
    """A session whose server is behind a cutter."""

    def __init__(self, case, every=0.3, kib=0, driver="softgpu", options=(), tls="require",
                 through=None, **limits):
        self.case = case
        self.pool = case.pool(driver=driver, options=options)
        self.session = self.pool.session(**limits)
        host, _, port = self.session.field("server").rpartition(":")
        self.relay = through(case, f"{host}:{port}") if through else None
        if through:
            host, _, port = self.relay.at.rpartition(":")
        self.cutter = Cutter(case, (host, int(port)), every, kib, SEED)
        self.file = case.folder / "cut.session"
        self.env = {**self.session.env, "GPUPOOL_SESSION_FILE": str(self.file),
                    "GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_RESUME": "60",
                    "GPUPOOL_TLS": tls}

    def refresh(self):
        """The session file as it is now, with fresh tickets, but for where the server is."""
        with open(self.session.file, encoding="utf-8") as lines:
            self.file.write_text("".join(
                f"server 127.0.0.1:{self.cutter.port}\n" if line.startswith("server ") else line
                for line in lines if not line.startswith("local ")))
        self.file.chmod(0o600)

    def run(self, *program, env=None, **kwargs):
        self.refresh()
        return self.case.run(program, env={**self.env, **(env or {})}, **kwargs)

    def cudash(self, env=None):
        self.refresh()
        return Cudash(self.case, self.case.spawn([self.case.programs / "cudash"],
                                                 env={**self.env, **(env or {})})).begin()


def run_cut(case, programs, tls):
    line = Line(case, tls=tls, memory="1GiB")
    cuts = 0
    for program in programs:
        line.run(case.programs / program, timeout=10 * case.patience)
        print(f"{program}: {line.cutter.cuts - cuts} cuts", flush=True)
        cuts = line.cutter.cuts
    print(f"{tls}, seed {SEED}: {cuts} cuts", flush=True)
    case.check(cuts > 0, "nothing was cut")


def test_programs_do_not_notice_that_their_link_is_cut(case):
    run_cut(case, PROGRAMS, "require")


def test_programs_in_clear_text_do_not_notice_that_their_link_is_cut(case):
    run_cut(case, ("pipeline", "threads", "managed", "copies"), "off")


def copies(case, tls):
    line = Line(case, every=0, kib=16384, tls=tls, memory="600MiB")
    shell = line.cudash()
    memory = shell.ok("alloc", 64 * MIB)
    before = line.cutter.cuts
    case.equal(shell("copies", memory, 64 * MIB, COPIES), [SUCCESS, COPIES], "copies")
    print(f"{tls}, seed {SEED}: {line.cutter.cuts - before} cuts", flush=True)
    case.check(line.cutter.cuts > before, "nothing was cut")


def test_copies_survive_cuts_in_the_middle(case):
    copies(case, "require")


def test_copies_in_clear_text_survive_cuts_in_the_middle(case):
    copies(case, "off")


def test_worker_that_is_gone_fails_every_call_at_once(case):
    line = Line(case, every=0)
    shell = line.cudash()
    shell.ok("alloc", MIB)
    worker, = line.pool.workers()
    line.pool.kill(worker)
    with case.within(3, "a call after the worker was killed"):
        case.check(shell("alloc", MIB)[0] != SUCCESS, "a call without a worker succeeds")
    lines = (case.folder / "spawned.err").read_text()
    case.contains(lines, "the worker was killed by signal 9", "the program's words")


def test_client_that_is_killed_leaves_nothing(case):
    """Its process ran on the server's host, so nobody waits for it."""
    line = Line(case, every=0)
    shell = line.cudash()
    shell.ok("alloc", MIB)
    worker, = line.pool.workers()
    line.pool.kill(shell.process.pid)
    with case.within(3, "the end of a killed client's worker"):
        case.wait_for(lambda: not proc.is_alive(worker), "the worker outlives its client")


def resume_request(token, number, received=0, acks=False):
    body = field(10, token) + field(11, number) + field(23, received) + field(24, int(acks))
    body = field(1, 1) + body
    return struct.pack("<I", len(body)) + body


def asked(session, message):
    """The first bytes of the answer to one message."""
    with socket.create_connection(where(session), timeout=10) as sock:
        sock.sendall(message)
        return sock.recv(4096)


def test_unauthenticated_peer_cannot_take_a_connection_over(case):
    """Without the key of the attachment, a token is a guess."""
    line = Line(case, every=0)
    shell = line.cudash()
    for number in (0, 1, 7):
        for acks in (False, True):
            answer = asked(line.session, resume_request(b"\x55" * 32, number, acks=acks))
            case.contains(answer, b"there is no attachment here", f"link {number}")
    shell.ok("alloc", MIB)


def test_token_that_was_observed_is_of_no_use(case):
    """In clear text everybody on the way sees it; it has been used then."""
    line = Line(case, every=0, tls="off", through=Relay)
    shell = line.cudash()
    line.cutter.cut()
    shell.ok("alloc", MIB)
    head = field(10, bytes(32))[:2]
    tokens = [bytes(line.relay.seen[at + 2:at + 34]) for at in range(len(line.relay.seen))
              if line.relay.seen[at:at + 2] == head]
    case.check(tokens, "no token was seen")
    for token in tokens:
        for number in range(4):
            for acks in (False, True):
                answer = asked(line.session, resume_request(token, number, acks=acks))
                case.contains(answer, b"there is no attachment here", f"link {number}")
    shell.ok("alloc", MIB)
