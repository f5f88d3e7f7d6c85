# SPDX-License-Identifier: Apache-2.0
"""Declaration test: our ABI against a toolkit's cuda.h, where one is installed.

Two sources come out.  check_decl.c includes the toolkit's header and redeclares every
function as proto/api has it, so that a difference does not compile.  check_ours.c and
check_theirs.c print sizes, offsets and values as each header has them, to be compared.
"""

from __future__ import annotations

from .abi import Abi, Struct
from .codec import Codecs
from .ctypes_ import prototype
from .emit import Output, Text


def _members(s: Struct, prefix: str) -> list[str]:
    paths: list[str] = []
    for f in s.fields:
        if isinstance(f.type, Struct):
            inner = f"{prefix}{f.name}." if f.name else prefix
            paths += _members(f.type, inner)
        if f.name:
            paths.append(prefix + f.name)
    return paths


def _facts(t: Text, abi: Abi) -> None:
    t("#include <stddef.h>", "#include <stdio.h>", "", "int", "main(void)", "{")
    for name, s in abi.structs.items():
        t(f'    printf("sizeof {name} %zu %zu\\n", sizeof({name}), _Alignof({name}));')
        for path in _members(s, ""):
            t(f'    printf("offset {name}.{path} %zu\\n", offsetof({name}, {path}));')
    for name, values in abi.enums.items():
        t(f'    printf("sizeof {name} %zu\\n", sizeof({name}));')
        for enumerator, _ in values:
            t(f'    printf("{enumerator} %lld\\n", (long long){enumerator});')
    for name in abi.alias:
        t(f'    printf("sizeof {name} %zu\\n", sizeof({name}));')
    for name in abi.constants:
        t(f'    printf("{name} %lld\\n", (long long){name});')
    t("    return 0;", "}")


def emit(out: Output, codecs: Codecs) -> None:
    """check_decl.c, check_ours.c, check_theirs.c"""
    t = Text()
    t(
        "#define __CUDA_API_VERSION_INTERNAL",
        "#include <cuda.h>",
        "#include <cudaProfiler.h>",
        "",
    )
    for c in codecs.api.calls:
        if c.outside or c.internal:
            continue
        t(f"CUresult {prototype(c, c.name)};")
        if c.twin:
            t(f"CUresult {prototype(c, c.name + '_' + c.twin)};")
    out.c_file(
        "check_decl.c", "Every function, redeclared behind the toolkit's header.", t
    )
    ours, theirs = Text(), Text()
    ours('#include "cuda_abi.h"')
    theirs(
        "#define __CUDA_API_VERSION_INTERNAL",
        "#include <cuda.h>",
        "#include <cudaProfiler.h>",
    )
    _facts(ours, codecs.abi)
    _facts(theirs, codecs.abi)
    out.c_file("check_ours.c", "Layouts and values as cuda_abi.h has them.", ours)
    out.c_file("check_theirs.c", "Layouts and values as the toolkit has them.", theirs)
