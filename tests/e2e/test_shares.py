# SPDX-License-Identifier: Apache-2.0
"""A session's share of the card's time, whatever its processes try.

The load (bench/shares.c) notes by the card's own clock when its kernels ran.  What a
session had is the union over all its processes; limits are checked with room for what
one kernel overruns, never against how fast this machine is.
"""

import array
import time
import urllib.request

from harness.cudash import OUT_OF_MEMORY, SUCCESS

MIB = 1 << 20
LAUNCH_TIMEOUT = 702
NOT_SUPPORTED = 801
SECONDS = 2.0
POINTS = 0.06  # of the card: what a window of two seconds can be off


class Load:
    def __init__(self, case, session, number, *options):
        self.case = case
        self.out = case.folder / f"load-{number}"
        self.process = case.spawn([case.build / "bench" / "shares", f"--out={self.out}",
                                   *options], env=session.env)
        case.equal(self.process.stdout.readline(), "ready\n", "the load's first line")

    def go(self, begin, end):
        self.process.stdin.write(f"{begin} {end}\n")
        self.process.stdin.flush()

    def finish(self):
        """What it printed at its end, by name."""
        text = self.process.communicate(timeout=self.case.patience * 3)[0]
        self.case.equal(self.process.returncode, 0, "status of a load")
        return {name: float(value) for name, value in map(str.split, text.splitlines())}

    def intervals(self):
        self.finish()
        pairs = array.array("Q", self.out.read_bytes())
        return zip(pairs[0::2], pairs[1::2])


def part_of_card(intervals, begin, end):
    covered, reached = 0, begin
    for start, stop in sorted(intervals):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            covered += stop - start
            reached = stop
    return covered / (end - begin)


def run_together(case, *groups):
    """Groups of loads, a group is a session; the part of the card that each had."""
    begin = time.time_ns() + 100_000_000
    end = begin + int(SECONDS * 1e9)
    for load in (load for group in groups for load in group):
        load.go(begin, end)
    return [part_of_card((pair for load in group for pair in load.intervals()),
                         begin + 300_000_000, end) for group in groups]


def some_round(case, measure, holds, words):
    """What was measured holds; or, where the host's own load may have spoilt that round, it
    holds in both of two further ones."""
    rounds = [measure()]
    if not holds(*rounds[0]):
        rounds += [measure(), measure()]
    case.check(len(rounds) == 1 or all(holds(*again) for again in rounds[1:]),
               f"{words}: {rounds}")


def held_to(case, core, *loads, slack=POINTS):
    """One fixed-share session, alone on the card: no load gets it beyond its cap."""
    pool = case.pool()
    session = pool.session(core=core, memory="512MiB", options=("--policy", "fs"))
    part, = run_together(case, [Load(case, session, number, *options)
                                for number, options in enumerate(loads)])
    case.check(part <= core / 100 + slack, f"{part * 100:.1f} % of the card, not {core} %")
    case.check(part > core / 400, f"only {part * 100:.1f} % of {core} %")


def test_more_processes_get_no_more_of_the_card(case):
    held_to(case, 30, *[("--kernel-us=500",)] * 4)


def test_many_streams_get_no_more_of_the_card(case):
    held_to(case, 30, ("--kernel-us=500", "--streams=8"))


def test_graphs_get_no_more_of_the_card(case):
    held_to(case, 30, ("--kernel-us=300,700", "--graph=1", "--depth=4"))


def test_short_and_long_kernels_in_turn_get_no_more_of_the_card(case):
    held_to(case, 30, ("--kernel-us=50,20000,400,5000",))


def test_copies_and_fills_on_the_card_are_charged(case):
    case.need_processors(2)
    pool = case.pool()
    session = pool.session(core=30, memory="512MiB", options=("--policy", "fs"))
    load = Load(case, session, 0, "--fill-kib=4096", "--depth=4")
    begin = time.time_ns() + 100_000_000
    load.go(begin, begin + int(SECONDS * 1e9))
    found = load.finish()
    case.wait_for(lambda: pool.sessions()[0]["slices"][0]["launches"] >= found["launches"],
                  "the launches are reported")
    used = pool.sessions()[0]["slices"][0]["gpu_ns"] / 1e9 / SECONDS
    case.check(0.05 < used < 0.3 + 2 * POINTS, f"{used * 100:.1f} % of the card, not 30 %")


def test_huge_kernels_get_no_more_of_the_card(case):
    held_to(case, 20, ("--kernel-us=150000", "--depth=8"), slack=0.12)


