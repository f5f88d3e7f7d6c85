# SPDX-License-Identifier: Apache-2.0
"""Users with tokens of their own: what each may, names that nobody else can take, and what
is written down of them."""

import json
import re
import signal
import socket
import stat
from pathlib import Path

from harness import Cudash
from harness.control import OPEN, Link, number, text
from harness.raw import attach_request
from test_init import Hosts
from test_rotation import reread

USERS = "alice:open+read,bob:open,rita:read,eva:end+read,dora:drain"


def owners(hosts):
    status = json.loads(hosts.cli("status", "--json").out)
    return sorted(session["owner"] for session in status["sessions"])


def start(case, *more):
    hosts = Hosts(case, "etc", "--users", USERS)
    process = hosts.scheduler(*more)
    hosts.server(name="node")
    return hosts, process


def where_of(hosts, name="node"):
    """Where clients attach, by the server's log."""
    found = re.findall(rf"{name} listens on (\S+?):(\d+),", hosts.log(name).read_text())
    return found[-1][0], int(found[-1][1])


def held(hosts, env, *options):
    shell = Cudash(hosts.case, hosts.case.spawn(
        [hosts.gpupool, "run", "--core", "5", "--memory", "64MiB", *options, "--",
         hosts.case.programs / "cudash"], env=env))
    return shell.begin()


def test_each_right_opens_what_it_names_and_nothing_else(case):
    hosts, _ = start(case)
    victim = held(hosts, hosts.client("client-alice"))
    name = json.loads(hosts.cli("status", "--json").out)["sessions"][0]["name"]
    tries = {
        "read": lambda env: hosts.cli("status", env=env, status=None),
        "open": lambda env: hosts.vecadd(env=env, status=None),
        "drain": lambda env: hosts.cli("drain", "--undo", "node", env=env, status=None),
        "end": lambda env: hosts.cli("close", "s999", env=env, status=None),
    }
    explain = {user: hosts.cli("explain", "--core", "5", "--memory", "64MiB",
                               env=hosts.client(f"client-{user}"), status=None).status
               for user in ("rita", "bob", "dora")}
    case.equal({user: status == 0 for user, status in explain.items()},
               {"rita": True, "bob": True, "dora": False},
               "who is told what a request would get: who may read, or open")
    rights = {entry.split(":")[0]: entry.split(":")[1].split("+")
              for entry in USERS.split(",")}
    for user, may in rights.items():
        for right, attempt in tries.items():
            done = attempt(hosts.client(f"client-{user}"))
            denied = done.status != 0 and "no session" not in done.err
            case.equal(denied, right not in may, f"{user} tries {right}: {done.err}")
    victim.ok("sync")
    hosts.cli("close", name, env=hosts.client("client-eva"))
    case.check(victim("sync") != [0], "a session that was ended goes on")
    victim.close()


def test_owner_is_who_has_the_token_whatever_the_client_says(case):
    hosts, _ = start(case)
    held(hosts, hosts.client("client-alice"), "--owner", "bob")
    case.equal(owners(hosts), ["alice"], "the owner of what alice opened as bob")
    # Who has a token that names nobody, here the administrator's, may open for others.
    shell = held(hosts, hosts.client("admin"), "--owner", "carol@host")
    case.equal(owners(hosts), ["alice", "carol@host"], "owners")
    shell.close()

    # A pool that has both kinds of tokens: the shared one takes no user's name.
    shared = case.folder / "shared"
    shared.write_text("a token for the rest of us\n")
    more = Hosts(case, "more", "--users", "alice:open+read")
    more.scheduler("--client-token-file", shared)
    more.server(name="more")
    env = {**more.client("client-alice"), "GPUPOOL_TOKEN_FILE": str(shared)}
    for name in ("alice", "alice@elsewhere"):
        done = more.cli("run", "--owner", name, "--core", 5, "--memory", "64MiB", "--", "true",
                        env=env, status=None)
        case.contains(done.err, "a user with a token of its own", f"{name} by the shared token")
    more.cli("run", "--owner", "alicia@elsewhere", "--core", 5, "--memory", "64MiB", "--",
             "true", env=env)


def test_owners_of_kubernetes_pods_are_nobody_elses(case):
    """A pod's session is found by its owner: one that a client opened in such a name would
    be taken for it, and its lease key is the client's."""
    shared = case.folder / "shared"
    shared.write_text("a token for the rest of us\n")
    hosts = Hosts(case, "etc", "--users", USERS)
    hosts.scheduler("--client-token-file", shared)
    hosts.server(name="node")
    opened = ("run", "--owner", "kube:egpu-uid-106", "--core", 5, "--memory", "64MiB", "--", "true")
    env = {**hosts.client("client-alice"), "GPUPOOL_TOKEN_FILE": str(shared)}
    done = hosts.cli(*opened, env=env, status=None)
    case.contains(done.err, "owners that begin with kube: are those of Kubernetes", "refused")
    case.check(done.status != 0, "its exit status")
    hosts.cli(*opened, env=hosts.client("admin"))


