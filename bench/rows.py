# SPDX-License-Identifier: Apache-2.0
"""The rows that are taken beside the raw transport: their words, their aims, and how
the search for the best raw link, the programs and the links are put together."""

import os
import subprocess
import sys

import stats
import veth

LINKS = ("tcp", "veth", "shm")
ROUNDS = 5  # fewer make no interval that deserves the name

# name: (words, limit, True when less is better).  None: reported, no aim.
CALLS = {
    "sync_call": ("synchronous call / raw round trip", 1.1, True),
    "launch_sync": ("launch + synchronise / raw round trip", 1.15, True),
    "launch10_sync": ("10 launches of one kernel + synchronise", 1.3, True),
    "alloc_free": ("alloc + free, one size over and over", 1.2, True),
}
REAL = {
    "launch10_mixed_sync": ("10 launches, 64 kernels x 15 shapes, + sync", 1.3, True),
    "launch10_ex_sync": ("the same by cuLaunchKernelEx", 1.3, True),
    "streams4_sync": ("10 launches, 4 streams, 6 events across, + sync", 1.3, True),
    "graph64_sync": ("graph of 64 kernels launched + sync", 1.15, True),
    "graph64_update4_sync": ("4 of its nodes updated, launched + sync", 1.3, True),
    "alloc_free_512_live": ("alloc + free among 512 live blocks", 1.2, True),
    "pool_alloc_free_sync": ("cuMemAllocAsync, launch, free, + sync", 1.2, True),
    "pool10_alloc_free_sync": ("10 of those + sync", 1.3, True),
    "pool_step_sync": ("cuMemAllocAsync of 16 sizes in turn, launch, free, + sync", 1.2, True),
    "pool10_step_sync": ("10 of those + sync", 1.3, True),
    "event_poll16": ("16 launches and events, sync, 16 queries", 1.3, True),
    "event_time": ("launch between events, wait, elapsed time", 1.15, True),
    "item": (".item(): launch, 4 bytes down, sync", 1.15, True),
    "item_pinned": ("the same, page-locked", 1.15, True),
    "d2h_4k": ("4 KiB down / raw round trip", 1.2, True),
    "h2d_4k_sync": ("4 KiB up + sync / raw round trip", 1.2, True),
    "d2h_64k": ("64 KiB down / raw round trip", 1.5, True),
    "h2d_64k_sync": ("64 KiB up + sync / raw round trip", 1.5, True),
    "d2h_4k_of_copy": ("4 KiB down / raw copy down", 1.1, True),
    "h2d_4k_sync_of_copy": ("4 KiB up + sync / raw copy up", 1.1, True),
    "inference": ("inference: 4 KiB up, 32 launches, 4 KiB down", 1.3, True),
    "batch_1mib": ("batch of 1 MiB up, launch, sync / raw copy", 0.95, False),
    "batch_2mib": ("batch of 2 MiB", 0.95, False),
    "batch_4mib": ("batch of 4 MiB", 0.95, False),
    "clients_sync": ("4 clients: raw round trips / calls of all", 1.1, True),
}
COPIES = {
    f"{way}{kind}_{size}": (
        f"{size[:-3]} {'KiB' if 'kib' in size else 'MiB'} "
        f"{'up' if way == 'h2d' else 'down'}{', page-locked' if kind else ''} / raw",
        0.95, False)
    for size in ("64kib", "1mib", "64mib", "256mib")
    for kind in ("", "_pinned") for way in ("h2d", "d2h")}
SPLIT = {
    "sync_split": ("2 cores: synchronous call / polled raw", 1.3, True),
    "sync_split_cpu": ("2 cores: processor time / polled raw", 1.0, True),
    "sync_busy": ("2 busy cores: synchronous call / best raw, means", 1.1, True),
}

AIMS = {f"{name}_ratio_{link}": (f"{words}, {link}", limit, less)
        for link in LINKS
        for name, (words, limit, less) in {**CALLS, **REAL, **COPIES}.items()}
AIMS.update({f"{name}_ratio_{link}": (f"{words}, {link}", limit, less)
             for link in ("tcp", "shm") for name, (words, limit, less) in SPLIT.items()})
