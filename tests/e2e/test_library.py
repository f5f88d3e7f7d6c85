# SPDX-License-Identifier: Apache-2.0
"""What libcuda.so.1 is as a file: who it needs, what it exports, that it is quiet."""

import os
import re
import sys


def dynamic_section(case, path):
    readelf = case.need_tool("readelf")
    return case.run([readelf, "--wide", "--dynamic", path]).out


def stub(case):
    return case.build / "lib" / "libcuda.so.1"


def test_stub_needs_the_c_library_alone(case):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} needs its runtime")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic_section(case, stub(case)))
    case.equal([name for name in needed if not re.match(r"lib(c|m|dl|pthread|rt)\.so\.\d+$",
               name) and not name.startswith("ld-linux")], [], "libraries beyond libc")


def test_stub_is_found_under_both_names(case):
    case.contains(dynamic_section(case, stub(case)), "soname: [libcuda.so.1]", "soname")
    case.equal((case.build / "lib" / "libcuda.so").resolve(), stub(case).resolve(),
               "what libcuda.so is")


def test_stub_exports_every_driver_name_and_none_of_our_own(case):
    nm = case.need_tool("nm")
    listed = {line for line in (case.data / "driver-names.txt").read_text().split("\n")
              if line and not line.startswith("#")}
    case.equal(len(listed), 637, "names in tests/data/driver-names.txt")
    out = case.run([nm, "-D", "--defined-only", stub(case)]).out
    exported = {line.split()[-1].split("@")[0] for line in out.split("\n") if line}
    case.equal(sorted(listed - exported), [], "driver names that are not exported")
    # The list is the toolkit's; documented graphics interoperability comes on top.
    foreign = {name for name in exported - listed
               if not re.match(r"cu(GL|EGL|VDPAU|Graphics|EventCreateFromEGL)", name)
               and not (case.sanitizer and re.match(r"_{1,3}(asan|tsan|ubsan|odr)", name))}
    case.equal(sorted(foreign), [], "exported names that no driver has")


def test_stub_without_a_session_says_so_and_fails_init(case):
    done = case.run([case.programs / "cudash"], env={
        "LD_LIBRARY_PATH": str(case.build / "lib")}, stdin=open_text(case, "init\n"))
    case.check(int(done.out.split()[0]) != 0, f"cuInit succeeded without a session:\n{done}")
    lines = done.err.strip().split("\n")
    case.equal(len(lines), 1, f"lines on stderr:\n{done.err}")
    case.contains(lines[0], "GPUPOOL_SESSION_FILE", "which variable was missed")


def open_text(case, text):
    path = case.folder / "input"
    path.write_text(text)
    return open(path, encoding="utf-8")


def test_program_that_changes_its_user_is_told_when_to_initialise(case):
    if os.geteuid() != 0:
        case.skip("only root may become another user")
    if case.sanitizer:
        case.skip("the interpreter loads no library with a sanitizer")
    script = ("import ctypes, os, sys\n"
              "cuda = ctypes.CDLL('libcuda.so.1')\n"
              "if sys.argv[1] == 'after': print(cuda.cuInit(0), flush=True)\n"
              "os.setgid(65534); os.setuid(65534)\n"
              "print(cuda.cuInit(0))\n")
    pool = case.pool()
    done = pool.run(sys.executable, "-c", script, "after", status=None)
    case.equal((done.out, done.status), ("0\n0\n", 0), "rights given up after cuInit")
    done = pool.run(sys.executable, "-c", script, "before", status=None)
    case.check(done.out.strip() not in ("", "0"), f"cuInit fails: {done}")
    case.contains(done.err, "changed from user 0 to 65534 before cuInit", "the message")


def test_program_that_closes_all_descriptors_gets_errors_and_goes_on(case):
    if case.sanitizer:
        case.skip("the interpreter loads no library with a sanitizer")
    script = ("import ctypes, os, time\n"
              "cuda = ctypes.CDLL('libcuda.so.1')\n"
              "ctx = ctypes.c_void_p()\n"
              "print(cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(ctx), 0, 0), flush=True)\n"
              "os.closerange(3, 1 << 16)\n"
              "def alloc(): return cuda.cuMemAlloc_v2(ctypes.byref(ctx), ctypes.c_size_t(64))\n"
              "while alloc() == 0: time.sleep(0.01)\n"  # until the worker has noticed
              "print(alloc() != 0)\n")
    pool = case.pool()
    for link in ("tcp", "shm"):
        done = pool.run(sys.executable, "-c", script, status=None,
                        env={"GPUPOOL_TRANSPORT": link})
        case.equal((done.out, done.status), ("0 0\nTrue\n", 0), f"over {link}")
