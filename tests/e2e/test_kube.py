# SPDX-License-Identifier: Apache-2.0
"""The controller and the scheduler's side of Kubernetes against a double of the API
server (harness/kubeapi.py): every fault that it can play, and a kill after every write.
What needs a real cluster is in tests/k8s."""

import base64
import http.client
import json
import os
import re
import select
import signal
import socket
import ssl
import threading
import urllib.error
import urllib.request

from harness import proc
from harness.kubeapi import KubeApi

CLASS = {"metadata": {"name": "remote"}, "provisioner": "elasticgpu.io/remote"}


def claim(name, core=30, memory="256Mi", **more):
    return {"metadata": {"name": name, "namespace": "team"},
            "spec": {"elasticGPUClassName": "remote", "resources": {"requests": {
                "elasticgpu.io/gpu-core": core, "elasticgpu.io/gpu-memory": memory}}, **more}}


def gated_pod(name, annotations):
    return {"metadata": {"name": name, "namespace": "team", "annotations": annotations,
                         "labels": {"elasticgpu.io/remote": "true"}},
            "spec": {"schedulingGates": [{"name": "elasticgpu.io/claims"}]}, "status": {}}


class World:
    """A scheduler with an admin token, a server with two null cards, an API double."""

    def __init__(self, case, scheduler=(), replicas=0):
        self.case, self.api = case, KubeApi()
        self.api.put("elasticgpuclasses", dict(CLASS))
        self.token = case.folder / "admin.token"
        self.token.write_text("a-token-for-administrators-0123456789\n")
        # Of who may read and nothing else: all that the extender needs.
        self.reader = case.folder / "reader.token"
        self.reader.write_text("a-token-for-the-extender-0123456789\n")
        self.users = case.folder / "users"
        self.users.write_text(f"extender:read:{self.reader.read_text()}")
        self.users.chmod(0o600)
        ready = case.folder / "sched.ready"
        self.options = scheduler
        self.others, self.controller = [], None
        if replicas:
            addresses = [f"127.0.0.1:{case.free_port()}" for _ in range(replicas)]
            self.scheduler, *self.others = [self.add_scheduler(address, ready, address)
                                            for address in addresses]
            self.address = ",".join(addresses)
        else:
            self.scheduler = self.add_scheduler("127.0.0.1:0", ready)
            case.wait_for(ready.exists, "the scheduler listens")
            self.address = ready.read_text().strip()
        self.server = self.add_server("node-a")

    def add_scheduler(self, address, ready, state="state"):
        return self.case.spawn([
            self.case.build / "bin/gpupool-scheduler", "--listen", address, "--state-dir",
            self.case.folder / state, "--ready-file", ready, "--admin-token-file", self.token,
            "--client-token-file", self.token, "--server-token-file", self.token,
            "--users-file", self.users,
            "--kube", "--kube-server", self.api.url, *self.options],
            env={"GPUPOOL_LOG": "session:debug,*:info"})

    def add_server(self, name):
        return self.case.spawn([
            self.case.build / "bin/gpupool-server", "--listen", "127.0.0.1:0", "--driver", "null",
            "--cards", "2", "--memory", "4GiB", "--name", name, "--scheduler", self.address,
            "--token-file", self.token])

    def start(self, *options):
        self.controller = self.case.spawn([
            self.case.build / "bin/gpupool-kube", "controller", "--scheduler", self.address,
            "--token-file", self.token, "--namespace", "pool", "--lease-s", "3",
            "--kube-server", self.api.url, *options])
        return self.controller

    def await_cards(self):
        self.case.wait_for(lambda: len(self.cards()) == 2 and all(
            c.get("status", {}).get("phase") == "Available" for c in self.cards()), "two cards")

    def cards(self):
        return [g for g in self.api.all("elasticgpus")
                if g["metadata"]["labels"]["elasticgpu.io/kind"] == "card"]

    def slices(self):
        return [g for g in self.api.all("elasticgpus")
                if g["metadata"]["labels"]["elasticgpu.io/kind"] == "slice"]

    def phase(self, name):
        found = self.api.get("elasticgpuclaims", name, "team") or {}
        return found.get("status", {}).get("phase")

    def await_phase(self, name, phase):
        self.case.wait_for(lambda: self.phase(name) == phase, f"claim {name} is {phase}")

    def given(self):
        """Percent of all cards that the pool has given away, by the scheduler's word."""
        done = self.case.run([self.case.build / "bin/gpupool", "status", "--json",
                              "--scheduler", self.address, "--token-file", self.token])
        return sum(card["core_given_percent"] for server in json.loads(done.out)["servers"]
                   for card in server["cards"])

    def end(self):
        for process in (self.controller, self.server, *self.others, self.scheduler):
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(20)
        self.api.close()


