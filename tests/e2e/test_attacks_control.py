# SPDX-License-Identifier: Apache-2.0
"""Attacks on the control plane, carried out: each of them must come to nothing, and
everybody else is served meanwhile."""

import base64
import hmac
import json
import os
import re
import select
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from harness import Cudash
from harness.control import (CLOSE, CORDON, DRAIN, FORGET, Link, OPEN, REGISTER, STATUS, WAIT_SERVERS,
                             WATCH_POOL, fields, message, number, text)
from harness.raw import Raw, attach_request, challenge, prove, where
from test_hostile_scheduler import address
from test_tickets import attach, made


def resident(pid):
    """Bytes of memory that the process holds."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --------------------------------------------- H5: the scheduler's memory --

class Flooder:
    """Sends requests without end and reads no answer."""

    def __init__(self, where, data):
        self.socket = socket.create_connection(where)
        self.socket.setblocking(False)
        self.data = data * (65536 // len(data))
        self.sent = 0
        self.ended = False

    def push(self):
        try:
            while True:
                at = self.sent % len(self.data)
                self.sent += self.socket.send(self.data[at:])
        except BlockingIOError:
            return
        except OSError:
            self.ended = True


def flood(flooders, done, seconds):
    """Push until @done; a flood that goes on for so long is over as well."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        live = [f.socket for f in flooders if not f.ended]
        if not live:
            return
        select.select([], live, [], 0.1)
        for flooder in flooders:
            if not flooder.ended:
                flooder.push()


def test_attacks_unread_answers_do_not_fill_the_scheduler(case):
    """Requests whose answers nobody reads: unauthenticated peers are sent away, and a client that has
    the token is not read any further until it has read its answers."""
    # AddressSanitizer keeps what was freed, 256 MiB of it unless told: that is no growth.
    kept = case.environment()["ASAN_OPTIONS"] + ":quarantine_size_mb=16"
    pool = case.pool(servers=1, cards=1, env={"ASAN_OPTIONS": kept})
    flood_with(case, pool, "no such token")
    flood_with(case, pool, next(case.folder.rglob("client-token")).read_text().strip())


def flood_with(case, pool, token):
    where = address(pool)
    scheduler = pool.pid("gpupool-scheduler")
    before = resident(scheduler)
    # Sanitizers keep shadow memory of every byte.
    most = (128 if case.sanitizer else 32) << 20
    flooders = [Flooder(where, message(STATUS, text(1, token))) for _ in range(24)]
    try:
        flood(flooders, lambda: resident(scheduler) > before + most or
              all(f.ended for f in flooders), case.patience)
        case.check(resident(scheduler) < before + most,
                   f"the scheduler grew from {before >> 20} to {resident(scheduler) >> 20} MiB")
        case.check(all(f.ended for f in flooders),
                   "who reads no answer is disconnected in the end")
        pool.run("true")
    finally:
        for flooder in flooders:
            flooder.socket.close()


def test_attacks_refused_registration_leaves_the_peer_unauthenticated(case):
    """A refusal earns nobody more patience: wrong tokens end the connection."""
    pool = case.pool(servers=1, cards=1)
    card = text(9, b"")
    with Link(case, address(pool)) as link:
        tries = 0
        try:
            while tries < 1000:
                code, _ = link.ask(REGISTER, number(1, 1) + text(2, f"guess {tries}") + card)
                case.equal(code, 3, "the code of a refused registration")
                tries += 1
        except (ConnectionError, struct.error):
            pass
        case.check(tries < 100, f"{tries} guesses of the token on one connection")
    pool.run("true")


