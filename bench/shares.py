# SPDX-License-Identifier: Apache-2.0
"""What sessions really get of a card, beside what they were promised.

Real workers on a software card.  The kernels of bench/shares.c stay on the card for a
given time, mostly asleep, and note from when to when by the card's clock.  A share is
the union of a session's intervals over the window, divided by the same of a lone
session on the whole card: what it makes, relative to what it makes alone.  So neither
the governor's own books nor the load of the machine enter.
"""

import array
import itertools
import os
import statistics
import subprocess
import time

OVERHEAD_ROUNDS = 5
SETTLE = 0.5  # seconds after the common begin that are not looked at
LOADS = {
    "us20": ("--kernel-us=20", "--spin=1", "--depth=512"),
    "us500": ("--kernel-us=500", "--depth=64"),
    "ms2": ("--kernel-us=2000",),
    "ms20": ("--kernel-us=20000", "--depth=4"),
    "mixed": ("--kernel-us=20,500,2000,100,20000,5000",),
    "grid": ("--kernel-us=300", "--grid=24", "--spin=1", "--depth=4"),
    "streams": ("--kernel-us=500", "--streams=4", "--depth=16"),
    "graph": ("--kernel-us=500,100,1000", "--graph=1", "--depth=4"),
}
# name: policy, percents, loads (one each, or one for all), seconds
CASES = {
    "10_90": ("fs", (10, 90), ("us500",), 3),
    "30_60": ("fs", (30, 60), ("us500",), 3),
    "30_60_burst": ("bs", (30, 60), ("us500",), 3),
    "25_25_50": ("fs", (25, 25, 50), ("ms2",), 3),
    "three_equal": ("be", (30, 30, 30), ("us500",), 3),
    "ten_of_9": ("fs", (9,) * 10, ("ms2",), 6),
    "mixed": ("fs", (30, 60), ("mixed",), 4),
    "short_long": ("fs", (50, 50), ("us500", "ms20"), 4),
    "short": ("fs", (30, 60), ("us20",), 3),
    "long": ("fs", (30, 60), ("ms20",), 5),
    "grid": ("fs", (30, 60), ("grid",), 3),
    "streams": ("fs", (30, 60), ("streams",), 3),
    "streams_one": ("be", (30, 30), ("streams", "us500"), 3),
    "graph": ("fs", (30, 60), ("graph",), 3),
}
AIMS = {
    "share_error_points": ("error of a share, mean of all cases, points", 2, True),
    **{f"share_error_points_{name}": (f"  of {name}", None, True) for name in CASES},
    "jain_index": ("Jain's index of equal sessions, least", 0.99, False),
    "governor_overhead": ("governor, lone session, percent of its work", 1.5, True),
    "burst_fallback_ms": ("claimed floor is back after, ms", None, True),
    "neighbour_p99_ratio": ("p99 of a service beside a batch / alone", None, True),
    "memory_limit_error_bytes": ("bytes allowed beyond or short of the limit", 0, True),
}


