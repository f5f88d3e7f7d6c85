#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-container-limits`: control groups of sessions in a container, as a kubelet makes it.

On this machine it has a guest with a kernel of Debian's, which has version 2 of control groups
(tests/rdma/rdma-vm), run this file again.  There a server is the first process of a process
namespace, in a group with a limit of memory that the kernel ends as a whole, and sees the host's
groups, as a privileged container does.  No engine is needed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUPS = Path("/sys/fs/cgroup")
TASKS = "4096"  # SRV_CGROUP_TASKS
POD_MIB, SLICE_MIB = 384, 768
# An emulated processor takes ten times as long.
LIMIT_S = 300
GUEST_S = 1500
PROTECTED = -997  # a pod of the class system-node-critical
# In the pod's group before anything else.  Its parent, outside, ends with it.
CONTAINER = ('echo 0 >"$0/cgroup.procs" && mount -t proc proc /proc && '
             f'echo {PROTECTED} >/proc/self/oom_score_adj && %s')
PRIVILEGED = 'exec "$@"'
READ_ONLY = 'mount -o remount,ro,bind /sys/fs/cgroup && exec "$@"'
# A namespace of groups of its own, without and with what it shows.
HOSTS_GROUPS = 'exec unshare --cgroup "$@"'
OWN_TREE = ('umount /sys/fs/cgroup && exec unshare --cgroup '
            'sh -c \'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"\' sh "$@"')


class Trouble(Exception):
    """What went wrong, in words."""


def wait(what, true):
    end = time.monotonic() + LIMIT_S
    while True:
        value = true()
        if value:
            return value
        if time.monotonic() > end:
            raise Trouble(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.2)


# A program that does what it reads, and says the driver's results.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, found = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint32()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
      cuda.cuCtxSetCurrent(context), flush=True)
for line in sys.stdin:
    size = ctypes.c_size_t(int(line) << 20)
    print(cuda.cuMemAlloc_v2(ctypes.byref(memory), size),
          cuda.cuMemsetD8_v2(memory, 0x5a, size),
          cuda.cuMemcpyDtoH_v2(ctypes.byref(found), memory, ctypes.c_size_t(4)),
          "right" if found.value == 0x5a5a5a5a else "wrong", flush=True)
"""


class Program:
    """One in a session of its own."""

    def __init__(self, pool):
        self.pool = pool
        words = [pool.build / "bin/gpupool", "run", "--core", "20", "--memory", f"{SLICE_MIB}MiB",
                 "--", sys.executable, "-c", PROGRAM]
        self.process = subprocess.Popen([str(word) for word in words], env=pool.env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        begun = self.process.stdout.readline()
        if begun != "0 0 0\n":
            raise Trouble(f"a program begins with {begun!r}; {pool.words()}")

    def fills(self, mib):
        """So much more of the card's memory, which is the host's here."""
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "0 0 0 right\n"


class Pool:
    """A scheduler on the host, and a server in a container."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.env = dict(os.environ, GPUPOOL_SCHEDULER="127.0.0.1:27480", GPUPOOL_SERVER_LOG="")
        (folder / "token").write_text("token\n", "ascii")
        self.env["GPUPOOL_TOKEN_FILE"] = str(folder / "token")
        self.processes = [self.start("scheduler", [
            build / "bin/gpupool-scheduler", "--listen", "127.0.0.1:27480", "--state-dir",
            folder / "state", "--server-token-file", folder / "token", "--client-token-file",
            folder / "token"])]
        self.n = 0

    def start(self, name, command):
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, env=self.env)

    def group(self):
        """As a kubelet makes it for a container."""
        self.n += 1
        path = GROUPS
        for name in ("kubepods", "burstable", f"pod{os.getpid()}.{self.n}", "container"):
            (path / "cgroup.subtree_control").write_text("+cpu +memory +pids", "ascii")
            path = path / name
            path.mkdir(exist_ok=True)
        (path / "memory.max").write_text(f"{POD_MIB}M", "ascii")
        (path / "memory.oom.group").write_text("1", "ascii")
        return path

    def serve(self, begin=PRIVILEGED):
        """@begin: how the container starts the server."""
        self.path = self.group()
        self.server = self.start("server", [
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
            CONTAINER % begin, self.path, self.build / "bin/gpupool-server",
            "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1", "--name", f"server-{self.n}",
            "--driver", "softgpu", "--cards", "1", "--memory", "4GiB", "--scheduler",
            "127.0.0.1:27480", "--token-file", self.folder / "token"])
        wait("the server is registered", lambda: "registered with scheduler" in self.words() or
             self.server.poll() is not None)
        if self.server.poll() is not None:
            raise Trouble(f"the server has ended: {self.words()}")

    def words(self):
        return (self.folder / "server.log").read_text("utf-8", "replace")[-3000:]

    def stop(self):
        self.server.kill()
        self.server.wait()
        wait("the container's processes have ended", lambda: all(
            not (path / "cgroup.procs").read_text("ascii")
            for path in [self.path, *(p for p in self.path.rglob("*") if p.is_dir())]))

    def sessions(self):
        """{name of the group: (memory.max, pids.max)} of those with processes."""
        return {group.name: tuple((group / name).read_text("ascii").strip()
                                  for name in ("memory.max", "pids.max"))
                for group in self.path.glob("gpupool-1/s*")
                if (group / "cgroup.procs").read_text("ascii")}

    def scores(self, groups):
        """Values of oom_score_adj of the processes in these groups."""
        return {int(Path(f"/proc/{pid}/oom_score_adj").read_text("ascii"))
                for group in self.path.glob(groups)
                for pid in (group / "cgroup.procs").read_text("ascii").split()}


