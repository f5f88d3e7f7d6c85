# SPDX-License-Identifier: Apache-2.0
"""Keys, tokens and rules change under load by SIGHUP: nothing ends, the old and the new are
good side by side, and the old is refused once it is taken out."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading

from harness import Cudash
from test_init import Hosts

# Long enough for a machine that does much else, and renewed several times in a test.
LEASE_MS = "6000"


def new_key(case, name):
    """A private key in PEM form and its public half as one line."""
    path = case.folder / name
    openssl = case.need_tool("openssl")
    path.write_bytes(case.run([openssl, "genpkey", "-algorithm", "ed25519"]).out.encode())
    path.chmod(0o600)
    state = case.folder / f"{name}-state"
    port = case.free_port()
    ready = case.folder / f"{name}.ready"
    scheduler = case.spawn([case.build / "bin" / "gpupool-scheduler", "--listen",
                            f"127.0.0.1:{port}", "--state-dir", state, "--key-file", path,
                            "--ready-file", ready])
    case.wait_for(ready.exists, "the key's public half is written")
    scheduler.terminate()
    scheduler.wait(case.patience)
    return path.read_text(), (state / "ticket-key.pub").read_text().strip()


def replace(path, text):
    """At once: whoever reads it meanwhile finds the old text or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    shutil.copymode(path, fresh)
    os.replace(fresh, path)


class Load:
    """Sessions that are opened and ended all the time, until end().

    They wait where a server is being registered again: it changes its token by that."""

    def __init__(self, hosts, env):
        self.hosts, self.env = hosts, env
        self.done, self.failed, self.over = 0, [], False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.over:
            done = self.hosts.vecadd(env=dict(self.env), status=None, options=("--wait=60",))
            if done.status:
                self.failed.append(done.err)
            else:
                self.done += 1

    def some_more(self):
        case = self.hosts.case
        wanted = self.done + 2
        case.wait_for(lambda: self.done >= wanted or self.failed, "programs go on")
        case.equal(self.failed, [], "programs that failed")

    def end(self):
        self.over = True
        self.thread.join(self.hosts.case.patience)


class Held:
    """One program in one session from the beginning to the end."""

    def __init__(self, hosts):
        self.shell = Cudash(hosts.case, hosts.case.spawn(
            [hosts.gpupool, "run", "--core", "10", "--memory", "64MiB", "--",
             hosts.case.programs / "cudash"],
            env={**hosts.client(), "GPUPOOL_TRANSPORT": "tcp"}))
        self.shell.begin()

    def works(self):
        self.shell.ok("sync")


def reread(case, process, log, words):
    """SIGHUP, until the log says that it was done once more."""
    before = log.read_text().count(words)
    process.send_signal(signal.SIGHUP)
    case.wait_for(lambda: log.read_text().count(words) > before,
                  lambda: f"SIGHUP:\n{log.read_text()}")


class Pool:
    def __init__(self, case):
        self.case = case
        self.hosts = Hosts(case)
        self.scheduler = self.hosts.scheduler("--lease-ms", LEASE_MS)
        self.server = self.hosts.server(name="pinned")
        self.env = self.hosts.client()
        self.held = Held(self.hosts)
        self.load = Load(self.hosts, self.env)

    def file(self, *path):
        return self.hosts.dir.joinpath(*path)

    def reread_scheduler(self):
        reread(self.case, self.scheduler, self.hosts.log("scheduler"), "were read again")

    def reread_server(self):
        reread(self.case, self.server, self.hosts.log("pinned"), "were read again")

    def goes_on(self):
        self.load.some_more()
        self.held.works()
        self.case.check(self.hosts.alive("pinned"), "the server left the pool")

    def end(self):
        self.load.end()
        self.held.works()
        self.case.equal(self.load.failed, [], "programs that failed")
        self.case.equal(self.held.shell.close(), 0, "the program that ran all the time")


def test_tokens_change_under_load_and_the_old_ones_are_refused(case):
    pool = Pool(case)
    old, new = {}, {}
    for role in ("server", "client", "admin"):
        file = pool.file("scheduler", f"{role}-token")
        old[role], new[role] = file.read_text(), f"a new secret of every {role}\n"
        replace(file, new[role] + old[role])
    pool.reread_scheduler()
    pool.goes_on()
    for role in ("server", "client", "admin"):
        replace(pool.file(role, "token"), new[role])
    pool.reread_server()
    pool.goes_on()
    for role in ("server", "client", "admin"):
        replace(pool.file("scheduler", f"{role}-token"), new[role])
    pool.reread_scheduler()
    case.wait_for(lambda: pool.hosts.alive("pinned"), "the server comes back by the new token")
    pool.goes_on()
    stale = case.folder / "stale"
    stale.write_text(old["client"])
    done = pool.hosts.vecadd(env={**pool.env, "GPUPOOL_TOKEN_FILE": str(stale)}, status=None)
    case.contains(done.err, "wrong client token", "the old token of clients")
    stale.write_text(old["admin"])
    done = pool.hosts.cli("drain", "pinned", status=None,
                          env={**pool.hosts.client("admin"), "GPUPOOL_TOKEN_FILE": str(stale)})
    case.contains(done.err, "admin token", "the old token of administrators")
    pool.end()


