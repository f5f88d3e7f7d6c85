# SPDX-License-Identifier: Apache-2.0
"""Older forms of a call: widen arguments, call the newer form, narrow results."""

from __future__ import annotations

from .codec import Codecs
from .ctypes_ import c_type, prototype, value_type
from .emit import Output, Text
from .model import ApiError, Call, Param

NARROW = {("devptr32", "devptr"), ("u32", "size")}


def _fields(codecs: Codecs, name: str) -> list[str]:
    return [f.name for f in codecs.abi.struct(name).fields]


def _is_struct_pair(codecs: Codecs, old: Param, new: Param) -> bool:
    if old.type.word != "struct" or new.type.word != "struct":
        return False
    return codecs.abi.base(old.type.name) != codecs.abi.base(new.type.name)


def emit(t: Text, codecs: Codecs, call: Call, prefix: str) -> None:
    """<prefix><call>() for a call that says `as`."""
    target = codecs.api.call(call.alias)
    olds, news = call.args, target.args
    if len(olds) != len(news):
        raise ApiError(f"{call.where}: {call.name} and {target.name} differ in length")
    t(f"/* {call.name}: {call.where}, as {target.name} */", "static CUresult")
    t(prototype(call, f"{prefix}{call.name}", "bool per_thread" if call.twin else ""), "{")
    passed: list[str] = []
    after: list[str] = []
    before: list[str] = []
    for old, new in zip(olds, news):
        passed.append(_pass(t, codecs, old, new, before, after))
    name = target.name
    t("    CUresult ret;", "", *before)
    call_text = f"{name}({', '.join(passed)})"
    if call.twin:
        if not target.twin:
            raise ApiError(f"{call.where}: {target.name} has no {call.twin}")
        call_text = (
            f"per_thread ? {name}_{target.twin}({', '.join(passed)})\n"
            f"                     : {call_text}"
        )
    t(f"    ret = {call_text};")
    if after:
        t("    if (ret != CUDA_SUCCESS)", "        return ret;", *after)
    t("    return ret;", "}", "")


def _pass(
    t: Text, codecs: Codecs, old: Param, new: Param, before: list[str], after: list[str]
) -> str:
    """Declare what one argument needs and return what is passed for it."""
    wide = f"{old.name}_wide"
    if _is_struct_pair(codecs, old, new):
        return _pass_struct(t, codecs, old, new, before, after)
    pair = (old.type.word, new.type.word)
    if old.dir == "out" and pair in NARROW:
        t(f"    {value_type(new.type)} {wide} = 0;")
        before += (
            [
                f"    if (!{old.name})",
                "        return CUDA_ERROR_INVALID_VALUE;",
            ]
            if not (old.optional or new.optional)
            else []
        )
        narrow = value_type(old.type)
        after += [
            f"    if ({wide} != ({narrow}){wide})",
            "        return CUDA_ERROR_INVALID_VALUE;",
            f"    if ({old.name})",
            f"        *{old.name} = ({narrow}){wide};",
        ]
        return f"&{wide}"
    if old.dir == "in" and pair in NARROW:
        return old.name
    if c_type(old) != c_type(new):
        raise ApiError(f"{old.name}: {c_type(old)} is not {c_type(new)}")
    return old.name


def _pass_struct(
    t: Text, codecs: Codecs, old: Param, new: Param, before: list[str], after: list[str]
) -> str:
    wide = f"{old.name}_wide"
    if _fields(codecs, old.type.name) != _fields(codecs, new.type.name):
        raise ApiError(f"{old.name}: {old.type.name} has other fields")
    t(f"    {new.type.name} {wide} = {{0}};")
    before += [f"    if (!{old.name})", "        return CUDA_ERROR_INVALID_VALUE;"]
    fields = _fields(codecs, old.type.name)
    if old.dir == "in":
        before += [f"    {wide}.{f} = {old.name}->{f};" for f in fields]
    else:
        types = {f.name: f.type for f in codecs.abi.struct(old.type.name).fields}
        after += [f"    {old.name}->{f} = ({types[f]}){wide}.{f};" for f in fields]
    return f"&{wide}"


def _narrows(codecs: Codecs, call: Call) -> bool:
    """Whether an argument has other bytes than in the newer form."""
    target = codecs.api.call(call.alias)
    return any(
        (old.type.word, new.type.word) in NARROW or _is_struct_pair(codecs, old, new)
        for old, new in zip(call.args, target.args)
    )


def emit_driver(out: Output, codecs: Codecs) -> None:
    """Older forms for a driver that has the newest: those with 32-bit addresses, and
    those that only the name tells apart; the latter are weak, for a driver may have
    something else to do."""
    t = Text()
    t('#include "cuda_abi.h"', "")
    calls = [c for c in codecs.api.calls if c.alias and c.family != "interop"]
    for target in sorted({c.alias for c in calls} | {c.name for c in calls}):
        t(prototype(codecs.api.call(target), f"CUresult {target}") + ";")
    t("")
    for c in calls:
        passed = ", ".join(p.name for p in c.args)
        weak = "" if _narrows(codecs, c) else "weak, "
        made = c.alias if weak else f"wide_{c.name}"
        if not weak:
            emit(t, codecs, c, "wide_")
        t(
            f'__attribute__(({weak}visibility("default"))) CUresult',
            prototype(c, c.name),
            "{",
            f"    return {made}({passed});",
            "}",
            "",
        )
    out.c_file("driver_old.c", "First forms of calls, in terms of the newer.", t)
