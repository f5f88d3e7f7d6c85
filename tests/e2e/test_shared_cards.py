# SPDX-License-Identifier: Apache-2.0
"""Programs in sessions that share cards, again and again: each ends, with its own results.

A soak: sessions that wait for each other show by chance.  Some did on a slow machine, after
2 to 11 rounds of six programs, because a worker's two threads asked for the card at once.
GPUPOOL_CHAOS=1 (`make test-chaos`) makes many rounds of more programs."""

import os
import subprocess
import time

# How often each does its work: some tenths of a second.
PROGRAMS = (("vecadd", 20), ("matmul", 3), ("reduce", 30), ("histogram", 25),
            ("mandelbrot", 10), ("pipeline", 20))
# Copies to page-locked memory on four streams, several threads, graphs with copies as well.
CHAOS = (("landing",), ("copies",), ("threads",), ("graphcopies",))
CARDS = 2
CHAOS_S = 240


def finish(case, name, process):
    """What a program of a round has said at its end."""
    try:
        out, _ = process.communicate(timeout=case.patience * 3)
    except subprocess.TimeoutExpired:
        case.fail(f"{name} stands still")
    case.equal(process.returncode, 0, f"exit status of {name}: {out}")
    return out


def test_programs_that_share_cards_come_to_their_end(case):
    chaos = "GPUPOOL_CHAOS" in os.environ
    programs = PROGRAMS + (CHAOS if chaos else ())
    pool = case.pool(cards=CARDS)
    began = time.monotonic()
    rounds, slowest = 0, 0.0
    while rounds < 3 or (chaos and time.monotonic() - began < CHAOS_S):
        start = time.monotonic()
        rounds += 1
        running = [(name, pool.spawn(case.programs / name, *args,
                                     core=100 * CARDS // len(programs), memory="700MiB",
                                     env={"GPUPOOL_TRANSPORT": "shm" if index % 2 else "tcp"}))
                   for index, (name, *args) in enumerate(programs)]
        for name, process in running:
            case.contains(finish(case, name, process), "ok\n", name)
        slowest = max(slowest, time.monotonic() - start)
    if chaos:
        print(f"chaos: shared cards: {rounds} rounds of {len(programs)} programs on {CARDS} cards in "
              f"{time.monotonic() - began:.0f} s, the slowest {slowest:.1f} s", flush=True)
