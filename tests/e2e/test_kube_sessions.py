# SPDX-License-Identifier: Apache-2.0
"""Sessions of claims that end, or are ended, otherwise than the controller meant, against the
double of the API server."""

from test_kube import claim, gated_pod, in_world


def admin(case, world, *words):
    return case.run([case.build / "bin/gpupool", *words, "--scheduler", world.address,
                     "--token-file", world.token])


def session_of(world, name):
    return world.api.get("elasticgpuclaims", name, "team")["status"].get("session")


def reasons(world, kind):
    return [e["reason"] for e in world.api.all("events") if e["involvedObject"]["kind"] == kind]


def test_a_session_that_somebody_ended_is_noticed_long_before_its_lease_is_over(case):
    """The lease is an hour, and is renewed when half of it is over."""
    def body(world):
        world.start()
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        first = session_of(world, "one")
        case.check("closed" in admin(case, world, "close", first).out, "it is closed")
        case.wait_for(lambda: session_of(world, "one") not in (None, first),
                      "the claim has another session", 20)
        case.equal(world.phase("one"), "Bound", "the claim")
        case.wait_for(lambda: [s["spec"]["remoteGPU"]["session"] for s in world.slices()]
                      == [session_of(world, "one")], "its slice says so")
        case.wait_for(lambda: "SessionEnded" in reasons(world, "ElasticGPUClaim"), "an event")
    in_world(case, body)


def test_a_claim_whose_session_ended_without_room_for_another_shows_it_everywhere(case):
    def body(world):
        api = world.api
        world.start()
        world.await_cards()
        api.put("pods", gated_pod("user", {"elasticgpu.io/egpuc-main": "one"}))
        api.put("elasticgpuclaims", claim("one"))
        case.wait_for(lambda: not api.get("pods", "user", "team")["spec"]["schedulingGates"],
                      "the gate is lifted")
        first = session_of(world, "one")
        admin(case, world, "cordon", "node-a")
        admin(case, world, "close", first)
        case.wait_for(lambda: world.phase("one") == "Lost", "the claim is lost", 20)
        case.check(not session_of(world, "one"), "it names a session")

        def slice_status():
            return world.slices()[0]["status"]
        case.wait_for(lambda: (slice_status()["phase"], slice_status()["reason"])
                      == ("Failed", "SessionLost"), "its slice has failed")
        case.equal(slice_status()["pods"], [], "the pods that use it")
        case.wait_for(lambda: "GPULost" in reasons(world, "Pod"), "an event of its pod")
        admin(case, world, "uncordon", "node-a")
        case.wait_for(lambda: world.phase("one") == "Bound", "it is bound again", 20)
        case.wait_for(lambda: slice_status()["phase"] == "Bound", "and so is its slice")
    in_world(case, body)