def test_schedulers_key_changes_under_load_and_the_old_one_is_refused(case):
    pool = Pool(case)
    key = pool.file("scheduler", "ticket-key.pem")
    old_pem, old_pub = key.read_text(), pool.file("client", "scheduler-key.pub").read_text()
    new_pem, new_pub = new_key(case, "new")
    # One that learned the key at its first registration, as many pools have it.
    trusting = pool.hosts.server("server", "--scheduler-key", "", name="trusting")
    kept = case.folder / "trusting-state" / "scheduler-key.pub"
    case.wait_for(lambda: kept.exists() and kept.read_text().strip() == old_pub.strip(),
                  "the key that it keeps")

    # Who pins the key is given the new one before the scheduler has it.
    for folder in ("server", "client", "admin"):
        replace(pool.file(folder, "scheduler-key.pub"), f"{old_pub}{new_pub}\n")
    pool.reread_server()
    pool.goes_on()  # behind clients that still know the old one alone
    replace(key, new_pem + old_pem)
    pool.reread_scheduler()
    case.wait_for(lambda: new_pub in kept.read_text(), "the other server hears of it")
    case.check(old_pub.strip() in kept.read_text(), "it forgets the old key too early")
    pool.goes_on()
    # The lease is renewed with tickets of the new key, over a new connection as well.
    pool.scheduler.send_signal(signal.SIGKILL)
    pool.scheduler.wait(case.patience)
    pool.scheduler = pool.hosts.scheduler("--lease-ms", LEASE_MS)
    case.wait_for(lambda: pool.hosts.alive("pinned"), "the server after a restart")
    pool.load.failed.clear()  # there was no scheduler for a moment
    pool.goes_on()

    replace(key, new_pem)
    pool.reread_scheduler()
    for folder in ("server", "client", "admin"):
        replace(pool.file(folder, "scheduler-key.pub"), f"{new_pub}\n")
    pool.reread_server()
    case.wait_for(lambda: kept.read_text().strip() == new_pub, "the old key is forgotten")
    case.wait_for(lambda: pool.hosts.alive("pinned") and pool.hosts.alive("trusting"),
                  "both servers are back")
    pool.goes_on()
    done = pool.hosts.vecadd(env={**pool.env, "GPUPOOL_SCHEDULER_KEY": old_pub.strip()},
                             status=None)
    case.contains(done.err, "not the pool's scheduler", "who expects the old key")
    pool.end()
    trusting.terminate()


def test_ticket_of_a_key_that_was_taken_out_opens_nothing(case):
    """A thief of the old key makes tickets; after the change no server takes them."""
    hosts = Hosts(case)
    scheduler = hosts.scheduler()
    server = hosts.server(name="pinned")
    stolen = case.folder / "stolen.pem"
    stolen.write_text(hosts.dir.joinpath("scheduler", "ticket-key.pem").read_text())
    stolen.chmod(0o600)
    new_pem, new_pub = new_key(case, "new")
    hosts.dir.joinpath("scheduler", "ticket-key.pem").write_text(new_pem)
    for folder in ("server", "client", "admin"):
        hosts.dir.joinpath(folder, "scheduler-key.pub").write_text(f"{new_pub}\n")
    reread(case, scheduler, hosts.log("scheduler"), "were read again")
    reread(case, server, hosts.log("pinned"), "were read again")
    case.wait_for(lambda: hosts.alive("pinned"), "the server is back with the new key")

    # The thief's scheduler, at an address of its own, knows the tokens too.
    thief = Hosts(case, "thief")
    for name in ("server-token", "client-token", "admin-token"):
        thief.dir.joinpath("scheduler", name).write_text(
            hosts.dir.joinpath("scheduler", name).read_text())
    thief.dir.joinpath("scheduler", "ticket-key.pem").write_text(stolen.read_text())
    thief.scheduler()
    ports = subprocess.run(["sed", "-n", "s/.*pinned listens on \\([^,]*\\),.*/\\1/p",
                            hosts.log("pinned")], capture_output=True, text=True,
                           check=True).stdout.split()
    log = case.folder / "moved.log"
    # The server is led to the thief: it refuses it by its key.
    server.terminate()
    server.wait(case.patience)
    flags = hosts.flags("server", "server.env", "GPUPOOL_SERVER_FLAGS")
    flags[flags.index("--scheduler") + 1] = thief.where
    case.spawn([case.build / "bin" / "gpupool-server", *flags, "--listen", ports[-1],
                "--driver", "null", "--name", "pinned"], stderr=open(log, "ab"))
    case.wait_for(lambda: "ITS KEY IS NOT THE SCHEDULER'S" in log.read_text(),
                  lambda: log.read_text())


