# SPDX-License-Identifier: Apache-2.0
"""Sessions of claims that end, or are ended, otherwise than the controller meant, against the
double of the API server."""

import json
import os
import signal

from test_kube import CLASS, Listener, claim, gated_pod, in_world


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


def restart_scheduler(case, world, name):
    """Kill it, with all that it has not read, and start it with the same state."""
    os.kill(world.scheduler.pid, signal.SIGKILL)
    world.scheduler.wait()
    ready = case.folder / name
    world.scheduler = world.add_scheduler(world.address, ready)
    case.wait_for(ready.exists, "the scheduler listens again")


def test_a_session_that_a_silent_scheduler_did_not_close_is_closed_later(case):
    """It is stopped when the claim is deleted, and killed before it reads the request."""
    def body(world):
        world.start("--lease-s", "60")
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        os.kill(world.scheduler.pid, signal.SIGSTOP)
        world.api.delete("elasticgpuclaims", "one", "team")
        log = case.folder / "spawned.err"
        case.wait_for(lambda: "work: c:team/one" in log.read_text()
                      or not world.api.all("elasticgpuclaims"), "the controller gives up for now")
        restart_scheduler(case, world, "again.ready")
        case.wait_for(lambda: world.given() == 0, "it is given back", 30)
        case.wait_for(lambda: not world.slices() and not world.api.all("elasticgpuclaims"),
                      "everything is gone")
    in_world(case, body)


def test_a_session_whose_answer_was_lost_is_ended_with_its_claim(case):
    """The scheduler opened it, and the controller does not know."""
    def body(world):
        listener = Listener(world.address)
        world.address, true = listener.address, world.address
        world.start("--lease-s", "60")
        world.await_cards()
        world.address = true
        listener.mute = True
        world.api.put("elasticgpuclaims", claim("one"))
        case.wait_for(lambda: world.given() == 30, "the session is open")
        log = case.folder / "spawned.err"
        case.wait_for(lambda: "work: c:team/one" in log.read_text(), "nobody has answered")
        tries = log.read_text().count("work: c:team/one")
        world.api.delete("elasticgpuclaims", "one", "team")
        case.wait_for(lambda: log.read_text().count("work: c:team/one") > tries + 1
                      or not world.api.all("elasticgpuclaims"), "the deletion is seen")
        listener.mute = False
        case.wait_for(lambda: not world.api.all("elasticgpuclaims"), "the claim is gone")
        case.wait_for(lambda: world.given() == 0, "it is given back", 20)
        listener.socket.close()
    in_world(case, body)


def test_a_session_over_the_quota_that_could_not_be_closed_binds_no_claim(case):
    """Whole cards bring their memory, which is known when the session is open."""
    def body(world):
        api = world.api
        api.put("resourcequotas", {"metadata": {"name": "gpus", "namespace": "team"}, "spec": {
            "hard": {"requests.elasticgpu.io/gpu-memory": "1Gi"}}})
        listener = Listener(world.address)
        world.address, true = listener.address, world.address
        world.start("--lease-s", "60")
        world.await_cards()
        world.address = true
        made = claim("one", core=100)
        del made["spec"]["resources"]["requests"]["elasticgpu.io/gpu-memory"]
        listener.limit = 1  # the request that opens it, and not the one that closes it
        api.put("elasticgpuclaims", made)
        case.wait_for(lambda: world.given() == 100, "the session is open")
        case.wait_for(lambda: listener.limit == 0, "it was to be closed")
        listener.limit = None
        api.put("elasticgpuclasses", dict(CLASS, note="so that what waits is looked at again"))
        case.wait_for(lambda: world.given() == 0, "it is given back", 20)
        case.wait_for(lambda: world.phase("one") == "Pending", "the claim waits")
        case.contains(api.get("elasticgpuclaims", "one", "team")["status"]["message"],
                      "ResourceQuota gpus", "why")
        listener.socket.close()
    in_world(case, body)


def test_a_retained_slice_recovers_when_there_is_room_again(case):
    """Its session is lost with its server, and there is no other; then there is."""
    def body(world):
        api = world.api
        api.put("elasticgpuclasses", dict(CLASS, metadata={"name": "kept"},
                                          reclaimPolicy="Retain"))
        world.start("--server-grace-s", "1")
        world.await_cards()
        made = claim("one", core=100)
        made["spec"]["elasticGPUClassName"] = "kept"
        api.put("elasticgpuclaims", made)
        world.await_phase("one", "Bound")
        api.delete("elasticgpuclaims", "one", "team")

        def status():
            return world.slices()[0]["status"]
        case.wait_for(lambda: status()["phase"] == "Released", "it is retained")
        first = world.slices()[0]["spec"]["remoteGPU"]["session"]
        os.kill(world.server.pid, signal.SIGKILL)
        world.server.wait()
        case.wait_for(lambda: (status()["phase"], status()["reason"])
                      == ("Failed", "SessionLost"), "its session is lost")
        world.others.append(world.add_server("node-b"))
        case.wait_for(lambda: status()["phase"] == "Released", "it has a session again", 20)
        spec = world.slices()[0]["spec"]
        case.equal((spec["nodeName"], spec["remoteGPU"]["server"]), ("node-b", "node-b"),
                   "where it is")
        case.check(spec["remoteGPU"]["session"] != first, "the session is the one that was lost")
        cards = [u for c in world.cards() if c["spec"]["nodeName"] == "node-b"
                 for u in c["spec"]["remoteGPU"]["gpuUUIDs"]]
        case.check(spec["remoteGPU"]["gpuUUIDs"][0] in cards, "the card is of another server")
        condition = status()["conditions"][0]
        case.equal((condition["type"], condition["status"]), ("Ready", "True"), "the condition")
        api.delete("elasticgpus", world.slices()[0]["metadata"]["name"])
        case.wait_for(lambda: not world.slices() and world.given() == 0, "it is given back")
    in_world(case, body, ("--heartbeat-ms", "200"))


def test_a_controller_that_gets_the_lease_back_looks_at_everything_again(case):
    """It was stopped while another one worked and gave the lease back: what it knows of
    sessions is old, and is neither written anywhere nor told to anybody."""
    def body(world):
        def session():
            return world.api.get("elasticgpuclaims", "one", "team")["status"]["session"]

        def holder():
            return (world.api.get("leases", "gpupool-controller", "pool") or
                    {"spec": {}})["spec"].get("holderIdentity", "")

        def ended():
            return [e["message"] for e in world.api.all("events") if e["reason"] == "SessionEnded"]
        first = world.start()
        world.await_cards()
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        before, name = session(), holder()
        first.send_signal(signal.SIGSTOP)
        second = world.start()
        case.wait_for(lambda: holder() not in ("", name), "another one has the lease")
        admin(case, world, "close", before)
        case.wait_for(lambda: world.phase("one") == "Bound" and session() != before,
                      "it opens another session")
        told = ended()
        second.send_signal(signal.SIGTERM)
        case.equal(second.wait(20), 0, "exit status")
        after = world.api.revision
        first.send_signal(signal.SIGCONT)
        world.controller = first
        case.wait_for(lambda: holder() == name, "the first has the lease again")
        world.api.put("elasticgpuclaims", claim("two"))
        world.await_phase("two", "Bound")
        written = [json.loads(text) for revision, resource, _, text in world.api.history
                   if revision > after and resource in ("elasticgpuclaims", "elasticgpus")]
        case.check(not [o for o in written if before in json.dumps(o)], "the old session is written")
        case.equal(ended(), told, "what is said of ended sessions")
        case.equal(world.given(), 60, "percent given")
    in_world(case, body)
