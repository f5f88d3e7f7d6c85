# SPDX-License-Identifier: Apache-2.0
"""Unauthenticated peers of the scheduler: each of them is sent away, everybody else is
served as before, and no descriptor stays behind."""

import random
import socket
import struct


def address(pool):
    """(host, port) of the pool's scheduler, from its own sockets."""
    pid = pool.pid("gpupool-scheduler")
    inodes = {link[8:-1] for link in pool.files(pid).values() if link.startswith("socket:[")}
    for line in open(f"/proc/{pid}/net/tcp", encoding="ascii").read().split("\n")[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == "0A" and fields[9] in inodes:
            return "127.0.0.1", int(fields[1].split(":")[1], 16)
    return pool.case.fail("the scheduler listens nowhere")


def send_and_wait_for_the_end(case, where, data):
    """Send @data; the scheduler must close (or answer and stay calm)."""
    with socket.create_connection(where, timeout=case.patience) as peer:
        peer.settimeout(case.patience)
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            case.fail(f"no end for a peer that sent {data[:16]!r}...")


def test_unauthenticated_peers_do_no_harm_and_leave_nothing(case):
    pool = case.pool(servers=1, cards=1)
    where = address(pool)
    scheduler = pool.pid("gpupool-scheduler")
    pool.run("true")
    before = len(pool.files(scheduler))
    random.seed(7)
    for data in (b"", b"\0", b"\0\0\0\0", struct.pack("<I", 0xffffffff),
                 struct.pack("<I", 0x7fffffff) + b"x" * 1000, struct.pack(">I", 20) + b"y" * 5,
                 b"GET /metrics HTTP/1.0\r\n\r\n", struct.pack("<I", 64) + bytes(64)):
        send_and_wait_for_the_end(case, where, data)
    for _ in range(60):
        body = random.randbytes(random.randrange(1, 400))
        send_and_wait_for_the_end(case, where, struct.pack("<I", len(body)) + body)
        send_and_wait_for_the_end(case, where, body)
    pool.run(case.programs / "vecadd")
    case.equal(pool.pid("gpupool-scheduler"), scheduler, "the scheduler's process")
    case.wait_for(lambda: len(pool.files(scheduler)) <= before, lambda:
                  f"descriptors of the scheduler: {before} before, {pool.files(scheduler)} now")


def test_idle_peers_do_not_shut_others_out(case):
    pool = case.pool(servers=1, cards=1)
    where = address(pool)
    peers = [socket.create_connection(where) for _ in range(200)]
    try:
        pool.run(case.programs / "vecadd")
        case.equal(len(pool.status()["servers"]), 1, "servers in status")
    finally:
        for peer in peers:
            peer.close()
