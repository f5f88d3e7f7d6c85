# SPDX-License-Identifier: Apache-2.0
"""gpupool init: a pool whose daemons start from what it made, with TLS required, and who
is kept out of it."""

import json
import re
import shlex
import stat
from pathlib import Path


class Hosts:
    """The folders of one `gpupool init`, and daemons started with what is in them."""

    def __init__(self, case, name="etc", *options, port=None):
        self.case = case
        self.dir = case.folder / name
        self.port = port or case.free_port()
        self.where = f"127.0.0.1:{self.port}"
        self.gpupool = case.build / "bin" / "gpupool"
        self.said = case.run([self.gpupool, "init", "--dir", self.dir, "--target", self.dir,
                              "--scheduler", self.where, *options])

    def env_file(self, folder, name):
        text = (self.dir / folder / name).read_text(encoding="utf-8")
        return dict(line.split("=", 1) for line in text.splitlines())

    def client(self, folder="client"):
        """The environment of a client that has @folder as its own."""
        env = self.env_file(folder, "client.env")
        return {key: value.replace(f"{self.dir}/client/", f"{self.dir}/{folder}/")
                for key, value in env.items()}

    def flags(self, folder, name, variable):
        text = self.env_file(folder, name)[variable]
        role = folder.split("-")[0]
        return shlex.split(text.replace(f"{self.dir}/{role}/", f"{self.dir}/{folder}/"))

    def scheduler(self, *more):
        flags = self.flags("scheduler", "scheduler.env", "GPUPOOL_SCHEDULER_FLAGS")
        flags[flags.index("--listen") + 1] = self.where  # this host's loopback only
        ready = self.case.folder / f"{self.dir.name}.ready"
        ready.unlink(missing_ok=True)
        state = self.case.folder / f"{self.dir.name}-state"
        process = self.case.spawn(
            [self.case.build / "bin" / "gpupool-scheduler", *flags, "--state-dir", state,
             "--heartbeat-ms", "100", "--ready-file", ready, *more],
            stderr=open(self.log("scheduler"), "ab"))
        self.case.wait_for(ready.exists, "the scheduler listens")
        return process

    def server(self, folder="server", *more, name=None, listed=True):
        flags = self.flags(folder, "server.env", "GPUPOOL_SERVER_FLAGS")
        if name:
            flags += ["--name", name]
        name = name or flags[flags.index("--name") + 1]
        process = self.case.spawn(
            [self.case.build / "bin" / "gpupool-server", *flags, "--listen", "127.0.0.1:0",
             "--driver", "softgpu", "--memory", "1GiB", "--state-dir",
             self.case.folder / f"{name}-state", *more],
            env={"SOFTGPU_INSTANCE": f"{self.case.folder.name}-{self.dir.name}-{name}"},
            stderr=open(self.log(name), "ab"))
        if listed:
            self.case.wait_for(lambda: self.alive(name), f"server {name} is in the pool")
        return process

    def log(self, name):
        return self.case.folder / f"{self.dir.name}-{name}.log"

    def cli(self, *args, env=None, status=0):
        return self.case.run([self.gpupool, *args], env=env or self.client("admin"),
                             status=status)

    def alive(self, name):
        return any(server["name"] == name and server["state"] == "alive" for server in
                   json.loads(self.cli("status", "--json").out)["servers"])

    def vecadd(self, env=None, status=0, options=()):
        return self.cli("run", "--core", 10, "--memory", "64MiB", *options, "--",
                        self.case.programs / "vecadd", env=env or self.client(), status=status)


def test_pool_starts_from_what_init_made_with_tls_required(case):
    hosts = Hosts(case)
    case.contains(hosts.said.out, "to /", "what to copy to which host")
    for path in hosts.dir.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        secret = path.is_file() and path.suffix not in (".env", ".pub")
        case.check(not mode & (0o007 if secret else 0o022), f"the mode {mode:o} of {path}")
    case.equal(hosts.cli("init", "--check", "--dir", hosts.dir).status, 0, "the check")
    hosts.scheduler()
    hosts.server(name="node")
    case.contains(hosts.vecadd().out, ": ok\n", "vecadd")
    done = hosts.vecadd(env={**hosts.client(), "GPUPOOL_TLS": "off"}, status=None)
    case.check(done.status != 0, "a client in clear text")
    done = hosts.cli("init", "--dir", hosts.dir, "--scheduler", "h:1", status=1)
    case.contains(done.err, "there already", "a second init")


