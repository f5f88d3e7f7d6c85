# SPDX-License-Identifier: Apache-2.0
"""Several schedulers whose etcd is restored, emptied, full or away: the pool goes on by
itself when the cause is gone, and says until then what it is."""

import json
import shutil
import signal
import socket
import struct
import threading
import time
from base64 import b64encode
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from harness.control import number, text
from test_replicas import LEASE_S, Cluster

NOT_LEADER = 50


def ask_for_a_session(case, cluster, status=None):
    return case.run(["gpupool", "run", "--scheduler", cluster.all, "--core", "10",
                     "--memory", "64MiB", "--", "true"], status=status)


def log_of(case, i):
    return (case.folder / f"s{i}.log").read_text()


def a_pool(case, **more):
    """Three schedulers on one member of etcd, and a server."""
    cluster = Cluster(case, members=1, **more)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    ask_for_a_session(case, cluster, 0)
    return cluster


def kept_away(cluster, action):
    """Longer than the lease: no scheduler leads when etcd comes back."""
    member = cluster.members[0]
    member.kill()
    member.wait()
    action()
    time.sleep(LEASE_S + 2)
    cluster.members[0] = cluster.start_member(0)


def goes_on(case, cluster, words):
    case.wait_for(lambda: ask_for_a_session(case, cluster).status == 0, f"a session {words}")
    for address in cluster.addresses:
        case.wait_for(lambda: [s["state"] for s in (cluster.status(address) or {}).get(
            "servers", [])] == ["alive"], f"{address} shows the server {words}")


def test_pool_goes_on_in_an_etcd_that_was_restored_or_emptied(case):
    cluster = a_pool(case)
    data, old = case.folder / "m0", case.folder / "old"
    kept_away(cluster, lambda: shutil.copytree(data, old))
    goes_on(case, cluster, "after etcd was away")
    for _ in range(5):
        ask_for_a_session(case, cluster, 0)

    def restore():
        shutil.rmtree(data)
        old.rename(data)

    kept_away(cluster, restore)
    goes_on(case, cluster, "after an older state was restored")
    case.check(any("revision went back" in log_of(case, i) for i in range(3)),
               "those who followed say why they start again")
    kept_away(cluster, lambda: shutil.rmtree(data))
    goes_on(case, cluster, "after etcd was emptied")


def test_another_history_of_the_same_length_is_noticed(case):
    """Here the revision that was seen last exists, with other changes before it."""
    cluster = a_pool(case, schedulers=2)
    data, old = case.folder / "m0", case.folder / "old"
    kept_away(cluster, lambda: shutil.copytree(data, old))
    goes_on(case, cluster, "after etcd was away")
    ask_for_a_session(case, cluster, 0)
    leader = cluster.leader()
    follower = 1 - leader
    before = len(log_of(case, follower))
    cluster.schedulers[follower].send_signal(signal.SIGSTOP)

    def restore():
        shutil.rmtree(data)
        old.rename(data)

    kept_away(cluster, restore)
    for _ in range(10):
        case.wait_for(lambda: ask_for_a_session(case, cluster).status == 0, "a session")
    cluster.schedulers[follower].send_signal(signal.SIGCONT)
    case.wait_for(lambda: "history is another one" in log_of(case, follower)[before:],
                  "the follower notices")
    goes_on(case, cluster, "after the follower noticed")


def call(url, path, body):
    """The answer of etcd, or its refusal."""
    try:
        with urlopen(Request(f"{url}/v3/{path}", json.dumps(body).encode()),
                     timeout=20) as answer:
            return json.load(answer)
    except HTTPError as error:
        return json.load(error)


def compact(url):
    """Behind changes that are not the pool's; how often is up to who has the etcd."""
    key = b64encode(b"/other").decode()
    for _ in range(3):
        revision = call(url, "kv/put", {"key": key, "value": key})["header"]["revision"]
    call(url, "kv/compaction", {"revision": revision})


