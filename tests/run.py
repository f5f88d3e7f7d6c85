#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the unit programs and the end-to-end tests; ends with
`N passed, N failed, N skipped`.

Unit tests are cmocka programs in BUILD/tests/unit, one case a line (TAP).  An
end-to-end test is a function test_* of tests/e2e/test_*.py, run by
harness/child.py in a process and a session of its own with a time limit.  A target of the Makefile
(--target) is one test, too.  Everything a test says is in
BUILD/test-logs/NAME.log; a failed one is shown in short here.
"""

import argparse
import ast
import contextlib
import fnmatch
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "e2e"))

from harness import forks, proc  # noqa: E402

UNIT_LIMIT = 300  # only what hangs takes that long: machines differ
E2E_LIMIT = 480  # the RDMA guest shares two cores with everything else
END_LIMIT = 30  # for the end of one that took longer
SHOWN = 14  # lines of a failure; the rest is in its log
# cmocka writes "ok 1 - name", "not ok 2 - name" and "not ok 3 # SKIP name".
TAP_LINE = re.compile(r"^(not ok|ok) \d+ (# SKIP|-) ?(.*)$")


@dataclass
class Outcome:
    name: str
    passed: int = 0
    failed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)
    seconds: float = 0.0


def end_early(process, patience):
    """A test of ours says what it knows and ends its pools, which have sessions of their own;
    of another one, or one that does not, all descendants die."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        kill_descendants(process)


def kill_descendants(process):
    while descendants := proc.descendants(process.pid):
        for pid in descendants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