def in_world(case, body, scheduler=(), replicas=0):
    world = World(case, scheduler, replicas)
    try:
        body(world)
    finally:
        world.end()


def test_a_claim_is_bound_and_given_back(case):
    def body(world):
        world.api.busy = {"elasticgpus": 1, "elasticgpuclaims": 2}  # as after a new CRD
        world.start()
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        case.equal(world.given(), 30, "percent given")
        gpu = world.slices()[0]
        case.equal(gpu["spec"]["claimRef"]["name"], "one", "the slice's claim")
        case.equal(gpu["status"]["phase"], "Bound", "the slice's phase")
        world.api.delete("elasticgpuclaims", "one", "team")
        case.wait_for(lambda: not world.slices() and not world.api.all("elasticgpuclaims"),
                      "everything is gone")
        case.wait_for(lambda: world.given() == 0, "the pool has it back")
    in_world(case, body)


def test_a_bound_claim_takes_at_most_six_writes(case):
    def body(world):
        world.start()
        world.await_cards()
        time_of_start = len(world.api.requests)
        for i in range(10):
            pod = gated_pod(f"p{i}", {
                "elasticgpu.io/egpuc-main": f"c{i}",
                "elasticgpu.io/generate-main": '{"elasticGPUClassName": "remote", "resources": '
                '{"requests": {"elasticgpu.io/gpu-core": 10, "elasticgpu.io/gpu-memory": "64Mi"}}}'})
            world.api.put("pods", pod)
        case.wait_for(lambda: all(not p["spec"]["schedulingGates"]
                                  for p in world.api.all("pods")), "all gates are lifted")
        calls = [r for r in world.api.requests[time_of_start:]
                 if "leases" not in r[1] and not r[1].endswith("s/") and r[0] != "GET"
                 and "/elasticgpus/gpu-" not in r[1]]
        case.check(len(calls) <= 60, f"{len(calls)} calls for ten claims: {calls[:12]}")
    in_world(case, body)


def test_expired_watches_lose_nothing(case):
    def body(world):
        world.start()
        world.await_cards()
        for i in range(5):
            world.api.put("elasticgpuclaims", claim(f"c{i}", core=10))
            world.api.compact()
        for i in range(5):
            world.await_phase(f"c{i}", "Bound")
        case.equal(world.given(), 50, "percent given")
    in_world(case, body)


def kill_after(case, world, number):
    """Bind a claim and delete it, the controller killed after its write @number."""
    controller = world.start()
    start = world.api.writes
    killed = []

    def on_write(count):
        if count == start + number and not killed:
            killed.append(count)
            os.kill(controller.pid, signal.SIGKILL)
            controller.wait()

    world.api.on_write = on_write
    name = f"c{number}"
    world.api.put("elasticgpuclaims", claim(name))
    case.wait_for(lambda: killed or world.phase(name) == "Bound", "killed, or bound")
    if world.phase(name) == "Bound" and not killed:
        world.api.delete("elasticgpuclaims", name, "team")
        case.wait_for(lambda: killed or not world.slices(), "killed, or gone")
    world.api.on_write = None
    if killed:
        world.start()
    if world.api.get("elasticgpuclaims", name, "team") and not world.api.get(
            "elasticgpuclaims", name, "team")["metadata"].get("deletionTimestamp"):
        world.await_phase(name, "Bound")
        case.equal(world.given(), 30, f"percent given, killed after write {number}")
        case.equal(len(world.slices()), 1, "slices")
        world.api.delete("elasticgpuclaims", name, "team")
    case.wait_for(lambda: not world.slices() and not world.api.all("elasticgpuclaims"),
                  f"everything is gone, killed after write {number}")
    case.wait_for(lambda: world.given() == 0, "the pool has it back")
    world.controller.send_signal(signal.SIGTERM)
    world.controller.wait(20)
    return bool(killed)


def test_a_kill_after_any_write_leaks_nothing_and_binds_nothing_twice(case):
    def body(world):
        world.start()
        world.await_cards()
        world.controller.send_signal(signal.SIGTERM)
        world.controller.wait(20)
        killed = [kill_after(case, world, number) for number in range(1, 10)]
        case.check(sum(killed) >= 6, f"it was killed after these writes: {killed}")
    in_world(case, body)


def test_all_claims_are_renewed_by_one_request(case):
    """Their leases are half over at about the same time; one log line of the scheduler for each
    session shows that it was renewed, and how many requests came."""

    def body(world):
        world.start("--session-lease-s", "10")
        world.await_cards()
        for number in range(6):
            world.api.put("elasticgpuclaims", claim(f"many-{number}", core=10, memory="64Mi"))
        for number in range(6):
            world.await_phase(f"many-{number}", "Bound")
        log = case.folder / "spawned.err"

        def batches():
            return re.findall(r"renewed (\d+) of (\d+) sessions", log.read_text())
        case.wait_for(lambda: ("6", "6") in batches(), lambda: f"six in one request: {batches()}")
        case.equal(world.given(), 60, "percent of cards that are given")
        case.check("renewed for" not in log.read_text(), "a renewal of one session")
    in_world(case, body)


