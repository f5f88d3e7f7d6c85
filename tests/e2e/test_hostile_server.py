# SPDX-License-Identifier: Apache-2.0
"""Unauthenticated peers and broken clients at a pool server: their connection ends, the log says
why, everybody else is served as before, and nothing stays behind."""

import random
import socket
import struct
import time
from pathlib import Path

from harness.raw import (BULK, COPY_UP, MALLOC, PING, REPLY, RETAIN, STREAM_CREATE, Client, Raw,
                         attach_request, challenge, handle, prove, where)
from test_programs import build_whose_driver_says_nothing

RUNS_UP, RUNS_DOWN = 0xe028, 0xe029
COPY_DOWN, PIECES = 0x0a1f, 0xe039
RUN_AGREED, RUN_IDLE, RUN_STALE = 4, 5, 6


def broken(case, pool, session, words, *log):
    """A raw client that was fine until now; @words is what it does."""
    def send(make):
        raw = Raw(case, session)
        raw.ping()
        raw.sock.sendall(make(raw))
        raw.ends(words)
        case.wait_for(lambda: any(word in pool.log() for word in log),
                      lambda: f"the log says why ({words}: {log}):\n{pool.log()}")
    return send


def test_broken_frames_end_one_attachment_and_nobody_else(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    shell = session.cudash().begin()
    server = pool.pid("gpupool-server")
    before = len(pool.files(server))

    broken(case, pool, session, "a frame out of order", "out of order")(
        lambda raw: raw.frame(PING, bytes(8), seq=17))
    broken(case, pool, session, "the same frame twice", "out of order")(
        lambda raw: raw.frame(PING, bytes(8), seq=raw.seq))
    broken(case, pool, session, "an unknown call", "unknown call")(
        lambda raw: raw.frame(0x7777, bytes(8)))
    broken(case, pool, session, "unknown flags", "unknown flags")(
        lambda raw: raw.frame(PING, bytes(8), flags=0x8000))
    broken(case, pool, session, "a body too short", "malformed body")(
        lambda raw: raw.frame(MALLOC, b""))
    broken(case, pool, session, "a payload on a call that has none", "malformed body")(
        lambda raw: raw.frame(PING, bytes(8), flags=REPLY | BULK))
    for size in (0, 4, 17, 1 << 20, 0xfffffff8):
        broken(case, pool, session, f"a frame of {size} bytes", "a length that no frame")(
            lambda raw, size=size: raw.frame(PING, bytes(8), size=size))
    broken(case, pool, session, "a handle in use", "its id is in use", "bad handle")(
        lambda raw: made_twice(raw))
    broken(case, pool, session, "a payload larger than any memory", "malformed body")(
        lambda raw: raw.frame(COPY_UP, struct.pack("<QQQ", 0, 0, 1 << 60), flags=BULK))

    case.equal(shell("alloc", 4096)[0], 0, "the attachment that was there before")
    session.run(case.programs / "vecadd")
    case.equal(pool.pid("gpupool-server"), server, "the server's process")
    case.wait_for(lambda: len(pool.workers()) == 1, "the broken clients' workers are gone")
    case.wait_for(lambda: len(pool.files(server)) <= before, lambda:
                  f"descriptors of the server: {before} before, {pool.files(server)} now")


def test_ranges_without_end_cost_no_more_than_the_notes_there_are(case):
    """Notes are of pages, and a client names ranges of as many as it likes."""
    case.build = build_whose_driver_says_nothing(case)
    session = case.pool(servers=1, cards=1).session(core=20, memory="128MiB")
    client = Client(case, session)
    client.must(RETAIN, struct.pack("<q", 0))
    client.ctx = 1
    device, = struct.unpack("<Q", client.must(MALLOC, struct.pack("<Q", 1 << 20)))
    agreed, asked = (struct.pack("<QQII", device, 1 << 20, kind, 0) for kind in (RUN_AGREED, RUN_IDLE))

    def are_noted():
        client.must(RUNS_UP, struct.pack("<QIIII", 0, 1, len(agreed), 0, 0) + agreed)
        answer = client.must(RUNS_DOWN, struct.pack("<QQII", 0, 0, len(asked), 0) + asked)
        return struct.unpack_from("<QII", answer) == (0, 0, 0)

    case.wait_for(are_noted, "the pages have notes, and none has changed")
    for addr, size in ((0, 1 << 63), (device, 1 << 63), (1, (1 << 64) - 2), (device, 0)):
        stale = struct.pack("<QQII", addr, size, RUN_STALE, 0) * 100
        begun = time.monotonic()
        client.ask(RUNS_UP, struct.pack("<QIIII", 0, 0, len(stale), 0, 0) + stale)
        client.ping()
        case.check(time.monotonic() - begun < case.patience / 4, f"{size:#x} bytes took long")


def test_lengths_of_pieces_that_make_no_sense_are_none(case):
    """A client says in which lengths payloads are moved; whatever it says, they come whole."""
    session = case.pool(servers=1, cards=1).session(core=20, memory="128MiB")
    client = Client(case, session)
    client.must(RETAIN, struct.pack("<q", 0))
    client.ctx = 1
    size = 3 << 20
    device, = struct.unpack("<Q", client.must(MALLOC, struct.pack("<Q", size)))
    for up, down in ((1, 1), (65537, 69637), (1 << 31, 0xffffffff), (65536, 65536), (1 << 20, 1 << 20),
                     ((1 << 20) + 4096, 0), (0, 0)):
        data = random.Random(up ^ down).randbytes(size)
        client.sock.sendall(client.frame(PIECES, struct.pack("<II", up, down), flags=0, ctx=1))
        client.sock.sendall(client.frame(COPY_UP, struct.pack("<QQQ", device, 0, size), flags=BULK, ctx=1) + data)
        back = client.must(COPY_DOWN, struct.pack("<QQQ", device, size, 0))
        case.check(back[-size:] == data, f"pieces of {up} and {down} bytes: other bytes")
    client.ping()


def made_twice(raw):
    """Two objects under one id, in the primary context (index 1)."""
    retain = raw.frame(0x031d, struct.pack("<II", 0, 0))
    ident = 1 << 46 | 5 << 40 | 1 << 4
    body = struct.pack("<QII", ident, 0, 0)
    return retain + raw.frame(STREAM_CREATE, body, flags=0, ctx=1) + \
        raw.frame(STREAM_CREATE, body, flags=0, ctx=1)


def test_garbage_behind_a_good_ticket_does_no_harm(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB", options=["--processes", 64])
    shell = session.cudash().begin()
    random.seed(11)
    for round_ in range(30):
        raw = Raw(case, session)
        raw.ping(round_)
        raw.sock.sendall(random.randbytes(random.randrange(1, 3000)))
        raw.sock.shutdown(socket.SHUT_WR)
        raw.ends("random bytes")
    unharmed(case, pool, session, shell)


def test_garbage_reaches_decoders_and_handlers_and_does_no_harm(case):
    """Good headers and numbers, and bodies of the right length with wrong contents.  What
    has been answered, and what the log says, show how far they came."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB", options=["--processes", 64])
    shell = session.cudash().begin()
    random.seed(12)
    calls = list(requests())
    answered, results = set(), 0
    for _ in range(60):
        raw = Raw(case, session)
        frames = [raw.frame(RETAIN, struct.pack("<II", 0, 0))]
        for _ in range(40):
            call, fields, parts = random.choice(calls)
            frames.append(raw.frame(call, garbage(fields, parts), ctx=random.choice((0, 1, 1, 1))))
        # Something in the middle that no decoder takes.
        call, fields, parts = random.choice(calls)
        frames.append(raw.frame(call, garbage(fields, parts) + random.randbytes(8)))
        try:
            raw.sock.sendall(b"".join(frames))
            raw.sock.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass  # an early one ended it
        for told, _ in answers(raw):
            answered.add(told)
            results += 1
    case.check(results > 600, f"only {results} of 2400 calls were answered")
    case.check(len(answered) > 150, f"only {len(answered)} of {len(calls)} functions answered")
    case.contains(pool.log(), "malformed body", "the log: decoders refused something")
    case.check("unknown call" not in pool.log(), "all numbers are those of calls")
    unharmed(case, pool, session, shell)


EVENT = 4
# They end the worker's part of a call, or need what a client by hand does not have.
NOT_HERE = ("gp_", "cuCtxDestroy", "cuDevicePrimaryCtx")
# Handles that the client mints, by the name of the field, and those of this test.
NEW = {"phGraph": 7, "phGraphClone": 7, "phGraphNode": 9, "phGraphExec": 8, "phStream": 5,
       "phEvent": 6, "pctx": 1, "pArray": 10, "pHandle": 10, "pMipmappedArray": 11, "pool": 16,
       "pTexRef": 14, "object_out": 19, "stateOut": 18, "module": 2, "library": 3}
NEW_IDS = []
SIZES = {"uint64": 8, "int64": 8, "uint32": 4, "int32": 4, "uint16": 2, "uint8": 1, "float": 4,
         "double": 8}


def requests():
    """Number, fields and parts of every request, from the wire contract."""
    contract = Path(__file__).resolve().parents[2] / "proto" / "wire.lock"
    for line in contract.read_text(encoding="ascii").splitlines():
        if line.startswith("#"):
            continue
        number, name, request, answer = line.split()
        if name.startswith(NOT_HERE) or (request, answer) == ("-", "-"):
            continue  # not here, or perhaps without a frame
        fields = [] if request == "-" else request.split(",")
        yield (int(number, 16), [f.split(":") for f in fields if not f.startswith("+")],
               [f for f in fields if f.startswith("+")])


def garbage(fields, parts):
    """A body: zeros where a number could be the length of a part, else anything."""
    body = b""
    for name, kind in fields:
        if name in NEW:
            NEW_IDS.append(handle(NEW[name], len(NEW_IDS) + 1))
            body += struct.pack("<Q", NEW_IDS[-1])
            continue
        if kind.endswith("w"):
            words = [random.choice((0, 0, 1, 2, 64, 1 << 46 | random.getrandbits(40),
                                    random.getrandbits(64))) for _ in range(int(kind[:-1]))]
            body += struct.pack(f"<{len(words)}Q", *words)
            continue
        size = SIZES[kind]
        value = 0 if parts and random.random() < 0.9 else random.choice(
            (0, 1, 2, 8, 4096, random.choice(NEW_IDS[-40:] or [7]), random.getrandbits(64)))
        body += (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return body + bytes(-len(body) % 8)


def answers(raw):
    """Calls and results of all answers until the server lets go."""
    data = b""
    try:
        while part := raw.sock.recv(65536):
            data += part
    except ConnectionError:
        pass
    except TimeoutError:
        raw.case.fail("the attachment goes on after its end")
    raw.sock.close()
    while len(data) >= 16:
        size, call, flags, _, result = struct.unpack_from("<IHHIi", data)
        if size < 16 or flags & BULK:
            return
        if not flags & EVENT:
            yield call, result
        data = data[size:]


def unharmed(case, pool, session, shell):
    case.equal(shell("alloc", 4096)[0], 0, "the attachment that was there before")
    case.wait_for(lambda: len(pool.workers()) == 1, "the broken clients' workers are gone")
    session.run(case.programs / "vecadd")
    case.check("was killed by signal" not in pool.log(),
               lambda: f"a worker was killed by a signal:\n{pool.log()}")


def test_clients_that_vanish_half_way_leave_nothing(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    raw = Raw(case, session)
    raw.sock.sendall(raw.frame(PING, bytes(8))[:11])
    raw.sock.close()
    raw = Raw(case, session)
    raw.sock.sendall(raw.frame(0x031d, struct.pack("<II", 0, 0)) +
                     raw.frame(COPY_UP, struct.pack("<QQQ", 0, 0, 1 << 40), flags=BULK, ctx=1) +
                     bytes(100000))
    raw.sock.close()
    case.wait_for(lambda: pool.workers() == [], "their workers are gone")
    session.run(case.programs / "vecadd")


def test_unauthenticated_peers_of_the_server_are_sent_away(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    server = pool.pid("gpupool-server")
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: pool.workers() == [], "the worker of the first program is gone")
    before = len(pool.files(server))
    random.seed(13)
    peers = [b"", b"\0", struct.pack("<I", 0), struct.pack("<I", 0xffffffff),
                 struct.pack("<I", 65537) + bytes(100), b"GET / HTTP/1.0\r\n\r\n",
                 attach_request(session.field("ticket"), major=9),
                 attach_request(session.field("ticket")) + struct.pack("<I", 2) + b"\x0a\0"]
    peers += [struct.pack("<I", 300) + random.randbytes(300) for _ in range(30)]
    for data in peers:
        with socket.create_connection(where(session), timeout=case.patience) as peer:
            try:
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    pass
            except ConnectionError:
                pass
            except TimeoutError:
                case.fail(f"no end for a peer that sent {data[:16]!r}...")
    for words in ("not an attach request", "its request is over", "protocol 9",
                  "the proof of its secret is wrong"):
        case.contains(pool.log(), words, "the server's log")
    case.equal(pool.workers(), [], "workers")
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: len(pool.files(server)) <= before, lambda:
                  f"descriptors of the server: {before} before, {pool.files(server)} now")


def test_silent_peers_keep_nobody_out_and_are_sent_away(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    silent = [socket.create_connection(where(session), timeout=case.patience)
              for _ in range(300)]
    silent[-1].sendall(b"\x10\0")  # and one that begins, and never goes on
    try:
        session.run(case.programs / "vecadd")
        for peer in silent:
            case.equal(peer.recv(1), b"", "what a silent peer gets")
    except TimeoutError:
        case.fail("a silent peer is still connected")
    finally:
        for peer in silent:
            peer.close()
    case.contains(pool.log(), "no whole request within", "the server's log")


def test_control_characters_of_a_client_stay_out_of_the_log(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    raw = Raw(case, session)
    raw.ping()
    raw.sock.close()
    case.wait_for(lambda: "raw??[31mclient" in pool.log(), "the program's name in the log")
    case.check("\x1b" not in pool.log(), "an escape sequence stands in the log")


def refusal(case, session):
    """What an attach with the proof of its ticket is answered."""
    with socket.create_connection(where(session), timeout=case.patience) as sock:
        sock.sendall(attach_request(session.field("ticket")))
        size, = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))
        asked = challenge(sock.recv(size, socket.MSG_WAITALL))
        sock.sendall(prove(case, session.field("ticket"), session.field("secret"), asked)[0])
        answer = b""
        while part := sock.recv(65536):
            answer += part
    return answer


def test_session_and_server_limits_of_attachments_hold(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB", options=["--processes", 2])
    first, second = Raw(case, session), Raw(case, session)
    case.contains(refusal(case, session).decode(errors="replace"), "its limit", "the refusal")
    first.ping()
    second.ping()
    first.sock.close()
    case.wait_for(lambda: "s1.c1: detached" in pool.log(), "the first one's worker is gone")
    third = Raw(case, session)
    third.ping()
    third.sock.close()
    second.sock.close()
