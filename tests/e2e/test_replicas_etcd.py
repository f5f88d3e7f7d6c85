# SPDX-License-Identifier: Apache-2.0
"""Several schedulers of which none leads."""

import socket
import struct
import threading
from contextlib import suppress

from harness.control import number, text

NOT_LEADER = 50


class Follower(threading.Thread):
    """Says of each request that another scheduler leads."""

    def __init__(self, case):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.names = ""
        self.asked = 0
        self.start()

    def run(self):
        with suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                with link, suppress(OSError):
                    size = struct.unpack("<I", link.recv(4, socket.MSG_WAITALL))[0]
                    link.recv(size, socket.MSG_WAITALL)
                    self.asked += 1
                    error = (number(1, NOT_LEADER) + text(2, "this scheduler does not lead") +
                             text(50, self.names))
                    reply = text(2, error)
                    link.sendall(struct.pack("<I", len(reply)) + reply)
                    link.recv(1)


def test_schedulers_that_name_each_other_are_not_flooded(case):
    one, two = Follower(case), Follower(case)
    one.names, two.names = two.address, one.address
    result = case.run(["gpupool", "drain", "node", "--scheduler", f"{one.address},{two.address}"],
                      status=None, env={"GPUPOOL_TLS": "off"})
    one.listener.close()
    two.listener.close()
    case.check(result.status != 0, "there is no leader")
    case.contains(result.err, "does not lead", "what it says")
    case.check(one.asked > 1, "it was asked again")
    case.check(one.asked + two.asked <= 60, f"asked {one.asked + two.asked} times in 5 s")