def test_two_controllers_one_works(case):
    def body(world):
        first = world.start()
        world.await_cards()
        second = world.start()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        world.api.put("elasticgpuclaims", claim("two"))
        world.await_phase("two", "Bound")
        case.equal(world.given(), 60, "percent given")
        case.check(second.poll() is None, "the second lives")
    in_world(case, body)


def test_a_pod_gets_the_session_of_its_claim_and_of_no_other(case):
    def body(world):
        api = world.api
        world.start()
        world.await_cards()
        pod = gated_pod("user", {"elasticgpu.io/egpuc-main": "mine"})
        api.put("pods", pod)
        uid = api.get("pods", "user", "team")["metadata"]["uid"]
        api.put("elasticgpuclaims", claim("mine"))
        api.put("elasticgpuclaims", claim("other"))
        world.await_phase("mine", "Bound")
        world.await_phase("other", "Bound")
        case.wait_for(lambda: not api.get("pods", "user", "team")["spec"]["schedulingGates"],
                      "the gate is lifted")

        def review(ns, pod_uid):
            return {"authenticated": True, "user": {
                "username": f"system:serviceaccount:{ns}:default",
                "extra": {"authentication.kubernetes.io/pod-uid": [pod_uid]}}}

        api.tokens = {"good": review("team", uid), "elsewhere": review("x", uid),
                      "foreign": review("team", "uid-of-another"),
                      # As authenticators answer that know of no audiences, or of another.
                      "any": {**review("team", uid), "audiences": []},
                      "api": {**review("team", uid), "audiences": ["https://api"]}}
        answers = {}
        for token, wanted in (("good", "mine"), ("good", "other"), ("elsewhere", "mine"),
                              ("foreign", "mine"), ("forged", "mine"), ("any", "mine"),
                              ("api", "mine")):
            path = case.folder / "pod.token"
            path.write_text(token)
            commands = case.folder / "commands"
            commands.write_text("init\n")
            with open(commands, encoding="utf-8") as stdin:
                done = case.run([case.programs / "cudash"], stdin=stdin, env={
                    "LD_LIBRARY_PATH": str(case.build / "lib"), "GPUPOOL_CLAIM": wanted,
                    "GPUPOOL_SCHEDULER": world.address, "GPUPOOL_LOG": "*:warn",
                    "GPUPOOL_POD_TOKEN_FILE": str(path)})
            answers[token, wanted] = done
        case.equal(answers["good", "mine"].out.split()[0], "0", "cuInit with its own claim")
        for key, words in ((("good", "other"), "not bound to this pod"),
                           (("elsewhere", "mine"), "no ElasticGPUClaim mine in namespace x"),
                           (("foreign", "mine"), "not bound to this pod"),
                           (("forged", "mine"), "not accepted"),
                           (("any", "mine"), "not for the audience egpu"),
                           (("api", "mine"), "not for the audience egpu")):
            case.check(answers[key].out.split()[0] != "0", f"cuInit succeeded: {key}")
            case.contains(answers[key].err, words, f"why {key} is refused")
    in_world(case, body)


