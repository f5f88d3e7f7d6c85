# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: ResourceClaims that kube-scheduler itself allocates.

The cluster is as it comes, without DRAConsumableCapacity, so a card is two devices; the
cases with "shared" in their name run in a second cluster that has the gate on.
"""
import time

from cases import case, container, ended, namespace, pod, said, succeeds
from cluster import await_true

CLASS, DRIVER = "remote-gpu", "gpu.elasticgpu.io"


def remote(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})


def spec(capacity=None, **more):
    exactly = {"deviceClassName": CLASS, **more}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def resource_claim(ns, name, **more):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": ns}, "spec": spec(**more)}


def template(ns, name, **more):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": ns}, "spec": {"spec": spec(**more)}}


def user(ns, name, args, claim=None, made_of=None, containers=1):
    """A pod whose containers all use the one ResourceClaim."""
    made = [container(f"c{i}" if i else "main", args) for i in range(containers)]
    for one in made:
        one["resources"] = {"claims": [{"name": "gpu"}]}
    entry = {"name": "gpu"}
    entry.update({"resourceClaimName": claim} if claim else
                 {"resourceClaimTemplateName": made_of})
    return pod(ns, name, made, resourceClaims=[entry])


def devices(c):
    return [d for s in c.get("resourceslices") if s["spec"]["driver"] == DRIVER
            for d in s["spec"]["devices"]]


def result(c, ns, name):
    found = c.get("resourceclaim", name, ns) or {}
    results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results")
    return results[0] if results else None


def card_of(device):
    return "GPU-" + device[4:40]


def none_is_held(c):
    await_true("nothing is held", lambda: not c.slices(), 60)


@case
def dra_the_pool_is_in_resource_slices(c, ns):
    found = await_true("four devices", lambda: devices(c) if len(devices(c)) == 4 else None, 30)
    assert {card_of(d["name"]).lower() for d in found} == {
        g["metadata"]["name"] for g in c.cards()}
    assert {d["capacity"]["core"]["value"] for d in found} == {"50"}, found
    assert {d["capacity"]["memory"]["value"] for d in found} == {"2Gi"}, found
    slices = [s for s in c.get("resourceslices") if s["spec"]["driver"] == DRIVER]
    assert all(s["spec"]["allNodes"] for s in slices)


@case
def dra_a_claim_of_a_template_runs_on_the_card_that_was_allocated(c, ns):
    remote(c, ns)
    c.apply([template(ns, "half"), user(ns, "user", [2048, 1, "hold", 600], made_of="half")])
    await_true("it runs", lambda: c.get("pod", "user", ns)["status"].get("phase") == "Running",
               60)
    claim = c.get("resourceclaims", ns=ns)[0]
    got = result(c, ns, claim["metadata"]["name"])
    assert got["driver"] == DRIVER
    held = await_true("a slice is bound", lambda: c.slices()[0] if c.slices() else None, 20)
    assert [u.lower() for u in held["spec"]["remoteGPU"]["gpuUUIDs"]] == [
        card_of(got["device"]).lower()], (held["spec"], got)
    assert held["spec"]["capacity"] == {"elasticgpu.io/gpu-core": "50",
                                        "elasticgpu.io/gpu-memory": "2048Mi"}, held["spec"]
    ready = await_true("the ResourceClaim says so", lambda: (c.get(
        "resourceclaim", claim["metadata"]["name"], ns)["status"].get("devices") or [{}])[0].get(
            "conditions"), 20)
    assert (ready[0]["type"], ready[0]["status"]) == ("Ready", "True"), ready
    c.kubectl("delete", "pod", "user", "-n", ns)
    none_is_held(c)
    assert not c.get("egpuc", ns=ns)


@case
def dra_a_pod_ends_with_the_code_of_its_program(c, ns):
    remote(c, ns)
    c.apply([template(ns, "half"), user(ns, "user", [2048, 1], made_of="half")])
    p = succeeds(c, ns, "user", 90)
    assert "cards=1 mib=2048 right" in said(p), said(p)
    assert not p["spec"].get("schedulingGates")
    none_is_held(c)


@case
def dra_a_named_claim_is_shared_by_its_pods(c, ns):
    remote(c, ns)
    c.apply(resource_claim(ns, "ours"))
    c.apply(user(ns, "first", [2048, 1, "hold", 600], claim="ours"))
    await_true("it runs", lambda: c.get("pod", "first", ns)["status"].get("phase") == "Running",
               60)
    c.apply(user(ns, "second", [2048, 1], claim="ours"))
    p = await_true("it ends", lambda: ended(c, ns, "second"), 60)
    assert "2048" in said(p), said(p)
    assert len(c.slices()) == 1
    c.kubectl("delete", "pod", "first", "-n", ns)
    none_is_held(c)  # deallocated by Kubernetes when nobody had reserved it any more


@case
def dra_every_device_is_given_once(c, ns):
    """Six pods for four devices: two wait for kube-scheduler until others have ended."""
    remote(c, ns)
    c.apply([template(ns, "half")] + [
        user(ns, f"p{i}", [2048, 1, "hold", 600], made_of="half") for i in range(6)])

    def running():
        return [p for p in c.get("pods", ns=ns) if p["status"].get("phase") == "Running"]
    await_true("four run", lambda: len(running()) == 4, 90)
    await_true("four sessions", lambda: len(c.slices()) == 4, 30)
    time.sleep(3)
    assert len(running()) == 4 and len(c.slices()) == 4
    c.kubectl("delete", "pod", *[p["metadata"]["name"] for p in running()[:2]], "-n", ns)
    await_true("the two others run", lambda: len(running()) == 4, 90)
    c.kubectl("delete", "pods", "--all", "-n", ns)
    none_is_held(c)


@case
def dra_other_sessions_are_taken_off_what_is_published(c, ns):
    remote(c, ns)
    c.apply(pod(ns, "card", container(args=[4096, 1, "hold", 600],
                                      resources={"nvidia.com/gpu": 1})))
    await_true("two devices are left", lambda: len(devices(c)) == 2, 60)
    c.kubectl("delete", "pod", "card", "-n", ns)
    await_true("all four again", lambda: len(devices(c)) == 4, 60)
    c.free()


@case
def dra_what_is_refused(c, ns):
    remote(c, ns)
    words = c.apply(user(ns, "early", [0, 0], claim="nobody"), check=False)
    assert "there is no ResourceClaim nobody" in words, words
    c.apply([resource_claim(ns, "a"), resource_claim(ns, "b")])
    both = user(ns, "both", [0, 0], claim="a")
    both["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "b"})
    both["spec"]["containers"][0]["resources"]["claims"].append({"name": "more"})
    words = c.apply(both, check=False)
    assert "a container has one session" in words, words
    mixed = user(ns, "mixed", [0, 0], claim="a")
    mixed["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 1}
    words = c.apply(mixed, check=False)
    assert "one of them is enough" in words, words


@case
def dra_a_kubelet_without_the_plug_in_says_what_it_waits_for(c, ns):
    """Before Kubernetes 1.37 nothing else is possible; the session is there all the same."""
    remote(c, ns)
    c.kubectl("patch", "daemonset", "gpupool-node-plugin", "-n", c.ns, "-p",
              '{"spec":{"template":{"spec":{"nodeSelector":{"no":"where"}}}}}')
    try:
        await_true("the plug-in is gone", lambda: not any(
            p["metadata"]["name"].startswith("gpupool-node-plugin")
            for p in c.get("pods", ns=c.ns)), 60)
        c.apply([template(ns, "half"), user(ns, "user", [2048, 1], made_of="half")])
        await_true("the kubelet says why", lambda: [
            e for e in c.get("events", ns=ns) if f"DRA driver {DRIVER} is not registered"
            in e["message"]], 60)
        await_true("the session is there", lambda: len(c.slices()) == 1, 20)
    finally:
        c.kubectl("patch", "daemonset", "gpupool-node-plugin", "-n", c.ns, "--type=json", "-p",
                  '[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]')
    succeeds(c, ns, "user", 150)
    none_is_held(c)


# ------------------------------------------------- with DRAConsumableCapacity

@case
def shared_dra_devices_are_held_in_parts(c, ns):
    remote(c, ns)
    found = await_true("two devices", lambda: devices(c) if len(devices(c)) == 2 else None, 30)
    assert all(d["allowMultipleAllocations"] for d in found), found
    assert {d["capacity"]["core"]["value"] for d in found} == {"100"}, found
    c.apply([template(ns, "third", capacity={"core": "30", "memory": "1Gi"})] + [
        user(ns, f"p{i}", [1024, 1, "hold", 600], made_of="third") for i in range(7)])

    def running():
        return [p for p in c.get("pods", ns=ns) if p["status"].get("phase") == "Running"]
    await_true("three on each card", lambda: len(running()) == 6, 120)
    await_true("six sessions", lambda: len(c.slices()) == 6, 30)
    for claim in c.get("resourceclaims", ns=ns):
        got = result(c, ns, claim["metadata"]["name"])
        if got:
            assert got["consumedCapacity"]["core"] == "30", got
            stand_in = next(e for e in c.get("elasticgpuclaims", ns=ns)
                            if e["metadata"]["labels"]["elasticgpu.io/resource-claim-uid"]
                            == claim["metadata"]["uid"])
            held = [s for s in c.slices() if s["spec"]["claimRef"]["uid"]
                    == stand_in["metadata"]["uid"]]
            assert held[0]["spec"]["remoteGPU"]["gpuUUIDs"][0].lower() == card_of(
                got["device"]).lower()
            assert held[0]["spec"]["capacity"]["elasticgpu.io/gpu-core"] == "30"
    time.sleep(3)
    assert len(running()) == 6, "the seventh waits for kube-scheduler"
    c.kubectl("delete", "pod", running()[0]["metadata"]["name"], "-n", ns)
    await_true("the seventh runs", lambda: len(running()) == 6, 90)
    c.kubectl("delete", "pods", "--all", "-n", ns)
    none_is_held(c)


@case
def shared_dra_pods_run_their_programs(c, ns):
    remote(c, ns)
    c.apply([template(ns, "some", capacity={"core": "25", "memory": "512Mi"}),
             user(ns, "one", [512, 1], made_of="some"),
             user(ns, "two", [512, 1], made_of="some")])
    for name in ("one", "two"):
        succeeds(c, ns, name, 90)
    none_is_held(c)
