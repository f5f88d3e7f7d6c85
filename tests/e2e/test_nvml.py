# SPDX-License-Identifier: Apache-2.0
"""libnvidia-ml.so.1 shows the slice, and leaves children free to use it."""

import pathlib
import re


def test_management_library_shows_the_slice(case):
    program = pathlib.Path(__file__).with_name("nvml_client.py")
    # Its child could not use RDMA, which the parent has begun to use.
    done = case.pool().run(*case.interpreter(), program, memory="64MiB",
                           env={"GPUPOOL_TRANSPORT": "auto"})
    lines = dict(line.split(" ", 1) for line in done.out.strip().split("\n"))
    limit = 64 << 20
    case.check(re.fullmatch(r"1 0 0 13\.\d+\.00\.00", lines["before"]),
               f"a question, an end and the library's version before nvmlInit: {lines['before']}")
    case.equal(lines["words"], str([-1, *range(30, 40)]), "numbers without words")
    case.equal(lines["init"], "0 0 1", "nvmlInit, count, cards")
    case.check(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", lines["uuid"]),
               f"UUID {lines['uuid']}")
    case.equal(lines["memory"], str([limit, limit, 0]), "total, free, used")
    case.equal(lines["child"], f"[0, 0, 0, 0] {[limit, limit - 1000000, 1000000]}",
               "a forked child that uses the card")
    case.equal(lines["processes"], "7 0 1 True 1000000", "no room, then the child itself")
    case.equal(lines["rates"], "0 0 0", "an idle slice")
    case.equal(lines["refused"], "3", "what nobody here can know")
    case.equal(lines["events"], "0 0 0 3 10 0", "a set of events that never come")
    case.equal(lines["freed"], "2 2 2 2", "a set that was freed, and none")
    case.equal(lines["unknown"], "2", "a handle that is none")
    case.equal(lines["shutdown"], "0 0", "shutdown, and once too often")


def test_management_library_needs_the_c_library_alone(case):
    if case.sanitizer:
        case.skip(f"a library built with -fsanitize={case.sanitizer} needs its runtime")
    readelf = case.need_tool("readelf")
    library = case.build / "lib" / "libnvidia-ml.so.1"
    out = case.run([readelf, "--wide", "--dynamic", library]).out
    case.equal(re.findall(r"\(NEEDED\).*\[(.*)\]", out), ["libc.so.6"], "what it needs")


def test_client_libraries_need_no_symbol_newer_than_glibc_2_28(case):
    if case.sanitizer:
        case.skip("instrumented libraries are not what is shipped")
    nm = case.need_tool("nm")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libgpupool-tls.so.1"):
        out = case.run([nm, "-D", "--undefined-only", case.build / "lib" / name]).out
        newer = [m for m in re.findall(r"(\S+@GLIBC_2\.(?:\d+))\b", out)
                 if int(m.rsplit(".", 1)[1]) > 28]
        case.equal(newer, [], f"symbols of {name} newer than GLIBC_2.28")


def test_what_monitors_ask_is_answered_or_not_supported(case):
    program = pathlib.Path(__file__).with_name("nvml_monitors.py")
    done = case.pool().run(*case.interpreter(), program, memory="64MiB")
    answers = [line.split() for line in done.out.strip().split("\n")]
    counts = {monitor: sum(line[0] == monitor for line in answers)
              for monitor in ("nvtop", "DCGM", "Ray")}
    case.equal(counts, {"nvtop": 38, "DCGM": 44, "Ray": 11}, "calls made")
    wrong = [line for line in answers if line[2] not in ("0", "3")]
    case.equal(wrong, [], "neither SUCCESS nor NOT_SUPPORTED")
    told = {line[1] for line in answers if line[2] == "0"}
    case.check({"nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUtilizationRates",
                "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetUUID"} <= told,
               f"answered: {sorted(told)}")
