# SPDX-License-Identifier: Apache-2.0
"""What sessions really get of a card, beside what they were promised.

Real workers on a software card, or on the driver that --driver names.  The kernels of
bench/shares.c stay on the card for a given time, mostly asleep, and note from when to
when by the card's clock.  What a session had is the time from its kernels' begins to
their ends, with the gaps of up to GAP_NS between two of them in which nobody else ran:
the card is the session's then, however long its host needs for the next launch.  A share
is that over the window, divided by the same of a lone session on the whole card.  So the
governor's own books do not enter; they are compared with it at the end.
"""

import array
import itertools
import math
import os
import re
import statistics
import subprocess
import time

OVERHEAD_PAIRS = 16
OVERHEAD_SECONDS = 1.5
COST_LAUNCHES = 500_000
WARM_UP = 0.5  # seconds after the common begin that are not looked at
GAP_NS = 300_000  # far below a turn (4 ms), above what a host needs for a launch
# Of a two-sided 95 % interval, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31,
           9: 2.26, 10: 2.23, 11: 2.20, 15: 2.13, 20: 2.09, 30: 2.04}
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
WIDE = ("--kernel-us=2000", "--grid=4", "--shared=90000", "--depth=8")
WIDE_SMS = 4  # multiprocessors that one launch of that load fills
COPIES = ("--copy-kib=16384", "--copy-down=1")
AIMS = {
    "share_error_points": ("error of a share, mean of all cases, points", 2, True),
    **{f"share_error_points_{name}": (f"  of {name}", None, True) for name in CASES},
    "jain_index": ("Jain's index of equal sessions, least", 0.99, False),
    "charged_error_percent": ("card time charged beside card time had, percent", None, True),
    "governor_overhead": ("governor, lone session, percent of its work", 1.5, True),
    "governor_overhead_ci": ("  half of its 95 % confidence interval", None, True),
    "governor_launch_ns": ("governor, processor time per launch, ns", None, True),
    "governor_launch_ns_ci": ("  half of its 95 % confidence interval", None, True),
    "burst_fallback_ms": ("claimed floor is back after, ms", None, True),
    "neighbour_p99_ratio": ("p99 of a service beside a batch / alone", None, True),
    "space_error_points": ("half of the multiprocessors, error of its speed", None, True),
    "space_neighbour_percent": ("  its speed beside the other half / alone", None, False),
    "copy_neighbour_percent": ("copies of 1 process beside 5 of an equal session", None,
                               False),
    "copy_neighbour_percent_off": ("  the same without the governor", None, False),
    "memory_limit_error_bytes": ("bytes allowed beyond or short of the limit", 0, True),
}


