# SPDX-License-Identifier: Apache-2.0
"""What is in deploy/: the chart, the examples, and rights that are exactly what is said."""
import json
import re
import subprocess

import helm
from cases import case, ended, namespace, said
from cluster import ROOT, await_true

EXAMPLES = ROOT / "deploy" / "examples"
# Everything that can be switched on, at once.
ALL = {"dra.enabled": "true", "controller.legacyGPUs": "true", "extender.enabled": "true",
       "extender.bind": "true", "extender.from": "10.1.0.0/28",
       "serviceMonitor.enabled": "true", "scheduler.storageClass": "fast"}
EVERY_CHART = ({}, ALL, {"scheduler.enabled": "false", "pool.scheduler": "pool.example:7480"},
               {"server.enabled": "false", "networkPolicy.enabled": "false",
                "class.enabled": "false", "webhook.url": "https://hook.example"})


@case
def helm_and_render_make_the_same_of_the_chart(c, ns):
    program = helm.find(c.build)
    if not program:
        return "skip"
    subprocess.run([program, "lint", "--strict", str(helm.CHART)], check=True,
                   stdout=subprocess.DEVNULL)
    for values in EVERY_CHART:
        theirs = helm.documents(helm.render(program, values))
        ours = helm.documents(c.manifests(values))
        ours.pop(("Namespace", c.ns))
        assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
        for key, body in theirs.items():
            assert body == ours[key], f"{key} with {values}:\n{body}\n---\n{ours[key]}"


def objects_of(**properties):
    return {"type": "object", "properties": properties}


def monitor():
    """The schema of a ServiceMonitor or PodMonitor as the Prometheus operator has it, cut
    down to what a chart like this may use; a field that it does not know is refused."""
    text = {"type": "string"}
    endpoints = {"type": "array", "items": objects_of(
        port=text, path=text, interval=text, scheme=text, scrapeTimeout=text)}
    labels = {"type": "object", "additionalProperties": text}
    spec = objects_of(selector=objects_of(matchLabels=labels), endpoints=endpoints,
                      podMetricsEndpoints=endpoints, jobLabel=text)
    spec["required"] = ["selector"]
    return dict(objects_of(spec=spec), required=["spec"])


@case
def the_api_server_takes_all_of_deploy(c, ns):
    """Every manifest of the chart, whatever is switched on, and every example."""
    namespace(c, ns)
    for plural, kind in (("servicemonitors", "ServiceMonitor"), ("podmonitors", "PodMonitor")):
        c.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                 "metadata": {"name": f"{plural}.monitoring.coreos.com"},
                 "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                          "names": {"kind": kind, "plural": plural},
                          "versions": [{"name": "v1", "served": True, "storage": True,
                                        "schema": {"openAPIV3Schema": monitor()}}]}})
    c.kubectl("wait", "--for=condition=Established", "crd", "--all")
    for values in EVERY_CHART:
        c.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-",
                  stdin=c.manifests(values, ns=ns))
    for path in sorted(EXAMPLES.glob("*.yaml")):
        # A dry run makes no namespace for a quota and no template for a pod.
        if path.name not in ("namespace.yaml", "resource-claim.yaml"):
            c.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(path))
    c.kubectl("delete", "crd", "servicemonitors.monitoring.coreos.com",
              "podmonitors.monitoring.coreos.com")


# What the probe must find in the container: MiB of memory and cards.
SEEN = {"by-claim": (4096, 1), "by-qgpu": (4096, 1), "by-vcuda": (4096, 1),
        "by-gpu-manager": (4096, 1), "by-whole-card": (4096, 2), "by-elasticgpu": (4096, 1),
        "by-resource-claim": (2048, 1), "by-elasticgpu-io": (4096, 1)}


def localised(c, path):
    """An example with the test's image; a card of the tests has 4 GiB."""
    objects = []
    text = path.read_text().replace("vcuda-memory: 20", "vcuda-memory: 16")
    done = c.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", stdin=text)
    decoder, rest = json.JSONDecoder(), done.stdout.strip()
    while rest:
        made, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
        objects += made.get("items", [made])
    for made in objects:
        if made["kind"] == "Pod":
            for one in made["spec"]["containers"]:
                one.update(image="localhost/probe:test", imagePullPolicy="Never",
                           command=["/podprobe", *map(str, SEEN[made["metadata"]["name"]])])
    return objects


@case
def every_example_is_taken_and_its_pod_runs(c, ns):
    pods = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        objects = localised(c, path)
        c.apply(objects)
        for made in objects:
            if made["kind"] != "Pod":
                continue
            where = made["metadata"].get("namespace", "default")
            name = made["metadata"]["name"]
            pods.append(name)
            p = await_true(f"{path.name}: {name} ends",
                           lambda where=where, name=name: ended(c, where, name), 90)
            assert p["status"]["phase"] == "Succeeded", f"{path.name}: {said(p)}"
        for made in reversed(objects):
            args = ["delete", made["kind"], made["metadata"]["name"], "--wait=false"]
            where = made["metadata"].get("namespace")
            c.kubectl(*args, *(["-n", where] if where else []), check=False)
        c.free()
    assert len(pods) >= 7, pods


# ------------------------------------------------------------------- rights

