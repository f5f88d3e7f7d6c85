# SPDX-License-Identifier: Apache-2.0
"""TLS on TCP: what somebody on the way sees, changes, and is refused."""

import os
import re
import select
import socket
import ssl
import subprocess
import threading
from pathlib import Path


class Relay:
    """Passes all connections on to @server and keeps every byte; change(data, out) may
    return others."""

    def __init__(self, case, server, change=None):
        self.seen = bytearray()
        self.connections = 0
        self.change = change or (lambda data, out: data)
        self.case = case
        host, _, port = server.rpartition(":")
        self.server = (host.strip("[]"), int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            self.connections += 1
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        with client, socket.create_connection(self.server, self.case.patience) as server:
            try:
                while True:
                    for ready in select.select([client, server], [], [])[0]:
                        data = ready.recv(1 << 20)
                        if not data:
                            return
                        self.seen += data
                        out = ready is client
                        (server if out else client).sendall(self.change(data, out))
            except OSError:
                return


def session_through(case, session, relay, drop=()):
    """A session file like @session's whose server is the relay."""
    lines = []
    for line in Path(session.file).read_text().splitlines():
        word = line.split(" ")[0]
        if word == "local" or word in drop:
            continue
        lines.append("server " + relay.at if word == "server" else line)
    file = case.folder / "through"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    return {"GPUPOOL_SESSION_FILE": str(file), "GPUPOOL_TRANSPORT": "tcp"}


def init_words(case, session, env):
    """What a program reads on stderr when it cannot attach."""
    commands = case.folder / "commands"
    commands.write_text("init\n")
    with open(commands, encoding="utf-8") as stdin:
        return case.run([case.programs / "cudash"], stdin=stdin, env={**session.env, **env})


def secrets_of(session):
    text = Path(session.file).read_text()
    ticket = re.search(r"(?m)^ticket (\S+)", text).group(1)
    secret = re.search(r"(?m)^secret (\S+)", text).group(1)
    return [ticket.encode(), secret.encode()]


def sniffed(case, tls, pool=None):
    pool = pool or case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    relay = Relay(case, session.field("server"))
    env = session_through(case, session, relay)
    env.update(GPUPOOL_TLS=tls, GPUPOOL_CONNECTIONS="1", GPUPOOL_COMPRESS="off")
    done = session.run(case.programs / "vecadd", env=env)
    case.equal(done.status, 0, "vecadd through the relay")
    return pool, session, relay


def test_nothing_of_the_session_crosses_in_clear(case):
    """Neither the ticket, nor the program's name, nor the image of its kernel."""
    pool, session, relay = sniffed(case, "require")
    case.check(relay.seen[:3] == b"\x16\x03\x01", "the client begins with a TLS hello")
    for words in [*secrets_of(session), b"vecadd", b"SoftGPU", b".visible"]:
        case.check(words not in relay.seen, f"{words[:24]} crosses in clear")
    _, _, relay = sniffed(case, "off", pool=pool)
    case.check(b"vecadd" in relay.seen and b".visible" in relay.seen,
               "the relay sees what there is to see")


def test_further_connections_are_tls_too(case):
    """They are made while the program goes on, so it goes on until they are there."""
    session = case.pool(servers=1, cards=1).session(core=20, memory="128MiB")
    relay = Relay(case, session.field("server"))
    shell = session.cudash({**session_through(case, session, relay), "GPUPOOL_TLS": "require",
                            "GPUPOOL_CONNECTIONS": "4", "GPUPOOL_COMPRESS": "off"}).begin()
    memory = shell.ok("alloc", 1 << 20)

    def has_said_hello():
        case.equal(shell.ok("copy", memory, 1 << 20), "same", "what was copied up and down again")
        hellos = re.findall(rb"\x16\x03\x01..\x01", bytes(relay.seen), re.S)
        return relay.connections >= 4 and len(hellos) >= relay.connections

    case.wait_for(has_said_hello, "four connections, each of which begins with a TLS hello")
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    shell.close()
    case.check(b".visible" not in relay.seen, "a kernel's text crosses in clear")


def somebody_changes_bytes(case, pool, often, resume):
    """A program through a relay that changes bytes, @often times once it is asked to."""
    session = pool.session(core=20, memory="128MiB")
    left = [0]

    def change(data, out):
        if not left[0]:
            return data
        left[0] -= 1
        data = bytearray(data)
        data[-1] ^= 1
        return bytes(data)

    relay = Relay(case, session.field("server"), change)
    program = session.cudash({**session_through(case, session, relay), "GPUPOOL_TLS": "require",
                              "GPUPOOL_RESUME": resume}).begin()
    program.ok("sync")
    left[0] = often
    return program, left


def test_somebody_on_the_way_who_changes_a_byte_ends_the_connection(case):
    pool = case.pool(servers=1, cards=1)
    program, _ = somebody_changes_bytes(case, pool, 1, "0")
    case.check(program("sync")[0] != 0, "a call over a link that somebody changes")
    case.wait_for(lambda: not pool.workers(), "the worker ends")


def test_connection_that_somebody_changed_is_replaced(case):
    program, left = somebody_changes_bytes(case, case.pool(servers=1, cards=1), 1, "60")
    program.ok("sync")
    case.equal(left[0], 0, "bytes that were not changed")


def test_somebody_who_changes_every_link_ends_the_session_in_time(case):
    pool = case.pool(servers=1, cards=1)
    program, _ = somebody_changes_bytes(case, pool, 1 << 40, "2")
    case.check(program("sync")[0] != 0, "a call over links that somebody changes")
    case.wait_for(lambda: not pool.workers(), "the worker ends")


def false_server(case, answer):
    """Somebody at the server's address who does not have its key."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(case.patience)
    heard = bytearray()

    def serve():
        client, _ = listener.accept()
        with client:
            client.settimeout(case.patience)
            heard.extend(client.recv(65536))
            if answer:
                client.sendall(answer)
            client.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()

    class At:
        at = "127.0.0.1:%d" % listener.getsockname()[1]
    return At, heard


def test_false_server_learns_nothing_and_is_named(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    alert = bytes([21, 3, 3, 0, 2, 2, 40])
    for answer, words in ((alert, "does not have the key"), (b"", "closed the connection"),
                          (b"\0" * 64, "TLS handshake"), (b"\x16\x03\x03\x00\x04junk", "TLS")):
        server, heard = false_server(case, answer)
        done = init_words(case, session, session_through(case, session, server))
        case.check(done.out != "0\n", "the program is attached to a false server")
        case.contains(done.err, words, "what the program's user reads")
        for secret in secrets_of(session):
            case.check(secret not in heard, "the false server reads a secret")


def test_key_of_another_server_is_refused(case):
    """A server at this address that is another one of the pool: the session's key does not
    fit, and nothing else is tried."""
    pool = case.pool(servers=2, cards=1)
    session = pool.session(core=20, memory="128MiB")
    endpoints = [s["endpoint"] for s in pool.status()["servers"]]
    other = [e for e in endpoints if e != session.field("server")][0]

    class At:
        at = other
    done = init_words(case, session, session_through(case, session, At))
    case.contains(done.err, "does not have the key", "what the program's user reads")
    case.contains(done.err, "gets when its lease is renewed", "what to do")


def test_clear_text_is_by_choice_and_said(case):
    """A client that requires TLS refuses a server without it, one that prefers it goes on
    in clear text and logs it; a server that requires it refuses with a sentence."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    relay = Relay(case, session.field("server"))
    old = session_through(case, session, relay, drop=("server-key",))
    done = init_words(case, session, {**old, "GPUPOOL_TLS": "require"})
    case.contains(done.err, "GPUPOOL_TLS=require, but the session names no key", "words")
    case.equal(bytes(relay.seen), b"", "bytes")
    log = case.folder / "stub.log"
    done = init_words(case, session, {**old, "GPUPOOL_LOG": "stub:info",
                                      "GPUPOOL_LOG_FILE": str(log)})
    case.equal(done.out.split()[:1], ["0"], "cuInit")
    case.contains(log.read_text(), "clear text over TCP", "the log")
    done = init_words(case, session, {**old, "GPUPOOL_TLS": "sometimes"})
    case.contains(done.err, "require, prefer or off", "words")


def test_server_that_requires_tls_refuses_clear_text_in_words(case):
    pool = case.pool(servers=1, cards=1)
    server = [pid for pid in pool.daemons()
              if Path(f"/proc/{pid}/comm").read_text().startswith("gpupool-server")][0]
    pool.restart(server, "--tls", "require")
    session = pool.session(core=20, memory="128MiB")
    env = {"GPUPOOL_TRANSPORT": "tcp"}
    done = init_words(case, session, {**env, "GPUPOOL_TLS": "off"})
    case.contains(done.err, "this server takes only TLS", "what the program's user reads")
    done = init_words(case, session, env)
    case.equal(done.out.split()[:1], ["0"], "cuInit with TLS")


def test_handshakes_that_never_end_keep_nobody_out(case):
    """More of them than the server keeps, and rubbish instead of hellos."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    host, _, port = session.field("server").rpartition(":")
    open_ones = []
    for i in range(600):
        s = socket.create_connection((host.strip("[]"), int(port)), case.patience)
        try:
            s.sendall((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(i % 300))
                      if i % 2 else b"\x16\x03\x01\x00\x20" + os.urandom(32))
        except OSError:
            pass
        open_ones.append(s)
    done = session.run(case.programs / "vecadd", env={"GPUPOOL_TRANSPORT": "tcp",
                                                      "GPUPOOL_TLS": "require"})
    case.equal(done.status, 0, "a program beside 600 handshakes")
    for s in open_ones:
        s.close()


def test_library_needs_no_other_and_finds_tls_only_when_it_is_used(case):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} needs its runtime")
    lib = case.build / "lib"
    for name in ("libcuda.so.1", "libgpupool-tls.so.1"):
        out = subprocess.run(["objdump", "-p", lib / name], capture_output=True, text=True,
                             check=True).stdout
        needed = set(re.findall(r"NEEDED\s+(\S+)", out))
        case.check(needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"},
                   f"{name} needs {needed}")
    out = subprocess.run(["nm", "-D", "--defined-only", lib / "libgpupool-tls.so.1"],
                         capture_output=True, text=True, check=True).stdout
    case.equal([line.split()[-1] for line in out.splitlines()], ["gpupool_tls_api"],
               "what the library exports")
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    for tls, loaded in (("off", False), ("require", True)):
        program = session.cudash({"GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_TLS": tls}).begin()
        program.ok("sync")
        worker = pool.workers()[0]
        for pid, who in ((program.process.pid, "client"), (worker, "worker")):
            maps = Path(f"/proc/{pid}/maps").read_text()
            case.equal("libgpupool-tls" in maps, loaded, f"TLS loaded in the {who}, {tls}")
            case.check("libcrypto" not in maps, "another OpenSSL is loaded")
        program.close()
        case.wait_for(lambda: not pool.workers(), "the worker ends")


# ---- the scheduler


def start_scheduler(case, *options, token=True):
    """A scheduler of its own with a client token; its address and the environment of a
    command for it."""
    file = case.folder / "token"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    ready = case.folder / "scheduler.ready"
    state = case.folder / "scheduler-state"
    log = open(case.folder / "scheduler.log", "ab")
    case.spawn([case.build / "bin" / "gpupool-scheduler", "--listen", "127.0.0.1:0",
                "--state-dir", state, "--ready-file", ready,
                *(["--client-token-file", file] if token else ["--allow-anonymous", "client"]),
                *options], stderr=log)
    case.wait_for(ready.exists, "the scheduler listens")
    env = {"GPUPOOL_TOKEN_FILE": str(file)} if token else {}
    return ready.read_text().strip(), env


def status(case, where, env):
    return case.run([case.build / "bin" / "gpupool", "status", "--json"],
                    env={**env, "GPUPOOL_SCHEDULER": where}, status=None)


def test_nothing_of_the_control_plane_crosses_in_clear(case):
    where, env = start_scheduler(case)
    version = (case.data.parents[1] / "VERSION").read_bytes().strip()
    relay = Relay(case, where)
    done = status(case, relay.at, {**env, "GPUPOOL_TLS": "require"})
    case.equal(done.status, 0, "gpupool status through the relay")
    case.check(relay.seen[:3] == b"\x16\x03\x01", "the command begins with a TLS hello")
    case.check(b"127.0.0.1" not in relay.seen and version not in relay.seen,
               "a status crosses in clear")
    clear = Relay(case, where)
    done = status(case, clear.at, {**env, "GPUPOOL_TLS": "off"})
    case.equal(done.status, 0, "in clear text")
    case.check(version in clear.seen, "the relay sees what there is to see")


class Impostor:
    """Makes TLS with both sides, with a key of its own, and passes on what they say."""

    def __init__(self, case, server):
        key, cert = case.folder / "impostor.key", case.folder / "impostor.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-keyout", key,
                        "-out", cert, "-subj", "/CN=gpupool scheduler", "-days", "30"],
                       check=True, capture_output=True)
        self.ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ours.load_cert_chain(cert, key)
        self.theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.theirs.check_hostname = False
        self.theirs.verify_mode = ssl.CERT_NONE
        self.heard = bytearray()
        self.case = case
        host, _, port = server.rpartition(":")
        self.server = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        try:
            with self.ours.wrap_socket(client, server_side=True) as client, \
                    self.theirs.wrap_socket(socket.create_connection(self.server)) as server:
                while True:
                    for ready in select.select([client, server], [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        self.heard += data
                        (server if ready is client else client).sendall(data)
        except OSError:
            return


def test_somebody_who_makes_tls_with_both_sides_is_found_out(case):
    """By who has a token without knowing the scheduler's key, and by who knows the key
    without having a token."""
    where, env = start_scheduler(case)
    impostor = Impostor(case, where)
    done = status(case, impostor.at, env)
    case.check(done.status != 0, "status through an impostor")
    case.contains(done.err, "somebody is between us", "words")
    key = (case.folder / "scheduler-state" / "ticket-key.pub").read_text().strip()
    impostor.heard.clear()
    done = status(case, impostor.at, {"GPUPOOL_SCHEDULER_KEY": key})
    case.contains(done.err, "not the pool's scheduler", "words with a pin")
    case.equal(bytes(impostor.heard), b"", "what the impostor hears of who knows the key")
    done = status(case, where, {**env, "GPUPOOL_SCHEDULER_KEY": key})
    case.equal(done.status, 0, "the scheduler itself, with its key")


def test_server_registers_with_nobody_in_between(case):
    where, _ = start_scheduler(case, "--server-token-file", case.folder / "token")
    impostor = Impostor(case, where)
    log = case.folder / "server.log"
    case.spawn([case.build / "bin" / "gpupool-server", "--listen", "127.0.0.1:0", "--driver", "null",
                "--scheduler", impostor.at, "--token-file", case.folder / "token"],
               stderr=open(log, "ab"))
    case.wait_for(lambda: "somebody is between us" in log.read_text(), "the server's log")
    case.check("registered with" not in log.read_text(), "it registers nevertheless")


def test_scheduler_and_command_agree_on_clear_text_only_by_choice(case):
    where, env = start_scheduler(case, "--tls", "require")
    done = status(case, where, {**env, "GPUPOOL_TLS": "off"})
    case.contains(done.err, "takes only TLS", "words of a scheduler that requires it")
    case.equal(status(case, where, env).status, 0, "with TLS")
    old, env = start_scheduler(case, "--tls", "off", "--ready-file", case.folder / "old.ready",
                               "--state-dir", case.folder / "old-state")
    case.wait_for((case.folder / "old.ready").exists, "the second scheduler listens")
    old = (case.folder / "old.ready").read_text().strip()
    for policy in ("prefer", "require"):
        done = status(case, old, {**env, "GPUPOOL_TLS": policy})
        case.check(done.status != 0, "no silent clear text")
        case.contains(done.err, "older than TLS", "words about a scheduler without TLS")
    case.equal(status(case, old, {**env, "GPUPOOL_TLS": "off"}).status, 0, "by choice")


def test_server_without_a_token_registers_with_no_scheduler_of_another_key(case):
    """It was taken in and lost again at each try, which filled the scheduler's log."""
    pool = case.pool()
    first = pool.restart(pool.pid("gpupool-scheduler"), "--allow-anonymous", "server")
    pool.restart(pool.pid("gpupool-server"), without=("--token-file",))
    pool.restart(first, "--state-dir", case.folder / "anew")
    case.wait_for(lambda: pool.log().count("ITS KEY IS NOT THE SCHEDULER'S"),
                  "the server sees another key")
    said = (case.folder / f"restarted-{first}.log").read_text()
    case.contains(said, "0 servers and 0 sessions known", "the scheduler's log")
    case.check("registered from" not in said, f"it was registered:\n{said}")
