# SPDX-License-Identifier: Apache-2.0
"""A thousand client processes of one server and one card: `make bench ONLY=sessions`.

Sixteen sessions, which is as many as one card has, with 63 client processes each.  What
an idle one costs is read from /proc: private memory, descriptors, threads, wake-ups and
processor time.  Then 64 that make synchronous calls all the time, attachments one after
the other, and 500 at once beside a client that makes calls.  Nothing is pinned.
"""
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

SESSIONS = 16
IDLE = 63  # client processes of each session
FEW = 8  # of each, where only a comparison is asked for
BUSY = 4
STORM = 500
CHURN = 600
RATE = 200
WINDOW_S = 20  # of which wake-ups are counted
BUSY_MS = 8000

DRIVERS = ("null", "softgpu")


def idle_aims(driver):
    words = f"idle client of 1,008, {driver}: "
    return {
        f"sessions_{driver}_worker_mib": (words + "worker, private MiB", None, True),
        f"sessions_{driver}_beyond_mib": (words + "worker beyond the driver", 3, True),
        f"sessions_{driver}_client_mib": (words + "stub, private MiB", 3, True),
        f"sessions_{driver}_server_kib": (words + "server, KiB", None, True),
        f"sessions_{driver}_kernel_kib": (words + "page tables, KiB", None, True),
        f"sessions_{driver}_wakeups": (words + "wake-ups a second", 1, True),
        f"sessions_{driver}_cpu_us": (words + "processor us a second", None, True),
        f"sessions_{driver}_descriptors": (words + "worker's descriptors", None, True),
        f"sessions_{driver}_threads": (words + "worker's threads", None, True),
    }


def busy_aims(driver):
    words = f"64 busy clients, {driver}: "
    return {
        f"sessions_{driver}_calls_per_s": (words + "calls a second", None, False),
        f"sessions_{driver}_jain": (words + "Jain's index", 0.99, False),
        f"sessions_{driver}_p99_ms": (words + "a slow call (99 %), ms", None, True),
        f"sessions_{driver}_worst_ms": (words + "the slowest call, ms", None, True),
        f"sessions_{driver}_launches_per_s": (
            words + "launch + synchronise a second", None, False),
        f"sessions_{driver}_launches_jain": (words + "Jain's index of sessions' launches", None,
                                             False),
        f"sessions_{driver}_launches_p99_ms": (words + "a slow one of these (99 %), ms", None,
                                               True),
        f"sessions_{driver}_churn_per_s": (f"attachments a second, {driver}", RATE, False),
        f"sessions_{driver}_churn_p99_ms": (f"a slow one of them (99 %), {driver}, ms", None,
                                            True),
        f"sessions_{driver}_storm_failed": (f"of {STORM} at once, {driver}: failed", 0, True),
        f"sessions_{driver}_storm_s": (f"of {STORM} at once, {driver}: the last one, s", None,
                                       True),
        f"sessions_{driver}_storm_call_ms": (
            f"of {STORM} at once, {driver}: another client's slowest call, ms", None, True),
    }


AIMS = {key: row for driver in DRIVERS
        for rows in (idle_aims(driver), busy_aims(driver)) for key, row in rows.items()}
for name, what in (("tls", "TLS"), ("shm", "shared memory")):
    words = f"idle client of 128, {what}: "
    AIMS.update({
        f"sessions_{name}_beyond_mib": (words + "worker beyond the driver", 3, True),
        f"sessions_{name}_client_mib": (words + "stub, private MiB", 3, True),
        f"sessions_{name}_wakeups": (words + "wake-ups a second", 1, True)})


