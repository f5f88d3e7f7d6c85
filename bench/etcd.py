# SPDX-License-Identifier: Apache-2.0
"""An etcd of members on this host, for what keeps its state there."""

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

MEMBERS = 3
PATIENCE_S = 60


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as reply:
            return json.load(reply).get("health") == "true"
    except OSError:
        return False


@contextmanager
def members():
    """The URLs of three members, with commas between; None where there is no etcd."""
    with cluster(MEMBERS) as (urls, _):
        yield ",".join(urls) or None


@contextmanager
def cluster(n):
    """The URLs and process ids of N members; none where there is no etcd."""
    if not shutil.which("etcd"):
        yield [], []
        return
    ports = free_ports(2 * n)
    clients = [f"http://127.0.0.1:{port}" for port in ports[:n]]
    peers = [f"http://127.0.0.1:{port}" for port in ports[n:]]
    cluster = ",".join(f"m{i}={url}" for i, url in enumerate(peers))
    with tempfile.TemporaryDirectory(prefix="gpupool-etcd-") as folder:
        running = [subprocess.Popen(
            ["etcd", "--name", f"m{i}", "--data-dir", Path(folder, f"m{i}"), "--log-level",
             "error", "--listen-client-urls", clients[i], "--advertise-client-urls",
             clients[i], "--listen-peer-urls", peers[i], "--initial-advertise-peer-urls",
             peers[i], "--initial-cluster", cluster],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(n)]
        try:
            end = time.monotonic() + PATIENCE_S
            while not all(map(answers, clients)):
                if time.monotonic() > end:
                    raise RuntimeError("etcd does not answer")
                time.sleep(0.1)
            yield clients, [process.pid for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
