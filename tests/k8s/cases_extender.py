# SPDX-License-Identifier: Apache-2.0
"""The scheduler extender behind a kube-scheduler of its own, whose configuration is that
of docs/kubernetes.md.

That kube-scheduler may not bind pods, so a pod that gets a node was bound by the
extender.  A second node is an object without a kubelet, and a second pool server carries
its name: where a pod goes shows what the extender prefers.
"""
import base64
import contextlib
import json
import os
import signal
import subprocess

from cases import QGPU, case, claim, container, events, namespace, phase, pod, succeeds
from cluster import EXTENDER_PORT, SCHEDULER_PORT, await_true

NAME, FAR = "with-extender", "node2"
ASK = {QGPU + "core": 40, QGPU + "memory": 1}
# The second server's card is smaller: "most remaining" and "node with the card" differ.
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}}}
profiles: [{{schedulerName: {name}}}]
extenders:
  - urlPrefix: http://{host}:{port}/scheduler
    filterVerb: filter
    prioritizeVerb: priorities
    bindVerb: bind
    weight: 100
    nodeCacheCapable: true
    managedResources: [{{name: tke.cloud.tencent.com/qgpu-core, ignoredByScheduler: true}},
                       {{name: tke.cloud.tencent.com/qgpu-memory, ignoredByScheduler: true}}]
