# SPDX-License-Identifier: Apache-2.0
"""Requests that make the scheduler describe a large pool, again and again: others' grants
and renewals go on, and who reads too much is told when to come again."""

import os
import signal
import socket
import struct
import time

from harness.control import (Link, OPEN, REGISTER, RENEW_MANY, STATUS, WAIT_SERVERS, fields,
                             message, number, text)
from test_attacks_rates import LinkFrom, OTHER_HOST, client_token, limited, open_request
from test_hostile_scheduler import address

LIMIT = 6
SERVERS, CARDS = 20, 64


def large_pool(case, where):
    """Connections of servers with many cards to the scheduler at @where."""
    token = next(case.folder.rglob("server-token")).read_text().strip()
    links = []
    for server in range(SERVERS):
        cards = b"".join(text(9, text(1, struct.pack("<QQ", server + 1, card + 1)) +
                              text(2, "card") + number(3, 1 << 30) + number(7, card))
                         for card in range(CARDS))
        link = Link(case, where)
        code, words = link.ask(REGISTER, number(1, 1) + text(2, token) +
                               text(3, f"large-{server}") + text(4, "127.0.0.1:1") + cards)
        case.equal(code, 0, f"a registration: {words}")
        links.append(link)
    return links


def renewal(session, key):
    one = bytes([1 << 3 | 1]) + struct.pack("<Q", session) + text(2, key)
    return text(1, one) + number(3, 1)


class Reader:
    """A connection that asks for many statuses at once and counts what comes."""

    def __init__(self, case, pool, token):
        self.link = LinkFrom(case, address(pool), OTHER_HOST)
        self.token, self.seen, self.rest = token, 0, bytearray()
        # A connection that has shown no token is closed after ten seconds, and on a busy
        # machine its first large read may take longer.
        code, _ = self.link.ask(OPEN, open_request(token, "reader@there") + number(15, 1))
        case.equal(code, 0, "what a session would get, for who shows the token")
        self.link.socket.setblocking(False)

    def ask(self, count):
        self.link.socket.sendall(message(STATUS, text(1, self.token)) * count)

    def take(self):
        """Whole answers so far.  They get shorter when servers, which say nothing here, count
        as dead."""
        try:
            while part := self.link.socket.recv(1 << 20):
                self.rest += part
        except BlockingIOError:
            pass
        while len(self.rest) >= 4:
            size = struct.unpack("<I", self.rest[:4])[0] + 4
            if len(self.rest) < size:
                break
            del self.rest[:size]
            self.seen += 1
        return self.seen


def test_attacks_flood_of_large_reads_lets_a_renewal_through(case):
    """All of it waits in the scheduler's sockets when the renewal comes."""
    pool = case.pool(servers=1, cards=1)
    token = client_token(pool)
    servers = large_pool(case, address(pool))
    scheduler = pool.pid("gpupool-scheduler")
    with Link(case, address(pool)) as link:
        code, reply = link.ask(OPEN, open_request(token, "alice@here"))
        case.equal(code, 0, f"a session: {reply}")
        grant = dict(fields(dict(reply)[5]))
        readers = [Reader(case, pool, token) for _ in range(40)]
        os.kill(scheduler, signal.SIGSTOP)
        try:
            for reader in readers:
                reader.ask(4)
            link.socket.sendall(message(RENEW_MANY, renewal(grant[1], grant[3])))
        finally:
            os.kill(scheduler, signal.SIGCONT)
        code, reply = link.hear()
        os.kill(scheduler, signal.SIGSTOP)
        try:
            before = sum(reader.take() for reader in readers)
        finally:
            os.kill(scheduler, signal.SIGCONT)
        case.equal(code, 0, f"the renewal: {reply}")
        case.check(before < len(readers), f"{before} statuses were made before a renewal")
        # Nobody's request is lost.
        case.wait_for(lambda: sum(reader.take() for reader in readers) == 4 * len(readers),
                      "all statuses")
    for link in servers:
        link.close()


def test_attacks_large_reads_of_one_address_leave_other_peers_theirs(case):
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-reads", "5")
    token = client_token(pool)
    servers = large_pool(case, address(pool))
    with LinkFrom(case, address(pool), OTHER_HOST) as link:
        answers = link.errors(STATUS, text(1, token), 500)
        case.equal(answers[0], (0, 0), "the first status")
        refused = [retry for code, retry in answers if code == LIMIT]
        case.check(refused and min(refused) > 0, "a read too many is told when to come")
        # Whatever is no read is not refused.
        case.equal(link.errors(OPEN, open_request(token, "mallory@there"), 1), [(0, 0)],
                   "a session of who reads too much")
    with Link(case, address(pool)) as link:
        case.equal(link.ask(STATUS, text(1, token))[0], 0, "a status of another address")
    for link in servers:
        link.close()


def test_attacks_waits_that_are_over_count_as_the_reads_that_they_are(case):
    """Whoever waits for servers that are there already gets a status at once."""
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-reads", "5")
    token = client_token(pool)
    servers = large_pool(case, address(pool))
    with LinkFrom(case, address(pool), OTHER_HOST) as link:
        answers = link.errors(WAIT_SERVERS, number(1, 1) + number(2, 1000) + text(3, token), 500)
        case.equal(answers[0], (0, 0), "the first one")
        refused = [retry for code, retry in answers if code == LIMIT]
        case.check(refused and min(refused) > 0, "one too many is told when to come")
    for link in servers:
        link.close()


def get(case, port, path, source, token):
    with socket.create_connection(("127.0.0.1", port), case.patience,
                                  source_address=(source, 0)) as link:
        link.sendall(f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        answer = b""
        while part := link.recv(65536):
            answer += part
    return answer.decode()


def test_attacks_pages_of_one_address_leave_other_peers_theirs(case):
    """Metrics, which need no token, and the JSON API."""
    pool = case.pool(servers=1, cards=1)
    where = address(pool)  # before it listens elsewhere as well
    ports = {"--metrics-listen": case.free_port(), "--http": case.free_port()}
    paths = {"--metrics-listen": "/metrics/cards", "--http": "/api/v1/cards"}
    limited(pool, "gpupool-scheduler", "--rate-reads", "5",
            *(word for name, port in ports.items() for word in (name, f"127.0.0.1:{port}")))
    token = client_token(pool)
    servers = large_pool(case, where)
    for name, port in ports.items():
        end = time.monotonic() + case.patience
        while True:
            answer = get(case, port, paths[name], OTHER_HOST, token)
            if " 429 " in answer:
                break
            case.contains(answer, " 200 ", f"{name}: a page")
            case.check(time.monotonic() < end, f"{name}: nobody is refused")
        case.contains(answer, "Retry-After: ", f"{name}: when to come back")
        case.contains(get(case, port, paths[name], "127.0.0.1", token), " 200 ",
                      f"{name}: a page for another address")
    for link in servers:
        link.close()
