# SPDX-License-Identifier: Apache-2.0
"""Where programs of the fuzzer run: the software card itself, and slices of it over each transport.

A side is a command line in front of `replay` and an environment. Programs run one after the other in
one process of each side, a new one after some; sides run at the same time.
"""

import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from evidence import Evidence
from watch import IDLE_TICKS, is_starved, progress

# A program takes some milliseconds; a machine that is busy gets thousands of times that. After the
# first time it is looked at whether anything still works, and after the second one no more.
PATIENCE_S, PATIENCE_BUSY_S = 60, 300
LOOK_EVERY_S = 10
LINKS = "tcp", "shm"
GOES_ON_S = 5
# At the lowest priority beside others `gpupool run` may get no turn for half a minute, and then its
# session's lease has ended.
LEASE_MS = "300000"
# Whole cards: sessions that share a card take turns, and wait for each other.  The session before may
# not have ended yet where its process had to be killed.
SLICE = ["--core", "100", "--wait=60s"]
# Runs a command line whose address space has no room for the range that host and cards have in common.
NO_RANGE = [sys.executable, "-c", "import os, resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))\n"
            "os.execv(sys.argv[1], sys.argv[1:])"]


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


def lost(out):
    """Whether calls answer CUDA_ERROR_DEVICE_UNAVAILABLE in the end: so would all further ones."""
    lines = out[:-len(b"end\n")].rpartition(b"\nlog ")[0][-400:].splitlines()
    return any(line.split()[1:2] == [b"46"] for line in lines[1:])


class Process:
    """`replay` on one side, with --serve or one program."""

    def __init__(self, side, *words):
        self.side = side
        self.child = subprocess.Popen([*side.front, side.replay, *words], env=side.env,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=side.err, start_new_session=True)

    def read(self, ended):
        """What it prints until @ended says that this is all; and why there is no more, or ""."""
        out, began, used = b"", time.monotonic(), None
        patience, limit = PATIENCE_S, PATIENCE_BUSY_S
        while not ended(out):
            waited = time.monotonic() - began
            if waited >= patience:
                before, used = used, progress(self.child.pid, self.side.run_dir)
                if waited >= limit or (before is not None and used - before < IDLE_TICKS and
                                       not is_starved(self.child.pid, self.side.run_dir)):
                    how = "works but prints nothing" if waited >= limit else "HANGS"
                    how = f"{how} after {waited:.0f} s"
                    self.leave_evidence(out, how)
                    return out, how
                patience = waited + LOOK_EVERY_S
            ready, _, _ = select.select([self.child.stdout], [], [], max(0, patience - waited))
            data = os.read(self.child.stdout.fileno(), 1 << 16) if ready else None
            if data == b"":
                return out, f"ended with status {self.child.wait()}"
            out += data or b""
        if time.monotonic() - began > PATIENCE_S:
            self.side.slow += 1
        return out, ""

    def leave_evidence(self, out, how):
        """Before anything is ended.  Stacks are read by interrupting every thread; whether that made
        the program go on is part of it."""
        last = out.decode(errors="replace").splitlines()[-1:]
        path = self.side.evidence.of(self.side.name, self.child.pid, self.side.run_dir,
                                     f"{how}, behind the answer {last}")
        if path:
            ready, _, _ = select.select([self.child.stdout], [], [], GOES_ON_S)
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"\n=== {'It printed more' if ready else 'It printed nothing'} in the "
                           f"{GOES_ON_S} s after that\n")

    def answers(self, path):
        """What a program printed; or what ended the process, or kept it, and that it is of no use."""
        try:
            self.child.stdin.write(f"{path}\n".encode())
            self.child.stdin.flush()
        except BrokenPipeError:
            return f"ended with status {self.child.wait()}\n".encode(), False
        out, words = self.read(lambda out: out.endswith(b"\nend\n"))
        if words:
            return words.encode() + b"\n", False
        if lost(out):
            print(f"{self.side.name}: the session is lost: {self.side.said()}", flush=True)
        return out[:-len(b"end\n")], not lost(out)

    def all(self):
        """What it printed until its end, and how that came."""
        out, words = self.read(lambda out: False)
        return out + words.encode() + b"\n"

    def end(self, patience=30):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        stop(self.child, patience)
        self.child.stdout.close()


