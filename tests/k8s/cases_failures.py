# SPDX-License-Identifier: Apache-2.0
"""What is killed, deleted, full or gone in the middle."""
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from cases import (case, claim, class_, container, ended, events, namespace, phase, pod,
                   running, said, succeeds, QGPU)
from cluster import await_true

ASK = {QGPU + "core": 20, QGPU + "memory": 1}


def remote(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})


@case
def a_deployment_of_twenty_replicas(c, ns):
    remote(c, ns)
    ask = {"elasticgpu.io/gpu-core": 10, "elasticgpu.io/gpu-memory": "256Mi"}
    made = container(args=[256, 1, "hold", 600], resources=ask)
    c.apply({"apiVersion": "apps/v1", "kind": "Deployment",
             "metadata": {"name": "many", "namespace": ns},
             "spec": {"replicas": 20, "selector": {"matchLabels": {"app": "many"}},
                      "template": {"metadata": {"labels": {"app": "many"}},
                                   "spec": {"terminationGracePeriodSeconds": 2,
                                            "containers": [made]}}}})
    c.kubectl("rollout", "status", "deployment/many", "-n", ns, "--timeout=150s", timeout=160)
    assert len(c.slices()) == 20
    names = {s["spec"]["claimRef"]["name"] for s in c.slices()}
    assert len(names) == 20, "two slices of one claim"
    used = sum(int(s["spec"]["capacity"]["elasticgpu.io/gpu-core"]) for s in c.slices())
    assert used == 200, used
    c.kubectl("delete", "deployment", "many", "-n", ns)
    c.free()


@case
def a_job_of_several_pods(c, ns):
    remote(c, ns)
    c.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": ns},
             "spec": {"completions": 4, "parallelism": 2, "template": {"spec": {
                 "restartPolicy": "Never",
                 "containers": [container(args=[1024, 1], resources=ASK)]}}}})
    c.kubectl("wait", "--for=condition=Complete", "job/job", "-n", ns, "--timeout=90s",
              timeout=100)
    c.free()  # the pods are still there, their cards are not


@case
def a_pod_is_deleted(c, ns):
    remote(c, ns)
    c.apply(pod(ns, "user", container(args=[1024, 1, "hold", 600], resources=ASK)))
    await_true("it runs", lambda: c.get("pod", "user", ns)["status"].get("phase") == "Running")
    c.kubectl("delete", "pod", "user", "-n", ns)
    c.free()
    assert not c.get("egpuc", ns=ns)


@case
def the_pool_is_full_and_becomes_free(c, ns):
    remote(c, ns)
    whole = {"nvidia.com/gpu": 2}
    c.apply(pod(ns, "first", container(args=[4096, 2, "hold", 600], resources=whole)))
    await_true("it runs", lambda: c.get("pod", "first", ns)["status"].get("phase") == "Running")
    c.apply(pod(ns, "second", container(args=[4096, 2], resources=whole)))
    await_true("why it waits is said", lambda: events(c, ns, "no card") or events(c, ns, "NoRoom")
               or events(c, ns, "free"), 20)
    p = c.get("pod", "second", ns)
    assert p["status"]["phase"] == "Pending" and p["spec"]["schedulingGates"], p["status"]
    c.kubectl("delete", "pod", "first", "-n", ns)
    succeeds(c, ns, "second")
    c.free()


@case
def pods_of_two_sessions_wait_without_holding_one(c, ns):
    """Each needs both cards of the pool; one more pod needs a part of one."""
    remote(c, ns)
    half = {QGPU + "core": 60, QGPU + "memory": 1}

    def pair(name, *more):
        return pod(ns, name, [container(n, [1024, 1, *more], half) for n in ("left", "right")])

    def used():
        return sum(int(s["spec"]["capacity"]["elasticgpu.io/gpu-core"]) for s in c.slices())
    c.apply(pod(ns, "single", container(args=[1024, 1, "hold", 600], resources=half)))
    await_true("it runs", lambda: c.get("pod", "single", ns)["status"].get("phase") == "Running")
    for name in ("one", "two", "three"):
        c.apply(pair(name))
    await_true("why they wait is said", lambda: events(c, ns, "sessions of its claims together"))
    assert used() == 60, used()
    c.kubectl("delete", "pod", "single", "-n", ns)
    for name in ("one", "two", "three"):
        succeeds(c, ns, name)
    c.free()


@case
def a_class_that_waits_for_its_first_pod(c, ns):
    namespace(c, ns)
    c.apply([class_("lazy", eGPUBindingMode="WaitForFirstConsumer"),
             claim(ns, "late", cls="lazy")])
    phase(c, ns, "late", "Pending")
    assert not c.slices()
    for _ in range(2):  # what it held goes back in between
        c.apply(pod(ns, "user", container(args=[1024, 1]), {"elasticgpu.io/egpuc-main": "late"}))
        succeeds(c, ns, "user")
        phase(c, ns, "late", "Pending")
        c.free()
        c.kubectl("delete", "pod", "user", "-n", ns)
    c.kubectl("delete", "egpuc", "late", "-n", ns)


