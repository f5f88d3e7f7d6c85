# SPDX-License-Identifier: Apache-2.0
"""How the stub behaves inside a process: lazy, silent, traceable."""

import re


def test_stub_does_nothing_before_the_first_call(case):
    done = case.run([case.programs / "cudash"], env={
        "LD_LIBRARY_PATH": str(case.build / "lib"),
        "GPUPOOL_SESSION_FILE": "/does/not/exist"})
    case.equal((done.out, done.err), ("", ""), "what a program that calls nothing prints")


def test_trace_prints_every_call_on_stderr_only(case):
    pool = case.pool()
    quiet = pool.run(case.programs / "vecadd")
    traced = pool.run(case.programs / "vecadd", env={"GPUPOOL_TRACE": "1"})
    case.equal(traced.out, quiet.out, "standard output")
    case.equal(quiet.err, "", "standard error without GPUPOOL_TRACE")
    for call in ("cuInit(", "cuMemAlloc_v2(", "cuModuleLoadData(", "cuLaunchKernel(",
                 "cuMemcpyDtoH_v2("):
        case.contains(traced.err, call, "the trace")


def test_trace_prints_names_of_kernels_and_what_structures_hold(case):
    pool = case.pool()
    env = {"GPUPOOL_TRACE": "1"}
    launch = pool.run(case.programs / "vecadd", env=env).err
    case.check(re.search(r'cuLaunchKernel\(f=0x[0-9a-f]+ "vecadd", gridDimX=\d+, ', launch),
               f"the kernel's name in the trace:\n{launch}")
    memory = pool.run(case.programs / "shareable", env=env).err
    case.contains(memory, "prop={type=CU_MEM_ALLOCATION_TYPE_PINNED, requestedHandleTypes="
                  "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, location.type="
                  "CU_MEM_LOCATION_TYPE_DEVICE}", "a structure that went in")
    wrong = pool.run(case.build / "tests" / "programs" / "negative", env=env).err
    case.check(max(map(len, wrong.splitlines())) < 2048, "no line is longer")


def test_trace_says_which_path_a_copy_takes_and_why(case):
    pool = case.pool()
    paths = {}
    for program, transport in (("copies", "tcp"), ("graphcopies", "tcp"),
                               ("landing", "tcp"), ("pinned", "shm"), ("unified", "shm"),
                               ("managed", "tcp"), ("managed", "shm")):
        traced = pool.run(case.programs / program, core=100, memory="1GiB", status=None,
                          env={"GPUPOOL_TRACE": "1", "GPUPOOL_TRANSPORT": transport})
        for name, why in re.findall(r" copy of \d+ bytes: path (\w+), because (.+)",
                                    traced.err):
            paths.setdefault(name, set()).add(why)
    case.equal(sorted(paths), ["capture_node", "d2h_async", "device_alias", "device_copy",
                               "host_copy", "inline", "payload", "shared_pinned"],
               "paths that these programs' copies take")
    case.equal(paths["d2h_async"], {"nobody waits, and the destination is page-locked"},
               "why a copy is not waited for")


def test_version_and_count_are_the_drivers_own(case):
    pool = case.pool(servers=1, cards=2)
    session = pool.session(core=30, memory="64MiB")
    shell = session.cudash().begin()
    case.equal(shell.ok("count"), 1, "devices of a session with one slice")
    case.check(shell.ok("version") >= 12000, "cuDriverGetVersion")


def test_session_of_two_cards_has_two_devices(case):
    pool = case.pool(servers=1, cards=2)
    # Whole cards: no memory is asked for, all of it is given.
    shell = pool.session(core=200, memory=None).cudash()
    shell.ok("init")
    case.equal(shell.ok("count"), 2, "devices")
    for device in (0, 1):
        shell.ok("device", device)
        shell.ok("context")
        slot = shell.ok("alloc", 1 << 20)
        shell.ok("store", slot, 0, 40 + device)
        case.equal(shell.ok("peek", slot, 0), 40 + device, f"memory of device {device}")


def test_failing_launch_is_not_lost(case):
    """A launch is not answered; its failure comes with the next call that is."""
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    shell = session.cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", 4096)
    launched, = shell("launch", "bump", 1, 5000, slot, 1)  # no block has 5000 threads
    waited, = shell("sync")
    case.check(launched != 0 or waited != 0, "an impossible launch was never reported")
    case.equal(shell("sync")[0], 0, "it is reported once; the context lives")
    shell.ok("launch", "bump", 1, 32, slot, 1)
    shell.ok("sync")
