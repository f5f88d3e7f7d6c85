# SPDX-License-Identifier: Apache-2.0
"""Several connections of one attachment: the same results, and nobody else's."""

import os
import random
import socket
import struct

from harness import proc
from harness.raw import challenge, prove, where

PROGRAMS = ("vecadd", "matmul", "pipeline", "histogram", "threads")
FIVE = {"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_CONNECTIONS": "5"}
OK, BAD_REQUEST = 0, 1
MIB = 1 << 20


def test_programs_compute_the_same_over_five_connections(case):
    session = case.pool().session(memory="1GiB")
    for program in PROGRAMS:
        session.run(case.programs / program, env=FIVE)


ACKS = 1  # a connection for acknowledgements, of a link that can be replaced


def port_of(session):
    return int(session.field("server").rsplit(":", 1)[1])


def connections(pid, port):
    """How many TCP connections of @pid lead to @port."""
    inodes = {name[8:-1] for name in proc.open_files(pid).values()
              if name.startswith("socket:[")}
    with open(f"/proc/{pid}/net/tcp", encoding="utf-8") as table:
        rows = [line.split() for line in list(table)[1:]]
    return sum(row[9] in inodes and int(row[2].split(":")[1], 16) == port for row in rows)


def moved_some(case, session, env):
    """A cudash that has loaded a big image, which is bulk data."""
    ptx = (case.build / "tests" / "ptx" / "vecadd.ptx").read_bytes()
    path = case.folder / "image.ptx"
    path.write_bytes(ptx + b"\n// " + random.Random(5).randbytes(MIB).hex().encode() + b"\n")
    shell = session.cudash(env).begin()
    shell.ok("load", path)
    return shell


def test_connections_are_made_when_bulk_data_moves_and_go_with_the_client(case):
    pool = case.pool()
    session = pool.session()
    shell = moved_some(case, session, FIVE)
    port = port_of(session)
    case.wait_for(lambda: connections(shell.process.pid, port) == 5 + ACKS, "five connections")
    worker, = pool.workers()
    for _ in range(3):
        shell.ok("unload")
        shell.ok("load", case.folder / "image.ptx")
    pool.kill(shell.process.pid)
    case.wait_for(lambda: not proc.is_alive(worker), "the worker is gone")


def test_lost_worker_is_noticed_over_any_connection(case):
    pool = case.pool()
    session = pool.session()
    shell = moved_some(case, session, FIVE)
    case.wait_for(lambda: connections(shell.process.pid, port_of(session)) == 5 + ACKS,
                  "five connections")
    pool.kill(pool.workers()[0])
    case.check(shell("load", case.folder / "image.ptx")[0] != 0, "a load without a worker")


def test_one_connection_is_one_where_that_is_asked_for(case):
    session = case.pool().session()
    shell = moved_some(case, session, {**FIVE, "GPUPOOL_CONNECTIONS": "1", "GPUPOOL_RESUME": "0"})
    case.equal(connections(shell.process.pid, port_of(session)), 1, "connections")


# ---- unauthenticated peers -------------------------------------------------------


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field of a protobuf message: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def ask(peer, body):
    """Send a request, and the reply's bytes."""
    peer.sendall(struct.pack("<I", len(body)) + body)
    size, = struct.unpack("<I", peer.recv(4, socket.MSG_WAITALL))
    return peer.recv(size, socket.MSG_WAITALL)


def status_of(reply):
    return reply[1] if reply[:1] == b"\x08" else OK


def join(case, server, cookie, index, time=0):
    with socket.create_connection(server, timeout=case.patience) as peer:
        return status_of(ask(peer, field(1, 1) + field(14, cookie) + field(15, index) +
                             field(29, time)))


def test_peer_without_the_cookie_gets_no_connection(case):
    session = case.pool().session()
    shell = session.cudash({"GPUPOOL_TRANSPORT": "tcp"}).begin()
    server = where(session)
    for cookie in (bytes(16), os.urandom(16), os.urandom(15), os.urandom(17), b"x" * 100):
        for index in (0, 1, 8, 1 << 31):
            case.equal(join(case, server, cookie, index), BAD_REQUEST, "status")
    shell.ok("sync")


