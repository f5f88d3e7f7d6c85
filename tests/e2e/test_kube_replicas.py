# SPDX-License-Identifier: Apache-2.0
"""Kubernetes with several schedulers: controller and pods go to the one that leads."""

import base64
import json
import urllib.request

from test_kube import claim, gated_pod, in_world


def etcd_of_one(case):
    """An etcd of one member; its URL."""
    case.need_tool("etcd")
    client, peer = (f"http://127.0.0.1:{case.free_port()}" for _ in range(2))
    case.spawn(["etcd", "--name", "m", "--data-dir", case.folder / "etcd", "--log-level",
                "error", "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"m={peer}"])
    case.wait_for(lambda: leader_in(client) is not None, "etcd answers")
    return client


def leader_in(etcd):
    """The address of the scheduler that leads, "": none; None: etcd does not answer."""
    key = base64.b64encode(b"/gpupool/leader").decode()
    try:
        with urllib.request.urlopen(urllib.request.Request(
                f"{etcd}/v3/kv/range", json.dumps({"key": key}).encode()), timeout=5) as reply:
            found = json.load(reply).get("kvs", [])
    except OSError:
        return None
    return base64.b64decode(found[0]["value"]).decode() if found else ""


def pods_init(case, scheduler, claim_name):
    """What cuInit returns in a pod that uses the claim."""
    (case.folder / "pod.token").write_text("good")
    (case.folder / "commands").write_text("init\n")
    with open(case.folder / "commands", encoding="utf-8") as stdin:
        done = case.run([case.programs / "cudash"], stdin=stdin, env={
            "LD_LIBRARY_PATH": str(case.build / "lib"), "GPUPOOL_CLAIM": claim_name,
            "GPUPOOL_SCHEDULER": scheduler, "GPUPOOL_LOG": "*:warn",
            "GPUPOOL_POD_TOKEN_FILE": str(case.folder / "pod.token")})
    return done.out.split()[0]


def test_controller_and_pods_follow_another_leader(case):
    etcd = etcd_of_one(case)

    def body(world):
        world.start()
        world.await_cards()
        world.api.put("pods", gated_pod("user", {"elasticgpu.io/egpuc-main": "one"}))
        uid = world.api.get("pods", "user", "team")["metadata"]["uid"]
        world.api.tokens = {"good": {"authenticated": True, "user": {
            "username": "system:serviceaccount:team:default",
            "extra": {"authentication.kubernetes.io/pod-uid": [uid]}}}}
        world.api.put("elasticgpuclaims", claim("one"))
        world.await_phase("one", "Bound")
        first = leader_in(etcd)
        schedulers = dict(zip(world.address.split(","), [world.scheduler, *world.others]))
        schedulers[first].kill()
        case.wait_for(lambda: leader_in(etcd) not in ("", first), "another one leads")
        world.api.put("elasticgpuclaims", claim("two"))
        world.await_phase("two", "Bound")
        case.equal(world.phase("one"), "Bound", "the claim of before")
        case.equal(world.given(), 60, "percent given")
        # The dead one comes back and follows: whoever asks it is sent on.
        again = case.folder / "again"
        world.others.append(world.add_scheduler(first, again, first))
        case.wait_for(again.exists, "the other one listens")
        second = leader_in(etcd)
        for order in (f"{first},{second}", f"{first},127.0.0.1:1", f"127.0.0.1:1,{second}"):
            case.equal(pods_init(case, order, "one"), "0", f"cuInit of a pod that asks {order}")
        world.api.delete("pods", "user", "team")
        for name in ("one", "two"):
            world.api.delete("elasticgpuclaims", name, "team")
        case.wait_for(lambda: world.given() == 0, "the pool has everything back")
    in_world(case, body, scheduler=("--etcd", etcd, "--etcd-lease-s", "2"), replicas=2)
