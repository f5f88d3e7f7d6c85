# SPDX-License-Identifier: Apache-2.0
"""What tenants of a cluster can write of their own objects, and that it leads to nothing of
another's."""

import json
import time

from test_kube import CLASS, claim, gated_pod, in_world, with_hook


def forged(name, labels, gpu=None):
    """A claim of another tenant, which says in its labels what the controller writes."""
    made = claim(name, core=10, memory="64Mi", **({"elasticGPUName": gpu} if gpu else {}))
    made["metadata"].update(namespace="evil", labels=labels)
    return made


def test_a_claim_with_forged_labels_gets_nobody_elses_session(case):
    """Labels and names that a tenant may write lead to no ElasticGPU of another: not to hold
    it, and not to end its session with the claim that names it."""
    def body(world):
        api = world.api
        world.start("--dra")
        world.await_cards()
        api.put("elasticgpuclaims", claim("victim"))
        world.await_phase("victim", "Bound")
        before = world.slices()[0]
        uid = api.get("elasticgpuclaims", "victim", "team")["metadata"]["uid"]
        attempts = {
            "made": forged("made", {"elasticgpu.io/generated-for": uid}, f"egpu-{uid}"),
            "stands": forged("stands", {"elasticgpu.io/resource-claim-uid": uid}),
            "both": forged("both", {"elasticgpu.io/resource-claim-uid": uid}, f"egpu-{uid}"),
            "plain": forged("plain", {}, f"egpu-{uid}")}
        for name, made in attempts.items():
            pod = gated_pod(f"p-{name}", {"elasticgpu.io/egpuc-main": name})
            pod["metadata"]["namespace"] = "evil"
            api.put("pods", pod)
            api.put("elasticgpuclaims", made)

        def seen(name):
            found = api.get("elasticgpuclaims", name, "evil")
            return not found or found.get("status", {}).get("phase")
        for name in attempts:
            case.wait_for(lambda name=name: seen(name), f"claim {name} is looked at")

        def unharmed():
            case.equal([s["spec"] for s in world.slices()
                        if s["metadata"]["name"] == before["metadata"]["name"]],
                       [before["spec"]], "the slice of the victim")
            case.equal(world.phase("victim"), "Bound", "its claim")
            status = api.get("elasticgpuclaims", "victim", "team")["status"]
            case.equal(status["session"], before["spec"]["remoteGPU"]["session"], "its session")
        unharmed()
        # Those with a label may be gone: the pod, or ResourceClaim, was not found.
        case.contains(api.get("elasticgpuclaims", "plain", "evil")["status"]["message"],
                      "belongs to claim team/victim", "why it waits")
        for name in attempts:
            api.delete("pods", f"p-{name}", "evil")
            if api.get("elasticgpuclaims", name, "evil"):
                api.delete("elasticgpuclaims", name, "evil")
        case.wait_for(lambda: not [c for c in api.all("elasticgpuclaims")
                                   if c["metadata"]["namespace"] == "evil"], "all are gone")
        case.wait_for(lambda: world.given() == 30, "only the victim holds something")
        unharmed()
    in_world(case, body)


def test_a_claim_that_is_gone_without_having_been_ended_gives_its_session_back(case):
    """A tenant may take the finalizer of a claim away and delete it; the controller sees both
    at once when its watch has expired meanwhile."""
    def body(world):
        api = world.api
        world.start()
        world.await_cards()
        api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        case.wait_for(lambda: world.slices()[0].get("status", {}).get("phase") == "Bound",
                      "everything is written")
        with api.lock:
            key = "elasticgpuclaims", "team", "one"
            api.store(key, api.objects[key], "DELETED")
        case.wait_for(lambda: not world.slices() and world.given() == 0, "it is given back", 20)
    in_world(case, body)


def shared_claim(name):
    made = claim(name, core=10, memory="64Mi")
    made["metadata"]["annotations"] = {"elasticgpu.io/shared": "true"}
    return made


def test_a_shared_claim_has_as_many_consumers_as_its_status_may_list(case):
    """More pods than that wait, and are told why; when one ends, another comes in."""
    def body(world):
        api, n = world.api, 270
        for i in range(n):
            api.put("pods", gated_pod(f"p{i:03}", {"elasticgpu.io/egpuc-main": "many"}))
        api.put("elasticgpuclaims", shared_claim("many"))
        world.start()

        def consumers():
            found = api.get("elasticgpuclaims", "many", "team")
            return [c["name"] for c in (found.get("status") or {}).get("consumers") or []]

        def lifted():
            return [p["metadata"]["name"] for p in api.all("pods")
                    if not p["spec"]["schedulingGates"]]
        case.wait_for(lambda: len(lifted()) == 256, "as many as may are let in", 30)
        case.equal(world.phase("many"), "Bound", "the claim")
        case.equal(consumers(), [f"p{i:03}" for i in range(256)], "the oldest")
        waits = {f"p{i:03}" for i in range(256, n)}

        def told():
            return {e["involvedObject"]["name"] for e in api.all("events")
                    if e["reason"] == "InUse" and "256 pods" in e["message"]}
        case.wait_for(lambda: told() == waits, "the others are told why they wait")
        api.delete("pods", "p000", "team")
        case.wait_for(lambda: "p256" in lifted(), "the next one comes in")
        case.equal(api.faults["422 Invalid"], 0, "statuses that were refused")
    in_world(case, body)