class Runner:
    def __init__(self, args):
        self.build = Path(args.build).resolve()
        self.sanitizer = args.sanitizer
        self.slowness = args.slowness or (6.0 if args.sanitizer else 1.0)
        self.e2e_limit = args.limit
        self.logs = self.build / "test-logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.forks = None
        self.forks_lock = threading.Lock()
        self.running = set()

    def process(self, name, start, limit):
        """(exit status or None, path of the log) of the process that @start begins with a log; no
        process of it survives."""
        log = self.logs / f"{name}.log"
        with open(log, "w") as out:
            process = start(out)
            self.running.add(process)
            try:
                status = process.wait(limit * self.slowness)
            except subprocess.TimeoutExpired:
                status = None
                end_early(process, END_LIMIT * self.slowness)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.running.discard(process)
        return status, log

    def end(self, number, _frame):
        """A signal that ends the runner ends what it runs, as a test's limit does."""
        processes = list(self.running)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        end = time.monotonic() + END_LIMIT * self.slowness
        while any(proc.is_alive(process.pid) for process in processes) and time.monotonic() < end:
            time.sleep(0.05)
        for process in processes:
            kill_descendants(process)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        print(f"ended by {signal.Signals(number).name}; {len(processes)} tests were running",
              file=sys.stderr, flush=True)
        os._exit(128 + number)

    def command(self, name, args, limit, env=None):
        return self.process(name, lambda out: subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, **(env or {})}, cwd=HERE.parent), limit)

    def fork(self, args, out):
        with self.forks_lock:
            self.forks = self.forks or forks.start()
        return forks.Test(self.forks, args, out)

    def no_end(self):
        return f"no end within {self.e2e_limit * self.slowness:.0f} s"

    def unit(self, program):
        name = f"unit.{program.name}"
        status, log = self.command(name, [str(program)], UNIT_LIMIT, {
            "CMOCKA_MESSAGE_OUTPUT": "TAP", "GPUPOOL_TEST_BUILD": str(self.build),
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"})
        outcome = Outcome(name)
        reason = ""
        for line in log.read_text(errors="replace").splitlines():
            match = TAP_LINE.match(line)
            if not match:
                reason = skip_words(line) or reason
            elif match.group(2) == "# SKIP":
                outcome.skipped.append((name, reason or "it said no reason"))
                reason = ""
            elif match.group(1) == "not ok":
                outcome.failed.append((match.group(3), log))
            else:
                outcome.passed += 1
        if status is None:
            outcome.failed.append((f"no end within {UNIT_LIMIT * self.slowness:.0f} s", log))
        elif status != 0 and not outcome.failed:
            outcome.failed.append((f"exit status {status}", log))
        elif not outcome.passed and not outcome.skipped and not outcome.failed:
            outcome.failed.append(("it ran no test", log))
        return outcome

    def target(self, target):
        name = f"make.{target}"
        status, log = self.command(name, [
            "make", "--no-print-directory", f"O={os.path.relpath(self.build, HERE.parent)}",
            target], self.e2e_limit, {"MAKEFLAGS": "", "MFLAGS": ""})
        outcome = Outcome(name)
        if status == 0:
            outcome.passed = 1
        elif status is None:
            outcome.failed.append((self.no_end(), log))
        else:
            outcome.failed.append((f"exit status {status}", log))
        return outcome

    def e2e(self, path, function):
        name = f"{path.stem.removeprefix('test_')}.{function.removeprefix('test_')}"
        args = [str(path), function, "--build", str(self.build), "--sanitizer", self.sanitizer,
                "--slowness", str(self.slowness)]
        status, log = self.process(name, lambda out: self.fork(args, out), self.e2e_limit)
        outcome = Outcome(name)
        reason = ("\n" + log.read_text(errors="replace")).rpartition("\nreason:")[2].strip()
        if status == 0:
            outcome.passed = 1
        elif status == 77:
            outcome.skipped.append((name, reason.partition("\n")[0]))
        elif status is None:
            outcome.failed.append((self.no_end(), log))
        else:
            outcome.failed.append((reason or f"exit status {status}", log))
        return outcome


def skip_words(line):
    """A unit test says `skip: WORDS` before it skips; '' for another line."""
    bare = line.removeprefix("# ")
    return bare[5:].strip() if bare.startswith("skip:") else ""


def e2e_functions(path):
    tree = ast.parse(path.read_text(), str(path))
    return [node.name for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def is_wanted(name, only):
    """@only: words, of which one is a part of the name or a pattern that it matches."""
    return any(word in name or fnmatch.fnmatch(name, word) for word in only.split())


def collect(args):
    """[(name, callable of Runner)]: those that mostly wait among those that compute."""
    targets = [(f"make.{target}", lambda runner, t=target: runner.target(t))
               for target in args.target]
    jobs, units = [], []
    if args.e2e:
        for path in sorted((HERE / "e2e").glob("test_*.py")):
            for function in e2e_functions(path):
                name = f"{path.stem.removeprefix('test_')}.{function.removeprefix('test_')}"
                jobs.append((name, lambda runner, p=path, f=function: runner.e2e(p, f)))
    if args.unit:
        for program in args.programs or sorted(Path(args.build, "tests/unit").glob("test_*")):
            program = Path(program).resolve()
            if os.access(program, os.X_OK) and program.is_file():
                units.append((f"unit.{program.name}",
                              lambda runner, p=program: runner.unit(p)))
    step = max(1, len(jobs) // (len(units) + 1))
    for i, unit in enumerate(units):
        jobs.insert(i * (step + 1) + step, unit)
    return [job for job in targets + jobs if not args.only or is_wanted(job[0], args.only)]


def is_rationed():
    """Does a control group give less than all processors?  Then the kernel's count of idle time
    says nothing of what is left."""
    for path in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_quota_us"):
        with contextlib.suppress(OSError):
            quota = Path("/sys/fs/cgroup", path).read_text(encoding="ascii").split()[0]
            return quota not in ("max", "-1")
    return len(os.sched_getaffinity(0)) < (os.cpu_count() or 1)


class Lanes:
    """How many tests run at a time: two, and more, up to @most, while a processor idles, because
    many tests mostly wait."""

    def __init__(self, most):
        cpus = os.cpu_count() or 1
        self.least = self.n = min(most, 2)
        self.most = self.least if is_rationed() else most
        self.pause = 50 * cpus  # half a second of all processors, in ticks
        self.more, self.fewer = 0.3 / cpus, 0.1 / cpus  # of all time that is idle
        self.seen = self.read()

    @staticmethod
    def read():
        with open("/proc/stat", encoding="ascii") as stat:
            numbers = [int(word) for word in stat.readline().split()[1:9]]
        return numbers[3] + numbers[4], sum(numbers)  # idle and waiting for disks, all

    def look(self):
        """The number from now on."""
        idle, total = self.read()
        since = total - self.seen[1]
        if since >= self.pause:
            share = (idle - self.seen[0]) / since
            self.n += (share > self.more and self.n < self.most) - (
                share < self.fewer and self.n > self.least)
            self.seen = idle, total
        return self.n


def run_all(jobs, run, most):
    """Yield what run(job) gives for each of @jobs, in the order in which they end."""
    lanes, left, running = Lanes(most), list(reversed(jobs)), set()
    with ThreadPoolExecutor(most) as executor:
        while left or running:
            while left and len(running) < lanes.look():
                running.add(executor.submit(run, left.pop()))
            done, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def in_short(words, indent=6):
    """The first lines, which say what was promised or where a sanitizer stopped, and the
    last ones, which show what a program said."""
    lines = words.splitlines()
    if len(lines) > SHOWN:
        lines = [*lines[:SHOWN // 2], "...", *lines[-(SHOWN // 2):]]
    return ("\n" + " " * indent).join(lines)


def show(number, total, outcome):
    word = "FAIL" if outcome.failed else "skip" if not outcome.passed else "ok  "
    count = f", {outcome.passed} cases" if outcome.passed > 1 else ""
    print(f"[{number:3}/{total}] {word} {outcome.name} ({outcome.seconds:.1f} s{count})",
          flush=True)
    for words, log in outcome.failed:
        print(f"      {in_short(words)}\n      log: {log}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--unit", action="store_true", help="run unit programs")
    parser.add_argument("--e2e", action="store_true", help="run end-to-end tests")
    parser.add_argument("--only", default="", help="parts of names, or patterns with *")
    parser.add_argument("--target", action="append", default=[],
                        help="a target of the Makefile that is a test")
    parser.add_argument("--list", action="store_true", help="only name what would run")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="tests at a time, at most (default: four for each processor, 32; more "
                             "than two only while a processor idles)")
    parser.add_argument("--sanitizer", default="", help="what the build was made with")
    parser.add_argument("--limit", type=float, default=E2E_LIMIT, metavar="SECONDS",
                        help="of an end-to-end test or a target (default: %(default)s)")
    parser.add_argument("--slowness", type=float, help="stretches every time limit")
    parser.add_argument("programs", nargs="*", help="unit programs (default: all built)")
    args = parser.parse_args()
    if not args.unit and not args.e2e:
        args.unit = args.e2e = True

    jobs = collect(args)
    if not jobs and args.only:
        print(f"no test is called {args.only!r}: --list names them", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(sorted(name for name, _ in jobs)))
        return 0
    runner = Runner(args)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, runner.end)
    outcomes = []

    def timed(job):
        start = time.monotonic()
        outcome = job[1](runner)
        outcome.seconds = time.monotonic() - start
        return outcome

    for outcome in run_all(jobs, timed, max(1, args.jobs or min(32, 4 * (os.cpu_count() or 1)))):
        outcomes.append(outcome)
        show(len(outcomes), len(jobs), outcome)

    passed = sum(outcome.passed for outcome in outcomes)
    failed = [(outcome.name, words) for outcome in outcomes for words, _ in outcome.failed]
    skipped = [skip for outcome in outcomes for skip in outcome.skipped]
    print()
    for (name, words), count in Counter(skipped).items():
        cases = f" ({count} cases)" if count > 1 else ""
        print(f"skipped {name}{cases}: {words}")
    for name, words in failed:
        print(f"FAILED  {name}: {in_short(words, 8)}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
