# SPDX-License-Identifier: Apache-2.0
"""Reader of proto/cuda_abi_*.h: values of enumerations, layout of structures.

Those headers are ours and regular (one enumerator, one field per line), so a few
patterns suffice; what does not fit is an error, never skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from .model import ApiError

FILES = (
    "cuda_abi_types.h",
    "cuda_abi_result.h",
    "cuda_abi_attr.h",
    "cuda_abi_enum.h",
    "cuda_abi_struct.h",
    "cuda_abi_graph.h",
    "cuda_abi.h",
)

BASIC = {
    "char": 1,
    "unsigned char": 1,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "float": 4,
    "long long": 8,
    "unsigned long long": 8,
    "size_t": 8,
    "uint32_t": 4,
    "uint64_t": 8,
}


@dataclass
class Field:
    """One member: type is a name, or a Struct when declared in place."""

    name: str
    type: "str | Struct"
    pointer: bool = False
    count: int = 1
    offset: int = 0


@dataclass
class Struct:
    """A structure or union with its computed layout (LP64)."""

    name: str
    union: bool
    fields: list[Field] = field(default_factory=list)
    size: int = 0
    align: int = 1


@dataclass
class Abi:
    """Everything the headers declare that the generator needs."""

    enums: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    alias: dict[str, str] = field(default_factory=dict)
    pointers: set[str] = field(default_factory=set)
    constants: dict[str, str] = field(default_factory=dict)

    def base(self, name: str) -> str:
        """Follow typedefs to the end."""
        while name in self.alias:
            name = self.alias[name]
        return name

    def enumerator(self, name: str) -> int:
        """The value behind an enumerator's name."""
        for values in self.enums.values():
            for n, v in values:
                if n == name:
                    return v
        raise ApiError(f"no enumerator {name}")

    def struct(self, name: str) -> Struct:
        """A structure under any of its names."""
        base = self.base(name)
        if base not in self.structs:
            raise ApiError(f"no structure {name} in cuda_abi_struct.h")
        return self.structs[base]

    def size_align(self, name: str) -> tuple[int, int]:
        """Size and alignment of a type by name."""
        base = self.base(name)
        if base in self.pointers:
            return 8, 8
        if base in self.enums:
            return 4, 4
        if base in self.structs:
            s = self.structs[base]
            return s.size, s.align
        if base in BASIC:
            return BASIC[base], BASIC[base]
        raise ApiError(f"unknown type {name} in a structure")


def _lay_out(abi: Abi, s: Struct) -> None:
    """Compute offsets, size and alignment of s."""
    end = 0
    for f in s.fields:
        if f.pointer:
            size, align = 8, 8
        elif isinstance(f.type, Struct):
            size, align = f.type.size, f.type.align
        else:
            size, align = abi.size_align(f.type)
        if f.name == "opaque" and f.count == 16:
            align = 128  # the one over-aligned field: CUtensorMap
        f.offset = 0 if s.union else (end + align - 1) // align * align
        end = max(end, f.offset + size * f.count)
        s.align = max(s.align, align)
    s.size = (end + s.align - 1) // s.align * s.align


_FIELD = re.compile(
    r"(?:_Alignas\(\d+\) )?(?:const )?((?:unsigned |long )*\w+) (\**)(\w+)(?:\[(\d+)\])?;"
)


def _parse_struct(
    abi: Abi, lines: list[str], pos: int, union: bool
) -> tuple[Struct, int]:
    """Members up to the closing brace; pos is past it afterwards."""
    s = Struct("", union)
    while True:
        line = lines[pos].strip()
        pos += 1
        if line in ("struct {", "union {"):
            inner, pos = _parse_struct(abi, lines, pos, line == "union {")
            s.fields.append(Field(inner.name, inner))
        elif line.startswith("}"):
            s.name = line[1:].strip().rstrip(";")
            _lay_out(abi, s)
            return s, pos
        else:
            m = _FIELD.fullmatch(line)
            if not m:
                raise ApiError(f"cannot read field: {line}")
            s.fields.append(Field(m[3], m[1], bool(m[2]), int(m[4] or 1)))


def _parse_enum(lines: list[str], pos: int) -> tuple[str, list[tuple[str, int]], int]:
    values: list[tuple[str, int]] = []
    while not lines[pos].startswith("}"):
        m = re.fullmatch(r"\s+(\w+) = (-?\w+),", lines[pos])
        if not m:
            raise ApiError(f"cannot read enumerator: {lines[pos]}")
        values.append((m[1], int(m[2], 0)))
        pos += 1
    return lines[pos][1:].strip().rstrip(";"), values, pos + 1


def _typedef(abi: Abi, line: str) -> None:
    m = re.fullmatch(r"typedef struct \w+ \*(\w+);", line)
    if m:
        abi.pointers.add(m[1])
        return
    m = re.fullmatch(r"typedef \w+ \(\*(\w+)\)\(.*", line)
    if m:
        abi.pointers.add(m[1])
        return
    m = re.fullmatch(r"typedef ([\w ]+?) (\w+);", line)
    if not m:
        raise ApiError(f"cannot read: {line}")
    abi.alias[m[2]] = m[1]


def _logical_lines(text: str) -> list[str]:
    """Lines with broken typedefs and continued macros put together."""
    joined: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if joined and joined[-1].startswith("typedef ") and joined[-1][-1] not in ";{":
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    return joined


def load(folder: Path) -> Abi:
    """Read the headers in folder."""
    abi = Abi()
    for name in FILES:
        lines = _logical_lines((folder / name).read_text())
        pos = 0
        while pos < len(lines):
            line = lines[pos]
            pos += 1
            if line in ("typedef struct {", "typedef union {"):
                s, pos = _parse_struct(abi, lines, pos, "union" in line)
                abi.structs[s.name] = s
            elif line == "typedef enum {":
                enum, values, pos = _parse_enum(lines, pos)
                abi.enums[enum] = values
            elif line.startswith("typedef "):
                _typedef(abi, line)
            elif line.startswith("#define ") and len(line.split(None, 2)) == 3:
                _, macro, value = line.split(None, 2)
                abi.constants[macro] = value
    return abi