for one_copy in [key for key in AIMS if key.endswith("_shm")
                 and ("_pinned_" in key or key.startswith("batch"))
                 and key.startswith(("h2d", "d2h", "batch"))]:
    AIMS[one_copy] = (AIMS[one_copy][0].replace("/ raw copy", "").replace("/ raw", "")
                      .replace(", shm", " / one memcpy, shm"), *AIMS[one_copy][1:])
AIMS.update({
    "mixed_calls_per_s": ("64 kernels x 15 shapes, launches per second, tcp", 5e6, False),
    "shm_mixed_calls_per_s": ("the same, shm", 5e6, False),
    "mixed_client_cpu_ns": ("client processor time per such launch, ns", None, True),
    "mixed_worker_cpu_ns": ("worker processor time per such launch, ns", None, True),
    "h2d_4k_us": ("4 KiB up, not waited for, us", None, True),
    "clients_jain": ("4 clients: Jain's index of their calls, tcp", None, False),
    "shm_clients_jain": ("the same, shm", None, False),
    **{f"{way}_of_iperf3_{link}": (f"raw 64 MiB {way} / iperf3, {link}", None, False)
       for link in ("tcp", "veth") for way in ("up", "down")},
})

BEATEN = 1.05  # a ratio better than the raw transport by more is explained below
# Rows that may be better than the raw side, and why.
EXPLAINED = {
    "alloc_free": "the call that frees is not waited for, and the null driver keeps no books",
}


PROGRAMS = ["fast", "real", "clients"]


def programs_of(key):
    """The programs that have rows whose names begin with @key."""
    found = [] if not any(name.startswith(key) for name in REAL) else ["real"]
    if "clients_sync".startswith(key):
        found = ["clients"]
    return found or ["fast"]


def settings(bench, place, *options, **how):
    """Search the best raw link of @place; the file with what was found."""
    path = bench.folder / f"raw-{place.link}{'-'.join(options).replace('=', '')}"
    print(f"bench: {place.link}: searching the best raw link", file=sys.stderr, flush=True)
    said = bench.call(*place.before(), bench.build / "bench" / "raw_search", f"--out={path}",
                      *place.options(), *options, **how)
    print("\n".join(f"bench: {place.link}: {line[2:]}" for line in said.splitlines()
                    if line.startswith("#")), file=sys.stderr, flush=True)
    return path


def named(values, link):
    """The values under the names of their link, ratios behind and figures in front."""
    prefix = "" if link == "tcp" else f"{link}_"
    return {f"{key}_{link}" if key.endswith("_ratio") else prefix + key: value
            for key, value in values.items()}


def round_of(bench, place, path, programs, only):
    """One round of the programs.  What compression does is a measure of its own."""
    found = {}
    for program in programs:
        found.update(bench.run(*place.before(), bench.build / "bench" / program,
                               *place.options(), f"--settings={path}", *only,
                               link=veth.transport(place.link),
                               env={"BENCH_SERVER": str(bench.server_pid()),
                                    "GPUPOOL_COMPRESS": "off"}))
    return named(found, place.link)


def beside_iperf(found, link):
    """The raw link beside iperf3, which moves one small buffer over and over."""
    prefix = "" if link == "tcp" else f"{link}_"
    for way, name in (("up", "h2d"), ("down", "d2h")):
        raw, other = (found.get(f"{prefix}{name}_64mib_raw_gbps"),
                      found.get(f"iperf3_{way}_{link}_gbps"))
        if raw and other:
            found[f"{way}_of_iperf3_{link}"] = raw / other


def measure(bench, link, programs, only, progress):
    """All rounds of one link.  Those over a veth pair have a pool of their own."""
    if link == "veth":
        why = veth.why_not()
        if why:
            progress(f"veth: left out, {why}")
            return {}
        with veth.Pair() as pair:
            return over_veth(bench, pair, programs, only, progress)
    return rounds(bench, veth.Place(link), programs, only, progress)


def over_veth(bench, pair, programs, only, progress):
    there = bench.another()
    there.samples = bench.samples
    there.around = pair.enter(pair.near)
    try:
        there.up(listen=veth.NEAR)
        before = pair.received()
        found = rounds(there, veth.Place("veth", pair), programs, only, progress)
        if "veth_h2d_64mib_us" in found and pair.received() - before < 64 << 20:
            raise SystemExit("bench: veth: the copies did not go over the pair")
        return found
    finally:
        there.close()