def test_compaction_costs_a_follower_only_what_it_missed(case):
    cluster = a_pool(case, schedulers=2)
    follower = 1 - cluster.leader()
    for _ in range(3):
        compact(cluster.urls[0])
        time.sleep(3)  # a watch with nothing to report begins again after two seconds
    case.equal(log_of(case, follower).count("starting again"), 0, "starts of the follower")
    session = case.spawn(["gpupool", "run", "--scheduler", cluster.all, "--core", "10",
                          "--memory", "64MiB", "--", "sh", "-c", "echo there; read line"])
    session.stdout.readline()
    # Of its copy: nobody else can be asked.
    cluster.schedulers[1 - follower].send_signal(signal.SIGSTOP)
    case.wait_for(lambda: len((cluster.status(cluster.addresses[follower]) or {}).get(
        "sessions", [])) == 1, "the follower has seen the session")
    cluster.schedulers[1 - follower].send_signal(signal.SIGCONT)
    leads = []  # may change until all have noticed that one stood still
    case.wait_for(lambda: leads.append(cluster.leader()) or leads[-1] is not None and
                  cluster.alive(), "one of them leads")
    leader = leads[-1]
    follower = 1 - leader
    cluster.schedulers[follower].send_signal(signal.SIGSTOP)
    session.stdin.write("\n")
    session.stdin.flush()
    case.wait_for(lambda: not cluster.records("session/"), "the session is closed")
    compact(cluster.urls[0])
    time.sleep(3)
    cluster.schedulers[follower].send_signal(signal.SIGCONT)
    goes_on(case, cluster, "after changes were missed")


def fill(case, url):
    """Until etcd raises the alarm that it is full; the last revision."""
    value = b64encode(b"x" * 500_000).decode()
    for i in range(100):
        key = b64encode(f"/filler/{i:03}".encode()).decode()
        if "database space" in call(url, "kv/put", {"key": key, "value": value}).get(
                "error", ""):
            return
    case.fail("etcd takes more than its quota")


def make_room(url):
    first, end = (b64encode(key).decode() for key in (b"/filler/", b"/filler0"))
    revision = call(url, "kv/deleterange", {"key": first, "range_end": end})["header"]["revision"]
    call(url, "kv/compaction", {"revision": revision, "physical": True})
    call(url, "maintenance/defragment", {})
    for alarm in call(url, "maintenance/alarm", {"action": "GET"}).get("alarms", []):
        call(url, "maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE",
                                        "memberID": alarm["memberID"]})


def test_cause_is_named_while_etcd_is_full(case):
    cluster = a_pool(case, schedulers=2, etcd_more=("--quota-backend-bytes", str(16 << 20)))
    leader = cluster.leader()
    follower = 1 - leader
    fill(case, cluster.urls[0])
    case.contains(ask_for_a_session(case, cluster).err, "alarm disarm",
                  "what a request is told while the leader lives")
    drained = case.run(["gpupool", "drain", "node", "--scheduler", cluster.all], status=None)
    case.check(drained.status != 0, "an order that was not written was answered with success")
    cluster.schedulers[leader].kill()
    cluster.schedulers[leader].wait()
    case.wait_for(lambda: cluster.leader() is None, "the leader's lease ends")
    refused = ask_for_a_session(case, cluster).err
    case.contains(refused, "none does now", "what a request is told without a leader")
    case.contains(refused, "alarm disarm", "and why there is none")
    case.contains(log_of(case, follower), "database space exceeded", "the follower's log")
    # One that starts now cannot lead, but it can follow.
    cluster.schedulers[leader] = cluster.start(leader)
    case.wait_for(lambda: cluster.status(cluster.addresses[leader]),
                  "one that starts meanwhile answers reads")
    make_room(cluster.urls[0])
    goes_on(case, cluster, "when there is room again")


def test_waiting_for_etcd_floods_no_log_and_is_alive(case):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(case.folder / "notify"))
    manager.settimeout(case.patience)
    cluster = a_pool(case, schedulers=1, env={
        "NOTIFY_SOCKET": str(case.folder / "notify"), "WATCHDOG_USEC": "1000000"})
    cluster.members[0].send_signal(signal.SIGSTOP)
    again = "starting again as a follower"
    case.wait_for(lambda: "trying on" in log_of(case, 0).partition(again)[2],
                  "it says that it waits")
    before = log_of(case, 0)
    case.equal(before.count(again), 1, "how often it says that it starts again")
    case.contains(before.partition(again)[2].partition("\n")[0], "etcd", "and why")
    with suppress(BlockingIOError):
        manager.setblocking(False)
        while manager.recv(200):
            pass
    manager.settimeout(case.patience)
    for _ in range(5):
        case.equal(manager.recv(200), b"WATCHDOG=1", "what the service manager hears")
    case.equal(log_of(case, 0)[len(before):].count("trying on"), 0, "the same once more")
    cluster.members[0].send_signal(signal.SIGCONT)
    case.wait_for(lambda: ask_for_a_session(case, cluster).status == 0, "a session")