def test_attacks_large_registration_is_not_unpacked_without_the_token(case):
    """Half a MiB of empty cards, which unpack to a hundred times that."""
    pool = case.pool(servers=1, cards=1)
    where = address(pool)
    scheduler = pool.pid("gpupool-scheduler")
    body = number(1, 1) + text(2, "a guess") + text(9, b"") * 250_000
    before, ticks = resident(scheduler), cpu_ticks(scheduler)
    for _ in range(40):
        with Link(case, where) as link:
            try:
                code, _ = link.ask(REGISTER, body)
                case.equal(code, 3, "the code of a refused registration")
            except (ConnectionError, struct.error):
                pass
    spent = (cpu_ticks(scheduler) - ticks) / os.sysconf("SC_CLK_TCK")
    case.check(spent < 0.4, f"40 unauthenticated registrations cost {spent:.2f} s of the "
               "scheduler's processor time")
    case.check(resident(scheduler) < before + (16 << 20),
               f"the scheduler grew from {before >> 20} to {resident(scheduler) >> 20} MiB")
    pool.run("true")


def test_attacks_large_registration_with_the_token_is_still_taken(case):
    """A server with many sessions says more than unauthenticated peers may; its token opens the door."""
    pool = case.pool(servers=1, cards=1)
    token = next(case.folder.rglob("server-token")).read_text().strip()
    use = text(10, number(1, 1 << 40) + text(8, "x" * 100))
    body = (number(1, 1) + text(2, token) + text(3, "many") + text(4, "127.0.0.1:1") +
            use * 1000)
    with Link(case, address(pool)) as link:
        code, reply = link.ask(REGISTER, body)
        case.equal(code, 0, f"the answer to a registration of {len(body)} bytes: {reply}")


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        numbers = file.read().rsplit(")", 1)[1].split()
    return int(numbers[11]) + int(numbers[12])


def test_attacks_idle_connections_do_not_keep_scrapers_out(case):
    """Metrics are served although unauthenticated peers occupy every connection."""
    pool = case.pool(servers=1, cards=1)
    ports = {"gpupool-scheduler": case.free_port(), "gpupool-server": case.free_port()}
    for program, port in ports.items():
        pool.restart(pool.pid(program), "--metrics-listen", f"127.0.0.1:{port}")
    for program, port in ports.items():
        callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        try:
            with socket.create_connection(("127.0.0.1", port)) as scraper:
                scraper.settimeout(case.patience)
                start = time.monotonic()
                scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                answer = b""
                while part := scraper.recv(65536):
                    answer += part
                waited = time.monotonic() - start
        finally:
            for caller in callers:
                caller.close()
        case.contains(answer.decode(), "200 OK", f"{program}'s answer to a scraper")
        # Unauthenticated peers are disconnected after ten seconds: a scraper must not wait for that.
        case.check(waited < 8, f"{program}: the scraper waited {waited:.1f} s")


# --------------------------------------- H6: an address makes nobody an administrator --

def open_request(token=""):
    return (number(1, 1) + (text(2, token) if token else b"") + text(3, "mallory@host") +
            number(4, 10) + number(5, 1 << 20))


def orders(session):
    """What a neighbour on the scheduler's host would try, without any token."""
    return {"drain": (DRAIN, text(1, "local-1")),
            "cordon": (CORDON, text(1, "local-1") + text(2, "0")),
            "forget": (FORGET, text(1, "local-1")),
            "close": (CLOSE, number(1, session)),
            "open": (OPEN, open_request()),
            "status": (STATUS, b""),
            "wait for servers": (WAIT_SERVERS, number(1, 1)),
            "watch the pool": (WATCH_POOL, number(2, 1)),
            "register": (REGISTER, number(1, 1) + text(3, "rogue") + text(4, "127.0.0.1:1"))}


