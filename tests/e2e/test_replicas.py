# SPDX-License-Identifier: Apache-2.0
"""Several schedulers that share an etcd of three members: whoever dies or stops, no part
of a card is given twice and nobody's session is lost."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from base64 import b64decode, b64encode
from contextlib import closing, suppress
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

LEASE_S = 2
HELD = """mkdir "$0/held" || echo "held by two" >> "$0/broken"
sleep 0.1; rmdir "$0/held"; echo "$GPUPOOL_TURN" >> "$0/turns" """


class Cluster:
    def __init__(self, case, schedulers=3, lease_s=LEASE_S, http=False, metrics=False, more=(),
                 roles=("client", "server", "admin"), start=True, members=3, etcd_more=(),
                 env=None):
        """@more: options of all schedulers, or a function of their number; @roles: those
        that everybody may act in; @etcd_more: options of the members of etcd; @env: of the
        schedulers."""
        case.need_tool("etcd")
        self.case = case
        # None: the scheduler's own default.
        self.options = ("--etcd-lease-s", str(lease_s)) if lease_s else ()
        self.more = more if callable(more) else lambda i: more
        self.roles = [option for role in roles for option in ("--allow-anonymous", role)]
        self.http = [case.free_port() for _ in range(schedulers)] if http else None
        self.metrics = [case.free_port() for _ in range(schedulers)] if metrics else None
        self.env = env
        self.etcd_more = etcd_more
        self.urls = [f"http://127.0.0.1:{case.free_port()}" for _ in range(members)]
        self.peers = [f"http://127.0.0.1:{case.free_port()}" for _ in range(members)]
        self.members = [self.start_member(i) for i in range(members)]
        case.wait_for(lambda: self.records("leader") is not None, "etcd answers")
        self.addresses = [f"127.0.0.1:{case.free_port()}" for _ in range(schedulers)]
        self.all = ",".join(self.addresses)
        self.schedulers = [self.start(i) for i in range(schedulers)] if start else []

    def start_member(self, i):
        return self.case.spawn(
            ["etcd", "--name", f"m{i}", "--data-dir", self.case.folder / f"m{i}", "--log-level",
             "error", "--listen-client-urls", self.urls[i], "--advertise-client-urls",
             self.urls[i], "--listen-peer-urls", self.peers[i],
             "--initial-advertise-peer-urls", self.peers[i], "--initial-cluster",
             ",".join(f"m{n}={peer}" for n, peer in enumerate(self.peers)),
             *self.etcd_more], stdout=subprocess.DEVNULL)

    def start(self, i, more=()):
        where = more or ("--etcd", ",".join(self.urls), *self.options)
        if self.http:
            where += ("--http", f"127.0.0.1:{self.http[i]}", "--http-public")
        if self.metrics:
            where += ("--metrics-listen", f"127.0.0.1:{self.metrics[i]}")
        return self.case.spawn(
            ["gpupool-scheduler", "--listen", self.addresses[i], "--state-dir",
             self.case.folder / f"s{i}", *self.roles, *where, *self.more(i)], env=self.env,
            stdout=subprocess.DEVNULL, stderr=open(self.case.folder / f"s{i}.log", "ab"))

    def server(self, name="node"):
        return self.case.spawn(["gpupool-server", "--listen", f"127.0.0.1:{self.case.free_port()}",
                                "--driver", "softgpu", "--name", name, "--scheduler", self.all],
                               env={"SOFTGPU_CARDS": "1"}, stdout=subprocess.DEVNULL)

    def records(self, prefix):
        """Keys and values under /gpupool/PREFIX; None when no member answers."""
        key = f"/gpupool/{prefix}".encode()
        body = {"key": b64encode(key).decode(),
                "range_end": b64encode(key[:-1] + bytes([key[-1] + 1])).decode()}
        for url in self.urls:
            with suppress(OSError):
                request = Request(f"{url}/v3/kv/range", json.dumps(body).encode())
                with urlopen(request, timeout=2) as reply:
                    return {b64decode(kv["key"]).decode(): b64decode(kv["value"])
                            for kv in json.load(reply).get("kvs", [])}
        return None

    def put(self, key, value=None):
        """Into etcd past the schedulers; no value: delete it."""
        body = {"key": b64encode(f"/gpupool/{key}".encode()).decode()}
        if value is not None:
            body["value"] = b64encode(value).decode()
        action = "deleterange" if value is None else "put"
        urlopen(Request(f"{self.urls[0]}/v3/kv/{action}", json.dumps(body).encode()))

    def leader(self):
        """The index of the scheduler that leads, or None."""
        address = (self.records("leader") or {}).get("/gpupool/leader", b"").decode()
        return self.addresses.index(address) if address in self.addresses else None

    def status(self, address=None):
        out = self.case.run(["gpupool", "status", "--json", "--scheduler",
                             address or self.all], status=None)
        return json.loads(out.out) if out.status == 0 else None

    def page(self, i, path):
        """The status and the JSON of a page of one of them; 0 of one that does not listen."""
        url = f"http://127.0.0.1:{self.http[i]}/api/v1/{path}"
        try:
            with urlopen(url, timeout=self.case.patience) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)
        except (URLError, ConnectionError):
            return 0, {}

    def read_metrics(self, i):
        url = f"http://127.0.0.1:{self.metrics[i]}/metrics"
        with urlopen(url, timeout=self.case.patience) as answer:
            return answer.read().decode()

    def alive(self):
        status = self.status()
        return status and any(s["state"] == "alive" for s in status["servers"])


def take_turns(case, cluster, n):
    """Loops of sessions that each want most of the only card."""
    script = (f'while [ ! -e "$0/stop" ]; do gpupool run --scheduler {cluster.all} --core 60 '
              f"--memory 64MiB -- sh -c '{HELD}' \"$0\" 2>>\"$0/refused\" || sleep 0.05; done")
    (case.folder / "turns").touch()
    return [case.spawn(["sh", "-c", script, case.folder],
                       env={"GPUPOOL_TURN": str(i)}, stdout=subprocess.DEVNULL)
            for i in range(n)]


def turns(case):
    return len((case.folder / "turns").read_text().splitlines())


def go_on(case, cluster, words):
    """Sessions are granted again, on the pool's own."""
    before = turns(case)
    case.wait_for(lambda: turns(case) > before + 1, words, patience=case.patience * 2)
    case.check(not (case.folder / "broken").exists(), f"{words}: a slice was given twice")


