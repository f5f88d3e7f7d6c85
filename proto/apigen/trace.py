# SPDX-License-Identifier: Apache-2.0
"""Tables of names: arguments of calls, values of enumerations, results."""

from __future__ import annotations

from .abi import Abi
from .ctypes_ import SCALARS, c_type
from .emit import Output, Text
from .model import Api, Call, Param


def arg_kind(p: Param) -> str:
    """How an argument is printed."""
    t, pointer = p.type, c_type(p).endswith("*")
    if t.word == "string":
        return "STRING"
    prefix = "OUT_" if p.dir in ("out", "inout") else ""
    if prefix and t.word in ("array", "bytes", "text", "struct", "sized", "name"):
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


def _call_table(t: Text, abi: Abi, call: Call) -> None:
    if call.args:
        t(f"static const struct wire_trace_arg args_{call.name}[] = {{")
        for p in call.args:
            enum = (
                abi.base(p.type.name)
                if p.type.word in ("enum", "flags", "flags64")
                else ""
            )
            table = f"&enum_{enum}" if enum in abi.enums else "NULL"
            t(f'    {{"{p.name}", WIRE_TRACE_{arg_kind(p)}, {table}}},')
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
    t = Text()
    t('#include "wire_tables.h"', '#include "gp_base.h"', "")
    for name in sorted(used & set(abi.enums)):
        _enum_table(t, abi, name)
    for c in api.calls:
        _call_table(t, abi, c)
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