class Group:
    """The client processes of one session."""

    def __init__(self, bench, *options, link="tcp", tls="off", policy="fs"):
        env = {**bench.env, "GPUPOOL_TRANSPORT": link, "GPUPOOL_TLS": tls}
        self.process = subprocess.Popen(
            [bench.gpupool, "run", "--core", str(100 // SESSIONS), "--memory", "200MiB",
             "--policy", policy, "--", bench.build / "bench" / "sessions", *options], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def await_words(self, words):
        line = self.process.stdout.readline()
        if line != words + "\n":
            raise SystemExit(f"bench: sessions: {words} was expected, not {line!r}")

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, parse):
        """What it printed; `failed` is in it when it ended by itself."""
        self.process.stdin.close()
        text = self.process.stdout.read()
        self.process.wait()
        return parse(text)


# --- what a process costs ------------------------------------------------------------------

def fields(path):
    """{name: number} of the lines "name: number" of a file of /proc."""
    found = {}
    for line in Path(path).read_text().splitlines():
        words = line.split()
        if len(words) > 1 and words[0].endswith(":") and words[1].isdigit():
            found[words[0][:-1]] = int(words[1])
    return found


def private_kib(pid):
    memory = fields(f"/proc/{pid}/smaps_rollup")
    return memory["Private_Clean"] + memory["Private_Dirty"]


def arena_kib(pid):
    """The null driver's device memory, of which it touches what is handed out: the one mapping
    that is so large."""
    found, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            begin, end = (int(word, 16) for word in words[0].split("-"))
            inside = end - begin > 1 << 32
        elif inside and words[0] in ("Private_Clean:", "Private_Dirty:"):
            found += int(words[1])
    return found


def switches(pid):
    """How often a thread of the process slept, so was woken; its processor time, ns."""
    woken = ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        woken += fields(task / "status")["voluntary_ctxt_switches"]
        ns += int((task / "schedstat").read_text().split()[0])
    return woken, ns


def children(pid):
    return [int(word) for task in Path(f"/proc/{pid}/task").iterdir()
            for word in (task / "children").read_text().split()]


def clients_of(groups):
    """The client processes below `gpupool run` and the program that started them."""
    found = []
    for group in groups:
        waiting = [group.process.pid]
        while waiting:
            pid = waiting.pop()
            waiting += children(pid)
            if b"\0--client\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


class Cost:
    """Wake-ups and processor time of processes, from one moment to another."""

    def __init__(self, pids):
        self.pids, self.begin = pids, time.monotonic()
        self.before = [switches(pid) for pid in pids]

    def a_second(self):
        seconds = time.monotonic() - self.begin
        after = [switches(pid) for pid in self.pids]
        return tuple(sum(b[i] - a[i] for a, b in zip(self.before, after)) / seconds
                     for i in (0, 1))


# --- idle ----------------------------------------------------------------------------------

def median_kib(pids, of=private_kib):
    return statistics.median(of(pid) for pid in pids)


def driver_kib(bench):
    """Private memory that the software cards' driver itself adds to a program."""
    taken = []
    env = {**bench.env, "LD_LIBRARY_PATH": str(bench.build / "lib" / "softgpu")}
    process = subprocess.Popen([bench.build / "bench" / "sessions", "--clients=4", "--late=1"],
                               env=env, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    for words in ("STARTED", "ATTACHED"):
        if process.stdout.readline() != words + "\n":
            raise SystemExit("bench: sessions: the driver itself does not start")
        taken.append(median_kib(children(process.pid)))
        process.stdin.write("\n")
        process.stdin.flush()
    process.stdin.close()
    process.wait()
    return taken[1] - taken[0]


def idle(bench, progress, driver, each, own_kib, link="tcp", tls="off"):
    """@own_kib: of a worker's process, what its driver has in it."""
    n = SESSIONS * each
    server = bench.server_pid()
    server_kib = private_kib(server)
    progress(f"sessions: {n} idle clients, {driver}, {link}, TLS {tls}")
    groups = [Group(bench, f"--clients={each}", "--late=1", link=link, tls=tls)
              for _ in range(SESSIONS)]
    for group in groups:
        group.await_words("STARTED")
    clients = clients_of(groups)
    before_kib = median_kib(clients)
    for group in groups:
        group.go_on()
    for group in groups:
        group.await_words("ATTACHED")
    workers = children(server)
    if len(clients) != n or len(workers) != n:
        raise SystemExit(f"bench: {len(clients)} clients, {len(workers)} workers, not {n}")
    time.sleep(5)  # what has just been done is over
    costs = [Cost(pids) for pids in (workers, clients, [server])]
    time.sleep(WINDOW_S)
    woken, ns = zip(*(cost.a_second() for cost in costs))
    progress("sessions: wake-ups a second of workers, clients, server: "
             + ", ".join(f"{value:.1f}" for value in woken))
    found = {
        "worker_mib": median_kib(workers) / 1024,
        "beyond_mib": statistics.median(private_kib(pid) - own_kib(pid) for pid in workers)
        / 1024,
        "client_mib": (median_kib(clients) - before_kib) / 1024,
        "server_kib": (private_kib(server) - server_kib) / n,
        "kernel_kib": median_kib(workers, lambda pid: fields(f"/proc/{pid}/status")["VmPTE"]),
        "wakeups": sum(woken) / n, "cpu_us": sum(ns) / n / 1000,
        "descriptors": median_kib(workers, lambda pid: len(os.listdir(f"/proc/{pid}/fd"))),
        "threads": median_kib(workers, lambda pid: len(os.listdir(f"/proc/{pid}/task"))),
        "client_descriptors": median_kib(clients, lambda pid: len(os.listdir(f"/proc/{pid}/fd"))),
        "client_threads": median_kib(clients, lambda pid: len(os.listdir(f"/proc/{pid}/task"))),
    }
    ended = [group.end(bench.parse) for group in groups]
    if any(values.get("failed") != 0 for values in ended):
        raise SystemExit("bench: sessions: an idle client failed")
    await_no_workers(bench)
    return found


def await_no_workers(bench):
    end = time.monotonic() + 120
    while children(bench.server_pid()):
        if time.monotonic() > end:
            raise SystemExit("bench: sessions: workers outlive their clients")
        time.sleep(0.1)


# --- busy ----------------------------------------------------------------------------------

def percentile_ms(groups, percent):
    """Out of the counts of durations that every program prints."""
    counts = {}
    for values in groups:
        for key, count in values.items():
            if key.startswith("took_ns_"):
                end = int(key.removeprefix("took_ns_"))
                counts[end] = counts.get(end, 0) + count
    left = sum(counts.values()) * percent / 100
    for end in sorted(counts):
        left -= counts[end]
        if left <= 0:
            return end / 1e6
    return 0.0


def busy_groups(bench, *options, policy):
    """What the groups printed, and the calls of each client."""
    groups = [Group(bench, f"--clients={BUSY}", f"--busy-ms={BUSY_MS}", *options,
                    policy=policy) for _ in range(SESSIONS)]
    for group in groups:
        group.await_words("ATTACHED")
    for group in groups:
        group.go_on()
    ended = [group.end(bench.parse) for group in groups]
    return ended, [number for values in ended for number in values["calls"]]


def jain(calls):
    return sum(calls) ** 2 / (len(calls) * sum(c * c for c in calls))


def busy(bench, progress, driver):
    progress(f"sessions: {SESSIONS * BUSY} busy clients, {driver}")
    ended, calls = busy_groups(bench, policy="fs")
    # Without the ceiling of a fixed share, which launches of nothing reach as well.
    # Card time is what is divided (shares.py), not the number of launches.
    groups, launches = busy_groups(bench, "--launch=1", policy="be")
    return {"calls_per_s": sum(calls) * 1000 / BUSY_MS, "jain": jain(calls),
            "p99_ms": percentile_ms(ended, 99),
            "worst_ms": max(values["worst_ms"] for values in ended),
            "launches_per_s": sum(launches) * 1000 / BUSY_MS,
            "launches_jain": jain([sum(values["calls"]) for values in groups]),
            "launches_p99_ms": percentile_ms(groups, 99)}


def churn(bench, progress, driver):
    progress(f"sessions: {CHURN} attachments, one after the other, {driver}")
    of_each = 4
    groups = [Group(bench, f"--churn={CHURN // of_each}", "--at-a-time=8",
                    f"--rate={RATE // of_each * 5 // 4}") for _ in range(of_each)]
    ended = [group.end(bench.parse) for group in groups]
    if any(values["failed"] for values in ended):
        raise SystemExit("bench: sessions: an attachment failed")
    return {"churn_per_s": sum(values["churn_per_s"] for values in ended),
            "churn_p99_ms": max(values["churn_p99_ms"] for values in ended)}


def storm(bench, progress, driver):
    progress(f"sessions: {STORM} attachments at once, {driver}")
    sessions = SESSIONS - 1
    sizes = [STORM // sessions + (i < STORM % sessions) for i in range(sessions)]
    groups = [Group(bench, f"--clients={size}", "--late=1") for size in sizes]
    for group in groups:
        group.await_words("STARTED")
    other = Group(bench, "--clients=1", "--busy-ms=30000")
    other.await_words("ATTACHED")
    other.go_on()
    time.sleep(0.5)
    for group in groups:
        group.go_on()
    attached = [group.process.stdout.readline() == "ATTACHED\n" for group in groups]
    failed = sum(size for size, good in zip(sizes, attached) if not good)
    ended = [group.end(bench.parse) for group in groups]
    calls = other.end(bench.parse)
    times = [ms for values in ended for ms in values.get("attach_ms", ())]
    await_no_workers(bench)
    return {"storm_failed": failed, "storm_s": max(times) / 1000,
            "storm_median_s": statistics.median(times) / 1000,
            "storm_call_ms": calls["worst_ms"]}


# --- all of it -----------------------------------------------------------------------------

def measure(bench, progress):
    found = {}
    # The rates of one address are for strangers; all clients here have the same one.
    rates = {f"GPUPOOL_SERVER_RATE_{name}": "1000000" for name in ("CONNECTIONS", "ATTACHES")}
    bench.env.update(rates)
    soft_kib = driver_kib(bench)
    own_kib = {"null": arena_kib, "softgpu": lambda pid: soft_kib}
    for driver in DRIVERS:
        bench.down()
        bench.up(driver, core=-1)
        values = idle(bench, progress, driver, IDLE, own_kib[driver])
        for measured in (busy, churn, storm):
            values.update(measured(bench, progress, driver))
        found.update({f"sessions_{driver}_{key}": value for key, value in values.items()})
        if driver == "null":
            for name, link, tls in (("tls", "tcp", "require"), ("shm", "shm", "off")):
                values = idle(bench, progress, driver, FEW, arena_kib, link, tls)
                found.update({f"sessions_{name}_{key}": value for key, value in values.items()})
    for name in rates:
        del bench.env[name]
    bench.down()
    bench.up()
    progress(json.dumps({key: round(value, 3) for key, value in sorted(found.items())}))
    return found