def test_card_is_given_to_one_at_a_time_whoever_dies_or_stops(case):
    cluster = Cluster(case)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    loops = take_turns(case, cluster, 3)
    go_on(case, cluster, "at the start")

    # The leader is killed.
    first = cluster.leader()
    cluster.schedulers[first].kill()
    go_on(case, cluster, "after the leader's death")
    case.check(cluster.leader() not in (None, first), "another one leads")
    cluster.schedulers[first] = cluster.start(first)

    # The leader stands still for longer than its lease, and wakes up believing.
    second = cluster.leader()
    cluster.schedulers[second].send_signal(signal.SIGSTOP)
    case.wait_for(lambda: cluster.leader() not in (None, second), "another one leads")
    cluster.schedulers[second].send_signal(signal.SIGCONT)
    go_on(case, cluster, "after a leader that stood still")

    # A member of etcd stands still, as with a disk that hangs; then it dies.
    cluster.members[0].send_signal(signal.SIGSTOP)
    go_on(case, cluster, "with a member of etcd that stands still")
    cluster.members[0].send_signal(signal.SIGCONT)
    cluster.members[0].kill()
    go_on(case, cluster, "with two of three members of etcd")

    (case.folder / "stop").touch()
    for loop in loops:
        loop.wait(timeout=case.patience * 3)
    case.wait_for(lambda: not cluster.records("session/"), "every session is closed")
    case.check(not (case.folder / "broken").exists(), "a slice was given twice")


def test_session_outlives_its_leader_and_followers_show_it(case):
    cluster = Cluster(case)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    run = case.spawn(["gpupool", "run", "--scheduler", cluster.all, "--core", "60",
                      "--memory", "64MiB", "--", "sh", "-c", "echo there; read line"])
    run.stdout.readline()
    for address in cluster.addresses:
        case.wait_for(lambda: len(cluster.status(address)["sessions"]) == 1,
                      f"{address} shows the session")
    first = cluster.leader()
    for address in cluster.addresses:
        # Heartbeats come to the leader alone, which the others ask.
        case.wait_for(lambda: all(isinstance(s["silent_ms"], int)
                                  for s in cluster.status(address)["servers"]),
                      f"{address} shows when the server was heard of")
        table = case.run(["gpupool", "servers", "-o", "wide", "--scheduler", address]).out
        case.contains(table, " s ", f"the table of {address}")
    cluster.schedulers[first].kill()
    with case.within(5 + case.patience / 10, "failover"):
        case.wait_for(lambda: cluster.leader() not in (None, first), "another one leads")
        case.wait_for(cluster.alive, "the server is there again")
    run.stdin.write("\n")
    run.stdin.flush()
    case.equal(run.wait(timeout=case.patience), 0, "exit status of the session's program")
    case.wait_for(lambda: not cluster.records("session/"), "the session is closed")


