# SPDX-License-Identifier: Apache-2.0
"""The session's memory: exact to the byte, one sum over all its processes, and
given back however a process ends."""

import os

from harness.cudash import OUT_OF_MEMORY, SUCCESS

MIB = 1 << 20


def test_program_sees_its_slice_as_the_whole_card(case):
    pool = case.pool()
    shell = pool.session(core=30, memory="300MiB").cudash().begin()
    case.equal(shell.ok("total"), 300 * MIB, "cuDeviceTotalMem")
    free, total = shell.ok("info")
    case.equal(total, 300 * MIB, "cuMemGetInfo total")
    case.equal(free, 300 * MIB, "cuMemGetInfo free, before any allocation")
    shell.ok("alloc", 100 * MIB)
    case.equal(shell.ok("info"), [200 * MIB, 300 * MIB], "cuMemGetInfo afterwards")


def test_limit_is_exact_to_the_byte(case):
    pool = case.pool()
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    case.equal(shell("alloc", 64 * MIB + 1)[0], OUT_OF_MEMORY, "one byte too many at once")
    slot = shell.ok("alloc", 64 * MIB - 1000)
    case.equal(shell("alloc", 1001)[0], OUT_OF_MEMORY, "one byte too many in the end")
    last = shell.ok("alloc", 1000)
    case.equal(shell("alloc", 1)[0], OUT_OF_MEMORY, "a byte more than everything")
    shell.ok("free", last)
    shell.ok("free", slot)
    shell.ok("alloc", 64 * MIB)


def test_heaps_of_kernels_count_as_memory_of_the_session(case):
    """Kernels take memory from a heap as large as the program has said, and a heap is the
    card's memory as well as what is allocated."""
    pool = case.pool()
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    output, heap = 1, 2
    case.equal(shell("limit", heap, 73 * MIB)[0], OUT_OF_MEMORY, "a heap that is larger than the slice")
    shell.ok("limit", heap, 8 * MIB)
    case.equal(shell.ok("info")[0], 64 * MIB, "free with the heap that each context has")
    shell.ok("limit", heap, 40 * MIB)
    case.equal(shell.ok("info")[0], 32 * MIB, "free beside a larger heap")
    shell.ok("limit", output, 9 * MIB)
    case.equal(shell.ok("info")[0], 24 * MIB, "free beside more room for output")
    case.equal(shell("alloc", 24 * MIB + 1)[0], OUT_OF_MEMORY, "a byte beyond the sum")
    shell.ok("limit", heap, 64 * MIB)
    case.equal(shell("limit", heap, 65 * MIB)[0], OUT_OF_MEMORY, "more than there is")
    case.equal(shell.ok("info")[0], 0, "free after a refusal")
    shell.ok("limit", heap, 8 * MIB)
    shell.ok("alloc", 56 * MIB)
    shell.ok("destroy")
    shell.begin()
    case.equal(shell.ok("info")[0], 64 * MIB, "free after the context's end")


def test_limit_holds_over_all_processes_of_a_session(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    one, two = session.cudash().begin(), session.cudash().begin()
    one.ok("alloc", 40 * MIB)
    case.equal(two.ok("info"), [24 * MIB, 64 * MIB], "what the other process sees")
    case.equal(two("alloc", 24 * MIB + 1)[0], OUT_OF_MEMORY, "a byte beyond the sum")
    two.ok("alloc", 24 * MIB)
    case.equal(one("alloc", 1)[0], OUT_OF_MEMORY, "the first process, too")
    case.equal(one.close(), 0, "exit status")
    case.wait_for(lambda: two("info")[1:] == [40 * MIB, 64 * MIB],
                  "what a process had is free after its end")


def test_killed_process_gives_its_memory_back_within_a_second(case):
    """On the server's host; elsewhere a link that is gone may come back."""
    if "E2E_LISTEN" in os.environ:
        case.skip("the two addresses of this host stand for two hosts")
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    one, two = session.cudash().begin(), session.cudash().begin()
    one.ok("alloc", 60 * MIB)
    case.equal(two("alloc", 5 * MIB)[0], OUT_OF_MEMORY, "while the first holds it")
    workers = pool.workers()
    case.equal(len(workers), 2, "workers")
    pool.kill(one.process.pid)
    case.wait_for(lambda: two("alloc", 60 * MIB)[0] == SUCCESS,
                  "memory of a killed process is free again", patience=case.patience / 12)
    case.wait_for(lambda: len(pool.workers()) == 1, "its worker is gone")


def test_sessions_do_not_see_each_other(case):
    pool = case.pool(servers=1, cards=1)
    one = pool.session(core=30, memory="64MiB").cudash().begin()
    two = pool.session(core=30, memory="32MiB").cudash().begin()
    one.ok("alloc", 64 * MIB)
    case.equal(two.ok("info"), [32 * MIB, 32 * MIB], "the other session's slice")
    two.ok("alloc", 32 * MIB)
    one.ok("store", 0, 0, 1234)
    two.ok("store", 0, 0, 5678)
    case.equal((one.ok("peek", 0, 0), two.ok("peek", 0, 0)), (1234, 5678), "contents")


def test_freed_memory_is_free_though_the_card_is_busy(case):
    pool = case.pool()
    shell = pool.session(core=50, memory="64MiB").cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    busy, other = shell.ok("alloc", MIB), shell.ok("alloc", 8 * MIB)
    shell.ok("flood", busy, 20000)
    shell.ok("free", other)
    case.equal(shell.ok("info"), [63 * MIB, 64 * MIB], "cuMemGetInfo after cuMemFree")


def test_memory_that_the_server_keeps_back_is_nobodys(case):
    pool = case.pool()
    before, = pool.status()["servers"][0]["cards"]
    whole = before["memory_bytes"]
    pool.restart(pool.pid("gpupool-server"), "--memory-scaling", "0.25")
    card, = pool.status()["servers"][0]["cards"]
    case.equal((card["memory_bytes"], card["memory_reserved_bytes"]),
               (whole // 4, whole - whole // 4), "memory for sessions, kept back")
    shell = pool.session(core=100, memory=None).cudash().begin()
    case.equal(shell.ok("total"), whole // 4, "cuDeviceTotalMem of the whole card")
    case.equal(shell.ok("info"), [whole // 4, whole // 4], "cuMemGetInfo")
    case.equal(shell("alloc", whole // 4 + 1)[0], OUT_OF_MEMORY, "a byte kept back")
    shell.ok("alloc", whole // 4)


def test_no_session_is_placed_on_memory_kept_back(case):
    pool = case.pool(options=("--memory-scaling", "0.25"))
    whole = 4 << 30
    refused = pool.run("true", core=30, memory="1025MiB", status=None)
    case.check(refused.status != 0, "a session got memory that is kept back")
    case.contains(refused.err, "it lacks memory", "why")
    pool.run("true", core=30, memory=whole // 4)