def test_attacks_neighbour_on_the_host_is_no_administrator(case):
    """Every user of a host arrives from 127.0.0.1."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session()
    number_of = pool.sessions()[0]["id"]
    for name, (body, content) in orders(number_of).items():
        with Link(case, address(pool)) as link:
            code, words = link.ask(body, content)
            case.equal(code, 3, f"the answer to {name} without a token ({words})")
            case.contains(words, "token", f"the words to {name}")
    case.equal(len(pool.sessions()), 1, "sessions after a neighbour's orders")
    case.equal(pool.status()["servers"][0]["state"], "alive", "the server")
    session.close()
    # Its owner may, and needs to name no file.
    case.contains(pool.cli("drain", "local-1").out, "no new", "drain by the pool's owner")
    case.contains(pool.cli("drain", "--undo", "local-1").out, "accepts sessions again", "undo")


def test_attacks_pool_without_tokens_obeys_its_own_user_only(case):
    """No token configured is no open door: the refusal names the remedy, the Unix socket
    knows the scheduler's own user, and other users there are nobody."""
    ready, sock = case.folder / "ready", case.folder / "local.sock"
    scheduler = case.build / "bin" / "gpupool-scheduler"
    log = open(case.folder / "scheduler.log", "wb")
    case.spawn([scheduler, "--listen", "127.0.0.1:0", "--state-dir", case.folder / "state",
                "--ready-file", ready, "--local", f"unix:{sock}"], stderr=log)
    case.wait_for(ready.exists, "the scheduler listens")
    host, port = ready.read_text().strip().rsplit(":", 1)
    remedies = {"drain": "--admin-token-file", "register": "--server-token-file",
                "open": "--client-token-file", "status": "--client-token-file"}
    for name, (body, content) in orders(1).items():
        if name in remedies:
            with Link(case, (host, int(port))) as link:
                code, words = link.ask(body, content)
            case.equal(code, 3, f"the answer to {name} over TCP")
            case.contains(words, remedies[name], f"the remedy for {name}")
            case.contains(words, "--allow-anonymous", f"the other remedy for {name}")
    with Link(case, sock) as link:
        code, words = link.ask(DRAIN, text(1, "local-1"))
        case.equal((code, words), (5, "no server local-1: no server has registered"), "the own user over the socket")
        case.equal(link.ask(STATUS)[0], 0, "status for the own user over the socket")
    if os.geteuid() != 0:
        return
    for part in [case.folder, *case.folder.parents][:-1]:
        if not part.stat().st_mode & stat.S_IXOTH:
            part.chmod(part.stat().st_mode | stat.S_IXOTH)
    sock.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", "import os, socket, sys\nos.setgid(65534); os.setuid(65534)\n"
         "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
         "s.sendall(bytes.fromhex(sys.argv[2])); sys.stdout.buffer.write(s.recv(65536))",
         str(sock), message(DRAIN, text(1, "local-1")).hex()],
        capture_output=True, timeout=case.patience, check=False)
    case.contains(done.stdout.decode("latin-1"), "--admin-token-file",
                  f"the answer to another user over the socket ({done.stderr.decode()})")


def test_attacks_anonymous_access_is_an_explicit_choice_that_is_logged(case):
    ready = case.folder / "ready"
    scheduler = case.build / "bin" / "gpupool-scheduler"
    with open(case.folder / "scheduler.log", "wb") as log:
        case.spawn([scheduler, "--listen", "127.0.0.1:0", "--state-dir",
                    case.folder / "state", "--ready-file", ready, "--allow-anonymous",
                    "client"], stderr=log)
    case.wait_for(ready.exists, "the scheduler listens")
    host, port = ready.read_text().strip().rsplit(":", 1)
    with Link(case, (host, int(port))) as link:
        case.equal(link.ask(STATUS)[0], 0, "a status without a token")
        case.equal(link.ask(DRAIN, text(1, "x"))[0], 3, "a drain without a token")
    case.contains((case.folder / "scheduler.log").read_text(), "--allow-anonymous client: "
                  "everybody", "the log of an open pool")


def test_attacks_secrets_are_in_no_command_line_and_no_environment(case):
    """Tokens are in files of mode 0600; daemons and programs know their names only."""
    pool = case.pool(servers=1, cards=1)
    files = list(case.folder.rglob("*-token"))
    case.equal(sorted(f.name for f in files), ["admin-token", "client-token", "server-token"],
               "the tokens of a local pool")
    secrets = [f.read_text().strip() for f in files]
    case.equal(len(set(secrets)), 3, "different tokens")
    for file in files:
        case.equal(stat.S_IMODE(file.stat().st_mode), 0o600, f"the mode of {file.name}")
    seen = pool.run("cat", "/proc/self/environ").out
    for pid in pool.daemons():
        for what in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{what}", "rb") as source:
                seen += source.read().decode("latin-1")
    for secret in secrets:
        case.check(secret not in seen, "a token is in a command line or an environment")
        case.check(secret not in pool.log(), "a token is in a log")


