# SPDX-License-Identifier: Apache-2.0
"""Sessions one after another: server, keeper and scheduler need no more memory, descriptors
or files for it.

Most are played by tests/soak/sessions.c, which opens, attaches, calls, ends and closes by
protocol in milliseconds; a few are programs with launches and copies.  SESSIONS=N: so many
(`make test-soak`).
"""

import os
import time

from harness import proc
from harness.pool import SCHEDULER
from test_adopt import Kept

SESSIONS = int(os.environ.get("SESSIONS", "240"))
PROGRAMS = 8
# Some at a time, so that they also end beside each other: as many as keep two processors
# busy, because each waits for its server and scheduler most of the time.
LANES = 9
# Looks at what the daemons use, after as many sessions each; the first half is warming up.
POINTS = 12
# What memory may grow by for each session, by the slope of a line through the second half:
# a byte that nobody would notice, and pages that come and go.
PER_SESSION = 4
# The scheduler remembers the last events of the pool (sched_events.h), at least two of each
# session: memory that is full before anything is measured.
EVENTS = 2400
NOISE = 96 << 10


def files_below(*folders):
    return sorted(f"{folder}/{name}" for top in folders for folder, _, names in os.walk(top)
                  for name in names)


def slope(points):
    """Of the line that fits (x, y) best, by least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return (sum((x - mean_x) * (y - mean_y) for x, y in points)
            / sum((x - mean_x) ** 2 for x, _ in points))


class Soak:
    def __init__(self, case):
        self.case = case
        self.kept = Kept(case, "--rate-attaches", "1000000", "--rate-connections",
                         "1000000")
        self.pool = self.kept.pool
        self.pool.restart(self.pool.pid(SCHEDULER), "--rate-opens", "1000000",
                          "--rate-requests", "1000000", "--rate-reads", "0")
        self.kept.alive()
        self.watched = {"scheduler": self.pool.pid(SCHEDULER), "server": self.kept.server,
                        "keeper": self.kept.keepers()[0]}
        with open(f"{case.folder}/gpupool/pool", encoding="utf-8") as pool:
            address = next(line.split()[1] for line in pool if line.startswith("scheduler "))
        self.lanes = [case.spawn([case.build / "tests" / "soak" / "sessions", address,
                                  case.folder / "gpupool" / "pool.d" / "client-token"])
                      for _ in range(LANES)]
        self.done = 0

    def programs(self):
        """The long way, over TCP and shared memory in turns."""
        for number in range(PROGRAMS):
            self.pool.run(self.case.programs / "vecadd", core=40, memory="64MiB",
                          env={"GPUPOOL_TRANSPORT": ("tcp", "shm")[number % 2]})

    def sessions(self, count, how=""):
        """So many by protocol, over all lanes."""
        for lane in self.lanes:
            lane.stdin.write(f"{how}{count // LANES}\n")
        for lane in self.lanes:
            self.case.equal(lane.stdout.readline(), f"done {count // LANES}\n",
                            f"after {self.done} sessions: "
                            f"{(self.case.folder / 'spawned.err').read_text()}")
        self.done += count // LANES * LANES

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
    soak.programs()
    soak.sessions(EVENTS, "open ")
    soak.done = 0
    looks, began = [], time.monotonic()
    for point in range(POINTS):
        soak.sessions(SESSIONS // POINTS)
        looks.append((soak.done, soak.used()))
        print(f"after {soak.done} sessions, {time.monotonic() - began:.0f} s: " + ", ".join(
            f"{name} {used >> 10} KiB, {files} descriptors"
            for name, (used, files) in looks[-1][1].items()), flush=True)
        if point == POINTS // 2:
            files = files_below(case.folder / "gpupool", case.folder / "server-state")
    took = time.monotonic() - began
    print(f"{soak.done} sessions, {soak.done / took:.1f} a second with the looks", flush=True)
    looks = looks[POINTS // 2:]
    span = looks[-1][0] - looks[0][0]
    for name in soak.watched:
        grown = slope([(done, used[name][0]) for done, used in looks])
        first, last = looks[0][1][name], looks[-1][1][name]
        print(f"{name}: {first[0] >> 10} KiB after {looks[0][0]} sessions, {last[0] >> 10} KiB "
              f"after {looks[-1][0]}, {grown:.2f} bytes a session; {first[1]} and {last[1]} "
              "descriptors", flush=True)
        case.check(last[1] <= first[1], f"{name} has {last[1]} descriptors, {first[1]} before: "
                   f"{soak.pool.files(soak.watched[name])}")
        if not case.sanitizer:  # which keeps freed memory
            case.check(grown <= PER_SESSION + NOISE / span,
                       f"{name} grows by {grown:.1f} bytes for each of {span} sessions")
    case.equal(files_below(case.folder / "gpupool", case.folder / "server-state"), files,
               "files of pool and server")
    soak.programs()