def test_two_sessions_share_as_promised(case):
    pool = case.pool()
    few = pool.session(core=20, memory="64MiB", options=("--policy", "fs"))
    many = pool.session(core=60, memory="64MiB", options=("--policy", "fs"))
    parts = run_together(case, [Load(case, few, 0, "--kernel-us=500")],
                         [Load(case, many, 1, "--kernel-us=500")])
    case.check(parts[0] <= 0.20 + POINTS, f"{parts[0] * 100:.1f} % instead of 20 %")
    case.check(parts[1] <= 0.60 + POINTS, f"{parts[1] * 100:.1f} % instead of 60 %")
    case.check(parts[1] > 1.8 * parts[0], f"{parts}: one to three was promised")


def test_burst_share_uses_what_is_idle(case):
    pool = case.pool()
    session = pool.session(core=20, memory="64MiB", options=("--policy", "bs"))
    part, = run_together(case, [Load(case, session, 0, "--kernel-us=2000")])
    case.check(part > 0.45, f"{part * 100:.1f} % of an idle card")


def test_core_limit_caps_a_burst(case):
    pool = case.pool()
    session = pool.session(core=20, memory="64MiB",
                           options=("--policy", "bs", "--core-limit", 40))
    part, = run_together(case, [Load(case, session, 0, "--kernel-us=500")])
    case.check(0.1 < part <= 0.40 + POINTS, f"{part * 100:.1f} % under a limit of 40 %")


def test_online_preempts_offline(case):
    case.need_processors(2)
    pool = case.pool()
    online = pool.session(core=20, memory="64MiB", options=("--policy", "bs"))
    offline = pool.session(core=20, memory="64MiB",
                           options=("--policy", "bs", "--class", "offline"))
    some_round(case, lambda: run_together(case, [Load(case, online, 0, "--kernel-us=2000")],
                                          [Load(case, offline, 1, "--kernel-us=2000")]),
               lambda first, last: first > 5 * last, "parts of the card, online and offline")


# One block of these fills a multiprocessor; a launch fills four of them.
WIDE = ("--kernel-us=2000", "--grid=4", "--shared=90000", "--depth=8")


def blocks_done(case, *sessions):
    """Blocks that a wide load in each of the sessions gets done, all at once."""
    loads = [Load(case, session, number, *WIDE) for number, session in enumerate(sessions)]
    begin = time.time_ns() + 100_000_000
    for load in loads:
        load.go(begin, begin + int(SECONDS * 1e9))
    return [load.finish()["blocks"] for load in loads]


def in_space(pool, core, mode="sm", policy="fs"):
    return pool.session(core=core, memory="64MiB",
                        options=("--policy", policy, "--spatial", mode))


def test_half_of_the_multiprocessors_is_half_the_speed_and_disturbs_nobody(case):
    case.need_processors(2)
    pool = case.pool(env={"SOFTGPU_SMS": "4"})

    def closed(*sessions):
        for session in sessions:
            session.close()
        case.wait_for(lambda: not pool.sessions(), "the sessions are closed")

    def measure():
        session = pool.session(core=100, memory="64MiB", options=("--policy", "be"))
        whole = blocks_done(case, session)
        closed(session)
        one, two = in_space(pool, 50), in_space(pool, 50)
        blocks = *whole, *blocks_done(case, one), *blocks_done(case, one, two)
        sms = one.cudash().begin().ok("attribute", 16)
        case.equal(sms, 2, "multiprocessors that the program sees")
        closed(one, two)
        return blocks

    some_round(case, measure,
               lambda whole, alone, one, two: 0.4 < alone / whole < 0.6 and
               min(one, two) > 0.85 * alone,
               "blocks on all, on half, on half beside another half and by that")


def test_parts_and_turns_do_not_share_a_card(case):
    pool = case.pool()
    one = in_space(pool, 50)
    refused = pool.run("true", core=30, status=None)
    case.check(refused.status != 0, "a session that takes turns came to a card in parts")
    case.contains(refused.err, "shared in space", "why")
    one.close()
    case.wait_for(lambda: not pool.sessions(), "the session is closed")
    pool.run("true", core=30)