def test_attacks_explain_shows_its_token_with_every_request(case):
    """The transports, which a second request asks for, are shown in a pool with tokens."""
    pool = case.pool(servers=1, cards=1)
    case.contains(pool.cli("explain", "--core", 10, "--memory", "64MiB").out, "shm",
                  "the transports that explain names")


# ------------------------------------------------------ H8: ids that come again --

def test_attacks_lost_state_locks_nobody_out_and_joins_nobody(case):
    """Servers remember ids that were closed, and hold sessions that are open: a scheduler
    that lost its state must not give either out again."""
    pool = case.pool(servers=1, cards=1)
    program = case.programs / "vecadd"
    ids = set()
    for _ in range(3):
        case.contains(pool.run(program, core=5, memory="64MiB").out, ": ok", "a program")
    held = pool.session(core=5, memory="64MiB")
    ids.add(pool.sessions()[0]["id"])
    for file in case.folder.rglob("scheduler.db*"):
        file.unlink()  # of the running scheduler: what it writes from here on is lost
    pool.restart(pool.pid("gpupool-scheduler"))
    case.wait_for(lambda: [s["state"] for s in pool.status()["servers"]] == ["alive"],
                  "the server is back")
    for _ in range(5):
        done = pool.run(program, core=5, memory="64MiB")
        case.contains(done.out, ": ok", "a program after the state was lost")
    again = pool.session(core=5, memory="64MiB")
    case.contains(again.field("session"), "s", "the name that people see stays short")
    case.check(len(again.field("session")) < 6, f"the name is {again.field('session')}")
    new = {s["id"] for s in pool.sessions()}
    case.check(not ids & new, f"ids {ids & new} were given out again")
    held.process.kill()
    held.process.wait(case.patience)
    again.close()


# ---------------------------------- H10: sessions of a server without scheduler --

def test_attacks_dead_sessions_do_not_collect_on_a_server_without_scheduler(case):
    """A ticket that has run out leaves nothing behind, whoever is away."""
    pool = case.pool(servers=1, cards=1)
    port = case.free_port()
    pool.restart(pool.pid("gpupool-server"), "--metrics-listen", f"127.0.0.1:{port}")

    def sessions_known():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                    timeout=case.patience) as answer:
            text_of = answer.read().decode()
        return int(re.search(r"^gpupool_server_sessions (\d+)$", text_of, re.M).group(1))

    session = pool.session(core=20, memory="64MiB")
    short = made(case, pool, session, "expires=4")
    server = session.field("server")
    pool.kill(pool.pid("gpupool-scheduler"))
    case.equal(attach(case, session, short, server).out, "0\n", "an attach without scheduler")
    case.equal(sessions_known(), 1, "sessions on the server")
    case.wait_for(lambda: sessions_known() == 0, "the session goes when its ticket has run out")
    session.process.kill()
    session.process.wait(case.patience)


# --------------------------------------------- H4: who poses as the scheduler --

def start_scheduler(case, name, listen, *more):
    """A scheduler of its own, with its own key; its address."""
    ready = case.folder / f"{name}.ready"
    with open(case.folder / f"{name}.log", "ab") as log:
        process = case.spawn([case.build / "bin" / "gpupool-scheduler", "--listen", listen,
                              "--state-dir", case.folder / name, "--ready-file", ready,
                              "--allow-anonymous", "client", "--heartbeat-ms", "200", *more],
                             stderr=log)
    case.wait_for(ready.exists, f"{name} listens")
    where = ready.read_text().strip()
    ready.unlink()
    return process, where


def start_server(case, where, *more):
    log = case.folder / "server.log"
    with open(log, "ab") as out:
        process = case.spawn([case.build / "bin" / "gpupool-server", "--listen", "127.0.0.1:0",
                              "--name", "node", "--scheduler", where, "--driver", "softgpu",
                              "--cards", 1, *more], stderr=out)
    return process, log


def end(case, process):
    process.kill()
    process.wait(case.patience)


