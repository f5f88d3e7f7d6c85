#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-k8s`: pods with remote GPUs on a real Kubernetes of one machine.

GPUPOOL_K8S_TOOLS names a folder with start-cluster and stop-cluster: start-cluster DIR
starts etcd, kube-apiserver, controller-manager, scheduler, containerd and a kubelet as
node1, everything under DIR, and writes DIR/env (KUBECONFIG, APISERVER) and DIR/ctr, a
ctr that imports images.  Without it, or without root, the test says so and is skipped.

The chart's manifests are installed, images are made of the build, and the pods' own exit
codes judge.  KEEP=1 leaves the cluster; CLUSTER=DIR uses one that runs (SHARED=1: with the
feature gate DRAConsumableCapacity on).
"""
import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
import cases  # noqa: E402
import cluster  # noqa: E402
import helm  # noqa: E402
from chosen import end_if_none, matches  # noqa: E402

LOG_LINES = 40  # of each container, shown when a case fails
DISK_FREE = 0.17  # of the disk, or images are removed; the test itself needs some


def skip(why):
    print(f"SKIP k8s: {why}")
    print("0 passed, 0 failed, 1 skipped")
    return 0


def explain(c, ns):
    """What a failed case left behind, for people."""
    for args in (["get", "pods,egpuc", "-n", ns, "-o", "wide"], ["get", "egpu"],
                 ["get", "events", "-n", ns, "--sort-by=.lastTimestamp"]):
        print(c.kubectl(*args, check=False).stdout[-3000:])
    for folder in (ns, c.ns) if ns != c.ns else (ns,):
        for name, lines in c.logs(folder, LOG_LINES):
            print(f"log of {name}:", *lines, sep="\n  ")


def run_case(c, name, case):
    begin = time.monotonic()
    ns = name.replace("_", "-")[:50].rstrip("-")
    try:
        done = case(c, ns)
        c.kubectl("delete", "namespace", ns, "--ignore-not-found", "--wait=false")
        word = "SKIP" if done == "skip" else "PASS"
        print(f"{word} {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        return word
    except Exception as error:  # every case gets its chance
        print(f"FAIL {name}: {error}", flush=True)
        if not isinstance(error, (cluster.Trouble, AssertionError)):
            traceback.print_exc()
        explain(c, ns)
        c.kubectl("delete", "namespace", ns, "--ignore-not-found", "--wait=false", check=False)
        return "FAIL"


def chosen(only, shared):
    """The cases of one cluster: those with DRAConsumableCapacity on have one of their own."""
    return [(name, case) for name, case in cases.all_cases()
            if matches(name, only) and name.startswith("shared_dra") == shared]


def run_all(c, some, counts):
    for name, case in some:
        counts[run_case(c, name, case)] += 1


def in_cluster(c, gates, some, counts):
    try:
        if gates:  # the second cluster gets its pool by Helm, where there is one
            c.helm = helm.find(c.build)
        c.start(gates)
        c.import_images()
        c.install()
        print(f"the cluster is ready, the pool is installed ({c.folder})", flush=True)
        run_all(c, some, counts)
    except cluster.Trouble as error:
        print(f"FAIL setup: {error}")
        counts["FAIL"] += 1
        explain(c, c.ns)
    finally:
        if not os.environ.get("KEEP"):
            c.stop()
            cluster.remove(c.folder)


def disk_is_full():
    """Why a kubelet would remove our images, or None.

    It counts what is not available as used, space that is reserved for others too, and
    removes images that no container uses from 85 % on (imageGCHighThresholdPercent).
    """
    disk = os.statvfs(tempfile.gettempdir())
    free = disk.f_bavail / disk.f_blocks
    if free > DISK_FREE:
        return None
    return (f"only {free:.0%} of the disk of {tempfile.gettempdir()} is available; with 15 % or less a "
            "kubelet removes the images that the test has made: free some, or set TMPDIR")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    # Whoever ends the test, as `timeout` does, leaves no cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = [name for name, _ in cases.all_cases()]
    end_if_none([name for name in names if matches(name, args.only)], args.only, names)
    tools = os.environ.get("GPUPOOL_K8S_TOOLS")
    if not tools:
        return skip("set GPUPOOL_K8S_TOOLS to a folder with start-cluster and stop-cluster")
    if os.geteuid() != 0:
        return skip("a kubelet needs root")
    why = disk_is_full()
    if why:
        return skip(why)
    folder = os.environ.get("CLUSTER")
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    if folder:
        c = cluster.Cluster(tools, folder, args.build)
        c.read_env()
        c.has_runtime = (c.build / "tests/programs/vecadd-static").exists()
        run_all(c, chosen(args.only, bool(os.environ.get("SHARED"))), counts)
    for gates in () if folder else ((), ("DRAConsumableCapacity",)):
        some = chosen(args.only, bool(gates))
        if some:
            in_cluster(cluster.Cluster(tools, tempfile.mkdtemp(prefix="gpupool-k8s."),
                                       args.build), gates, some, counts)
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
