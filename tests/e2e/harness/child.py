# SPDX-License-Identifier: Apache-2.0
"""Run one test function in this process: child.py FILE FUNCTION OPTIONS...

Forked for tests/run.py (forks.py) in its own session; SIGTERM fails the test.  The exit status is the result: 0
passed, 1 failed, 77 skipped; what follows the last line of stdout that starts
with `reason:`, itself included, says why.
"""

import argparse
import importlib.util
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Case, Failed, Skipped, proc  # noqa: E402


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ended(*_):
    """By the runner: pools are ended and their logs shown as behind any failure."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Failed("it took too long")


def main(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("function")
    parser.add_argument("--build", required=True)
    parser.add_argument("--sanitizer", default="")
    parser.add_argument("--slowness", type=float, default=1.0)
    args = parser.parse_args(words)

    proc.become_subreaper()
    # Short on purpose: Unix sockets in it must fit into 108 bytes.
    folder = tempfile.mkdtemp(prefix="gpt-")
    signal.signal(signal.SIGTERM, ended)
    case = Case(args.function, args.build, folder, args.sanitizer, args.slowness)
    status, reason = 0, ""
    try:
        getattr(load(args.file), args.function)(case)
    except Skipped as skipped:
        status, reason = 77, str(skipped)
    except Failed as failed:
        traceback.print_exc()
        status, reason = 1, str(failed)
    except Exception as error:  # a broken test is a failed test
        traceback.print_exc()
        status, reason = 1, f"{type(error).__name__}: {error}"

    for problem in case.end():
        print(problem)
        if status != 1:
            status, reason = 1, problem
    if status == 1:
        show_logs(case)
    shutil.rmtree(folder, ignore_errors=True)
    print("reason:", reason, flush=True)
    return status


def show_logs(case):
    """The pool's own words, for the test's log file."""
    for path in sorted(case.folder.rglob("*")):
        if path.is_file() and path.suffix in {".log", ".err"}:
            print(f"--- {path.relative_to(case.folder)}")
            print(path.read_text(errors="replace")[-8000:])


if __name__ == "__main__":
    sys.exit(main())
