# SPDX-License-Identifier: Apache-2.0
"""Calls in which stream 0 is the calling thread's own, for a driver that has the others."""

from __future__ import annotations

from .ctypes_ import prototype
from .emit import Output, Text
from .model import Api, Call

MARK = "S"  # what the generated text calls the translation


def _passes_on(call: Call) -> bool:
    """Whether the twin differs in nothing but a stream that is an argument by itself."""
    return (
        call.twin == "ptsz"
        and not call.twin_as
        and not call.outside
        and call.family != "interop"
        and any(p.type.word == "stream" for p in call.args)
    )


def emit_driver(out: Output, api: Api) -> None:
    """driver_streams.c: weak, for a driver may have something better to do."""
    t = Text()
    t('#include "cuda_abi.h"', "")
    t(f"#define {MARK}(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)", "")
    for c in api.calls:
        if not _passes_on(c):
            continue
        twin = f"{c.name}_{c.twin}"
        passed = [f"{MARK}({p.name})" if p.type.word == "stream" else p.name for p in c.args]
        t(
            prototype(c, f"CUresult {c.name}") + ";",
            prototype(c, f"CUresult {twin}") + ";",
            '__attribute__((weak, visibility("default"))) CUresult',
            prototype(c, twin),
            "{",
            f"    return {c.name}({', '.join(passed)});",
            "}",
            "",
        )
    out.c_file("driver_streams.c", "Calls with stream 0 as the calling thread's own.", t)