class Runner:
    """One session: `gpupool run` of the load, until its common begin and after."""

    def __init__(self, bench, number, core, policy, options, more=(), memory="64MiB"):
        self.out = bench.folder / f"shares-{number}"
        command = [bench.gpupool, "run", "--core", core, "--policy", policy,
                   "--memory", memory, *more, "--", "sh", "-c",
                   'sed -n "s/^session //p" "$GPUPOOL_SESSION_FILE"; exec "$@"', "sh",
                   bench.build / "bench" / "shares", f"--out={self.out}", *options]
        self.process = subprocess.Popen([str(word) for word in command], env=bench.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ready(self):
        self.session = self.process.stdout.readline().strip()
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


def without_gaps(all_intervals):
    """The sorted intervals of each session, short gaps that are nobody else's filled."""
    events = sorted((start, stop, who) for who, intervals in enumerate(all_intervals)
                    for start, stop in intervals)
    filled = [[] for _ in all_intervals]
    last, reached = None, 0
    for start, stop, who in events:
        if who == last and reached < start <= reached + GAP_NS:
            start = reached
        filled[who].append((start, stop))
        if stop >= reached or who != last:
            last, reached = who, max(stop, reached)
    return filled


def start_together(runners, seconds, delays=()):
    """The common begin, and the end."""
    for runner in runners:
        runner.ready()
    begin = time.time_ns() + 50_000_000
    end = begin + int(seconds * 1e9)
    for runner, delay in itertools.zip_longest(runners, delays, fillvalue=0):
        runner.go(begin + delay * 1e9, end)
    return begin, end


def run_together(bench, sessions, seconds, delays=()):
    """Run (core, policy, options, ...) at once; begin, end, and their results."""
    runners = [Runner(bench, number, *session) for number, session in enumerate(sessions)]
    begin, end = start_together(runners, seconds, delays)
    results = [runner.finish() for runner in runners]
    bench.had.update((runner.session, union_ns(intervals, 0, 1 << 63)) for runner, intervals
                     in zip(runners, without_gaps([found for _, found in results])))
    return begin, end, results


def fractions(bench, sessions, seconds):
    begin, end, results = run_together(bench, sessions, seconds)
    begin += int(WARM_UP * 1e9)
    return [union_ns(intervals, begin, end) / (end - begin)
            for intervals in without_gaps([intervals for _, intervals in results])]


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


def mean_and_ci(values):
    """The mean, and half of its 95 % confidence interval."""
    free = max(key for key in STUDENT if key <= max(len(values) - 1, 1))
    return (statistics.mean(values),
            STUDENT[free] * statistics.stdev(values) / math.sqrt(len(values)))


def overhead(bench):
    """A lone session with the whole card on two pools at the same time, with the governor
    and without: the part of the work that is missing in each such pair, percent.  Signed,
    as noise is; whatever else the host does meets both."""
    off = bench.another()
    lost = []
    try:
        restart(off, "off")
        restart(bench, "on")
        for number in range(OVERHEAD_PAIRS):
            pools = (bench, off) if number % 2 else (off, bench)
            runners = [Runner(pool, 0, 100, "be", LOADS["us500"]) for pool in pools]
            start_together(runners, OVERHEAD_SECONDS)
            done = {pool: runner.finish()[0]["launches"]
                    for pool, runner in zip(pools, runners)}
            lost.append(100 * (1 - done[bench] / done[off]))
    finally:
        off.close()
    mean, half = mean_and_ci(lost)
    progress(f"governor: {mean:+.2f} % of the work, 95 % within {half:.2f}")
    return mean, half


def launch_cost(bench):
    """What the governor costs a worker per launch: its processor time on a card that takes
    none, with it and without, in turn."""
    off = bench.another()
    costs = []
    try:
        for number in range(OVERHEAD_PAIRS):
            spent = {}
            for pool in (bench, off) if number % 2 else (off, bench):
                pool.down()
                pool.env["GPUPOOL_GOVERNOR"] = "off" if pool is off else "on"
                pool.up("null", core=-1)
                before = pool.workers_cpu_s()
                pool.run(pool.build / "bench" / "fast", "--only=async_calls_per_s",
                         f"--async-calls={COST_LAUNCHES}")
                spent[pool] = pool.workers_cpu_s() - before
            costs.append((spent[bench] - spent[off]) * 1e9 / COST_LAUNCHES)
    finally:
        off.close()
    mean, half = mean_and_ci(costs)
    progress(f"governor: {mean:+.1f} ns per launch, 95 % within {half:.1f}")
    return mean, half


def restart(bench, governor, **env):
    bench.down()
    bench.env.update({"GPUPOOL_GOVERNOR": governor, "GPUPOOL_LOG": "governor:debug",
                      **{key: str(value) for key, value in env.items()}})
    bench.up(bench.driver, core=-1)


def blocks(bench, *sessions):
    """Blocks of the wide load that each of the sessions got done."""
    return [values["blocks"] for values, _ in run_together(bench, sessions, 2)[2]]


def space(bench):
    """Two sessions with half of the multiprocessors each: the speed of one beside that
    of the whole card, and beside its own while the other is idle."""
    if bench.driver == "softgpu":
        restart(bench, "on", SOFTGPU_SMS=WIDE_SMS)
    half = (50, "fs", WIDE, ("--spatial", "sm"))
    whole, = blocks(bench, (100, "be", WIDE))
    alone, = blocks(bench, half)
    both = blocks(bench, half, half)
    bench.env.pop("SOFTGPU_SMS", None)
    restart(bench, "on")
    return {"space_error_points": abs(50 - 100 * alone / whole),
            "space_neighbour_percent": 100 * min(both) / alone}


class Joined:
    """A session held open for several processes."""

    def __init__(self, bench, core):
        self.process = subprocess.Popen(
            [str(bench.gpupool), "run", "--core", str(core), "--policy", "bs", "--memory",
             "256MiB", "--", "sh", "-c",
             'echo "$GPUPOOL_SESSION_FILE"; echo "$LD_LIBRARY_PATH"; exec cat'],
            env=bench.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.env = {**bench.env,
                    "GPUPOOL_SESSION_FILE": self.process.stdout.readline().strip(),
                    "LD_LIBRARY_PATH": self.process.stdout.readline().strip()}

    def start(self, program, *options):
        process = subprocess.Popen([str(program), *options], env=self.env, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        return process

    def close(self):
        self.process.communicate()


def copies_part(bench):
    """Of all bytes copied, what one process had beside five of an equal session."""
    flood, steady = Joined(bench, 50), Joined(bench, 50)
    processes = [session.start(bench.build / "bench" / "shares", *COPIES)
                 for session in [flood] * 5 + [steady]]
    begin = time.time_ns() + 50_000_000
    for process in processes:
        process.stdin.write(f"{begin} {begin + 2_000_000_000}\n")
        process.stdin.flush()
    moved = [float(dict(map(str.split, process.communicate()[0].splitlines()))
                   ["copied_bytes"]) for process in processes]
    flood.close()
    steady.close()
    return 100 * moved[-1] / sum(moved)


def copies(bench):
    found = {}
    for governor, key in (("off", "copy_neighbour_percent_off"),
                          ("on", "copy_neighbour_percent")):
        restart(bench, governor)
        found[key] = statistics.median(copies_part(bench) for _ in range(3))
    return found


def charged(bench):
    """What the workers charged each session, beside what it had, percent of the latter.
    The workers say so in the log when their clients are gone."""
    said = {}
    for path in bench.folder.rglob("*.log"):
        for session, ms in re.findall(r" (s\d+)\.c\d+ .* ([\d.]+) ms of the card charged",
                                      path.read_text(errors="replace")):
            said[session] = said.get(session, 0) + float(ms) * 1e6
    errors = [abs(said[session] - had) / had for session, had in bench.had.items()
              if had > 1e8 and session in said]
    return 100 * statistics.mean(errors) if errors else None


def memory_error(bench):
    """How far the largest allocation that succeeds is from what was asked for."""
    limit = 100 * 1024 * 1024 + 4097
    command = [bench.gpupool, "run", "--core", 50, "--memory", f"{limit}B", "--",
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

    Everything runs at a higher priority where that is allowed: where the card is software,
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


def measure_cases(bench, only):
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
        values["charged_error_percent"] = charged(bench)
    if indexes:
        values["jain_index"] = min(indexes)
    return {key: value for key, value in values.items() if value is not None}


def measure_all(bench, only):
    values = measure_cases(bench, only)
    for key, part in (("burst_fallback_ms", fallback), ("neighbour_p99_ratio", neighbour),
                      ("memory_limit_error_bytes", memory_error)):
        if key.startswith(only):
            values[key] = part(bench)
    for key, part in (("governor_overhead", overhead), ("governor_launch_ns", launch_cost)):
        if key.startswith(only):
            values[key], values[f"{key}_ci"] = part(bench)
    for key, part in (("space", space), ("copy", copies)):
        if key.startswith(only):
            values.update(part(bench))
    return values


def progress(words):
    print(f"bench: shares: {words}", flush=True)
