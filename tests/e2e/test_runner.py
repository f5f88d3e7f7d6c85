# SPDX-License-Identifier: Apache-2.0
"""What tests/run.py leaves behind, and what scripts that run tests say of a name that is none."""

import signal
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

HANGS = """
import signal, time
def test_hangs(case):
    case.pool()
    print("it hangs now", flush=True)
    {}
    while True:
        time.sleep(1)
"""

DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"

RUN = """
import argparse, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import run
run.END_LIMIT = float(sys.argv[3])
args = argparse.Namespace(build=sys.argv[2], sanitizer="", slowness=1.0, limit=10)
print(run.Runner(args).e2e(Path(sys.argv[4]), "test_hangs").failed[0][0])
"""


RUN_UNTIL_ENDED = RUN.replace("limit=10)", "limit=1000)").replace("print(run.Runner(args)", """\
runner = run.Runner(args)
import signal
signal.signal(signal.SIGTERM, runner.end)
print(runner""")


def that_hangs(case, name, program, words, patience):
    """(the command that runs a test that hangs, its log); tests of this file run at the same time."""
    (case.folder / "run.py").write_text(program)
    path = case.folder / f"test_{name}.py"
    path.write_text(HANGS.format(words))
    log = case.build / "test-logs" / f"{name}.hangs.log"
    log.unlink(missing_ok=True)
    return [*case.interpreter(), case.folder / "run.py", TESTS, case.build, patience, path], log


def hangs(case, name, words, patience):
    """The log of a test that hangs; case.end() finds what is left of its pool."""
    command, log = that_hangs(case, name, RUN, words, patience)
    case.contains(case.run(command).out, "no end within 10 s", "the runner's words")
    return log.read_text()


def test_pool_of_a_test_that_hangs_is_ended_and_its_logs_are_shown(case):
    log = hangs(case, "too_long", "pass", 30)
    case.contains(log, "it hangs now", "the test's words")
    case.contains(log, "registered with scheduler", "the logs of its pool")


def test_pool_of_a_test_that_cannot_be_ended_is_killed(case):
    log = hangs(case, "deaf", DEAF, 1)
    case.contains(log, "it hangs now", "the test's words")


def test_runner_that_is_ended_ends_its_tests_and_their_pools(case):
    """Of a test that listens to a signal and of one that does not."""
    for name, words, patience in (("ended", "pass", 30), ("ended_deaf", DEAF, 1)):
        command, log = that_hangs(case, name, RUN_UNTIL_ENDED, words, patience)
        runner = case.spawn(command)
        case.wait_for(lambda log=log: log.exists() and "it hangs now" in log.read_text(), "the test hangs",
                      patience=3 * case.patience)
        runner.send_signal(signal.SIGTERM)
        case.equal(runner.wait(case.patience + 60), 128 + signal.SIGTERM, "exit status of the runner")


def test_a_name_that_is_no_tests_is_a_mistake_and_is_said(case):
    """A run in which nothing ran has shown nothing."""
    build = ("--build", case.build)
    for script, words in (("run.py", build), ("clients/run.py", build), ("gpu/run.py", build), ("k8s/run.py", build),
                          ("packages/run.py", (*build, "--version", "0")), ("suites/run.py", build)):
        done = case.run([*case.interpreter(), TESTS / script, *words, "--only", "nosuchtest"], status=2)
        case.contains(done.err, "called 'nosuchtest'", script)
