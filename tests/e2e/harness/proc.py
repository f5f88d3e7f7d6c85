# SPDX-License-Identifier: Apache-2.0
"""Processes as /proc shows them: who descends from whom, what they hold open.

A test is a subreaper, so a daemon that detaches stays its descendant; that is
how leftovers are found whatever they did to hide.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Result:
    """How a command ended: exit status (negative: a signal) and what it said."""

    args: list
    status: int
    out: str
    err: str
    seconds: float

    def __str__(self):
        words = " ".join(str(arg) for arg in self.args)
        return (f"$ {words}\nexit status {self.status} after {self.seconds:.2f} s\n"
                f"--- stdout\n{self.out}--- stderr\n{self.err}---")


def become_subreaper():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def parent_and_state(pid):
    """(ppid, state) or None when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2:].split()
    return int(fields[1]), fields[0]


def descendants(root=None):
    """Every live process below @root (this process), zombies left out."""
    root = root or os.getpid()
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        seen = parent_and_state(entry)
        if seen and seen[1] not in "ZX":
            children.setdefault(seen[0], []).append(int(entry))
    found = []
    level = [root]
    while level:
        level = [pid for parent in level for pid in children.get(parent, [])]
        found += level
    return found


def program_of(pid):
    """The name of the running binary, without ' (deleted)'; '' when gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe").split(" (deleted)")[0])
    except PermissionError:  # daemons and workers let only root look into them
        return os.path.basename((command_line(pid) or [""])[0])
    except OSError:
        return ""


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    except OSError:
        return []


def environment(pid):
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def is_alive(pid):
    """A process whose first thread has ended while others still do holds its sockets."""
    seen = parent_and_state(pid)
    if not seen or seen[1] not in "ZX":
        return bool(seen)
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def shows_files(pid):
    """Whether we may see what it holds open."""
    try:
        os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return True


def open_files(pid):
    """{descriptor: what it is}; sockets and pipes count too."""
    folder = f"/proc/{pid}/fd"
    found = {}
    for name in os.listdir(folder):
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}")
        except OSError:
            pass
    return found


def ignores(pid, sig):
    """Whether the process ignores the signal."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (sig - 1) & 1)


def memory_bytes(pid):
    """Resident memory of its own (file pages and shared memory left out)."""
    for line in Path(f"/proc/{pid}/status").read_text().split("\n"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_ticks(pid):
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2:].split()
    return int(fields[11]) + int(fields[12])


def reap():
    """Collect the children that ended, adopted ones too."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def take_precedence():
    """Let this process and all that it has started so far run before others of the machine,
    for a promise about times that are compared; who may not do that goes on as they are."""
    for pid in (os.getpid(), *descendants()):
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))


def kill_all(pids, sig=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


def run(args, timeout, **kwargs):
    """Run to the end in its own process group; the group dies with a timeout."""
    start = time.monotonic()
    process = subprocess.Popen([str(arg) for arg in args], stdin=kwargs.pop("stdin",
                               subprocess.DEVNULL), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True, **kwargs)
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    return Result(args, status, out, err, time.monotonic() - start)