@case
def a_claim_is_retained_and_used_again(c, ns):
    namespace(c, ns)
    c.apply([class_("keep", reclaimPolicy="Retain"), claim(ns, "one", cls="keep")])
    phase(c, ns, "one", "Bound")
    gpu = c.slices()[0]["metadata"]["name"]
    session = c.slices()[0]["spec"]["remoteGPU"]["session"]
    c.kubectl("delete", "egpuc", "one", "-n", ns)
    await_true("it is Released", lambda: c.get("egpu", gpu)["status"]["phase"] == "Released")
    c.kubectl("patch", "egpu", gpu, "--type=merge", "-p", '{"spec":{"claimRef":null}}')
    await_true("it is Available", lambda: c.get("egpu", gpu)["status"]["phase"] == "Available")
    c.apply([claim(ns, "two", cls="keep", elasticGPUName=gpu),
             pod(ns, "user", container(args=[1024, 1]), {"elasticgpu.io/egpuc-main": "two"})])
    succeeds(c, ns, "user")
    assert c.get("egpu", gpu)["spec"]["remoteGPU"]["session"] == session
    c.kubectl("delete", "egpuc", "two", "-n", ns)
    c.kubectl("delete", "egpu", gpu)
    c.free()


@case
def the_controller_is_killed_again_and_again(c, ns):
    remote(c, ns)
    for i in range(12):
        c.apply(pod(ns, f"p{i}", container(args=[256, 1], resources={
            "elasticgpu.io/gpu-core": 10, "elasticgpu.io/gpu-memory": "256Mi"})))
        if i % 3 == 0:  # both replicas, unless the kubelet has not restarted them yet
            for pid in c.pids("gpupool-kube", "controller"):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.15 * (i % 5))
    for i in range(12):
        succeeds(c, ns, f"p{i}", 120)
    c.free()


@case
def the_scheduler_is_killed(c, ns):
    remote(c, ns)
    c.apply(pod(ns, "user", container(args=[1024, 1, "hold", 600], resources=ASK)))
    await_true("it runs", lambda: c.get("pod", "user", ns)["status"].get("phase") == "Running")
    before = c.slices()[0]["spec"]["remoteGPU"]["session"]
    c.kill("gpupool-scheduler")
    c.apply(pod(ns, "later", container(args=[1024, 1], resources=ASK)))
    succeeds(c, ns, "later", 120)
    assert c.get("pod", "user", ns)["status"]["phase"] == "Running"
    assert before in {s["spec"]["remoteGPU"]["session"] for s in c.slices()}
    c.kubectl("delete", "pod", "user", "later", "-n", ns)
    c.free()


@case
def the_schedulers_pod_is_deleted(c, ns):
    """As an upgrade does; its state is on a volume."""
    remote(c, ns)
    c.apply(pod(ns, "user", container(args=[1024, 1, "hold", 600], resources=ASK)))
    await_true("it runs", lambda: running(c, ns, "user"))
    before = c.slices()[0]["spec"]["remoteGPU"]["session"]
    c.kubectl("delete", "pod", "gpupool-scheduler-0", "-n", c.ns)
    c.apply(pod(ns, "later", container(args=[1024, 1], resources=ASK)))
    succeeds(c, ns, "later", 120)
    assert running(c, ns, "user"), said(c.get("pod", "user", ns))
    assert before in {s["spec"]["remoteGPU"]["session"] for s in c.slices()}
    c.kubectl("delete", "pod", "user", "later", "-n", ns)
    c.free()


@case
def the_schedulers_state_is_lost(c, ns):
    """Its sessions end, and say so; the servers, which are not restarted, obey the next
    scheduler, since its key is that of the Secret."""
    remote(c, ns)
    c.apply(pod(ns, "user", container(args=[1024, 1, "hold", 600], resources=ASK)))
    await_true("it runs", lambda: running(c, ns, "user"))
    servers = set(c.pids("gpupool-server", ""))
    c.kubectl("scale", "statefulset/gpupool-scheduler", "-n", c.ns, "--replicas=0")
    await_true("it is gone", lambda: not c.pids("gpupool-scheduler", ""))
    shutil.rmtree(c.state / "state")
    c.kubectl("scale", "statefulset/gpupool-scheduler", "-n", c.ns, "--replicas=1")
    c.apply(pod(ns, "later", container(args=[1024, 1], resources=ASK)))
    succeeds(c, ns, "later", 120)
    p = await_true("the first one's program is told", lambda: ended(c, ns, "user"), 60)
    assert p["status"]["phase"] == "Failed", said(p)
    assert servers <= set(c.pids("gpupool-server", "")), "a server was restarted"
    c.free()


