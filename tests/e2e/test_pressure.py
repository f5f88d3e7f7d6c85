# SPDX-License-Identifier: Apache-2.0
"""A client that queues more than the card can do: it waits, nobody grows."""

import select
import signal
import time

from harness import proc

MIB = 1 << 20
CALLS = 1500000
# Fixed buffers, the driver's own queue, and 96 MiB of page-locked slots at most.
BOUND = 192 * MIB
# Sanitizers keep shadow memory of every byte, and what was freed for a while.
SHADOW = 2


def bound(case):
    return BOUND * SHADOW if case.sanitizer else BOUND


def test_flood_of_launches_behind_a_stuck_kernel_stays_bounded(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    shell = session.cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", MIB)
    shell.ok("store", slot, 0, 7)
    worker, = pool.workers()
    before = proc.memory_bytes(worker)
    shell.ok("launch", "spin", 1, 32, slot, 7)
    shell.send("flood", slot, CALLS)
    case.wait_for(lambda: answered(shell) or idle(shell.process.pid),
                  "the flood ends or waits", patience=case.patience * 3)
    client_now, worker_now = proc.memory_bytes(shell.process.pid), proc.memory_bytes(worker)
    print(f"client {client_now / MIB:.1f} MiB, worker {worker_now / MIB:.1f} MiB "
          f"(before {before / MIB:.1f})")
    case.check(client_now < bound(case), f"the client grew to {client_now / MIB:.0f} MiB")
    case.check(worker_now - before < bound(case),
               f"the worker grew from {before / MIB:.0f} to {worker_now / MIB:.0f} MiB")
    pool.kill(shell.process.pid)
    case.wait_for(lambda: not pool.workers(), "the worker is gone")


TCP = {"GPUPOOL_TRANSPORT": "tcp"}
SHM = {"GPUPOOL_TRANSPORT": "shm"}


def queued_until_it_waits(case, pool, client, worker):
    """{pid: bytes that it grew by} once the flood goes no further."""
    before = {pid: proc.memory_bytes(pid) for pid in (client, worker)}
    peak = dict.fromkeys(before, 0)

    def look():
        for pid, least in before.items():
            peak[pid] = max(peak[pid], proc.memory_bytes(pid) - least)
        return max(peak.values()) > bound(case)

    case.wait_for(lambda: look() or idle(client), "the flood waits", patience=case.patience * 3)
    look()
    case.check(proc.is_alive(client) and proc.is_alive(worker), "the flood ended")
    return peak


def floods(case, kind, *ways):
    """Queue behind a stuck kernel, in each of the ways (threads, environment): each ends
    in waiting, and nobody has grown."""
    pool = case.pool()
    for threads, env in ways:
        session = pool.session(core=100, memory="64MiB")
        client = case.spawn([case.programs / "flood", kind, str(threads)],
                            env={**session.env, **env})
        case.equal(client.stdout.readline().strip(), "queueing", "the flood begins")
        worker, = pool.workers()
        peak = queued_until_it_waits(case, pool, client.pid, worker)
        words = (f"{kind}, {threads} thread(s), {env}: client +{peak[client.pid] / MIB:.1f} "
                 f"MiB, worker +{peak[worker] / MIB:.1f} MiB")
        print(words)
        case.check(max(peak.values()) <= bound(case), f"unbounded: {words}")
        pool.kill(client.pid)
        case.wait_for(lambda: not pool.workers(), "the worker is gone")
        session.close()


def test_floods_of_launches_stay_bounded(case):
    floods(case, "launches", (1, SHM), (4, TCP))


def test_floods_of_small_copies_stay_bounded(case):
    floods(case, "small", (1, TCP), (4, SHM))


def test_floods_of_bulk_copies_stay_bounded(case):
    floods(case, "bulk", (1, TCP), (4, SHM), (4, {**TCP, "GPUPOOL_COMPRESS": "always"}))


def test_floods_of_fills_stay_bounded(case):
    floods(case, "fills", (1, SHM), (4, TCP))


def test_floods_of_copies_on_the_card_stay_bounded(case):
    floods(case, "copies", (1, SHM), (4, TCP))


def test_floods_of_events_stay_bounded(case):
    floods(case, "events", (1, TCP), (4, SHM))


def answered(shell):
    return bool(select.select([shell.process.stdout], [], [], 0)[0])


def idle(pid):
    """No processor time within a second: it waits."""
    before = proc.cpu_ticks(pid)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        if proc.cpu_ticks(pid) - before > 2:
            return False
        time.sleep(0.05)
    return True


def test_threads_post_while_the_payload_of_another_stands_still(case):
    pool = case.pool()
    for env in (TCP, SHM):
        session = pool.session(core=100, memory="64MiB")
        client = case.spawn([case.programs / "beside"], env={**session.env, **env})
        case.equal(client.stdout.readline().strip(), "ready", "the program begins")
        worker, = pool.workers()
        pool.kill(worker, signal.SIGSTOP)
        client.stdin.write("send\n")
        case.wait_for(lambda: idle(client.pid), "the payload stands still")
        client.stdin.write("post\n")
        case.check(select.select([client.stdout], [], [], case.patience)[0],
                   f"{env}: fills wait for the payload of another thread")
        case.equal(client.stdout.readline().strip(), "posted", "the fills")
        case.wait_for(lambda: idle(client.pid), "more than are taken wait")
        pool.kill(worker, signal.SIGCONT)
        case.equal(client.stdout.readline().strip(), "all there", "what arrived")
        case.equal(client.wait(), 0, "its status")
        session.close()


def test_flood_is_carried_out_in_full(case):
    pool = case.pool()
    shell = pool.session(core=100, memory="64MiB").cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", MIB)
    shell.ok("store", slot, 4, 0)
    case.equal(shell("flood", slot, 20000, patience=case.patience * 3), [0, 20000], "launches")
    case.equal(shell("sync", patience=case.patience * 3), [0], "the wait for all of them")
    case.equal(shell.ok("peek", slot, 4), 20000, "launches that were carried out")
