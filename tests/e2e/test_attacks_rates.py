# SPDX-License-Identifier: Apache-2.0
"""Floods of requests: who asks too often is told when to come again, and nobody else
notices."""

import socket
import struct
import time

from harness.control import Link, OPEN, RENEW_MANY, STATUS, fields, message, number, text
from harness.raw import attach_request, where
from test_hostile_scheduler import address

DENIED, LIMIT = 3, 6
ATTACH_BAD_TICKET, ATTACH_LIMIT = 3, 5
OTHER_HOST = "127.0.0.2"
BURST = 10  # seconds' worth, as GP_RATE_BURST_S


class LinkFrom(Link):
    """A connection to the scheduler from another address."""

    def __init__(self, case, to, source):
        self.socket = socket.create_connection(to, timeout=case.patience,
                                               source_address=(source, 0))

    def errors(self, body, content, count):
        """[(code, retry_after_ms)] of @count requests; (0, 0) for those that are served."""
        found = []
        for _ in range(count):
            self.socket.sendall(message(body, content))
            size = struct.unpack("<I", self._exactly(4))[0]
            reply = dict(fields(self._exactly(size)))
            error = dict(fields(reply.get(2, b"")))
            found.append((error.get(1, 0), error.get(5, 0)))
        return found


def client_token(pool):
    return next(pool.case.folder.rglob("client-token")).read_text().strip()


def limited(pool, program, *options):
    """The pool whose @program has these limits, with its server registered."""
    pool.restart(pool.pid(program), *options)

    def is_registered():
        # Who asks in a hurry from the server's own address takes from the server's own limit.
        time.sleep(1)
        return all(server["state"] == "alive" for server in pool.status()["servers"])

    pool.case.wait_for(is_registered, "the server is registered again")
    return pool


def open_request(token, owner):
    return (number(1, 1) + text(2, token) + text(3, owner) +
            number(4, 1) + number(5, 1 << 20))


def seen_limit(case, answers, within, name):
    """The first @within answers were served; one behind them was refused and says when to
    come.  Not each of them: who is slow gets a new one every second."""
    case.equal([code for code, _ in answers[:within] if code == LIMIT], [],
               f"{name}: refused as too many among those that may be")
    refused = [retry for code, retry in answers if code == LIMIT]
    case.check(refused, f"{name}: none of {len(answers)} was refused")
    case.check(min(refused) > 0, f"{name}: the refusal says when to try again")


def test_attacks_flood_of_openings_leaves_other_peers_theirs(case):
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-opens", "1")
    token = client_token(pool)
    with LinkFrom(case, address(pool), OTHER_HOST) as link:
        answers = link.errors(OPEN, open_request(token, "mallory@there"), 2 * BURST + 5)
        seen_limit(case, answers, BURST, "sessions")
        case.check(sum(code == 0 for code, _ in answers) <= BURST + 5,
                   f"{answers}: more sessions than the limit")
        pool.run(case.programs / "vecadd")


def test_attacks_opening_in_another_owners_name_does_not_use_up_the_owners(case):
    """The owner is what a client says: one address may not lock another's owner out."""
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-opens", "1")
    token = client_token(pool)
    owner = pool.session(core=1, memory="1MiB").pool.sessions()[0]["owner"]
    with LinkFrom(case, address(pool), OTHER_HOST) as link:
        seen_limit(case, link.errors(OPEN, open_request(token, owner), 2 * BURST + 5), BURST,
                   "sessions of another's name")
        pool.run(case.programs / "vecadd")


def test_attacks_flood_of_requests_leaves_other_peers_theirs(case):
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-requests", "10")
    token = client_token(pool)
    with LinkFrom(case, address(pool), OTHER_HOST) as link:
        seen_limit(case, link.errors(STATUS, text(1, token), 10 * BURST + 200), 10 * BURST, "requests")
        pool.run(case.programs / "vecadd")


def test_attacks_batches_of_one_session_get_as_many_tickets_as_requests(case):
    """Tickets are signatures, which all who open and renew wait for: who names a session again
    and again, and claims to have no tickets, gets some now and then."""
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-requests", "10")
    named = 300
    with LinkFrom(case, address(pool), OTHER_HOST) as link:
        code, reply = link.ask(OPEN, open_request(client_token(pool), "mallory@there"))
        case.equal(code, 0, f"a session: {reply}")
        grant = dict(fields(dict(reply)[5]))
        one = bytes([1 << 3 | 1]) + struct.pack("<Q", grant[1]) + text(2, grant[3])
        tickets = leases = 0
        for _ in range(4):
            code, reply = link.ask(RENEW_MANY, text(1, one) * named)
            case.equal(code, 0, f"a batch: {reply}")
            answers = [dict(fields(value)) for field, value in fields(dict(reply)[RENEW_MANY])
                       if field == 1]
            case.equal(len(answers), named, "answers")
            leases += sum(answer.get(2, 0) > 0 for answer in answers)
            tickets += sum(4 in answer for answer in answers)
    case.equal(leases, 4 * named, "leases that were renewed")
    case.check(1 <= tickets <= 10 * BURST + 100, f"{tickets} tickets for {4 * named} names")
    pool.run(case.programs / "vecadd")