class Listener:
    """Passes connections on to @address, and keeps what the callers send.  While it is `mute`
    they get no answers; after `limit` more messages of them it breaks the link and takes no
    other, until the limit is None again."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.target = host, int(port)
        self.heard, self.mute, self.limit = b"", False, None
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                caller, _ = self.socket.accept()
            except OSError:
                return
            if self.limit == 0:
                caller.close()
                continue
            threading.Thread(target=self.pass_on, args=(caller,), daemon=True).start()

    def is_over(self):
        if self.limit:
            self.limit -= 1
            return False
        return self.limit == 0

    def pass_on(self, caller):
        with caller, socket.create_connection(self.target, 10) as target:
            while True:
                for ready in select.select([caller, target], [], [])[0]:
                    try:
                        data = ready.recv(65536)
                        if ready is caller and self.is_over():
                            return
                        if ready is caller or not self.mute:
                            (target if ready is caller else caller).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
                    if ready is caller:
                        self.heard += data


def test_tokens_are_on_no_wire(case):
    """Controller and extender prove it; a listener between them and the scheduler gains
    nothing that opens or ends sessions."""
    def body(world):
        listener = Listener(world.address)
        world.address, true = listener.address, world.address
        world.start()
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        ready = case.folder / "extender.ready"
        extender = case.spawn([
            case.build / "bin/gpupool-kube", "extender", "--listen", "127.0.0.1:0",
            "--scheduler", world.address, "--token-file", world.reader, "--ready-file", ready,
            "--kube-server", world.api.url])
        case.wait_for(ready.exists, "the extender listens")
        pod = {"spec": {"containers": [{"resources": {
            "limits": {"tke.cloud.tencent.com/qgpu-core": 50,
                       "tke.cloud.tencent.com/qgpu-memory": 1}}}]}}
        found = post(ready.read_text().strip(), "/scheduler/filter",
                     {"pod": pod, "nodenames": ["node-a"]})
        case.equal(found["nodenames"], ["node-a"], "nodes while there is room")
        world.api.delete("elasticgpuclaims", "one", "team")
        world.address = true
        case.wait_for(lambda: world.given() == 0, "the claim's part is given back")
        case.check(b"\x16\x03\x01" in listener.heard, "the listener heard no TLS hello")
        case.check(b"kube:" not in listener.heard, "a request was sent in clear")
        for token in (world.token, world.reader):
            case.check(token.read_text().strip().encode() not in listener.heard,
                       f"{token.name} was sent in clear")
        extender.send_signal(signal.SIGTERM)
        case.equal(extender.wait(10), 0, "exit status")
        listener.socket.close()
    in_world(case, body)


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_the_extender_knows_whether_the_pool_has_room(case):
    def body(world):
        world.start()
        world.await_cards()
        ready = case.folder / "extender.ready"
        extender = case.spawn([
            case.build / "bin/gpupool-kube", "extender", "--listen", "127.0.0.1:0",
            "--scheduler", world.address, "--token-file", world.reader, "--ready-file", ready,
            "--kube-server", world.api.url])
        case.wait_for(ready.exists, "the extender listens")
        port = ready.read_text().strip()
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {
            "limits": {"tke.cloud.tencent.com/qgpu-core": 50,
                       "tke.cloud.tencent.com/qgpu-memory": 3}}}]}}
        args = {"pod": pod, "nodenames": ["node-a", "node-b"]}

        found = post(port, "/scheduler/filter", args)
        case.equal(found["nodenames"], ["node-a", "node-b"], "nodes while there is room")
        scores = {x["host"]: x["score"] for x in post(port, "/scheduler/priorities", args)}
        case.equal(scores, {"node-a": 10, "node-b": 0}, "the card's own node first")

        # Each container is a question to the scheduler, which has others to answer.
        many = {"pod": {"spec": {"containers": pod["spec"]["containers"] * 257}},
                "nodenames": ["x"]}
        case.contains(post(port, "/scheduler/filter", many)["failedNodes"]["x"],
                      "more than 256 containers", "a pod of too many containers")

        for i in range(2):
            world.api.put("elasticgpuclaims", claim(f"c{i}", core=90, memory="2Gi"))
            world.await_phase(f"c{i}", "Bound")
        found = post(port, "/scheduler/filter", args)
        case.equal(found["nodenames"], [], "nodes while the pool is full")
        case.contains(found["failedNodes"]["node-b"], "core", "why")

        world.api.put("pods", dict(pod, metadata={"name": "p", "namespace": "team"}))
        # Nothing tells who asks, so it binds no pods unless it is told to.
        binding = {"podName": "p", "podNamespace": "team", "node": "node-b"}
        case.contains(post(port, "/scheduler/bind", binding)["error"], "binds no pods (--bind",
                      "the binding")
        case.check("nodeName" not in world.api.get("pods", "p", "team")["spec"], "it is bound")
        case.equal(post(port, "/scheduler/filter", {"pod": {"spec": {"containers": [{}]}},
                                                    "nodenames": ["x"]})["nodenames"],
                   ["x"], "a pod that wants no card")
        # Whoever reaches its port can post anything.
        for body_ in ({}, [], 1, {"pod": 1}, {"pod": pod, "nodenames": [1, None]},
                      {"pod": pod, "nodenames": "x"}, {"pod": pod, "nodes": {"items": [1]}},
                      {"nodenames": [1]}, {"podName": 1, "podNamespace": [], "node": {}}):
            for path in ("filter", "predicates", "priorities", "bind"):
                try:
                    post(port, f"/scheduler/{path}", body_)
                except urllib.error.HTTPError:
                    pass
        case.equal(extender.poll(), None, "the extender's exit status")
        extender.send_signal(signal.SIGTERM)
        case.equal(extender.wait(10), 0, "exit status")
        ready.unlink()
        binder = case.spawn([*extender.args, "--bind"])
        case.wait_for(ready.exists, "one that binds listens")
        case.equal(post(ready.read_text().strip(), "/scheduler/bind", binding), {"error": ""},
                   "the binding by one that may")
        case.equal(world.api.get("pods", "p", "team")["spec"]["nodeName"], "node-b", "its node")
        binder.send_signal(signal.SIGTERM)
        case.equal(binder.wait(10), 0, "exit status")
    in_world(case, body)


def test_a_server_that_cannot_be_published_holds_up_no_other(case):
    """A server's name may be one that Kubernetes takes for nothing: its cards are left out,
    those of others are published, and sessions of lost servers are given up."""
    def body(world):
        world.start("--server-grace-s", "1", "--dra", "--legacy-gpus")
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        world.others.append(world.add_server("rack/1"))
        case.wait_for(lambda: '"rack/1"' in case.run([
            case.build / "bin/gpupool", "servers", "--json", "--scheduler", world.address,
            "--token-file", world.token]).out, "the scheduler knows the second server")
        world.others.append(world.add_server("node-b"))

        def published(resource):
            return {gpu["spec"]["nodeName"] for gpu in world.api.all(resource)}
        for resource in ("elasticgpus", "gpus"):
            case.wait_for(lambda resource=resource: published(resource) >= {"node-a", "node-b"},
                          f"{resource} of the others")
        case.wait_for(lambda: {"node-a", "node-b"} == {
            s["spec"]["pool"]["name"] for s in world.api.all("resourceslices")}, "their slices")
        os.kill(world.server.pid, signal.SIGKILL)
        world.server.wait()
        case.wait_for(lambda: [e for e in world.api.all("events") if e["reason"] == "ServerLost"],
                      "the session on the lost server is given up")
        case.wait_for(lambda: [s for s in world.slices() if s["spec"]["nodeName"] != "node-a"
                               and s["status"]["phase"] == "Bound"], "and is opened elsewhere")
    in_world(case, body, ("--heartbeat-ms", "200"))


def test_a_lost_server_gives_its_claims_back_in_the_stated_time(case):
    def body(world):
        world.start("--server-grace-s", "2")
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one", core=100))
        world.api.put("elasticgpuclaims", claim("two", core=100))
        world.await_phase("one", "Bound")
        world.await_phase("two", "Bound")
        before = {s["spec"]["remoteGPU"]["session"] for s in world.slices()}
        world.others.append(world.add_server("node-b"))
        case.wait_for(lambda: len(world.cards()) == 4, "the cards of the second server")

        def moved():
            return [s for s in world.slices() if s["spec"]["nodeName"] == "node-b"
                    and s["spec"]["remoteGPU"]["session"] not in before
                    and s["status"]["phase"] == "Bound"]
        os.kill(world.server.pid, signal.SIGKILL)
        world.server.wait()
        with case.within(10, "two seconds of grace, and the time of a loaded machine"):
            case.wait_for(lambda: len(moved()) == 2, "both claims have cards of the other server")
        for name in ("one", "two"):
            case.wait_for(lambda name=name: (world.phase(name), world.api.get(
                "elasticgpuclaims", name, "team")["status"]["server"]) == ("Bound", "node-b"),
                f"claim {name} says so")
        case.wait_for(lambda: len([e for e in world.api.all("events")
                                   if e["reason"] == "ServerLost"]) == 2, "an event for each")
        words = [e["message"] for e in world.api.all("events") if e["reason"] == "ServerLost"]
        case.contains(words[0], "server node-a has not reported for 2 s", "the event")
        dead = [c for c in world.cards() if c["spec"]["nodeName"] == "node-a"]
        case.equal({c["status"]["phase"] for c in dead}, {"Failed"}, "the cards of the lost one")
    in_world(case, body, ("--heartbeat-ms", "200"))


def test_a_lost_server_without_another_leaves_the_claim_lost_until_there_is_one(case):
    def body(world):
        world.start("--server-grace-s", "1")
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one", core=100))
        world.await_phase("one", "Bound")
        os.kill(world.server.pid, signal.SIGKILL)
        world.server.wait()
        world.await_phase("one", "Lost")
        ready = world.api.get("elasticgpuclaims", "one", "team")["status"]["conditions"][0]
        case.equal((ready["type"], ready["status"], ready["reason"]),
                   ("Ready", "False", "NoRoom"), "the condition")
        world.others.append(world.add_server("node-b"))
        world.await_phase("one", "Bound")
    in_world(case, body, ("--heartbeat-ms", "200"))


def test_legacy_gpu_objects_say_who_uses_a_card(case):
    def body(world):
        world.start("--legacy-gpus")
        world.await_cards()
        api = world.api
        api.put("gpus", {"metadata": {"name": "of-a-gpu-manager"}, "spec": {"index": 0}})
        case.wait_for(lambda: len(api.all("gpus")) == 3, "two GPU objects of ours")
        api.put("pods", gated_pod("user", {"elasticgpu.io/egpuc-main": "mine"}))
        api.put("elasticgpuclaims", claim("mine", core=40))
        world.await_phase("mine", "Bound")

        def users():
            return [u for g in api.all("gpus")
                    for u in (g.get("status", {}).get("allocated") or {}).values()]
        case.wait_for(users, "the pod is named")
        case.equal(users(), [{"namespace": "team", "pod": "user", "containers": [
            {"container": "main", "resource": {"elasticgpu.io/gpu-core": "40",
                                               "elasticgpu.io/gpu-memory": "256Mi"}}]}],
                   "who uses it")
        card = next(g for g in api.all("gpus") if (g.get("status") or {}).get("allocated"))
        case.equal(card["spec"]["nodeName"], "node-a", "the node")
        case.equal(card["spec"]["memory"], 4 << 30, "bytes of memory")
        case.wait_for(lambda: next(
            g for g in api.all("gpus") if g["metadata"]["name"] == card["metadata"]["name"]
            )["status"]["allocatable"]["elasticgpu.io/gpu-core"] == "60", "what is left")
        api.delete("pods", "user", "team")
        case.wait_for(lambda: not users(), "nobody is named any more")
        api.delete("elasticgpuclaims", "mine", "team")
        case.check(api.get("gpus", "of-a-gpu-manager"), "the object of another was touched")
    in_world(case, body)


def test_a_restarted_scheduler_takes_no_server_for_lost(case):
    def body(world):
        world.start()
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        session = world.slices()[0]["spec"]["remoteGPU"]["session"]
        case.wait_for(lambda: world.given() == 30, "it is held")
        os.kill(world.server.pid, signal.SIGSTOP)  # so that it is not back at once
        os.kill(world.scheduler.pid, signal.SIGKILL)
        world.scheduler.wait()
        ready = case.folder / "again.ready"
        world.scheduler = world.add_scheduler(world.address, ready)
        case.wait_for(ready.exists, "the scheduler listens again")
        case.wait_for(lambda: {c["status"]["phase"] for c in world.cards()} == {"Failed"},
                      "the controller sees that the server has not reported")
        os.kill(world.server.pid, signal.SIGCONT)
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("two"))
        world.await_phase("two", "Bound")
        case.equal([s["spec"]["remoteGPU"]["session"] for s in world.slices()
                    if s["spec"]["claimRef"]["name"] == "one"], [session], "its session")
        case.check(not [e for e in world.api.all("events") if e["reason"] == "ServerLost"],
                   "the server was taken for lost")
    in_world(case, body, ("--heartbeat-ms", "200"))


def test_a_bound_claim_outlives_its_class_and_is_not_judged_anew(case):
    """As a volume does its StorageClass: what is held stays held, and pods come and go."""
    def body(world):
        api = world.api
        api.put("elasticgpuclasses", {"metadata": {"name": "short"},
                                      "provisioner": "elasticgpu.io/remote"})
        world.start()
        world.await_cards()
        made = claim("one")
        made["spec"]["elasticGPUClassName"] = "short"
        api.put("elasticgpuclaims", made)
        api.put("elasticgpuclaims", claim("two"))
        world.await_phase("one", "Bound")
        world.await_phase("two", "Bound")
        before = {s["metadata"]["name"]: s["spec"]["remoteGPU"]["session"]
                  for s in world.slices()}
        api.delete("elasticgpuclasses", "short")
        api.put("elasticgpuclasses", dict(CLASS, metadata={"name": "remote"},
                                          parameters={"coreMin": "50", "coreStep": "50"}))
        for restart in (False, True):
            if restart:
                os.kill(world.controller.pid, signal.SIGKILL)
                world.controller.wait()
                world.start()
            for name in ("one", "two"):  # a pod of it comes and is let go
                pod = f"{name}-{restart}".lower()
                api.put("pods", gated_pod(pod, {"elasticgpu.io/egpuc-main": name}))
                case.wait_for(lambda pod=pod: not api.get("pods", pod, "team")["spec"][
                    "schedulingGates"], f"the gate of {pod} is lifted")
                api.delete("pods", pod, "team")
                case.wait_for(lambda name=name: not api.get(
                    "elasticgpuclaims", name, "team")["status"].get("consumers"), "it is gone")
                case.equal(world.phase(name), "Bound", f"claim {name}")
        case.equal({s["metadata"]["name"]: s["spec"]["remoteGPU"]["session"]
                    for s in world.slices()}, before, "the sessions")
        # Nothing is made by rules that are not there.
        made = claim("three")
        made["spec"]["elasticGPUClassName"] = "short"
        api.put("elasticgpuclaims", made)
        world.await_phase("three", "Pending")
        for name in ("one", "two", "three"):
            api.delete("elasticgpuclaims", name, "team")
        case.wait_for(lambda: not world.slices() and world.given() == 0, "all is given back")
    in_world(case, body)


def test_a_quota_counts_a_session_whose_elasticgpu_was_never_written(case):
    """Killed between opening the session and writing its ElasticGPU; after the restart
    another claim of the namespace is looked at first."""
    def body(world):
        api = world.api
        api.put("resourcequotas", {"metadata": {"name": "gpus", "namespace": "team"}, "spec": {
            "hard": {"requests.elasticgpu.io/gpu-core": "50"}}})
        world.start()
        world.await_cards()
        killed = []

        def before_write(method, resource, name):
            if method == "POST" and resource == "elasticgpus" and not killed:
                killed.append(name)
                os.kill(world.controller.pid, signal.SIGKILL)
                return True
            return False

        api.before_write = before_write
        api.put("elasticgpuclaims", claim("z", core=40))
        case.wait_for(lambda: killed, "it is killed")
        world.controller.wait()
        case.wait_for(lambda: world.given() == 40, "the session is open")
        case.equal(world.slices(), [], "slices")
        api.before_write = None
        api.put("elasticgpuclaims", claim("a", core=40))
        world.start()
        world.await_phase("z", "Bound")
        world.await_phase("a", "Pending")
        case.contains(api.get("elasticgpuclaims", "a", "team")["status"]["message"],
                      "holds 40 of 50", "why the other waits")
        case.equal(world.given(), 40, "percent given")
    in_world(case, body)


def test_every_fault_of_an_api_server_is_met_and_survived(case):
    """All that the double plays, in one life of a controller: none is left to chance."""
    def body(world):
        api = world.api
        api.busy = {"elasticgpus": 2, "elasticgpuclaims": 2, "pods": 1}
        world.start()
        world.await_cards()
        api.stale = {"elasticgpuclaims": 2}
        for i in range(3):
            api.put("elasticgpuclaims", claim(f"c{i}", core=10))
            api.compact()
        for i in range(3):
            world.await_phase(f"c{i}", "Bound")
        case.wait_for(lambda: api.faults["BOOKMARK"] >= 1, "a bookmark is sent")
        case.equal(api.faults["429 TooManyRequests"], 5, "answers of 429")
        case.equal(api.faults["409 Conflict"], 2, "answers of 409")
        case.check(api.faults["200 with ERROR 410"] >= 3, f"watches that expired: {api.faults}")
        case.check(api.faults["half a line"] >= 10, f"chunks: {api.faults}")
        case.equal((world.given(), len(world.slices())), (30, 3), "percent and slices")
    in_world(case, body)


def test_a_broken_connection_to_the_api_server_ends_no_controller(case):
    def body(world):
        world.start()
        world.await_cards()
        case.check(proc.ignores(world.controller.pid, signal.SIGPIPE), "SIGPIPE ends it")
    in_world(case, body)


def test_an_idle_controller_asks_the_api_server_for_nothing(case):
    """One works, one stands by: between two renewals of the lease there is not a request."""
    def body(world):
        world.api.watch_s = 300
        world.start("--lease-s", "30")
        world.await_cards()
        world.others.append(world.controller)
        world.start("--lease-s", "30")
        api = world.api

        def renewed():
            return sum(method == "PUT" and path.endswith("/leases/gpupool-controller")
                       for method, path in api.requests)
        begin = renewed()
        case.wait_for(lambda: renewed() > begin, "the lease is renewed", 30)
        start = len(api.requests)
        case.wait_for(lambda: renewed() > begin + 1, "it is renewed again", 30)
        case.equal([r for r in api.requests[start:] if r[1].startswith("/api")],
                   [("PUT", "/apis/coordination.k8s.io/v1/namespaces/pool/leases/"
                     "gpupool-controller")], "requests from one renewal to the next")
    in_world(case, body)


class Hook:
    """The webhook's process, and calls as an API server makes them."""

    def __init__(self, case, api, options=()):
        self.case, self.api = case, api
        self.ready = case.folder / "hook.ready"
        self.process = case.spawn([
            case.build / "bin/gpupool-kube", "webhook", "--listen", "127.0.0.1:0",
            "--scheduler", "pool:7480", "--image", "client:test", "--namespace", "pool",
            "--tls-secret", "tls", "--webhook-config", "gpupool", "--dns-name", "127.0.0.1",
            "--kube-server", api.url, "--ready-file", self.ready, *options])
        case.wait_for(self.ready.exists, "the webhook listens")
        self.port = int(self.ready.read_text())

    def bundle(self):
        config = self.api.get("mutatingwebhookconfigurations", "gpupool")
        return config["webhooks"][0]["clientConfig"].get("caBundle")

    def call(self, path, body, bundle=None):
        """The bundle of the configuration decides whom to believe."""
        trust = ssl.create_default_context(
            cadata=base64.b64decode(bundle or self.bundle()).decode())
        link = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=trust)
        link.request("POST", path, body, {"Content-Type": "application/json"})
        answer = link.getresponse()
        text = answer.read()
        link.close()
        return answer.status, text