def test_wrong_pin_wrong_token_and_another_pools_server_stay_outside(case):
    hosts, other = Hosts(case), Hosts(case, "other")
    other.where = hosts.where
    hosts.scheduler()
    hosts.server(name="node")

    mine, theirs = hosts.client(), other.client()
    done = hosts.vecadd(env={**mine, "GPUPOOL_SCHEDULER_KEY": theirs["GPUPOOL_SCHEDULER_KEY"]},
                        status=None)
    case.contains(done.err, "not the pool's scheduler", "the wrong pin")
    done = hosts.vecadd(env={**mine, "GPUPOOL_TOKEN_FILE": theirs["GPUPOOL_TOKEN_FILE"]},
                        status=None)
    case.contains(done.err, "wrong client token", "the wrong token")
    done = hosts.cli("drain", "node", env=mine, status=None)
    case.contains(done.err, "needs the admin token", "a client's token for an order")

    # A server of another pool, with all that it has, with our scheduler's key, and with
    # our clients' token.
    for more, words in (
            ((), "ITS KEY IS NOT THE SCHEDULER'S"),
            (("--scheduler-key", hosts.dir / "server" / "scheduler-key.pub"),
             "wrong server token"),
            (("--scheduler-key", hosts.dir / "server" / "scheduler-key.pub", "--token-file",
              hosts.dir / "client" / "token"), "wrong server token")):
        flags = [f if f != other.flags("server", "server.env", "GPUPOOL_SERVER_FLAGS")[1]
                 else hosts.where for f in
                 other.flags("server", "server.env", "GPUPOOL_SERVER_FLAGS")]
        log = case.folder / f"intruder-{len(more)}.log"
        process = case.spawn([case.build / "bin" / "gpupool-server", *flags, "--listen",
                              "127.0.0.1:0", "--driver", "null", "--name", "intruder", *more],
                             stderr=open(log, "ab"))
        case.wait_for(lambda: words in log.read_text(), lambda: f"{words}:\n{log.read_text()}")
        process.kill()
        process.wait()
    names = [server["name"] for server in
             json.loads(hosts.cli("status", "--json").out)["servers"]]
    case.equal(names, ["node"], "the servers of the pool")


def test_servers_and_users_by_name_get_tokens_of_their_own(case):
    hosts = Hosts(case, "etc", "--servers", "a,b", "--users", "alice:open+read,rita:read")
    hosts.scheduler()
    hosts.server("server-a")
    log = case.folder / "posing.log"
    flags = hosts.flags("server-b", "server.env", "GPUPOOL_SERVER_FLAGS")
    case.spawn([case.build / "bin" / "gpupool-server", *flags, "--listen", "127.0.0.1:0",
                "--driver", "null", "--name", "a"], stderr=open(log, "ab"))
    case.wait_for(lambda: "wrong server token" in log.read_text(), "b poses as a")
    case.equal(hosts.vecadd(env=hosts.client("client-alice")).status, 0, "alice's program")
    done = hosts.vecadd(env=hosts.client("client-rita"), status=None)
    case.contains(done.err, "rita does not have the right to open", "rita opens a session")
    case.equal(hosts.cli("status", env=hosts.client("client-rita")).status, 0, "rita reads")


def test_check_finds_what_does_not_fit(case):
    hosts, other = Hosts(case), Hosts(case, "other")

    def check():
        done = hosts.cli("init", "--check", "--dir", hosts.dir, status=None)
        return done.status, re.findall(r"^BAD   (.*)$", done.out, re.M)

    case.equal(check(), (0, []), "as it was made")
    token = hosts.dir / "server" / "token"
    token.chmod(0o644)
    case.contains(check()[1][0], "lets others read", "a token for everybody")
    token.write_text((other.dir / "server" / "token").read_text())
    token.chmod(0o600)
    case.contains(check()[1][0], "does not know it", "a token of another pool")
    token.write_text("short\n")
    case.contains(check()[1][0], "shorter than", "a short token")
    token.unlink()
    case.contains("\n".join(check()[1]), "No such file", "no token")
    pub = hosts.dir / "client" / "scheduler-key.pub"
    pub.write_text((other.dir / "client" / "scheduler-key.pub").read_text())
    case.contains("\n".join(check()[1]), "another scheduler", "a key of another pool")
    case.equal(check()[0], 1, "the status")
    done = hosts.cli("init", "--check", "--dir", case.folder / "nowhere", status=None)
    case.equal(done.status, 1, "no folder at all")


