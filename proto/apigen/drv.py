# SPDX-License-Identifier: Apache-2.0
"""The table of a driver's functions, filled by name from a loaded library."""

from __future__ import annotations

from .ctypes_ import declare
from .emit import Output, Text
from .model import Api


# What every driver behind a server has (OLDEST_VERSION of the worker).
OLDEST = 12000


def emit(out: Output, api: Api) -> None:
    """drv.[ch]"""
    h, t = Text(), Text()
    h('#include "cuda_abi.h"', "", "#include <stdint.h>", "")
    h("/* NULL where the driver has no such function. */", "struct drv {")
    calls = [c for c in api.calls if not c.internal and not c.outside]
    for c in calls:
        args = ", ".join(declare(p) for p in c.args) or "void"
        h(f"    CUresult (*{c.name})({args});")
    h("};", "")
    h("/* Fill @drv with what @find knows; returns how many functions were found. */")
    h("unsigned drv_load(struct drv *drv, void *(*find)(void *arg, const char *name),")
    h("                  void *arg);", "")
    h(
        "/* Forget the functions that came after @version of the interface.  Where one is",
        " * the second form of an older one that does the same, that one stands in. */",
        "void drv_limit(struct drv *drv, int version);",
        "",
    )
    h(
        "/* Numbers of the calls that a driver of @version lacks and that nothing stands in",
        " * for, in rising order; returns how many there are, of which @cap are stored. */",
        "unsigned drv_missing(const struct drv *drv, int version, uint32_t *ret,",
        "                     unsigned cap);",
        "",
    )
    t('#include "drv.h"', '#include "gp_base.h"', "", "#include <stdbool.h>", "#include <string.h>", "")
    t(
        "static const struct {",
        "    const char *name;",
        "    size_t offset;",
        "    uint16_t number; /* 0: no frame names it */",
        "    int since;",
        "    bool stands_in; /* the worker's own code may do without it */",
        "} names[] = {",
    )
    for c in calls:
        number = f"0x{c.number:04x}" if c.on_wire else "0"
        by_hand = str(c.server == "manual").lower()
        t(f'    {{"{c.name}", offsetof(struct drv, {c.name}), {number}, {c.since},')
        t(f"     {by_hand}}},")
    t("};", "")
    t(
        "unsigned",
        "drv_load(struct drv *drv, void *(*find)(void *arg, const char *name), void *arg)",
    )
    t("{", "    unsigned found = 0;", "")
    t("    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {")
    t("        void *fn = find(arg, names[i].name);", "")
    t("        memcpy((char *)drv + names[i].offset, &fn, sizeof(fn));")
    t("        found += fn != NULL;", "    }", "    return found;", "}", "")
    t(
        "void",
        "drv_limit(struct drv *drv, int version)",
        "{",
        "    for (size_t i = 0; i < ARRAY_SIZE(names); i++)",
        "        if (names[i].since > version)",
        "            memset((char *)drv + names[i].offset, 0, sizeof(void *));",
    )
    for c in calls:
        target = api.call(c.alias) if c.alias else None
        if target and target.since > OLDEST:
            t(f"    if (!drv->{target.name})", f"        drv->{target.name} = drv->{c.name};")
    t("}", "")
    t(
        "unsigned",
        "drv_missing(const struct drv *drv, int version, uint32_t *ret, unsigned cap)",
        "{",
        "    unsigned n = 0;",
        "",
        "    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {",
        "        void *fn;",
        "",
        "        memcpy(&fn, (const char *)drv + names[i].offset, sizeof(fn));",
        "        if (fn || !names[i].number ||",
        "            (names[i].stands_in && names[i].since <= version))",
        "            continue;",
        "        if (n < cap)",
        "            ret[n] = names[i].number;",
        "        n++;",
        "    }",
        "    return n;",
        "}",
    )
    out.c_file("drv.h", "A driver's functions.", h)
    out.c_file("drv.c", "A driver's functions, found by name.", t)
