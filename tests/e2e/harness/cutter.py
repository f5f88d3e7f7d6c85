# SPDX-License-Identifier: Apache-2.0
"""tests/cutter: a relay in front of a server that cuts every connection again and again."""


class Cutter:
    """Relays 127.0.0.1:.port to @target; cuts all connections every @every seconds, and
    every @kib KiB."""

    def __init__(self, case, target, every=0.3, kib=0, seed=1):
        self.process = case.spawn([case.build / "tests" / "cutter" / "cutter", target[0],
                                   target[1], int(every * 1000), kib, seed])
        self.port = int(self.process.stdout.readline())

    def _ask(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    @property
    def cuts(self):
        return self._ask("count")

    @property
    def busy(self):
        """How many of the connections that live have carried a mebibyte one way."""
        return self._ask("busy")

    def every(self, seconds):
        """From now on; 0: no cuts but by cut()."""
        return self._ask(f"every {int(seconds * 1000)}")

    def cut(self):
        """Every connection ends now, in the middle of whatever it carries."""
        return self._ask("cut")
