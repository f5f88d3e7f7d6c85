# SPDX-License-Identifier: Apache-2.0
"""The controller and the scheduler's side of Kubernetes against a double of the API
server (harness/kubeapi.py): every fault that it can play, and a kill after every write.
What needs a real cluster is in tests/k8s."""

import json
import os
import signal
import urllib.request

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

    def __init__(self, case):
        self.case, self.api = case, KubeApi()
        self.api.put("elasticgpuclasses", dict(CLASS))
        self.token = case.folder / "admin.token"
        self.token.write_text("a-token-for-administrators-0123456789\n")
        ready = case.folder / "sched.ready"
        self.scheduler = case.spawn([
            case.build / "bin/gpupool-scheduler", "--listen", "127.0.0.1:0", "--state-dir",
            case.folder / "state", "--ready-file", ready, "--admin-token-file", self.token,
            "--client-token-file", self.token, "--server-token-file", self.token,
            "--kube", "--kube-server", self.api.url])
        case.wait_for(ready.exists, "the scheduler listens")
        self.address = ready.read_text().strip()
        self.server = case.spawn([
            case.build / "bin/gpupool-server", "--listen", "127.0.0.1:0", "--driver", "null",
            "--cards", "2", "--memory", "4GiB", "--name", "node-a", "--scheduler", self.address,
            "--token-file", self.token])
        self.controller = None

    def start(self):
        self.controller = self.case.spawn([
            self.case.build / "bin/gpupool-kube", "controller", "--scheduler", self.address,
            "--token-file", self.token, "--namespace", "pool", "--lease-s", "3",
            "--kube-server", self.api.url])
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
        for process in (self.controller, self.server, self.scheduler):
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(20)
        self.api.close()


def in_world(case, body):
    world = World(case)
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
                      "stranger": review("team", "uid-of-another")}
        answers = {}
        for token, wanted in (("good", "mine"), ("good", "other"), ("elsewhere", "mine"),
                              ("stranger", "mine"), ("forged", "mine")):
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
                           (("stranger", "mine"), "not bound to this pod"),
                           (("forged", "mine"), "not accepted")):
            case.check(answers[key].out.split()[0] != "0", f"cuInit succeeded: {key}")
            case.contains(answers[key].err, words, f"why {key} is refused")
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
            "--scheduler", world.address, "--token-file", world.token, "--ready-file", ready,
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

        for i in range(2):
            world.api.put("elasticgpuclaims", claim(f"c{i}", core=90, memory="2Gi"))
            world.await_phase(f"c{i}", "Bound")
        found = post(port, "/scheduler/filter", args)
        case.equal(found["nodenames"], [], "nodes while the pool is full")
        case.contains(found["failedNodes"]["node-b"], "core", "why")

        world.api.put("pods", dict(pod, metadata={"name": "p", "namespace": "team"}))
        bound = post(port, "/scheduler/bind", {"podName": "p", "podNamespace": "team",
                                               "node": "node-b"})
        case.equal(bound, {"error": ""}, "the binding")
        case.equal(post(port, "/scheduler/filter", {"pod": {"spec": {"containers": [{}]}},
                                                    "nodenames": ["x"]})["nodenames"],
                   ["x"], "a pod that wants no card")
        extender.send_signal(signal.SIGTERM)
        case.equal(extender.wait(10), 0, "exit status")
    in_world(case, body)