def test_a_status_that_is_refused_as_invalid_is_not_written_again_and_again(case):
    def body(world):
        api, key = world.api, ("elasticgpuclaims", "team", "one")
        api.invalid.add(key)
        world.start()
        world.await_cards()
        api.put("elasticgpuclaims", claim("one"))
        case.wait_for(lambda: api.faults["422 Invalid"], "it is refused")
        # Three more would come in 700 ms, and other claims are looked at in that time.
        for i in range(3):
            api.put("elasticgpuclaims", claim(f"other{i}", core=10))
            world.await_phase(f"other{i}", "Bound")
            api.delete("elasticgpuclaims", f"other{i}", "team")
            case.wait_for(lambda i=i: not api.get("elasticgpuclaims", f"other{i}", "team"),
                          "it is gone")
        time.sleep(1)  # what must not come in it
        refused = api.faults["422 Invalid"]
        case.check(refused <= 3, f"{refused} attempts with nothing changed")
        api.invalid.clear()
        api.put("elasticgpuclaims", dict(api.get("elasticgpuclaims", "one", "team"), note="new"))
        world.await_phase("one", "Bound")
    in_world(case, body)


def review(pod):
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "abcdefgh", "namespace": "team", "kind": {"kind": "Pod"}, "object": pod}}).encode()


def test_the_webhook_reads_each_object_once_for_a_pod_and_not_many_of_them(case):
    """Its answers are given one at a time, so what a pod costs others wait for."""
    def resource_claim(name, classes):
        return {"metadata": {"name": name, "namespace": "team"}, "spec": {"devices": {"requests": [
            {"name": f"r{i}", "firstAvailable": [{"name": f"a{k}", "deviceClassName": each}
                                                 for k, each in enumerate(part)]}
            for i, part in enumerate(classes)]}}}

    def pod(claims, containers):
        return {"metadata": {"name": "p"}, "spec": {
            "resourceClaims": [{"name": f"e{i}", "resourceClaimName": each}
                               for i, each in enumerate(claims)],
            "containers": [{"name": f"c{i}", "resources": {"claims": [
                {"name": f"e{k}"} for k in range(len(claims))]}} for i in range(containers)]}}

    def body(hook, api):
        def reads():
            return [p for m, p in api.requests if m == "GET" and "/resource.k8s.io/" in p]
        api.put("resourceclaims", resource_claim("small", [["x", "y"], ["y", "x"]]))
        api.put("resourceclaims", resource_claim("large", [
            [f"c-{i}-{k}" for k in range(8)] for i in range(32)]))
        answer = json.loads(hook.call("/mutate", review(pod(["small", "small"], 50)))[1])
        case.equal(answer["response"]["allowed"], True, "a pod of others' devices")
        case.equal(len(reads()), 3, f"a claim and two classes: {reads()}")
        response = json.loads(hook.call("/mutate", review(pod(["large"], 200)))[1])["response"]
        case.equal((response["allowed"], response["status"]["code"]), (False, 422), "too many")
        case.contains(response["status"]["message"], "more than 64, the limit for one pod", "why")
        case.equal(len(reads()), 3 + 64, "objects that were read for it")
    with_hook(case, body, "--dra")


def test_a_quota_counts_what_is_retained(case):
    """Claims that are made and deleted one after the other would hold the pool."""
    def body(world):
        api = world.api
        api.put("elasticgpuclasses", dict(CLASS, metadata={"name": "kept"}, reclaimPolicy="Retain"))
        api.put("resourcequotas", {"metadata": {"name": "q", "namespace": "team"}, "spec": {
            "hard": {"requests.elasticgpu.io/gpu-core": "50"}}})
        world.start()
        world.await_cards()

        def kept_claim(name):
            made = claim(name, core=50)
            made["spec"]["elasticGPUClassName"] = "kept"
            api.put("elasticgpuclaims", made)

        def retain(name):
            world.await_phase(name, "Bound")
            api.delete("elasticgpuclaims", name, "team")
            case.wait_for(lambda: [s["metadata"]["name"] for s in world.slices() if s[
                "spec"]["claimRef"]["name"] == name and s["status"]["phase"] == "Released"],
                "its slice is retained")

        def refused(name):
            status = (api.get("elasticgpuclaims", name, "team") or {}).get("status") or {}
            return "holds 50 of 50" in status.get("message", "")
        kept_claim("one")
        retain("one")
        kept_claim("two")
        case.wait_for(lambda: refused("two"), "the quota refuses it")
        case.equal(world.given(), 50, "percent given")
        # An administrator lets the slice go, by deleting it or by taking claimRef away.
        api.delete("elasticgpus", world.slices()[0]["metadata"]["name"])
        retain("two")
        kept_claim("three")
        case.wait_for(lambda: refused("three"), "the quota refuses that as well")
        with api.lock:
            key = next(k for k, o in api.objects.items() if k[0] == "elasticgpus" and
                       o["spec"].get("claimRef", {}).get("name") == "two")
            free = json.loads(json.dumps(api.objects[key]))
            del free["spec"]["claimRef"]
            api.store(key, free, "MODIFIED")
        world.await_phase("three", "Bound")
    in_world(case, body)
