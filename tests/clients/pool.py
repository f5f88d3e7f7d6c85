# SPDX-License-Identifier: Apache-2.0
"""A pool of its own for programs from elsewhere, and the count of their checks.

Used by `make test-clients` and `make test-gpu`; the end-to-end tests have a harness
that looks more closely (tests/e2e/harness).
"""

import os
import signal
import subprocess
import tempfile
from pathlib import Path


# These programs run for an hour and more, on machines that may stand still meanwhile: a
# session that nobody could renew in that time is not one whose owner is gone.
PATIENT = ["--lease-ms", "600000", "--heartbeat-ms", "60000"]

END_S = 20  # for a program to end once it is asked to


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def line(self, outcome, name, words=""):
        print(f"{outcome} {name}" + (f": {words}" if words else ""), flush=True)
        if outcome == "PASS":
            self.passed += 1
        elif outcome == "FAIL":
            self.failed += 1
        else:
            self.skipped += 1


def last_line(text):
    lines = [line for line in text.strip().split("\n") if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no words"])[-1][:200]


class Pool:
    """`gpupool up` in a folder of its own, for as long as the block lasts."""

    def __init__(self, build, driver, card, cards=1, servers=1, options=()):
        self.gpupool = build / "bin" / "gpupool"
        self.folder = tempfile.TemporaryDirectory(prefix="gpupool-clients.")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("GPUPOOL_", "SOFTGPU_"))}
        self.env["XDG_RUNTIME_DIR"] = self.folder.name
        self.driver = driver
        self.card = card
        self.cards = cards
        self.servers = servers
        self.options = options  # of `gpupool up`

    def __enter__(self):
        memory = self.card.get("SOFTGPU_MEMORY")
        # A real driver's cards are those that are there, of one server.
        soft = ([] if "/" in self.driver else
                ["--servers", str(self.servers), "--cards", str(self.cards)])
        done = self._command(["up", "--driver", self.driver, *soft, *PATIENT, *self.options,
                              *(["--memory", memory] if memory else [])], self.card)
        if done.returncode != 0:
            self.folder.cleanup()
            raise RuntimeError(f"gpupool up: {last_line(done.stdout)}")
        return self

    def __exit__(self, *_):
        self._command(["down", "--force"], {})
        self.folder.cleanup()

    def _command(self, words, env):
        return subprocess.run([str(self.gpupool), *words], env={**self.env, **env}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def logs(self):
        return "".join(path.read_text(errors="replace")
                       for path in sorted(Path(self.folder.name).rglob("*.log")))

    def run(self, command, env, log, core=50, memory=1 << 30, limit_s=300, failed_calls=None,
            options=()):
        """Run @command on a slice to its end; its lines, its exit status.

        @options: more of `gpupool run`.  With several servers on a slice of every card of them.  @failed_calls, if there
        is one, counts the calls that fail; no call takes its shortest way then.
        """
        words = [self.gpupool, "run", "--core", core, "--memory", f"{memory}B"]
        if self.servers > 1:
            words += ["--cards", self.servers * self.cards, "--span"]
        words += [*options, "--", *command]
        if failed_calls:
            env = {**env, "GPUPOOL_REPORT": str(failed_calls.path)}
        lines, status = run_bounded(words, {**self.env, **env}, log, limit_s)
        with open(log, "a", encoding="utf-8") as file:
            if failed_calls:
                file.write("\n--- calls that failed\n" + failed_calls.text())
            file.write("\n--- the pool's logs\n" + self.logs())
        return lines, status


def end_group(child):
    """End @child and all that it started, first so that a session is given back: where
    nobody gives it back, it holds its card for as long as its lease.  What it said."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(child.pid, number)
        try:
            return child.communicate(timeout=END_S)[0]
        except subprocess.TimeoutExpired:
            continue
    return child.communicate()[0]


def run_bounded(command, env, log, limit_s):
    """Run @command to its end or for @limit_s; its lines, its exit status.

    @log gets what it said on standard error, then its output.
    """
    with open(log, "w", encoding="utf-8") as errors:
        child = subprocess.Popen([str(word) for word in command], env=env, text=True,
                                 errors="replace", stdout=subprocess.PIPE,
                                 stderr=errors, start_new_session=True)
        try:
            out, _ = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            out = end_group(child) + f"\nended after {limit_s} s\n"
        errors.write("\n--- its output\n" + out)
    return out.split("\n"), child.returncode