def test_attacks_false_scheduler_at_the_address_is_not_obeyed(case):
    """The key of the first registration is the scheduler's; no other is taken, not after a
    restart of the server either, and the log names the remedy."""
    token = case.folder / "token"
    token.write_text("a shared secret\n")
    gpupool = case.build / "bin" / "gpupool"
    true, where = start_scheduler(case, "true", "127.0.0.1:0", "--server-token-file", token)
    keys = ("--token-file", token, "--state-dir", case.folder / "server-state")
    server, log = start_server(case, where, *keys)

    def states():
        done = case.run([gpupool, "status", "--json"], env={"GPUPOOL_SCHEDULER": where})
        return [s["state"] for s in json.loads(done.out)["servers"]]

    case.wait_for(lambda: states() == ["alive"], "the server registers")
    end(case, true)
    false, _ = start_scheduler(case, "false", where, "--allow-anonymous", "server")
    case.wait_for(lambda: "ITS KEY IS NOT THE SCHEDULER'S" in log.read_text(),
                  "the server says that another key has come")
    case.contains(log.read_text(), "scheduler-key.pub and restart", "the remedy")
    end(case, server)
    log.write_text("")
    server, log = start_server(case, where, *keys)
    case.wait_for(lambda: "ITS KEY IS NOT THE SCHEDULER'S" in log.read_text(),
                  "a server that was restarted remembers the key")
    end(case, false)
    true, _ = start_scheduler(case, "true", where, "--server-token-file", token)
    case.wait_for(lambda: states() == ["alive"], "the server is back at the true scheduler")
    server.terminate()  # one that is killed leaves its keeper behind
    server.wait(case.patience)
    end(case, true)


def test_attacks_host_of_one_server_does_not_become_another(case):
    """A server with a token of its own is nobody else's name, and no other name is its."""
    tokens = case.folder / "tokens"
    tokens.write_text("# the pool's servers\nnode:token of node\nother:token of other\n")
    shared = case.folder / "shared"
    shared.write_text("shared token\n")
    process, where = start_scheduler(case, "state", "127.0.0.1:0", "--server-tokens-file",
                                     tokens, "--server-token-file", shared)
    host, port = where.rsplit(":", 1)

    def register(name, token):
        with Link(case, (host, int(port))) as link:
            return link.ask(REGISTER, number(1, 1) + text(2, token) + text(3, name) +
                            text(4, "127.0.0.1:1"))

    case.equal(register("node", "token of node")[0], 0, "its own name")
    case.equal(register("plain", "shared token")[0], 0, "a name without a token of its own")
    for name, token in (("node", "token of other"), ("node", "shared token"),
                        ("plain", "token of node"), ("new", "token of node")):
        code, words = register(name, token)
        case.equal(code, 3, f"{name} with the {token}")
        case.contains(words, "does not belong", f"the words to {name} with the {token}")
    case.equal(register("node", "guess")[0], 3, "a guess")
    end(case, process)


