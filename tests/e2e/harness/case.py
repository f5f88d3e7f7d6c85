# SPDX-License-Identifier: Apache-2.0
"""One running test: its private folder, its checks, its processes.

A test function gets a Case.  What it starts through the Case ends with it; what
is still alive after the function returned is a leak and fails the test, as does
a sanitizer report of any process.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from . import proc
from .pool import Pool

REPOSITORY = Path(__file__).resolve().parents[3]

# How long a condition may take to come true.  Generous: it is no measurement,
# and a machine that runs sanitizers beside other work is slow.
PATIENCE = 60.0


class Failed(Exception):
    """A promise was not kept; the words say which."""


class Skipped(Exception):
    """Something that the test needs is not here; the words name it."""


class Case:
    def __init__(self, name, build, folder, sanitizer, slowness):
        self.name = name
        self.build = Path(build).resolve()
        self.folder = Path(folder)
        self.sanitizer = sanitizer
        self.patience = PATIENCE * slowness
        self.programs = self.build / "tests" / "programs"
        self.data = REPOSITORY / "tests" / "data"
        self._pools = []
        self._processes = []
        self._ports = []
        self._at_end = []

    # ------------------------------------------------------------- checks --

    def fail(self, words):
        raise Failed(str(words))

    def check(self, condition, words):
        if not condition:
            self.fail(words)

    def equal(self, got, expected, words):
        if got != expected:
            self.fail(f"{words}\n  got      {got!r}\n  expected {expected!r}")

    def contains(self, text, part, words):
        if part not in text:
            self.fail(f"{words}: {part!r} is not in\n{text}")

    def skip(self, words):
        raise Skipped(words)

    def need_processors(self, n):
        """Skip where the software cards compute in turns with the programs that use them:
        nobody's part of a card can be told there."""
        have = len(os.sched_getaffinity(0))
        if have < n:
            self.skip(f"{have} processor for the software cards and the programs that use "
                      f"them, {n} are needed to tell who had what part of a card")

    def need_file(self, path, words):
        """Skip unless @path exists; @words name what is missing."""
        if not Path(path).exists():
            self.skip(words)
        return Path(path)

    def need_tool(self, name, target=None):
        """Skip without the tool; @target of the Makefile would install it."""
        found = shutil.which(name)
        if not found:
            self.skip(f"{name} is not installed" +
                      (f"; make {target} installs it" if target else ""))
        return found

    def interpreter(self):
        """The words that start a Python which can load the libraries built here: those
        with a sanitizer need its runtime there first, which not every Python bears."""
        if not self.sanitizer:
            return [sys.executable]
        needed = subprocess.run(["ldd", self.build / "bin" / "gpupool"], text=True,
                                capture_output=True).stdout
        runtimes = re.findall(r"=> (\S*/lib[at]san\.so\S*)", needed)
        options = self.environment()["ASAN_OPTIONS"]
        for python in (sys.executable, "/usr/bin/python3"):
            # Its own leaks are none of ours; a child of fork() may start threads.
            words = ["env", f"LD_PRELOAD={':'.join(runtimes)}", f"ASAN_OPTIONS={options}:"
                     "detect_leaks=0", f"TSAN_OPTIONS={self.environment()['TSAN_OPTIONS']}:"
                     "die_after_fork=0", python]
            if runtimes and subprocess.run([*words, "-c", ""], env=self.environment(),
                                           capture_output=True).returncode == 0:
                return words
        self.skip(f"no interpreter bears the runtime of -fsanitize={self.sanitizer}")

    def wait_for(self, condition, words, patience=None):
        """Poll until @condition() is true and return its value; fail in the end."""
        patience = patience or self.patience
        end = time.monotonic() + patience
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() >= end:
                self.fail(f"after {patience:.0f} s: {words() if callable(words) else words}"
                          f"{self._ended()}")
            time.sleep(0.02)

    def _ended(self):
        """Which of the processes in the background ended by themselves: often the cause."""
        return "".join(f"\n  {Path(process.args[0]).name} (process {process.pid}) had ended with "
                       f"status {process.returncode}" for process in self._processes
                       if process.poll() is not None)

    # ---------------------------------------------------------- processes --

    def environment(self, extra=None):
        """What commands of this test see: nothing of the caller's gpupool."""
        env = {key: value for key, value in os.environ.items()
               if not key.startswith(("GPUPOOL_", "CUDA_", "LD_"))}
        env["XDG_RUNTIME_DIR"] = str(self.folder)
        env["XDG_CONFIG_HOME"] = f"{self.folder}/config"
        env["HOME"] = str(self.folder)
        env["TMPDIR"] = str(self.folder)
        env["PATH"] = f"{self.build}/bin:{env['PATH']}"
        report = self.folder / "sanitizer"
        env["ASAN_OPTIONS"] = f"log_path={report}:detect_leaks=1:abort_on_error=0"
        env["UBSAN_OPTIONS"] = f"log_path={report}:print_stacktrace=1:halt_on_error=1"
        env["TSAN_OPTIONS"] = f"log_path={report}:halt_on_error=0:exitcode=66"
        env["LSAN_OPTIONS"] = "print_suppressions=0"
        env.update(extra or {})
        return env

    def run(self, args, env=None, timeout=None, status=0, **kwargs):
        """Run a command to its end; a status other than @status fails the test
        (None: any).  The Result has .status, .out, .err, .seconds."""
        timeout = timeout or self.patience * 3
        result = proc.run(args, timeout, env=self.environment(env),
                          cwd=kwargs.pop("cwd", self.folder), **kwargs)
        print(result, flush=True)
        if result.status is None:
            self.fail(f"no end within {timeout:.0f} s:\n{result}")
        if status is not None and result.status != status:
            self.fail(f"exit status {result.status}, expected {status}:\n{result}")
        return result

    def spawn(self, args, env=None, **kwargs):
        """Start a command in the background with pipes; it is killed in the end."""
        print("&", *args, flush=True)
        kwargs.setdefault("stdin", subprocess.PIPE)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", open(self.folder / "spawned.err", "ab"))
        process = subprocess.Popen([str(arg) for arg in args], text=True, bufsize=1,
                                   env=self.environment(env), cwd=self.folder,
                                   start_new_session=True, **kwargs)
        self._processes.append(process)
        return process

    def pool(self, **options):
        """A running Pool (`gpupool up` in the private folder); see pool.py."""
        pool = Pool(self, **options)
        self._pools.append(pool)
        return pool

    def free_port(self):
        """A port where nobody listens, that no test is given while this one runs, and that
        the kernel gives to nobody who asks for any: those begin at 32768."""
        for _ in range(100):
            port = random.randrange(16384, 32768)
            # A name that all tests of this network see; it goes when this process does.
            reserved = socket.socket(socket.AF_UNIX)
            try:
                reserved.bind(f"\0gpupool-test-port-{port}")
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            except OSError:
                reserved.close()
                continue
            self._ports.append(reserved)
            return port
        return self.fail("no port is free")

    @contextmanager
    def within(self, seconds, words):
        """What runs inside must not take longer: for promises in seconds."""
        start = time.monotonic()
        yield
        took = time.monotonic() - start
        self.check(took <= seconds, f"{words}: took {took:.1f} s, promised {seconds} s")

    def at_end(self, function):
        """Call @function once all pools and processes of the test have ended."""
        self._at_end.append(function)

    # ---------------------------------------------------------------- end --

    def end(self):
        """Stop everything; a list of words, one for each thing left behind."""
        problems = []
        self._end_processes()
        for pool in reversed(self._pools):
            try:
                if not pool.stopped:
                    problems += pool.leaked_descriptors()
                pool.stop()
            except Failed as failure:
                problems.append(str(failure))
        problems += self._leftovers()
        for function in reversed(self._at_end):
            function()
        problems += self._sanitizer_reports()
        return problems

    def _end_processes(self):
        """SIGTERM first, so that a `gpupool run` closes its session."""
        running = [process for process in self._processes if process.poll() is None]
        proc.kill_all([process.pid for process in running], signal.SIGTERM)
        end = time.monotonic() + self.patience / 20
        for process in running:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                proc.kill_all([process.pid])
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()

    def _leftovers(self):
        """What outlives the pool had its time (one second is the promise for a
        worker whose client died; a loaded machine gets more)."""
        end = time.monotonic() + self.patience / 6
        while True:
            proc.reap()
            alive = proc.descendants()
            if not alive or time.monotonic() >= end:
                break
            time.sleep(0.02)
        words = [f"left behind: process {pid}: {' '.join(proc.command_line(pid))}"
                 for pid in alive]
        proc.kill_all(alive)
        return words

    def _sanitizer_reports(self):
        return [f"sanitizer report {path.name}:\n{path.read_text(errors='replace')}"
                for path in sorted(self.folder.glob("sanitizer.*")) if path.stat().st_size]
