# SPDX-License-Identifier: Apache-2.0
"""Three schedulers on an etcd of three members, each on a host of its own, while the
network is split, processes stand still or die, disks are slow and clocks jump.  Clients
open, renew and close sessions at random all the time; in the end one order of all their
requests has to explain every answer (harness/history.py).

    make test-partitions [SECONDS=120] [GPUPOOL_SEED=N] [GPUPOOL_FAULT=leader_alone]
"""

import json
import os
import random
import signal
import struct
import subprocess
import threading
import time
from base64 import b64decode, b64encode
from contextlib import suppress
from urllib.request import Request, urlopen

from harness.control import CLOSE, OPEN, RENEW, Link, fields, number, text
from harness.history import Op, check
from harness.switch import Switch

LEADER_LEASE_S, LEASE_S = 2, 6
CLIENTS = 6
# Of a client, before it asks another scheduler.  Those that wait for longer are still
# there when a leader wakes up and does not know yet that it is none.
PATIENCE = (2, 8)
CARDS = 2
CORES = (30, 45, 60, 70)
NO_FIT, NOT_FOUND, LIMIT, INTERNAL, NOT_LEADER = 4, 5, 6, 8, 50


class World:
    def __init__(self, case):
        case.need_tool("etcd")
        self.case = case
        self.hosts = [*"abc"]
        names = [kind + host for host in self.hosts for kind in "es"]
        self.switch = Switch(case, names)
        self.etcd_urls = {f"e{h}": f"http://{self.switch.addresses['e' + h]}:2379"
                          for h in self.hosts}
        self.members = {f"e{h}": self._member(f"e{h}") for h in self.hosts}
        case.wait_for(lambda: self.leader() is not False, "etcd answers")
        self.schedulers = {f"s{h}": self._scheduler(f"s{h}") for h in self.hosts}
        self.all = ",".join(self.address(s) for s in self.schedulers)
        case.spawn(["gpupool-server", "--listen", f"{self.switch.own}:7481", "--driver", "null",
                    "--cards", CARDS, "--memory", "16GiB", "--name", "node", "--tls", "off",
                    "--scheduler", self.all], stdout=subprocess.DEVNULL)
        self.cards = case.wait_for(self._cards, "the server is registered")

    def address(self, scheduler):
        return f"{self.switch.addresses[scheduler]}:7480"

    def _member(self, name):
        at = self.switch.addresses
        peers = ",".join(f"e{h}=http://{at['e' + h]}:2380" for h in self.hosts)
        return self.case.spawn(
            [*self.switch.on(name), "etcd", "--name", name, "--data-dir",
             self.case.folder / name, "--log-level", "error", "--listen-client-urls",
             f"http://{at[name]}:2379", "--advertise-client-urls", f"http://{at[name]}:2379",
             "--listen-peer-urls", f"http://{at[name]}:2380", "--initial-advertise-peer-urls",
             f"http://{at[name]}:2380", "--initial-cluster", peers], stdout=subprocess.DEVNULL)

    def _scheduler(self, name):
        shift = self.case.folder / f"{name}.clock"
        shift.write_bytes(struct.pack("<q", 0))
        return self.case.spawn(
            [*self.switch.on(name), "gpupool-scheduler", "--listen",
             f"{self.switch.addresses[name]}:7480", "--state-dir", self.case.folder / name,
             "--allow-anonymous", "client", "--allow-anonymous", "server", "--tls", "off",
             "--rate-requests", 0, "--rate-opens", 0, "--rate-reads", 0, "--owner-sessions", 1000,
             "--heartbeat-ms", 500, "--etcd", ",".join(self.etcd_urls.values()),
             "--etcd-lease-s", LEADER_LEASE_S],
            env={"CLOCK_SHIFT": str(shift), "GPUPOOL_LOG": "*:warn", "LD_PRELOAD":
                 str(self.case.build / "tests" / "partitions" / "clock_shift.so")},
            stdout=subprocess.DEVNULL,
            stderr=open(self.case.folder / f"{name}.log", "ab"))

    def restart(self, name):
        self.schedulers[name].kill()
        self.schedulers[name].wait()
        self.schedulers[name] = self._scheduler(name)

    def leader(self):
        """The name of the scheduler that leads; None: nobody; False: etcd is silent."""
        body = json.dumps({"key": b64encode(b"/gpupool/leader").decode()}).encode()
        for url in self.etcd_urls.values():
            with suppress(OSError):
                with urlopen(Request(f"{url}/v3/kv/range", body), timeout=2) as reply:
                    found = json.load(reply).get("kvs", [])
                address = b64decode(found[0]["value"]).decode() if found else ""
                return next((name for name, ip in self.switch.addresses.items()
                             if f"{ip}:7480" == address), None)
        return False

    def status(self, scheduler):
        out = self.case.run(["gpupool", "status", "--json", "--scheduler",
                             self.address(scheduler)], env={"GPUPOOL_TLS": "off"}, status=None)
        return json.loads(out.out) if out.status == 0 else None

    def leaders_status(self):
        """As the leader sees the pool; a follower's copy may be older."""
        first = self.leader()
        seen = self.status(first) if first else None
        return seen if seen and self.leader() == first else None

    def _cards(self):
        seen = self.leaders_status()
        alive = [s for s in (seen or {}).get("servers", []) if s["state"] == "alive"]
        return [card["uuid"].removeprefix("GPU-").replace("-", "")
                for server in alive for card in server["cards"]]

    def jump(self, name, seconds):
        with open(self.case.folder / f"{name}.clock", "r+b") as file:
            file.write(struct.pack("<q", seconds))


