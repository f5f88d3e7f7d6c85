# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments for every call: NULL, stale handles, handles of another kind.

negative_calls.c has one function per exported name, which makes the call with the
arguments of a kind of wrongness.  Who drives it decides what stands behind the calls.
"""

from __future__ import annotations

from .codec import Codecs
from .ctypes_ import INTEGER_HANDLES, c_type, is_handle, kind_of
from .emit import Output, Text
from .model import Call, Param

HEADER = r"""
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "wire_format.h"

/* The kinds of wrongness. */
enum negative_kind {
    NEGATIVE_ZERO,    /* every pointer NULL, every handle and number 0, lengths 4 */
    NEGATIVE_NULL,    /* the same, pointers good */
    NEGATIVE_STALE,   /* handles and addresses that were good once, numbers 1 */
    NEGATIVE_FOREIGN, /* live handles of another kind, addresses of the host, numbers 1 */
    NEGATIVE_HUGE,    /* the largest counts, numbers and addresses, handles 0 */
    NEGATIVE_KINDS,
    NEGATIVE_NONE = NEGATIVE_KINDS, /* nothing wrong: live handles, numbers 1 */
};

struct negative {
    enum negative_kind kind;
    void *scratch;     /* zeroed, writable, NEGATIVE_SCRATCH bytes */
    uint64_t freed;    /* an address that was device memory (with NONE: that is) */
    uint64_t foreign;  /* a live handle */
    enum wire_kind foreign_kind;
    const uint64_t *live; /* with NONE: a handle of each kind, or 0 */
    void *(*find)(const char *name); /* the function of that name, or NULL; used where
                                        NEGATIVE_FIND is defined */
};

#define NEGATIVE_SCRATCH (1u << 20)

/* What a call returns that the library at hand does not have: no CUresult. */
#define NEGATIVE_ABSENT ((CUresult)-1)

struct negative_call {
    const char *name;
    CUresult (*call)(const struct negative *n);
    bool needs_pointer; /* NULL outputs must be refused */
    bool needs_handle;  /* a handle that is none must be refused */
    bool unanswered;    /* a worker may not even give one */
};

extern const struct negative_call negative_calls[];
extern const unsigned negative_call_count;

static inline void *
negative_pointer(const struct negative *n)
{
    return n->kind == NEGATIVE_ZERO ? NULL : n->scratch;
}

static inline uint64_t
negative_handle(const struct negative *n, enum wire_kind kind)
{
    if (n->kind == NEGATIVE_NONE)
        return n->live[kind];
    if (n->kind == NEGATIVE_STALE)
        return wire_handle_make(kind, 0xee, 0x7fff);
    if (n->kind == NEGATIVE_FOREIGN)
        return n->foreign_kind == kind ? wire_handle_make(kind, 0xee, 0x7fff) : n->foreign;
    return 0;
}

static inline uint64_t
negative_address(const struct negative *n)
{
    switch (n->kind) {
    case NEGATIVE_STALE:
    case NEGATIVE_NONE:
        return n->freed;
    case NEGATIVE_FOREIGN:
        return (uintptr_t)n->scratch;
    case NEGATIVE_HUGE:
        return UINT64_MAX & ~UINT64_C(0xff);
    default:
        return 0;
    }
}

static inline uint64_t
negative_number(const struct negative *n)
{
    if (n->kind == NEGATIVE_HUGE)
        return UINT64_MAX;
    return n->kind == NEGATIVE_STALE || n->kind == NEGATIVE_FOREIGN ||
           n->kind == NEGATIVE_NONE;
}

static inline int
negative_device(const struct negative *n)
{
    return n->kind == NEGATIVE_ZERO || n->kind == NEGATIVE_NONE ? 0 : 9999;
}

