# SPDX-License-Identifier: Apache-2.0
"""What the client programs share: checks by name, one line for each.

A program decorates functions with @check and ends with main().  It says first what
it is going to check (`plan NAME...`), then `version WORDS`, then `ok NAME`,
`bad NAME: WORDS` or `skip NAME: WORDS`; run.py reads that.  So a program that dies
half-way has failed what it had still to do.
"""

import sys
import traceback

_checks = []


class Skip(Exception):
    """This machine lacks something; the words name it."""


def check(function):
    _checks.append((function.__name__, function))
    return function


def _words(error):
    where = traceback.extract_tb(error.__traceback__)[-1]
    words = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} in {where.name}: {words}"


def main(version):
    """Run the checks (those named on the command line, or all); exits."""
    wanted = [(name, function) for name, function in _checks
              if not sys.argv[1:] or name in sys.argv[1:]]
    print("plan", *(name for name, _ in wanted), flush=True)
    print("version", version, flush=True)
    failures = 0
    for name, function in wanted:
        try:
            function()
            print("ok", name, flush=True)
        except Skip as words:
            print(f"skip {name}: {words}", flush=True)
        except Exception as error:  # a client's errors are of any type
            failures += 1
            traceback.print_exc()
            print(f"bad {name}: {_words(error)}", flush=True)
    sys.exit(1 if failures else 0)
