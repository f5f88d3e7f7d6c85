# SPDX-License-Identifier: Apache-2.0
"""Drives build/tests/programs/cudash: one command, one answer."""

import select
import time

SUCCESS = 0
OUT_OF_MEMORY = 2
DEVICE_UNAVAILABLE = 46  # the session is lost
NO_DEVICE = 100
NO_BINARY = 209


class Cudash:
    """A CUDA process that a test commands.

        shell = Cudash(case, pool.spawn(case.programs / "cudash"))
        shell.ok("init")
        result, *values = shell("alloc", 1 << 20)
    """

    def __init__(self, case, process):
        self.case = case
        self.process = process

    def __call__(self, *words, patience=None):
        """Send a command; the answer's numbers (and words), CUresult first."""
        self.send(*words)
        return self.answer(words, patience)

    def ok(self, *words):
        """Send a command that must succeed; its values (one: bare, none: None)."""
        result, *values = self(*words)
        self.case.equal(result, SUCCESS, f"CUresult of {' '.join(map(str, words))}")
        return values[0] if len(values) == 1 else values or None

    def send(self, *words):
        try:
            self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.case.fail(f"cudash ended (status {self.process.wait()}) before {words}")

    def answer(self, words=("?",), patience=None):
        patience = patience or self.case.patience
        end = time.monotonic() + patience
        ready, _, _ = select.select([self.process.stdout], [], [],
                                    max(0.0, end - time.monotonic()))
        if not ready:
            self.case.fail(f"no answer to {words} within {patience:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            self.case.fail(f"cudash ended (status {self.process.wait()}) at {words}")
        print(" ".join(str(word) for word in words), "->", line.strip(), flush=True)
        return [int(word) if word.lstrip("-").isdigit() else word for word in line.split()]

    def begin(self):
        """init, device 0, context."""
        self.ok("init")
        self.ok("device", 0)
        self.ok("context")
        return self

    def close(self):
        """End of input: the program leaves main(); its exit status."""
        self.process.stdin.close()
        return self.process.wait(self.case.patience)
