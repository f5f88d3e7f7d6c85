# SPDX-License-Identifier: Apache-2.0
"""`make bench ONLY=k8s`: what a pod and a claim cost on a real cluster of one machine.

    pod      from its creation to the first kernel's end, beyond what a pod of the same
             image without a card takes to its end, both by the API server's clock
    claims   1,000 claims made at once, until all are bound, by one controller
    calls    writes that reached the API server for them, of its own counters, per claim
    memory   controller and webhook beside 10,000 ElasticGPU objects, after 500 reviews
    idle     requests for anything but leases in a minute in which nothing happens

Needs what `make test-k8s` needs; says what is missing and measures nothing otherwise.
"""
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "k8s"))

CLAIMS, OBJECTS, PODS = 1000, 10000, 8
CLAIM_PATH = "/apis/elasticgpu.io/v1alpha1/namespaces/default/elasticgpuclaims"
GPU_PATH = "/apis/elasticgpu.io/v1alpha1/elasticgpus"

AIMS = {
    "k8s_pod_ms": ("pod with a card: creation to its end, ms", None, True),
    "k8s_empty_pod_ms": ("the same image without a card, ms", None, True),
    "k8s_pod_extra_ms": ("creation to first kernel beyond an empty pod, ms", None, True),
    "k8s_claims_per_minute": ("claims bound per minute, one controller", 1000, False),
    "k8s_calls_per_claim": ("writes to the API server per claim", 6, True),
    "k8s_controller_mib": ("controller at 10,000 ElasticGPUs, MiB", None, True),
    "k8s_webhook_mib": ("webhook at 10,000 ElasticGPUs and after 500 reviews, MiB", None, True),
    "k8s_idle_per_minute": ("requests a minute while nothing happens", 0, True),
}


