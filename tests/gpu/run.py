#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-gpu`: the same programs on a real card, and on a slice of it.

Each program runs twice: on the driver itself, and through `gpupool run` on a pool
server that holds the same driver.  Every result and every error must be the same.
The programs are ours (tests/programs, compared by what they print) and PyTorch, NCCL,
cuBLAS and cuDNN (the files beside this one, compared by observation; observe.py).

Needs an NVIDIA driver and a card; the larger half needs PyTorch, which is installed once
from the list of wheels beside this file (environment.py).  Prints one line PASS, FAIL or
SKIP for each comparison, then `N passed, N failed, N skipped`, and writes
docs/results/gpu.md (--results).  Without a card it says so and writes nothing.

To try the script itself: --driver softgpu compares our programs on a software card;
--driver null runs every part on a slice of the null driver, where nothing is computed,
and judges only that each comes to its end and reaches all that it planned.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "clients"), str(HERE.parent)]

from chosen import end_if_none, matches  # noqa: E402
from driver import find_driver  # noqa: E402
from environment import REQUIREMENTS, python_with_torch  # noqa: E402
from pool import Pool, Tally, run_bounded  # noqa: E402

LIMIT_S = 600
OURS = ("vecadd", "matmul", "reduce", "histogram", "mandelbrot", "pipeline", "features",
        "managed")
# The same kernels as runtime-API programs, where an nvcc has built them.
KINDS = ("", "-static", "-shared")
OTHERS = ("threads", "graphs", "landing")
PROGRAMS = (*OTHERS, *(name + kind for kind in KINDS for name in OURS))
# Programs that look at one family of calls each, one after the other line by line; a few
# at a time, because none of them looks at the memory of the whole card.  Left out are
# those that do (counted, limits, tiny), that need lines on stdin (held, beside, cudash),
# negative, all of which no driver survives, flags, which prints an attribute that a slice
# has otherwise (docs/managed.md), and hostnodes, which wants a card's whole share.
FAMILIES = ("asked", "blocking", "cards", "clusters", "conditions", "copies", "elapsed",
            "faults", "graphcopies", "graphframe", "hostfuncs", "ipc",
            "linking", "managed_traffic", "moves", "nodes", "notices", "order", "pinned",
            "queries", "rarecalls", "released", "shapes", "shareable", "sharedcards", "space", "spares",
            "stress", "textures", "turns", "unified", "updates", "waited", "waitnodes",
            "wakers")
WORDS = {"managed_traffic": ["whole"]} # the driver does not tell what it has written
AT_A_TIME = 4
THEIRS = ("torch_tensors", "torch_training", "torch_errors", "ranks_nccl", "libraries")
# What the null driver cannot do for a program.
NO_MANAGED = "uses managed variables of its image, which the null driver does not have"
NOT_REHEARSED = {"landing": "waits for what a kernel writes",
                 "managed-static": NO_MANAGED, "managed-shared": NO_MANAGED}
# Parts of the benchmark that take a driver, and what of them is enough for a rehearsal.
MEASURED = {"attach": ["--rounds", "1"], "shares": ["--case", "30_60_burst"]}
LIMIT_MEASURE_S = 3600
# A client that crashes says where.
QUIET_PYTHON = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1"}


class Report:
    """Lines on the terminal, and rows for the results page."""

    def __init__(self):
        self.tally = Tally()
        self.rows = []
        self.versions = []
        self.figures = {}

    def line(self, outcome, name, words="", ratio=None):
        self.tally.line(outcome, name, words)
        self.rows.append((name, outcome, f"{ratio:.2f}" if ratio else "", words))


