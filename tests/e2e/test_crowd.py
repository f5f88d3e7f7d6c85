# SPDX-License-Identifier: Apache-2.0
"""Many who connect to the scheduler at once, as after its restart: they wait for their turn, and
what it does for one of them is not in vain."""

import os
import signal
import socket
import ssl
import time

from harness.pool import SCHEDULER
from test_hostile_scheduler import address

CROWD, MAX = 700, 512


def hello():
    """The first bytes of a handshake of TLS."""
    out = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def closed(links):
    """How many of them the scheduler has ended."""
    n = 0
    for link in links:
        link.setblocking(False)
        try:
            n += link.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            pass
        except ConnectionResetError:
            n += 1
    return n


def test_who_connects_has_time_to_speak_whoever_comes_behind(case):
    """More than are kept of those that have not spoken; each has a second first."""
    to = address(case.pool())
    for _ in range(100):
        start = time.monotonic()
        links = [socket.create_connection(to, timeout=case.patience,
                                          source_address=(f"127.0.0.{2 + i % 8}", 0))
                 for i in range(CROWD)]
        time.sleep(0.3)
        n = closed(links)
        if time.monotonic() - start < 0.9:
            case.equal(n, 0, "ended in their first second")
            break
        for link in links:
            link.close()
        time.sleep(1)
    case.wait_for(lambda: closed(links) >= CROWD - MAX, "there are no more than may be")
    for link in links:
        link.close()


def test_who_has_hung_up_costs_no_handshake(case):
    pool = case.pool()
    scheduler, to = pool.pid(SCHEDULER), address(pool)
    os.kill(scheduler, signal.SIGSTOP)
    try:
        for _ in range(20):
            with socket.create_connection(to, timeout=case.patience) as link:
                link.sendall(hello())
    finally:
        os.kill(scheduler, signal.SIGCONT)
    case.wait_for(lambda: "it has hung up before it was answered" in pool.log(), "it says so")
    pool.run(case.programs / "vecadd")