class Client(threading.Thread):
    """Opens, renews and closes one session after the other, and writes down what it was
    answered."""

    def __init__(self, world, seed):
        super().__init__()
        self.world, self.random = world, random.Random(seed)
        self.link, self.leader, self.at = None, None, seed
        self.patience = PATIENCE[seed % len(PATIENCE)]
        self.history, self.ends = [], False
        self.session = self.key = None

    def run(self):
        while not self.ends:
            if self.session is None:
                self.open()
            elif self.random.random() < 0.7:
                self.renew()
            else:
                self.close()
            time.sleep(self.random.random() * 0.2)

    def connect(self):
        addresses = [self.world.address(name) for name in self.world.schedulers]
        host, _, port = (self.leader or addresses[self.at % len(addresses)]).rpartition(":")
        self.leader = None
        self.at += 1
        self.link = Link(self.world.case, (host, int(port)), self.patience)

    def drop(self):
        if self.link:
            self.link.close()
        self.link = None

    def ask(self, body, content, op):
        """(code, fields of the error or the reply); None: it had no effect, or nobody
        knows, and then @op is in the history without an answer."""
        try:
            if not self.link:
                self.connect()
        except OSError:
            self.drop()
            return None
        op.inv = time.monotonic()
        self.history.append(op)
        try:
            code, reply = self.link.ask_whole(body, content)
        except (OSError, IndexError, struct.error):
            self.drop()
            return None
        op.resp = time.monotonic()
        if code == NOT_LEADER:
            self.history.remove(op)
            self.drop()
            self.leader = reply.get(50, b"").decode() or None
            return None
        if code == INTERNAL:  # what was not written may have been written all the same
            op.resp = float("inf")
            return None
        return code, reply

    def open(self):
        core = self.random.choice(CORES)
        op = Op("open", 0, core=core)
        done = self.ask(OPEN, number(1, 1) + text(3, "someone@host") + number(4, core) +
                        number(5, 1 << 20) + number(11, LEASE_S * 1000), op)
        if not done:
            return
        code, reply = done
        if code == NO_FIT and b"core (most free" in reply.get(2, b""):
            op.result = "refused"
        elif code:  # no server is there, or a cap: nothing about room
            self.history.remove(op)
        else:
            grant = dict(fields(reply[5]))
            slice_ = dict(fields(grant[5]))
            op.result, op.session, op.card = "ok", grant[1], slice_[1].hex()
            self.session, self.key = grant[1], grant[3]

    def renew(self):
        self.about_session("renew", RENEW)

    def close(self):
        self.about_session("close", CLOSE)

    def about_session(self, kind, body):
        op = Op(kind, 0, session=self.session)
        done = self.ask(body, number(1, self.session) + text(2, self.key), op)
        if not done:
            return
        code, _ = done
        op.result = "gone" if code == NOT_FOUND else "ok"
        if code not in (0, NOT_FOUND):
            self.history.remove(op)
        elif code or kind == "close":
            self.session = None


def settle(world, clients, history):
    """Wait until the pool shows no session but those that somebody was granted."""
    case = world.case

    def look():
        inv = time.monotonic()
        seen = world.leaders_status()
        resp = time.monotonic()
        if not seen or not any(s["state"] == "alive" for s in seen["servers"]):
            return None
        shown = frozenset(s["id"] for s in seen["sessions"])
        if not shown <= {c.session for c in clients}:
            return None
        return Op("settled", inv, resp, "ok", sessions=shown)

    history.append(case.wait_for(look, "the pool has settled"))