class Runner:
    """One session: `gpupool run` of the load, until its common begin and after."""

    def __init__(self, bench, number, core, policy, options, memory="64MiB", cls=None):
        self.out = bench.folder / f"shares-{number}"
        command = [bench.gpupool, "run", "--core", core, "--policy", policy,
                   "--memory", memory, *(("--class", cls) if cls else ()), "--",
                   bench.build / "bench" / "shares", f"--out={self.out}", *options]
        self.process = subprocess.Popen([str(word) for word in command], env=bench.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ready(self):
        line = self.process.stdout.readline()
        if line != "ready\n":
            raise SystemExit(f"bench: a session did not begin: {line}")

    def go(self, begin, end):
        self.process.stdin.write(f"{int(begin)} {int(end)}\n")
        self.process.stdin.flush()

    def finish(self):
        """(KEY VALUE lines, the intervals in ns)"""
        text = self.process.communicate(timeout=120)[0]
        if self.process.returncode != 0:
            raise SystemExit(f"bench: a session ended with {self.process.returncode}")
        pairs = array.array("Q", self.out.read_bytes())
        self.out.unlink()
        values = {key: float(value) for key, value in map(str.split, text.splitlines())}
        return values, sorted(zip(pairs[0::2], pairs[1::2]))


def union_ns(intervals, begin, end):
    """Time within [begin, end) that sorted intervals cover."""
    covered, reached = 0, begin
    for start, stop in intervals:
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            covered += stop - start
            reached = stop
    return covered


def run_together(bench, sessions, seconds, delays=()):
    """Run (core, policy, options, ...) at once; begin, end, and their results."""
    runners = [Runner(bench, number, *session) for number, session in enumerate(sessions)]
    for runner in runners:
        runner.ready()
    begin = time.time_ns() + 50_000_000
    end = begin + int(seconds * 1e9)
    for runner, delay in itertools.zip_longest(runners, delays, fillvalue=0):
        runner.go(begin + delay * 1e9, end)
    return begin, end, [runner.finish() for runner in runners]


def fractions(bench, sessions, seconds):
    begin, end, results = run_together(bench, sessions, seconds)
    begin += int(SETTLE * 1e9)
    return [union_ns(intervals, begin, end) / (end - begin) for _, intervals in results]


def promised(policy, cores):
    if policy == "fs":
        return [core / 100 for core in cores]
    if policy == "bs":
        return [core / sum(cores) for core in cores]
    return [1 / len(cores)] * len(cores)


def alone(bench, load):
    """What a lone session with the whole card covers of it."""
    return fractions(bench, [(100, "be", LOADS[load])], 1.3)[0]


def share_case(bench, name, whole):
    """What each of its sessions covered.  What the loads cover alone is taken before and
    after; the best of the whole run is kept in @whole, because whatever else the machine
    does can only lessen it."""
    policy, cores, loads, seconds = CASES[name]
    loads = list(itertools.islice(itertools.cycle(loads), len(cores)))
    for load in set(loads):
        whole[load] = max(whole.get(load, 0), alone(bench, load))
    found = fractions(bench, [(core, policy, LOADS[load])
                              for core, load in zip(cores, loads)], seconds)
    for load in set(loads):
        whole[load] = max(whole[load], alone(bench, load))
    progress(f"{name}: covered {' '.join(f'{part * 100:.1f}' for part in found)} %, "
             f"alone {' '.join(f'{whole[load] * 100:.1f}' for load in set(loads))} %")
    return [(load, part) for load, part in zip(loads, found)]


def judge(name, found, whole):
    """The shares of a case, and their mean error in points."""
    policy, cores, _, _ = CASES[name]
    shares = [part / whole[load] for load, part in found]
    errors = [abs(share - aim) * 100
              for share, aim in zip(shares, promised(policy, cores))]
    progress(f"{name}: {' '.join(f'{share * 100:.1f}' for share in shares)} %")
    return shares, statistics.mean(errors)


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def fallback(bench):
    """A burster has the card to itself until the other claims its 70 %: from then
    on, how long until 40 ms begin of which the claimer has that (less 5 points)."""
    delay = 1.0
    begin, end, results = run_together(
        bench, [(30, "bs", LOADS["us500"]), (70, "bs", LOADS["us500"])], 2.5, (0, delay))
    begin += int(delay * 1e9)
    for at in range(results[1][1][1][0], end - 40_000_000, 100_000):
        if union_ns(results[1][1], at, at + 40_000_000) >= 26_000_000:
            return (at - begin) / 1e6
    return (end - begin) / 1e6


def neighbour(bench):
    """p99 of a service of 1 ms per 20 ms, beside a batch session and alone."""
    service = (50, "bs", ("--kernel-us=1000", "--period-us=20000"))
    lone = run_together(bench, [service], 3)[2][0][0]
    beside = run_together(bench, [service, (50, "bs", LOADS["us500"])], 3)[2][0][0]
    return beside["p99_us"] / lone["p99_us"]


def overhead(bench):
    """A lone session with the whole card, with the governor and without, in turn: the
    part of its work that is missing, percent."""
    found = {"on": [], "off": []}
    for _ in range(OVERHEAD_ROUNDS):
        for mode, parts in found.items():
            restart(bench, mode)
            parts.append(alone(bench, "us500"))
    restart(bench, "on")
    lost = 1 - statistics.median(found["on"]) / statistics.median(found["off"])
    progress(f"covered {statistics.median(found['on']) * 100:.2f} % with the governor, "
             f"{statistics.median(found['off']) * 100:.2f} % without")
    return max(lost, 0) * 100


def restart(bench, governor):
    bench.down()
    bench.env["GPUPOOL_GOVERNOR"] = governor
    bench.up("softgpu", core=-1)


def memory_error(bench):
    """How far the largest allocation that succeeds is from what was asked for."""
    limit = 100 * 1024 * 1024 + 4097
    command = [bench.gpupool, "run", "--core", 50, "--memory", limit, "--",
               bench.build / "tests" / "programs" / "cudash"]
    with subprocess.Popen([str(word) for word in command], env=bench.env, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        def say(*words):
            print(*words, file=shell.stdin, flush=True)
            return [int(word) for word in shell.stdout.readline().split()]

        for words in (("init",), ("device", 0), ("context",)):
            say(*words)
        low, high = 0, 2 * limit
        while high - low > 1:
            middle = (low + high) // 2
            result, *slot = say("alloc", middle)
            if result == 0:
                say("free", *slot)
                low = middle
            else:
                high = middle
        shell.stdin.close()
    return abs(low - limit)


def measure(bench, only=""):
    """All of it, or the cases whose names begin with @only.

    Everything runs at a higher priority where that is allowed: the card is software, and
    what the card loses to other processes of the machine nobody has had.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except PermissionError:
        progress("no right to a higher priority: other load on this machine shows")
    try:
        restart(bench, "on")
        return measure_all(bench, only)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def measure_all(bench, only):
    errors, indexes, values, whole = [], [], {}, {}
    found = {name: share_case(bench, name, whole)
             for name in CASES if name.startswith(only)}
    for name, parts in found.items():
        shares, error = judge(name, parts, whole)
        values[f"share_error_points_{name}"] = error
        errors.append(error)
        if len(set(CASES[name][1])) == 1:
            indexes.append(jain(shares))
    if errors:
        values["share_error_points"] = statistics.mean(errors)
    if indexes:
        values["jain_index"] = min(indexes)
    for key, part in (("burst_fallback_ms", fallback), ("neighbour_p99_ratio", neighbour),
                      ("governor_overhead", overhead),
                      ("memory_limit_error_bytes", memory_error)):
        if key.startswith(only):
            values[key] = part(bench)
    return values


def progress(words):
    print(f"bench: shares: {words}", flush=True)