def with_hook(case, body, *options):
    api = KubeApi()
    api.put("elasticgpuclasses", dict(CLASS, metadata={"name": "remote"}))
    api.put("namespaces", {"metadata": {"name": "team", "labels": {
        "elasticgpu.io/class": "remote"}}})
    api.put("secrets", {"metadata": {"name": "tls", "namespace": "pool"}})
    api.put("mutatingwebhookconfigurations", {"metadata": {"name": "gpupool"}, "webhooks": [
        {"name": "a", "clientConfig": {"url": "https://127.0.0.1/mutate"}}]})
    hook = None
    try:
        hook = Hook(case, api, options)
        body(hook, api)
        hook.process.send_signal(signal.SIGTERM)
        case.equal(hook.process.wait(20), 0, "exit status")
    finally:
        api.close()


def test_the_webhook_answers_calls_as_an_api_server_makes_them(case):
    """HTTPS that its own configuration believes, and ?timeout= behind the path."""
    def body(hook, _):
        review = (case.data / "kube/qgpu.in.json").read_bytes()
        uid = json.loads(review)["request"]["uid"]
        for path in ("/mutate/namespace?timeout=5s", "/mutate/namespace?timeout=10s&x=y",
                     "/mutate/namespace"):
            status, text = hook.call(path, review)
            case.equal(status, 200, path)
            response = json.loads(text)["response"]
            case.equal((response["uid"], response["allowed"], response["patchType"]),
                       (uid, True, "JSONPatch"), path)
        case.equal(hook.call("/elsewhere?timeout=5s", review)[0], 404, "another path")
        case.equal(hook.call("/mutate?timeout=5s", b"{")[0], 400, "half a review")
    with_hook(case, body)


