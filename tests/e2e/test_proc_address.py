# SPDX-License-Identifier: Apache-2.0
"""cuGetProcAddress of the built library: the function that a runtime means, or none."""

import ctypes

SUCCESS = 0
FOUND, UNKNOWN, TOO_NEW = 0, 1, 2


class Lookup:
    """The library and its lookup; nothing here connects to a server."""

    def __init__(self, case):
        if case.sanitizer:
            case.skip(
                f"a library built with -fsanitize={case.sanitizer} is not loaded here"
            )
        self.lib = ctypes.CDLL(
            str(
                case.need_file(
                    case.build / "lib" / "libcuda.so.1", "libcuda.so.1 is not built"
                )
            )
        )
        self.call = self.lib.cuGetProcAddress_v2
        self.call.argtypes = [
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            ctypes.c_uint64,
            ctypes.POINTER(ctypes.c_int),
        ]

    def __call__(self, name, version, flags=0):
        """(result, address or None, status)"""
        fn, status = ctypes.c_void_p(1), ctypes.c_int(-1)
        result = self.call(
            name.encode(), ctypes.byref(fn), version, flags, ctypes.byref(status)
        )
        return result, fn.value, status.value

    def export(self, name):
        return ctypes.cast(getattr(self.lib, name), ctypes.c_void_p).value


def test_every_lookup_of_a_runtime_means_the_right_function(case):
    lookup = Lookup(case)
    wrong, found = [], 0
    for line in (case.data / "proc-lookups.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, version, flags, symbol = line.split()
        result, address, _ = lookup(name, int(version), int(flags))
        found += 1
        if (result, address) != (SUCCESS, lookup.export(symbol)):
            wrong.append(line)
    case.equal(wrong, [], "lookups that give another function, or none")
    case.check(found > 300, f"the list has only {found} lookups")


def test_unknown_name_is_told_from_one_that_is_too_new(case):
    lookup = Lookup(case)
    case.equal(
        lookup("cuNoSuchFunction", 13000), (SUCCESS, None, UNKNOWN), "unknown name"
    )
    case.equal(lookup("", 0), (SUCCESS, None, UNKNOWN), "empty name")
    case.equal(
        lookup("cuLibraryLoadData", 11000), (SUCCESS, None, TOO_NEW), "too new"
    )


def test_older_version_gets_the_older_form(case):
    lookup = Lookup(case)
    for name, version, symbol in (
        ("cuStreamBeginCapture", 10000, "cuStreamBeginCapture"),
        ("cuStreamBeginCapture", 12000, "cuStreamBeginCapture_v2"),
        ("cuMemAlloc", 12000, "cuMemAlloc_v2"),
        ("cuCtxCreate", 11030, "cuCtxCreate_v2"),
        ("cuGetProcAddress", 11030, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, "cuGetProcAddress_v2"),
    ):
        case.equal(
            lookup(name, version)[:2],
            (SUCCESS, lookup.export(symbol)),
            f"{name} at {version}",
        )


def test_per_thread_flag_prefers_the_per_thread_form(case):
    lookup = Lookup(case)
    for name, symbol in (
        ("cuLaunchKernel", "cuLaunchKernel_ptsz"),
        ("cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds"),
        ("cuStreamCreate", "cuStreamCreate"),
    ):
        case.equal(lookup(name, 13000, 2)[:2], (SUCCESS, lookup.export(symbol)), name)


def test_status_pointer_may_be_null(case):
    lookup = Lookup(case)
    fn = ctypes.c_void_p(1)
    result = lookup.call(b"cuInit", ctypes.byref(fn), 13000, 0, None)
    case.equal((result, fn.value), (SUCCESS, lookup.export("cuInit")), "without status")


ASKED = (
    "cuMemAlloc_v2", "cuStreamCreate", "cuEventRecord", "cuStreamGetPriority",
    "cuTensorMapEncodeTiled", "cuLogsCurrent", "cuStreamGetDevResource",
    "cuMemRangeGetAttribute", "cuGraphAddMemsetNode", "cuCtxGetExecAffinity",
    "cuTexRefSetFormat", "cuSurfRefSetArray", "cuKernelGetParamCount",
)
ASK = """
import ctypes, sys
lib = ctypes.CDLL("libcuda.so.1")
for name in sys.argv[1:]:
    fn = ctypes.c_void_p(1)
    stem = name[:-3] if name.endswith("_v2") else name
    r = lib.cuGetProcAddress_v2(stem.encode(), ctypes.byref(fn), 14000, ctypes.c_uint64(0), None)
    print(name, r, fn.value is not None)
"""
HAS = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
print(*(hasattr(lib, name) for name in sys.argv[2:]))
"""


def test_what_the_servers_driver_lacks_is_not_found(case):
    driver = case.build / "lib" / "libnulldrv.so"
    has = dict(zip(ASKED, (word == "True" for word in case.run(
        [*case.interpreter(), "-c", HAS, driver, *ASKED]).out.split())))
    case.equal(set(has.values()), {True, False}, "the null driver has some and lacks some")
    done = case.pool(driver="null").run(*case.interpreter(), "-c", ASK, *ASKED)
    got = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}
    want = {name: ["0", str(there)] for name, there in has.items()}
    case.equal(got, want, "result of each lookup and whether there is a function")