class Comparison:
    def __init__(self, build, driver, python, cards, report):
        self.build = build
        self.driver = driver
        self.python, self.why_no_python = python
        self.cards = cards
        self.report = report
        self.logs = build / "gpu-logs"
        self.logs.mkdir(parents=True, exist_ok=True)

    def here(self, name, command, pool, env=None):
        """On the driver itself: lines, status, seconds."""
        begin = time.monotonic()
        env = {**pool.env, **self.driver.environment, **QUIET_PYTHON, **(env or {})}
        lines, status = run_bounded(command, env, self.logs / f"{name}.local.log", LIMIT_S)
        return lines, status, time.monotonic() - begin

    def there(self, name, command, pool, sharers=1):
        """On a slice, which leaves room for as many others."""
        begin = time.monotonic()
        lines, status = pool.run(command, QUIET_PYTHON,
                                 self.logs / f"{name}.remote.log",
                                 core=100 * self.cards // sharers,
                                 memory=self.driver.slice // sharers, limit_s=LIMIT_S)
        return lines, status, time.monotonic() - begin

    def rehearse_program(self, name, path, pool):
        """It finds its results wrong and says so; more is not asked."""
        if name in NOT_REHEARSED:
            return self.report.line("SKIP", name, NOT_REHEARSED[name])
        lines, status, _ = self.there(name, [path], pool)
        if status in (0, 1) and any(line.strip() for line in lines):
            return self.report.line("PASS", name, "came to its end")
        return self.report.line("FAIL", name, f"exit status {status}, see "
                                f"{self.logs / name}.remote.log")

    def rehearse_observations(self, name, command, pool):
        lines, status, _ = self.there(name, command, pool)
        there = understood(lines)
        self.report.versions.append(f"{name}: {there['version']}")
        if not there["plan"]:
            return self.report.line("FAIL", name, f"did not start, exit status {status}, see "
                                    f"{self.logs / name}.remote.log")
        for part in there["plan"]:
            word, words = there["seen"].get(part, ("bad", f"not reached, exit status {status}"))
            self.report.line({"saw": "PASS", "skip": "SKIP"}.get(word, "FAIL"),
                             f"{name}.{part}", "" if word == "saw" else words)
        return None

    def program(self, name, pool):
        """One of ours: what it prints and its exit status are the result."""
        path = self.build / "tests" / "programs" / name
        if not path.exists():
            return self.report.line("SKIP", name, "is not built on this machine")
        if not self.driver.alone:
            return self.rehearse_program(name, path, pool)
        return self.report.line(*self.judge(name, pool))

    def judge(self, name, pool, sharers=1):
        """What to report of a program of ours."""
        path = self.build / "tests" / "programs" / name
        if not path.exists():
            return "SKIP", name, "is not built on this machine"
        command = [path, *WORDS.get(name, [])]
        # A slice is of one card.
        local = self.here(name, command, pool, {"CUDA_VISIBLE_DEVICES": "0"})
        remote = self.there(name, command, pool, sharers)
        if local[1] != 0:
            return ("SKIP", name, "fails on the driver itself, see "
                    f"{self.logs / name}.local.log")
        ratio = remote[2] / local[2] if local[2] > 1 and sharers == 1 else None
        if local[:2] == remote[:2]:
            return "PASS", name, "", ratio
        differing = next((f"here \"{a}\", there \"{b}\"" for a, b in zip(local[0], remote[0])
                          if a != b), f"exit status {local[1]} and {remote[1]}")
        return "FAIL", name, differing[:200], ratio

    def families(self, names, pool):
        """A few at a time, reported in their order."""
        with ThreadPoolExecutor(AT_A_TIME) as runners:
            for said in runners.map(lambda name: self.judge(name, pool, AT_A_TIME), names):
                self.report.line(*said)

    def observations(self, name, pool):
        """One of theirs: each observation is a result."""
        command = [self.python or sys.executable, HERE / f"{name}.py"]
        if not self.driver.alone:
            return self.rehearse_observations(name, command, pool)
        local, remote = self.here(name, command, pool), self.there(name, command, pool)
        here, there = understood(local[0]), understood(remote[0])
        self.report.versions.append(f"{name}: {here['version']}")
        if not here["plan"]:
            return self.report.line("SKIP", name, "does not start on the driver itself, see "
                                    f"{self.logs / name}.local.log")
        ratio = remote[2] / local[2] if local[2] > 1 else None
        for part in here["plan"]:
            outcome, words = compared(here["seen"].get(part), there["seen"].get(part))
            if part not in there["seen"] and outcome == "FAIL":
                words += f", exit status {remote[1]}"
            self.report.line(outcome, f"{name}.{part}", words)
        if ratio:
            self.report.rows.append((name, "", f"{ratio:.2f}", "the whole program's time"))
        return None


def understood(lines):
    found = {"plan": [], "version": "did not start", "seen": {}}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "plan":
            found["plan"] = rest.split()
        elif word == "version":
            found["version"] = rest
        elif word in ("saw", "skip", "bad"):
            name, _, words = rest.partition(": ")
            found["seen"][name] = (word, words)
    return found


def compared(here, there):
    """What to say of one observation made here and there."""
    if here is None or here[0] == "bad":
        return "SKIP", f"fails on the driver itself: {here[1] if here else 'not reached'}"
    if here[0] == "skip":
        return "SKIP", here[1]
    if there is None:
        return "FAIL", "not reached on the slice"
    if here != there:
        return "FAIL", f"here {here[1]}, there {there[0]} {there[1]}"
    return "PASS", ""


def card_names():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                               "--format=csv,noheader"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    except OSError:
        return "not told (no nvidia-smi)"
    return "; ".join(done.stdout.strip().split("\n")) or "not told"


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip() or "not told"


def write_results(path, report, version):
    tally = report.tally
    lines = ["# The same programs on a real card and on a slice of it", "",
             "Written by `make test-gpu`; do not edit.", "",
             f"- when: {date.today()}, commit {commit()}, {platform.machine()}",
             f"- card: {card_names()}; CUDA {version}",
             *(f"- {words}" for words in report.versions),
             f"- {tally.passed} the same, {tally.failed} different, {tally.skipped} skipped",
             "", "| program | outcome | time, remote to local | words |",
             "|---|---|---|---|"]
    lines += [f"| {name} | {outcome} | {ratio} | {words.replace('|', '/')} |"
              for name, outcome, ratio, words in report.rows]
    if report.figures:
        lines += ["", "`make bench` on this driver (bench/README.md has their meaning):", "",
                  "| figure | value |", "|---|---|",
                  *(f"| {name} | {value:g} |" for name, value in sorted(report.figures.items()))]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(build, driver, report):
    """The parts of the benchmark that take a driver; on a rehearsal on a software card,
    because the null driver keeps no time and is no library."""
    for part, little in MEASURED.items():
        words = ["--driver", driver.path] if driver.real else little
        command = [sys.executable, "-B", ROOT / "bench" / "run.py", "--build", build,
                   "--only", part, *words]
        print(f"bench {part}:", *words, flush=True)
        done = subprocess.run([str(word) for word in command], text=True, timeout=LIMIT_MEASURE_S,
                              stdout=subprocess.PIPE)
        print(done.stdout, flush=True)
        if done.returncode not in (0, 2) or not driver.real and "written:" not in done.stdout:
            report.line("FAIL", f"bench.{part}", f"ended with {done.returncode}")
            continue
        report.line("PASS", f"bench.{part}",
                    "an aim is missed" if done.returncode == 2 else "")
        report.figures.update(json.loads((build / "bench.json").read_text("utf-8")))


def compare_all(comparison, only, pool):
    for name in PROGRAMS:
        if matches(name, only):
            comparison.program(name, pool)
    if comparison.driver.alone:
        comparison.families([name for name in FAMILIES if matches(name, only)], pool)
    for name in (name for name in THEIRS if matches(name, only)):
        if not comparison.driver.machine_code:
            comparison.report.line("SKIP", name, "its kernels are machine code for real cards")
        elif name != "libraries" and not comparison.python:
            comparison.report.line("SKIP", name, comparison.why_no_python)
        else:
            comparison.observations(name, pool)


def needs_torch(driver, only):
    return driver.machine_code and any(matches(name, only) for name in THEIRS
                                       if name != "libraries")


def compare_and_measure(args, build, driver, cards):
    """All that was asked for; the report."""
    report = Report()
    python, why = (python_with_torch(build, args.wheels, args.requirements)
                   if needs_torch(driver, args.only) else (None, "not looked for"))
    comparison = Comparison(build, driver, (python, why), cards, report)
    with Pool(build, driver.name, {}, cards=cards, options=driver.options) as pool:
        compare_all(comparison, args.only, pool)
    if driver.machine_code and not args.only:
        measure(build, driver, report)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--driver", default=os.environ.get("GPUPOOL_GPU_DRIVER", ""),
                        help="a libcuda.so.1, softgpu or null (this machine's driver)")
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--wheels", default="", metavar="FOLDER",
                        help="install PyTorch out of this folder, without a network")
    parser.add_argument("--requirements", type=Path, default=REQUIREMENTS, metavar="FILE",
                        help="the wheels of PyTorch (those listed beside this script)")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results" / "gpu.md")
    args = parser.parse_args()

    names = [*PROGRAMS, *FAMILIES, *THEIRS]
    end_if_none([name for name in names if matches(name, args.only)], args.only, names)
    build = args.build.resolve()
    driver = find_driver(args.driver, build)
    cards, words = driver.cards() if driver else (0, "this machine has no libcuda.so.1")
    if cards == 0:
        print(f"SKIP test-gpu: {words}; it was not run\n"
              "SKIP bench: not run on a real driver\n0 passed, 0 failed, 2 skipped")
        return 0
    report = compare_and_measure(args, build, driver, cards)
    if driver.real:
        write_results(args.results, report, words)
        print(f"written: {args.results}")
    tally = report.tally
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