def test_run_that_meets_a_leader_that_stands_still_begins_under_the_next(case):
    cluster = Cluster(case, lease_s=None)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    for env in ({}, {"GPUPOOL_TLS": "off"}):
        first = cluster.leader()
        cluster.schedulers[first].send_signal(signal.SIGSTOP)
        done = case.run(["gpupool", "run", "--scheduler", cluster.all, "--core", "10", "--memory",
                         "64MiB", "--", "echo", "served"], env=env)
        case.equal((done.out, done.err), ("served\n", ""), "output and words")
        cluster.schedulers[first].send_signal(signal.SIGCONT)
        case.wait_for(lambda: cluster.leader() not in (None, first), "another one leads")


def test_scheduler_that_starts_before_etcd_waits_for_it(case):
    cluster = Cluster(case, schedulers=0)
    for member in cluster.members[1:]:
        member.send_signal(signal.SIGSTOP)
    cluster.addresses = [f"127.0.0.1:{case.free_port()}"]
    cluster.all = cluster.addresses[0]
    scheduler = cluster.start(0)
    log = case.folder / "s0.log"
    case.wait_for(lambda: "etcd" in log.read_text(), "it says that etcd does not answer")
    case.equal(scheduler.poll(), None, "its status")
    for member in cluster.members[1:]:
        member.send_signal(signal.SIGCONT)
    cluster.server()
    case.wait_for(cluster.alive, "it leads and has its server")