def test_init_refuses_what_daemons_would_and_makes_nothing(case):
    gpupool, folder = case.build / "bin" / "gpupool", case.folder / "etc"
    for words, *options in (
            ("--users v: bogus: a right is open, read, end, drain or forward", "--scheduler", "p:7700",
             "--users", "u:open+read,v:bogus"),
            ("--users: u is there twice", "--scheduler", "p:7700", "--users", "u:open,v:read,u:read"),
            ("--servers: a is there twice", "--scheduler", "p:7700", "--servers", "a,b,a"),
            ("--servers ../a: not a name", "--scheduler", "p:7700", "--servers", "../a"),
            ("--scheduler: p:70000: HOST:PORT is wanted", "--scheduler", "p:70000"),
            ("--scheduler: p:0: HOST:PORT is wanted", "--scheduler", "p:0"),
            ("--scheduler: pool.example: HOST:PORT is wanted", "--scheduler", "pool.example")):
        done = case.run([gpupool, "init", "--dir", folder, *options], status=2)
        case.contains(done.err, f"gpupool: init: {words}", "what init says")
        case.check(not folder.exists(), f"{options} made a folder")


def test_check_finds_what_the_scheduler_would_refuse(case):
    hosts = Hosts(case, "etc", "--users", "u:open+read,v:read", "--servers", "a,b")

    def faults():
        done = hosts.cli("init", "--check", "--dir", hosts.dir, status=None)
        return [line for line in done.out.splitlines() if line.startswith("BAD")]

    def change(name, old, new):
        path = hosts.dir / "scheduler" / name
        path.write_text(path.read_text().replace(old, new))
    case.equal(faults(), [], "faults of what init made")
    change("users", "v:read:", "v:bogus:")
    case.contains("\n".join(faults()), "users:2: v: bogus: a right is", "an unknown right")
    change("users", "v:bogus:", "u:read:")
    case.check(not any("users" in line for line in faults()), "a user with two tokens is a fault")
    change("server-tokens", "b:", "b")
    case.contains("\n".join(faults()), "server-tokens:2: NAME:TOKEN is wanted", "a line without a name")
    change("scheduler.env", f":{hosts.port}", ":70000")
    case.contains("\n".join(faults()), "--listen [::]:70000: HOST:PORT is wanted", "a port that is none")


def test_check_asks_the_daemons_about_their_options(case):
    hosts = Hosts(case, "etc", "--servers", "a")

    def faults():
        done = hosts.cli("init", "--check", "--dir", hosts.dir, status=None)
        return [line.removeprefix(f"BAD   {hosts.dir}/") for line in done.out.splitlines()
                if line.startswith("BAD")]

    def add(file, *lines):
        with open(hosts.dir / file, "a", encoding="ascii") as env:
            env.write("".join(f"{line}\n" for line in lines))
    add("scheduler/scheduler.env", "# ours", "", "; and theirs", 'GPUPOOL_SCHEDULER_LEASE_MS="40000"',
        "GPUPOOL_LOG=info")
    (hosts.dir / "scheduler" / "own.conf").write_text("# ours\nplacement = spread\n")
    add("scheduler/scheduler.env", "GPUPOOL_SCHEDULER_FLAGS=--config /elsewhere/own.conf")
    case.equal(faults(), [], "faults of options that are good")

    add("scheduler/scheduler.env", "GPUPOOL_SCHEDULER_LEESE_MS=40000",
        "GPUPOOL_SCHEDULER_HEARTBEAT_MS=2s", "no variable",
        "GPUPOOL_SCHEDULER_OWN_FLAGS=--tls off")
    (hosts.dir / "scheduler" / "own.conf").write_text("# ours\nplacement = spred\n")
    add("server.env", "GPUPOOL_SERVER_OWN_FLAGS=--drivr cuda")
    add("server-a/server.env", "GPUPOOL_SERVER_WORKER_MEMORY=4")
    env = "scheduler/scheduler.env"
    for found, words in zip(faults(), (
            f"{env}:7: {hosts.dir}/scheduler/own.conf:2: --placement spred: binpack, spread or fgd is wanted",
            f"{env}:8: GPUPOOL_SCHEDULER_LEESE_MS: unknown option --leese-ms; did you mean --lease-ms?",
            f"{env}:9: GPUPOOL_SCHEDULER_HEARTBEAT_MS=2s: a number from 10 to 60000 is wanted",
            f"{env}:10: NAME=VALUE is wanted",
            f"{env}:11: GPUPOOL_SCHEDULER_OWN_FLAGS: unknown option --own-flags",
            "server-a/server.env:2: GPUPOOL_SERVER_WORKER_MEMORY=4: in which unit?",
            "server.env:1: unknown option --drivr; did you mean --driver?"), strict=True):
        case.contains(found, words, "a fault")