REVIEWS = {("selfsubjectreviews.authentication.k8s.io", "create"),
           ("selfsubjectaccessreviews.authorization.k8s.io", "create"),
           ("selfsubjectrulesreviews.authorization.k8s.io", "create"),
           ("configmaps/openshift-service-ca.crt", "get")}


def rights(c, account, where):
    """What an account may do to resources in a namespace, by the API server's own word."""
    done = c.kubectl("auth", "can-i", "--list", "-n", where,
                     f"--as=system:serviceaccount:{c.ns}:{account}")
    found = set()
    for line in done.stdout.splitlines()[1:]:
        match = re.match(r"(\S+)\s+\[(.*?)\]\s+\[(.*?)\]\s+\[(.*?)\]", line)
        if match:
            name = match.group(1) + (f":{match.group(3)}" if match.group(3) else "")
            found |= {(name, verb) for verb in match.group(4).split()}
    return found - REVIEWS


def table(text):
    return {(name, verb) for line in text.strip().splitlines()
            for name, *words in [line.split()] for verb in words}


CONTROLLER = table("""
    pods get list watch patch
    resourcequotas get list watch
    events create
    elasticgpuclasses.elasticgpu.io get list watch
    elasticgpuclaims.elasticgpu.io get list watch create patch delete
    elasticgpus.elasticgpu.io get list watch create patch delete
    elasticgpuclaims.elasticgpu.io/status patch
    elasticgpus.elasticgpu.io/status patch
    elasticgpuclaims.elasticgpu.io/finalizers update
    elasticgpus.elasticgpu.io/finalizers update
    gpus.elasticgpu.io get list watch create delete
    gpus.elasticgpu.io/status patch
    resourceslices.resource.k8s.io get list watch create update delete
    resourceclaims.resource.k8s.io get list watch
    resourceclaims.resource.k8s.io/status patch
    resourceclaims.resource.k8s.io/driver:gpu.elasticgpu.io arbitrary-node:patch
    """)
WEBHOOK = table("""
    elasticgpuclasses.elasticgpu.io get list
    namespaces get
    resourceclaims.resource.k8s.io get
    resourceclaimtemplates.resource.k8s.io get
    deviceclasses.resource.k8s.io get
    mutatingwebhookconfigurations.admissionregistration.k8s.io:gpupool get list watch update
    """)
SCHEDULER = table("""
    tokenreviews.authentication.k8s.io create
    elasticgpuclaims.elasticgpu.io get
    """)


@case
def each_account_may_do_what_is_written_and_nothing_else(c, ns):
    home = {"gpupool-controller": table("""
                leases.coordination.k8s.io create
                leases.coordination.k8s.io:gpupool-controller get list watch update"""),
            "gpupool-webhook": table(
                "secrets:gpupool-webhook-tls get list watch update")}
    for account, expected in (("gpupool-controller", CONTROLLER), ("gpupool-webhook", WEBHOOK),
                              ("gpupool-scheduler", SCHEDULER), ("gpupool-server", set()),
                              ("gpupool-node-plugin", set())):
        for where, more in (("default", set()), (c.ns, home.get(account, set()))):
            found = rights(c, account, where)
            assert found == expected | more, (account, where, sorted(
                found ^ (expected | more)))


@case
def a_forbidden_request_is_refused(c, ns):
    account = f"--as=system:serviceaccount:{c.ns}:"
    for who, args in (("gpupool-controller", ("get", "secrets", "-n", c.ns)),
                      ("gpupool-controller", ("delete", "pod", "x", "-n", "default")),
                      ("gpupool-controller", ("get", "nodes")),
                      ("gpupool-webhook", ("get", "secret", "gpupool-tokens", "-n", c.ns)),
                      ("gpupool-webhook", ("get", "pods", "-A")),
                      ("gpupool-scheduler", ("get", "egpuc", "-n", "default")),
                      ("gpupool-scheduler", ("get", "pods", "-n", "default")),
                      ("gpupool-server", ("get", "pods", "-n", c.ns)),
                      ("gpupool-node-plugin", ("get", "resourceclaims", "-A"))):
        done = c.kubectl(*args, account + who, check=False)
        assert done.returncode != 0 and "forbidden" in done.stderr, (who, args, done.stderr)


@case
def install_status_and_doctor_without_helm(c, ns):
    program = str(c.build / "bin" / "gpupool")
    for words in (("kube", "status"), ("kube", "doctor")):
        done = subprocess.run([program, *words], env=c.env, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stdout}"
    manifest = c.folder / "again.yaml"
    manifest.write_text(c.manifests(c.values()))
    done = subprocess.run([program, "kube", "install", "--manifest", str(manifest)], env=c.env,
                          text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120)
    assert done.returncode == 0, done.stdout


@case
def shared_dra_helm_upgrades_what_it_installed(c, ns):
    if not c.helm:
        return "skip"
    subprocess.run(c.helm_command("upgrade", {"class.policy": "burst-share"}), env=c.env,
                   check=True, stdout=subprocess.DEVNULL, timeout=120)
    await_true("the class has changed", lambda: c.get("elasticgpuclass", "remote")[
        "parameters"]["policy"] == "burst-share", 10)
    c.await_pool()
