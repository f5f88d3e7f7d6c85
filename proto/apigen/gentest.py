# SPDX-License-Identifier: Apache-2.0
"""Tests of every codec: round trip, truncation at every byte, random mutation."""

from __future__ import annotations

from .codec import Body, Codecs, Part, count_of
from .emit import Output, Text


def _fixture(t: Text, body: Body) -> None:
    """Fill a fixed struct so that every part has some elements."""
    t(f"    memset(f, 0, sizeof(*f));")
    for f in body.fixed:
        if f.words:
            t(f"    memset(f->{f.name}, 0, sizeof(f->{f.name}));")
        elif f.ctype == "float":
            t(f"    f->{f.name} = 1.5f;")
        else:
            t(f"    f->{f.name} = ({f.ctype})codec_test_number(seed++);")
    if body.given:
        t(f"    f->given = {(1 << len(body.given)) - 1};")
    if body.has("zero"):
        t("    f->zero = 0;")
    for p in body.parts:
        lengths = [
            f.name for f in body.fixed if f"f->{f.name}" in p.count and not f.words
        ]
        small = 5 if not p.max else min(3, p.max)
        for name in lengths:
            t(f"    f->{name} = {small};")
        for f in body.fixed:
            if f.words and f"f->{f.name})" in p.count:
                t(
                    f"    {p.count.removeprefix('(uint64_t)')} = 2;".replace(
                        "const ", ""
                    )
                )


def _case(t: Text, body: Body) -> None:
    name = body.name
    t(f"/* {name}: {body.call.where} */", "static uint32_t")
    t(f"make_{name}(void *body, uint32_t seed)", "{")
    if not body.fixed:
        t("    (void)body, (void)seed;", "    return 0;", "}", "")
    else:
        t(f"    struct {name} *f = body;")
        if body.parts:
            t(f"    struct {name}_room room;", "    uint32_t size;")
        t("")
        _fixture(t, body)
        if body.parts:
            bulk = ", false" if body.bulk else ""
            t(
                f"    size = {name}_size(f{bulk});",
                f"    {name}_place(&room, body{bulk});",
            )
            for p in body.parts:
                elem = f"sizeof({p.ctype})"
                t(
                    f"    codec_test_fill(room.{p.name}, {p.count}, {elem}, {int(p.string)});"
                )
            t("    return size;", "}", "")
        else:
            t("    return sizeof(*f);", "}", "")
    t("static bool", f"open_{name}(const void *body, size_t size)", "{")
    t(f"    struct {name}_view v;", "")
    t(f"    if (!{name}_open(&v, body, size, 0))", "        return false;")
    for p in body.parts:
        t(f"    codec_test_read(v.{p.name}, {_count(p)}, sizeof({p.ctype}));")
    t("    return true;", "}", "")


def _count(p: Part) -> str:
    return count_of(p).replace("f->", "v.f->")


def emit(out: Output, codecs: Codecs) -> None:
    """test_codec_calls.c: the table that tests/unit/proto/test_codec.c runs through."""
    t = Text()
    t('#include "test_codec.h"', '#include "wire_api.h"', "", "#include <string.h>", "")
    bodies: list[Body] = []
    for c in codecs.api.calls:
        if c.on_wire:
            bodies += [codecs.req[c.name], codecs.rep[c.name]]
    for body in bodies:
        _case(t, body)
    t("const struct codec_test codec_tests[] = {")
    t("    /* name, call, is it a request, writer, reader */")
    for b in bodies:
        request = str(b.side == "req").lower()
        t(
            f'    {{"{b.name}", {b.call.number:#06x}, {request}, make_{b.name}, open_{b.name}}},'
        )
    t("};")
    t("const unsigned codec_test_count = sizeof(codec_tests) / sizeof(codec_tests[0]);")
    out.c_file("test_codec_calls.c", "Cases of every codec.", t)
