# SPDX-License-Identifier: Apache-2.0
"""Claims that wait have places in the scheduler's queue: who came first is served first, and
what asks for much is not starved by what asks for little."""

import json
import signal
import time

from test_kube import claim, in_world
from test_kube_replicas import etcd_of_one, leader_in
from test_kube_together import end_pod, several, starts


def rules(case):
    """Cards are kept for who has waited a second."""
    path = case.folder / "rules"
    path.write_text("[queue]\nreserve-after = 1s\n")
    return ("--rules", path)


def put(world, name, core, **spec):
    world.api.put("elasticgpuclaims", claim(name, core=core, memory="64Mi", **spec))


def begin(world, **cores):
    """Claims that are bound, one after the other."""
    world.start()
    world.await_cards()
    for name, core in cores.items():
        put(world, name, core)
        world.await_phase(name, "Bound")


def message(world, name):
    found = world.api.get("elasticgpuclaims", name, "team") or {}
    return found.get("status", {}).get("message") or ""


def waiters(case, world):
    done = case.run([case.build / "bin/gpupool", "queue", "--json", "--scheduler", world.address,
                     "--token-file", world.token])
    return json.loads(done.out)["requests"]


def programs(case, world):
    return [waiter["program"] for waiter in waiters(case, world)]


def await_places(case, world, n):
    case.wait_for(lambda: len(waiters(case, world)) == n, f"{n} places are taken")


def sessions(case, world):
    done = case.run([case.build / "bin/gpupool", "status", "--json", "--scheduler",
                     world.address, "--token-file", world.token])
    return [s["name"] for s in json.loads(done.out)["sessions"]]


def delete(world, name):
    world.api.delete("elasticgpuclaims", name, "team")


def test_a_large_claim_is_not_starved_by_small_ones(case):
    """Both cards have two halves.  Whenever one is given back a small claim wants it, so a whole
    card would never be free; one is kept for the large claim instead."""
    def body(world):
        begin(world, a0=50, a1=50, b0=50, b1=50)
        put(world, "large", 100)
        await_places(case, world, 1)
        case.wait_for(lambda: waiters(case, world)[0]["held_cards"], "a card is kept for it")
        kept = {waiter["program"]: waiter["held_cards"] for waiter in waiters(case, world)}
        case.equal(len(kept["team/large"]), 1, "cards that are kept")
        pairs = {}
        for gpu in world.slices():
            pairs.setdefault(gpu["spec"]["remoteGPU"]["gpuUUIDs"][0], []).append(gpu["spec"]["claimRef"]["name"])
        first, second = pairs[kept["team/large"][0]]
        put(world, "small", 50)
        await_places(case, world, 2)
        delete(world, first)
        case.wait_for(lambda: world.given() == 150, "a half is given back")
        case.equal(world.phase("small"), "Pending", "the small claim while the half is kept")
        delete(world, second)
        world.await_phase("large", "Bound")
        case.equal(world.phase("small"), "Pending", "the small claim")
        case.equal(world.given(), 200, "percent given")
        delete(world, "large")
        world.await_phase("small", "Bound")
        await_places(case, world, 0)
    in_world(case, body, rules(case))


def test_who_came_first_is_served_first(case):
    def body(world):
        begin(world, a=100, b=100)
        for i in range(4):
            put(world, f"w{i}", 60)
            await_places(case, world, i + 1)
        case.check(message(world, "w0").startswith("waits at place 1 of "), message(world, "w0"))
        delete(world, "a")
        world.await_phase("w0", "Bound")
        put(world, "w4", 60)  # as soon as there is room, before those that wait are looked at
        delete(world, "b")
        world.await_phase("w1", "Bound")
        delete(world, "w0")
        world.await_phase("w2", "Bound")
        case.equal([world.phase(f"w{i}") for i in (3, 4)], ["Pending"] * 2, "who came last")
    in_world(case, body)


def test_a_claim_that_is_deleted_leaves_the_queue_and_no_session(case):
    def body(world):
        begin(world, a=100, b=100)
        for i in range(3):
            put(world, f"w{i}", 100)
        await_places(case, world, 3)
        delete(world, "w1")
        await_places(case, world, 2)
        # Served in the moment in which it is deleted, or not.
        delete(world, "a")
        delete(world, "w0")
        world.await_phase("w2", "Bound")
        delete(world, "w2")
        delete(world, "b")
        case.wait_for(lambda: world.given() == 0 and not sessions(case, world), "nothing is held")
        await_places(case, world, 0)
    in_world(case, body)


def await_words(case, world, *names):
    """The controller has read where each claim waits, and with that the signed place with which it
    comes back; a scheduler that ends may take back what was not read."""
    for name in names:
        case.wait_for(lambda name=name: message(world, name).startswith("waits at place "),
                      f"where {name} waits")


def look_without_scheduler(case, world, name):
    """The controller looks at the claim and hears from no scheduler."""
    seen = world.api.get("elasticgpuclaims", name, "team")
    seen["metadata"].setdefault("annotations", {})["example.com/seen"] = "again"
    world.api.put("elasticgpuclaims", seen)
    case.wait_for(lambda: "not reachable" in message(world, name), "nobody answers")


