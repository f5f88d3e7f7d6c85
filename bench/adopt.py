# SPDX-License-Identifier: Apache-2.0
"""A server that is killed, and how soon the next one has taken its workers over:
`make bench ONLY=adopt`.

The time is from the start of the second server's process until it listens, which it does
when every worker is its own.  Software cards, with idle programs attached.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORKERS = 16
RESTARTS = 5  # of a round

AIMS = {"adopt_ms": (f"a killed server's successor has {WORKERS} workers, ms", 100, True),
        "adopt_none_ms": ("the same without any worker, ms", None, True)}

# A program with a context, idle until its input ends; then it makes a call more.
IDLE = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
print("attached", flush=True)
sys.stdin.read()
memory = ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096) == 0
print("went on", flush=True)
"""


def server_of(bench):
    """Process, command line and environment of the pool's server."""
    status = json.loads(bench.call(bench.gpupool, "status", "--json"))
    pid = status["servers"][0]["pid"]
    args = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    env = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")[:-1]
    return pid, args, dict(item.split("=", 1) for item in env)


class Server:
    """The pool's server with a state directory, started again and again."""

    def __init__(self, bench):
        pid, self.args, self.env = server_of(bench)
        self.ready = bench.folder / "successor.ready"
        self.args += ["--state-dir", str(bench.folder / "server-state"), "--ready-file",
                      str(self.ready)]
        self.log = open(bench.folder / "successors.log", "ab")
        os.kill(pid, signal.SIGKILL)
        self.process = None
        self.start()

    def start(self):
        """Milliseconds until it listens."""
        self.ready.unlink(missing_ok=True)
        begin = time.monotonic()
        self.process = subprocess.Popen(self.args, env=self.env, stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL)
        while not self.ready.exists():
            if self.process.poll() is not None:
                raise SystemExit(f"bench: the server ended: {self.log.name}")
            time.sleep(0.0005)
        return (time.monotonic() - begin) * 1000

    def restart(self):
        self.process.kill()
        self.process.wait()
        return self.start()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def registered(bench, server):
    """Nothing is placed on a server that the scheduler does not know."""
    for _ in range(600):
        status = json.loads(bench.call(bench.gpupool, "status", "--json"))["servers"][0]
        if status["pid"] == server.process.pid and status["state"] == "alive":
            return
        time.sleep(0.05)
    raise SystemExit("bench: the scheduler does not know the server that was started")


def attach(bench, n):
    """One session of idle programs."""
    words = " & ".join([f'"{sys.executable}" -c "$IDLE" <&3'] * n)
    run = subprocess.Popen(
        [str(bench.gpupool), "run", "--core", "100", "--memory", "2GiB", "--", "sh", "-c",
         f"exec 3<&0; {words} & wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**bench.env, "IDLE": IDLE})
    for _ in range(n):
        if run.stdout.readline() != "attached\n":
            raise SystemExit("bench: a program did not attach")
    return run


def measure(bench, progress):
    bench.down()
    bench.up("softgpu", core=-1)
    server = Server(bench)
    try:
        registered(bench, server)
        rounds = bench.args.rounds * RESTARTS
        progress(f"adopt: {rounds} servers without workers")
        none = [server.restart() for _ in range(rounds)]
        registered(bench, server)
        run = attach(bench, WORKERS)
        progress(f"adopt: {rounds} servers, {WORKERS} workers")
        some = [server.restart() for _ in range(rounds)]
        run.stdin.close()
        if run.stdout.read() != "went on\n" * WORKERS:
            raise SystemExit("bench: a program noticed that its server was killed")
        run.wait()
    finally:
        server.stop()
    bench.down()
    bench.up()
    return {"adopt_ms": statistics.median(some), "adopt_none_ms": statistics.median(none)}
