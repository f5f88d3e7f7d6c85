# SPDX-License-Identifier: Apache-2.0
"""Where programs of the fuzzer run: the software card itself, and slices of it over each transport.

A side is a command line in front of `replay` and an environment. Programs run one after the other in
one process of each side, a new one after some; sides run at the same time.
"""

import os
import select
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

# A program takes some ten milliseconds; a machine that is busy gets thousands of times that.
PATIENCE_S = 60
# So many programs share a process, and what one leaves behind may be seen by the next.
PROGRAMS = 96
SLICE = ["--core", "20", "--policy", "best-effort", "--memory", "200MiB"]


def stop(child, patience):
    """Wait, then ask, then end: `gpupool run` closes its session where it is only asked."""
    for way in None, signal.SIGTERM, signal.SIGKILL:
        if way:
            os.killpg(child.pid, way)
        try:
            return child.wait(patience if way is None else 20)
        except subprocess.TimeoutExpired:
            continue
    return child.wait()


class Process:
    """`replay --serve` on one side."""

    def __init__(self, command, env, err):
        self.child = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=err, start_new_session=True)
        self.left, self.programs = b"", 0

    def answers(self, path):
        """The lines that a program printed; or what ended the process, or kept it."""
        self.programs += 1
        end = time.monotonic() + PATIENCE_S
        try:
            self.child.stdin.write(f"{path}\n".encode())
            self.child.stdin.flush()
        except BrokenPipeError:
            return None, self.ended()
        while not self.left.endswith(b"\nend\n"):
            ready, _, _ = select.select([self.child.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None, f"HANGS after {PATIENCE_S} s"
            data = os.read(self.child.stdout.fileno(), 1 << 16)
            if not data:
                return None, self.ended()
            self.left += data
        text, self.left = self.left.decode(), b""
        return text.splitlines()[:-1], ""

    def ended(self):
        return f"ended with status {self.child.wait()}"

    def end(self):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        stop(self.child, 30)
        self.child.stdout.close()


class Side:
    def __init__(self, name, front, env, replay, folder, cards):
        self.name, self.front, self.env = name, front, {**os.environ, **env}
        self.replay, self.cards = str(replay), cards  # programs of that many cards at least
        self.err = open(folder / f"{name}.err", "ab+")
        self.process = None

    def run(self, path):
        """What one program printed, line by line as they came, in a process of its own."""
        self.close()
        self.err.truncate(0)
        child = subprocess.Popen([*self.front, self.replay, path], env=self.env, stderr=self.err,
                                 stdout=subprocess.PIPE, start_new_session=True)
        try:
            out, _ = child.communicate(timeout=PATIENCE_S)
            end = f"status {child.returncode}"
        except subprocess.TimeoutExpired as hung:
            out, end = hung.stdout or b"", f"HANGS after {PATIENCE_S} s"
            stop(child, 0)
            child.stdout.close()
        return out.decode().splitlines() + [end]

    def said(self):
        """What its process wrote to standard error."""
        self.err.seek(0)
        return self.err.read().decode(errors="replace").strip()[-600:]

    def run_all(self, paths):
        """What each of them printed."""
        outs = []
        for path in paths:
            if self.process and self.process.programs >= PROGRAMS:
                self.close()
            if not self.process:
                self.process = Process([*self.front, self.replay, "--serve"], self.env, self.err)
            lines, words = self.process.answers(path)
            if lines is None:
                self.close()
                lines = [words]
            outs.append(lines)
        return outs

    def close(self):
        if self.process:
            self.process.end()
            self.process = None


class Sides:
    """A pool of two servers with two cards each, and the sides: the first is the driver itself."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.command = str(build / "bin" / "gpupool")
        self.env = {"GPUPOOL_RUN_DIR": str(folder / "run")}
        self.threads = ThreadPoolExecutor()

    def gpupool(self, *words):
        subprocess.run([self.command, *words], env={**os.environ, **self.env}, check=words[0] == "up",
                       stdout=subprocess.DEVNULL)

    def remote(self, name, link, cards, **env):
        return Side(name, [self.command, "run", *SLICE, *cards, "--"],
                    {**self.env, "GPUPOOL_TRANSPORT": link, **env},
                    self.build / "tests/apifuzz/replay", self.folder, 2 if name == "servers" else 1)

    def __enter__(self):
        (self.folder / "local").mkdir()
        (self.folder / "local" / "libcuda.so.1").symlink_to(
            (self.build / "lib" / "libsoftgpu.so").resolve())
        plain = Side("plain", [], {"LD_LIBRARY_PATH": str(self.folder / "local"), "SOFTGPU_CARDS": "2",
                                   "SOFTGPU_MEMORY": "1GiB", "SOFTGPU_INSTANCE": self.folder.name},
                     self.build / "tests/apifuzz/replay", self.folder, 1)
        self.gpupool("up", "--driver", "softgpu", "--servers", "2", "--cards", "2",
                     "--memory", "1GiB")
        pair = ["--cards", "2"]
        self.all = [plain, self.remote("tcp", "tcp", pair), self.remote("shm", "shm", pair),
                    # The cards of a program are the first ones of two servers.
                    self.remote("servers", "auto", ["--cards", "4", "--span"], REPLAY_CARDS="0,2")]
        return self

    def __exit__(self, *_):
        for side in self.all:
            side.close()
            side.err.close()
        self.threads.shutdown()
        self.gpupool("down", "--force")

    def run_all(self, paths, cards):
        """By side: {number of a program: what it printed}."""
        def one(side):
            mine = [i for i in range(len(paths)) if cards[i] >= side.cards]
            return dict(zip(mine, side.run_all([paths[i] for i in mine])))
        return list(self.threads.map(one, self.all))