def test_opening_once_needs_the_right_to_open_and_to_end(case):
    """The session that is granted may be another's, and there may be none yet."""
    hosts, _ = start(case, "--tls", "prefer")
    asked = text(3, "somebody") + number(4, 5) + number(5, 64 << 20) + number(40, 1)
    for user in ("client-eva", "client-alice", "admin"):
        token = Path(hosts.client(user)["GPUPOOL_TOKEN_FILE"]).read_text("ascii").strip()
        with Link(case, ("127.0.0.1", hosts.port)) as link:
            code, _ = link.ask(OPEN, number(1, 1) + text(2, token) + asked)
        case.equal(code, 0 if user == "admin" else 3, f"the code of {user}'s open")


def test_user_who_is_taken_out_is_out_also_after_a_restart(case):
    hosts, scheduler = start(case)
    alice = held(hosts, hosts.client("client-alice"))
    users = hosts.dir / "scheduler" / "users"
    users.write_text("".join(line for line in users.read_text().splitlines(True)
                             if not line.startswith("alice:")))
    users.chmod(0o600)
    reread(case, scheduler, hosts.log("scheduler"), "were read again")
    done = hosts.vecadd(env=hosts.client("client-alice"), status=None)
    case.contains(done.err, "wrong client token", "a token that was revoked")
    alice.ok("sync")  # what runs is ended by an order, not by the file
    scheduler.send_signal(signal.SIGKILL)
    scheduler.wait(case.patience)
    hosts.scheduler()
    done = hosts.vecadd(env=hosts.client("client-alice"), status=None)
    case.contains(done.err, "wrong client token", "after a restart")
    alice.close()


def test_files_that_do_not_say_who_is_who_are_refused(case):
    hosts = Hosts(case, "etc", "--users", "alice:open,bob:open")
    users = hosts.dir / "scheduler" / "users"
    good = users.read_text()
    secret = good.splitlines()[0].split(":")[2]
    ready = case.folder / "refused.ready"
    for text, mode, words in (
            (good + f"mallory:open:{secret}\n", 0o600, "somebody else's as well"),
            (good + "mallory:open:short\n", 0o600, "characters"),
            (good + "mallory:everything:0123456789abcdef\n", 0o600, "a right is"),
            (good + "mallory\n", 0o600, "NAME:RIGHT"),
            (good + "mal lory:open:0123456789abcdef\n", 0o600, "user's name"),
            (good, 0o644, "lets everybody read")):
        users.write_text(text)
        users.chmod(mode)
        flags = hosts.flags("scheduler", "scheduler.env", "GPUPOOL_SCHEDULER_FLAGS")
        done = case.run([case.build / "bin" / "gpupool-scheduler", *flags, "--listen",
                         "127.0.0.1:0", "--state-dir", case.folder / "refused",
                         "--ready-file", ready], status=None)
        case.equal((done.status, ready.exists()), (1, False), f"a users file: {words}")
        case.contains(done.err, words, "the words")
        case.check(secret not in done.err + done.out, "a token is in the words")