class Recorder(threading.Thread):
    """Poses as a scheduler: keeps what it is sent, answers with @answer."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.where = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.answer = answer
        self.heard = b""
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(5)
                try:
                    while part := peer.recv(65536):
                        self.heard += part
                        peer.sendall(self.answer(part))
                except OSError:
                    pass


def test_attacks_token_is_never_sent_to_who_poses_as_the_scheduler(case):
    """Servers, clients and administrators prove their tokens; a false scheduler hears
    nothing that it could show to the true one, and cannot prove itself."""
    token = case.folder / "token"
    token.write_text("the shared secret\n")
    gpupool = case.build / "bin" / "gpupool"

    # It asks for the token as an old scheduler did, by refusing the proof.
    def refuses(_):
        data = number(1, 1) + text(2, number(1, 1) + text(2, "an unknown request"))
        return struct.pack("<I", len(data)) + data

    false = Recorder(refuses)
    env = {"GPUPOOL_SCHEDULER": false.where, "GPUPOOL_TOKEN_FILE": token, "GPUPOOL_TLS": "off"}
    for args in (["status"], ["run", "--", "true"], ["explain"], ["drain", "node"],
                 ["close", "s1"]):
        done = case.run([gpupool, *args], env=env, status=None)
        case.check(done.status != 0, f"{args[0]} took a false scheduler for true")
        case.contains(done.err + done.out, "older than this gpupool", f"the words of {args[0]}")
    server, log = start_server(case, false.where, "--token-file", token, "--tls", "off")
    case.wait_for(lambda: "older than this server" in log.read_text(), "the server says why")
    end(case, server)
    case.check(false.heard, "the false scheduler was asked")
    case.check(b"shared secret" not in false.heard, "the token was sent to a false scheduler")

    # One with a key of its own passes the challenge on to nobody: it cannot prove that it
    # knows the token, and the proof that it hears is bound to its own key.
    other = case.folder / "other"
    other.write_text("another secret\n")
    process, where = start_scheduler(case, "state", "127.0.0.1:0", "--server-token-file", other,
                                     "--client-token-file", other)
    done = case.run([gpupool, "close", "s1"], env={"GPUPOOL_SCHEDULER": where,
                                                   "GPUPOOL_TOKEN_FILE": token}, status=None)
    case.check(done.status != 0, "an order with a wrong token")
    end(case, process)


def test_attacks_proof_is_good_for_its_own_challenge_only(case):
    """What was heard on the wire is not accepted again."""
    pool = case.pool(servers=1, cards=1)
    where = address(pool)
    token = next(case.folder.rglob("admin-token")).read_text().strip()
    hello_body, prove_body = 11, 12

    def hello(link):
        nonce = b"n" * 32
        code, reply = link.ask(hello_body, number(1, 2) + text(2, nonce))
        case.equal(code, 0, "the answer to a hello")
        challenge = dict(fields(dict(reply)[10]))
        transcript = bytes([2]) + nonce + challenge[1] + challenge[2]
        return hmac.digest(token.encode(), b"gpupool control peer v1".ljust(32, b"\0") +
                           transcript, "sha256")

    with Link(case, where) as link:
        proof = hello(link)
        case.equal(link.ask(prove_body, text(1, proof))[0], 0, "the right proof")
        case.equal(link.ask(DRAIN, text(1, "nobody"))[0], 5, "an order after it")
    with Link(case, where) as link:
        case.equal(link.ask(prove_body, text(1, proof))[0], 1, "a proof without a hello")
        hello(link)
        case.equal(link.ask(prove_body, text(1, proof))[0], 3, "the proof of another link")
        case.equal(link.ask(DRAIN, text(1, "nobody"))[0], 3, "an order after it")


# ------------------------------------------------------------------- the audit log --

def test_attacks_are_in_the_audit_log_with_who_and_from_where(case):
    pool = case.pool(servers=1, cards=1)
    audit, attaches = case.folder / "audit.json", case.folder / "attach.json"
    pool.restart(pool.pid("gpupool-scheduler"), "--audit-log", audit)
    pool.restart(pool.pid("gpupool-server"), "--audit-log", attaches)
    pool.run(case.programs / "vecadd", core=5, memory="64MiB", options=("--owner", 'eve"\n'))
    session = pool.session(core=5, memory="64MiB")
    name = session.field("session")
    attach(case, session, "a" * 100)
    with Link(case, address(pool)) as link:
        link.ask(DRAIN, text(1, "local-1") + text(2, "a guess of the token"))
    pool.cli("drain", "local-1")
    pool.cli("close", name)
    session.process.kill()
    session.process.wait(case.patience)
    lines = [json.loads(line) for file in (audit, attaches)
             for line in file.read_text().splitlines()]

    def events(kind, **wanted):
        return [line for line in lines if line["event"] == kind and
                all(wanted[key] in line.get(key, "") for key in wanted)]

    case.check(all("time" in line for line in lines), "every line has its time")
    for kind, wanted in (("grant", {"who": 'eve"', "from": "127.0.0.1:"}),
                         ("attach", {"who": 'eve"'}), ("attach-denied", {"words": "malformed"}),
                         ("denied", {"from": "127.0.0.1:", "words": "admin token"}),
                         ("order", {"order": "drain", "server": "local-1", "from": "uid"}),
                         ("order", {"order": "close", "session": name, "from": "uid"}),
                         ("end", {"session": name, "words": "administrator"})):
        case.check(events(kind, **wanted), f"no line for {kind} {wanted}: {lines}")
    for file in (audit, attaches):
        case.equal(stat.S_IMODE(file.stat().st_mode), 0o600, f"the mode of {file.name}")
        case.check("guess of the token" not in file.read_text(), "a token is in the audit log")
        for token in case.folder.rglob("*-token"):
            case.check(token.read_text().strip() not in file.read_text(),
                       f"{token.name} is in the audit log")


# --------------------------------------- H4: tickets belong to their client --

def say(case, session, data):
    """The messages that the server answers to these bytes, until it has nothing more."""
    answers = []
    with socket.create_connection(where(session), timeout=case.patience) as sock:
        while data:
            size = 4 + struct.unpack("<I", data[:4])[0]
            sock.sendall(data[:size])
            data = data[size:]
            head = sock.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                break
            answers.append(sock.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))
    return answers


BAD_TICKET = b"\x08\x03"


def test_ticket_read_from_the_wire_attaches_nobody_else(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    victim = Raw(case, session)
    victim.ping()
    ticket = session.field("ticket")

    answers = say(case, session, attach_request(ticket, bound=False))
    case.check(answers[0].startswith(BAD_TICKET), f"no proof offered: {answers}")
    case.contains(answers[0].decode(errors="replace"), "bound to its client", "the refusal")

    wrong, _ = prove(case, ticket, base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("="),
                     challenge(say(case, session, attach_request(ticket))[0]))
    answers = say(case, session, attach_request(ticket) + wrong)
    case.check(answers[1].startswith(BAD_TICKET), f"another's secret: {answers}")
    case.contains(answers[1].decode(errors="replace"), "made for another client", "the refusal")
    case.equal(len(pool.workers()), 1, "workers")
    case.check(session.field("secret") not in pool.log(), "the secret stands in a log")
    victim.ping()
    victim.sock.close()


class Wire:
    """Passes the bytes of one connection on to a server, and writes them down."""

    def __init__(self, case, session):
        self.seen = bytearray()
        self.server = where(session)
        self.case = case
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(case.patience)
        self.at = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.pass_on, daemon=True)
        self.thread.start()

    def pass_on(self):
        client, _ = self.listener.accept()
        with client, socket.create_connection(self.server, self.case.patience) as server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is client:
                        self.seen += data
                    (server if ready is client else client).sendall(data)


def stolen(case, session, ticket, server=None):
    """What cuInit says to who has the ticket and nothing else of the session's."""
    commands = case.folder / "thief"
    commands.write_text("init\n")
    env = {key: value for key, value in session.env.items() if key != "GPUPOOL_SESSION_FILE"}
    env.update(GPUPOOL_SERVER=server or session.field("server"), GPUPOOL_TICKET=ticket)
    with open(commands, encoding="utf-8") as stdin:
        return case.run([case.programs / "cudash"], stdin=stdin, env=env)


