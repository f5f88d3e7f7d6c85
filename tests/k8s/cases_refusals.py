# SPDX-License-Identifier: Apache-2.0
"""Bad input: the right refusal in words, nothing leaked, nothing bound twice."""
import subprocess

from cases import (case, claim, container, ended, events, namespace, phase, pod, said,
                   succeeds, QGPU)
from cluster import await_true


def refused(c, objects, *words):
    answer = c.apply(objects, check=False)
    for word in words:
        assert word in answer, f"{word!r} is not in: {answer}"


def remote_pod(ns, name, resources, **more):
    return pod(ns, name, container(args=[0, 0], resources=resources),
               labels={"elasticgpu.io/class": "remote"}, **more)


@case
def units_and_ranges(c, ns):
    namespace(c, ns)
    refused(c, remote_pod(ns, "a", {QGPU + "core": 33, QGPU + "memory": 1}), "steps of 5")
    refused(c, remote_pod(ns, "a", {QGPU + "core": 150, QGPU + "memory": 1}),
            "150 is not possible", "N*100")
    refused(c, remote_pod(ns, "a", {QGPU + "core": 20}), "qgpu-memory")
    refused(c, remote_pod(ns, "a", {QGPU + "memory": 2}), "but no " + QGPU + "core")
    refused(c, remote_pod(ns, "a", {QGPU + "core": 20, QGPU + "memory": 1,
                                    "nvidia.com/gpu": 1}), "asks in one way")
    refused(c, claim(ns, "b", memory="4GB"), "4GB")
    refused(c, claim(ns, "b", core="150%"), "percent has no sign")
    assert not c.get("pods", ns=ns) and not c.get("egpuc", ns=ns)


@case
def a_claim_of_150_percent(c, ns):
    namespace(c, ns)
    c.apply(claim(ns, "odd", core=150))
    found = phase(c, ns, "odd", "Pending")
    await_true("why is said", lambda: "150 is not possible" in c.get(
        "egpuc", "odd", ns)["status"].get("message", ""), 10)
    assert found["spec"].get("elasticGPUName") is None
    c.kubectl("delete", "egpuc", "odd", "-n", ns)


@case
def an_unknown_class(c, ns):
    namespace(c, ns)
    refused(c, pod(ns, "a", container(resources={QGPU + "core": 20, QGPU + "memory": 1}),
                   labels={"elasticgpu.io/class": "no-such"}), "there is no ElasticGPUClass no-such")
    c.apply(claim(ns, "b", cls="no-such"))
    phase(c, ns, "b", "Pending")
    assert "no-such" in c.get("egpuc", "b", ns)["status"]["message"]
    # The class comes later, and the claim is bound then.
    c.apply({"apiVersion": "elasticgpu.io/v1alpha1", "kind": "ElasticGPUClass",
             "metadata": {"name": "no-such"}, "provisioner": "elasticgpu.io/remote"})
    phase(c, ns, "b", "Bound")
    c.kubectl("delete", "elasticgpuclass", "no-such")
    c.kubectl("delete", "egpuc", "b", "-n", ns)
    c.free()


@case
def two_annotations_that_disagree(c, ns):
    namespace(c, ns)
    refused(c, pod(ns, "a", container(), {"elasticgpu.io/egpuc-main": "x",
                                          "egpuc.elasticgpu.io/main": "y"}),
            "name different claims, x and y")
    refused(c, pod(ns, "a", container(), {"elasticgpu.io/egpuc-nobody": "x"}),
            "container nobody, which the pod does not have")


@case
def what_was_forgotten_is_named(c, ns):
    """By the webhook where it sees the pod, else by the doctor."""
    namespace(c, ns)
    asks = {QGPU + "core": 20, QGPU + "memory": 1}
    refused(c, remote_pod(ns, "word", asks, annotations={"elasticgpu.io/session": "pods"}),
            '"pods" is not possible')
    c.apply([pod(ns, "early", container(), {"elasticgpu.io/egpuc-main": "later"}),
             pod(ns, "plain", container(resources=asks))])

    def doctor():
        return subprocess.run([str(c.build / "bin/gpupool"), "kube", "doctor"], env=c.env,
                              text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60).stdout
    await_true("both pods are named", lambda: (
        f"pod {ns}/early: it waits for claim later, which does not exist" in doctor()
        and f"pod {ns}/plain: it asks for a card by name and selects no class" in doctor()), 20)


@case
def a_claim_that_is_not_there_yet(c, ns):
    namespace(c, ns)
    c.apply(pod(ns, "early", container(args=[1024, 1]), {"elasticgpu.io/egpuc-main": "later"}))
    await_true("the pod says why it waits", lambda: events(c, ns, "does not exist"), 20)
    c.apply(claim(ns, "later"))
    succeeds(c, ns, "early")
    c.kubectl("delete", "egpuc", "later", "-n", ns)
    c.free()


@case
def a_claim_used_twice(c, ns):
    namespace(c, ns)
    c.apply([claim(ns, "one"),
             pod(ns, "first", container(args=[1024, 1, "hold", 600]),
                 {"elasticgpu.io/egpuc-main": "one"})])
    await_true("it runs", lambda: c.get("pod", "first", ns)["status"].get("phase") == "Running")
    c.apply(pod(ns, "second", container(args=[1024, 1]), {"elasticgpu.io/egpuc-main": "one"}))
    await_true("why is said", lambda: events(c, ns, "in use by pod first"), 20)
    assert c.get("pod", "second", ns)["spec"]["schedulingGates"]
    assert len(c.slices()) == 1
    c.kubectl("delete", "pod", "first", "-n", ns)
    succeeds(c, ns, "second")
    c.kubectl("delete", "egpuc", "one", "-n", ns)
    c.free()


