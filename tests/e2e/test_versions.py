# SPDX-License-Identifier: Apache-2.0
"""Clients and servers of different age: an older client always works, a newer one is told."""

import re
import socket
import struct

from test_hostile_server import attach_request, where
from test_programs import local_driver

NOT_SUPPORTED = 801

# The families' programs, and the version of the youngest function that each is linked with.
PROGRAMS = {"vecadd": 12000, "reduce": 12000, "pipeline": 12000, "features": 12000,
            "managed": 12000, "linking": 12000, "ipc": 12000, "textures": 12000,
            "clusters": 12000, "graphcopies": 12000, "graphframe": 12000, "space": 12000,
            "faults": 12000, "graphs": 12030, "conditions": 12030, "order": 12030}


def of_age(version):
    return {"SOFTGPU_CUDA_VERSION": str(version)}


def same_on_a_driver_of(case, version, programs=PROGRAMS):
    """What each program prints on a driver of @version is what it prints on a slice of it."""
    pool = case.pool(env=of_age(version))
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    case.equal(shell.ok("version"), version, "cuDriverGetVersion")
    for name in programs:
        if PROGRAMS[name] > version:
            continue
        local = case.run([case.programs / name], status=None,
                         env={**local_driver(case), **of_age(version), "SOFTGPU_INSTANCE": name})
        remote = pool.run(case.programs / name, core=50, memory="1GiB", status=None)
        case.equal(local.status, 0, f"{name} on a driver of {version} itself")
        case.equal(remote.out, local.out, f"{name} on a driver of {version}: remote against local")
        case.equal(remote.status, 0, f"{name} on a driver of {version}: exit status")
    pool.stop()


def test_programs_on_a_driver_of_12_0(case):
    same_on_a_driver_of(case, 12000)


def test_programs_on_a_driver_of_12_2(case):
    same_on_a_driver_of(case, 12020)


def test_programs_on_a_driver_of_12_3(case):
    same_on_a_driver_of(case, 12030)


def test_driver_that_is_newer_than_the_client_library_is_as_old_as_that(case):
    """What came after 13.0 is not there, so nobody may count on it."""
    pool = case.pool(driver="null", env={"NULLDRV_CUDA_VERSION": "13040"})
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    case.equal(shell.ok("version"), 13000, "cuDriverGetVersion")
    case.equal(shell.close(), 0, "exit status")


def test_programs_on_drivers_that_tell_the_parameters_of_kernels(case):
    for version in (12040, 12080):
        same_on_a_driver_of(case, version, ("features", "linking", "graphs", "graphcopies"))


def fat_binary(kind, payload):
    """One entry for the null driver's card, as it is."""
    payload += bytes(-len(payload) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 0, 8, 86, 0, 0,
                        0x11, 0, len(payload))
    return struct.pack("<IHHQ", 0xba55ed50, 1, 16, len(entry) + len(payload)) + entry + payload


def test_kernel_whose_parameters_nobody_tells_is_refused_in_words(case):
    """The null driver has a kernel under every name; what it takes, only the image tells."""
    ptx = (b".version 7.0\n.target sm_70\n.address_size 64\n"
           b".entry plain(.param .u64 a) { ret; }\n.entry odd(.param .texref t) { ret; }\0")
    images = {"lto": fat_binary(8, b"LTO code"), "text": ptx, "packed": fat_binary(1, ptx)}
    for name, image in images.items():
        (case.folder / name).write_bytes(image)
    for version, known in ((12040, True), (12030, False)):
        pool = case.pool(driver="null", env={"NULLDRV_CUDA_VERSION": str(version)})
        shell = pool.session(core=30, memory="64MiB").cudash().begin()
        case.equal(shell.ok("version"), version, "cuDriverGetVersion")
        for name in ("text", "packed"):
            shell.ok("load", case.folder / name)
            shell.ok("function", "plain")
            case.equal(shell("function", "odd")[0], 0 if known else NOT_SUPPORTED, name)
            shell.ok("unload")
        shell.ok("load", case.folder / "lto")
        case.equal(shell("function", "k")[0], 0 if known else NOT_SUPPORTED, "of no known code")
        shell.close()
        words = (case.folder / "spawned.err").read_text()
        for line in (
            "gpupool: kernel odd cannot be launched: the server's driver speaks CUDA 12.3, and "
            "only 12.4 and newer tell the parameters of a kernel; its image does not either: "
            "a parameter of a type without a known size. ",
            "gpupool: kernel k cannot be launched: ",
            "it is in none of the parts that can be read. A newer driver there helps"):
            case.equal(line in words, not known, f"{line!r} in what the user sees: {words}")
        pool.stop()