def test_every_kind_of_event_is_in_the_audit_log_and_no_secret(case):
    audit, attaches = case.folder / "audit.json", case.folder / "attaches.json"
    hosts = Hosts(case, "etc", "--users", USERS)
    scheduler = hosts.scheduler("--audit-log", audit)
    server = hosts.server("server", "--audit-log", attaches, name="node")
    alice, admin = hosts.client("client-alice"), hosts.client("admin")
    def events(file):
        return [json.loads(line) for line in file.read_text().splitlines()]

    def expect(file, kind, **wanted):
        def found():
            return any(event["event"] == kind and
                       all(value in event.get(key, "") for key, value in wanted.items())
                       for event in events(file))
        case.wait_for(found, lambda: f"no {kind} {wanted}:\n{file.read_text()}")

    hosts.vecadd(env=alice)
    shell = held(hosts, alice)
    hosts.cli("drain", "node", env=hosts.client("client-dora"))
    expect(attaches, "order", by="scheduler", order="drain")  # it hears of it by a report
    hosts.cli("drain", "--undo", "node", env=admin)
    hosts.cli("drain", "node", env=alice, status=None)
    hosts.cli("status", env={**alice, "GPUPOOL_TOKEN_FILE": str(hosts.dir / "server" / "token")},
              status=None)
    name = json.loads(hosts.cli("status", "--json").out)["sessions"][0]["name"]
    with socket.create_connection(where_of(hosts), case.patience) as outsider:
        outsider.sendall(attach_request("not a ticket"))
        outsider.recv(4096)
    hosts.cli("close", name, env=hosts.client("client-eva"))
    shell.close()
    users = hosts.dir / "scheduler" / "users"
    idle = case.spawn([hosts.gpupool, "run", "--core", "5", "--memory", "64MiB", "--", "cat"],
                      env=hosts.client("client-bob"))
    case.wait_for(lambda: owners(hosts) == ["bob"], "bob's session")
    users.write_text("".join(line for line in users.read_text().splitlines(True)
                             if not line.startswith("bob:")))
    reread(case, scheduler, hosts.log("scheduler"), "were read again")
    reread(case, server, hosts.log("node"), "were read again")
    idle.stdin.close()
    idle.wait(case.patience)

    expect(audit, "register", server="node", **{"from": "127.0.0.1:"})
    expect(audit, "grant", who="alice", program="vecadd", server="node", **{"from": "127."})
    expect(audit, "end", who="alice", session=name, words="administrator")
    expect(audit, "order", by="dora", order="drain", server="node", **{"from": "127."})
    expect(audit, "order", by="admin", order="undrain")
    expect(audit, "order", by="eva", order="close", who="alice", session=name)
    expect(audit, "denied", words="admin token", **{"from": "127."})
    expect(audit, "denied", words="wrong client token", **{"from": "127."})
    expect(audit, "revoked", who="bob", **{"from": "127."})
    expect(audit, "reload")
    expect(attaches, "register", server="node", scheduler=hosts.where)
    expect(attaches, "attach", who="alice")
    expect(attaches, "detach", who="alice", attachment=f"{name}.c")
    expect(attaches, "attach-denied", words="TLS", **{"from": "127."})
    expect(attaches, "order", by="scheduler", order="close", session=name, who="alice")
    expect(attaches, "reload")
    secrets = [path.read_text().strip().split(":")[-1] for path in hosts.dir.rglob("token")]
    secrets += [line.split(":")[-1] for path in hosts.dir.joinpath("scheduler").glob("*-token*")
                for line in path.read_text().split()]
    for file in (audit, attaches):
        case.equal(stat.S_IMODE(file.stat().st_mode), 0o600, f"the mode of {file.name}")
        case.check(all("time" in event for event in events(file)), "an event without its time")
        for secret in secrets:
            case.check(secret not in file.read_text(), f"a token is in {file.name}")
        case.check("PRIVATE" not in file.read_text(), f"a key is in {file.name}")
    # What a log rotation does: the file gets another name, a new one is begun.
    audit.rename(case.folder / "audit.1")
    reread(case, scheduler, hosts.log("scheduler"), "were read again")
    expect(audit, "reload")


def test_closed_session_stays_closed_when_its_server_is_restarted(case):
    """Its ticket has not expired, its client proves the key, and the scheduler cannot tell
    the server anything."""
    hosts, scheduler = start(case, "--lease-ms", "600000")
    process = case.spawn([hosts.gpupool, "run", "--core", "5", "--memory", "64MiB", "--", "sh",
                          "-c", 'cat "$GPUPOOL_SESSION_FILE"; echo "$LD_LIBRARY_PATH"; cat'],
                         env=hosts.client("client-alice"))
    lines = []
    while not lines or not lines[-1].startswith("/"):
        lines.append(process.stdout.readline())
    file = case.folder / "session"
    file.write_text("".join(line for line in lines[:-1] if not line.startswith("local ")))
    file.chmod(0o600)
    env = {"GPUPOOL_SESSION_FILE": str(file), "LD_LIBRARY_PATH": lines[-1].strip(),
           "GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_ATTACH_SECONDS": "1"}
    case.run([case.programs / "vecadd"], env=env)
    name = json.loads(hosts.cli("status", "--json").out)["sessions"][0]["name"]
    hosts.cli("close", name)
    done = case.run([case.programs / "vecadd"], env=env, status=None)
    case.contains(done.err, f"{name} has been closed: closed by an administrator",
                  "after the order")
    port = next(line.split(" ")[1].strip() for line in lines if line.startswith("server "))
    server = next(p for p in case._processes if "gpupool-server" in str(p.args[0]))
    scheduler.send_signal(signal.SIGSTOP)
    server.kill()
    server.wait(case.patience)
    again = hosts.server("server", "--listen", port, name="node", listed=False)
    case.wait_for(lambda: case.run([case.programs / "vecadd"], env=env, status=None).err.count(
        "has been closed"), "the restarted server refuses it")
    scheduler.send_signal(signal.SIGCONT)
    again.terminate()
    process.kill()
