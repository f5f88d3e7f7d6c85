# SPDX-License-Identifier: Apache-2.0
"""Servers that programs of some nodes reach and those of others do not, as the pool's rules
say: where claims of pods are bound, and which nodes the extender passes."""

import signal

from test_kube import claim, gated_pod, in_world, post


def reach_rules(case):
    rules = case.folder / "rules"
    rules.write_text("[servers node-a]\nclients = near*\n[servers node-b]\nclients = far*\n")
    return "--rules", rules


def test_the_extender_passes_nodes_that_reach_a_server_with_room(case):
    def body(world):
        world.others.append(world.add_server("node-b"))
        world.start()
        case.wait_for(lambda: len(world.cards()) == 4, "the cards of both servers")
        ready = case.folder / "extender.ready"
        extender = case.spawn([
            case.build / "bin/gpupool-kube", "extender", "--listen", "127.0.0.1:0",
            "--scheduler", world.address, "--token-file", world.token, "--ready-file", ready,
            "--kube-server", world.api.url])
        case.wait_for(ready.exists, "the extender listens")
        port = ready.read_text().strip()
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {
            "limits": {"tke.cloud.tencent.com/qgpu-core": 50,
                       "tke.cloud.tencent.com/qgpu-memory": 1}}}]}}
        names = ["near1", "other", "far1"]

        found = post(port, "/scheduler/filter", {"pod": pod, "nodenames": names})
        case.equal(found["nodenames"], ["near1", "far1"], "nodes that reach a server")
        case.contains(found["failedNodes"]["other"], "reach", "why not the third")
        whole = {"items": [{"metadata": {"name": name}} for name in names]}
        found = post(port, "/scheduler/filter", {"pod": pod, "nodes": whole})
        case.equal([n["metadata"]["name"] for n in found["nodes"]["items"]],
                   ["near1", "far1"], "whole nodes")
        for i in range(2):
            put_seen(world, on_node(f"p{i}", f"c{i}", nodeName="near1"))
            world.api.put("elasticgpuclaims", claim(f"c{i}", core=100))
            world.await_phase(f"c{i}", "Bound")
        found = post(port, "/scheduler/filter", {"pod": pod, "nodenames": names})
        case.equal(found["nodenames"], ["far1"], "nodes when the cards of node-a are in use")
        extender.send_signal(signal.SIGTERM)
        case.equal(extender.wait(10), 0, "exit status")
    in_world(case, body, reach_rules(case))


def on_node(name, claimed, **spec):
    """A pod that uses a claim; what is known of where it will run."""
    pod = gated_pod(name, {"elasticgpu.io/egpuc-main": claimed})
    pod["spec"].update(spec)
    return pod


def put_seen(world, pod):
    """It is put, and the controller has seen it: pods and claims come to it in two streams,
    of which either may be ahead.  It says of a pod that its claim is not there."""
    world.api.put("pods", pod)
    name = pod["metadata"]["name"]
    world.case.wait_for(lambda: any(e["involvedObject"]["name"] == name
                                    for e in world.api.all("events")),
                        f"the controller has seen pod {name}")


def test_a_claim_is_bound_to_a_server_that_its_pods_node_reaches(case):
    """The node is known when the pod is there already, or may go to one node only."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def affinity(**term):
        return {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}}

    def values(key, *of):
        return [{"key": key, "operator": "In", "values": list(of)}]

    spellings = {
        "there": {"nodeName": "far1"},
        "selected": {"nodeSelector": {"kubernetes.io/hostname": "far2"}},
        "by-label": {"affinity": affinity(
            matchExpressions=values("kubernetes.io/hostname", "far3"))},
        "by-name": {"affinity": affinity(matchFields=values("metadata.name", "far4"))},
    }

    def body(world):
        world.others.append(world.add_server("node-b"))
        world.start()
        case.wait_for(lambda: len(world.cards()) == 4, "the cards of both servers")

        def server_of(name):
            world.await_phase(name, "Bound")
            return world.api.get("elasticgpuclaims", name, "team")["status"]["server"]

        # A card in use is filled first: all of these would go to node-a.
        put_seen(world, on_node("near", "near", nodeName="near1"))
        world.api.put("elasticgpuclaims", claim("near", core=20))
        case.equal(server_of("near"), "node-a", "the server of a pod on near1")
        for name, spec in spellings.items():
            put_seen(world, on_node(name, name, **spec))
            world.api.put("elasticgpuclaims", claim(name, core=20))
            case.equal(server_of(name), "node-b", f"the server of a pod that is {name}")
        # Of several nodes nothing follows.
        world.api.put("pods", on_node("any", "any", affinity=affinity(
            matchExpressions=values("kubernetes.io/hostname", "far1", "near1"))))
        world.api.put("elasticgpuclaims", claim("any", core=30))
        case.contains(server_of("any"), "node-", "the server of a pod of two nodes")
        put_seen(world, on_node("lost", "lost", nodeName="other"))
        world.api.put("elasticgpuclaims", claim("lost", core=20))
        case.wait_for(lambda: "reach" in (world.api.get("elasticgpuclaims", "lost", "team").get(
            "status", {}).get("message") or ""), "a node that reaches no server is told so")
    in_world(case, body, reach_rules(case))