def test_part_that_cannot_be_cut_out_is_held_in_time(case):
    pool = case.pool(env={"SOFTGPU_SMS": "2"})
    session = in_space(pool, 30)  # one of two multiprocessors, for 60 % of the time
    part, = run_together(case, [Load(case, session, 0, "--kernel-us=500")])
    case.check(0.3 < part <= 0.6 + POINTS, f"{part * 100:.1f} % of the time, not 60 %")
    used = pool.sessions()[0]["slices"][0]["gpu_ns"] / 1e9 / (SECONDS + 0.1)
    case.check(used < 0.3 + POINTS, f"{used * 100:.1f} % of the card charged")


def test_session_stays_on_its_multiprocessors_whatever_contexts_it_makes(case):
    pool = case.pool(env={"SOFTGPU_SMS": "4"})
    result = in_space(pool, 50).run(case.programs / "confined", status=None)
    case.equal((result.status, result.out), (0, ""), "what the program found")


def test_percentage_of_the_multi_process_service_confines(case):
    pool = case.pool(env={"SOFTGPU_SMS": "4"})
    session = in_space(pool, 50, "mps")
    case.equal(session.cudash().begin().ok("attribute", 16), 2, "multiprocessors shown")
    case.equal([s["spatial"] for s in pool.sessions()], ["mps"], "what the pool shows")


def copied_beside_a_flood(case, flood, calm):
    """The part of all bytes that one process of a session copies beside five."""
    copies = "--copy-kib=16384", "--copy-down=1"
    loads = [Load(case, session, number, *copies)
             for number, session in enumerate([flood] * 5 + [calm])]
    begin = time.time_ns() + 100_000_000
    for load in loads:
        load.go(begin, begin + int(SECONDS * 1e9))
    *many, one = [load.finish()["copied_bytes"] for load in loads]
    return one / (one + sum(many))


def test_session_that_floods_copies_leaves_a_neighbour_its_part(case):
    case.need_processors(2)
    pool = case.pool()
    flood = pool.session(core=50, memory="256MiB", options=("--policy", "bs"))
    calm = pool.session(core=50, memory="256MiB", options=("--policy", "bs"))
    # One of six connections: a sixth, were they not governed.
    some_round(case, lambda: (copied_beside_a_flood(case, flood, calm),),
               lambda part: part > 0.27,
               "part of all bytes of one process of a half, beside five of the other half")
    used = [s["slices"][0]["moved_bytes"] for s in pool.sessions()]
    case.check(min(used) > 0, f"bytes moved by each session: {used}")


def test_policies_have_short_names(case):
    pool = case.pool()
    for short, name in (("fs", "fixed-share"), ("bs", "burst-share"), ("be", "best-effort")):
        session = pool.session(core=20, memory="64MiB", options=("--policy", short))
        case.equal([s["policy"] for s in pool.sessions()], [name], f"policy {short}")
        session.close()
        case.wait_for(lambda: not pool.sessions(), "the session is closed")


def spinner(case, pool, **options):
    """A process whose kernel never ends, running; its worker."""
    before = set(pool.workers())
    shell = pool.session(core=40, memory="64MiB", **options).cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", MIB)
    shell.ok("store", slot, 0, 7)
    shell.ok("launch", "spin", 1, 32, slot, 7)
    shell.ok("info")  # answered after the launch, which by itself may still be on its way
    worker, = set(pool.workers()) - before
    return shell, worker


def bumper(case, pool):
    """A process that does one finite kernel when told to."""
    shell = pool.session(core=40, memory="64MiB").cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", MIB)
    shell.ok("store", slot, 0, 0)
    return shell, slot


def test_killed_worker_gives_the_turn_back_in_the_middle_of_a_kernel(case):
    pool = case.pool()
    other, slot = bumper(case, pool)
    _, worker = spinner(case, pool)
    other.ok("launch", "bump", 1, 32, slot, 1)
    other.send("sync")
    pool.kill(worker)
    case.equal(other.answer(("sync",))[0], SUCCESS, "sync of the neighbour")
    case.equal(other.ok("peek", slot, 0), 1, "what the neighbour's kernel did")


def test_kernel_that_never_ends_is_ended_when_others_wait(case):
    pool = case.pool()
    server = pool.restart(pool.pid("gpupool-server"), "--work-limit", "1")
    other, slot = bumper(case, pool)
    culprit, worker = spinner(case, pool)
    other.ok("launch", "bump", 1, 32, slot, 1)
    case.equal(other("sync")[0], SUCCESS, "sync of the neighbour")
    case.equal(culprit("sync")[0], LAUNCH_TIMEOUT, "sync of the culprit")
    case.equal(culprit("alloc", MIB)[0], LAUNCH_TIMEOUT, "its later calls")
    case.wait_for(lambda: worker not in pool.workers(), "its worker is gone")
    case.check(server in pool.pids("gpupool-server"), "the server goes on")


