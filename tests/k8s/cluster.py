# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes of one machine, its kubectl, and the pool installed in it."""
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import helm  # noqa: E402
import image  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER_PORT, SERVER_PORT, WEBHOOK_PORT, EXTENDER_PORT = 27480, 27481, 27443, 27399
STORAGE = "gpupool-test"


class Trouble(Exception):
    """What went wrong, in words."""


def await_true(what, condition, seconds=60, pause=0.2):
    """Until condition() is neither None nor False; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value is not None and value is not False:
            return value
        if time.monotonic() > end:
            raise Trouble(f"{what}: not within {seconds} s")
        time.sleep(pause)


class Cluster:
    def __init__(self, tools, folder, build):
        self.tools, self.folder, self.build = Path(tools), Path(folder), Path(build).resolve()
        self.env = dict(os.environ, LIFE=os.environ.get("LIFE", "3600"))
        self.ns = "gpupool"
        self.dra_parts = 2
        self.helm = None  # the program that installed the pool

    # ------------------------------------------------------------ the cluster
    def start(self, gates=()):
        """@gates: feature gates that API server and scheduler have on."""
        if gates:
            flag = "--feature-gates=" + ",".join(f"{gate}=true" for gate in gates)
            wrapper = self.folder / "kube-scheduler"
            wrapper.write_text('#!/bin/sh\nexec "$(dirname "$KUBE_APISERVER")/kube-scheduler" '
                               f'"$@" {flag}\n')
            wrapper.chmod(0o755)
            self.env.update(APISERVER_FLAGS=flag, KUBE_SCHEDULER=str(wrapper))
        done = subprocess.run([self.tools / "start-cluster", self.folder], env=self.env,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=180, check=False)
        if done.returncode != 0:
            raise Trouble("start-cluster: " + done.stdout[-1000:])
        self.read_env()

    def read_env(self):
        for key, value in re.findall(r"(\w+)=(\S+)", (self.folder / "env").read_text()):
            self.env[key] = value
        self.state = self.folder / "scheduler-state"
        self.host = next(a["address"] for a in self.get("node", "node1")["status"]["addresses"]
                         if a["type"] == "InternalIP")  # this machine, as pods see it

    def stop(self):
        subprocess.run([self.tools / "stop-cluster", self.folder], env=self.env, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)

    def kubectl(self, *args, stdin=None, check=True, timeout=60):
        done = subprocess.run(["kubectl", *args], env=self.env, input=stdin, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=timeout)
        if check and done.returncode != 0:
            raise Trouble(f"kubectl {' '.join(args)}: {done.stderr.strip()[-600:]}")
        return done

    def apply(self, objects, check=True):
        """Create or change objects given as dicts; the words of kubectl."""
        if isinstance(objects, dict):
            objects = [objects]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        done = self.kubectl("apply", "-f", "-", stdin=text, check=check)
        return done.stdout + done.stderr

    def get(self, kind, name=None, ns=None):
        """An object, None when it is not there; or the list of all."""
        args = ["get", kind, "-o", "json"] + ([name] if name else [])
        args += ["-n", ns] if ns else (["-A"] if not name else [])
        done = self.kubectl(*args, check=False)
        if done.returncode != 0:
            return None if name else []
        answer = json.loads(done.stdout)
        return answer if name else answer["items"]

    # ------------------------------------------------------------- the images
    def import_image(self, name, files, without=()):
        path = self.folder / "image.tar"
        image.build(path, f"localhost/{name}:test", files, without)
        done = subprocess.run([self.folder / "ctr", "images", "import", path], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        path.unlink()
        if done.returncode != 0:
            raise Trouble(f"image {name}: {done.stdout}")

    def import_images(self):
        b = self.build
        self.import_image("gpupool-kube", {"/usr/bin/gpupool-kube": b / "bin/gpupool-kube"})
        self.import_image("gpupool-kube-client", {
            "/gpupool-copy": b / "bin/gpupool-copy",
            "/lib/gpupool/libcuda.so.1": b / "lib/libcuda.so.1",
            "/lib/gpupool/libnvidia-ml.so.1": b / "lib/libnvidia-ml.so.1",
            "/lib/gpupool/libgpupool-tls.so.1": b / "lib/libgpupool-tls.so.1"})
        self.import_image("gpupool-scheduler",
                          {"/usr/bin/gpupool-scheduler": b / "bin/gpupool-scheduler"})
        server = {f"/usr/bin/{n}": b / "bin" / n for n in ("gpupool-server", "gpupool-worker")}
        for name in ("libsoftgpu.so", "libgpupool-tls.so.1"):
            server["/usr/lib/gpupool/" + name] = b / "lib" / name
        self.import_image("gpupool-server", server)
        tests = {"/true": Path("/bin/true"), "/podprobe": b / "tests/k8s/podprobe"}
        if (b / "tests/programs/vecadd-static").exists():
            tests["/vecadd-static"] = b / "tests/programs/vecadd-static"
        # The stub's TLS library is put into the pod and needs more parts of the C library
        # than the programs do; the image of a real program has all of them.
        for path in image.libraries(b / "lib/libgpupool-tls.so.1"):
            tests[path] = Path(path)
        self.import_image("probe", tests, without=("libcuda.so.1",))
        self.has_runtime = "/vecadd-static" in tests

    # --------------------------------------------------------------- the pool
    def values(self, **more):
        values = {
            "images.kube": "localhost/gpupool-kube:test",
            "images.client": "localhost/gpupool-kube-client:test",
            "images.scheduler": "localhost/gpupool-scheduler:test",
            "images.server": "localhost/gpupool-server:test",
            "images.pullPolicy": "Never",
            "hostNetwork.enabled": "true",
            "hostNetwork.kubeServer": self.env["APISERVER"],
            "pool.scheduler": f"{self.host}:{SCHEDULER_PORT}",
            "scheduler.port": SCHEDULER_PORT,
            "server.port": SERVER_PORT, "server.driver": "softgpu", "server.cards": 2,
            "server.memory": "4GiB", "server.driverPath": "/var/empty",
            "controller.replicas": 2,
            "webhook.replicas": 1, "webhook.port": WEBHOOK_PORT,
            "webhook.url": f"https://127.0.0.1:{WEBHOOK_PORT}",
            "webhook.dnsName": "127.0.0.1",
            "dra.enabled": "true", "dra.kubeletDir": self.folder / "node/root",
            "dra.parts": self.dra_parts,
            "controller.legacyGPUs": "true",
            "scheduler.storageClass": STORAGE,
            "extender.enabled": "true", "extender.bind": "true",
            "extender.port": EXTENDER_PORT, "tokens.users": "users",
        }
        values.update(more)
        return values

    def manifests(self, values, *flags, ns=None):
        command = [sys.executable, ROOT / "deploy/render", "--namespace", ns or self.ns, *flags]
        for key, value in values.items():
            command += ["--set", f"{key}={value}"]
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout

    def helm_command(self, verb, more):
        command = [self.helm, verb, "gpupool", helm.CHART, "-n", self.ns]
        for key, value in self.values(**more).items():
            command += ["--set", f"{key}={value}"]
        return command

    def apply_chart(self):
        if self.helm:
            done = subprocess.run(self.helm_command("install", {}), env=self.env, text=True,
                                  check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=180)
            if done.returncode != 0:
                raise Trouble("helm install: " + done.stdout[-1000:])
            return
        self.kubectl("apply", "-f", "-", stdin=self.manifests({}, "--crds"))
        self.kubectl("wait", "--for=condition=Established", "crd", "--all")
        await_true("the chart is taken", lambda: self.kubectl(
            "apply", "-f", "-", stdin=self.manifests(self.values(), "--no-crds"),
            check=False).returncode == 0, 30, 1)

    def install(self):
        os.makedirs("/var/empty", exist_ok=True)
        self.kubectl("label", "node", "node1", "gpupool.io/server=true", "--overwrite")
        self.kubectl("create", "namespace", self.ns)
        key = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], check=True,
                             text=True, stdout=subprocess.PIPE).stdout
        # As docs/kubernetes.md says.
        self.public_key = subprocess.run(
            "openssl pkey -pubout -outform DER | tail -c 32 | basenc --base64url | tr -d =",
            shell=True, check=True, text=True, input=key, stdout=subprocess.PIPE).stdout.strip()
        extender = secrets.token_hex(16)
        self.kubectl("create", "secret", "generic", "gpupool-tokens", "-n", self.ns,
                     f"--from-literal=extender={extender}",
                     f"--from-literal=users=extender:read:{extender}",
                     f"--from-literal=admin={secrets.token_hex(16)}",
                     f"--from-literal=server={secrets.token_hex(16)}",
                     f"--from-literal=ticket-key={key}",
                     f"--from-literal=ticket-key.pub={self.public_key}")
        self.make_volume()
        self.apply_chart()
        self.await_pool()

    def make_volume(self):
        """For the scheduler's state: a folder of this machine that outlives its pod."""
        self.state.mkdir(exist_ok=True)
        self.state.chmod(0o777)
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume",
                    "metadata": {"name": "gpupool-state"},
                    "spec": {"storageClassName": STORAGE, "capacity": {"storage": "1Gi"},
                             "accessModes": ["ReadWriteOnce"],
                             "persistentVolumeReclaimPolicy": "Retain",
                             "hostPath": {"path": str(self.state)}}})

    def await_pool(self, seconds=90):
        for kind in ("deployment/gpupool-controller", "deployment/gpupool-webhook",
                     "deployment/gpupool-extender",
                     "statefulset/gpupool-scheduler"):
            self.kubectl("rollout", "status", kind, "-n", self.ns,
                         f"--timeout={seconds}s", timeout=seconds + 10)
        await_true("two cards are published", lambda: len(
            [c for c in self.cards() if c["status"].get("phase") == "Available"]) == 2, seconds)
        await_true("the webhook is believed", lambda: all(
            w["clientConfig"].get("caBundle") for w in self.get(
                "mutatingwebhookconfigurations", "gpupool")["webhooks"]), 30)

    def logs(self, ns, lines):
        """The last @lines of each container of @ns whose pod still is there, by its file."""
        for path in sorted((self.folder / "node/podlogs").glob(f"{ns}_*/*/*.log")):
            words = path.read_text(errors="replace").splitlines()
            # In front of each line the runtime writes the time, the stream and a flag.
            yield (path.parent.relative_to(self.folder / "node/podlogs"),
                   [line.split(" ", 3)[-1] for line in words[-lines:]])

    def cards(self):
        return [g for g in self.get("elasticgpus")
                if g["metadata"].get("labels", {}).get("elasticgpu.io/kind") == "card"]

    def slices(self):
        return [g for g in self.get("elasticgpus")
                if g["metadata"].get("labels", {}).get("elasticgpu.io/kind") == "slice"]

    def pids(self, program, word):
        """Processes of the pool's pods on this machine."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if words[0].decode(errors="replace").endswith(program) and (
                        not word or word.encode() in words[1:2]) and any(
                            str(SCHEDULER_PORT).encode() in w or str(WEBHOOK_PORT).encode() in w
                            for w in words):
                    found.append(int(entry.name))
        return found

    def kill(self, program, word=""):
        pids = self.pids(program, word)
        if not pids:
            raise Trouble(f"no {program} {word} runs")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    def free(self):
        """Every slice has been given back, and the scheduler agrees."""
        def settled():
            return not self.slices() and all(
                c["status"].get("allocatable", {}).get("elasticgpu.io/gpu-core") == "100"
                for c in self.cards())
        await_true("everything is given back", settled, 60)


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