"""


def program(c):
    """The kube-scheduler that the cluster runs."""
    pid = (c.folder / "scheduler.pid").read_text().split()[0]
    words = open(f"/proc/{pid}/cmdline", encoding="utf-8").read().split("\0")
    return next(word for word in words if word.endswith("kube-scheduler"))


def account(c):
    """All that kube-scheduler may do, but for binding; its token."""
    rules = c.get("clusterrole", "system:kube-scheduler")["rules"]
    rules = [rule for rule in rules if "pods/binding" not in rule["resources"]]
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": c.ns}
    group = "rbac.authorization.k8s.io"
    objects = [{"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": NAME, "namespace": c.ns}},
               {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": NAME},
                "rules": rules}]
    for role in (NAME, "system:volume-scheduler"):
        objects.append({"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding",
                        "metadata": {"name": f"{NAME}-{role.replace(':', '-')}"},
                        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                        "subjects": [subject]})
    c.apply(objects)
    return c.kubectl("create", "token", NAME, "-n", c.ns).stdout.strip()


@contextlib.contextmanager
def kube_scheduler(c):
    """A second kube-scheduler, for pods that name it."""
    files = {"kubeconfig": c.folder / "extender.kubeconfig", "config": c.folder / "extender.yaml"}
    files["kubeconfig"].write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": c.env["APISERVER"],
                                               "certificate-authority": c.env["CACERT"]}}],
        "users": [{"name": "x", "user": {"token": account(c)}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))
    files["config"].write_text(CONFIG.format(kubeconfig=files["kubeconfig"], name=NAME,
                                             host=c.host, port=EXTENDER_PORT))
    with open(c.folder / "extender.log", "wb") as log:
        process = subprocess.Popen([program(c), f"--config={files['config']}", "--secure-port=0",
                                    "--authentication-skip-lookup", "--v=2"],
                                   stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def far_card(c, phase_of_it):
    return any(g["spec"]["nodeName"] == FAR and g["status"].get("phase") == phase_of_it
               for g in c.cards())


@contextlib.contextmanager
def second_node(c):
    """A node that no kubelet serves, and a pool server that carries its name."""
    c.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": FAR},
             "spec": {"taints": [{"key": "no-kubelet", "effect": "NoSchedule"}]}})
    c.kubectl("patch", "node", FAR, "--subresource=status", "--type=merge", "-p", json.dumps(
        {"status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"},
                    "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True", "reason": "x",
                                    "message": "x"}]}}))
    token = c.folder / "server.token"
    secret = c.get("secret", "gpupool-tokens", c.ns)["data"]["server"]
    token.touch(0o600)
    token.write_bytes(base64.b64decode(secret))
    with open(c.folder / "second-server.log", "wb") as log:
        process = subprocess.Popen([
            str(c.build / "bin/gpupool-server"), "--listen", "127.0.0.1:0", "--driver", "null",
            "--cards", "1", "--memory", "4GiB", "--name", FAR, "--scheduler",
            f"{c.host}:{SCHEDULER_PORT}", "--token-file", str(token)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            await_true("its card is published", lambda: far_card(c, "Available"), 30)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            c.kubectl("delete", "node", FAR)
            await_true("its card is lost", lambda: far_card(c, "Failed"), 60)


def far_pod(ns, name, ask=None, **more):
    return pod(ns, name, container(program="/true", resources=ask or ASK), schedulerName=NAME,
               tolerations=[{"operator": "Exists"}], **more)


def node_of(c, ns, name):
    return c.get("pod", name, ns)["spec"].get("nodeName")


@case
def a_kube_scheduler_asks_the_extender_and_lets_it_bind(c, ns):
    namespace(c, ns)
    with kube_scheduler(c):
        c.apply(far_pod(ns, "user"))
        p = succeeds(c, ns, "user", 90)
        assert p["spec"]["nodeName"] == "node1"
        limits = p["spec"]["containers"][0]["resources"]["limits"]
        assert limits[QGPU + "core"] == "40", "the pod keeps its resources"
        assert not p["spec"].get("initContainers"), "the webhook left it alone"
        # While the pool is full no node is right, and why is said on the pod.
        c.apply([claim(ns, f"full{i}", core=100, memory="1Gi") for i in range(2)])
        for i in range(2):
            phase(c, ns, f"full{i}", "Bound")
        c.apply(far_pod(ns, "late"))
        await_true("why is said", lambda: events(c, ns, "no card has room") or [
            e for e in events(c, ns, "0/1 nodes") if "core" in e["message"]], 30)
        assert not node_of(c, ns, "late")
        c.kubectl("delete", "egpuc", "--all", "-n", ns)
        c.free()
        # kube-scheduler tries such a pod again when something of the cluster changes.
        c.kubectl("label", "node", "node1", "again=yes", "--overwrite")
        succeeds(c, ns, "late", 120)
        c.kubectl("label", "node", "node1", "again-")
        # An extender that is away: no node, and nothing else of the cluster suffers.
        c.kubectl("scale", "deployment", "gpupool-extender", "-n", c.ns, "--replicas=0")
        await_true("it is away", lambda: not c.pids("gpupool-kube", "extender"), 60)
        c.apply([far_pod(ns, "lonely"), pod(ns, "plain", container(program="/true"),
                                            schedulerName=NAME)])
        succeeds_without_us = await_true("kube-scheduler says what fails", lambda: events(
            c, ns, str(EXTENDER_PORT)), 60)
        assert succeeds_without_us and not node_of(c, ns, "lonely")
        c.kubectl("scale", "deployment", "gpupool-extender", "-n", c.ns, "--replicas=1")
        c.kubectl("rollout", "status", "deployment/gpupool-extender", "-n", c.ns,
                  "--timeout=60s", timeout=70)
        c.kubectl("label", "node", "node1", "again=yes", "--overwrite")
        succeeds(c, ns, "lonely", 120)
        c.kubectl("label", "node", "node1", "again-")


def placed_with(c, policy, ns, name):
    """Where a pod goes with the extender's --placement @policy."""
    kind = ["deployment/gpupool-extender", "-n", c.ns]
    made = c.get("deployment", "gpupool-extender", c.ns)
    args = [f"--placement={policy}" if a.startswith("--placement") else a
            for a in made["spec"]["template"]["spec"]["containers"][0]["args"]]
    c.kubectl("patch", *kind, "--type=json", "-p", json.dumps([
        {"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}},
        {"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]))
    c.kubectl("rollout", "status", *kind, "--timeout=60s", timeout=70)
    c.apply(far_pod(ns, name))
    return await_true(f"{name} gets a node", lambda: node_of(c, ns, name), 60)


@case
def the_extender_spreads_or_packs_as_configured(c, ns):
    namespace(c, ns)
    with kube_scheduler(c), second_node(c):
        # node1 holds two cards with 4 GiB, both in use for a good part; node2's is free.
        card = {g["spec"]["nodeName"]: g["spec"]["remoteGPU"]["gpuUUIDs"][0] for g in c.cards()}
        held = []
        for i, g in enumerate(x for x in c.cards() if x["spec"]["nodeName"] == "node1"):
            made = claim(ns, f"held{i}", core=30, memory="512Mi")
            made["metadata"]["annotations"] = {
                "elasticgpu.io/card": g["spec"]["remoteGPU"]["gpuUUIDs"][0]}
            held.append(made)
        c.apply(held)
        for made in held:
            phase(c, ns, made["metadata"]["name"], "Bound")
        assert set(card) == {"node1", FAR}
        assert placed_with(c, "binpack", ns, "packed") == "node1"
        assert placed_with(c, "spread", ns, "spread") == FAR
        c.kubectl("delete", "pods", "--all", "-n", ns, "--force", "--grace-period=0")
        c.kubectl("delete", "egpuc", "--all", "-n", ns)
        c.free()