def closed_unread(case, pool, address, usual):
    """A flood of connections from another host to @address; @usual is what others do."""
    links = [socket.create_connection(address, timeout=case.patience,
                                      source_address=(OTHER_HOST, 0))
             for _ in range(8 * BURST)]
    try:
        closed = links[-1].recv(1)
    except ConnectionResetError:
        closed = b""
    case.equal(closed, b"", "what the last connection of the flood gets")
    usual()
    for link in links:
        link.close()
    lines = [line for line in pool.log().splitlines() if "too many connections" in line]
    case.check(1 <= len(lines) <= 5, f"{len(lines)} lines about the flood: {lines[:8]}")


def test_attacks_flood_of_connections_to_the_scheduler_is_closed_unread(case):
    """A handshake of TLS costs the scheduler more than all of a request, and who begins one has
    to compute nothing."""
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-requests", "5")
    closed_unread(case, pool, address(pool), lambda: pool.run(case.programs / "vecadd"))


def test_attacks_wrong_tokens_are_slowed_down(case):
    """Fewer guesses than the connection's own limit allows, over many connections."""
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-scheduler", "--rate-denials", "1")
    answers = []
    for _ in range(4 * BURST):
        with LinkFrom(case, address(pool), OTHER_HOST) as link:
            answers += link.errors(OPEN, open_request("guess", "mallory@there"), 1)
    case.equal([code for code, _ in answers[:BURST]], [DENIED] * BURST, "the first guesses")
    seen_limit(case, answers, BURST, "guesses")
    case.check(sum(code == DENIED for code, _ in answers) <= 2 * BURST,
               f"{answers}: guesses that were looked at")
    pool.run(case.programs / "vecadd")


def attach_answer(case, to, source, ticket):
    """(status, retry_after_ms) that a request with this ticket gets."""
    with socket.create_connection(to, timeout=case.patience,
                                  source_address=(source, 0)) as link:
        link.sendall(attach_request(ticket))
        data = b""
        while part := link.recv(65536):
            data += part
            if len(data) > 4 and len(data) >= 4 + struct.unpack("<I", data[:4])[0]:
                break
    reply = dict(fields(data[4:]))
    return reply.get(1, 0), reply.get(26, 0)


def test_attacks_flood_of_wrong_tickets_leaves_other_peers_theirs(case):
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-server", "--rate-refusals", "1")
    session = pool.session(core=20, memory="128MiB")
    answers = [attach_answer(case, where(session), OTHER_HOST, "no ticket")
               for _ in range(3 * BURST)]
    case.equal([status for status, _ in answers[:BURST]], [ATTACH_BAD_TICKET] * BURST,
               "the first wrong tickets")
    refused = [retry for status, retry in answers if status == ATTACH_LIMIT]
    case.check(refused and min(refused) > 0, f"a wrong ticket too many is told when to try again: {answers}")
    session.run(case.programs / "vecadd")


def test_attacks_flood_of_attaches_leaves_other_peers_theirs(case):
    """A ticket that is good, asked about again and again without its proof."""
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-server", "--rate-attaches", "1")
    session = pool.session(core=20, memory="128MiB")
    answers = [attach_answer(case, where(session), OTHER_HOST, session.field("ticket"))
               for _ in range(3 * BURST)]
    refused = [retry for status, retry in answers if status == ATTACH_LIMIT]
    case.check(refused and min(refused) > 0, f"an attach too many is told when to try again: {answers}")
    session.run(case.programs / "vecadd")


def test_attacks_flood_of_connections_is_closed_unread(case):
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-server", "--rate-connections", "5")
    session = pool.session(core=20, memory="128MiB")
    closed_unread(case, pool, where(session), lambda: session.run(case.programs / "vecadd"))


def test_clients_that_come_too_often_come_again_by_themselves(case):
    pool = case.pool(servers=1, cards=1)
    limited(pool, "gpupool-server", "--rate-attaches", "1")
    limited(pool, "gpupool-scheduler", "--rate-opens", "1")
    session = pool.session(core=20, memory="128MiB")
    case.wait_for(lambda: attach_answer(case, where(session), "127.0.0.1",
                                        session.field("ticket"))[0] == ATTACH_LIMIT,
                  "the server has enough of this address")
    session.run(case.programs / "vecadd")
    case.contains(pool.log(), "too many client processes from this address",
                  "the server's log")
    for _ in range(BURST):
        pool.session(core=1, memory="1MiB")
