# SPDX-License-Identifier: Apache-2.0
"""A pod of several claims gets the sessions of all of them, or holds nothing while it waits."""

import json
import os
import signal

from test_kube import claim, gated_pod, in_world


def several(name, *cores, memory="64Mi"):
    """A pod with a container for each of @cores."""
    annotations = {}
    for i, core in enumerate(cores):
        requests = {"elasticgpu.io/gpu-core": core}
        if memory:
            requests["elasticgpu.io/gpu-memory"] = memory
        annotations[f"elasticgpu.io/egpuc-c{i}"] = f"{name}-c{i}"
        annotations[f"elasticgpu.io/generate-c{i}"] = json.dumps(
            {"elasticGPUClassName": "remote", "resources": {"requests": requests}})
    return gated_pod(name, annotations)


def put(world, *pods):
    for pod in pods:
        world.api.put("pods", pod)


def starts(world, name):
    pod = world.api.get("pods", name, "team")
    return pod and not pod["spec"]["schedulingGates"]


def message(world, name):
    found = world.api.get("elasticgpuclaims", name, "team") or {}
    return found.get("status", {}).get("message") or ""


def reason(world, name):
    found = world.api.get("elasticgpuclaims", name, "team") or {}
    return next((c["reason"] for c in found.get("status", {}).get("conditions", [])), None)


def begin(world):
    world.start()
    world.await_cards()


def end_pod(case, world, name):
    world.api.delete("pods", name, "team")
    case.wait_for(lambda: not any(c["metadata"]["name"].startswith(name + "-")
                                  for c in world.api.all("elasticgpuclaims")), f"{name} is gone")


def test_a_pod_that_cannot_have_all_holds_nothing(case):
    """One card is taken.  The other would do for one of the two, and somebody else needs it."""
    def body(world):
        begin(world)
        put(world, several("first", 80))
        case.wait_for(lambda: starts(world, "first"), "first starts")
        put(world, several("pair", 60, 60))
        case.wait_for(lambda: all("claim team/pair-c1: no room for 2 sessions at once: beside 1, "
                                  in message(world, f"pair-c{i}") for i in range(2)),
                      "both say why")
        case.equal(world.given(), 80, "percent given")
        case.equal((reason(world, "pair-c0"), reason(world, "pair-c1")),
                   ("NoRoom", "WaitForPodClaims"), "reasons")
        case.wait_for(lambda: any(
            e["involvedObject"]["name"] == "pair" and "gets the sessions of its claims together"
            in e["message"] for e in world.api.all("events")), "an event of the pod")
        put(world, several("single", 60))
        case.wait_for(lambda: starts(world, "single"), "who needs less is not kept from it")
        end_pod(case, world, "first")
        case.check(not starts(world, "pair"), "the pair has started with one card")
        end_pod(case, world, "single")
        case.wait_for(lambda: starts(world, "pair"), "the pair starts when both are free")
        case.equal(world.given(), 120, "percent given")
    in_world(case, body)


def test_pods_that_need_the_whole_pool_run_one_after_the_other(case):
    """Six at once, of two sessions each, on two cards."""
    def body(world):
        begin(world)
        names = [f"p{i}" for i in range(6)]
        put(world, *[several(name, 70, 70) for name in names])
        for _ in names:
            case.wait_for(lambda: any(starts(world, n) for n in names), "one has started", 30)
            running = [n for n in names if starts(world, n)]
            case.equal((len(running), world.given()), (1, 140), "running, percent given")
            end_pod(case, world, running[0])
            names = [n for n in names if n != running[0]]
        case.wait_for(lambda: world.given() == 0, "all is given back")
        case.check(not world.slices(), "slices are left")
    in_world(case, body)