class DeafProxy(threading.Thread):
    """Before etcd: of each watch it passes on that it was created, and nothing more."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.etcd = int(url.rpartition(":")[2])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.start()

    def run(self):
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.etcd))
                state = {"watch": False, "created": False}
                for ends in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self.pass_on, args=(*ends, state),
                                     daemon=True).start()

    @staticmethod
    def pass_on(source, target, is_request, state):
        with suppress(OSError):
            while data := source.recv(65536):
                if is_request and b"POST /v3/watch" in data:
                    state["watch"] = True
                if is_request or not state["created"]:
                    target.sendall(data)
                if not is_request and state["watch"] and b'"created":true' in data:
                    state["created"] = True
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_scheduler_whose_watch_is_deaf_leaves_the_leadership_to_others(case):
    cluster = Cluster(case, members=1, schedulers=2, start=False)
    proxy = DeafProxy(cluster.urls[0])
    cluster.schedulers.append(cluster.start(0, more=("--etcd", proxy.url, *cluster.options)))
    case.wait_for(lambda: cluster.leader() == 0, "the first has the leadership")
    cluster.schedulers.append(cluster.start(1))
    cluster.server()
    case.wait_for(cluster.alive, "the second leads, and has the server")
    case.contains(log_of(case, 0), "its watch of etcd does not show that", "the log of the first")
    # Nor does it take the leadership when the other one cannot hold it for a while.
    cluster.schedulers[1].send_signal(signal.SIGSTOP)
    try:
        case.wait_for(lambda: cluster.leader() is None, "the lease of the second is over")
        for _ in range(3 * LEASE_S):
            time.sleep(0.5)
            case.equal(cluster.leader(), None, "who leads while the second stands still")
    finally:
        cluster.schedulers[1].send_signal(signal.SIGCONT)
    case.wait_for(lambda: cluster.leader() == 1, "the second leads again")
    case.wait_for(lambda: ask_for_a_session(case, cluster).status == 0, "a session")
    proxy.listener.close()


class Follower(threading.Thread):
    """Says of each request that another scheduler leads."""

    def __init__(self, case):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.names = ""
        self.asked = 0
        self.start()

    def run(self):
        with suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                with link, suppress(OSError):
                    size = struct.unpack("<I", link.recv(4, socket.MSG_WAITALL))[0]
                    link.recv(size, socket.MSG_WAITALL)
                    self.asked += 1
                    error = (number(1, NOT_LEADER) + text(2, "this scheduler does not lead") +
                             text(50, self.names))
                    reply = text(2, error)
                    link.sendall(struct.pack("<I", len(reply)) + reply)
                    link.recv(1)


def test_schedulers_that_name_each_other_are_not_flooded(case):
    one, two = Follower(case), Follower(case)
    one.names, two.names = two.address, one.address
    result = case.run(["gpupool", "drain", "node", "--scheduler", f"{one.address},{two.address}"],
                      status=None, env={"GPUPOOL_TLS": "off"})
    one.listener.close()
    two.listener.close()
    case.check(result.status != 0, "there is no leader")
    case.contains(result.err, "does not lead", "what it says")
    case.check(one.asked > 1, "it was asked again")
    case.check(one.asked + two.asked <= 60, f"asked {one.asked + two.asked} times in 5 s")


def test_second_server_of_one_name_floods_no_log(case):
    cluster = a_pool(case, schedulers=2)
    cluster.server()
    case.wait_for(lambda: any("another server named node" in log_of(case, i) for i in range(2)),
                  "the second one is refused")
    # It comes again twice a second.
    time.sleep(8)
    lines = sum(log_of(case, i).count("registration refused") for i in range(2))
    case.check(lines <= 6, f"the scheduler's log has its refusal {lines} times")
    lines = (case.folder / "spawned.err").read_text().count(" leads\n")
    case.check(lines <= 4, f"the servers' logs have the leader {lines} times")
    case.equal(cluster.status()["servers"][0]["state"], "alive", "the first one")