def test_ticket_that_a_listener_reads_is_of_no_use_to_him(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    wire = Wire(case, session)
    file = case.folder / "session"
    file.write_text(re.sub("(?m)^server .*$|^local .*$", lambda line: "server " + wire.at
                           if line[0].startswith("server") else "", Path(session.file).read_text()))
    victim = session.cudash({"GPUPOOL_SESSION_FILE": str(file), "GPUPOOL_TRANSPORT": "tcp",
                             "GPUPOOL_TLS": "off"}).begin()
    victim.ok("sync")
    first = bytes(wire.seen[4:4 + struct.unpack("<I", wire.seen[:4])[0]])
    ticket = next(value for number_, value in fields(first) if number_ == 3).decode()
    done = stolen(case, session, ticket)
    case.check(done.out != "0\n", "the thief is attached")
    case.contains(done.err, "bound to its client", "what the thief reads")
    case.equal(len(pool.workers()), 1, "workers")
    victim.ok("sync")


def test_ticket_in_the_environment_of_a_process_is_of_no_use_to_who_reads_it(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    secret = case.folder / "secret"
    secret.write_text(next((line.split()[1] for line in Path(session.file).read_text().splitlines()
                            if line.startswith("secret")), ""))
    env = {key: value for key, value in session.env.items() if key != "GPUPOOL_SESSION_FILE"}
    env.update(GPUPOOL_SERVER=session.field("server"), GPUPOOL_TICKET=session.field("ticket"),
               GPUPOOL_TICKET_SECRET_FILE=str(secret))
    victim = Cudash(case, case.spawn([case.programs / "cudash"], env=env)).begin()
    victim.ok("sync")
    read = dict(entry.split("=", 1) for entry in
                Path(f"/proc/{victim.process.pid}/environ").read_text().split("\0") if entry)
    case.equal(read["GPUPOOL_TICKET"], session.field("ticket"), "the ticket, as read")
    if secret.read_text():
        case.check(secret.read_text() not in read.values(), "the secret is in the environment")
    done = stolen(case, session, read["GPUPOOL_TICKET"], read["GPUPOOL_SERVER"])
    case.check(done.out != "0\n", "the thief is attached")
    case.contains(done.err, "bound to its client", "what the thief reads")
    victim.ok("sync")


def test_session_for_an_older_library_has_to_be_asked_for_and_allowed(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB", options=["--unbound-ticket"])
    case.check("secret" not in Path(session.file).read_text(), "the session file has a secret")
    done = session.run(case.programs / "vecadd", status=None)
    case.check(done.status != 0, "a ticket that anybody can use was taken")
    case.contains(done.err, "--allow-unbound-tickets", "what the user is told")
    session.close()
    pool.restart(pool.pid("gpupool-server"), "--allow-unbound-tickets")
    pool.run(case.programs / "vecadd", options=["--unbound-ticket"])
    case.wait_for(lambda: "not bound to a client" in pool.log(), "the line in the log")


def test_recorded_attach_is_refused_when_it_is_sent_again(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    victim = Raw(case, session)
    victim.ping()
    for _ in range(3):
        answers = say(case, session, victim.sent)
        case.check(answers[-1].startswith(BAD_TICKET), f"a replayed attach: {answers}")
    victim.sock.close()
    case.wait_for(lambda: not pool.workers(), "the worker is gone")
    answers = say(case, session, victim.sent)
    case.check(answers[-1].startswith(BAD_TICKET), f"a replayed attach: {answers}")
    session.run(case.programs / "vecadd")


def test_restarted_scheduler_keeps_tickets_bound(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    secret = session.field("secret")
    before = session.field("ticket")
    second = int(time.time())  # tickets of the same second are the same
    case.wait_for(lambda: int(time.time()) > second, "the next second")
    pool.restart(pool.pid("gpupool-scheduler"))
    case.wait_for(lambda: session.field("ticket") not in (None, before), "a renewed ticket")
    case.equal(session.field("secret"), secret, "the secret")
    answers = say(case, session, attach_request(session.field("ticket"), bound=False))
    case.check(answers[0].startswith(BAD_TICKET), f"no proof offered: {answers}")
    session.run(case.programs / "vecadd")


def test_ticket_of_before_is_refused_unless_the_server_allows_it(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    anybodys = made(case, pool, session, "bound=0")
    done = attach(case, session, anybodys)
    case.check(done.out != "0\n", "a ticket that anybody can use was taken")
    case.contains(done.err, "--allow-unbound-tickets", "what the user is told")
    session.close()
    pool.restart(pool.pid("gpupool-server"), "--allow-unbound-tickets")
    session = pool.session(core=20, memory="128MiB")
    case.equal(attach(case, session, made(case, pool, session, "bound=0")).out, "0\n",
               "with the option")
    case.wait_for(lambda: "not bound to a client" in pool.log(), "the line in the log")
    answers = say(case, session, attach_request(session.field("ticket"), bound=False))
    case.check(answers[0].startswith(BAD_TICKET), f"a bound ticket without proof: {answers}")