def granted(clients):
    return sum(op.kind == "open" and op.result == "ok" for c in clients for op in c.history)


def explain(case, world, clients, settled):
    """Check the history; how many answers it has, and how many of each kind."""
    history = sorted([op for client in clients for op in client.history] + settled,
                     key=lambda op: op.inv)
    (case.folder / "history").write_text("\n".join(map(str, history)))
    results = [f"{op.kind} {op.result}" for op in history]
    return (check(history, world.cards, LEASE_S),
            {kind: results.count(kind) for kind in sorted(set(results))})


# ------------------------------------------------------------------------ faults --

def others(world, leader):
    return [name for name in world.schedulers if name != leader]


def leader_alone(world, leader, pause):
    world.switch.split([leader])
    pause()


def leader_with_clients_and_a_minority(world, leader, pause):
    world.switch.split(["ea", "eb", *others(world, leader)])
    pause()


def leader_with_a_minority_without_clients(world, leader, pause):
    world.switch.split([leader, "ea"])
    pause()


def followers_alone(world, leader, pause):
    world.switch.split(others(world, leader))
    pause()


def every_scheduler_alone_with_its_member(world, leader, pause):
    world.switch.split(*[[f"s{h}", f"e{h}"] for h in world.hosts])
    pause()


def leader_stands_still(world, leader, pause):
    world.schedulers[leader].send_signal(signal.SIGSTOP)
    try:
        pause()
    finally:
        world.schedulers[leader].send_signal(signal.SIGCONT)


def leader_is_killed(world, leader, pause):
    world.restart(leader)
    pause()


def slow_disks(world, leader, pause):
    """A member that waits for its disk answers nobody meanwhile."""
    ended = threading.Event()

    def stutter(member):
        while not ended.is_set():
            member.send_signal(signal.SIGSTOP)
            ended.wait(0.25)
            member.send_signal(signal.SIGCONT)
            ended.wait(0.05)

    threads = [threading.Thread(target=stutter, args=(world.members[name],))
               for name in ("ea", "eb")]
    for thread in threads:
        thread.start()
    try:
        pause()
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def clocks_jump(world, leader, pause):
    for name, seconds in zip([leader, *others(world, leader)], (3600, -3600, 86400)):
        world.jump(name, seconds)
    pause()
    world.restart(leader)  # and another one takes over with its own wrong clock
    pause()
    for name in world.schedulers:
        world.jump(name, 0)


FAULTS = [leader_alone, leader_with_clients_and_a_minority,
          leader_with_a_minority_without_clients, followers_alone,
          every_scheduler_alone_with_its_member, leader_stands_still, leader_is_killed,
          slow_disks, clocks_jump]


def test_one_order_explains_every_answer_whatever_is_cut_off(case):
    if "GPUPOOL_PARTITIONS" not in os.environ:
        case.skip("it takes minutes: make test-partitions")
    shim = case.build / "tests" / "partitions" / "clock_shift.so"
    case.need_file(shim, "sanitizers and the preloaded clock do not get along")
    seconds = float(os.environ["GPUPOOL_PARTITIONS"])
    seed = int(os.environ.get("GPUPOOL_SEED") or random.randrange(1 << 32))
    print(f"seed {seed}", flush=True)
    rng, end = random.Random(seed), time.monotonic() + seconds
    faults = [fault for fault in FAULTS
              if os.environ.get("GPUPOOL_FAULT", fault.__name__) == fault.__name__]
    world = World(case)
    clients = [Client(world, seed + i) for i in range(CLIENTS)]
    settled, done, todo = [], [], []
    for client in clients:
        client.start()
    try:
        case.wait_for(lambda: granted(clients) >= CLIENTS, "sessions are granted")
        while time.monotonic() < end:
            todo = todo or rng.sample(faults, len(faults))
            fault = todo.pop()
            leader = case.wait_for(world.leader, "one of them leads")
            print(f"{time.monotonic():.3f} {fault.__name__}, {leader} leads", flush=True)
            try:
                fault(world, leader, lambda: time.sleep(LEADER_LEASE_S + 2 * rng.random()))
            finally:
                world.switch.heal()
            before = granted(clients)
            case.wait_for(lambda: granted(clients) >= before + 3,
                          f"sessions are granted after {fault.__name__}")
            settle(world, clients, settled)
            done.append(fault.__name__)
    finally:
        for client in clients:
            client.ends = True
        for client in clients:
            client.join()
            client.drop()
        # When something else has failed, this is likely to say why.
        explained, counts = explain(case, world, clients, settled)
    print(f"seed {seed}: {len(done)} faults, {explained} answers in one order: {counts}")
