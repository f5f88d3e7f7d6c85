# SPDX-License-Identifier: Apache-2.0
"""The table of a driver's functions, filled by name from a loaded library."""

from __future__ import annotations

from .ctypes_ import declare
from .emit import Output, Text
from .model import Api


def emit(out: Output, api: Api) -> None:
    """drv.[ch]"""
    h, t = Text(), Text()
    h('#include "cuda_abi.h"', "")
    h("/* NULL where the driver has no such function. */", "struct drv {")
    calls = [c for c in api.calls if not c.internal and not c.outside]
    for c in calls:
        args = ", ".join(declare(p) for p in c.args) or "void"
        h(f"    CUresult (*{c.name})({args});")
    h("};", "")
    h("/* Fill @drv with what @find knows; returns how many functions were found. */")
    h("unsigned drv_load(struct drv *drv, void *(*find)(void *arg, const char *name),")
    h("                  void *arg);", "")
    t('#include "drv.h"', '#include "gp_base.h"', "", "#include <string.h>", "")
    t(
        "static const struct {",
        "    const char *name;",
        "    size_t offset;",
        "} names[] = {",
    )
    t(
        *(f'    {{"{c.name}", offsetof(struct drv, {c.name})}},' for c in calls),
        "};",
        "",
    )
    t(
        "unsigned",
        "drv_load(struct drv *drv, void *(*find)(void *arg, const char *name), void *arg)",
    )
    t("{", "    unsigned found = 0;", "")
    t("    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {")
    t("        void *fn = find(arg, names[i].name);", "")
    t("        memcpy((char *)drv + names[i].offset, &fn, sizeof(fn));")
    t("        found += fn != NULL;", "    }", "    return found;", "}")
    out.c_file("drv.h", "A driver's functions.", h)
    out.c_file("drv.c", "A driver's functions, found by name.", t)