def test_a_pod_whose_claim_does_not_exist_holds_nothing(case):
    """Claims of a class that waits for its consumer, by name; one of them comes later."""
    def body(world):
        world.api.put("elasticgpuclasses", {
            "metadata": {"name": "waits"}, "provisioner": "elasticgpu.io/remote",
            "eGPUBindingMode": "WaitForFirstConsumer"})
        begin(world)
        world.api.put("elasticgpuclaims", claim("one", elasticGPUClassName="waits"))
        put(world, gated_pod("user", {"elasticgpu.io/egpuc-a": "one",
                                      "elasticgpu.io/egpuc-b": "ghost"}))
        case.wait_for(lambda: message(world, "one") == "a pod gets the sessions of its claims "
                      "together: claim team/ghost: it does not exist", "the claim says so")
        case.equal((world.given(), reason(world, "one")), (0, "WaitForPodClaims"), "held")
        world.api.put("elasticgpuclaims", claim("ghost", core=20, elasticGPUClassName="waits"))
        case.wait_for(lambda: starts(world, "user"), "the pod starts")
        case.equal(world.given(), 50, "percent given")
        put(world, gated_pod("other", {"elasticgpu.io/egpuc-a": "two",
                                       "elasticgpu.io/egpuc-b": "one"}))
        world.api.put("elasticgpuclaims", claim("two", elasticGPUClassName="waits"))
        case.wait_for(lambda: message(world, "two").endswith("it is in use by pod user"),
                      "nor for one that waits for another's claim")
        case.equal(world.given(), 50, "percent given")
    in_world(case, body)


def test_a_quota_is_for_all_of_them_together(case):
    """Also of whole cards, whose memory is known when their sessions are open."""
    def body(world):
        quota = {"metadata": {"name": "gpus", "namespace": "team"}, "spec": {"hard": {
            "requests.elasticgpu.io/gpu-core": "100", "requests.elasticgpu.io/gpu-memory": "6Gi"}}}
        world.api.put("resourcequotas", quota)
        begin(world)
        put(world, several("pair", 60, 60))
        case.wait_for(lambda: reason(world, "pair-c0") == "QuotaExceeded", "the quota")
        case.check("120 more are asked for" in message(world, "pair-c0"), message(world, "pair-c0"))
        case.equal(world.given(), 0, "percent given")
        quota["spec"]["hard"]["requests.elasticgpu.io/gpu-core"] = "1000"
        world.api.put("resourcequotas", quota)
        case.wait_for(lambda: starts(world, "pair"), "the pair starts")
        end_pod(case, world, "pair")
        case.wait_for(lambda: world.given() == 0, "all is given back")
        put(world, several("cards", 100, 100, memory=None))
        case.wait_for(lambda: reason(world, "cards-c0") == "QuotaExceeded", "two of 4 GiB")
        case.wait_for(lambda: world.given() == 0, "both are given back")
        case.check(not starts(world, "cards"), "the pod has started")
    in_world(case, body)


def test_a_kill_after_any_write_leaves_no_half_of_a_pod(case):
    def body(world):
        begin(world)
        world.controller.send_signal(signal.SIGTERM)
        world.controller.wait(20)
        for number in (2, 4, 6, 9, 12):
            controller = world.start()
            start, killed, name = world.api.writes, [], f"p{number}"

            def on_write(count, controller=controller, start=start, killed=killed,
                         number=number):
                if count == start + number and not killed:
                    killed.append(count)
                    os.kill(controller.pid, signal.SIGKILL)
                    controller.wait()

            world.api.on_write = on_write
            put(world, several(name, 60, 70))
            case.wait_for(lambda n=name, k=killed: k or starts(world, n), "killed, or started")
            world.api.on_write = None
            case.check(world.given() in (0, 130), f"{world.given()} % after write {number}")
            if killed:
                world.start()
            case.wait_for(lambda n=name: starts(world, n), f"{name} starts", 20)
            case.equal((world.given(), len(world.slices())), (130, 2), "given, slices")
            end_pod(case, world, name)
            case.wait_for(lambda: world.given() == 0 and not world.slices(), "all is given back")
            world.controller.send_signal(signal.SIGTERM)
            world.controller.wait(20)
    in_world(case, body)