def test_held_work_holds_nobody_and_waits_for_nothing(case):
    """Kernels behind a host function that has not returned are not on the card."""
    pool, launches = case.pool(), 40
    other, slot = bumper(case, pool)
    holder = pool.session(core=30, memory="64MiB", options=("--policy", "fs"))
    program = case.spawn([case.programs / "held", str(launches)], env=holder.env)
    case.equal(program.stdout.readline(), "queued\n", "the launches behind a held stream")
    began = time.monotonic_ns()
    for _ in range(10):
        other.ok("launch", "bump", 1, 32, slot, 1)
        other.ok("sync")
    case.equal(other.ok("peek", slot, 0), 10, "what the neighbour did meanwhile")

    def used():
        return {s["name"]: s["slices"][0] for s in pool.sessions()}["s2"]

    case.wait_for(lambda: used()["launches"] > launches, "the launches are reported")
    held = time.monotonic_ns() - began
    out = program.communicate("\n", timeout=case.patience)[0]
    case.equal((program.returncode, out),
               (0, f"held: {launches} kernels behind a host function: ok\n"), "its end")
    case.wait_for(lambda: used()["gpu_ns"] > 0, "its card time is reported")
    case.check(used()["gpu_ns"] < held / 2, f"{used()['gpu_ns']} ns charged, held {held} ns")
    # A grace of 50 ms each is what they would have waited.
    case.check(used()["wait_ns"] < launches * 25e6, f"waited {used()['wait_ns']} ns")


def test_memory_limit_is_the_same_for_every_allocating_call(case):
    pool = case.pool()
    lines = pool.run(case.programs / "limits", memory="64MiB").out.splitlines()
    words = [line.split() for line in lines]
    coarse = {name: [int(word) for word in rest] for name, *rest in words
              if rest[0] != "exact"}
    exact = {name: [int(word) for word in rest[1:]] for name, *rest in words
             if rest[0] == "exact"}
    case.equal(len(coarse), 11, "allocating calls that were tried")
    for name, numbers in coarse.items():
        if name == "cuMemAllocManaged" and numbers[1] == NOT_SUPPORTED:
            continue  # this driver has none: it fails at once and gives nothing
        case.equal(numbers, [64 * MIB, OUT_OF_MEMORY, 0, 64 * MIB],
                   f"{name}: bytes had, refusal, free at the end, free afterwards")
        asked, charged, refusal, left = exact[name]
        case.equal((charged, refusal, left), (asked, OUT_OF_MEMORY, asked - 1),
                   f"{name} of {asked} bytes: counted, refused with a byte too few, left")


def test_memory_with_several_owners_counts_once_and_as_long_as_it_lives(case):
    pool = case.pool()
    result = pool.run(case.programs / "counted", memory="64MiB", status=None)
    case.equal((result.status, result.out), (0, ""), "what was counted")


