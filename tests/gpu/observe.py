# SPDX-License-Identifier: Apache-2.0
"""What the programs of `make test-gpu` share: named observations, one line for each.

A program decorates functions with @observe; what a function returns is what the card
answered.  main() says `plan NAME...`, `version WORDS`, then for each `saw NAME: DIGEST
WORDS`, `skip NAME: WORDS` when the machine lacks something, or `bad NAME: WORDS` when
the program itself broke.  run.py runs a program twice, on the driver itself and on a
slice, and compares the lines: whatever differs is a fault, errors included.
"""

import hashlib
import sys
import traceback

_observations = []


class Skip(Exception):
    """This machine lacks something; the words name it."""


def observe(function):
    _observations.append((function.__name__, function))
    return function


def error_of(call):
    """The type and first line of the error that @call ends with."""
    try:
        call()
    except Exception as error:  # the point is which one
        lines = str(error).strip().split("\n")
        return f"{type(error).__name__}: {lines[0] if lines else ''}"
    return "no error"


def _bytes(value):
    """A value's exact bytes: tensors and arrays as they lie in memory."""
    if isinstance(value, (list, tuple)):
        return b"".join(_bytes(part) for part in value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().contiguous()
        return value.view(-1).view(_torch().uint8).numpy().tobytes()
    if hasattr(value, "tobytes"):
        return value.tobytes()
    if isinstance(value, bytes):
        return value
    return repr(value).encode()


def _torch():
    import torch  # only programs that have tensors come here

    return torch


def _words(value):
    if isinstance(value, (list, tuple)):
        return " ".join(_words(part) for part in value[:6])[:160]
    if hasattr(value, "detach"):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if hasattr(value, "tobytes"):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return " ".join(str(value).split())[:160]


def main(version):
    """Make the observations (those named on the command line, or all); exits."""
    wanted = [(name, function) for name, function in _observations
              if not sys.argv[1:] or name in sys.argv[1:]]
    print("plan", *(name for name, _ in wanted), flush=True)
    print("version", version, flush=True)
    failures = 0
    for name, function in wanted:
        try:
            value = function()
            digest = hashlib.sha256(_bytes(value)).hexdigest()[:16]
            print(f"saw {name}: {digest} {_words(value)}", flush=True)
        except Skip as words:
            print(f"skip {name}: {words}", flush=True)
        except Exception as error:  # a client's errors are of any type
            failures += 1
            traceback.print_exc()
            words = " ".join(str(error).split())[:300]
            print(f"bad {name}: {type(error).__name__}: {words}", flush=True)
    sys.exit(1 if failures else 0)
