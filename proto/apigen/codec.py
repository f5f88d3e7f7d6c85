# SPDX-License-Identifier: Apache-2.0
"""Frames of a call: fixed struct, variable parts, the C that reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .abi import Abi
from .ctypes_ import is_scalar, wire_bytes, wire_type
from .emit import Output, Text
from .model import Api, ApiError, Call, Param, Rule, Type


@dataclass
class Fixed:
    """A field of the fixed struct; words > 0 is the image of a structure."""

    name: str
    ctype: str
    words: int = 0

    @property
    def size(self) -> int:
        if self.words:
            return 8 * self.words
        return 8 if self.ctype == "uint64_t" else 4

    def declaration(self) -> str:
        if self.words:
            return f"uint64_t {self.name}[{self.words}];"
        return f"{self.ctype} {self.name};"


@dataclass
class Part:
    """A variable part: count is a C expression over the fixed struct f."""

    name: str
    ctype: str
    count: str
    max: int
    string: bool = False
    bulk: bool = False
    given: str = ""  # present only if this bit is set


@dataclass
class Body:
    """One direction of a call."""

    call: Call
    side: str  # req or rep
    fixed: list[Fixed] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    bulk_len: str = ""

    @property
    def name(self) -> str:
        return f"wire_{self.call.name}_{self.side}"

    @property
    def bulk(self) -> Part | None:
        return next((p for p in self.parts if p.bulk), None)

    def bit(self, name: str) -> str:
        """The bit of the given field that stands for name."""
        return f"{1 << self.given.index(name)}u"

    def has(self, name: str) -> bool:
        return any(f.name == name for f in self.fixed)

    def size(self) -> int:
        return sum(f.size for f in self.fixed)


def struct_rules(api: Api, abi: Abi, name: str) -> list[Rule]:
    """What is known of a structure's fields, under any of its names."""
    for known, rules in api.rules.items():
        if abi.base(known) == abi.base(name):
            return rules
    return []


