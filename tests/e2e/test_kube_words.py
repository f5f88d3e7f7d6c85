# SPDX-License-Identifier: Apache-2.0
"""What the programs in a cluster say when something of it is missing: why, and what helps."""

import json
import os
import signal
import threading

from test_kube import claim, gated_pod, in_world, with_hook
from test_kube_tenants import review


def said(case):
    return (case.folder / "spawned.err").read_text()


def test_the_webhook_says_how_to_make_the_secret_that_somebody_deleted(case):
    def body(_, api):
        case.wait_for(lambda: "data" in api.get("secrets", "tls", "pool"), "its certificate")
        api.delete("secrets", "tls", "pool")
        case.wait_for(lambda: "kubectl create secret generic tls -n pool" in said(case),
                      "the way on", 20)
        case.contains(said(case), "there is no Secret tls in namespace pool", "why")
        api.put("secrets", {"metadata": {"name": "tls", "namespace": "pool"}})
        case.wait_for(lambda: "data" in api.get("secrets", "tls", "pool"),
                      "the next certificate", 20)
    with_hook(case, body)


def test_the_controller_says_that_a_kind_is_not_installed(case):
    def body(world):
        world.api.unknown.add("elasticgpus")
        world.start()
        case.wait_for(lambda: "install its CustomResourceDefinition" in said(case),
                      "the way on", 30)
        world.api.unknown.clear()
        world.await_cards()
    in_world(case, body)


def stop_when_refused(case, world):
    """Another question is asked when the first has been answered."""
    case.wait_for(lambda: sum("/dra-train" in r[1] for r in world.api.requests) > 1, "a refusal")
    os.kill(world.scheduler.pid, signal.SIGSTOP)


def test_the_controller_names_a_token_file_that_it_cannot_read(case):
    def body(world):
        world.token = case.folder / "a-folder"
        world.token.mkdir()
        world.start()
        case.wait_for(lambda: f"token file: {world.token}: Is a directory" in said(case), "why", 30)
    in_world(case, body)


def test_a_pod_is_told_where_to_see_why_its_resource_claim_has_no_session(case):
    """As one of several devices, which stands for no session.  The scheduler has said so, and
    answers no more when the program's patience ends."""
    def body(world):
        world.start()
        world.await_cards()
        world.api.put("pods", gated_pod("user", {}))
        uid = world.api.get("pods", "user", "team")["metadata"]["uid"]
        world.api.tokens = {"good": {"authenticated": True, "user": {
            "username": "system:serviceaccount:team:default",
            "extra": {"authentication.kubernetes.io/pod-uid": [uid]}}}}
        token, commands = case.folder / "pod.token", case.folder / "commands"
        token.write_text("good")
        commands.write_text("init\n")
        stopper = threading.Thread(target=stop_when_refused, args=(case, world))
        stopper.start()
        with open(commands, encoding="utf-8") as stdin:
            done = case.run([case.programs / "cudash"], stdin=stdin, env={
                "LD_LIBRARY_PATH": str(case.build / "lib"), "GPUPOOL_CLAIM": "dra-train",
                "GPUPOOL_SCHEDULER": world.address, "GPUPOOL_LOG": "*:warn",
                "GPUPOOL_POD_TOKEN_FILE": str(token)})
        stopper.join()
        os.kill(world.scheduler.pid, signal.SIGCONT)
        case.check(done.out.split()[0] != "0", "cuInit succeeded without a session")
        case.contains(done.err, "kubectl describe resourceclaims -n team says why", "the way on")
    in_world(case, body)


def test_a_resource_claim_of_several_cards_is_refused_before_its_pod_starts(case):
    """kube-scheduler would allocate them, and the program find no card."""
    def request(cls, **more):
        return {"name": "gpu", "exactly": {"deviceClassName": cls, **more}}

    def body(hook, api):
        for name, driver in (("ours", "gpu.elasticgpu.io"), ("theirs", "gpu.example.com")):
            api.put("deviceclasses", {"metadata": {"name": name}, "spec": {"config": [
                {"opaque": {"driver": driver, "parameters": {}}}]}})

        def answer(each):
            api.put("resourceclaimtemplates", {
                "kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "team"},
                "spec": {"spec": {"devices": {"requests": [each]}}}})
            return json.loads(hook.call("/mutate", review({"metadata": {"name": "p"}, "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}]}})
            )[1])["response"]

        several = (request("ours", count=2), request("ours", allocationMode="All"),
                   {"name": "gpu", "firstAvailable": [
                       {"name": "a", "deviceClassName": "ours"},
                       {"name": "b", "deviceClassName": "ours", "count": 2}]})
        for each in several:
            refusal = answer(each)
            case.equal(refusal["allowed"], False, f"a pod with {each}")
            case.contains(refusal["status"]["message"],
                          "ResourceClaimTemplate t asks for several remote cards", "why")
        for each in (request("ours", count=1), request("ours"), request("theirs", count=2)):
            case.equal(answer(each)["allowed"], True, f"a pod with {each}")
    with_hook(case, body, "--dra")


def test_claims_that_wait_are_not_written_at_each_change_of_the_pool(case):
    """How much is free changes with every other claim; each status that is written keeps the
    controller from binding."""
    def body(world):
        api = world.api
        world.start()
        world.await_cards()
        for name in ("left", "right"):
            api.put("elasticgpuclaims", claim(name, core=60))
            world.await_phase(name, "Bound")
        waiting = [f"wait{i}" for i in range(5)]

        def words():
            return {api.get("elasticgpuclaims", n, "team")["status"].get("message")
                    for n in waiting}
        for name in waiting:
            api.put("elasticgpuclaims", claim(name, core=50))
        case.wait_for(lambda: all(world.phase(n) == "Pending" for n in waiting), "all wait")
        begin = len(api.requests)
        for i in range(12):
            api.put("elasticgpuclaims", claim(f"more{i}", core=5))
            world.await_phase(f"more{i}", "Bound")
        patches = [r for r in api.requests[begin:] if r[0] == "PATCH" and "/wait" in r[1]]
        case.check(len(patches) <= 2 * len(waiting),
                   f"{len(patches)} writes about {len(waiting)} claims in twelve changes")
        case.equal(world.given(), 180, "percent given, of 200")
        case.wait_for(lambda: all(w.count("most free: 20 %") == 1 for w in words()),
                      "all say what is free in the end", 40)
        for name in ["left", "right"] + [f"more{i}" for i in range(12)]:
            api.delete("elasticgpuclaims", name, "team")
        case.wait_for(lambda: sum(world.phase(n) == "Bound" for n in waiting) == 4,
                      "four are bound as soon as there is room", 10)
    in_world(case, body)
