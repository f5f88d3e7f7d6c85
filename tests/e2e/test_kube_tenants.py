# SPDX-License-Identifier: Apache-2.0
"""What tenants of a cluster can write of their own objects, and that it leads to nothing of
another's."""

from test_kube import claim, gated_pod, in_world


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
