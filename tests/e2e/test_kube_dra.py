# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: ResourceSlices that the controller publishes, and the sessions of
ResourceClaims, against the double of the API server."""

import os
import signal

from test_kube import claim, gated_pod, in_world


def resource_claim(name, device, pool="node-a", consumed=None, **meta):
    result = {"request": "gpu", "driver": "gpu.elasticgpu.io", "pool": pool, "device": device}
    if consumed:
        result.update(consumedCapacity=consumed, shareID="s1")
    return {"metadata": {"name": name, "namespace": "team", **meta}, "spec": {}, "status": {
        "allocation": {"devices": {"results": [result], "config": [
            {"opaque": {"driver": "gpu.elasticgpu.io", "parameters": {"class": "remote"}}}]}}}}


def devices(world):
    return [d for s in world.api.all("resourceslices") for d in s["spec"]["devices"]]


def card_of(device):
    return "GPU-" + device[4:40]


def test_a_resource_claim_gets_a_session_on_the_card_that_was_allocated(case):
    def body(world):
        api = world.api
        world.start("--dra", "--dra-parts", "4")
        world.await_cards()
        case.wait_for(lambda: len(devices(world)) == 8, "four devices a card")
        case.equal({d["capacity"]["core"]["value"] for d in devices(world)}, {"25"}, "percent")
        case.check(not any("allowMultipleAllocations" in d for d in devices(world)), "shared")
        last = devices(world)[-1]["name"]
        api.put("resourceclaims", resource_claim("train", last))
        world.await_phase("dra-train", "Bound")
        held = world.slices()[0]
        case.equal([u.lower() for u in held["spec"]["remoteGPU"]["gpuUUIDs"]],
                   [card_of(last).lower()], "the card")
        case.equal(held["spec"]["capacity"], {"elasticgpu.io/gpu-core": "25",
                                              "elasticgpu.io/gpu-memory": "1024Mi"}, "amounts")
        case.wait_for(lambda: (api.get("resourceclaims", "train", "team")["status"].get(
            "devices") or [{}])[0].get("conditions", [{}])[0].get("status") == "True",
            "the ResourceClaim says that it is ready")
        case.equal(len(devices(world)), 8, "what its own claims hold stays published")

        # Deallocated: the session ends.
        freed = api.get("resourceclaims", "train", "team")
        freed["status"] = {}
        api.put("resourceclaims", freed)
        case.wait_for(lambda: not world.slices() and world.given() == 0, "it is given back")
        case.wait_for(lambda: not api.all("elasticgpuclaims"), "nothing stands for it")
    in_world(case, body)


def test_shared_devices_and_what_other_sessions_leave_of_them(case):
    def body(world):
        api = world.api
        api.gates.add("DRAConsumableCapacity")
        world.start("--dra")
        world.await_cards()
        case.wait_for(lambda: len(devices(world)) == 2, "a device a card")
        case.check(all(d["allowMultipleAllocations"] for d in devices(world)), "not shared")
        name = devices(world)[0]["name"]
        for i in range(2):
            api.put("resourceclaims", resource_claim(
                f"c{i}", name, consumed={"core": "30", "memory": "512Mi", "slices": "1"}))
            world.await_phase(f"dra-c{i}", "Bound")
        case.equal(world.given(), 60, "percent given")
        case.equal({s["spec"]["remoteGPU"]["gpuUUIDs"][0].lower() for s in world.slices()},
                   {card_of(name).lower()}, "both on the one card")
        world.api.put("elasticgpuclaims", claim("other", core=20))
        world.await_phase("other", "Bound")
        taken = [s for s in world.slices() if s["spec"]["claimRef"]["name"] == "other"]
        theirs = taken[0]["spec"]["remoteGPU"]["gpuUUIDs"][0].lower()
        case.wait_for(lambda: {d["name"]: d["capacity"]["core"]["value"] for d in devices(world)}
                      == {d["name"]: "80" if card_of(d["name"]).lower() == theirs else "100"
                          for d in devices(world)}, "its 20 percent are taken off")
        # More than there is: kube-scheduler knew an older state.
        api.put("resourceclaims", resource_claim(
            "late", name, consumed={"core": "90", "memory": "512Mi", "slices": "1"}))
        world.await_phase("dra-late", "Pending")
        case.wait_for(lambda: (api.get("resourceclaims", "late", "team")["status"].get(
            "devices") or [{}])[0].get("conditions", [{}])[0].get("reason") == "NoRoom",
            "the ResourceClaim says why")
        case.equal(world.given(), 80, "percent given")
    in_world(case, body)


def test_a_resource_claim_survives_a_kill_after_any_write(case):
    def body(world):
        world.start("--dra")
        world.await_cards()
        case.wait_for(lambda: len(devices(world)) == 2, "a device a card")
        for number in range(1, 7):
            start, killed = world.api.writes, []

            def on_write(count, number=number, start=start, killed=killed):
                if count == start + number and not killed:
                    killed.append(count)
                    os.kill(world.controller.pid, signal.SIGKILL)
                    world.controller.wait()

            world.api.on_write = on_write
            name = f"c{number}"
            world.api.put("resourceclaims", resource_claim(name, devices(world)[0]["name"]))
            case.wait_for(lambda: killed or world.phase(f"dra-{name}") == "Bound", "killed or bound")
            world.api.on_write = None
            if killed:
                world.start("--dra")
            world.await_phase(f"dra-{name}", "Bound")
            case.equal((world.given(), len(world.slices())), (100, 1), f"after write {number}")
            world.api.delete("resourceclaims", name, "team")
            case.wait_for(lambda: not world.slices() and world.given() == 0
                          and not world.api.all("elasticgpuclaims"), "everything is given back")
    in_world(case, body)


def test_what_stands_for_no_resource_claim_is_not_counted_as_allocated(case):
    """Claims that only have the label of one that stands for a ResourceClaim: their sessions
    are taken off what is published, as those of any claim."""
    def body(world):
        api = world.api
        api.gates.add("DRAConsumableCapacity")
        world.start("--dra")
        world.await_cards()
        case.wait_for(lambda: len(devices(world)) == 2, "a device a card")
        name = devices(world)[0]["name"]
        api.put("resourceclaims", resource_claim(
            "true", name, consumed={"core": "10", "memory": "512Mi", "slices": "1"}))
        world.await_phase("dra-true", "Bound")
        uid = api.get("resourceclaims", "true", "team")["metadata"]["uid"]
        made = claim("false", core=50)
        made["metadata"].update(
            labels={"elasticgpu.io/resource-claim-uid": uid},
            annotations={"elasticgpu.io/resource-claim": "true",
                         "elasticgpu.io/card": card_of(name)})
        api.put("elasticgpuclaims", made)
        case.wait_for(lambda: not api.get("elasticgpuclaims", "false", "team")
                      or world.phase("false") == "Bound", "it is gone, or bound")
        case.wait_for(lambda: not api.get("elasticgpuclaims", "false", "team") or next(
            d for d in devices(world) if d["name"] == name)["capacity"]["core"]["value"] == "50",
            "it is not held, or taken off")
    in_world(case, body)


def test_a_resource_claim_that_is_allocated_anew_gets_the_new_device(case):
    """It keeps its uid: deallocated when its pods had ended, and allocated for the next one,
    before the controller saw it free."""
    def body(world):
        api = world.api
        world.start("--dra")
        world.await_cards()
        case.wait_for(lambda: len(devices(world)) == 2, "a device a card")
        names = sorted(d["name"] for d in devices(world))
        api.put("resourceclaims", resource_claim("train", names[0]))
        world.await_phase("dra-train", "Bound")
        uid = api.get("resourceclaims", "train", "team")["metadata"]["uid"]

        def allocate(device):
            api.put("resourceclaims", resource_claim("train", device, uid=uid))

        def await_card(device, words):
            case.wait_for(lambda: [u.lower() for s in world.slices()
                                   for u in s["spec"]["remoteGPU"]["gpuUUIDs"]]
                          == [card_of(device).lower()], words, 20)
            world.await_phase("dra-train", "Bound")
            case.equal(world.given(), 100, f"percent given: {words}")
        allocate(names[1])
        await_card(names[1], "the other card")
        # While no controller looks, and a pod uses it already.
        world.controller.send_signal(signal.SIGTERM)
        world.controller.wait(20)
        pod = gated_pod("next", {"elasticgpu.io/egpuc-main": "dra-train",
                                 "elasticgpu.io/dra-gpu": "dra-train"})
        pod["spec"]["schedulingGates"] = []
        api.put("pods", pod)
        allocate(names[0])
        world.start("--dra")
        await_card(names[0], "the first card again")
        # Seen free, and allocated while what stood for it is on its way out.
        for device in (names[1], names[0]) * 3:
            freed = api.get("resourceclaims", "train", "team")
            freed["status"] = {}
            api.put("resourceclaims", freed)
            case.wait_for(lambda: not api.get("elasticgpuclaims", "dra-train", "team") or api.get(
                "elasticgpuclaims", "dra-train", "team")["metadata"].get("deletionTimestamp"),
                "it is deleted")
            allocate(device)
            await_card(device, "the card of the next allocation")
    in_world(case, body)


def offered(world):
    """Percent of a card that a request may get, by the card's uuid in small letters."""
    return {card_of(d["name"]).lower(): int(d["capacity"]["core"]["value"])
            for d in devices(world)}


