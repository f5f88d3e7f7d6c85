# SPDX-License-Identifier: Apache-2.0
"""Connections that are cut again and again: programs do not notice, and nothing is
executed twice."""

import os
import re
import select
import socket
import struct
import threading
import time

from harness import proc
from harness.cudash import DEVICE_UNAVAILABLE, SUCCESS, Cudash
from harness.cutter import Cutter
from harness.raw import field, where
from test_tls import Relay

MIB = 1 << 20
SEED = int(os.environ.get("GPUPOOL_SEED", "1"))
# Launches, copies both ways, managed memory, threads.
PROGRAMS = ("vecadd", "pipeline", "threads", "managed", "graphcopies", "copies")
COPIES = 3
LAUNCHES = 2000
# `make test-chaos`: all that need no arguments, no second session and no card of their own.
CHAOS = "GPUPOOL_CHAOS" in os.environ
if CHAOS:
    COPIES = 20
    LAUNCHES = 100000
    PROGRAMS += ("asked", "blocking", "conditions", "faults", "features", "graphframe", "graphs",
                 "histogram", "hostfuncs", "ipc", "landing", "limits", "linking",
                 "mandelbrot", "matmul", "moves", "negative", "nodes", "order", "pinned",
                 "rarecalls", "reduce", "stress", "textures")


class Line:
    """A session whose server is behind a cutter."""

    def __init__(self, case, every=0.3, kib=0, driver="softgpu", options=(), tls="require",
                 through=None, pool=None, **limits):
        self.case = case
        self.pool = pool or case.pool(driver=driver, options=options)
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

    def log_of(self, shell):
        """What the program of @shell, which ends now, has logged."""
        self.case.equal(shell.close(), 0, "exit status")
        return (self.case.folder / "spawned.err").read_text(errors="replace")


def replaced_us(log):
    """How long each replacement of a link took, of a client's log at level info."""
    return [int(us) for us in re.findall(r"link \d+ to \S+ after (\d+) us", log)]


def sent_again(log):
    """(links, bytes) that the programs of a client's log have replaced and sent again."""
    found = re.findall(r"(\d+) links to \S+ were replaced, (\d+) bytes sent again", log)
    return sum(int(links) for links, _ in found), sum(int(count) for _, count in found)


