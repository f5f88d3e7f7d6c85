# SPDX-License-Identifier: Apache-2.0
"""What is known of a program that hangs, written down before anything of it is ended.

In the order in which looking changes least: states and counters of the threads, twice; descriptors,
sockets and rings of shared memory; logs; and the stacks of all threads at the end, because a debugger
interrupts every wait, and a wake-up that was lost may come by that.
"""

import itertools
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import watch

LOOKS_APART_S = 2
STACKS_S = 60     # a debugger that reads symbols on a busy machine
LOG_LINES = 60
# Of one run: a program that hangs each time is run many times while it is shrunk.
MOST = 8

RING_NAME, RING_BYTES = "memfd:gpupool-ring", 128
RINGS = ["to the worker", "to the client"]


def read(path):
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"


def threads(pid):
    """A line for each thread: its state, what it waits in, and its processor time."""
    lines = []
    for folder in sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda path: int(path.name)):
        try:
            name, _, ticks, state = watch.stat(folder)
        except OSError:  # it has ended
            continue
        lines.append(f"  {folder.name} {name}: {state}, {ticks} ticks, in {read(folder / 'wchan')}, "
                     f"system call {read(folder / 'syscall')}")
        stack = read(folder / "stack")
        if stack and not stack.startswith("("):
            lines += [f"      {line}" for line in stack.splitlines()]
    return lines


def descriptors(pid):
    """What each one is, and the counters of events."""
    lines = []
    for path in sorted(Path(f"/proc/{pid}/fd").glob("*"), key=lambda path: int(path.name)):
        try:
            what = os.readlink(path)
        except OSError:
            continue
        info = read(Path(f"/proc/{pid}/fdinfo") / path.name) if "eventfd" in what else ""
        count = [line for line in info.splitlines() if line.startswith("eventfd-count")]
        lines.append(f"  {path.name} {what} {' '.join(count)}".rstrip())
    return lines


def rings(pid):
    """The words of the rings that it has mapped (struct xport_ring_shared): what was written and read,
    and who says that it sleeps."""
    lines = []
    for line in read(Path(f"/proc/{pid}/maps")).splitlines():
        if RING_NAME not in line:
            continue
        at = int(line.partition("-")[0], 16)
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(at)
                words = memory.read(2 * RING_BYTES)
        except OSError as error:
            lines.append(f"  ring at {at:#x}: {error.strerror}")
            continue
        for number, name in enumerate(RINGS):
            head, room, tail, data = struct.unpack_from("<QI52xQI", words, number * RING_BYTES)
            lines.append(f"  ring {name} at {at:#x}: head {head}, tail {tail}, {head - tail} bytes in "
                         f"it, producer sleeps {room}, consumer sleeps {data}")
    return lines


def command(words, limit):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit, check=False)
        return done.stdout.decode(errors="replace").splitlines()
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"({error})"]


def sockets(pids):
    """Their queues, as far as the sockets are of those processes."""
    if not shutil.which("ss"):
        return read(Path("/proc/net/tcp")).splitlines()
    marks = [f"pid={pid}," for pid in pids]
    out, take = [], False
    for line in command(["ss", "-tnpi"], 20) + command(["ss", "-xnp"], 20):
        if not line.startswith((" ", "\t")):  # what follows belongs to it
            take = any(mark in line for mark in marks)
        if take:
            out.append(line.rstrip())
    return out


def stacks(pid):
    if not shutil.which("gdb"):
        return ["(there is no gdb)"]
    return [line for line in command(
        ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "set pagination off",
         "-ex", "thread apply all bt 40"], STACKS_S) if line and not line.startswith("[New LWP")]


def of_run(pid, run_dir):
    """The processes of a program and of its session's workers, and those of the pool."""
    mine = watch.behind(pid, run_dir)
    pool = [one for one, (_, words) in watch.processes().items()
            if one not in mine and f"{run_dir}/" in words and
            ("gpupool-server" in words or "gpupool-scheduler" in words)]
    return sorted(mine), sorted(pool)


def take(pid, run_dir, why, path):
    """Writes it all to a file.  Who hangs still has everything afterwards but its sleep."""
    mine, pool = of_run(pid, run_dir)
    with open(path, "w", encoding="utf-8") as out:
        def part(title, lines):
            out.write(f"\n=== {title}\n")
            out.writelines(f"{line}\n" for line in lines)
            out.flush()

        out.write(f"{why}\n{time.asctime()}, load {read(Path('/proc/loadavg'))}\n")
        names = {one: words[1].strip() for one, words in watch.processes().items()}
        for look in "first", "second":
            for one in mine + pool:
                part(f"threads of {one} {names.get(one, '')}, {look} look", threads(one))
            if look == "first":
                time.sleep(LOOKS_APART_S)
        for one in mine + pool:
            part(f"descriptors and rings of {one}", descriptors(one) + rings(one))
        part("sockets", sockets(mine + pool))
        for log in sorted((run_dir / "pool.d").glob("*.log")):
            part(log.name, read(log).splitlines()[-LOG_LINES:])
        for one in mine + pool:
            part(f"stacks of {one} {names.get(one, '')}", stacks(one))


class Evidence:
    """Files of one run of the fuzzer, in a folder that stays.  Several sides may hang at a time."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count(1)

    def of(self, side, pid, run_dir, why):
        """Takes it, and says where; or None: enough was taken."""
        if next(self.numbers) > MOST:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{side.replace(' ', '-')}-{time.strftime('%m%d-%H%M%S')}-{pid}.txt"
        take(pid, run_dir, f"{side}: {why}", self.folder / name)
        print(f"{side}: {why}: the state of its processes is in {self.folder / name}", flush=True)
        return self.folder / name