def one_session_ends_alone(pool, begin=PRIVILEGED):
    """One takes more than the pod may have: its worker ends, and nobody else."""
    pool.serve(begin)
    quiet, greedy = Program(pool), Program(pool)
    if not quiet.fills(1):
        raise Trouble(f"the first session does not work; {pool.words()}")
    limits = pool.sessions()
    if len(limits) != 2 or any(not memory.isdigit() or tasks != TASKS
                               for memory, tasks in limits.values()):
        raise Trouble(f"limits of the two sessions: {limits}; {pool.words()}")
    if pool.scores("server") != {PROTECTED} or pool.scores("gpupool-1/s*") != {0}:
        raise Trouble(f"oom_score_adj of the server {pool.scores('server')}, of workers "
                      f"{pool.scores('gpupool-1/s*')}")
    if greedy.fills(SLICE_MIB - 64):
        raise Trouble(f"{SLICE_MIB - 64} MiB in a pod of {POD_MIB}")
    if pool.server.poll() is not None or not quiet.fills(1):
        raise Trouble(f"the other session is gone as well; {pool.words()}")
    wait("the server says that its container is out of memory",
         lambda: "the server's host, or its container, is out of memory" in pool.words())
    pool.stop()


def one_session_ends_alone_in_a_tree_of_its_own(pool):
    one_session_ends_alone(pool, OWN_TREE)


def does_without(pool, begin, words):
    pool.serve(begin)
    if f"no control groups for sessions: {GROUPS} {words}" not in pool.words():
        raise Trouble(f"its words: {pool.words()}")
    if not Program(pool).fills(1):
        raise Trouble(f"a program in a server without groups; {pool.words()}")


def groups_that_are_read_only(pool):
    does_without(pool, READ_ONLY, "is mounted read-only")
    pool.stop()


def groups_of_the_host(pool):
    """The container's group is the first of its namespace, and so has the name of the host's first."""
    before = set(GROUPS.iterdir())
    does_without(pool, HOSTS_GROUPS, "shows other groups")
    if set(GROUPS.iterdir()) != before:
        raise Trouble(f"new in the host's tree: {set(GROUPS.iterdir()) - before}")
    if not (pool.path / "cgroup.procs").read_text("ascii"):
        raise Trouble("the server is in its pod no more")
    pool.stop()


CASES = (one_session_ends_alone, one_session_ends_alone_in_a_tree_of_its_own,
         groups_that_are_read_only, groups_of_the_host)


def in_guest(build):
    if not (GROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", GROUPS], check=True)
    folder = Path("/tmp/container-limits")
    folder.mkdir()
    pool = Pool(build, folder)
    failed = 0
    for case in CASES:
        try:
            case(pool)
            print(f"PASS {case.__name__}", flush=True)
        except (Trouble, BrokenPipeError, OSError) as trouble:
            failed += 1
            print(f"FAIL {case.__name__}: {trouble}", flush=True)
            pool.server.kill()
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--guest", action="store_true", help="this is the guest")
    parser.add_argument("--accel", default="tcg", help="as of rdma-vm")
    args = parser.parse_args()
    build = args.build.resolve()
    if args.guest:
        return in_guest(build)
    if not shutil.which("qemu-system-x86_64") and args.accel == "tcg":
        print("SKIP container limits: qemu-system-x86_64 is not installed")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    return subprocess.run(
        [ROOT / "tests/rdma/rdma-vm", "--accel", args.accel, "--memory", "6144", "--timeout",
         str(GUEST_S), "--", sys.executable, "-B", Path(__file__).resolve(), "--build", build,
         "--guest"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