# A library's way to a module's functions: a slot of a private table calls back for each.
# Each is launched then: somebody must know the parameters of a handle without a name.
KERNEL = """
.entry {name}(.param .u8 skip, .param .u64 out, .param .u32 value)
{{
    .reg .u64 a; .reg .u32 v;
    ld.param.u64 a, [out];
    cvta.to.global.u64 a, a;
    ld.param.u32 v, [value];
    add.u32 v, v, {add};
    st.global.u32 [a+{at}], v;
    ret;
}}
"""
LIST = """
import ctypes, sys
lib = ctypes.CDLL("libcuda.so.1")
p, u64, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
ctx, mod, mem, table = p(), p(), u64(), ctypes.POINTER(u64)()
ID = bytes.fromhex("6e163fbeb958444d835ce182aff1991e")

def ok(result):
    assert result == 0, result

ok(lib.cuInit(0))
ok(lib.cuCtxCreate_v2(ctypes.byref(ctx), 0, 0))
ok(lib.cuModuleLoadData(ctypes.byref(mod), open(sys.argv[1], "rb").read()))
ok(lib.cuMemAlloc_v2(ctypes.byref(mem), size(8)))
ok(lib.cuGetExportTable(ctypes.byref(table), ID))
found = []
visit = ctypes.CFUNCTYPE(None, p, p, u64)(lambda user, fn, owner: found.append(fn))
n = ctypes.CFUNCTYPE(u64, p, p, type(visit), p)(table[7])(ctx, mod, visit, None)
args = (ctypes.c_uint8(9), mem, ctypes.c_uint32(20))
pointers = (p * 3)(*(ctypes.cast(ctypes.byref(a), p) for a in args))
for fn in found:
    ok(lib.cuLaunchKernel(p(fn), 1, 1, 1, 1, 1, 1, 0, p(), pointers, None))
out = (ctypes.c_uint32 * 2)()
ok(lib.cuMemcpyDtoH_v2(out, mem, size(8)))
print(n, len(found), list(out))
"""


def test_functions_of_a_module_are_listed_whatever_the_drivers_age(case):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} is not loaded here")
    ptx = case.folder / "ptx"
    ptx.write_text(".version 7.0\n.target sm_70\n.address_size 64\n"
                   ".func helper(.param .b32 x) { ret; }\n" +
                   KERNEL.format(name="one", add=1, at=0) + KERNEL.format(name="two", add=2, at=4))
    for version in (12000, 12020, 12030, 13000):
        pool = case.pool(env=of_age(version))
        done = pool.run("python3", "-c", LIST, ptx, memory="64MiB")
        case.equal(done.out, "2 2 [21, 22]\n", f"with a driver of {version}")
        pool.stop()


