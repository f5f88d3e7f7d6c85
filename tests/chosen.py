# SPDX-License-Identifier: Apache-2.0
"""What ONLY= of a make target chooses, for the scripts that run tests."""

import fnmatch
import sys


def matches(name, only):
    """@only: words, each a part of the name, or a pattern if it has a "*"; "" is all."""
    return not only or any(fnmatch.fnmatch(name, word if "*" in word else f"*{word}*")
                           for word in only.split())


def end_if_none(some, only, names):
    """End the run (2) if @only has chosen nothing of @names: it would have shown nothing."""
    if not some:
        print(f"nothing is called {only!r} here; there are: {', '.join(sorted(names))}", file=sys.stderr)
        sys.exit(2)