def test_minority_grants_nothing(case):
    cluster = Cluster(case, schedulers=1)
    case.wait_for(lambda: cluster.leader() is not None, "the scheduler leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    for member in cluster.members[1:]:
        member.kill()
    # Longer than the lease: whoever leads by then would have to be asked.
    time.sleep(LEASE_S + 1)
    result = case.run(["gpupool", "run", "--scheduler", cluster.all, "--core", "60",
                       "--memory", "64MiB", "--", "true"], status=None)
    case.check(result.status != 0, "a session was granted by a minority")
    case.equal(cluster.schedulers[0].poll(), None, "the scheduler waits for the majority")


def test_migrate_moves_servers_and_key(case):
    cluster = Cluster(case, schedulers=1)
    case.wait_for(lambda: cluster.leader() is not None, "the scheduler leads")
    cluster.schedulers[0].kill()
    cluster.schedulers[0].wait()
    case.wait_for(lambda: cluster.leader() is None, "nobody leads")
    for key in ("ticket-key", "fence", "number"):
        cluster.put(key)
    (case.folder / "s0" / "ticket-key.pem").unlink()
    alone = cluster.start(0, more=("--placement", "spread"))
    cluster.server("left")
    case.wait_for(cluster.alive, "the server is registered")
    key = cluster.status()["key"] if "key" in cluster.status() else None
    case.run(["gpupool", "drain", "left", "--scheduler", cluster.all])
    alone.terminate()
    alone.wait()
    move = ["gpupool-scheduler", "migrate", "--from",
            f"sqlite:{case.folder}/s0/scheduler.db", "--to", "etcd:" + ",".join(cluster.urls)]
    case.contains(case.run(move).out, "records moved", "migrate")
    again = case.run(move, status=1)
    case.contains(again.err, "holds a pool already", "a second migrate")
    cluster.start(0)
    case.wait_for(lambda: [s["state"] for s in (cluster.status() or {}).get("servers", [])]
                  == ["draining"], "the server knows its scheduler again, and is drained")
    status = cluster.status()
    case.equal([s["name"] for s in status["servers"]], ["left"], "servers")
    case.equal(status.get("key"), key, "the ticket key")
    result = case.run(["gpupool", "run", "--scheduler", cluster.all, "--core", "10",
                       "--memory", "64MiB", "--", "true"], status=None)
    case.check(result.status != 0, "a drained server was given a session")


def test_migrate_that_failed_half_way_is_done_again(case):
    cluster = Cluster(case, schedulers=1, start=False)
    alone = cluster.start(0, more=("--placement", "spread"))
    cluster.server("left")
    case.wait_for(cluster.alive, "the server is registered")
    alone.terminate()
    alone.wait()

    def change(statement, rows):
        with closing(sqlite3.connect(case.folder / "s0" / "scheduler.db")) as state, state:
            state.executemany(statement, rows)

    # More than a transaction takes, by number and by size (a server's record with 64 cards
    # has as many bytes), and a last one that etcd refuses.
    change("INSERT INTO state VALUES (?, ?)",
           [(f"zz/{i:03}", b"x" * 15_000) for i in range(300)] + [("zzz", b"x" * 2_000_000)])
    move = ["gpupool-scheduler", "migrate", "--from",
            f"sqlite:{case.folder}/s0/scheduler.db", "--to", "etcd:" + ",".join(cluster.urls)]
    case.contains(case.run(move, status=1).err, "give the same command again", "how to go on")
    case.check(cluster.records("zz/"), "nothing was moved before the failure")
    # No scheduler may take the part for a pool.
    half = cluster.start(0)
    case.equal(half.wait(case.patience), 1, "a start with a part of a pool")
    case.contains((case.folder / "s0.log").read_text(), "holds a part of a pool", "why")
    change("DELETE FROM state WHERE key > ?", [("zz/100",)])
    case.contains(case.run(move).out, "records moved", "the same command again")
    case.equal(len(cluster.records("zz")), 101, "records that the pool has now")
    case.contains(case.run(move, status=1).err, "holds a pool already", "once more")
    cluster.start(0)
    case.wait_for(cluster.alive, "the server knows its scheduler again")


def test_migrate_leaves_the_key_that_is_kept_elsewhere(case):
    cluster = Cluster(case, schedulers=1, start=False)
    key = case.folder / "kept.pem"
    case.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key])
    key.chmod(0o600)
    own = ("--key-file", key)
    alone = cluster.start(0, more=own)
    cluster.server("left")
    case.wait_for(cluster.alive, "the server is registered")
    known = (case.folder / "s0" / "ticket-key.pub").read_text()
    alone.terminate()
    alone.wait()
    move = ["gpupool-scheduler", "migrate", "--from",
            f"sqlite:{case.folder}/s0/scheduler.db", "--to", "etcd:" + ",".join(cluster.urls)]
    refused = case.run(move, status=1).err
    case.contains(refused, "ticket-key.pem is not there", "what is missing")
    case.contains(refused, "--key-file", "the way on")
    case.equal(cluster.records(""), {}, "what a refused migration has written")
    case.contains(case.run([*move, "--key-file", case.folder / "no.pem"], status=1).err, "no.pem",
                  "a key file that is not there")
    case.equal(cluster.records(""), {}, "what another refused migration has written")
    moved = case.run([*move, *own]).out
    case.contains(moved, "records moved", "migrate")
    case.contains(moved, f"The key stays in {key}", "where the key is")
    case.check(not cluster.records("ticket-key"), "the private key was written to the etcd")
    cluster.start(0, more=("--etcd", ",".join(cluster.urls), *cluster.options, *own))
    case.wait_for(lambda: cluster.leader() is not None, "it leads")
    case.equal((case.folder / "s0" / "ticket-key.pub").read_text(), known, "the key")
    case.run(["gpupool", "run", "--scheduler", cluster.all, "--core", "10", "--memory", "64MiB",
              "--", "true"])


def test_record_that_no_scheduler_wrote_is_named_and_refused(case):
    cluster = Cluster(case, schedulers=2)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    leader = cluster.leader()
    follower = 1 - leader
    log = case.folder / f"s{follower}.log"
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    case.wait_for(lambda: cluster.status(cluster.addresses[follower])["servers"],
                  "the follower shows the server")
    for key, words in (("session/0000000100000001", "session s1: not readable"),
                       ("server/odd", "server odd cannot be read"),
                       ("account/odd", "the account odd cannot be read"),
                       ("session/odd", "odd is no session")):
        cluster.put(key, b"\xff\xff no message \xff")
        case.wait_for(lambda: f"records under /gpupool/: state: {words}" in log.read_text(),
                      f"the follower names {key} and its place")
        case.contains(log.read_text(), "etcdctl", "how to go on")
        case.equal(cluster.schedulers[follower].poll(), None, "the follower waits")
        case.equal(cluster.records(key)[f"/gpupool/{key}"], b"\xff\xff no message \xff",
                   "it was left as it is")
        cluster.put(key)
        case.wait_for(lambda: (cluster.status(cluster.addresses[follower]) or {}).get("servers"),
                      "the follower is there again when the record is gone")
    # Half of a record that a scheduler wrote: its checksum is missing.
    whole = cluster.records("server/node")["/gpupool/server/node"]
    cluster.schedulers[follower].kill()
    cluster.put("server/node", whole[:-5])
    refused = cluster.start(follower)
    case.equal(refused.wait(case.patience), 1, "a start with a record without checksum")
    case.contains(log.read_text(), "server/node has no checksum", "why")


