# SPDX-License-Identifier: Apache-2.0
"""What a CUDA driver library, or a management library, says without a card, as JSON.

    answers.py cuda LIBRARY NAMES [init]    answers.py nvml LIBRARY

NAMES is a file with a function's name in each line."""

import ctypes
import json
import sys

VERSIONS = [-1, 0, 2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 5000, 5050, 6000, 6050,
            7000, 7050, 8000, 9000, 9010, 9020, 10000, 10010, 10020, *range(11000, 11090, 10),
            12000, 12010, 12020, 12030, 12040, 12041, 99999]
FLAGS = range(5)


def addresses(lib, names):
    """The exported names of each address, shortest first."""
    at = {}
    for name in sorted(names, key=len, reverse=True):
        if hasattr(lib, name):
            at[ctypes.cast(getattr(lib, name), ctypes.c_void_p).value] = name
    return at


def lookups(lib, names):
    """For each name and flag: [from this version on, answer], where the answer changes."""
    at = addresses(lib, names)
    found, status = ctypes.c_void_p(), ctypes.c_int()
    answers = {}
    for name in names:
        for flags in FLAGS:
            rows = []
            for version in VERSIONS:
                found.value, status.value = 1, 77
                result = lib.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version,
                                                 ctypes.c_uint64(flags), ctypes.byref(status))
                said = f"{result}, status {status.value}, {at.get(found.value, found.value)}"
                found.value = 1
                result = lib.cuGetProcAddress(name.encode(), ctypes.byref(found), version,
                                              ctypes.c_uint64(flags))
                said += f"; first version: {result}, {at.get(found.value, found.value)}"
                if not rows or rows[-1][1] != said:
                    rows.append([version, said])
            answers[f"{name} {flags}"] = rows
    return answers


def error_names(lib):
    name, words = ctypes.c_char_p(), ctypes.c_char_p()
    names = {}
    for code in range(-1, 1200):
        results = (lib.cuGetErrorName(code, ctypes.byref(name)),
                   lib.cuGetErrorString(code, ctypes.byref(words)))
        names[code] = [*results, name.value.decode() if name.value else None, bool(words.value)]
    return names


def mistakes(lib):
    """Calls that fail before anything is looked at."""
    table, unknown = ctypes.c_void_p(1), (ctypes.c_ubyte * 16)(9)
    return {"cuInit with a flag": lib.cuInit(1),
            "cuDriverGetVersion of nowhere": lib.cuDriverGetVersion(None),
            "a table without a name": lib.cuGetExportTable(ctypes.byref(table), None),
            "a table to nowhere": lib.cuGetExportTable(None, unknown),
            "an unknown table": [lib.cuGetExportTable(ctypes.byref(table), unknown), table.value]}


def cuda(library, names, *init):
    lib = ctypes.CDLL(library)
    with open(names, encoding="ascii") as file:
        wanted = file.read().split()
    if init:
        assert lib.cuInit(0) == 0
    version = ctypes.c_int()
    lib.cuDriverGetVersion(ctypes.byref(version))
    return {"version": version.value, "lookups": lookups(lib, wanted), "errors": error_names(lib),
            "mistakes": mistakes(lib)}


def nvml(library):
    lib = ctypes.CDLL(library)
    lib.nvmlErrorString.restype = ctypes.c_char_p
    text = ctypes.create_string_buffer(96)
    before = {"shutdown": lib.nvmlShutdown(), "short": lib.nvmlSystemGetNVMLVersion(text, 3),
              "version": lib.nvmlSystemGetNVMLVersion(text, 96)}
    unknown = lib.nvmlErrorString(999)
    return {"before": before,
            "words": [code for code in range(-1, 60) if lib.nvmlErrorString(code) != unknown]}


print(json.dumps({"cuda": cuda, "nvml": nvml}[sys.argv[1]](*sys.argv[2:])))