def attach(case, session, client, extra=b"", rounds=3):
    """By hand, over the socket @client: the cookies, eight of each round."""
    reply = ask(client, field(1, 1) + field(3, session.field("ticket").encode()) +
                field(13, 1) + field(21, 1) + extra)
    proof, cookies = prove(case, session.field("ticket"), session.field("secret"),
                           challenge(reply), rounds)
    reply = ask(client, proof[4:])
    case.equal(status_of(reply), OK, "status of the attachment")
    case.check(all(cookie not in reply for cookie in cookies), "a cookie in the reply")
    case.equal(len(cookies), 8 * rounds, "cookies, one for each connection of each round")
    return cookies


def test_connections_can_be_made_again_in_a_later_round(case):
    """For the next link: each once in its round, and never again in one before."""
    session = case.pool().session()
    server = where(session)
    with socket.create_connection(server, timeout=case.patience) as client:
        cookies = attach(case, session, client, field(25, 1) + field(28, 1))
        for time in (0, 2):
            for index in range(8):
                cookie = cookies[time * 8 + index]
                case.equal(join(case, server, cookie, index, (time + 1) % 3), BAD_REQUEST,
                           f"the cookie of another round than {time}")
                case.equal(join(case, server, cookie, index, time), OK, f"round {time}")
                case.equal(join(case, server, cookie, index, time), BAD_REQUEST, "once more")
        for time in (0, 1):
            case.equal(join(case, server, cookies[time * 8], 0, time), BAD_REQUEST,
                       f"round {time}, which is over")
        for time in (3, 1 << 29, (1 << 32) - 1):
            case.equal(join(case, server, cookies[0], 0, time), BAD_REQUEST, f"round {time}")
    case.wait_for(lambda: not session.pool.workers(), "the worker is gone")


def test_attacks_connections_that_nobody_takes_are_few(case):
    """Of rounds behind each other, for links that never break: the worker does not look for
    them, so each would be a descriptor that the server has on its way, of which all of its user's
    processes together may have no more than one may open."""
    session = case.pool().session()
    server = where(session)
    taken = 0
    with socket.create_connection(server, timeout=case.patience) as client:
        cookies = attach(case, session, client, field(25, 1) + field(28, 1), rounds=60)
        for n, cookie in enumerate(cookies):
            if join(case, server, cookie, n % 8, n // 8) != OK:
                break
            taken += 1
    case.check(16 <= taken <= 100, f"{taken} connections wait for one worker")


def test_each_connection_can_be_made_once(case):
    session = case.pool().session()
    server = where(session)
    with socket.create_connection(server, timeout=case.patience) as client:
        cookies = attach(case, session, client)[:8]
        for index in range(8):
            case.equal(join(case, server, cookies[index - 1], index), BAD_REQUEST,
                       f"connection {index} with the cookie of another")
        for index in range(8):
            case.equal(join(case, server, cookies[index], index), OK, f"connection {index}")
        for index in (*range(9), 31, 32, 33):
            case.equal(join(case, server, cookies[index % 8], index), BAD_REQUEST,
                       f"connection {index}, once more or too many")
    case.wait_for(lambda: not session.pool.workers(), "the worker is gone")
    case.equal(join(case, server, cookies[0], 0), BAD_REQUEST, "a cookie without attachment")


def test_word_that_is_no_number_of_connections_is_named(case):
    pool = case.pool()
    for word in ("0", "10", "many"):
        done = pool.run(case.programs / "vecadd", env={**FIVE, "GPUPOOL_CONNECTIONS": word},
                        status=None)
        case.check(done.status != 0, "vecadd ran")
        case.contains(done.err, f"GPUPOOL_CONNECTIONS={word}: auto, or 1 to 9", "stderr")