@case
def a_claim_that_is_shared(c, ns):
    namespace(c, ns)
    made = claim(ns, "ours")
    made["metadata"]["annotations"] = {"elasticgpu.io/shared": "true"}
    c.apply([made, pod(ns, "first", container(args=[1024, 1, "hold", 600]),
                       {"elasticgpu.io/egpuc-main": "ours"})])
    await_true("it runs", lambda: c.get("pod", "first", ns)["status"].get("phase") == "Running")
    c.apply(pod(ns, "second", container(args=[1024, 1]), {"elasticgpu.io/egpuc-main": "ours"}))
    p = await_true("it ends", lambda: ended(c, ns, "second"))
    assert "1024" in said(p), said(p)
    c.kubectl("delete", "pod", "first", "-n", ns)
    c.kubectl("delete", "egpuc", "ours", "-n", ns)
    c.free()


@case
def somebody_elses_claim(c, ns):
    """A token of one namespace opens nothing of another, and a forged claim nothing at all."""
    other = ns + "-x"
    namespace(c, ns)
    namespace(c, other)
    c.apply(claim(ns, "secret"))
    gpu = phase(c, ns, "secret", "Bound")["spec"]["elasticGPUName"]
    c.apply(claim(other, "secret", elasticGPUName=gpu))
    phase(c, other, "secret", "Pending")
    await_true("why is said", lambda: "belongs to claim" in c.get(
        "egpuc", "secret", other)["status"].get("message", ""), 10)
    # A pod with the right variables, but without the controller's blessing: it asks with
    # its own token for the claim of the other namespace, and then of its own.
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {
        "audience": "egpu", "path": "token", "expirationSeconds": 3600}}]}}
    libs = {"name": "l", "emptyDir": {}}
    spy = container(args=[0, 0], env={
        "LD_LIBRARY_PATH": "/l", "GPUPOOL_SCHEDULER": f"{c.host}:27480",
        "GPUPOOL_CLAIM": "secret", "GPUPOOL_POD_TOKEN_FILE": "/t/token",
        "GPUPOOL_LOG": "*:warn"})
    spy["volumeMounts"] = [{"name": "t", "mountPath": "/t"}, {"name": "l", "mountPath": "/l"}]
    copy = {"name": "c", "image": "localhost/gpupool-kube-client:test", "imagePullPolicy": "Never",
            "command": ["/gpupool-copy", "/l"], "volumeMounts": [{"name": "l", "mountPath": "/l"}]}
    for where in (ns, other):
        c.apply(pod(where, "spy", spy, volumes=[volume, libs], initContainers=[copy]))
        p = await_true("the spy ends", lambda: ended(c, where, "spy"), 60)
        assert p["status"]["phase"] == "Failed", said(p)
        logs = (c.folder / "node/podlogs").glob(f"{where}_spy_*/main/*.log")
        words = "".join(path.read_text() for path in logs)
        assert "claim secret" in words and "not bound" in words, words
    c.kubectl("delete", "namespace", other, "--wait=false")
    c.kubectl("delete", "egpuc", "secret", "-n", ns)
    c.free()


@case
def quotas_of_a_namespace(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply({"apiVersion": "v1", "kind": "ResourceQuota",
             "metadata": {"name": "gpus", "namespace": ns},
             "spec": {"hard": {"requests.elasticgpu.io/gpu-core": "50",
                               "requests.elasticgpu.io/gpu-memory": "2Gi",
                               "requests.elasticgpu.io/gpu-cards": "2"}}})
    c.apply([claim(ns, "a", core=30, memory="1Gi"), claim(ns, "b", core=30, memory="512Mi")])
    await_true("one is bound, one is refused", lambda: sorted(
        (x.get("status", {}).get("phase") or "?") for x in c.get("egpuc", ns=ns))
        == ["Bound", "Pending"], 20)
    late = next(x for x in c.get("egpuc", ns=ns) if x["status"]["phase"] == "Pending")
    assert "ResourceQuota gpus" in late["status"]["message"], late["status"]
    c.apply(claim(ns, "big", core=5, memory="1800Mi"))
    await_true("memory counts, too", lambda: "bytes of memory" in c.get(
        "egpuc", "big", ns).get("status", {}).get("message", ""), 20)
    c.apply(pod(ns, "whole", container(args=[4096, 1], resources={"nvidia.com/gpu": 1})))
    await_true("a whole card brings its memory", lambda: events(c, ns, "ResourceQuota gpus"), 20)
    assert c.get("pod", "whole", ns)["spec"]["schedulingGates"]
    bound = next(x for x in c.get("egpuc", ns=ns) if x["status"]["phase"] == "Bound")
    c.kubectl("delete", "egpuc", bound["metadata"]["name"], "big", "-n", ns)
    phase(c, ns, late["metadata"]["name"], "Bound", 30)
    c.kubectl("delete", "pod", "whole", "-n", ns)
    c.kubectl("delete", "egpuc", "--all", "-n", ns)
    c.free()
    # Cards: two are allowed, held in part or whole.
    c.kubectl("patch", "resourcequota", "gpus", "-n", ns, "--type=merge", "-p",
              '{"spec":{"hard":{"requests.elasticgpu.io/gpu-core":"400"}}}')
    c.apply([claim(ns, f"s{i}", core=5, memory="128Mi") for i in range(3)])
    await_true("the third card is one too many", lambda: [
        x for x in c.get("egpuc", ns=ns) if "2 of 2 cards, and 1 more"
        in x.get("status", {}).get("message", "")], 20)
    assert len(c.slices()) == 2
    c.kubectl("delete", "egpuc", "--all", "-n", ns)
    c.free()
