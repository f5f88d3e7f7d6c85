# SPDX-License-Identifier: Apache-2.0
"""Tables of names: arguments of calls, values of enumerations, results."""

from __future__ import annotations

from .abi import BASIC, Abi, Struct
from .ctypes_ import SCALARS, c_type
from .emit import Output, Text
from .model import Api, Call, Param


def arg_kind(p: Param) -> str:
    """How an argument is printed."""
    t, pointer = p.type, c_type(p).endswith("*")
    if t.word == "string":
        return "STRING"
    prefix = "OUT_" if p.dir in ("out", "inout") else ""
    if t.word == "struct":
        return "OUT_STRUCT" if p.dir == "out" else "STRUCT"
    if t.word in ("func", "kernel") and not prefix:
        return "FUNC"
    if prefix and t.word in ("array", "bytes", "text", "sized", "name"):
        return "POINTER"
    if t.word in ("enum", "flags", "flags64"):
        wide = "64" if t.word == "flags64" else ""
        return prefix + ("ENUM" if t.word == "enum" else "FLAGS" + wide)
    if t.word in SCALARS and (prefix or not pointer):
        if t.word == "f32":
            return prefix + "F32"
        if t.word in ("devptr", "devptr32"):
            return prefix + ("HEX64" if t.word == "devptr" else "HEX32")
        size = 4 if t.word in ("device", "i32") else SCALARS[t.word][1]
        if t.word in ("u8", "u16"):
            return "U32"
        return prefix + ("I32" if SCALARS[t.word][2] else f"U{8 * size}")
    if prefix and t.word not in ("host", "pointers", "table", "borrowed"):
        return "OUT_HEX64"
    return "POINTER"


def packed(p: Param) -> str:
    """An argument as a 64-bit number for the table-driven printer."""
    ct = c_type(p)
    if (
        ct.endswith("*")
        or p.type.word == "callback"
        or ct.startswith("CU")
        and (
            p.type.word not in ("enum", "device", "devptr", "devptr32", "struct")
            and p.type.word not in ("memhandle", "texobj", "surfobj", "condition")
        )
    ):
        return f"(uintptr_t){p.name}"
    if p.by_value:
        return f"(uintptr_t)&{p.name}"
    if p.type.word == "f32":
        return f"wire_trace_f32({p.name})"
    if p.type.word in ("i32", "device", "enum"):
        return f"(uint64_t)(int64_t){p.name}"
    return f"(uint64_t){p.name}"


def emit_extern(t: Text, call: Call) -> None:
    """Declare the table entry of a call."""
    t(f"extern const struct wire_trace_call wire_trace_{call.name};")


def emit_use(t: Text, call: Call) -> None:
    """Print a call that has returned ret."""
    args = ", ".join(packed(p) for p in call.args) or "0"
    t(f"    const uint64_t traced[] = {{{args}}};", "")
    t(f"    wire_trace_print(stub_trace, &wire_trace_{call.name}, traced, ret);")


def _enum_table(t: Text, abi: Abi, name: str) -> None:
    t(f"static const struct wire_trace_value values_{name}[] = {{")
    seen: set[int] = set()
    for enumerator, value in abi.enums[name]:
        if value not in seen and value < 2**31:
            t(f'    {{{value}, "{enumerator}"}},')
            seen.add(value)
    t("};", f"static const struct wire_trace_enum enum_{name} = {{")
    t(f'    "{name}", values_{name}, ARRAY_SIZE(values_{name})', "};", "")


# (kind, enumeration) of a field by the end of its typedefs.
_FIELD_KINDS = {
    "char": "I32",
    "unsigned char": "U32",
    "unsigned short": "U32",
    "int": "I32",
    "unsigned int": "U32",
    "uint32_t": "U32",
    "float": "F32",
    "long long": "U64",
    "unsigned long long": "U64",
    "size_t": "U64",
    "uint64_t": "U64",
}


