# SPDX-License-Identifier: Apache-2.0
"""The pool is taken out of the cluster.  Last: the other cases need it."""
import subprocess
import time

from cases import case, claim, container, namespace, phase, pod, running, QGPU
from cluster import Trouble, await_true

# The kinds of what the chart and the controller make outside the pool's namespace.
KINDS = ("crd", "clusterroles", "clusterrolebindings", "mutatingwebhookconfigurations",
         "deviceclasses", "resourceslices")


def left(c):
    """What is the pool's, by its name."""
    found = [f"{kind}/{o['metadata']['name']}" for kind in KINDS for o in c.get(kind)
             if "gpu" in o["metadata"]["name"]]
    return found + (["its namespace"] if c.get("namespace", c.ns) else [])


def uninstall(c, *options):
    path = c.folder / "removal.yaml"
    path.write_text(c.manifests(c.values()))
    return subprocess.run([str(c.build / "bin/gpupool"), "kube", "uninstall", "--manifest",
                           str(path), *options], env=c.env, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150)


def use(c, ns):
    """A claim of its own, and a pod that runs."""
    namespace(c, ns, **{"elasticgpu.io/class": "remote"})
    c.apply([claim(ns, "kept"), pod(ns, "user", container(
        args=[1024, 1, "hold", 600], resources={QGPU + "core": 20, QGPU + "memory": 1}))])
    phase(c, ns, "kept", "Bound")
    await_true("it runs", lambda: running(c, ns, "user"))


def install_again(c):
    """The volume of the scheduler is retained; an administrator lets another have it."""
    c.kubectl("patch", "pv", "gpupool-state", "--type=merge", "-p", '{"spec":{"claimRef":null}}')
    c.install()


def namespace_goes(c, ns):
    done = c.kubectl("delete", "namespace", ns, "--timeout=30s", check=False, timeout=40)
    if done.returncode != 0:
        raise Trouble(f"namespace {ns} cannot be deleted: {done.stderr}")


@case
def uninstall_leaves_nothing(c, ns):
    use(c, ns)
    done = uninstall(c)
    assert done.returncode == 1 and f"{ns}/user" in done.stdout, done.stdout
    assert c.get("egpuc", "kept", ns)["status"]["phase"] == "Bound", "something was ended"
    c.kubectl("delete", "pod", "user", "-n", ns)
    done = uninstall(c)
    assert done.returncode == 0, done.stdout
    assert left(c) == [], left(c)
    namespace_goes(c, ns)
    install_again(c)


@case
def uninstall_frees_what_waits_for_a_controller_that_is_gone(c, ns):
    """Somebody has deleted the manifest: claims wait for their finalizers."""
    use(c, ns)
    c.kubectl("delete", "-f", "-", "--wait=false", stdin=c.manifests(c.values()), check=False)
    await_true("the pool's namespace is gone", lambda: c.get("namespace", c.ns) is None, 60)
    time.sleep(2)
    assert left(c), "the claims' kind was expected to wait"
    done = uninstall(c)
    assert done.returncode == 0, done.stdout
    await_true("nothing is left", lambda: left(c) == [], 30)
    namespace_goes(c, ns)
    install_again(c)
