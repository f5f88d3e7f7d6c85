#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A week of a cluster under every placement policy (bench/week.c), as a table and pictures.

    week.py BUILD [PART [LOAD [SEEDS]]]

Writes docs/results/week.md and week-*.svg: the mean over the seeds and, in the table, the
least and the most.
"""

import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import plot

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
COLUMNS = (
    ("filled", "filled, nothing ends (%)"),
    ("utilisation", "utilisation (%)"),
    ("full_utilisation", "while somebody waits (%)"),
    ("fragmentation", "fragmentation (%)"),
    ("wait_mean_min", "mean wait (min)"),
    ("wait_p99_min", "p99 wait (min)"),
    ("wait_of_8_cards_min", "mean wait for 8 cards (min)"),
    ("decision_us", "decision (us)"),
)
PICTURES = (
    ("full_utilisation", "Core in use while somebody waits", "%"),
    ("fragmentation", "Free core that is of no use for the next request, of all", "%"),
    ("wait_mean_min", "Mean wait", " min"),
)

HEAD = """# A week of a cluster, by placement policy

`make bench-week` wrote this page: {tasks} requests in a simulated week on {cards} cards, demand {load} % of the pool's core on
average, mean of {seeds} weeks (least and most in brackets). `bench/week.c` says where its numbers come from: sizes of the cluster
and of requests are published statistics of a production cluster with fractional cards (Weng et al., USENIX ATC 2023, and the
Alibaba trace of 2023), the median duration is that of an earlier one (NSDI 2022); the spread of durations, the height of the day
and the memory of requests are assumptions. Index, queue, backfill and cards that are kept for those who wait long are the
product's, for every policy; `first-fit` and `fgd-every-card` (fragmentation gradient descent as published) look at every
card, `binpack`, `spread` and `fgd` are the product's own.

*Filled*: how much of the pool is given when requests come until 130 % of it was asked for and nothing ends, the experiment that
the heuristic was published with. *Fragmentation*: free core that is of no use for the next request, of all core. *Decision*: of
the wall clock, on a machine that did other work too.

"""


def one(build, part, load, seed):
    out = subprocess.run(["nice", "-n", "15", str(build / "bench" / "week"), str(part),
                          str(load), str(seed)], capture_output=True, text=True, check=True)
    rows = defaultdict(dict)
    for line in out.stdout.splitlines():
        name, *words = line.split()
        rows[name].update(zip(words[::2], map(float, words[1::2])))
    return rows


def cell(values):
    mean = sum(values) / len(values)
    return f"{mean:.4g} ({min(values):.4g} to {max(values):.4g})"


def main():
    build = Path(sys.argv[1])
    part, load, seeds = (int(x) for x in [*sys.argv[2:], *("8", "90", "5")[len(sys.argv) - 2:]])
    with ThreadPoolExecutor(1) as turns:
        runs = list(turns.map(lambda seed: one(build, part, load, seed), range(1, seeds + 1)))
    names = list(runs[0])
    head = HEAD.format(tasks=f"{sum(r[names[0]]['tasks'] for r in runs) / seeds:,.0f}",
                       cards=f"{631 // part * 8 + 582 // part * 2:,}", load=load, seeds=seeds)
    lines = ["| policy | " + " | ".join(words for _, words in COLUMNS) + " |",
             "|---|" + "---|" * len(COLUMNS)]
    for name in names:
        cells = [cell([run[name][key] for run in runs]) for key, _ in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    text = head + "\n".join(lines) + "\n"
    for key, title, unit in PICTURES:
        picture = f"week-{key.replace('_', '-')}"
        plot.bars(RESULTS / f"{picture}.svg", title,
                  [(name, sum(run[name][key] for run in runs) / seeds, None, True)
                   for name in names], unit, f"mean of {seeds} simulated weeks")
        text += (f"\n<picture><source media=\"(prefers-color-scheme: dark)\" "
                 f"srcset=\"{picture}-dark.svg\"><img src=\"{picture}.svg\" "
                 f"alt=\"{title}\"></picture>\n")
    (RESULTS / "week.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
