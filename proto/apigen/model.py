# SPDX-License-Identifier: Apache-2.0
"""What an API description says, as plain data.

One Call per entry of proto/api, one Param per line of it.  Nothing here knows C
beyond the names of types; see ctypes_.py for those.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class ApiError(Exception):
    """A description that cannot be: names the file and the line."""


@dataclass(frozen=True)
class Type:
    """The type of a parameter, by its word in the description.

    word   -- "u32", "stream", "enum", "flags", "struct", "array", "bytes", ...
    name   -- the enumeration, structure, callback or borrowed element named after it
    elem   -- element type of an array
    count  -- expression in brackets: a parameter's name, a number, or name-number
    """

    word: str
    name: str = ""
    elem: "Type | None" = None
    count: str = ""


@dataclass
class Param:
    """One line: direction, name, type and what else is known about it."""

    dir: str  # in, out, inout, send, recv
    name: str
    type: Type
    life: str = ""  # new, find, del
    max: int = 0
    most: bool = False  # more than max is the program's mistake, not ours
    optional: bool = False
    nonconst: bool = False
    const: bool = False
    client: bool = False  # never on the wire
    by_value: bool = False
    bulk: bool = False
    shared: bool = False  # what becomes of it may interest another process

    @property
    def wire_only(self) -> bool:
        """Is it a field of the frame without being a parameter of the function?"""
        return self.dir in ("send", "recv")

    @property
    def goes(self) -> bool:
        """Does the request carry it?"""
        return not self.client and self.dir in ("in", "inout", "send")

    @property
    def comes(self) -> bool:
        """Does the answer carry it?"""
        return not self.client and self.dir in ("out", "inout", "recv")


@dataclass
class Call:
    """One function of the driver, or one internal message."""

    number: int
    name: str
    file: str
    line: int
    family: str
    since: int = 0
    reply: str = ""  # none, sync, wait
    always: bool = False
    no_context: bool = False
    on_error: bool = False  # outputs are delivered with a failing result too
    client: str = "generated"  # generated, manual, local
    server: str = "generated"  # generated, manual
    quick: bool = False  # stub_fast_<call>() is what is exported, mostly
    why_client: str = ""
    why_server: str = ""
    via: str = ""
    alias: str = ""
    refused: str = ""
    uncarried: str = ""
    hot: bool = False  # its code lies with what every call runs
    outside: bool = False  # not among the names of the toolkit's library
    internal: bool = False
    links: str = ""  # which server of several: "" by arguments, here, cross
    home: bool = False  # managed memory, which is everywhere, is its owner's
    twin: str = ""  # ptsz or ptds
    twin_since: int = 0
    twin_as: str = ""
    params: list[Param] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Can a client body be generated, whatever the hand adds to it?"""
        fields = ("host", "pointers", "table", "callback", "borrowed")
        return self.on_wire and not any(
            p.wire_only or p.client or p.bulk or p.type.word in fields
            for p in self.params
        )

    @property
    def where(self) -> str:
        """The place that generated text names."""
        return f"{self.file}:{self.line}"

    @property
    def args(self) -> list[Param]:
        """The C function's parameters, in order."""
        return [p for p in self.params if not p.wire_only]

    @property
    def on_wire(self) -> bool:
        """Has the call a frame of its own?"""
        return not (
            self.refused
            or self.uncarried
            or self.alias
            or self.via
            or self.client == "local"
        )

    @property
    def stem(self) -> str:
        """The name without the suffix that tells its variants apart."""
        head, sep, tail = self.name.rpartition("_v")
        return head if sep and tail.isdigit() else self.name

    def param(self, name: str) -> Param | None:
        """The parameter called name."""
        return next((p for p in self.params if p.name == name), None)


@dataclass(frozen=True)
class Rule:
    """What one field of a structure holds (proto/api/structs.api)."""

    kind: str  # handle, array, device, zero, raw, manual, union, known
    field: str
    handle: str = ""
    when_field: str = ""
    when_value: str = ""
    elem: Type | None = None
    max: int = 0
    most: bool = False  # as in Param


@dataclass
class Api:
    """The whole description."""

    calls: list[Call] = field(default_factory=list)
    rules: dict[str, list[Rule]] = field(default_factory=dict)
    sizes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def call(self, name: str) -> Call:
        """The call of that name."""
        for c in self.calls:
            if c.name == name:
                return c
        raise ApiError(f"no call named {name}")

    @property
    def families(self) -> list[str]:
        """Names of the files, in the order of their numbers."""
        seen: dict[str, int] = {}
        for c in self.calls:
            seen.setdefault(c.family, c.number)
        return sorted(seen, key=lambda f: seen[f])