class Reads:
    """A pool in which something can be read, and three schedulers that are asked."""

    # What has to be equal wherever it is asked, by path of the API.
    PATHS = {"status": lambda page: [page[key] for key in ("waiting", "sessions", "cards", "servers",
                                                           "sessions_since_start")],
             "servers": lambda page: [(s["name"], s["state"]) for s in page["items"]],
             "cards": lambda page: [(c["uuid"], c["slices"], c["memory_used_bytes"] is None)
                                    for c in page["items"]],
             "sessions": lambda page: [(s["name"], s["state"], s["attachments"])
                                       for s in page["items"]],
             "queue": lambda page: [(w["position"], w["owner"], w["reason"]) for w in page["items"]],
             "events": lambda page: [(e["serial"], e["kind"], e["words"]) for e in page["items"]],
             "history": lambda page: page["items"][:1],
             "usage": lambda page: page["items"],
             "account": lambda page: [(a["owner"], a["sessions"]) for a in page["items"]],
             "pools": lambda page: [(p["name"], p["asked"], p["words"]) for p in page["items"]]}

    def __init__(self, case, metrics=False):
        self.case = case
        self.cluster = Cluster(case, http=True, metrics=metrics)
        self.wait_for_leader()
        self.cluster.server()
        case.wait_for(self.cluster.alive, "the server is registered")
        self.held = case.spawn(
            ["gpupool", "run", "--scheduler", self.cluster.all, "--core", "80", "--memory",
             "64MiB", "--", "sh", "-c", "echo there; read line"])
        self.held.stdout.readline()
        self.waits = case.spawn(
            ["gpupool", "run", "--wait", "--scheduler", self.cluster.all, "--core", "70",
             "--memory", "64MiB", "--", "true"])
        leader = self.cluster.leader()
        case.wait_for(lambda: self.cluster.page(leader, "queue")[1]["waiting"] == 1, "one waits")

    def wait_for_leader(self, other_than=None):
        self.case.wait_for(lambda: self.cluster.leader() not in (None, other_than),
                           "one of the schedulers leads")

    def seen(self, number, path):
        status, page = self.cluster.page(number, path)
        return self.PATHS[path](page) if status == 200 else status

    def compare(self, numbers, words, paths=PATHS):
        """Each of them shows what the leader shows, soon; accounts within a minute."""
        leader = self.cluster.leader()
        for path in paths:
            for number in numbers:
                self.case.wait_for(
                    lambda: self.seen(number, path) == self.seen(leader, path),
                    f"{words}: {path} of s{number} is that of the leader s{leader}",
                    patience=self.case.patience * 2)