def test_files_with_faults_leave_everything_as_it_was(case):
    hosts = Hosts(case)
    scheduler = hosts.scheduler()
    server = hosts.server(name="node")
    log = hosts.log("scheduler")
    for name, text, words in (("client-token", "", "no token"),
                              ("ticket-key.pem", "rubbish\n", "not a private key"),
                              ("admin-token", None, "No such file")):
        file = hosts.dir / "scheduler" / name
        good = file.read_text()
        file.unlink() if text is None else file.write_text(text)
        reread(case, scheduler, log, "stay as they were")
        case.contains(log.read_text(), words, f"words about {name}")
        case.equal(hosts.vecadd().status, 0, f"a program while {name} is broken")
        file.write_text(good)
        file.chmod(0o600)
    pins = hosts.dir / "server" / "scheduler-key.pub"
    pins.write_text("rubbish\n")
    reread(case, server, hosts.log("node"), "stay as they were")
    case.equal(hosts.vecadd().status, 0, "a program while the server's pins are broken")
    # Keys that are good, beside a token that is not: those of before stay as well.
    pins.write_text(f"{new_key(case, 'other')[1]}\n")
    token = hosts.dir / "server" / "token"
    token.rename(case.folder / "token-away")
    reread(case, server, hosts.log("node"), "stay as they were")
    case.equal(hosts.vecadd().status, 0, "a program while the server's token is away")


def test_key_that_was_taken_out_is_said_to_be_gone(case):
    hosts = Hosts(case)
    audit = case.folder / "audit"
    scheduler = hosts.scheduler("--audit-log", audit)
    key = hosts.dir / "scheduler" / "ticket-key.pem"
    old_pem, new_pem = key.read_text(), new_key(case, "new")[0]

    def gone():
        events = [json.loads(line) for line in audit.read_text().splitlines()]
        return [event["gone"] for event in events if "gone" in event]

    def put(text):
        replace(key, text)
        reread(case, scheduler, hosts.log("scheduler"), "were read again")

    put(new_pem + old_pem)
    changed = re.search(r"the key is (\w+) from now on, it was (\w+), which stays good",
                        hosts.log("scheduler").read_text())
    case.check(changed, "the change is not in the log")
    new_id, old_id = changed.groups()
    case.equal(gone(), [], "keys that are gone while both are good")
    put(new_pem)
    put(new_pem)  # once is enough
    case.equal(gone(), [old_id], "keys that are gone")
    case.contains(hosts.log("scheduler").read_text(), f"the key {old_id} is not good any more",
                  "the log")
    put(old_pem)  # at once, as when a key was stolen
    case.equal(gone(), [old_id, new_id], "keys that are gone after a change at once")


def test_sessions_of_before_get_the_key_that_a_server_made_anew(case):
    hosts = Hosts(case)
    hosts.scheduler("--lease-ms", LEASE_MS)
    server = hosts.server(name="node")
    gate = case.folder / "gate"
    held = Held(hosts)
    later = case.spawn(
        [hosts.gpupool, "run", "--core", "10", "--memory", "64MiB", "--", "sh", "-c",
         f"echo begins; while [ ! -e {gate} ]; do sleep 0.05; done; "
         f"until {case.programs}/vecadd; do sleep 0.2; done"],
        env={**hosts.client(), "GPUPOOL_TRANSPORT": "tcp"}, stdout=subprocess.PIPE)
    case.equal(later.stdout.readline(), "begins\n", "the session is there")
    kept = case.folder / "node-state" / "attach.key"
    before = kept.read_bytes()
    kept.unlink()
    port = re.findall(r"node listens on (\S+),", hosts.log("node").read_text())[-1]
    server.send_signal(signal.SIGUSR2)
    server.wait(case.patience)
    hosts.server("server", "--listen", port, name="node")
    case.check(kept.read_bytes() != before, "the key is the same")
    gate.touch()
    case.contains(later.communicate(timeout=case.patience)[0], ": ok\n", "the program that began later")
    held.works()
    case.equal((later.returncode, held.shell.close()), (0, 0), "how both programs ended")
