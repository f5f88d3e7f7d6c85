# SPDX-License-Identifier: Apache-2.0
"""The tables that runtimes and libraries ask a driver for: no slot of them may be NULL,
because a newer runtime calls slots that older ones leave alone."""

import ctypes

from harness.images import cubin, fatbin

CUDART = "6bd5fb6c5bf4e74a8987d93912fd9df9"
CUBLAS = "1734dc26800d47458726c0f1e7dd8bca"
TABLES = {
    CUDART: 13,
    "a094798c2e742e7493f20800200c0a66": 7,
    "42d85a8123f6cb478298f6e78a3aecdc": 3,
    "263e88607cd2614392f6bbd5006dfa7e": 4,
    "21318c60971432488ca641ff7324c8f2": 93,
    "6e163fbeb958444d835ce182aff1991e": 8,
    "7cb63f9b9ca48e42a484beb66e6aed7f": 2,
    CUBLAS: 5,
}
LOAD, LOAD_11, LOAD_COMPILERS = 1, 6, 12
INVALID_VALUE, NOT_SUPPORTED = 1, 801


def words_of(case, table, least):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} is not loaded here")
    library = ctypes.CDLL(str(case.need_file(case.build / "lib" / "libcuda.so.1",
                                             "libcuda.so.1 is not built")))
    found = ctypes.POINTER(ctypes.c_uint64)()
    name = (ctypes.c_ubyte * 16)(*bytes.fromhex(table))
    result = library.cuGetExportTable(ctypes.byref(found), name)
    case.equal(result, 0, f"cuGetExportTable of {table}")
    size = found[0] // 8
    case.check(least <= size < 1000, f"{table} says that it has {size} words")
    return library, [found[i] for i in range(size)]


def test_no_slot_is_null(case):
    for table, least in TABLES.items():
        _, words = words_of(case, table, least)
        empty = [i for i, word in enumerate(words) if word == 0]
        case.equal(empty, [], f"empty slots of {table}")


def test_runtime_13_2_may_load_its_compilers(case):
    _, words = words_of(case, CUDART, LOAD_COMPILERS + 1)
    load = ctypes.CFUNCTYPE(ctypes.c_int)(words[LOAD_COMPILERS])
    case.equal(load(), 0, "loading compilers")


# What a runtime does with the fat binary of a program, as far as the driver sees it.
LOADS = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
table, name = ctypes.POINTER(ctypes.c_uint64)(), bytes.fromhex(sys.argv[1])
context, module, kernel = (ctypes.c_void_p() for _ in range(3))
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuGetExportTable(ctypes.byref(table), name) == 0
image = open("image", "rb").read()
class Wrapper(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("image", ctypes.c_char_p), ("others", ctypes.c_void_p)]
wrapper = Wrapper(0x466243b1, 1, image, None)
load = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)(table[int(sys.argv[2])])
print(load(ctypes.addressof(module), ctypes.addressof(wrapper), None, None, None),
      cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"vecadd"))
"""


def test_old_runtimes_load_their_fat_binaries(case):
    """9.2 through one slot, 11.8 through another."""
    ptx = (case.build / "tests" / "ptx" / "vecadd.ptx").read_bytes() + b"\0"
    (case.folder / "image").write_bytes(fatbin((2, 75, cubin()), (1, 70, ptx)))
    pool = case.pool()
    for slot in (LOAD, LOAD_11):
        done = pool.run(*case.interpreter(), "-c",
                        f"import os; os.chdir({str(case.folder)!r})\n{LOADS}", CUDART, slot)
        case.equal(done.out.split(), ["0", "0"], f"loading through slot {slot}, and its kernel")


def test_slot_that_nobody_knows_refuses(case):
    _, words = words_of(case, CUDART, 13)
    unknown = ctypes.CFUNCTYPE(ctypes.c_int)(words[8])
    case.equal(unknown(), NOT_SUPPORTED, "a slot without a meaning here")


def test_cublas_learns_that_it_has_to_choose_alone(case):
    _, words = words_of(case, CUBLAS, 5)
    a, b = ctypes.c_void_p(), ctypes.c_void_p()
    ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(words[4])
    case.equal(ask(ctypes.byref(a), ctypes.byref(b)), NOT_SUPPORTED, "slot 4")
    case.equal((a.value, b.value), (None, None), "what it leaves alone")


def test_unknown_table_is_refused_and_named_in_the_log(case):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} is not loaded here")
    words = ("import ctypes; lib = ctypes.CDLL('libcuda.so.1'); at = ctypes.c_void_p(1);"
             "name = (ctypes.c_ubyte * 16)(*range(16));"
             "print(lib.cuGetExportTable(ctypes.byref(at), name), at.value)")
    done = case.run([*case.interpreter(), "-c", words],
                    env={"LD_LIBRARY_PATH": str(case.build / "lib"),
                         "GPUPOOL_LOG": "stub:info"})
    case.equal(done.out, f"{INVALID_VALUE} None\n", "the answer, and no pointer")
    case.contains(done.err, "table 000102030405060708090a0b0c0d0e0f is not served", "the log")