class Builder:
    """Lays out the two bodies of a call."""

    def __init__(self, api: Api, abi: Abi) -> None:
        self.api = api
        self.abi = abi

    def body(self, call: Call, side: str) -> Body:
        body = Body(call, side)
        autos: list[Fixed] = []
        for p in call.params:
            if side == "req":
                self._request(body, p, autos)
            else:
                self._reply(body, p, autos)
        self._order(body, autos)
        return body

    def _request(self, body: Body, p: Param, autos: list[Fixed]) -> None:
        if p.client:
            return
        t = p.type
        if p.dir == "out":
            if p.life == "new" and t.word != "array":
                body.fixed.append(Fixed(p.name, "uint64_t"))
            elif p.optional and t.word in ("array", "text", "bytes"):
                body.given.append(p.name)
            return
        if p.dir == "recv":
            return
        if p.optional:
            body.given.append(p.name)
        bit = body.bit(p.name) if p.optional else ""
        if is_scalar(t):
            body.fixed.append(Fixed(p.name, wire_type(t)))
        elif t.word == "sized":
            body.fixed.append(Fixed(p.name, "uint64_t"))
        elif t.count.isdigit():
            body.fixed.append(self._image(p))
        elif t.word == "struct":
            self._struct(body, p, bit)
        elif t.word == "string":
            autos.append(Fixed(p.name + "_len", "uint32_t"))
            count = f"f->{p.name}_len"
            body.parts.append(Part(p.name, "char", count, p.max, string=True))
        elif t.word in ("array", "bytes"):
            self._part(body, p, autos, bit, reply=False)
        else:
            raise ApiError(f"{body.call.where}: {p.name}: {t.word} cannot travel")

    def _reply(self, body: Body, p: Param, autos: list[Fixed]) -> None:
        if not p.comes or (p.life == "new" and p.type.word != "array"):
            return
        t = p.type
        if is_scalar(t):
            body.fixed.append(Fixed(p.name, wire_type(t)))
        elif t.word == "sized":
            body.fixed.append(Fixed(p.name, "uint64_t"))
        elif t.word == "struct" or t.count.isdigit():
            body.fixed.append(self._image(p))
        elif t.word in ("array", "bytes", "text"):
            self._part(body, p, autos, "", reply=True)
        elif t.word == "name":
            autos.append(Fixed(p.name + "_len", "uint32_t"))
            body.parts.append(
                Part(p.name, "char", f"f->{p.name}_len", 32768, string=True)
            )
        else:
            raise ApiError(f"{body.call.where}: {p.name}: {t.word} cannot come back")

    def _image(self, p: Param) -> Fixed:
        """A structure, or an array of constant length, copied as it lies in memory."""
        t = p.type
        if t.word == "struct":
            size, _ = self.abi.size_align(t.name)
        else:
            size = int(t.count) * (wire_bytes(t.elem) if t.elem else 1)
        return Fixed(p.name, "", words=(size + 7) // 8)

    def _struct(self, body: Body, p: Param, bit: str) -> None:
        body.fixed.append(self._image(p))
        for r in struct_rules(self.api, self.abi, p.type.name):
            if r.kind != "array":
                continue
            assert r.elem
            image = f"((const {p.type.name} *)f->{p.name})"
            body.parts.append(
                Part(
                    f"{p.name}_{r.field}",
                    r.elem.name,
                    f"(uint64_t){image}->{r.elem.count}",
                    r.max,
                    given=bit,
                )
            )

    def _part(
        self, body: Body, p: Param, autos: list[Fixed], bit: str, reply: bool
    ) -> None:
        t = p.type
        elem = (
            wire_type(t.elem) if t.elem else ("char" if t.word == "text" else "uint8_t")
        )
        name, _, minus = t.count.partition("-")
        limit = p.max
        known = body.call.param(name)
        if reply and known:
            name = p.name + "_n"
        on_wire = known and known.goes and not reply
        if p.bulk:
            body.bulk_len = name
            if not on_wire:
                autos.append(Fixed(name, "uint64_t"))
        elif not on_wire and not any(a.name == name for a in autos):
            autos.append(Fixed(name, "uint32_t"))
        count = f"(uint64_t)f->{name}"
        if minus and not reply:
            count = f"(uint64_t)(f->{name} > {minus} ? f->{name} - {minus} : 0)"
        body.parts.append(Part(p.name, elem, count, limit, bulk=p.bulk, given=bit))

    def _order(self, body: Body, autos: list[Fixed]) -> None:
        """Wide fields first, then narrow ones, padding, and the bulk length last."""
        every = body.fixed + autos
        if body.given:
            every.append(Fixed("given", "uint32_t"))
        last = [f for f in every if f.name == body.bulk_len]
        wide = [f for f in every if f.size >= 8 and f not in last]
        narrow = [f for f in every if f.size == 4]
        if len(narrow) % 2:
            narrow.append(Fixed("zero", "uint32_t"))
        for f in last:
            f.ctype = "uint64_t"
        body.fixed = wide + narrow + last


class Codecs:
    """Bodies of all calls, made once."""

    def __init__(self, api: Api, abi: Abi) -> None:
        self.api = api
        self.abi = abi
        build = Builder(api, abi)
        self.req: dict[str, Body] = {}
        self.rep: dict[str, Body] = {}
        for c in api.calls:
            if c.on_wire:
                self.req[c.name] = build.body(c, "req")
                self.rep[c.name] = build.body(c, "rep")


def _emit_fixed(t: Text, body: Body) -> None:
    if not body.fixed:
        return
    t(f"struct {body.name} {{")
    t(*(f"    {f.declaration()}" for f in body.fixed))
    t("};")
    t(f'static_assert(sizeof(struct {body.name}) == {body.size()}, "wire layout");', "")


def _emit_view(t: Text, body: Body) -> None:
    """The struct that a decoder fills and the one an encoder writes through."""
    t(f"struct {body.name}_view {{")
    if body.fixed:
        t(f"    const struct {body.name} *f;")
    t(*(f"    const {p.ctype} *{p.name};" for p in body.parts))
    if not body.fixed and not body.parts:
        t("    char nothing;")
    t("};", "")


def count_of(p: Part) -> str:
    """How many elements a part has, its presence considered."""
    return f"(f->given & {p.given} ? {p.count} : 0)" if p.given else p.count


def part_max(p: Part) -> str:
    """The cap of a part, as a C expression."""
    return str(p.max) if p.max else "WIRE_BODY_MAX"


def _emit_open(t: Text, body: Body) -> None:
    """The decoder: true when the body is exactly what the description says."""
    t(
        "static inline bool",
        f"{body.name}_open(struct {body.name}_view *v, const void *body, size_t size,",
        "    unsigned flags)",
        "{",
    )
    if not body.fixed:
        t("    (void)v, (void)body;")
        t("    return size == 0 && !(flags & WIRE_F_BULK);", "}", "")
        return
    t(f"    const struct {body.name} *f = body;")
    if body.parts:
        t("    uint64_t at = sizeof(*f);", "    const void *part;")
    t("")
    if not body.bulk:
        t("    if (flags & WIRE_F_BULK)", "        return false;")
    same = "!=" if not body.parts else "<"
    t(f"    if (size {same} sizeof(*f))", "        return false;", "    v->f = f;")
    for p in body.parts:
        _emit_part_open(t, body, p)
    t("    return at == size;" if body.parts else "    return true;", "}", "")


def _emit_part_open(t: Text, body: Body, p: Part) -> None:
    elem = "1" if p.ctype in ("char", "uint8_t") else f"sizeof({p.ctype})"
    count = count_of(p)
    if p.bulk:
        limit = str(p.max) if p.max else "WIRE_BULK_MAX"
        t(f"    if (f->{body.bulk_len} > {limit})", "        return false;")
        count = f"(flags & WIRE_F_BULK ? 0 : f->{body.bulk_len})"
    t(
        f"    if (!wire_part_open(body, size, &at, {count}, {elem}, {part_max(p)},",
        "                        &part))",
        "        return false;",
        f"    v->{p.name} = part;",
    )
    if p.string:
        t(
            f"    if (!wire_string_ok(v->{p.name}, {p.count}))",
            "        return false;",
        )


def _emit_size_and_room(t: Text, body: Body) -> None:
    """For encoders: how long the body gets, and where its parts go."""
    if not body.parts:
        return
    bulk = ", bool bulk" if body.bulk else ""
    t(f"/* Bytes of the body, 0 when a part passes its cap or all of it a frame. */")
    t("static inline uint32_t")
    t(f"{body.name}_size(const struct {body.name} *f{bulk})", "{")
    t("    uint64_t size = sizeof(*f);", "")
    for p in body.parts:
        elem = "1" if p.ctype in ("char", "uint8_t") else f"sizeof({p.ctype})"
        count = f"bulk ? 0 : {count_of(p)}" if p.bulk else count_of(p)
        t(f"    size += wire_part_size({count}, {elem}, {part_max(p)});")
    t("    return size > WIRE_BODY_MAX ? 0 : (uint32_t)size;", "}", "")

    t(f"struct {body.name}_room {{")
    t(*(f"    {p.ctype} *{p.name};" for p in body.parts), "};", "")
    t("/* Places of the parts behind a fixed struct that is already filled in. */")
    t("static inline void")
    t(f"{body.name}_place(struct {body.name}_room *room, void *body{bulk})", "{")
    t(f"    const struct {body.name} *f = body;", "    uint64_t at = sizeof(*f);", "")
    for p in body.parts:
        elem = "1" if p.ctype in ("char", "uint8_t") else f"sizeof({p.ctype})"
        count = f"bulk ? 0 : {count_of(p)}" if p.bulk else count_of(p)
        t(f"    room->{p.name} = wire_part_room(body, &at, {count}, {elem});")
    t("    (void)at;", "}", "")


def emit_call(t: Text, codecs: Codecs, call: Call) -> None:
    """Both bodies of one call."""
    t(f"/* {call.name}: {call.where} */")
    for body in (codecs.req[call.name], codecs.rep[call.name]):
        for name in body.given:
            if body.side == "req":
                t(f"#define WIRE_GIVEN_{call.name}_{name} {body.bit(name)}")
        _emit_fixed(t, body)
        _emit_view(t, body)
        _emit_open(t, body)
        _emit_size_and_room(t, body)


def emit(out: Output, codecs: Codecs) -> None:
    """wire_<family>.h for every family, and wire_api.h that gathers them."""
    api = codecs.api
    whole = Text()
    whole("/* Numbers of the calls, for ever. */", "enum wire_call {")
    for c in api.calls:
        whole(f"    WIRE_CALL_{c.name} = {c.number:#06x},")
    whole("};", "")
    for family in api.families:
        calls = [c for c in api.calls if c.family == family and c.on_wire]
        if not calls:
            continue
        t = Text()
        t('#include "cuda_abi.h"', '#include "wire_codec.h"', "")
        for c in calls:
            emit_call(t, codecs, c)
        out.c_file(f"wire_{family}.h", f"Frames of the family {family}.", t)
        whole(f'#include "wire_{family}.h"')
    out.c_file("wire_api.h", "Frames of every call.", whole)