def restart_scheduler(case, world, meanwhile=lambda: None):
    world.scheduler.send_signal(signal.SIGTERM)
    world.scheduler.wait(20)
    (case.folder / "sched.ready").unlink()
    meanwhile()
    world.scheduler = world.add_scheduler(world.address, case.folder / "sched.ready")
    case.wait_for((case.folder / "sched.ready").exists, "the scheduler is back")


def test_places_outlast_controller_and_scheduler(case):
    """A controller that is killed leaves its places to the next, which takes them in the order
    in which the claims were made; a scheduler that starts again gives them back."""
    def body(world):
        begin(world, a=100, b=100)
        for i, name in enumerate(("zoe", "bob", "amy")):
            made = claim(name, core=100, memory="64Mi")
            made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{i}Z"
            world.api.put("elasticgpuclaims", made)
            await_places(case, world, i + 1)
        world.controller.kill()
        world.controller.wait()
        world.start()
        await_places(case, world, 0)
        await_places(case, world, 3)
        order = ["team/zoe", "team/bob", "team/amy"]
        case.equal(programs(case, world), order, "the order")
        restart_scheduler(case, world)
        await_places(case, world, 3)
        case.equal(programs(case, world), order, "the order")
        delete(world, "a")
        world.await_phase("zoe", "Bound")
        case.equal([world.phase(name) for name in ("bob", "amy")], ["Pending"] * 2, "the others")
        case.equal(len(sessions(case, world)), 2, "sessions")
    in_world(case, body)


def test_places_are_kept_when_another_scheduler_leads(case):
    etcd = etcd_of_one(case)

    def body(world):
        begin(world, a=100, b=100)
        names = ("zoe", "bob", "amy")
        for i, name in enumerate(names):
            put(world, name, 100)
            await_places(case, world, i + 1)
        await_words(case, world, *names)
        first = leader_in(etcd)
        schedulers = dict(zip(world.address.split(","), [world.scheduler, *world.others]))
        schedulers[first].kill()
        case.wait_for(lambda: leader_in(etcd) not in ("", first), "another one leads")
        world.address = leader_in(etcd)
        await_places(case, world, 3)
        case.equal(programs(case, world), [f"team/{name}" for name in names], "the order")
        delete(world, "a")
        world.await_phase("zoe", "Bound")
        case.equal([world.phase(name) for name in names[1:]], ["Pending"] * 2, "the others")
        case.equal(len(sessions(case, world)), 2, "sessions")
    in_world(case, body, scheduler=("--etcd", etcd, "--etcd-lease-s", "2"), replicas=2)


def test_no_namespace_keeps_others_out_of_the_queue(case):
    def body(world):
        begin(world, a=100, b=100)
        for i in range(33):
            put(world, f"w{i:02}", 100)
            case.wait_for(lambda i=i: message(world, f"w{i:02}"), "it waits")
        await_places(case, world, 32)
        made = claim("other", core=100, memory="64Mi")
        made["metadata"]["namespace"] = "others"
        world.api.put("elasticgpuclaims", made)
        case.wait_for(lambda: "others/other" in programs(case, world), "it has a place")
        taken = programs(case, world)
        case.equal(len(taken), 32, "places")
        case.equal([f"team/w{i:02}" for i in range(33) if f"team/w{i:02}" not in taken],
                   ["team/w31", "team/w32"], "who has none")
    in_world(case, body)


def test_a_claim_that_gets_no_place_keeps_others_from_none(case):
    """The quota never allows the one, so the scheduler does not let it wait."""
    path = case.folder / "rules"
    path.write_text("[tenant cluster]\nowners = kube:*\ncore = 50\n")

    def body(world):
        begin(world, a=50)
        put(world, "never", 100)
        case.wait_for(lambda: message(world, "never"), "it waits")
        time.sleep(1)  # for the refusal of a place
        put(world, "next", 50)
        case.wait_for(lambda: programs(case, world) == ["team/next"], "the other has a place", 8)
        delete(world, "a")
        world.await_phase("next", "Bound")
    in_world(case, body, ("--rules", path))


def test_more_claims_than_places_wait_in_order(case):
    def body(world):
        begin(world, a=100, b=100)
        names = [f"w{i:02}" for i in range(40)]
        for name in names:
            put(world, name, 100)
            case.wait_for(lambda name=name: message(world, name), f"{name} waits")
        await_places(case, world, 32)
        bound = {"a", "b"}
        for name in names:
            delete(world, bound.pop())
            world.await_phase(name, "Bound")
            bound.add(name)
    in_world(case, body)