/* A length of bytes that the call may read or write. */
static inline uint64_t
negative_length(const struct negative *n)
{
    uint64_t number = negative_number(n);

    if (n->kind == NEGATIVE_ZERO || n->kind == NEGATIVE_NULL)
        return 4;
    return number > 16 ? 16 : number;
}
"""


def _is_length(call: Call, p: Param) -> bool:
    """Does p say how much memory behind another parameter is touched?"""
    touched: tuple[str, ...] = ("bytes", "text", "host")
    if call.client == "manual":
        touched += ("array", "pointers")
    named = any(
        q.type.count.partition("-")[0] == p.name
        for q in call.params
        if q.type.word in touched
    )
    return (
        named
        or "size" in p.name.lower()
        or "bytes" in p.name.lower()
        or (p.name in ("len", "ByteCount", "WidthInBytes"))
    )


def _argument(call: Call, p: Param) -> str:
    """One wrong argument."""
    ct, word = c_type(p), p.type.word
    if p.dir == "in" and (is_handle(p.type) or word in INTEGER_HANDLES):
        middle = "" if word in INTEGER_HANDLES else "(uintptr_t)"
        return f"({ct}){middle}negative_handle(n, {kind_of(p.type)})"
    if word == "callback":
        return f"n->kind == NEGATIVE_ZERO ? NULL : ({ct})negative_callback"
    if p.by_value:
        return f"*({ct} *)n->scratch"
    if ct.endswith("*"):
        return f"({ct})negative_pointer(n)"
    if word == "device":
        return "negative_device(n)"
    if word in ("devptr", "devptr32"):
        return f"({ct})negative_address(n)"
    if word in ("asynccb", "logscb"):
        return "NULL"
    number = "negative_length" if _is_length(call, p) else "negative_number"
    return f"({ct}){number}(n)"


def _needs_pointer(call: Call) -> bool:
    return call.on_wire and any(
        p.dir == "out"
        and not p.optional
        and not p.client
        and p.type.word not in ("array", "bytes", "text")
        for p in call.args
    )


def _needs_handle(call: Call) -> bool:
    return call.on_wire and any(
        p.dir == "in"
        and is_handle(p.type)
        and not p.optional
        and p.type.word not in ("stream", "ctx")
        for p in call.args
    )


def _unanswered(call: Call) -> bool:
    return call.on_wire and call.reply == "none"


def emit(out: Output, codecs: Codecs) -> None:
    """negative_calls.[ch]"""
    h, t = Text(), Text()
    h(HEADER.strip("\n"))
    t('#include "negative_calls.h"', '#include "cuda_api.h"', "")
    t(
        "/* A library that lacks some of the names is asked for each by name. */",
        "#ifdef NEGATIVE_FIND",
        "#define NEGATIVE_FN(n, name) ((__typeof__(&name))(uintptr_t)(n)->find(#name))",
        "#else",
        "#define NEGATIVE_FN(n, name) (&name)",
        "#endif",
        "",
    )
    t("static void", "negative_callback(void)", "{", "}", "")
    calls = [c for c in codecs.api.calls if not c.internal and not c.outside]
    rows = []
    for c in calls:
        for name in [c.name] + ([f"{c.name}_{c.twin}"] if c.twin else []):
            args = ", ".join(_argument(c, p) for p in c.args)
            t("static CUresult", f"n_{name}(const struct negative *n)", "{")
            t(f"    __typeof__(&{name}) fn = NEGATIVE_FN(n, {name});", "")
            t(f"    return fn ? fn({args}) : NEGATIVE_ABSENT;", "}", "")
            flags = ", ".join(str(f(c)).lower() for f in (_needs_pointer, _needs_handle, _unanswered))
            rows.append(f'    {{"{name}", n_{name}, {flags}}},')
    t("const struct negative_call negative_calls[] = {", *rows, "};")
    t("const unsigned negative_call_count =")
    t("    sizeof(negative_calls) / sizeof(negative_calls[0]);")
    out.c_file("negative_calls.h", "Wrong arguments for every call.", h)
    out.c_file("negative_calls.c", "Wrong arguments for every call.", t)
