# SPDX-License-Identifier: Apache-2.0
"""The page of a run, as Markdown: each figure with its interval of 95 % and its worst round.

build/bench.md is what docs/results has of the runs that docs/performance.md speaks of.
"""

import os
import platform
import time
from pathlib import Path

import rows
import stats

LINK_WORDS = {"tcp": "TCP", "veth": "veth", "shm": "shared memory"}
BESIDE_RAW = {**rows.CALLS, **rows.SPLIT, **rows.COPIES, **rows.REAL}
PINNED = ("h2d_pinned", "d2h_pinned", "batch")  # over shared memory beside one memcpy


def first_line(path, begin=""):
    """What follows @begin in the first line of @path that has it; "" without one."""
    try:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith(begin):
                return line.removeprefix(begin).strip(" \t:=\"")
    except OSError:
        pass
    return ""


def machine():
    """The machine in one sentence, from what its kernel says of it."""
    name, family, model, flags = (first_line("/proc/cpuinfo", key)
                                  for key in ("model name", "cpu family", "model\t", "flags"))
    cache = first_line("/sys/devices/system/cpu/cpu0/cache/index2/size")
    memory = int((first_line("/proc/meminfo", "MemTotal").split() or [0])[0]) >> 20
    return (f"{os.cpu_count()} x {name or platform.machine()} (family {family or '?'}, "
            f"model {model or '?'}{', ' * bool(cache)}{cache}{' of second-level cache a core' * bool(cache)}), "
            f"{memory} GiB{', under a hypervisor' * ('hypervisor' in flags)}; "
            f"Linux {'.'.join(platform.release().split('.')[:2])}, {first_line('/etc/os-release', 'PRETTY_NAME')}")


def worst(rounds, less):
    """The median of the round that was furthest from the aim."""
    medians = [stats.median(values) for values in rounds]
    return max(medians) if less else min(medians)


def figure(value):
    """As long as its digits mean something: 0.953, 16.4, 23,300,000."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{float(f'{value:.3g}'):,.0f}"


def aim_of(limit, less):
    return "" if limit is None else f"{'<=' if less else '>='} {figure(limit)}"


class Page:
    """The figures of a run: @values, and of each key in @samples those of its rounds."""

    def __init__(self, values, samples, aims):
        self.values, self.samples, self.aims = values, samples, aims

    def cell(self, key):
        """Median, interval and worst round; bold when its aim is missed beyond the interval."""
        if key not in self.values:
            return ""
        _, limit, less = self.aims[key]
        value = self.values[key]
        rounds = self.samples.get(key)
        low, high = stats.interval(rounds or [value])
        words = figure(value)
        if stats.judge(limit, less, value, low, high) == "MISSED":
            words = f"**{words}**"
        if not rounds or len(rounds) < 2:
            return words
        return f"{words} ({figure(low)} to {figure(high)}; {figure(worst(rounds, less))})"

    def beside_raw(self):
        links = [link for link in rows.LINKS
                 if any(f"{name}_ratio_{link}" in self.values for name in BESIDE_RAW)]
        if not links:
            return
        yield "## Beside the raw transport"
        yield ""
        yield f"| what | {' | '.join(LINK_WORDS[link] for link in links)} | aim |"
        yield "|---" * (len(links) + 2) + "|"
        for name, (words, limit, less) in BESIDE_RAW.items():
            cells = [self.cell(f"{name}_ratio_{link}") for link in links]
            if not any(cells):
                continue
            if "shm" in links and name.startswith(PINNED):
                words += " (shared memory: / one memcpy)"
            yield f"| {words} | {' | '.join(cells)} | {aim_of(limit, less)} |"
        yield ""

    def others(self):
        keys = [key for key in self.aims if key in self.values
                and key.rpartition("_ratio_")[0] not in BESIDE_RAW]
        if not keys:
            return
        yield "## Figures of their own"
        yield ""
        yield "| what | figure | aim |"
        yield "|---|---|---|"
        for key in keys:
            words, limit, less = self.aims[key]
            yield f"| {words} | {self.cell(key)} | {aim_of(limit, less)} |"
        yield ""

    def sides(self):
        """Times of both sides, because only ratios of like times may be compared."""
        names = [key.removesuffix("_raw_us") for key in self.values if key.endswith("_raw_us")]
        names = [name for name in names if f"{name}_us" in self.values]
        if not names:
            return
        yield "## Both sides, us: ours / raw"
        yield ""
        yield "| row | median | slow one in a hundred | processor time |"
        yield "|---|---|---|---|"
        for name in sorted(names):
            cells = []
            for middle in ("", "_p99", "_cpu"):
                pair = (self.values.get(f"{name}{middle}_us"),
                        self.values.get(f"{name}_raw{middle}_us"))
                cells.append("" if None in pair else " / ".join(map(figure, pair)))
            yield f"| `{name}` | {' | '.join(cells)} |"
        yield ""

    def text(self, what, version, loads):
        """The page.  @loads: the load averages when the run began and when it ended."""
        return "\n".join([
            "# A run of the benchmark", "",
            f"`{what}`, {time.strftime('%-d %B %Y')}, {version}. Made by `make bench` (`bench/report.py`); the rows are",
            "explained in [bench/README.md](../../bench/README.md), what they say in "
            "[performance.md](../performance.md).", "",
            f"Machine: {machine()}.",
            f"Load when it began and when it ended: {loads[0]:.1f}, {loads[1]:.1f}.", "",
            "A figure is the median of its rounds, each a process of its own; in brackets the interval of 95 %",
            "and the worst round. **Bold** misses its aim by more than the interval.", "",
            *self.beside_raw(), *self.others(), *self.sides()])
