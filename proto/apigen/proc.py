# SPDX-License-Identifier: Apache-2.0
"""cuGetProcAddress: which exported function a name, a version and flags mean."""

from __future__ import annotations

import re

from .emit import Output, Text
from .model import Api


def entries(api: Api) -> list[tuple[str, int, bool, str, int]]:
    """(stem, since, per thread, exported name, number of the call that the server makes),
    sorted for a binary search."""
    rows = []
    for c in api.calls:
        if c.internal:
            continue
        made = api.call(c.alias) if c.alias else c
        number = made.number if made.on_wire else 0
        rows.append((c.stem, c.since, False, c.name, number))
        if c.twin:
            rows.append((c.stem, c.twin_since, True, f"{c.name}_{c.twin}", number))
    return sorted(rows, key=lambda r: (r[0], r[2], r[1]))


# Graphics interfaces of a display, which a driver without one does not export.
DISPLAY = re.compile("GL|EGL|Egl|VDPAU")


def emit_driver(out: Output, api: Api) -> None:
    """driver_procs.def: what a driver without a display exports."""
    t = Text()
    t("/* PROC(name without suffix, interface version, per-thread variant?, symbol) */")
    for stem, since, per_thread, name, _ in entries(api):
        if not DISPLAY.search(name):
            t(f"PROC({stem}, {since}, {str(per_thread).lower()}, {name})")
    out.c_file("driver_procs.def", "Functions by name and version.", t)


def emit(out: Output, api: Api) -> None:
    """stub_proc_address_map.[ch] and the version script."""
    h, t = Text(), Text()
    h("#include <stdint.h>", "")
    h("/* One exported function under the name that cuGetProcAddress is asked for. */")
    h("struct stub_proc_address {", "    const char *name; /* without suffix */")
    h("    int version;      /* of the interface that brought it */")
    h("    uint8_t flags;    /* 2: takes the per-thread default stream; else 0 */")
    h("    uint16_t call;    /* what the server's driver must have, 0: nothing */")
    h("    void *fn;", "};", "")
    h("/* Sorted by name, flags, version. */")
    h(
        "extern const struct stub_proc_address stub_proc_address_table[];",
        "extern const unsigned stub_proc_address_count;",
    )
    t('#include "stub_proc_address_map.h"', '#include "cuda_api.h"', '#include "gp_base.h"', "")
    t("const struct stub_proc_address stub_proc_address_table[] = {")
    for stem, since, per_thread, name, number in entries(api):
        flags = 2 if per_thread else 0
        t(f'    {{"{stem}", {since}, {flags}, 0x{number:04x}, (void *){name}}},')
    t("};", "", "const unsigned stub_proc_address_count = ARRAY_SIZE(stub_proc_address_table);")
    out.c_file("stub_proc_address_map.h", "Functions by name and version.", h)
    out.c_file("stub_proc_address_map.c", "Functions by name and version.", t)
    names = sorted(row[3] for row in entries(api))
    script = "{\n  global:\n" + "".join(f"    {n};\n" for n in names)
    out.plain("libcuda.map", script + "  local:\n    *;\n};\n")