class Api:
    """The API server with the administrator's token, from several threads."""

    def __init__(self, c):
        self.url = c.env["APISERVER"]
        self.token = Path(c.env["TOKENFILE"]).read_text().strip()
        self.tls = ssl.create_default_context(cafile=c.env["CACERT"])

    def call(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode() if body is not None else None,
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method=method)
        with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:
            return answer.read()

    def make(self, path, objects, threads=8):
        def some(part):
            for obj in part:
                self.call("POST", path, obj)
        workers = [threading.Thread(target=some, args=(objects[i::threads],))
                   for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def count(self, verbs, resources):
        """Requests that the API server has seen, ever."""
        total = 0
        for line in self.call("GET", "/metrics").decode().splitlines():
            match = re.match(r"apiserver_request_total\{([^}]*)\} (\S+)", line)
            if match and re.search(f'verb="({verbs})"', match.group(1)) \
                    and re.search(f'resource="({resources})"', match.group(1)):
                total += float(match.group(2))
        return total

    def writes(self):
        """Requests that changed claims, ElasticGPUs and events."""
        return self.count("POST|PUT|PATCH|DELETE|APPLY", "elasticgpuclaims|elasticgpus|events")

    def idle(self, seconds=60):
        """Requests a minute by controller and webhook, beside watches and leases."""
        args = ("GET|LIST|POST|PUT|PATCH|DELETE|APPLY",
                "elasticgpuclaims|elasticgpus|elasticgpuclasses|gpus|resourcequotas|secrets|"
                "mutatingwebhookconfigurations")
        before = self.count(*args)
        time.sleep(seconds)
        return (self.count(*args) - before) * 60 / seconds



def rss_mib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def pod_ms(c, ns, name, made):
    """From the request until the container is seen to have ended."""
    import cases
    from cluster import await_true
    begin = time.monotonic()
    c.apply(made)
    p = await_true(f"pod {name} ends", lambda: cases.ended(c, ns, name), 60, 0.02)
    assert p["status"]["phase"] == "Succeeded", cases.said(p)
    return (time.monotonic() - begin) * 1000


def pods(c, progress):
    import cases
    ns = "bench"
    cases.namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    remote, empty = [], []
    for i in range(PODS):
        progress(f"k8s: pod {i + 1} of {PODS}")
        empty.append(pod_ms(c, ns, f"empty{i}", cases.pod(
            ns, f"empty{i}", cases.container(program="/true"))))
        remote.append(pod_ms(c, ns, f"card{i}", cases.pod(
            ns, f"card{i}", cases.container(args=[1024, 1], resources={
                cases.QGPU + "core": 20, cases.QGPU + "memory": 1}))))
    remote, empty = sorted(remote)[PODS // 2], sorted(empty)[PODS // 2]
    return {"k8s_pod_ms": remote, "k8s_empty_pod_ms": empty,
            "k8s_pod_extra_ms": remote - empty}


def spawn(c, processes, *words):
    processes.append(subprocess.Popen([str(w) for w in words], env=dict(c.env),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    return processes[-1]


def bound(api):
    items = json.loads(api.call("GET", CLAIM_PATH))["items"]
    return sum(x.get("status", {}).get("phase") == "Bound" for x in items)


def reviews(port, count):
    """Have the webhook answer an API server's question so many times."""
    body = json.loads((ROOT / "tests/data/kube/qgpu.in.json").read_text())
    body["request"]["object"]["metadata"]["labels"] = {"elasticgpu.io/class": "remote"}
    link = http.client.HTTPSConnection("127.0.0.1", port, timeout=20,
                                       context=ssl._create_unverified_context())
    for _ in range(count):
        link.request("POST", "/mutate?timeout=10s", json.dumps(body))
        answer = json.loads(link.getresponse().read())
        assert answer["response"]["allowed"] and answer["response"]["patch"], answer
    link.close()


def claims(c, api, processes, progress):
    """A pool of 64 cards that do nothing, and one controller, outside the cluster."""
    from cluster import await_true
    b, folder = c.build / "bin", c.folder
    (folder / "token").write_text("0123456789abcdef0123456789abcdef\n")
    kube = ["--kube-server", c.env["APISERVER"], "--kube-ca-file", c.env["CACERT"],
            "--kube-token-file", c.env["TOKENFILE"]]
    spawn(c, processes, b / "gpupool-scheduler", "--listen", "127.0.0.1:0", "--state-dir",
          folder / "bench-state", "--ready-file", folder / "ready", "--admin-token-file",
          folder / "token", "--server-token-file", folder / "token")
    address = await_true("the scheduler", lambda: (folder / "ready").exists() and
                         (folder / "ready").read_text().strip())
    for i in range(4):  # a null driver has sixteen cards
        spawn(c, processes, b / "gpupool-server", "--listen", "127.0.0.1:0", "--driver", "null",
              "--cards", 16, "--memory", "16GiB", "--name", f"bench{i}", "--scheduler", address,
              "--token-file", folder / "token")
    controller = spawn(c, processes, b / "gpupool-kube", "controller", "--scheduler", address,
                       "--token-file", folder / "token", "--namespace", "default", *kube)
    await_true("64 cards", lambda: len(c.cards()) == 64, 60)
    hook = spawn(c, processes, b / "gpupool-kube", "webhook", "--scheduler", address, "--listen",
                 "127.0.0.1:0", "--image", "client:test", "--dns-name", "127.0.0.1",
                 "--ready-file", folder / "hook", *kube)
    before, begin = api.writes(), time.monotonic()
    progress(f"k8s: {CLAIMS} claims")
    api.make(CLAIM_PATH, [{
        "apiVersion": "elasticgpu.io/v1alpha1", "kind": "ElasticGPUClaim",
        "metadata": {"name": f"c{i}"},
        "spec": {"elasticGPUClassName": "remote", "resources": {"requests": {
            "elasticgpu.io/gpu-core": 6, "elasticgpu.io/gpu-memory": "512Mi"}}}}
        for i in range(CLAIMS)])
    await_true("all are bound", lambda: bound(api) == CLAIMS, 300, 1)
    took = time.monotonic() - begin
    calls = (api.writes() - before - CLAIMS) / CLAIMS
    progress(f"k8s: {OBJECTS} objects")
    api.make(GPU_PATH, [{"apiVersion": "elasticgpu.io/v1alpha1", "kind": "ElasticGPU",
                         "metadata": {"name": f"filler-{i}"},
                         "spec": {"nodeName": "elsewhere", "capacity": {
                             "elasticgpu.io/gpu-core": 100, "elasticgpu.io/gpu-memory": "80Gi"},
                             "remoteGPU": {"server": "elsewhere", "endpoint": "192.0.2.1:7481",
                                           "gpuUUIDs": [f"GPU-{i:036d}"]}}}
                        for i in range(OBJECTS - CLAIMS)])
    port = await_true("the webhook", lambda: (folder / "hook").exists() and
                      int((folder / "hook").read_text()))
    reviews(port, 500)
    time.sleep(5)
    return {"k8s_claims_per_minute": CLAIMS / took * 60, "k8s_calls_per_claim": calls,
            "k8s_controller_mib": rss_mib(controller.pid), "k8s_webhook_mib": rss_mib(hook.pid),
            "k8s_idle_per_minute": api.idle()}


def measure(build, progress):
    tools = os.environ.get("GPUPOOL_K8S_TOOLS")
    if not tools or os.geteuid() != 0:
        progress("k8s: left out: it needs root and GPUPOOL_K8S_TOOLS (tests/k8s/run.py)")
        return {}
    import cluster
    c = cluster.Cluster(tools, tempfile.mkdtemp(prefix="gpupool-k8s."), build)
    processes, values = [], {}
    try:
        progress("k8s: a cluster is started, the pool installed")
        c.start()
        c.import_images()
        c.install()
        values.update(pods(c, progress))
        c.kubectl("delete", "namespace", c.ns, "bench", timeout=120)
        c.kubectl("delete", "elasticgpus", "--all", timeout=120)
        values.update(claims(c, Api(c), processes, progress))
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        c.stop()
        cluster.remove(c.folder)
    return values
