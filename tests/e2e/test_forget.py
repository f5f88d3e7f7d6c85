# SPDX-License-Identifier: Apache-2.0
"""gpupool forget: a dead server that does not come back is listed no more."""

import json
import signal

from harness.pool import SCHEDULER
from test_init import Hosts
from test_replicas import Cluster


def states(pool):
    return {s["name"]: s["state"] for s in pool.status()["servers"]}


def pid_of(pool, name):
    return next(s["pid"] for s in pool.status()["servers"] if s["name"] == name)


def await_dead(case, pool, name):
    case.wait_for(lambda: states(pool).get(name) == "dead", f"{name} is dead")


def test_dead_server_is_forgotten_with_its_sessions_and_stays_so(case):
    pool = case.pool(servers=2, cards=1, options=("--heartbeat-ms", 100))
    lost = pool.session(options=("--server", "local-1"))
    kept = pool.session(options=("--server", "local-2"))
    refused = pool.cli("forget", "local-1", status=3).err
    case.contains(refused, "server local-1 is not forgotten: it is connected: gpupool drain local-1", "alive")
    case.contains(pool.cli("forget", "nosuch", status=3).err, "no server nosuch; known servers: local-", "unknown")
    case.equal(states(pool), {"local-1": "alive", "local-2": "alive"}, "after the refusals")

    pool.cli("drain", "local-1")
    start = pool.starter(pid_of(pool, "local-1"))
    pool.kill(pid_of(pool, "local-1"))
    await_dead(case, pool, "local-1")
    case.equal(pool.cli("forget", "local-1").out, "server local-1: forgotten, 1 session ended\n", "forget")
    case.equal(states(pool), {"local-2": "alive"}, "servers")
    case.equal([s["name"] for s in pool.sessions()], [kept.field("session")], "sessions")
    case.contains(pool.cli("forget", "local-1", status=3).err, "no server local-1", "again")
    events = json.loads(pool.cli("events", "--json").out)["events"]
    case.equal([e["words"] for e in events if e["kind"] == "forget"],
               ["by an administrator, 1 session ended"], "events")
    case.wait_for(lambda: "forgotten by an administrator" in
                  (case.folder / "spawned.err").read_text(),
                  "gpupool run says why its session has ended")

    pool.restart(pool.pid(SCHEDULER))
    case.wait_for(lambda: states(pool) == {"local-2": "alive"}, "as before after a restart")
    start()
    case.wait_for(lambda: states(pool).get("local-1") == "alive", "it is back as a new server, not drained")
    kept.close()
    lost.close()


def test_forget_answers_programs_too(case):
    pool = case.pool(servers=2, cards=1, options=("--heartbeat-ms", 100))
    pool.kill(pid_of(pool, "local-2"))
    await_dead(case, pool, "local-2")
    case.equal(json.loads(pool.cli("forget", "local-2", "--json").out),
               {"name": "local-2", "state": "forgotten", "sessions": 0}, "forget --json")
    case.contains(pool.cli("forget", status=2).err, "one SERVER is wanted", "no argument")


def test_server_with_a_session_that_another_server_has_too_is_not_forgotten(case):
    """What still runs on the other one is nobody's to end in passing."""
    pool = case.pool(servers=2, cards=1, options=("--heartbeat-ms", 100))
    session = pool.session(options=("--cards", "2", "--span"))
    name = session.field("session")
    pool.kill(pid_of(pool, "local-1"), signal.SIGSTOP)
    stopped = pid_of(pool, "local-1")
    await_dead(case, pool, "local-1")
    case.contains(pool.cli("forget", "local-1", status=3).err,
                  f"{name} is also on server local-2, which is connected: gpupool close {name} ends it", "refused")
    case.equal([s["name"] for s in pool.sessions()], [name], "sessions")
    pool.cli("close", name)
    case.equal(pool.cli("forget", "local-1").out, "server local-1: forgotten\n", "after the close")
    pool.kill(stopped, signal.SIGCONT)
    case.wait_for(lambda: states(pool).get("local-1") == "alive", "it comes back")
    session.close()


def test_forget_needs_the_right_to_drain_and_for_sessions_to_end(case):
    hosts = Hosts(case, "etc", "--users", "alice:open+read,dora:drain,eva:drain+end")
    audit = case.folder / "audit.json"
    hosts.scheduler("--audit-log", audit, "--heartbeat-ms", 100)
    server = hosts.server(name="node")
    hosts.server(name="other")

    def state(name):
        found = json.loads(hosts.cli("status", "--json").out)["servers"]
        return next((s["state"] for s in found if s["name"] == name), None)
    run = case.spawn([hosts.gpupool, "run", "--server", "node", "--core", "5", "--memory", "64MiB",
                      "--", "sleep", "600"], env=hosts.client("client-alice"))
    case.wait_for(lambda: json.loads(hosts.cli("status", "--json").out)["sessions"], "a session")
    server.terminate()
    server.wait()
    case.wait_for(lambda: state("node") == "dead", "node is dead")
    for user, words in (("alice", "this needs the admin token"),
                        ("dora", "does not have the right to end")):
        done = hosts.cli("forget", "node", env=hosts.client(f"client-{user}"), status=3)
        case.contains(done.err, words, f"by {user}")
    case.equal(state("node"), "dead", "after the refusals")
    hosts.cli("forget", "node", env=hosts.client("client-eva"))
    case.equal(state("node"), None, "forgotten")
    orders = [json.loads(line) for line in audit.read_text().splitlines()]
    orders = [(o["by"], o["order"], o["server"]) for o in orders if o["event"] == "order"]
    case.equal(orders, [("eva", "forget", "node")], "the audit log")
    run.terminate()
    run.wait(case.patience)


def test_forgotten_server_is_forgotten_by_the_other_schedulers(case):
    cluster = Cluster(case)
    case.wait_for(lambda: cluster.leader() is not None, "a scheduler leads")
    server = cluster.server("node")
    case.wait_for(cluster.alive, "the server is registered")
    run = case.spawn(["gpupool", "run", "--scheduler", cluster.all, "--core", "10", "--memory", "64MiB",
                      "--", "sleep", "600"])
    case.wait_for(lambda: (cluster.status() or {}).get("sessions"), "a session")
    server.kill()
    server.wait()
    case.wait_for(lambda: [s["state"] for s in cluster.status()["servers"]] == ["dead"], "it is dead")
    case.run(["gpupool", "drain", "node", "--scheduler", cluster.all])
    done = case.run(["gpupool", "forget", "node", "--scheduler", cluster.all])
    case.equal(done.out, "server node: forgotten, 1 session ended\n", "forget")
    case.equal((cluster.records("server/"), cluster.records("session/")), ({}, {}), "what etcd has")
    leader = cluster.leader()
    for i, address in enumerate(cluster.addresses):
        case.wait_for(lambda address=address: (cluster.status(address) or {}).get("servers") == [],
                      f"scheduler {i} of which {leader} leads")
    cluster.schedulers[leader].kill()
    case.wait_for(lambda: cluster.leader() not in (None, leader), "another one leads")
    case.wait_for(lambda: (cluster.status() or {}).get("servers") == [], "it does not know the server")
    run.terminate()
    run.wait(case.patience)
