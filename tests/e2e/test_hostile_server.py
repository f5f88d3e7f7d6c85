# SPDX-License-Identifier: Apache-2.0
"""Strangers and broken clients at a pool server: their connection ends, the log says
why, everybody else is served as before, and nothing stays behind."""

import random
import socket
import struct

from harness.raw import (BULK, COPY_UP, MALLOC, PING, REPLY, STREAM_CREATE, Raw,
                         attach_request, where)


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
    # Well-formed headers, random bodies of every family: the decoders' turn.
    for round_ in range(60):
        raw = Raw(case, session)
        for _ in range(20):
            call = random.choice(FAMILIES) << 8 | random.randrange(1, 0x40)
            body = random.randbytes(8 * random.randrange(0, 40))
            try:
                raw.sock.sendall(raw.frame(call, body, flags=random.choice((0, 2, 3)),
                                           ctx=random.randrange(3)))
            except ConnectionError:
                break
        raw.sock.close()
    case.equal(shell("alloc", 4096)[0], 0, "the attachment that was there before")
    case.wait_for(lambda: len(pool.workers()) == 1, "the broken clients' workers are gone")
    session.run(case.programs / "vecadd")


FAMILIES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe, 0x10, 0x11, 0x12, 0x14)


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


def test_strangers_at_the_server_are_sent_away(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    server = pool.pid("gpupool-server")
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: pool.workers() == [], "the worker of the first program is gone")
    before = len(pool.files(server))
    random.seed(13)
    strangers = [b"", b"\0", struct.pack("<I", 0), struct.pack("<I", 0xffffffff),
                 struct.pack("<I", 65537) + bytes(100), b"GET / HTTP/1.0\r\n\r\n",
                 attach_request(session.field("ticket"), major=9),
                 attach_request(session.field("ticket")) + b"more"]
    strangers += [struct.pack("<I", 300) + random.randbytes(300) for _ in range(30)]
    for data in strangers:
        with socket.create_connection(where(session), timeout=case.patience) as stranger:
            try:
                stranger.sendall(data)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(65536):
                    pass
            except ConnectionError:
                pass
            except TimeoutError:
                case.fail(f"no end for a stranger that sent {data[:16]!r}...")
    for words in ("not an attach request", "its request is over", "protocol 9",
                  "bytes follow the attach request"):
        case.contains(pool.log(), words, "the server's log")
    case.equal(pool.workers(), [], "workers")
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: len(pool.files(server)) <= before, lambda:
                  f"descriptors of the server: {before} before, {pool.files(server)} now")


def test_silent_strangers_keep_nobody_out_and_are_sent_away(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    silent = [socket.create_connection(where(session), timeout=case.patience)
              for _ in range(300)]
    silent[-1].sendall(b"\x10\0")  # and one that begins, and never goes on
    try:
        session.run(case.programs / "vecadd")
        for stranger in silent:
            case.equal(stranger.recv(1), b"", "what a silent stranger gets")
    except TimeoutError:
        case.fail("a silent stranger is still connected")
    finally:
        for stranger in silent:
            stranger.close()
    case.contains(pool.log(), "no whole request within", "the server's log")


def test_control_characters_of_a_client_stay_out_of_the_log(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    raw = Raw(case, session)
    raw.ping()
    raw.sock.close()
    case.wait_for(lambda: "raw??[31mclient" in pool.log(), "the program's name in the log")
    case.check("\x1b" not in pool.log(), "an escape sequence stands in the log")


def test_session_and_server_limits_of_attachments_hold(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB", options=["--processes", 2])
    first, second = Raw(case, session), Raw(case, session)
    sock = socket.create_connection(where(session), timeout=case.patience)
    sock.sendall(attach_request(session.field("ticket")))
    answer = b""
    while part := sock.recv(65536):
        answer += part
    sock.close()
    case.contains(answer.decode(errors="replace"), "its limit", "the refusal")
    first.ping()
    second.ping()
    first.sock.close()
    case.wait_for(lambda: "s1.c1: detached" in pool.log(), "the first one's worker is gone")
    third = Raw(case, session)
    third.ping()
    third.sock.close()
    second.sock.close()
