# SPDX-License-Identifier: Apache-2.0
"""The cases of `make test-k8s`, in order.  Each has a namespace of its own."""
from cluster import await_true

QGPU = "tke.cloud.tencent.com/qgpu-"
VCUDA = "tencent.com/vcuda-"
CASES = []


def case(function):
    CASES.append((function.__name__, function))
    return function


def all_cases():
    from importlib import import_module
    # The extender's come late: a server of theirs stays known as a lost one.
    for module in ("cases_failures", "cases_deploy", "cases_refusals", "cases_dra",
                   "cases_extender", "cases_removal"):
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    return CASES


# ---------------------------------------------------------------- what is made

def namespace(c, ns, **labels):
    c.apply({"apiVersion": "v1", "kind": "Namespace",
             "metadata": {"name": ns, "labels": labels}})
    await_true("a service account", lambda: c.get("serviceaccount", "default", ns))


def container(name="main", args=(), resources=None, program="/podprobe", env=None):
    made = {"name": name, "image": "localhost/probe:test", "imagePullPolicy": "Never",
            "command": [program, *map(str, args)]}
    if resources:
        made["resources"] = {"limits": resources}
    if env:
        made["env"] = [{"name": k, "value": v} for k, v in env.items()]
    return made


def pod(ns, name, containers, annotations=None, labels=None, **spec):
    if isinstance(containers, dict):
        containers = [containers]
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": ns, "labels": labels or {},
                         "annotations": annotations or {}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
                     "containers": containers, **spec}}


def claim(ns, name, core=30, memory="1Gi", cls="remote", key="elasticGPUClassName", **spec):
    return {"apiVersion": "elasticgpu.io/v1alpha1", "kind": "ElasticGPUClaim",
            "metadata": {"name": name, "namespace": ns},
            "spec": {key: cls, "resources": {"requests": {
                "elasticgpu.io/gpu-core": core, "elasticgpu.io/gpu-memory": memory}}, **spec}}


def class_(name, **more):
    return {"apiVersion": "elasticgpu.io/v1alpha1", "kind": "ElasticGPUClass",
            "metadata": {"name": name}, "provisioner": "elasticgpu.io/remote", **more}


# ---------------------------------------------------------------- what is seen

def ended(c, ns, name):
    p = c.get("pod", name, ns)
    return p if p and p["status"].get("phase") in ("Succeeded", "Failed") else None


def running(c, ns, name):
    p = c.get("pod", name, ns)
    return p if p and p["status"].get("phase") == "Running" and said(p) else None


def said(p):
    """What the containers wrote and how they ended."""
    words = []
    for s in p["status"].get("containerStatuses", []):
        state = s["state"].get("terminated") or s["lastState"].get("terminated") or {}
        words.append(f"{s['name']}: {state.get('exitCode')} {state.get('message', '')}")
    return "; ".join(words)


def succeeds(c, ns, name, seconds=60):
    p = await_true(f"pod {name} ends", lambda: ended(c, ns, name), seconds)
    assert p["status"]["phase"] == "Succeeded", said(p)
    return p


def phase(c, ns, name, want, seconds=20):
    def look():
        found = c.get("egpuc", name, ns)
        return found if found and found.get("status", {}).get("phase") == want else None
    return await_true(f"claim {name} is {want}", look, seconds)


def events(c, ns, words):
    return [e for e in c.get("events", ns=ns) if words in e["message"]]


# ------------------------------------------------------- every way of asking

@case
def a_claim_by_annotation(c, ns):
    namespace(c, ns)
    c.apply([claim(ns, "train"),
             pod(ns, "user", container(args=[1024, 1]),
                 {"elasticgpu.io/egpuc-main": "train"})])
    p = succeeds(c, ns, "user")
    assert "cards=1 mib=1024 right" in said(p), said(p)
    bound = phase(c, ns, "train", "Bound")
    assert bound["status"]["capacity"]["elasticgpu.io/gpu-core"] == "30"
    await_true("the pod is let go", lambda: not c.get("egpuc", "train", ns)
               ["status"].get("consumers"))
    c.kubectl("delete", "egpuc", "train", "-n", ns)
    c.free()