def test_a_pod_of_two_cards_is_not_starved_by_small_claims(case):
    """Both cards have two halves.  Whenever one is given back a small claim wants it."""
    def body(world):
        begin(world, a0=50, a1=50, b0=50, b1=50)
        world.api.put("pods", several("large", 100, 100))
        await_places(case, world, 2)
        case.wait_for(lambda: all(w["held_cards"] for w in waiters(case, world)),
                      "cards are kept for both")
        case.wait_for(lambda: "waits at place " in message(world, "large-c0"), "it says so")
        case.equal(message(world, "large-c1"), message(world, "large-c0"), "words of the other")
        for name in ("s0", "s1"):
            put(world, name, 50)
            await_places(case, world, 3 + int(name[1]))
        for name in ("a0", "b0", "a1"):
            delete(world, name)
            case.wait_for(lambda: not (world.api.get("elasticgpuclaims", name, "team") or {}),
                          f"{name} is gone")
        case.wait_for(lambda: world.given() == 50, "halves are given back")
        case.equal([world.phase(name) for name in ("s0", "s1")], ["Pending"] * 2, "small claims")
        delete(world, "b1")
        case.wait_for(lambda: starts(world, "large"), "the pod starts")
        case.equal([world.phase(name) for name in ("s0", "s1")], ["Pending"] * 2, "small claims")
        case.equal(world.given(), 200, "percent given")
        case.equal(len(sessions(case, world)), 2, "sessions")
        end_pod(case, world, "large")
        world.await_phase("s0", "Bound")
        world.await_phase("s1", "Bound")
        await_places(case, world, 0)
    in_world(case, body, rules(case))


def test_pods_of_several_claims_are_served_in_order_and_leave_the_queue(case):
    def body(world):
        begin(world, a=100, b=100)
        for i in range(3):
            world.api.put("pods", several(f"p{i}", 60, 60))
            await_places(case, world, 2 * i + 2)
        put(world, "single", 60)
        await_places(case, world, 7)
        end_pod(case, world, "p1")
        await_places(case, world, 5)
        delete(world, "a")
        world.await_phase("single", "Bound")  # it does for that, and not for two
        delete(world, "single")
        delete(world, "b")
        case.wait_for(lambda: starts(world, "p0"), "the first starts")
        case.check(not starts(world, "p2"), "the last does not")
        end_pod(case, world, "p0")
        case.wait_for(lambda: starts(world, "p2"), "the last starts")
        await_places(case, world, 0)
        case.equal(len(sessions(case, world)), 2, "sessions")
        end_pod(case, world, "p2")
        case.wait_for(lambda: world.given() == 0 and not sessions(case, world), "nothing is held")
    in_world(case, body)


def test_places_of_a_pod_outlast_controller_and_scheduler(case):
    def body(world):
        begin(world, a=100, b=100)
        world.api.put("pods", several("first", 100, 60))
        await_places(case, world, 2)
        put(world, "other", 100)
        await_places(case, world, 3)
        order = programs(case, world)
        await_words(case, world, "other")  # which is later than what the first ones were told
        restart_scheduler(case, world, lambda: look_without_scheduler(case, world, "first-c0"))
        await_places(case, world, 3)
        case.equal(programs(case, world), order, "the order")
        world.controller.kill()
        world.controller.wait()
        delete(world, "a")
        delete(world, "b")
        world.start()
        case.wait_for(lambda: starts(world, "first"), "the pod starts")
        case.equal(len(sessions(case, world)), 2, "sessions")
    in_world(case, body)


def test_a_pod_gets_places_for_all_of_its_claims_or_none(case):
    """A namespace that has more than it will have gives some; else it is tried at each change."""
    def body(world):
        begin(world, a=100, b=100)
        for i in range(30):
            put(world, f"w{i:02}", 100)
            case.wait_for(lambda i=i: message(world, f"w{i:02}"), "it waits")
        await_places(case, world, 30)
        world.api.put("pods", several("same", *[60] * 4))
        case.wait_for(lambda: message(world, "same-c0"), "it waits")
        pod = several("else", *[60] * 4)
        pod["metadata"]["namespace"] = "others"
        world.api.put("pods", pod)
        case.wait_for(lambda: sum(p.startswith("others/") for p in programs(case, world)) == 4,
                      "the other namespace has four")
        taken = programs(case, world)
        case.equal(len(taken), 32, "places")
        case.check(not any(p.startswith("team/same") for p in taken), "those of its own: none")
        case.equal([f"team/w{i:02}" for i in range(30) if f"team/w{i:02}" not in taken],
                   ["team/w28", "team/w29"], "who gave theirs")
    in_world(case, body)


def test_no_place_is_given_up_for_what_gets_none(case):
    """What others have beyond their share is less than a pod needs: they keep it."""
    def body(world):
        begin(world, a=100, b=100)
        for i in range(32):
            name, space = f"w{i:02}", "team" if i < 5 else f"space{(i - 5) // 4}"
            made = claim(name, core=100, memory="64Mi")
            made["metadata"]["namespace"] = space
            world.api.put("elasticgpuclaims", made)
        await_places(case, world, 32)
        taken = sorted(programs(case, world))
        pod = several("else", *[60] * 4)
        pod["metadata"]["namespace"] = "others"
        world.api.put("pods", pod)
        case.wait_for(lambda: ((world.api.get("elasticgpuclaims", "else-c0", "others") or {})
                               .get("status", {}).get("message")), "the pod waits")
        case.equal(sorted(programs(case, world)), taken, "places")
    in_world(case, body)