def test_memory_shared_between_processes_counts_once(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    owner, guest = session.cudash().begin(), session.cudash().begin()
    slot = owner.ok("alloc", 40 * MIB)
    owner.ok("store", slot, 0, 4711)
    shared = guest.ok("import", owner.ok("export", slot))
    case.equal(guest.ok("peek", shared, 0), 4711, "the same memory")
    for name, shell in (("owner", owner), ("guest", guest)):
        case.equal(shell.ok("info"), [24 * MIB, 64 * MIB], f"what the {name} sees")
    case.wait_for(lambda: pool.sessions()[0]["slices"][0]["used_bytes"] == 40 * MIB,
                  "the pool sees it once")
    case.equal(guest("alloc", 24 * MIB + 1)[0], OUT_OF_MEMORY, "a byte beyond the limit")
    guest.ok("alloc", 24 * MIB)


def test_what_was_used_is_reported(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    shell = session.cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", 8 * MIB)
    shell.ok("store", slot, 0, 0)
    for _ in range(5):
        shell.ok("launch", "bump", 1, 32, slot, 1)
    shell.ok("sync")
    shell.ok("free", slot)

    def used():
        return pool.sessions()[0]["slices"][0]

    case.wait_for(lambda: used()["launches"] == 5, "five launches are reported")
    case.check(used()["gpu_ns"] > 0, "card time is charged")
    case.check(used()["high_bytes"] >= 8 * MIB, "the high-water mark stays")
    case.check(used()["moved_bytes"] >= 4, "moved bytes are counted")
    case.wait_for(lambda: used()["used_bytes"] == 0, "nothing is in use any more")


def metric_of(text, name, **labels):
    """The value of the one line of that metric with those labels."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    found = [line for line in text.splitlines() if line.startswith(name + "{")
             and all(words in line for words in wanted)]
    return float(found[0].rsplit(" ", 1)[1]) if len(found) == 1 else None


def test_what_was_used_is_visible_in_top_and_in_the_metrics(case):
    pool = case.pool()
    port = case.free_port()
    pool.restart(pool.pid("gpupool-scheduler"), "--metrics-listen", f"127.0.0.1:{port}")
    case.wait_for(lambda: [s["state"] for s in pool.status()["servers"]] == ["alive"],
                  "the server is back in the pool")
    session = pool.session(core=40, memory="64MiB",
                           options=("--policy", "fs", "--owner", "ada@desk"))
    shell = session.cudash().begin()
    slot = shell.ok("alloc", 8 * MIB)
    shell.ok("free", shell.ok("alloc", 24 * MIB))
    shell.ok("store", slot, 0, 0)
    part, = run_together(case, [Load(case, session, 0, "--kernel-us=500")])
    case.check(part > 0.1, f"the load had {part * 100:.1f} %")

    def page(path):
        url = f"http://127.0.0.1:{port}/{path}"
        return urllib.request.urlopen(url, timeout=case.patience).read().decode()

    def value(name, **labels):
        return metric_of(page("metric"), f"gpupool_session_{name}", **labels) or 0

    name = pool.sessions()[0]["name"]
    of = {"session": name, "owner": "ada@desk"}
    case.wait_for(lambda: value("memory_used_bytes", **of) == 8 * MIB, "memory in use")
    case.equal(value("memory_high_bytes", **of), 32 * MIB, "the high-water mark")
    for counter in ("gpu_seconds_total", "wait_seconds_total", "launches_total",
                    "moved_bytes_total"):
        case.check(value(counter, **of) > 0, f"{counter} is not counted")
        tenant = metric_of(page("metrics"), f"gpupool_tenant_{counter}", tenant="ada@desk")
        case.check(tenant > 0, f"{counter} of the tenant: {tenant}")
    case.equal(metric_of(page("metrics"), "gpupool_tenant_memory_used_bytes",
                         tenant="ada@desk"), 8 * MIB, "memory in use of the tenant")
    case.check("session=" not in page("metrics"), "series of sessions in /metrics")

    # The names that dashboards of other systems read, with their units.
    pod = {"container_name": "sh", "namespace": "gpupool", "node": "desk", "pod_name": name}
    for metric, label, one, wanted in (
            ("container_gpu_memory_total", "gpu_memory", "gpu0", 8),
            ("container_gpu_utilization", "gpu", "gpu0", None),
            ("container_request_gpu_memory", "req_of_gpu_memory", None, 64),
            ("container_request_gpu_utilization", "req_of_gpu", None, 0.4)):
        for which in filter(None, (one, "total")):
            found = metric_of(page("metric"), metric, **{**pod, label: which})
            case.check(found is not None and wanted in (None, found),
                       f"{metric} {label}={which}: {found}, not {wanted}")

    head, row = pool.cli("top", "--count", 1).out.splitlines()
    for column in ("SHARE", "GPU TIME", "WAITED", "LAUNCHES", "MOVED", "USED", "HIGH"):
        case.contains(head, column, "columns of top")
    for words in (name, "40 %", " 8 MiB", "32 MiB", "64 MiB", "ada@desk"):
        case.contains(row, words, "what top says")
    used = pool.sessions()[0]["slices"][0]
    for key in ("share_percent", "gpu_ns", "wait_ns", "launches", "moved_bytes"):
        case.check(key in used, f"no {key} in status --json")


def test_share_of_now_is_shown_while_a_session_works(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB", options=("--policy", "fs"))
    load = Load(case, session, 0, "--kernel-us=500")
    begin = time.time_ns()
    load.go(begin, begin + int(6e9))
    share = case.wait_for(lambda: pool.sessions()[0]["slices"][0]["share_percent"],
                          "a share of now")
    case.check(2 < share < 30 + 100 * POINTS, f"{share} % shown of 30 % promised")
    load.process.kill()
    case.wait_for(lambda: not pool.sessions()[0]["slices"][0]["share_percent"],
                  "nothing is shown any more")
