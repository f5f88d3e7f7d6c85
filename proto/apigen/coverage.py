# SPDX-License-Identifier: Apache-2.0
"""What is carried, and what is not and why; and what people want to see of a call."""

from __future__ import annotations

import re
from pathlib import Path

from .emit import Output
from .model import Api, Call

DOC_HEAD = """\
# Coverage of the driver API

Written by `make coverage` from proto/api and the sources; do not edit.  Names are those
that the CUDA 13.0 driver exports, with their `_ptsz` and `_ptds` forms.

* carried: executed on the server
* local: answered by the client library from what it knows
* refused: returns `CUDA_ERROR_NOT_SUPPORTED`, counted, and named once in the log
"""


def _definitions(folder: Path, prefix: str) -> set[str]:
    """Names of the functions prefix<call>() that a folder defines."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*.c")):
        found |= set(re.findall(rf"^{prefix}(\w+)\(", path.read_text(), re.M))
    return found


class Written:
    """Which bodies exist that the description says are by hand."""

    def __init__(self, stub: Path, server: Path) -> None:
        self.stub = _definitions(stub, "stub_impl_")
        self.server = _definitions(server, "h_")

    def missing(self, c: Call) -> str:
        """The side that lacks its body, or nothing."""
        by_hand = c.client in ("manual", "local") and not c.plain
        if by_hand and c.name not in self.stub:
            return "client"
        if c.on_wire and c.server == "manual" and c.name not in self.server:
            return "server"
        return ""


def classify(api: Api, c: Call, written: Written) -> tuple[str, str]:
    """(class, remark) of one call."""
    if c.refused:
        return "refused", c.refused
    if c.uncarried:
        return "refused", f"not carried yet: {c.uncarried}"
    side = written.missing(c)
    if side:
        return "refused", f"not carried yet: its {side} half is not written"
    if c.alias:
        kind, why = classify(api, api.call(c.alias), written)
        return kind, why if kind == "refused" else f"as {c.alias}"
    if c.via:
        kind, why = classify(api, api.call(c.via), written)
        return kind, why if kind == "refused" else f"through {c.via}: {c.why_client}"
    if c.client == "local":
        return "local", c.why_client
    return "carried", ""


def table(api: Api, stub: Path, server: Path, doc: Path | None) -> str:
    """Write the document and return the sums."""
    written = Written(stub, server)
    counts = {"carried": 0, "local": 0, "refused": 0}
    rows: dict[str, list[str]] = {"carried": [], "local": [], "refused": []}
    outside: list[str] = []
    for c in api.calls:
        if c.internal:
            continue
        kind, why = classify(api, c, written)
        for name in [c.name] + ([f"{c.name}_{c.twin}"] if c.twin else []):
            if c.outside:
                outside.append(f"| `{name}` | {why} |")
                continue
            counts[kind] += 1
            rows[kind].append(f"| `{name}` | {why} |")
    total = sum(counts.values())
    sums = (
        f"carried {counts['carried']}, local {counts['local']}, "
        f"refused {counts['refused']}, of {total}"
    )
    if doc:
        text = DOC_HEAD + f"\n{sums}\n"
        for kind in ("refused", "local", "carried"):
            text += f"\n## {kind.capitalize()}: {len(rows[kind])}\n\n| call | why |\n|---|---|\n"
            text += "\n".join(rows[kind]) + "\n"
        text += "\n## Refused, and exported by drivers with a display only\n\n"
        text += "| call | why |\n|---|---|\n" + "\n".join(outside) + "\n"
        doc.parent.mkdir(parents=True, exist_ok=True)
        doc.write_text(text)
    listing = "\n".join(f"{row[2:-2].replace('`', '')}" for row in rows["refused"])
    return f"refused:\n{listing}\n{sums}"


def list_manual(api: Api, side: str, source: Path) -> str:
    """Calls that one side has by hand; the unwritten ones are marked."""
    server = side == "server"
    have = _definitions(source, "h_" if server else "stub_impl_")
    lines = []
    for c in api.calls:
        how = c.server if server else c.client
        why = c.why_server if server else c.why_client
        if how == "generated" or (server and not c.on_wire):
            continue
        via = f" through {c.via}" if c.via else ""
        generated = not server and c.plain
        mark = " " if c.name in have or c.internal or generated else "-"
        lines.append(f"{mark} {c.number:#06x} {c.name} ({how}{via}): {why}")
    return "\n".join(lines)


def show(out: Output, call: Call) -> str:
    """Everything generated that belongs to one call."""
    pieces = []
    name = re.compile(rf"(?<![A-Z])(?:\b|_){call.name}(?![0-9A-Z]|_v[0-9]|[a-z])")
    for file, text in sorted(out.files.items()):
        if file.startswith(("check_", "libcuda")):
            continue
        blocks = [b for b in re.split(r"\n\n(?=\S)", text) if name.search(b)]
        short = [b for b in blocks if b.count("\n") < 150]
        long = [b for b in blocks if b not in short]
        short += [line for b in long for line in b.splitlines() if name.search(line)]
        if short:
            pieces.append(f"==== {file}\n" + "\n".join(short))
    return f"{call.where}\n\n" + "\n\n".join(pieces)