def _leaves(
    abi: Abi, s: Struct, prefix: str, base: int
) -> list[tuple[str, str, str, int, int]]:
    """(name, kind, enumeration, offset, size) of what a structure holds.  Of a union only
    its reader knows which member counts; arrays and padding are left out."""
    leaves: list[tuple[str, str, str, int, int]] = []
    for f in s.fields:
        name, at = prefix + f.name, base + f.offset
        if s.union or f.count != 1 or f.name.startswith(("reserved", "pad")):
            continue
        if f.pointer:
            leaves.append((name, "HEX64", "", at, 8))
            continue
        inner = f.type if isinstance(f.type, Struct) else None
        kind = "" if inner else abi.base(str(f.type))
        if not inner and kind in abi.structs:
            inner = abi.structs[kind]
        if inner:
            leaves += _leaves(abi, inner, f"{name}.", at)
        elif kind in abi.enums:
            leaves.append((name, "ENUM", kind, at, 4))
        elif kind in abi.pointers or f.type == "CUdeviceptr":
            leaves.append((name, "HEX64", "", at, 8))
        else:
            leaves.append((name, _FIELD_KINDS[kind], "", at, BASIC[kind]))
    return leaves


def _traced_structs(api: Api, abi: Abi) -> list[str]:
    names = {
        abi.base(p.type.name)
        for c in api.calls
        for p in c.args
        if p.type.word == "struct"
    }
    return sorted(n for n in names if n in abi.structs and _leaves(abi, abi.structs[n], "", 0))


def _struct_table(t: Text, abi: Abi, name: str) -> None:
    s = abi.structs[name]
    t(f"static const struct wire_trace_field fields_{name}[] = {{")
    for field, kind, enum, offset, size in _leaves(abi, s, "", 0):
        names = f"&enum_{enum}" if enum else "NULL"
        t(f'    {{{{"{field}", WIRE_TRACE_{kind}, {names}, NULL}}, {offset}, {size}}},')
    t("};", f"static const struct wire_trace_struct struct_{name} = {{")
    t(f"    {s.size}, ARRAY_SIZE(fields_{name}), fields_{name}", "};", "")


def _call_table(t: Text, abi: Abi, call: Call, structs: list[str]) -> None:
    if call.args:
        t(f"static const struct wire_trace_arg args_{call.name}[] = {{")
        for p in call.args:
            enum = (
                abi.base(p.type.name)
                if p.type.word in ("enum", "flags", "flags64")
                else ""
            )
            table = f"&enum_{enum}" if enum in abi.enums else "NULL"
            kind, fields = arg_kind(p), "NULL"
            if p.type.word == "struct":
                base = abi.base(p.type.name)
                if base in structs:
                    fields = f"&struct_{base}"
                else:
                    kind = "POINTER"
            t(f'    {{"{p.name}", WIRE_TRACE_{kind}, {table}, {fields}}},')
        t("};")
    args = f"args_{call.name}" if call.args else "NULL"
    t(f"const struct wire_trace_call wire_trace_{call.name} = {{")
    why = call.refused or call.uncarried
    refusal = f'"{why}"' if why else "NULL"
    t(f'    "{call.name}", {call.number:#06x}, {len(call.args)}, {args},')
    t(f"    {refusal}", "};", "")


def emit(out: Output, api: Api, abi: Abi) -> None:
    """wire_tables.[ch]"""
    used = {"CUresult"}
    for c in api.calls:
        for p in c.args:
            if p.type.word in ("enum", "flags", "flags64"):
                used.add(abi.base(p.type.name))
    structs = _traced_structs(api, abi)
    for name in structs:
        used.update(leaf[2] for leaf in _leaves(abi, abi.structs[name], "", 0))
    t = Text()
    t('#include "wire_tables.h"', '#include "gp_base.h"', "")
    for name in sorted(used & set(abi.enums)):
        _enum_table(t, abi, name)
    for name in structs:
        _struct_table(t, abi, name)
    for c in api.calls:
        _call_table(t, abi, c, structs)
    t("const struct wire_trace_enum *const wire_result_names = &enum_CUresult;", "")
    t("/* Sorted by number. */")
    t("const struct wire_trace_call *const wire_trace_calls[] = {")
    t(*(f"    &wire_trace_{c.name}," for c in api.calls), "};")
    t("const unsigned wire_trace_call_count = ARRAY_SIZE(wire_trace_calls);")
    out.c_file("wire_tables.c", "Names of calls, arguments and values.", t)
    h = Text()
    h('#include "wire_trace.h"', "")
    for c in api.calls:
        emit_extern(h, c)
    out.c_file("wire_tables.h", "Names of calls, arguments and values.", h)
