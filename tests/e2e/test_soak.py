# SPDX-License-Identifier: Apache-2.0
"""Sessions one after another, each with an attach, launches, copies and an end: server,
keeper and scheduler need no more memory, descriptors or files after the last one than
after the first ones.  SESSIONS=N: so many (`make test-soak`)."""

import os
import time

from harness import proc
from harness.pool import SCHEDULER
from test_adopt import Kept

SESSIONS = int(os.environ.get("SESSIONS", "16"))
# Two at a time, so that they also end beside each other.
LANES = 2
# What an allocator may keep back, and a byte per session that nobody would notice.
SLACK = 512 << 10
PER_SESSION = 16


def files_below(*folders):
    return sorted(f"{folder}/{name}" for top in folders for folder, _, names in os.walk(top)
                  for name in names)


class Soak:
    def __init__(self, case):
        self.case = case
        self.kept = Kept(case)
        self.pool = self.kept.pool
        self.watched = {"scheduler": self.pool.pid(SCHEDULER), "server": self.kept.server,
                        "keeper": self.kept.keepers()[0]}
        self.runs = []
        self.done = 0

    def start(self):
        transport = ("tcp", "shm")[self.done % 2]
        self.runs.append(self.pool.spawn(self.case.programs / "vecadd", core=40, memory="64MiB",
                                         env={"GPUPOOL_TRANSPORT": transport}))

    def sessions(self, count):
        """Run so many, to their ends."""
        left = count
        while left or self.runs:
            while left and len(self.runs) < LANES:
                self.start()
                left -= 1
            ended = [run for run in self.runs if run.poll() is not None]
            for run in ended:
                self.case.equal(run.returncode, 0, f"exit status of session {self.done}")
                run.stdin.close()
                run.stdout.close()
                self.runs.remove(run)
                self.case._processes.remove(run)
                self.done += 1
            if not ended:
                time.sleep(0.005)

    def used(self):
        """{what: (bytes, descriptors)}, once everything of all sessions is gone."""
        self.case.wait_for(lambda: not self.pool.workers(), "no worker is left")
        self.case.wait_for(lambda: self.pool.sessions() == [], "no session is left")
        seen = [None]

        def steady():
            before, seen[0] = seen[0], {name: len(self.pool.files(pid))
                                        for name, pid in self.watched.items()}
            time.sleep(0.1)
            return before == seen[0]
        self.case.wait_for(steady, "descriptors of what has ended are closed")
        return {name: (proc.memory_bytes(pid), seen[0][name])
                for name, pid in self.watched.items()}


def test_sessions_in_a_row_leave_nothing(case):
    soak = Soak(case)
    warm = max(LANES, SESSIONS // 4)
    soak.sessions(warm)
    before, files = soak.used(), files_below(case.folder / "gpupool", case.folder / "server-state")
    began = time.monotonic()
    soak.sessions(SESSIONS - warm)
    took = time.monotonic() - began
    after, left = soak.used(), files_below(case.folder / "gpupool", case.folder / "server-state")
    print(f"{soak.done} sessions, {(SESSIONS - warm) / took:.1f} a second", flush=True)
    for name, (memory, descriptors) in after.items():
        grown = memory - before[name][0]
        print(f"{name}: {before[name][0] >> 10} KiB after {warm} sessions, {memory >> 10} KiB "
              f"after {soak.done}; {before[name][1]} and {descriptors} descriptors", flush=True)
        case.check(descriptors <= before[name][1], f"{name} has {descriptors} descriptors, "
                   f"{before[name][1]} before: {soak.pool.files(soak.watched[name])}")
        if not case.sanitizer:  # which keeps freed memory
            case.check(grown <= SLACK + PER_SESSION * SESSIONS,
                       f"{name} has grown by {grown} bytes over {SESSIONS - warm} sessions")
    case.equal(left, files, "files of pool and server")
