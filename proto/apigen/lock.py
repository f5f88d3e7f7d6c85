# SPDX-License-Identifier: Apache-2.0
"""proto/wire.lock: what each call is on the wire, one line per call, for ever."""

from __future__ import annotations

from pathlib import Path

from .codec import Body, Codecs
from .model import ApiError

HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# The wire contract: number, name, request, answer.  Written by `make wire-lock`,
# which adds lines and never changes one; the generator refuses a description that
# does not agree with it.
"""


def _body(body: Body) -> str:
    """One body as text: fields in order, then parts."""
    fields = [
        f"{f.name}:{f.words}w" if f.words else f"{f.name}:{f.ctype.replace('_t', '')}"
        for f in body.fixed
    ]
    parts = [f"+{p.name}:{p.ctype}" for p in body.parts]
    return ",".join(fields + parts) or "-"


def lines(codecs: Codecs) -> dict[str, str]:
    """Number -> line, for every call that has a number."""
    result = {}
    for c in codecs.api.calls:
        req = _body(codecs.req[c.name]) if c.on_wire else "-"
        rep = _body(codecs.rep[c.name]) if c.on_wire else "-"
        result[f"{c.number:04x}"] = f"{c.number:04x} {c.name} {req} {rep}"
    return result


def read(path: Path) -> dict[str, str]:
    """The committed lines."""
    if not path.exists():
        return {}
    text = path.read_text().splitlines()
    return {line[:4]: line for line in text if line and not line.startswith("#")}


def check(codecs: Codecs, path: Path) -> None:
    """Refuse a description that changes, drops or lacks a line of the lock."""
    locked, now = read(path), lines(codecs)
    for number, line in locked.items():
        if number not in now:
            raise ApiError(
                f"{path.name}: {line.split()[1]} has gone; numbers are for ever"
            )
        if now[number] != line and not _grew(line, now[number]):
            raise ApiError(
                f"{path.name}: the wire form of {line.split()[1]} changed:\n"
                f"  locked {line}\n  now    {now[number]}"
            )


def _grew(locked: str, now: str) -> bool:
    """Has a call without a frame got one?  That breaks nobody."""
    a, b = locked.split(), now.split()
    return a[:2] == b[:2] and a[2:] == ["-", "-"]


def update(codecs: Codecs, path: Path) -> None:
    """Add the lines of new calls."""
    check(codecs, path)
    now = lines(codecs)
    path.write_text(HEAD + "".join(now[n] + "\n" for n in sorted(now)))