# A program that packs parameters itself must know where the card has them; a kernel sees
# whether the address of its own is aligned as it asked.
WIDE = """
import ctypes, sys
lib = ctypes.CDLL("libcuda.so.1")
p, u64, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
ctx, mod, fn, mem = p(), p(), p(), u64()

def ok(result):
    assert result == 0, result

ok(lib.cuInit(0))
ok(lib.cuCtxCreate_v2(ctypes.byref(ctx), 0, 0))
ok(lib.cuModuleLoadData(ctypes.byref(mod), open(sys.argv[1], "rb").read()))
ok(lib.cuModuleGetFunction(ctypes.byref(fn), mod, b"wide"))
ok(lib.cuMemAlloc_v2(ctypes.byref(mem), size(16)))
wide = (ctypes.c_uint64 * 16)(*range(100, 116))
args = (ctypes.c_uint8(9), wide, mem)
pointers = (p * 3)(*(ctypes.cast(ctypes.byref(a), p) for a in args))
out = (ctypes.c_uint64 * 2)()
ok(lib.cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, p(), pointers, None))
ok(lib.cuMemcpyDtoH_v2(out, mem, size(16)))
print(list(out))
at, bytes_ = int(sys.argv[2]), bytearray(int(sys.argv[2]) + 136)
wide[3] = 33
bytes_[at:] = bytes(wide) + bytes(mem)
block = (ctypes.c_char * len(bytes_)).from_buffer(bytes_)
length = size(len(bytes_))
extra = (p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(length), 0)
ok(lib.cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, p(), None, extra))
ok(lib.cuMemcpyDtoH_v2(out, mem, size(16)))
print(list(out))
"""


def test_parameters_of_wide_alignment_lie_where_the_card_has_them(case):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} is not loaded here")
    ptx = case.folder / "ptx"
    ptx.write_text("""
.version 7.8
.target sm_75
.address_size 64
.entry wide(.param .u8 skip, .param .align 64 .b8 bytes[128], .param .u64 out)
{
    .reg .u64 a, v, w;
    ld.param.u64 a, [out];
    cvta.to.global.u64 a, a;
    mov.b64 v, bytes;
    cvta.param.u64 v, v;
    and.b64 w, v, 63;
    ld.u64 v, [v+24];
    st.global.u64 [a], v;
    st.global.u64 [a+8], w;
    ret;
}
""")
    for version in (12020, 13000):
        for card, at in (("7.5", 32), ("8.6", 32), ("9.0", 48), ("12.0", 64)):
            env = {**of_age(version), "SOFTGPU_CC": card}
            local = case.run(["python3", "-c", WIDE, ptx, at], env={**local_driver(case), **env})
            case.equal(local.out, "[103, 0]\n[33, 0]\n", f"card {card}, {version} itself")
            pool = case.pool(env=env)
            remote = pool.run("python3", "-c", WIDE, ptx, at, memory="64MiB")
            case.equal(remote.out, local.out, f"card {card} with a driver of {version}")
            pool.stop()


# Every name and version that there is, with and without streams per thread.
LOOK_UP = """
import ctypes, sys
lib = ctypes.CDLL("libcuda.so.1")
look = lib.cuGetProcAddress_v2
look.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int,
                 ctypes.c_uint64, ctypes.POINTER(ctypes.c_int)]
for line in open(sys.argv[1]):
    name, version = line.split()
    forms = {}
    for suffix in (a + b for a in ("", "_v2", "_v3", "_v4") for b in ("", "_ptds", "_ptsz")):
        if hasattr(lib, name + suffix):
            fn = ctypes.cast(getattr(lib, name + suffix), ctypes.c_void_p).value
            forms.setdefault(fn, name + suffix)
    for flags in (0, 2):
        fn, status = ctypes.c_void_p(), ctypes.c_int(-1)
        r = look(name.encode(), ctypes.byref(fn), int(version), flags, ctypes.byref(status))
        print(name, version, flags, r, status.value, forms.get(fn.value, "-"))
"""


def test_lookups_find_what_a_driver_of_that_age_has(case):
    """Of every function in every version: the same form, or the same refusal."""
    names = case.folder / "names"
    known = re.findall(r"^PROC\((\w+), (\d+),", (case.build / "gen/driver_procs.def")
                       .read_text(), re.MULTILINE)
    names.write_text("".join(f"{name} {v}\n" for name, v in sorted(set(known))) +
                     "cuNoSuchCall 13000\n")
    for version in (12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000):
        local = case.run([*case.interpreter(), "-c", LOOK_UP, names],
                         env={**local_driver(case), **of_age(version)})
        pool = case.pool(env=of_age(version))
        remote = pool.run(*case.interpreter(), "-c", LOOK_UP, names, memory="64MiB")
        differ = set(remote.out.splitlines()) ^ set(local.out.splitlines())
        case.equal(sorted(differ), [], f"lookups with a driver of {version}")
        case.check(" 0 1 -" in remote.out, f"nothing is unknown with a driver of {version}")
        pool.stop()


