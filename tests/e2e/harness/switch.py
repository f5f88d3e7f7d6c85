# SPDX-License-Identifier: Apache-2.0
"""Several hosts for one test: network namespaces on a switch that can be split.

The test itself is one of the hosts (.own).  Hosts of one group reach each other; what is
sent to another group gets lost and nobody is told.  Needs root and iproute2.
"""

import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000
OWN = "10.213.8.1"


class Switch:
    own = OWN

    def __init__(self, case, names):
        if os.geteuid() != 0:
            case.skip("network namespaces need root")
        self.ip = case.need_tool("ip")
        self.enter = case.need_tool("nsenter")
        case.need_tool("unshare")
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            case.skip(f"no network namespaces: {os.strerror(ctypes.get_errno())}")
        self._ip("link", "set", "lo", "up")
        self.bridges, self.holders, self.addresses = [], {}, {}
        if not self._bridge(0):
            case.skip("no bridges in network namespaces")
        self._ip("link", "add", "own", "type", "veth", "peer", "name", "p-own")
        self._up("own", OWN)
        for i, name in enumerate(names):
            holder = case.spawn(["unshare", "--net", "sh", "-c", "echo there; exec cat"])
            holder.stdout.readline()
            self.holders[name], self.addresses[name] = holder, f"10.213.8.{10 + i}"
            self._ip("link", "add", f"p-{name}", "type", "veth", "peer", "name", "port",
                     "netns", holder.pid)
            self._up("port", self.addresses[name], self.on(name))
        self.heal()

    def on(self, name):
        """The words in front of a command that run it on that host."""
        return [self.enter, "-t", str(self.holders[name].pid), "-n"]

    def split(self, *groups):
        """Each of @groups (names of hosts) is alone with itself; all others, and .own
        unless it is in one of them ("own"), stay together."""
        group_of = {name: i + 1 for i, group in enumerate(groups) for name in group}
        while len(self.bridges) <= len(groups):
            self._bridge(len(self.bridges))
        for name in ["own", *self.holders]:
            self._ip("link", "set", f"p-{name}", "master", self.bridges[group_of.get(name, 0)])
            self._ip("link", "set", f"p-{name}", "up")

    def heal(self):
        self.split()

    def _bridge(self, i):
        made = subprocess.run([self.ip, "link", "add", f"br{i}", "type", "bridge"],
                              capture_output=True).returncode == 0
        if made:
            self._ip("link", "set", f"br{i}", "up")
            self.bridges.append(f"br{i}")
        return made

    def _up(self, link, address, prefix=()):
        for words in (("link", "set", "lo", "up"), ("addr", "add", f"{address}/24", "dev", link),
                      ("link", "set", link, "up")):
            self._ip(*words, prefix=prefix)

    def _ip(self, *words, prefix=()):
        subprocess.run([*prefix, self.ip, *map(str, words)], check=True)