def test_the_webhook_polls_nothing_and_sees_at_once_what_has_changed(case):
    def body(hook, api):
        review = (case.data / "kube/plain.in.json").read_bytes()
        case.wait_for(lambda: {"/api/v1/namespaces/pool/secrets",
                               "/apis/admissionregistration.k8s.io/v1/"
                               "mutatingwebhookconfigurations"} <= {p for _, p in api.requests},
                      "it watches both")
        first = hook.bundle()
        # The configuration is installed anew, without a bundle: it comes back.
        api.put("mutatingwebhookconfigurations", {"metadata": {"name": "gpupool"}, "webhooks": [
            {"name": "a", "clientConfig": {"url": "https://127.0.0.1/mutate"}}]})
        with case.within(4, "less than the pause between two looks at the clock"):
            case.wait_for(hook.bundle, "the bundle is there again")
        case.equal(hook.bundle(), first, "the bundle")
        # The Secret is emptied, so that a certificate is made anew and served.
        api.put("secrets", {"metadata": {"name": "tls", "namespace": "pool"}})
        with case.within(4, "less than the pause between two looks at the clock"):
            case.wait_for(lambda: hook.bundle() != first, "another certificate is believed")
        case.equal(hook.call("/mutate?timeout=5s", review)[0], 200, "a call")
        start = len(api.requests)
        api.put("secrets", dict(api.get("secrets", "tls", "pool"), note="touched"))
        case.wait_for(lambda: len(api.requests) >= start + 2, "it looks because of that")
        count = len([r for r in api.requests[start:]])
        case.check(count <= 4, f"requests for one change: {api.requests[start:]}")
    with_hook(case, body)


def test_a_claim_that_names_its_card_gets_that_card_at_the_first_try(case):
    def body(world):
        api = world.api
        world.start()
        world.await_cards()
        wanted = world.cards()[1]["spec"]["remoteGPU"]["gpuUUIDs"]
        for i in range(8):
            made = claim(f"c{i}", core=10, memory="64Mi")
            made["metadata"]["annotations"] = {"elasticgpu.io/card": wanted[0]}
            api.put("elasticgpuclaims", made)
        for i in range(8):
            world.await_phase(f"c{i}", "Bound")
        case.equal([s["spec"]["remoteGPU"]["gpuUUIDs"] for s in world.slices()], [wanted] * 8,
                   "the cards")
        case.wait_for(lambda: len([e for e in api.all("events") if e["reason"] == "Bound"]) == 8,
                      "the events")
        case.equal([e["message"] for e in api.all("events") if e["reason"] != "Bound"], [],
                   "other events")
    in_world(case, body)