@case
def the_webhook_is_killed(c, ns):
    remote(c, ns)
    c.kill("gpupool-kube", "webhook")
    words = c.apply(pod(ns, "user", container(args=[1024, 1], resources=ASK)), check=False)
    if "created" not in words:
        assert "webhook" in words, words  # refused, and by whom is said
        assert c.get("pod", "user", ns) is None
    plain = c.apply(pod(ns, "plain", container(args=[0, 0])), check=False)
    assert "created" in plain, plain  # no other pod passes through it
    await_true("the webhook is back", lambda: "user" in c.apply(
        pod(ns, "user", container(args=[1024, 1], resources=ASK)), check=False)
        and c.get("pod", "user", ns), 60, 1)
    succeeds(c, ns, "user")
    c.free()


@case
def the_api_server_is_away_for_a_minute(c, ns):
    remote(c, ns)
    c.apply(pod(ns, "user", container(args=[1024, 1, "hold", 600], resources=ASK)))
    await_true("it runs", lambda: c.get("pod", "user", ns)["status"].get("phase") == "Running")
    session = c.slices()[0]["spec"]["remoteGPU"]["session"]
    pid = int((c.folder / "apiserver.pid").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    children = subprocess.run(["pgrep", "-P", str(pid)], check=False, text=True,
                              stdout=subprocess.PIPE).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGSTOP)
    time.sleep(60)
    for child in children:
        os.kill(int(child), signal.SIGCONT)
    os.kill(pid, signal.SIGCONT)
    await_true("the API server answers", lambda: c.get("pod", "user", ns), 60)
    assert [s["spec"]["remoteGPU"]["session"] for s in c.slices()] == [session]
    c.apply(pod(ns, "later", container(args=[1024, 1], resources=ASK)), check=False)
    await_true("the webhook is called again", lambda: c.get("pod", "later", ns) or (c.apply(
        pod(ns, "later", container(args=[1024, 1], resources=ASK)), check=False) and None), 60)
    succeeds(c, ns, "later", 120)
    assert c.get("pod", "user", ns)["status"]["phase"] == "Running"
    c.kubectl("delete", "pod", "user", "later", "-n", ns)
    c.free()


def children_of(pid):
    return [int(x) for x in subprocess.run(["pgrep", "-P", str(pid)], check=False, text=True,
                                           stdout=subprocess.PIPE).stdout.split()]


def is_running(pid):
    """Not a process that has ended and that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@case
def the_api_server_is_killed_in_the_middle(c, ns):
    """SIGKILL while claims are being bound, and the same command line again."""
    remote(c, ns)
    made = [pod(ns, f"p{i}", container(args=[256, 1], resources={
        "elasticgpu.io/gpu-core": 10, "elasticgpu.io/gpu-memory": "256Mi"})) for i in range(6)]
    c.apply(made)
    pid_file = c.folder / "apiserver.pid"
    pid = int(pid_file.read_text().split()[0])
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    victims = [*children_of(pid), pid]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    # Its address is free when it has ended, which takes a while.
    await_true("the API server has ended", lambda: not any(is_running(v) for v in victims))
    with open(c.folder / "apiserver.log", "ab") as log:
        again = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
    started = Path(f"/proc/{again.pid}/stat").read_text().rpartition(") ")[2].split()[19]
    pid_file.write_text(f"{again.pid} {started}\n")
    await_true("the API server answers", lambda: c.get("namespace", ns), 60)
    for i in range(6):
        succeeds(c, ns, f"p{i}", 120)
    c.kubectl("delete", "pods", "--all", "-n", ns)
    c.free()


@case
def a_slice_is_deleted_under_its_claim(c, ns):
    namespace(c, ns)
    c.apply(claim(ns, "one"))
    phase(c, ns, "one", "Bound")
    c.kubectl("delete", "egpu", c.slices()[0]["metadata"]["name"])
    phase(c, ns, "one", "Lost")
    c.free()
    c.kubectl("delete", "egpuc", "one", "-n", ns)


@case
def a_node_is_lost(c, ns):
    """Its kubelet stops; the pod is deleted and nobody says that it ended."""
    remote(c, ns)
    c.apply(pod(ns, "user", container(args=[1024, 1, "hold", 600], resources=ASK)))
    await_true("it runs", lambda: c.get("pod", "user", ns)["status"].get("phase") == "Running")
    pid = int((c.folder / "kubelet.pid").read_text().split()[0])
    children = subprocess.run(["pgrep", "-P", str(pid)], check=False, text=True,
                              stdout=subprocess.PIPE).stdout.split()
    for victim in [str(pid), *children]:
        os.kill(int(victim), signal.SIGSTOP)
    try:
        c.kubectl("delete", "pod", "user", "-n", ns, "--wait=false")
        c.free()  # two seconds of grace and five more
        assert c.get("pod", "user", ns), "the pod is still there, its card is not"
    finally:
        for victim in [*children, str(pid)]:
            os.kill(int(victim), signal.SIGCONT)
    await_true("the pod goes", lambda: c.get("pod", "user", ns) is None, 60)
