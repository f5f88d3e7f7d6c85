#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-gpu`: the same programs on a real card, and on a slice of it.

Each program runs twice: on the driver itself, and through `gpupool run` on a pool
server that holds the same driver.  Every result and every error must be the same.
The programs are ours (tests/programs, compared by what they print) and PyTorch, NCCL,
cuBLAS and cuDNN (the files beside this one, compared by observation; observe.py).

Needs an NVIDIA driver and a card; a Python with PyTorch ($GPUPOOL_GPU_PYTHON, else this
one) for the larger half, which is skipped by name without it.  Prints one line PASS,
FAIL or SKIP for each comparison, then `N passed, N failed, N skipped`, and writes
docs/results/gpu.md (--results).  Without a card it says so and writes nothing.
--driver softgpu compares on a software card instead, to try the script itself.
"""

import argparse
import ctypes
import fnmatch
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "clients"))

from pool import Pool, Tally, run_bounded  # noqa: E402

LIMIT_S = 600
REAL_SLICE, SOFT_SLICE = 8 << 30, 1 << 30  # bytes of memory
DRIVER_PLACES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu",
                 "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")
OURS = ("vecadd", "matmul", "reduce", "histogram", "mandelbrot", "pipeline", "features",
        "managed")
# The same kernels as runtime-API programs, where an nvcc has built them.
KINDS = ("", "-static", "-shared")
OTHERS = ("threads", "graphs", "landing")
THEIRS = ("torch_tensors", "torch_training", "torch_errors", "ranks_nccl", "libraries")


class Driver:
    """The driver under comparison: a libcuda.so.1, and the folder it is found in."""

    def __init__(self, path):
        self.path = path
        self.real = path.name != "libsoftgpu.so"
        self.slice = REAL_SLICE if self.real else SOFT_SLICE
        self.environment = {}
        if path.name != "libcuda.so.1":
            self.folder = tempfile.TemporaryDirectory(prefix="gpupool-driver.")
            (Path(self.folder.name) / "libcuda.so.1").symlink_to(path)
            self.environment = {"LD_LIBRARY_PATH": self.folder.name}

    def cards(self):
        """How many cards it shows, and its version; (0, words) when it shows none."""
        try:
            library = ctypes.CDLL(str(self.path))
        except OSError as error:
            return 0, str(error)
        status = library.cuInit(0)
        count, number = ctypes.c_int(), ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(number))
        if status != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0, f"cuInit of {self.path} says {status}"
        return count.value, f"{number.value // 1000}.{number.value % 1000 // 10}"


def find_driver(words, build):
    """The driver named by the user, or the one of this machine; None without one."""
    if words == "softgpu":
        return Driver(build / "lib" / "libsoftgpu.so")
    if words:
        return Driver(Path(words).resolve())
    for place in DRIVER_PLACES:
        path = Path(place) / "libcuda.so.1"
        if path.exists():
            return Driver(path)
    return None


class Report:
    """Lines on the terminal, and rows for the results page."""

    def __init__(self):
        self.tally = Tally()
        self.rows = []
        self.versions = []

    def line(self, outcome, name, words="", ratio=None):
        self.tally.line(outcome, name, words)
        self.rows.append((name, outcome, f"{ratio:.2f}" if ratio else "", words))


class Comparison:
    def __init__(self, build, driver, python, cards, report):
        self.build = build
        self.driver = driver
        self.python = python
        self.cards = cards
        self.report = report
        self.logs = build / "gpu-logs"
        self.logs.mkdir(parents=True, exist_ok=True)

    def both(self, name, command, pool):
        """Run @command here and there: (lines, status, seconds) of each."""
        results = []
        for where in ("local", "remote"):
            log = self.logs / f"{name}.{where}.log"
            begin = time.monotonic()
            if where == "local":
                env = {**pool.env, **self.driver.environment, "PYTHONDONTWRITEBYTECODE": "1"}
                lines, status = run_bounded(command, env, log, LIMIT_S)
            else:
                lines, status = pool.run(command, {"PYTHONDONTWRITEBYTECODE": "1"}, log,
                                         core=100 * self.cards, memory=self.driver.slice,
                                         limit_s=LIMIT_S)
            results.append((lines, status, time.monotonic() - begin))
        return results

    def program(self, name, pool):
        """One of ours: what it prints and its exit status are the result."""
        path = self.build / "tests" / "programs" / name
        if not path.exists():
            return self.report.line("SKIP", name, "is not built on this machine")
        local, remote = self.both(name, [path], pool)
        if local[1] != 0:
            return self.report.line("SKIP", name, "fails on the driver itself, see "
                                    f"{self.logs / name}.local.log")
        ratio = remote[2] / local[2] if local[2] > 1 else None
        if local[:2] == remote[:2]:
            return self.report.line("PASS", name, "", ratio)
        differing = next((f"here \"{a}\", there \"{b}\"" for a, b in zip(local[0], remote[0])
                          if a != b), f"exit status {local[1]} and {remote[1]}")
        return self.report.line("FAIL", name, differing[:200], ratio)

    def observations(self, name, pool):
        """One of theirs: each observation is a result."""
        local, remote = self.both(name, [self.python, HERE / f"{name}.py"], pool)
        here, there = understood(local[0]), understood(remote[0])
        self.report.versions.append(f"{name}: {here['version']}")
        if not here["plan"]:
            return self.report.line("SKIP", name, "does not start on the driver itself, see "
                                    f"{self.logs / name}.local.log")
        ratio = remote[2] / local[2] if local[2] > 1 else None
        for part in here["plan"]:
            outcome, words = compared(here["seen"].get(part), there["seen"].get(part))
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


def has_torch(python):
    done = subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    return done.returncode == 0


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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure_shares(build, driver, report):
    """bench/shares.py on this driver: how well parts of a real card hold."""
    done = subprocess.run([sys.executable, "-B", ROOT / "bench" / "run.py", "--build", build,
                           "--only", "shares", "--driver", driver.path], text=True,
                          stdout=subprocess.PIPE)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        return report.line("FAIL", "shares", f"the measurement ended with {done.returncode}")
    return report.line("PASS", "shares", "figures are in bench.json of the build folder")


def compare_all(comparison, pattern, pool):
    for name in (*OTHERS, *(name + kind for kind in KINDS for name in OURS)):
        if fnmatch.fnmatch(name, pattern):
            comparison.program(name, pool)
    wanted = [name for name in THEIRS if fnmatch.fnmatch(name, pattern)]
    for name in wanted:
        if not comparison.driver.real:
            comparison.report.line("SKIP", name, "its kernels are machine code for real cards")
        elif name != "libraries" and not has_torch(comparison.python):
            comparison.report.line("SKIP", name, f"{comparison.python} has no PyTorch")
        else:
            comparison.observations(name, pool)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--driver", default=os.environ.get("GPUPOOL_GPU_DRIVER", ""),
                        help="a libcuda.so.1, or softgpu (this machine's driver)")
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results" / "gpu.md")
    args = parser.parse_args()

    build = args.build.resolve()
    python = os.environ.get("GPUPOOL_GPU_PYTHON", sys.executable)
    driver = find_driver(args.driver, build)
    cards, words = driver.cards() if driver else (0, "this machine has no libcuda.so.1")
    if cards == 0:
        print(f"SKIP test-gpu: {words}; it was not run\n"
              "SKIP shares: not run on a real driver\n0 passed, 0 failed, 2 skipped")
        return 0
    report = Report()
    comparison = Comparison(build, driver, python, cards, report)
    pattern = args.only if "*" in args.only else f"*{args.only}*"
    with Pool(build, str(driver.path) if driver.real else "softgpu",
              {}, cards=cards) as pool:
        compare_all(comparison, pattern, pool)
    if driver.real and not args.only:
        measure_shares(build, driver, report)
    if driver.real:
        write_results(args.results, report, words)
        print(f"written: {args.results}")
    tally = report.tally
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