def test_cards_that_take_no_new_sessions_are_not_offered(case):
    """A card, and then a server, that an administrator keeps from new sessions: what
    ResourceClaims hold there stays published, and nothing else."""
    def body(world):
        api = world.api
        api.gates.add("DRAConsumableCapacity")
        world.start("--dra", "--legacy-gpus")
        world.await_cards()
        case.wait_for(lambda: len(devices(world)) == 2, "a device a card")
        first, second = sorted(card_of(d["name"]).lower() for d in devices(world))
        api.put("resourceclaims", resource_claim("train", "gpu-" + first[4:], consumed={
            "core": "30", "memory": "512Mi", "slices": "1"}))
        world.await_phase("dra-train", "Bound")

        def order(*words):
            case.run([case.build / "bin/gpupool", *words, "--scheduler", world.address,
                      "--token-file", world.token])

        def card(uuid, resource="elasticgpus"):
            return next(c["status"] for c in api.all(resource)
                        if c["metadata"]["name"] == uuid)

        def await_card(uuid, phase, reason, core):
            case.wait_for(lambda: (card(uuid)["phase"], card(uuid)["reason"], card(uuid)[
                "allocatable"]["elasticgpu.io/gpu-core"]) == (phase, reason, core),
                f"card {uuid}: {phase}, {reason}, {core}")
        case.wait_for(lambda: offered(world) == {first: 100, second: 100}, "all is offered")
        for uuid, left in ((first, {first: 30, second: 100}), (second, {first: 30})):
            order("cordon", "node-a/GPU-" + uuid[4:])
            case.wait_for(lambda left=left: offered(world) == left, f"offered without {uuid}")
            await_card(uuid, "Pending", "CardCordoned", "0")
            case.wait_for(lambda uuid=uuid: card(uuid, "gpus")["state"] == "Draining",
                          "the GPU object says so")
        order("uncordon", "node-a/GPU-" + first[4:])
        order("uncordon", "node-a/GPU-" + second[4:])
        case.wait_for(lambda: offered(world) == {first: 100, second: 100}, "all is again")
        await_card(first, "Available", "ServerAlive", "70")
        order("drain", "node-a")
        case.wait_for(lambda: offered(world) == {first: 30}, "offered while it drains")
        await_card(second, "Pending", "ServerDraining", "0")
    in_world(case, body)