def report(case, what, cuts, log, wrong, words="results wrong"):
    """The line that `make test-chaos` shows of a client's log, and whether it is as it must
    be."""
    times, (links, again) = replaced_us(log), sent_again(log)
    middle = sorted(times)[len(times) // 2] / 1000 if times else 0
    print(f"chaos: {what}, seed {SEED}: {cuts} cuts, {len(times)} links replaced (median "
          f"{middle:.1f} ms, most {max(times, default=0) / 1000:.1f}), {again / 1e6:.1f} MB sent "
          f"again by the programs, {words} {wrong}", flush=True)
    case.equal(links, len(times), "links replaced, of what programs say at their end")
    case.check(cuts > 0, "nothing was cut")
    case.equal(wrong, 0, words)


def run_cut(case, programs, tls):
    line = Line(case, tls=tls, core=100, memory="1GiB")
    cuts, log, wrong = 0, "", 0
    for program in programs:
        done = line.run(case.programs / program, timeout=7 * case.patience, status=None,
                        env={"GPUPOOL_LOG": "stub:info"})
        log += done.err
        wrong += done.status != 0
        print(f"{program}: {line.cutter.cuts - cuts} cuts", flush=True)
        cuts = line.cutter.cuts
    report(case, f"{len(programs)} programs, TLS {tls}", cuts, log, wrong)
    case.wait_for(lambda: not line.pool.workers(), "a worker is left")


def test_programs_do_not_notice_that_their_link_is_cut(case):
    run_cut(case, PROGRAMS, "require")


def test_programs_in_clear_text_do_not_notice_that_their_link_is_cut(case):
    run_cut(case, ("pipeline", "threads", "managed", "copies"), "off")


def test_chaos_of_programs_that_spin_or_take_long(case):
    """A kernel that waits for the host, a thread that waits for another one's copy, and
    66,000 round trips."""
    if not CHAOS:
        case.skip("it takes minutes: make test-chaos")
    run_cut(case, ("unified", "wakers", "hostnodes"), "require")


def test_launches_are_carried_out_once_however_often_the_link_is_cut(case):
    """Each of them adds one to a word; nobody waits in between."""
    line = Line(case, every=0, kib=24, tls="off", memory="64MiB")
    shell = line.cudash(env={"GPUPOOL_LOG": "stub:info"})
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    word = shell.ok("alloc", MIB)
    shell.ok("store", word, 4, 0)
    before = line.cutter.cuts
    case.equal(shell("flood", word, LAUNCHES, patience=6 * case.patience), [SUCCESS, LAUNCHES],
               "launches")
    case.equal(shell("sync", patience=6 * case.patience), [SUCCESS], "the wait for all of them")
    wrong = shell.ok("peek", word, 4) - LAUNCHES
    report(case, f"{LAUNCHES} launches", line.cutter.cuts - before, line.log_of(shell), wrong,
           "executed twice or never")


def sources(case, tls):
    """The memory that a copy was made from is gone when its call returns, and what was sent may
    have to be sent again later, or while the call waits for its answer."""
    line = Line(case, every=0, kib=900, tls=tls, memory="64MiB")
    done = line.run(case.programs / "sources", timeout=7 * case.patience, status=None,
                    env={"GPUPOOL_LOG": "stub:info"})
    report(case, f"copies from memory that goes away, TLS {tls}", line.cutter.cuts, done.err,
           done.status, "exit status")


def test_sources_of_copies_may_go_away_behind_the_call(case):
    sources(case, "require")


def test_sources_of_copies_in_clear_text_may_go_away_behind_the_call(case):
    sources(case, "off")


def copies(case, tls):
    line = Line(case, every=0, kib=16384, tls=tls, memory="600MiB",
                pool=case.pool(env={"GPUPOOL_LOG": "info"}))
    shell = line.cudash(env={"GPUPOOL_LOG": "stub:info"})
    memory = shell.ok("alloc", 64 * MIB)
    before = line.cutter.cuts
    done = shell("copies", memory, 64 * MIB, COPIES)
    report(case, f"{2 * COPIES} copies of 64 MiB, TLS {tls}", line.cutter.cuts - before,
           line.log_of(shell), int(done != [SUCCESS, COPIES]))
    case.check(re.search(r"\d+ of 67108864 bytes were read again", line.pool.log()),
               "nothing was read again from the card's memory")


def test_copies_survive_cuts_in_the_middle(case):
    copies(case, "require")


def test_copies_in_clear_text_survive_cuts_in_the_middle(case):
    copies(case, "off")


def striped_copies(case, tls):
    """All connections of a program end in the middle of its copies, those of the stripes too,
    and are made again."""
    line = Line(case, every=0, tls=tls, memory="600MiB")
    path = case.folder / "spawned.err"
    shell = line.cudash(env={"GPUPOOL_LOG": "stub:info", "GPUPOOL_CONNECTIONS": "5"})
    memory = shell.ok("alloc", 64 * MIB)
    wrong = 0
    for number in range(COPIES):
        shell.send("copies", memory, 64 * MIB, 3)
        case.wait_for(lambda number=number: path.read_text(errors="replace").count(
            "4 further connections for bulk data") > number, "further connections")
        line.cutter.cut()
        wrong += shell.answer(patience=6 * case.patience) != [SUCCESS, 3]
    case.equal(shell("copies", memory, 64 * MIB, 3, patience=6 * case.patience), [SUCCESS, 3],
               "copies after the last cut")
    case.check(line.cutter.busy >= 5, "connections with bulk data after the last cut")
    report(case, f"{COPIES} times six copies of 64 MiB over five connections, TLS {tls}",
           line.cutter.cuts, line.log_of(shell), wrong)


def test_copies_over_several_connections_survive_cuts(case):
    striped_copies(case, "require")


def test_copies_over_several_connections_in_clear_text_survive_cuts(case):
    striped_copies(case, "off")


def test_cuts_while_several_connections_are_made_are_survived(case):
    """The cuts come nearly as fast as connections can be made, so many of those are for
    nothing; when they end, the copies go over five connections again."""
    line = Line(case, every=0, memory="200MiB")
    shell = line.cudash(env={"GPUPOOL_LOG": "stub:info", "GPUPOOL_CONNECTIONS": "5"})
    memory = shell.ok("alloc", 64 * MIB)
    line.cutter.every(0.06)
    for _ in range(5 * COPIES):
        case.equal(shell("copies", memory, 4 * MIB, 3, patience=6 * case.patience), [SUCCESS, 3],
                   "copies between cuts")
    line.cutter.every(0)
    case.wait_for(lambda: shell("copies", memory, 64 * MIB, 1, patience=6 * case.patience)
                  == [SUCCESS, 1] and line.cutter.busy >= 5, "bulk data over five connections")
    report(case, "copies while five connections are made", line.cutter.cuts, line.log_of(shell), 0)


class Late(Relay):
    """The first connection goes through at once, the one for acknowledgements when it is let
    through: what the client has sent over the first one, and when things happened."""

    def __init__(self, case, server):
        self.let = threading.Event()
        self.sent = 0
        self.at_s = {}
        super().__init__(case, server)

    def pass_on(self, client):
        first = self.connections == 1
        if not first:
            self.let.wait()
        with client, socket.create_connection(self.server, self.case.patience) as server:
            if not first:
                self.at_s.setdefault("let", time.monotonic())
            try:
                while self.move(client, server, first):
                    pass
            except OSError:
                return

    def move(self, client, server, first):
        for ready in select.select([client, server], [], [])[0]:
            data = ready.recv(1 << 16)
            (server if ready is client else client).sendall(data)
            if first and ready is client:
                self.sent += len(data)
                if "answered" in self.at_s:
                    self.at_s.setdefault("went on", time.monotonic())
            elif not first and ready is server:
                self.at_s.setdefault("answered", time.monotonic())
            if not data:
                return False
        return True

    def until_it_stands_still(self):
        """The journal is full when nothing more is sent, and all of it has arrived."""
        before = -1
        while self.sent != before or self.sent < MIB:
            before = self.sent
            time.sleep(0.1)


def test_journal_that_was_full_is_acknowledged_when_that_can_be(case):
    """A client fills its journal before its connection for acknowledgements is there, and
    goes on soon after it is: compared with the time that the handshake of it takes.  The
    worker came to that connection 300 ms later at most, so one case in ten would look soon."""
    parts = []
    line = Line(case, every=0, driver="null", tls="off")
    for _ in range(7):
        late = Late(case, line.session.field("server"))
        line.cutter.port = int(late.at.rpartition(":")[2])
        shell = line.cudash()
        shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
        word = shell.ok("alloc", MIB)
        proc.take_precedence()
        shell.send("flood", word, 400000)  # 32 bytes each; the journal grows to 4 MiB
        late.until_it_stands_still()
        late.let.set()
        case.equal(shell.answer(("flood",)), [SUCCESS, 400000], "launches")
        shell.ok("sync")
        case.check(late.connections > 1, "no connection for acknowledgements was made")
        took = late.at_s
        parts.append((took["went on"] - took["answered"]) / (took["answered"] - took["let"]))
        shell.close()
    print("on after the handshake, in handshakes:", " ".join(f"{part:.1f}" for part in parts),
          flush=True)
    case.check(sorted(parts)[2] < 20, f"the client went on late: {parts} handshakes")


def test_worker_that_is_gone_fails_every_call_at_once(case):
    line = Line(case, every=0)
    shell = line.cudash()
    shell.ok("alloc", MIB)
    worker, = line.pool.workers()
    line.pool.kill(worker)
    with case.within(3, "a call after the worker was killed"):
        case.equal(shell("alloc", MIB)[0], DEVICE_UNAVAILABLE, "a call without a worker")
    lines = (case.folder / "spawned.err").read_text()
    case.contains(lines, "the worker was killed by signal 9", "the program's words")


def test_client_that_is_killed_leaves_nothing(case):
    """Its process ran on the server's host, so nobody waits for it."""
    if "E2E_LISTEN" in os.environ:
        case.skip("the two addresses of this host stand for two hosts")
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
