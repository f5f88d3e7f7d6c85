# SPDX-License-Identifier: Apache-2.0
"""Two hosts for one test: two network namespaces and a cable that can be pulled.

The test itself, and so the pool that it starts, moves into the first namespace; the
second holds clients.  Whether bytes are acknowledged is then decided by two real TCP
stacks.  Needs root and iproute2.
"""

import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000
NEAR, FAR, OTHER = "10.213.7.1", "10.213.7.2", "10.213.7.3"


class Cable:
    """The pool's side has the address .near; commands run on the other through .far()."""

    near = NEAR

    def __init__(self, case):
        if os.geteuid() != 0:
            case.skip("two network namespaces need root")
        self.ip = case.need_tool("ip")
        self.enter = case.need_tool("nsenter")
        case.need_tool("unshare")
        self.case = case
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            case.skip(f"no network namespaces: {os.strerror(ctypes.get_errno())}")
        # The namespace exists once the holder says so, and as long as it lives.
        self.holder = case.spawn(["unshare", "--net", "sh", "-c", "echo there; exec cat"])
        self.holder.stdout.readline()
        self._ip("link", "set", "lo", "up")
        self._ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns",
                 self.holder.pid)
        self._ip("addr", "add", f"{NEAR}/24", "dev", "near")
        self._ip("link", "set", "near", "up")
        for words in (("link", "set", "lo", "up"), ("addr", "add", f"{FAR}/24", "dev", "far"),
                      ("link", "set", "far", "up")):
            self._ip(*words, far=True)

    def _ip(self, *words, far=False):
        prefix = self.far() if far else []
        subprocess.run([*prefix, self.ip, *map(str, words)], check=True)

    def far(self):
        """The words in front of a command that run it on the other host."""
        return [self.enter, "-t", str(self.holder.pid), "-n"]

    def pull(self):
        """From now on nothing arrives, and nobody is told."""
        self._ip("link", "set", "far", "down", far=True)

    def plug(self):
        self._ip("link", "set", "far", "up", far=True)

    def change_address(self):
        """The far host has another address, and nobody is told."""
        self._ip("addr", "del", f"{FAR}/24", "dev", "far", far=True)
        self._ip("addr", "add", f"{OTHER}/24", "dev", "far", far=True)