def test_every_replica_answers_every_read(case):
    reads = Reads(case)
    cluster = reads.cluster
    leader = cluster.leader()
    followers = [i for i in range(3) if i != leader]
    reads.compare(followers, "at the start")
    for path in reads.PATHS:
        own = cluster.page(leader, path)[1]
        case.equal((own["source"], own["age_ms"]), ("own", 0), f"{path} of the leader")
        other = cluster.page(followers[0], path)[1]
        wanted = "leader" if path in ("servers", "cards", "sessions", "queue") else "copy"
        case.equal(other["source"], wanted, f"whose {path} a follower shows")
        if path not in ("usage", "account"):
            case.check(other["age_ms"] > 0, f"age of {path}: {other['age_ms']}")
    status = cluster.page(followers[0], "status")[1]
    case.equal((status["leads"], status["leader"]), (False, cluster.addresses[leader]),
               "who leads")
    for command, words in (("queue", "70%"), ("events", "lead"), ("sessions", "s1"),
                           ("servers", "node"), ("top", "s1"), ("usage", ""), ("pools", "")):
        out = case.run(["gpupool", command, *(["--count", "1"] if command == "top" else []),
                        "--scheduler", cluster.addresses[followers[0]]])
        case.contains(out.out, words, f"gpupool {command} --scheduler FOLLOWER")
        case.equal(out.err, "", f"what gpupool {command} has to add")

    # The leader stands still: within the lease nobody else leads, and no answer hangs.
    before = {path: reads.seen(followers[0], path) for path in ("events", "history")}
    cluster.schedulers[leader].send_signal(signal.SIGSTOP)
    for _ in range(2):
        for path in reads.PATHS:
            status, page = cluster.page(followers[0], path)
            if status != 200:
                case.equal((status, path), (503, "queue"), "what has no answer")
                case.contains(page["error"]["message"], "does not", "why")
    # Another one leads, and has kept what was in the memory of the one before it.
    reads.wait_for_leader(other_than=leader)
    second = cluster.leader()
    case.wait_for(lambda: cluster.page(second, "status")[1]["leads"], "it knows that it leads")
    case.wait_for(lambda: [s["state"] for s in cluster.page(second, "servers")[1]["items"]]
                  == ["alive"], "the server leaves the leader that stands still")
    for path in ("events", "history"):
        kept = reads.seen(second, path)
        case.equal(kept[-len(before[path]):], before[path], f"{path} after the fail-over")
    case.check("lead" in [e[1] for e in reads.seen(second, "events")][:-len(before["events"])],
               "the fail-over is an event behind them")
    third = 3 - leader - second
    reads.compare([third], "after the fail-over")
    cluster.schedulers[leader].send_signal(signal.SIGCONT)
    case.wait_for(lambda: cluster.page(leader, "status")[0] == 200, "the first one is there again")
    case.wait_for(lambda: cluster.page(second, "queue")[1]["waiting"] == 1, "who waited waits again")
    reads.compare([leader, third], "with the old leader as a follower")

    # Nobody leads: what was copied is shown with its age, and the rest says why.
    third = next(i for i in range(3) if i != cluster.leader())
    for member in cluster.members[1:]:
        member.send_signal(signal.SIGSTOP)
    case.wait_for(lambda: cluster.page(third, "queue")[0] == 503, "the queue has no answer")
    page = cluster.page(third, "events")[1]
    case.check(page["items"] and page["source"] == "copy", f"events without a leader: {page}")
    case.wait_for(lambda: cluster.page(third, "events")[1]["age_ms"] > 2000, "their age grows")
    sessions = cluster.page(third, "sessions")[1]
    case.equal([(s["state"], s["attachments"], s["slices"][0]["used_bytes"])
                for s in sessions["items"]], [("unknown", None, None)],
               "a session of the copy, without what its server reports")
    cards = cluster.page(third, "cards?slices=true")[1]
    case.equal((cards["source"], cards["items"][0]["busy_percent"],
                cards["items"][0]["core_given_percent"]), ("copy", None, 80), "a card of the copy")
    case.wait_for(lambda: cluster.page(third, "status")[1]["waiting"] is None,
                  "live numbers are not shown for long")
    for member in cluster.members[1:]:
        member.send_signal(signal.SIGCONT)


def test_next_grant_comes_within_five_seconds_of_a_leaders_death(case):
    """With the lease that a pool has unless it is told otherwise.  A machine that is busy
    with other work has two more tries; an idle one has none."""
    cluster = Cluster(case, lease_s=None)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    ask = ["gpupool", "run", "--scheduler", cluster.all, "--core", "10", "--memory", "64MiB",
           "--", "true"]
    case.run(ask)
    times = []
    for _ in range(3):
        first = cluster.leader()
        busy = os.getloadavg()[0] > os.cpu_count()
        cluster.schedulers[first].kill()
        begun = time.monotonic()
        case.wait_for(lambda: case.run(ask, status=None).status == 0, "a grant after the death")
        times.append(time.monotonic() - begun)
        print(f"grant {times[-1]:.1f} s after the death of the leader, busy: {busy}")
        if times[-1] < 5:
            return
        case.check(busy, f"the first grant took {times[-1]:.1f} s on an idle machine")
        cluster.schedulers[first] = cluster.start(first)
        case.wait_for(lambda: cluster.status(cluster.addresses[first]), "it follows")
    case.fail(f"first grants took {times} s, busy or not")
