# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_dispatch, from proto/api: each call as it should be, and in the ways in
which its decoder refuses it.

    python3 tests/fuzz/dispatch_seeds.py [--into tests/fuzz/seeds-fuzz_dispatch]

A seed is one family of calls in one way (see WAYS).  Handles are those that the target
makes before the first frame, so that the driver is reached.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
sys.path.insert(0, str(PROTO))

from apigen import abi, codec, parse  # noqa: E402
from apigen.ctypes_ import HANDLES, is_handle  # noqa: E402

SIZE_MAX = 8192  # as long as the fuzzers' inputs may be
CUT, REFUSED = 1, 2
MARK = 1 << 46


def kinds() -> dict[str, int]:
    """Numbers of enum wire_kind."""
    text = (PROTO / "wire_format.h").read_text("ascii")
    return {name: int(number) for name, number in
            re.findall(r"^    WIRE_KIND_(\w+) = (\d+),", text, re.M)}


KINDS = kinds()


def handle(kind: str) -> int:
    """The one handle of that kind that the target makes: one of each, in order."""
    return MARK | KINDS[kind] << 40 | KINDS[kind] << 4


class Layout:
    """Where the fields of a call's request are."""

    def __init__(self, codecs: codec.Codecs, body: codec.Body) -> None:
        self.call = body.call
        self.handles: list[tuple[int, int]] = []  # offset, value
        self.numbers: list[tuple[int, int]] = []  # offset, size
        self.given = [at for at, f in fields(body) if f.name == "given"]
        self.structs: list[tuple[int, str]] = []
        counts = " ".join(p.count for p in body.parts)
        for at, f in fields(body):
            p = body.call.param(f.name)
            if f.words:
                if p:
                    self.structs.append((at, p.type.name))
            elif p and p.dir != "out" and is_handle(p.type):
                self.handles.append((at, handle(HANDLES[p.type.word][1])))
            elif f.name not in ("zero", "given") and not re.search(
                    rf"\bf->{f.name}\b", counts):
                self.numbers.append((at, f.size))
        if body.parts:  # the first follows the fixed part
            self.structs.append((body.size(), body.parts[0].ctype))
        self.structs = [(at, name) for at, name in self.structs
                        if codec.struct_rules(codecs.api, codecs.abi, name)]
        self.codecs = codecs

    @property
    def ends(self) -> bool:
        """Does it destroy what later frames need?"""
        return any(p.life == "del" for p in self.call.params)


def fields(body: codec.Body):
    """(offset, field) of the fixed part."""
    at = 0
    for f in body.fixed:
        yield at, f
        at += f.size


def step(layout: Layout, patches: list[tuple[int, bytes]], seed=0, cut=0) -> bytes:
    """One frame, as struct step and struct patch of the target have it."""
    single = [(at + i, byte) for at, value in patches for i, byte in enumerate(value)]
    return struct.pack("<HBBH", layout.call.number, seed, len(single), cut) + b"".join(
        struct.pack("<HBx", at, byte) for at, byte in single)


def good(layout: Layout, number=1) -> list[tuple[int, bytes]]:
    """Handles that exist, and @number for what counts nothing."""
    return ([(at, value.to_bytes(8, "little")) for at, value in layout.handles] +
            [(at, number.to_bytes(size, "little")) for at, size in layout.numbers])


def offset_of(abi_: abi.Abi, name: str, path: str) -> int:
    """Of a field like res.array.hArray in the structure called @name."""
    at, inside = 0, abi_.struct(name)
    for i, part in enumerate(path.split(".")):
        if i:
            inside = kind if isinstance(kind, abi.Struct) else abi_.struct(kind)
        found = next(f for f in inside.fields if f.name == part)
        at, kind = at + found.offset, found.type
    return at


def structures(layout: Layout, backwards: bool) -> list[tuple[int, bytes]]:
    """Handles in structures as well.  Of those that exclude each other it is the first
    one, or the last."""
    abi_ = layout.codecs.abi
    patches = good(layout)
    for at, name in layout.structs:
        known: dict[str, str] = {}
        rules = codec.struct_rules(layout.codecs.api, abi_, name)
        for r in reversed(rules) if backwards else rules:
            if r.kind not in ("handle", "device") or (
                    r.when_field and known.setdefault(r.when_field, r.when_value) !=
                    r.when_value):
                continue
            if r.when_field:
                patches.append((at + offset_of(abi_, name, r.when_field),
                                abi_.enumerator(r.when_value).to_bytes(4, "little")))
            if r.kind == "handle":
                patches.append((at + offset_of(abi_, name, r.field),
                                handle(HANDLES[r.handle][1]).to_bytes(8, "little")))
    return patches


def absent(layout: Layout) -> list[tuple[int, bytes]]:
    """As good() has it, and none of the arguments that may be missing."""
    return good(layout) + [(at, bytes(4)) for at in layout.given]


def one_strange(layout: Layout) -> bytes:
    """All handles but the first exist."""
    strange = {at for at, _ in layout.handles[:1]}
    return strange and step(layout, [p for p in good(layout) if p[0] not in strange])


# name: frames of a call
WAYS = {
    "good": lambda c: step(c, good(c)),
    "refused": lambda c: step(c, good(c), cut=REFUSED),
    "zeros": lambda c: step(c, good(c, number=0)),
    "absent": lambda c: step(c, absent(c)) if c.given else b"",
    "strange": one_strange,
    "large": lambda c: step(c, [], seed=7),
    "short": lambda c: step(c, good(c), cut=CUT),
    "structures": lambda c: step(c, structures(c, False)) if c.structs else b"",
    "structures-last": lambda c: step(c, structures(c, True)) if c.structs else b"",
}


def packed(frames) -> list[bytes]:
    """As few inputs as hold them all."""
    seeds: list[bytes] = []
    for frame in filter(None, frames):
        if not seeds or len(seeds[-1]) + len(frame) > SIZE_MAX:
            seeds.append(b"")
        seeds[-1] += frame
    return seeds


def main() -> int:
    """Write the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HERE / "seeds-fuzz_dispatch")
    into = parser.parse_args().into
    codecs = codec.Codecs(parse.load(PROTO / "api"), abi.load(PROTO))
    layouts = sorted((Layout(codecs, body) for body in codecs.req.values()),
                     key=lambda c: (c.ends, c.call.number))
    into.mkdir(exist_ok=True)
    for family in sorted({c.call.family for c in layouts}):
        for way, frames in WAYS.items():
            for part, seed in enumerate(packed(frames(c) for c in layouts
                                               if c.call.family == family)):
                (into / f"{family}-{way}-{part}").write_bytes(seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