class Side:
    def __init__(self, name, front, env, build, folder, servers, evidence):
        self.name, self.front, self.env = name, front, {**os.environ, **env}
        self.evidence = evidence
        self.replay = str(build / "tests/apifuzz/replay")
        # It runs programs of that many servers at least.
        self.run_dir, self.servers = folder / "run", servers
        self.err = open(folder / f"{name}.err", "ab+")
        self.process = None
        self.slow = 0  # programs that took longer than a minute and were right

    def run(self, path):
        """What one program printed, line by line as they came, in a process of its own."""
        self.close()
        self.err.truncate(0)
        process = Process(self, path)
        out = process.all()
        process.end(0)
        return out

    def said(self):
        """What its process wrote to standard error."""
        self.err.seek(0)
        return self.err.read().decode(errors="replace").strip()[-600:]

    def run_all(self, paths):
        """What each of them printed, behind those that the process ran before."""
        outs = []
        for path in paths:
            if not self.process:
                self.process = Process(self, "--serve")
            out, usable = self.process.answers(path)
            if not usable:
                self.close(0)
            outs.append(out)
        return outs

    def close(self, patience=30):
        if self.process:
            self.process.end(patience)
            self.process = None


class Sides:
    """Four servers with two software cards each, and the sides: the first is the driver itself.

    With a real driver one server, with its cards.
    """

    def __init__(self, build, folder, twice=False, links=LINKS, listen=None, driver=None, cards=2,
                 soft=False, no_range=False):
        self.build, self.folder, self.twice = build, folder, twice
        self.driver, self.cards = driver or build / "lib" / "libsoftgpu.so", cards
        # Where the kernel has HMM, real cards reach the worker's memory.
        self.pool = (["--driver", str(driver), "--pageable-access", "allow"] if driver else
                     ["--driver", "softgpu", "--servers", "4", "--cards", "2", "--memory", "1GiB"])
        self.several = not driver
        self.soft = soft  # a real driver is compared with the software card as well
        self.behind_run = NO_RANGE if no_range else []
        self.links = links
        # Where servers listen: an RDMA port has an address of its own.
        self.listen = ["--listen", listen] if listen else []
        # The folder of the run goes with it; what is known of hangs stays.
        self.evidence = Evidence(build / "apifuzz-hangs")
        self.command = str(build / "bin" / "gpupool")
        self.env = {"GPUPOOL_RUN_DIR": str(folder / "run")}
        self.threads = ThreadPoolExecutor()
        self.all = []

    def gpupool(self, *words):
        subprocess.run([self.command, *words], env={**os.environ, **self.env}, check=words[0] == "up",
                       stdout=subprocess.DEVNULL)

    def remote(self, name, link, cards, **env):
        return Side(name, [self.command, "run", *SLICE, *cards, "--", *self.behind_run],
                    {**self.env, "GPUPOOL_TRANSPORT": link, **env}, self.build, self.folder,
                    2 if name == "servers" else 1, self.evidence)

    def plain(self, name, library="local"):
        return Side(name, [], {"LD_LIBRARY_PATH": str(self.folder / library), "SOFTGPU_CARDS": "2",
                               "SOFTGPU_MEMORY": "1GiB",
                               "SOFTGPU_INSTANCE": f"{self.folder.name}-{name}"},
                    self.build, self.folder, 1, self.evidence)

    def __enter__(self):
        for name, library in (("local", self.driver),
                              ("soft", self.build / "lib" / "libsoftgpu.so")):
            (self.folder / name).mkdir()
            (self.folder / name / "libcuda.so.1").symlink_to(library.resolve())
        if self.links or self.several:
            self.gpupool("up", *self.pool, *self.listen, "--lease-ms", LEASE_MS)
        self.all = [self.plain("plain"),
                    *(self.remote(link, link, ["--cards", str(self.cards)])
                      for link in self.links)]
        if self.several:  # the cards of a program are the first ones of two servers
            self.all.append(self.remote("servers", "auto", ["--cards", "4", "--span"],
                                        REPLAY_CARDS="0,2"))
        if self.soft:
            self.all.append(self.plain("softgpu", "soft"))
        if self.twice:
            self.all.append(self.plain("again"))
        return self

    def __exit__(self, *_):
        for side in self.all:
            side.close()
            side.err.close()
        self.threads.shutdown()
        self.gpupool("down", "--force")

    def turn(self, number):
        """Over which transport two servers are reached from now on, in turns: the best one is shared
        memory on one machine."""
        if not self.several:
            return
        links = [link.replace("shm", "auto") for link in self.links[::-1]]
        link = links[number % len(links)]
        servers = self.all[1 + len(self.links)]
        servers.env["GPUPOOL_TRANSPORT"] = link
        servers.name = f"servers over {link}"

    def run_all(self, paths, servers):
        """By side: {number of a program: what it printed}, in new processes."""
        def one(side):
            side.close()
            mine = [i for i in range(len(paths)) if servers[i] >= side.servers]
            return dict(zip(mine, side.run_all([paths[i] for i in mine])))
        return list(self.threads.map(one, self.all))
