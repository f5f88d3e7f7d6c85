# SPDX-License-Identifier: Apache-2.0
"""What tests/run.py leaves behind, and what scripts that run tests say of a name that is none."""

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

RUN = """
import argparse, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import run
run.END_LIMIT = float(sys.argv[3])
args = argparse.Namespace(build=sys.argv[2], sanitizer="", slowness=1.0, limit=10)
print(run.Runner(args).e2e(Path(sys.argv[4]), "test_hangs").failed[0][0])
"""


def hangs(case, words, patience):
    """The log of a test that hangs; case.end() finds what is left of its pool."""
    (case.folder / "run.py").write_text(RUN)
    path = case.folder / "test_hangs.py"
    path.write_text(HANGS.format(words))
    done = case.run([*case.interpreter(), case.folder / "run.py", TESTS, case.build, patience, path])
    case.contains(done.out, "no end within 10 s", "the runner's words")
    return (case.build / "test-logs" / "hangs.hangs.log").read_text()


def test_pool_of_a_test_that_hangs_is_ended_and_its_logs_are_shown(case):
    log = hangs(case, "pass", 30)
    case.contains(log, "it hangs now", "the test's words")
    case.contains(log, "registered with scheduler", "the logs of its pool")


def test_pool_of_a_test_that_cannot_be_ended_is_killed(case):
    log = hangs(case, "signal.signal(signal.SIGTERM, signal.SIG_IGN)", 1)
    case.contains(log, "it hangs now", "the test's words")


def test_a_name_that_is_no_tests_is_a_mistake_and_is_said(case):
    """A run in which nothing ran has shown nothing."""
    build = ("--build", case.build)
    for script, words in (("run.py", build), ("clients/run.py", build), ("gpu/run.py", build), ("k8s/run.py", build),
                          ("packages/run.py", (*build, "--version", "0")), ("suites/run.py", build)):
        done = case.run([*case.interpreter(), TESTS / script, *words, "--only", "nosuchtest"], status=2)
        case.contains(done.err, "called 'nosuchtest'", script)