# What a runtime of one version asks of a driver of another: each function as of its version.
RUNTIME = """
import ctypes, sys
lib = ctypes.CDLL("libcuda.so.1")
has, fn = ctypes.c_int(), ctypes.c_void_p()
for name in sys.argv[2:]:
    r = lib.cuGetProcAddress_v2(name.encode(), ctypes.byref(fn), int(sys.argv[1]),
                                ctypes.c_uint64(0), None)
    print(name, r, bool(fn.value))
print(lib.cuDriverGetVersion(ctypes.byref(has)), has.value, lib.cuInit(0))
"""
AGES = {"cuMemAlloc": 3020, "cuLibraryLoadData": 12000, "cuStreamBeginCaptureToGraph": 12030,
        "cuFuncGetParamInfo": 12040, "cuStreamGetDevice": 12080, "cuMemGetMemPool": 13000}


def test_every_pair_of_runtime_and_driver_agrees_or_is_told(case):
    """A runtime that is not newer finds all it knows; one of a newer minor version what the
    driver has; one of a newer major version is told in words."""
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} is not loaded here")
    for driver in (12000, 12020, 12040, 12080, 13000):
        pool = case.pool(env=of_age(driver))
        session = pool.session(core=30, memory="64MiB")
        for runtime in (12000, 12030, 12040, 12080, 13000, 13010):
            pair = f"runtime {runtime}, driver {driver}"
            done = session.run("python3", "-c", RUNTIME, runtime, *AGES)
            want = [f"{name} 0 {since <= min(runtime, driver)}"
                    for name, since in AGES.items()] + [f"0 {driver} 0"]
            case.equal(done.out.splitlines(), want, pair)
            told = (f"the program asks for CUDA {runtime // 1000}.{runtime % 1000 // 10}, the "
                    f"server's driver speaks {driver // 1000}.{driver % 1000 // 10}: a newer driver "
                    "is needed there, or an older CUDA here")
            if runtime // 1000 > driver // 1000:
                case.contains(done.err, told, pair)
            else:
                case.equal(done.err, "", pair)
        session.close()
        pool.stop()


def test_driver_that_is_too_old_is_refused_with_the_reason(case):
    done = case.run([case.build / "bin" / "gpupool", "up"], status=None, env=of_age(11080))
    case.check(done.status not in (0, None), "a server started on a driver of 11.8")
    case.contains(done.out + done.err + "".join(
        path.read_text() for path in case.folder.rglob("*.log")),
        "speaks CUDA 11.8: 12.0 is the oldest", "the reason")


def test_runtime_that_is_newer_than_the_driver_is_told(case):
    if case.sanitizer:
        case.skip(f"nvcc's programs are built without -fsanitize={case.sanitizer}")
    program = case.need_file(case.programs / "vecadd-static", "there is no nvcc")
    pool = case.pool(env={"SOFTGPU_CUDA_VERSION": "12040"})
    done = pool.run(program, status=None)
    case.check(done.status not in (0, None), "a runtime of 13.0 ran on a driver of 12.4")
    case.contains(done.err, "the program asks for CUDA 13.0, the server's driver speaks 12.4",
                  "what the client library says")


def test_client_that_is_newer_than_the_server_is_told(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    for minor in (1, 77):
        with socket.create_connection(where(session), timeout=case.patience) as sock:
            sock.sendall(attach_request(session.field("ticket"), minor=minor))
            size, = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))
            reply = sock.recv(size, socket.MSG_WAITALL)
        case.contains(reply.decode("utf-8", "replace"), f"the client speaks protocol 1.{minor}, "
                      "this server 1.0: a server must not be older than its clients",
                      "the refusal")
    case.contains(session.run(case.programs / "vecadd").out, ": ok\n", "the session goes on")
