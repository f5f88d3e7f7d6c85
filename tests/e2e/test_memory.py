# SPDX-License-Identifier: Apache-2.0
"""The session's memory: exact to the byte, one sum over all its processes, and
given back however a process ends."""

import os
import struct

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


def ptx_of(variables):
    return f".version 8.0\n.target sm_75\n.address_size 64\n{variables}\n.visible .entry k() {{ ret; }}\n"


def image(case, name, content):
    path = case.folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def fat_binary(*texts):
    """Each text is the PTX of a card of its own: sm_75, sm_76 and so on."""
    body = b""
    for i, text in enumerate(texts):
        payload = text.encode() + b"\0"
        payload += b"\0" * (-len(payload) % 8)
        body += struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(payload), 0, 0, 0, 8, 75 + i, 0, 0, 0, 0, 0)
        body += payload
    return struct.pack("<IHHQ", 0xba55ed50, 1, 16, len(body)) + body


def test_variables_of_modules_count_as_memory_of_the_session(case):
    """A module's variables are the card's memory from its load to its end."""
    pool = case.pool()
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    big = image(case, "big.ptx", ptx_of(f".global .b8 big[{65 * MIB}];"))
    some = image(case, "some.ptx", ptx_of(f".visible .global .align 16 .b32 some[2][{MIB}];\n.const .b8 c[1024];"))
    fat = image(case, "fat", fat_binary(ptx_of(f".global .b64 a[{MIB}];"), ptx_of(f".global .b64 a[{4 * MIB}];")))
    case.equal(shell("load", big)[0], OUT_OF_MEMORY, "variables that are larger than the slice")
    case.equal(shell.ok("info"), [64 * MIB, 64 * MIB], "after a refusal")
    shell.ok("load", some)
    case.equal(shell.ok("info")[0], 56 * MIB - 1024, "free beside the variables of a module")
    case.equal(shell("alloc", 56 * MIB - 1023)[0], OUT_OF_MEMORY, "a byte beyond the sum")
    shell.ok("load", fat)
    case.equal(shell.ok("info")[0], 24 * MIB - 1024, "free beside those of a fat binary's largest part")
    case.equal(shell("load", fat)[0], OUT_OF_MEMORY, "the same once more")
    case.equal(shell.ok("info")[0], 24 * MIB - 1024, "after a second refusal")
    shell.ok("unload")
    case.equal(shell.ok("info")[0], 56 * MIB - 1024, "after its end")
    shell.ok("alloc", 56 * MIB - 1024)
    case.equal(shell("load", some)[0], OUT_OF_MEMORY, "a module where nothing is left")
    shell.ok("destroy")
    shell.begin()
    case.equal(shell.ok("info")[0], 64 * MIB, "free after the context's end")


def test_variables_of_a_linked_program_count(case):
    pool = case.pool()
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    case.equal(shell("link", image(case, "big.ptx", ptx_of(f".visible .global .b8 big[{65 * MIB}];")))[0],
               OUT_OF_MEMORY, "larger than the slice")
    shell.ok("link", image(case, "some.ptx", ptx_of(f".visible .global .b8 some[{20 * MIB}];")))
    case.equal(shell.ok("info")[0], 44 * MIB, "free beside them")


def test_variables_of_libraries_count_in_each_context(case):
    pool = case.pool()
    shell = pool.session(core=30, memory="64MiB").cudash().begin()
    some = image(case, "some.ptx", ptx_of(f".visible .global .b8 some[{20 * MIB}];"))
    big = image(case, "big.ptx", ptx_of(f".visible .global .b8 some[{30 * MIB}];"))
    shell.ok("library", some)
    case.equal(shell.ok("info")[0], 44 * MIB, "free beside a library in one context")
    shell.ok("context")
    case.equal(shell.ok("info")[0], 24 * MIB, "free beside it in two contexts")
    shell.ok("context")
    case.equal(shell("context")[0], OUT_OF_MEMORY, "a context for which too little is left")
    case.equal(shell.ok("info")[0], 4 * MIB, "after a refusal")
    shell.ok("destroy")
    case.equal(shell.ok("info")[0], 24 * MIB, "after the end of a context")
    shell.ok("unlibrary")
    case.equal(shell.ok("info")[0], 64 * MIB, "after the library's end")
    case.equal(shell("library", big)[0], SUCCESS, "as much as two contexts may have")
    shell.ok("unlibrary")
    shell.ok("context")
    case.equal(shell("library", big)[0], OUT_OF_MEMORY, "in three it is too much")
    case.equal(shell.ok("info")[0], 64 * MIB, "after a refused library")
    shell.ok("context")


def test_variables_of_a_killed_process_are_free_again(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    one, two = session.cudash().begin(), session.cudash().begin()
    some = image(case, "some.ptx", ptx_of(f".visible .global .b8 some[{20 * MIB}];"))
    one.ok("load", some)
    one.ok("library", some)
    case.equal(two.ok("info"), [24 * MIB, 64 * MIB], "what the other process sees")
    two.ok("load", some)
    case.equal(two("library", some)[0], OUT_OF_MEMORY, "beyond the sum of both")
    pool.kill(one.process.pid)
    case.wait_for(lambda: two("library", some)[0] == SUCCESS, "what a killed process had is free again")
    case.equal(two.ok("info"), [24 * MIB, 64 * MIB], "both of the process that is left")


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
