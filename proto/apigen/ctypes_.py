# SPDX-License-Identifier: Apache-2.0
"""The words for types, and what they are in C and on the wire."""

from __future__ import annotations

from .model import ApiError, Call, Param, Type

# word -> (C type, bytes on the wire, signed)
SCALARS: dict[str, tuple[str, int, bool]] = {
    "u8": ("unsigned char", 4, False),
    "u16": ("unsigned short", 4, False),
    "u32": ("unsigned int", 4, False),
    "i32": ("int", 4, True),
    "f32": ("float", 4, False),
    "u64": ("unsigned long long", 8, False),
    "cuuint64": ("cuuint64_t", 8, False),
    "size": ("size_t", 8, False),
    "devptr": ("CUdeviceptr", 8, False),
    "devptr32": ("CUdeviceptr_v1", 4, False),
    "device": ("CUdevice", 4, True),
}

# word -> (C type, kind in enum wire_kind, is it translated)
HANDLES: dict[str, tuple[str, str, bool]] = {
    "ctx": ("CUcontext", "CTX", True),
    "module": ("CUmodule", "MODULE", True),
    "library": ("CUlibrary", "LIBRARY", True),
    "func": ("CUfunction", "FUNC", True),
    "kernel": ("CUkernel", "FUNC", True),
    "stream": ("CUstream", "STREAM", True),
    "event": ("CUevent", "EVENT", True),
    "graph": ("CUgraph", "GRAPH", True),
    "graphexec": ("CUgraphExec", "GRAPHEXEC", True),
    "graphnode": ("CUgraphNode", "GRAPHNODE", True),
    "cuarray": ("CUarray", "ARRAY", True),
    "mipmap": ("CUmipmappedArray", "MIPMAP", True),
    "texref": ("CUtexref", "TEXREF", True),
    "surfref": ("CUsurfref", "SURFREF", True),
    "mempool": ("CUmemoryPool", "MEMPOOL", True),
    "memhandle": ("CUmemGenericAllocationHandle", "MEMHANDLE", True),
    "linkstate": ("CUlinkState", "LINK", True),
    "userobj": ("CUuserObject", "USEROBJ", True),
    "greenctx": ("CUgreenCtx", "GREENCTX", True),
    "resdesc": ("CUdevResourceDesc", "RESDESC", True),
    "extmem": ("CUexternalMemory", "EXTMEM", True),
    "extsem": ("CUexternalSemaphore", "EXTSEM", True),
    "gfxres": ("CUgraphicsResource", "GFXRES", True),
    # Kernels use these values, so that the driver's own cross the wire.
    "texobj": ("CUtexObject", "TEXOBJ", False),
    "surfobj": ("CUsurfObject", "SURFOBJ", False),
    "condition": ("CUgraphConditionalHandle", "CONDITION", False),
    # Never on the wire.
    "asynccb": ("CUasyncCallbackHandle", "NONE", False),
    "logscb": ("CUlogsCallbackHandle", "NONE", False),
}

INTEGER_HANDLES = ("memhandle", "texobj", "surfobj", "condition")


def is_handle(t: Type) -> bool:
    """Is it translated between an id and the driver's value?"""
    return t.word in HANDLES and HANDLES[t.word][2]


def is_scalar(t: Type) -> bool:
    """Does one number on the wire say it all?"""
    return (
        t.word in SCALARS
        or t.word in ("enum", "flags", "flags64", "address")
        or (t.word in HANDLES)
    )


def kind_of(t: Type) -> str:
    """The enumerator of enum wire_kind."""
    return "WIRE_KIND_" + HANDLES[t.word][1]


def value_type(t: Type) -> str:
    """The C type of one value."""
    if t.word in SCALARS:
        return SCALARS[t.word][0]
    if t.word in HANDLES:
        return HANDLES[t.word][0]
    if t.word in ("enum", "struct"):
        return t.name
    if t.word == "flags":
        return "unsigned int"
    if t.word == "flags64":
        return "unsigned long long"
    if t.word == "address":
        return "void *"
    raise ApiError(f"no value type for {t.word}")


def wire_type(t: Type) -> str:
    """The C type of one value inside a frame; structures as their own type."""
    if t.word == "struct":
        return t.name
    if t.word in ("enum", "device", "i32"):
        return "int32_t"
    if t.word == "f32":
        return "float"
    return "uint64_t" if wire_bytes(t) == 8 else "uint32_t"


def wire_bytes(t: Type) -> int:
    """Bytes of one scalar inside a frame."""
    if t.word in SCALARS:
        return SCALARS[t.word][1]
    return 4 if t.word in ("enum", "flags") else 8


def _star(base: str) -> str:
    return base + "*" if base.endswith("*") else base + " *"


def c_type(p: Param) -> str:
    """The C type of a parameter, as the driver's own declaration has it."""
    t, out = p.type, p.dir in ("out", "inout")
    if t.word == "callback":
        return t.name
    if t.word == "string":
        return "const char *"
    if t.word == "name":
        return "const char **"
    if t.word == "text":
        return "char *"
    if t.word == "pointers":
        return "void **"
    if t.word == "table":
        return "const void **"
    if t.word == "host":
        return "void **" if out else ("const void *" if p.const else "void *")
    if t.word in ("bytes", "sized"):
        if t.word == "bytes" and t.count.isdigit() and out:
            return "char *"
        return "void *" if out or p.nonconst else "const void *"
    if t.word == "borrowed":
        elem = HANDLES[t.name][0] if t.name in HANDLES else t.name
        return f"const {elem} **"
    if t.word == "array":
        assert t.elem
        base = _star(value_type(t.elem))
        return base if out or p.nonconst else "const " + base
    if t.word == "struct" and not out:
        if p.by_value:
            return t.name
        return ("" if p.nonconst else "const ") + _star(t.name)
    return _star(value_type(t)) if out else value_type(t)


def declare(p: Param) -> str:
    """A parameter as it stands in a prototype."""
    ct = c_type(p)
    return ct + p.name if ct.endswith("*") else f"{ct} {p.name}"


def prototype(call: Call, name: str, extra: str = "") -> str:
    """name(parameters), without the result type."""
    args = [declare(p) for p in call.args]
    if extra:
        args.append(extra)
    return f"{name}({', '.join(args) or 'void'})"
