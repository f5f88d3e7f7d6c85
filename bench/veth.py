# SPDX-License-Identifier: Apache-2.0
"""TCP between two network namespaces over a veth pair: two hosts as far as both TCP
stacks know, so nothing that is done within one host applies.  Needs root and iproute2.

The pool is in one of them, the programs that are measured in the other one, and the raw
link goes the same way in the same minute; so does iperf3 where it is installed."""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

NEAR, FAR = "10.213.9.1", "10.213.9.2"
IPERF_SECONDS = 2


def why_not():
    """Why there can be no two namespaces here; None when there can."""
    if os.geteuid() != 0:
        return "two network namespaces need root"
    for tool in ("ip", "unshare", "nsenter"):
        if not shutil.which(tool):
            return f"{tool} is not installed (Debian: iproute2, util-linux)"
    return None


class Pair:
    """Two namespaces and the pair of devices between them, while it is open."""

    def __enter__(self):
        self.holders = []
        try:
            self.near, self.far = self._namespace(), self._namespace()
            self._ip(self.near, "link", "add", "near", "type", "veth", "peer", "name", "far",
                     "netns", str(self.holders[1].pid))
            for where, name, address in ((self.near, "near", NEAR), (self.far, "far", FAR)):
                self._ip(where, "link", "set", "lo", "up")
                self._ip(where, "addr", "add", f"{address}/24", "dev", name)
                self._ip(where, "link", "set", name, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()

    def _namespace(self):
        """Exists once the holder says so, and as long as it lives.  Its path."""
        libc = ctypes.CDLL(None)
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo there; exec sleep 86400"],
                                  stdout=subprocess.PIPE,
                                  preexec_fn=lambda: libc.prctl(1, 9))  # ends with us
        self.holders.append(holder)
        if not holder.stdout.readline():
            raise SystemExit("bench: no network namespace (unshare --net failed)")
        return f"/proc/{holder.pid}/ns/net"

    @staticmethod
    def enter(where):
        return ["nsenter", f"--net={where}"]

    def _ip(self, where, *words):
        subprocess.run([*self.enter(where), "ip", *words], check=True)

    def received(self):
        """Bytes that came to the pool's side so far."""
        with open(f"/proc/{self.holders[0].pid}/net/dev", encoding="utf-8") as lines:
            for line in lines:
                name, _, rest = line.partition(":")
                if name.strip() == "near":
                    return int(rest.split()[0])
        raise SystemExit("bench: the veth pair is gone")


@contextlib.contextmanager
def iperf_server(before, core):
    """An iperf3 server on @core; waits until it listens."""
    server = subprocess.Popen([*before, "iperf3", "-s", "-A", str(core)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def iperf_once(before, host, core, way):
    for _ in range(50):
        done = subprocess.run([*before, "iperf3", "-c", host, "-A", str(core), "-J",
                               "-t", str(IPERF_SECONDS), *way], capture_output=True, text=True)
        answer = json.loads(done.stdout or "{}")
        if "error" not in answer:
            return answer["end"]["sum_received"]["bits_per_second"] / 8e9
        time.sleep(0.1)  # the server does not listen yet
    raise SystemExit(f"bench: iperf3: {answer['error']}")


def iperf(link, core, server=(), client=(), host="127.0.0.1"):
    """GB/s both ways, both ends on @core; {} without iperf3."""
    if not shutil.which("iperf3"):
        return {}
    core = max(core, 0)
    with iperf_server(server, core):
        return {f"iperf3_up_{link}_gbps": iperf_once(client, host, core, []),
                f"iperf3_down_{link}_gbps": iperf_once(client, host, core, ["-R"])}


class Place:
    """Where the programs of one link run, and the options of their raw side."""

    def __init__(self, link, pair=None):
        self.link, self.pair = link, pair

    def options(self):
        found = [f"--shm={int(self.link == 'shm')}"]
        if self.pair:
            found += [f"--peer-netns={self.pair.near}", f"--raw-host={NEAR}"]
        return found

    def before(self):
        """In front of a program that is measured."""
        return self.pair.enter(self.pair.far) if self.pair else []

    def iperf(self, core):
        if self.link == "shm":
            return {}
        if not self.pair:
            return iperf(self.link, core)
        return iperf(self.link, core, self.pair.enter(self.pair.near),
                     self.pair.enter(self.pair.far), NEAR)


def transport(link):
    """What the stub calls the link: veth is TCP."""
    return "tcp" if link == "veth" else link