def rounds(bench, place, programs, only, progress):
    path = settings(bench, place, *search_options(programs, only))
    taken = []
    for number in range(bench.args.row_rounds):
        progress(f"{', '.join(programs)}; {place.link}: round {number + 1} of "
                 f"{bench.args.row_rounds}")
        taken.append(round_of(bench, place, path, programs, only))
    found = bench.collect(taken)
    if not search_options(programs, only):
        found.update(place.iperf(bench.args.core))
        beside_iperf(found, place.link)
    return found


def search_options(programs, only):
    """The search takes what its copies take, so it leaves out what no row needs."""
    if not wants_copies(programs, only):
        return ["--only=call"]
    return [] if "fast" in programs else ["--max-mib=4"]


def wants_copies(programs, only):
    calls = tuple(f"--only={name}" for name in (*CALLS, "launch", "sync"))
    return programs != ["clients"] and not (only and only[0].startswith(calls))


# --- two cores ----------------------------------------------------------------------------

# Idle cores: slices of some milliseconds, because the worker spins for 40 us behind the
# last call of each, and the raw peer is told to stop.
SPLIT_CALLS = {"tcp": 30000, "shm": 300000}
# Busy ones: slices of several turns of the scheduler, and the mean of each.  The median
# is that of two ends which both have their cores, as on idle ones.
BUSY_SLICE_MS = 40


def split(bench, progress):
    """Client and raw link on core 0, their peers on core 1: idle, and each core busy."""
    found = {}
    for link in ("tcp", "shm"):
        if link in bench.args.links and bench.has_link(link):
            found.update(split_of(bench, veth.Place(link), "sync_split", progress))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                               preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}))
              for core in (0, 1)]
    try:
        for link in ("tcp", "shm"):
            if link in bench.args.links and bench.has_link(link):
                found.update(split_of(bench, veth.Place(link), "sync_busy", progress))
    finally:
        for other in others:
            other.kill()
            other.wait()
    return found


def split_of(bench, place, name, progress):
    cores = ("--core=0", "--peer-core=1")
    busy = name == "sync_busy"
    path = settings(bench, place, "--only=call", *cores,
                    *([f"--turn-ms={BUSY_SLICE_MS}"] if busy else []), core=-1)
    length = (f"--slice-ms={BUSY_SLICE_MS}" if busy else
              f"--calls={SPLIT_CALLS[place.link]}")
    taken = []
    for number in range(bench.args.row_rounds):
        progress(f"{name}, {place.link}: round {number + 1} of {bench.args.row_rounds}")
        values = bench.run(bench.build / "bench" / "fast", *place.options(), *cores, length,
                           "--only=sync_call", f"--settings={path}", link=place.link,
                           env={"BENCH_SERVER": str(bench.server_pid())})
        values["sync_call_cpu_ratio"] = values["sync_call_cpu_us"] / values["sync_call_raw_cpu_us"]
        taken.append(named({key.replace("sync_call", name): value
                            for key, value in values.items() if key.startswith("sync_call")},
                           place.link))
    return bench.collect(taken)


# --- what is made of them -----------------------------------------------------------------

def beaten(values, samples):
    """Ratios that are better than the raw transport beyond their interval, and why."""
    found = {}
    for key, (_, _, less) in AIMS.items():
        name, middle, link = key.partition("_ratio_")
        # Two polled ends on two cores: a hair decides who is first, and busy cores more.
        if key not in values or not middle or name.startswith(("sync_split", "sync_busy")):
            continue
        low, high = stats.interval(samples.get(key, [values[key]]))
        if stats.beats(BEATEN, less, low, high):
            found[key] = EXPLAINED.get(name)
    return found


def expected(link):
    """Keys that a whole run of a link leaves."""
    return [f"{name}_ratio_{link}" for name in (*CALLS, *REAL, *COPIES)]


def expected_of_fast(link):
    return [f"{name}_ratio_{link}" for name in (*CALLS, *COPIES)]
