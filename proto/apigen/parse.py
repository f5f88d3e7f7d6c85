# SPDX-License-Identifier: Apache-2.0
"""Reader of proto/api/*.api: lines in, model out, every doubt an error."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from .ctypes_ import HANDLES, SCALARS
from .model import Api, ApiError, Call, Param, Rule, Type

# The words of the language.  docs/api-description.md explains each, which `make lint` checks.
LINES = ("since", "ptsz", "ptds", "reply", "context", "outputs", "client", "server", "why",
         "via", "as", "refused", "uncarried", "links", "internal", "hot", "outside")
DIRECTIONS = ("in", "out", "inout", "send", "recv")
LIFE_WORDS = ("new", "find", "del")
FLAG_WORDS = ("optional", "nonconst", "const", "client", "bulk", "shared")
VALUE_WORDS = ("max", "most")  # with a number
NAMED_TYPES = ("enum", "struct", "flags", "flags64", "callback", "borrowed")
POINTER_WORDS = ("host", "address", "pointers", "table", "name", "string")
COUNTED_TYPES = ("bytes", "text", "sized")
DEFAULT_MAX = {"string": 32768, "text": 4096}


class Place:
    """Where the reader is, for messages."""

    def __init__(self, path: Path) -> None:
        self.file = f"proto/api/{path.name}"
        self.line = 0

    def error(self, text: str) -> ApiError:
        return ApiError(f"{self.file}:{self.line}: {text}")


def parse_version(text: str) -> int:
    """12.4 as the driver counts it: 12040."""
    major, _, minor = text.partition(".")
    return int(major) * 1000 + int(minor or 0) * 10


def _bracket(word: str) -> tuple[str, str]:
    """Split text[len] into its two parts."""
    m = re.fullmatch(r"(\w+)\[([\w-]*)\]", word)
    return (m[1], m[2]) if m else (word, "")


def parse_type(words: list[str], at: Place) -> Type:
    """Take a type off the front of words."""
    first = words.pop(0)
    base, count = _bracket(first)
    if base == "array":
        elem = parse_type(words, at)
        if not elem.count:
            raise at.error("an array needs [count]")
        return Type("array", elem=Type(elem.word, elem.name), count=elem.count)
    if base in NAMED_TYPES:
        name, count = _bracket(words.pop(0))
        return Type(base, name=name, count=count)
    known = (
        base in SCALARS
        or base in HANDLES
        or base in POINTER_WORDS
        or base in COUNTED_TYPES
    )
    if not known:
        raise at.error(f"unknown type {first}")
    return Type(base, count=count)


def parse_param(words: list[str], at: Place) -> Param:
    """One parameter line."""
    if len(words) < 3:
        raise at.error("a parameter is: direction name type")
    direction, name, *rest = words
    p = Param(direction, name, parse_type(rest, at))
    p.max = DEFAULT_MAX.get(p.type.word, 0)
    while rest:
        word = rest.pop(0)
        if word in LIFE_WORDS:
            p.life = word
        elif word in FLAG_WORDS:
            setattr(p, word, True)
        elif word == "by" and rest[:1] == ["value"]:
            rest.pop(0)
            p.by_value = True
        elif word.partition("=")[0] in VALUE_WORDS and "=" in word:
            name, _, number = word.partition("=")
            p.max, p.most = int(number, 0), name == "most"
        else:
            raise at.error(f"unknown word {word}")
    if p.type.word == "array" and not p.max:
        if not p.type.count.isdigit():
            raise at.error(f"{p.name}: an array needs max=")
        p.max = int(p.type.count)
    return p


class CallReader:
    """Fills one Call from the lines below its head."""

    def __init__(self, call: Call, at: Place) -> None:
        self.call = call
        self.at = at
        self.sides: list[str] = []

    def line(self, words: list[str]) -> None:
        word, rest, c = words[0], words[1:], self.call
        if word in DIRECTIONS:
            c.params.append(parse_param(words, self.at))
        elif word not in LINES:
            raise self.at.error(f"unknown line {word}")
        elif word == "since":
            c.since = parse_version(rest[0])
        elif word in ("ptsz", "ptds"):
            c.twin, c.twin_since = word, parse_version(rest[0])
            if rest[1:2] == ["as"]:
                c.twin_as = rest[2]
        elif word == "reply":
            self._reply(rest)
        elif word == "context" and rest == ["none"]:
            c.no_context = True
        elif word == "outputs" and rest == ["on-error"]:
            c.on_error = True
        elif word == "links" and rest and set(rest) < {"here", "home", "cross"}:
            c.home = "home" in rest
            c.links = rest[0] if rest[0] != "home" else ""
        elif word in ("client", "server"):
            self._side(word, rest[0])
            c.quick = c.quick or rest == ["manual", "quick"]
        elif word == "why":
            self._why(rest[0])
        elif word in ("refused", "uncarried", "via"):
            setattr(c, word, rest[0])
        elif word == "as":
            c.alias = rest[0]
        elif word in ("internal", "outside", "hot"):
            setattr(c, word, True)
        else:
            raise self.at.error(f"{word} {' '.join(rest)}?")

    def _reply(self, rest: list[str]) -> None:
        if rest[0] not in ("none", "sync", "wait"):
            raise self.at.error("reply is none, sync or wait")
        self.call.reply = rest[0]
        self.call.always = rest[1:] == ["always"]

    def _side(self, side: str, how: str) -> None:
        if how not in ("manual", "local") or (side, how) == ("server", "local"):
            raise self.at.error(f"{side} {how}?")
        setattr(self.call, side, how)
        self.sides.append(side)

    def _why(self, text: str) -> None:
        """The reason belongs to the sides named since the last reason."""
        if not self.sides:
            raise self.at.error("why what?")
        for side in self.sides:
            setattr(self.call, f"why_{side}", text)
        self.sides = []

    def finish(self) -> Call:
        c = self.call
        if c.on_wire and not c.reply:
            raise self.at.error(f"{c.name}: no reply line")
        if "manual" in (c.client, c.server) or c.client == "local":
            for side in ("client", "server"):
                if getattr(c, side) != "generated" and not getattr(c, f"why_{side}"):
                    raise self.at.error(f"{c.name}: {side} by hand needs a why")
        return c


def parse_rule(words: list[str], at: Place) -> Rule:
    """One line of a struct block."""
    kind, name, *rest = words
    if kind in ("handle", "device"):
        handle = rest.pop(0) if kind == "handle" else ""
        when = rest[1].split("=") if rest[:1] == ["when"] else ["", ""]
        return Rule(kind, name, handle=handle, when_field=when[0], when_value=when[1])
    if kind == "array":
        t = parse_type(rest, at)
        word, _, limit = next(w for w in rest if w.startswith(("max=", "most="))).partition("=")
        return Rule(kind, name, elem=t, max=int(limit), most=word == "most")
    if kind == "zero" and rest[:1] == ["when"]:
        when_field, _, when_value = rest[1].partition("=")
        return Rule(kind, name, when_field=when_field, when_value=when_value)
    if kind in ("zero", "raw", "manual", "union"):
        return Rule(kind, name)
    if kind == "known":
        return Rule(kind, name, when_value=rest[0])
    raise at.error(f"unknown rule {kind}")


def parse_file(path: Path, api: Api) -> None:
    """Add what one file says to api."""
    at = Place(path)
    reader: CallReader | None = None
    block: tuple[str, str] | None = None
    for at.line, text in enumerate(path.read_text().splitlines(), 1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        words = shlex.split(text)
        if not text.startswith(" "):
            if reader:
                api.calls.append(reader.finish())
            reader, block = None, None
            if words[0] == "call":
                call = Call(int(words[1], 0), words[2], at.file, at.line, path.stem)
                reader = CallReader(call, at)
            elif words[0] in ("struct", "sizes"):
                block = (words[0], words[1])
            else:
                raise at.error(f"unknown block {words[0]}")
        elif reader:
            reader.line(words)
        elif block and block[0] == "struct":
            api.rules.setdefault(block[1], []).append(parse_rule(words, at))
        elif block:
            api.sizes.setdefault(block[1], []).append((words[1], int(words[0])))
        else:
            raise at.error("a line outside any block")
    if reader:
        api.calls.append(reader.finish())


def check_call(c: Call) -> None:
    """What one call may not say."""
    for p in c.params:
        where = f"{c.where}: {c.name}: {p.name}"
        if p.life in ("new", "del") and p.type.word not in HANDLES:
            raise ApiError(f"{where}: only a handle is new or del")
        if p.life == "new" and p.dir != "out":
            raise ApiError(f"{where}: a new handle is an output")
        if p.life == "del" and p.dir != "in":
            raise ApiError(f"{where}: a handle to delete is an input")
        if c.on_wire and c.reply == "none" and p.comes and p.life != "new":
            raise ApiError(f"{where}: an output needs an answer: reply sync")
        name = p.type.count.partition("-")[0]
        by_hand = p.wire_only or p.bulk or c.client == "manual"
        if name and not name.isdigit() and not c.param(name) and not by_hand:
            raise ApiError(f"{where}: no parameter {name} says how many")
    if c.on_wire and c.reply == "wait" and c.server == "generated":
        raise ApiError(f"{c.where}: {c.name}: what waits needs a server by hand")


def check(api: Api) -> None:
    """What only the whole can tell: numbers, names, aliases."""
    numbers: dict[int, Call] = {}
    names: dict[str, Call] = {}
    for c in api.calls:
        if c.number in numbers:
            other = numbers[c.number]
            raise ApiError(f"{c.where}: number {c.number:#06x} is {other.name}'s")
        if c.name in names:
            raise ApiError(f"{c.where}: {c.name} is also at {names[c.name].where}")
        numbers[c.number] = names[c.name] = c
    for c in api.calls:
        check_call(c)
        for other_name in (c.alias, c.via, c.twin_as):
            if other_name and other_name not in names:
                raise ApiError(f"{c.where}: {c.name} names unknown {other_name}")


def load(folder: Path) -> Api:
    """Read every description in folder."""
    api = Api()
    for path in sorted(folder.glob("*.api")):
        parse_file(path, api)
    api.calls.sort(key=lambda c: c.number)
    check(api)
    return api