@case
def a_pod_knows_the_scheduler_by_its_key(c, ns):
    namespace(c, ns)
    c.apply([claim(ns, "train"),
             pod(ns, "user", container(args=[1024, 1]),
                 {"elasticgpu.io/egpuc-main": "train"})])
    env = {e["name"]: e.get("value", "") for e in
           succeeds(c, ns, "user")["spec"]["containers"][0]["env"]}
    assert env["GPUPOOL_SCHEDULER_KEY"] == c.public_key, env["GPUPOOL_SCHEDULER_KEY"]
    c.kubectl("delete", "egpuc", "train", "-n", ns)
    c.free()


@case
def the_other_spelling_of_the_annotation(c, ns):
    namespace(c, ns)
    c.apply([claim(ns, "train", key="storageClassName"),
             pod(ns, "user", container(args=[1024, 1]),
                 {"egpuc.elasticgpu.io/main": "train"})])
    succeeds(c, ns, "user")


@case
def qgpu_in_a_namespace_that_selects_the_class(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply(pod(ns, "user", container(args=[2048, 1], resources={
        QGPU + "core": 20, QGPU + "memory": 2})))
    succeeds(c, ns, "user")
    c.kubectl("delete", "pod", "user", "-n", ns)
    c.free()


@case
def vcuda_by_a_pod_that_selects_the_class(c, ns):
    namespace(c, ns)
    c.apply(pod(ns, "user", container(args=[1280, 1], resources={
        VCUDA + "core": 33, VCUDA + "memory": 5}), labels={"elasticgpu.io/class": "remote"}))
    succeeds(c, ns, "user")


@case
def gpu_manager_vcuda(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply(pod(ns, "user", container(args=[700, 1], resources={
        "nvidia.com/vcuda-core": 10, "nvidia.com/vcuda-memory": 700})))
    succeeds(c, ns, "user")


@case
def two_whole_cards(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply(pod(ns, "user", container(args=[4096, 2], resources={"nvidia.com/gpu": 2}),
                nodeSelector={"nvidia.com/gpu.present": "true"}))
    p = succeeds(c, ns, "user")
    assert "gpu.present" in p["metadata"]["annotations"]["elasticgpu.io/stripped"]
    c.free()


@case
def the_static_cuda_runtime(c, ns):
    if not c.has_runtime:
        return "skip"
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply(pod(ns, "user", container(program="/vecadd-static", resources={
        QGPU + "core": 25, QGPU + "memory": 1})))
    succeeds(c, ns, "user")


@case
def containers_with_claims_of_their_own(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply([claim(ns, "small", memory="512Mi"),
             pod(ns, "user", [
                 container("one", [512, 1]),
                 container("two", [1024, 1, "fork"], {QGPU + "core": 20, QGPU + "memory": 1})],
                 {"elasticgpu.io/egpuc-one": "small"},
                 initContainers=[container("first", [2048, 1],
                                           {QGPU + "core": 20, QGPU + "memory": 2})])])
    succeeds(c, ns, "user")


@case
def containers_that_share_one_session(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    ask = {QGPU + "core": 20, QGPU + "memory": 2}
    c.apply(pod(ns, "user", [container("one", [2048, 1], ask),
                             container("two", [2048, 1, "hold", 1], ask)],
                {"elasticgpu.io/session": "pod"}))
    await_true("one claim", lambda: len(c.get("egpuc", ns=ns)) == 1, 10)
    # Together they may take the memory of one; beside each other they get in their way.
    p = await_true("pod user ends", lambda: ended(c, ns, "user"))
    assert "2048" in said(p)
    assert len(c.get("egpuc", ns=ns)) <= 1


@case
def a_pod_without_requests_is_left_alone(c, ns):
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply(pod(ns, "plain", container(program="/podprobe", args=[0, 0])))
    p = await_true("it ends", lambda: ended(c, ns, "plain"))
    assert p["status"]["phase"] == "Failed"  # there is no libcuda
    assert "schedulingGates" not in p["spec"] and not p["spec"].get("initContainers")
