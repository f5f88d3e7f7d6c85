# SPDX-License-Identifier: Apache-2.0
"""What a session gets is decided in the server: a client that starts again and again,
forks, speaks the protocol by hand, or asks for a million crumbs gets no more."""

import array
import select
import struct
import time

from harness import proc
from harness.cudash import OUT_OF_MEMORY, SUCCESS
from harness.raw import MALLOC, REPLY, RETAIN, Raw
from test_shares import Load, part_of_card

MIB = 1 << 20
LAUNCH_TIMEOUT = 702
FORK = """
import ctypes as c, os, sys
cu = c.CDLL("libcuda.so.1")
context, device, address = c.c_void_p(), c.c_int(), c.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuDeviceGet(c.byref(device), 0) == 0
assert cu.cuCtxCreate_v2(c.byref(context), 0, device) == 0
assert cu.cuMemAlloc_v2(c.byref(address), c.c_size_t(40 << 20)) == 0
pids = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        cu.cuInit(0)
        got = sum(cu.cuMemAlloc_v2(c.byref(address), c.c_size_t(20 << 20)) == 0
                  for _ in range(4))
        os._exit(got)
    pids.append(pid)
print(sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
print(cu.cuMemAlloc_v2(c.byref(address), c.c_size_t(24 << 20)))
"""


def intervals_of(case, session, number, seconds, *options):
    """Run a load of its own in the session, for so long; its kernels' intervals."""
    out = case.folder / f"bypass-{number}"
    load = case.spawn([case.build / "bench" / "shares", f"--out={out}", *options],
                      env=session.env)
    case.equal(load.stdout.readline(), "ready\n", "the load's first line")
    begin = time.time_ns() + int(20e6)  # it sleeps until then: no window is over unseen
    load.communicate(f"{begin} {begin + int(seconds * 1e9)}\n", timeout=case.patience * 3)
    case.equal(load.returncode, 0, "status of a load")
    pairs = array.array("Q", out.read_bytes())
    return list(zip(pairs[0::2], pairs[1::2]))


def test_process_per_kernel_gets_no_more_of_the_card(case):
    pool = case.pool()
    session = pool.session(core=10, memory="64MiB", options=("--policy", "fs"))
    found, begin = [], time.time_ns()
    while len(found) < 6:  # each is worth two seconds of a tenth
        found += intervals_of(case, session, len(found), 0.001, "--kernel-us=200000",
                              "--depth=2")
    last = max(stop for _, stop in found)
    had = sum(stop - start for start, stop in found)
    # What came last need not be paid for yet.
    part = (had - 200e6) / (last - begin)
    case.check(part < 0.16, f"{part * 100:.1f} % of the card for 10 %")


def test_threads_get_no_more_of_the_card(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB", options=("--policy", "fs"))
    begin = time.time_ns()
    found = sorted(intervals_of(case, session, 0, 2.0, "--kernel-us=500", "--threads=8"))
    covered, reached = 0, begin
    for start, stop in found:
        start = max(start, reached)
        covered += max(stop - start, 0)
        reached = max(stop, reached)
    part = covered / (reached - begin)
    case.check(0.05 < part < 0.37, f"{part * 100:.1f} % of the card for 30 %")


def test_endless_kernels_again_and_again_do_not_starve_a_neighbour(case):
    """Measured beside the same load at the same time on a card of its own: a busy machine
    slows both down."""
    pool = case.pool(servers=2)
    first, = (pid for pid in pool.pids("gpupool-server")
              if "local-1" in proc.command_line(pid))
    pool.restart(first, "--work-limit", "1")
    neighbour, alone = (pool.session(core=50, memory="64MiB",
                                     options=("--policy", "bs", "--server", server))
                        for server in ("local-1", "local-2"))
    culprit = pool.session(core=10, memory="64MiB",
                           options=("--policy", "bs", "--server", "local-1"))
    loads = [Load(case, session, number, "--kernel-us=2000")
             for number, session in enumerate((neighbour, alone))]
    begin = time.time_ns()
    end = begin + int(8e9)
    for load in loads:
        load.go(begin, end)
    ended = 0
    while time.time_ns() < end - int(1.5e9):
        shell = culprit.cudash().begin()
        shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
        slot = shell.ok("alloc", MIB)
        shell.ok("store", slot, 0, 7)
        shell.ok("launch", "spin", 1, 32, slot, 7)
        shell.send("sync")
        while time.time_ns() < end and not proc_done(shell, LAUNCH_TIMEOUT):
            pass
        ended += 1
        shell.process.kill()
    case.check(ended >= 1, "no endless kernel ran at all")
    had, could = (part_of_card(load.intervals(), begin, end) for load in loads)
    # Its part is five sixths, of which one endless kernel may take a second at a time.
    case.check(had > could / 2, f"{had * 100:.1f} % for the neighbour, which has "
               f"{could * 100:.1f} % of a card alone, {ended} endless kernels")


def proc_done(shell, result):
    """Whether the answer to a command is there; it must be @result."""
    if not select.select([shell.process.stdout], [], [], 0.1)[0]:
        return False
    shell.case.equal(shell.answer()[0], result, "sync of the culprit")
    return True


def test_forked_children_get_no_memory_beyond_the_limit(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB")
    result = session.run(*case.interpreter(), "-c", FORK)
    case.equal(result.out.split(), ["0", "0"],
               "allocations of eight children of 20 MiB each, and the parent's last 24")


def test_crumbs_are_limited_in_number_and_cost_the_server_little(case):
    pool = case.pool()
    session = pool.session(core=30, memory="16MiB")
    program = case.spawn([case.programs / "tiny", "2000000"], env=session.env)
    worker, = case.wait_for(pool.workers, "the worker")
    first = program.stdout.readline().split()
    memory = proc.memory_bytes(worker)
    most = 16384 + 16 * MIB // 4096
    case.equal(first, [str(most), str(OUT_OF_MEMORY), str(16 * MIB - most), str(16 * MIB)],
               "bytes had one at a time, the refusal, free then, free afterwards")
    case.equal(program.stdout.readline().split(), first, "the same again")
    case.check(memory < 256 * MIB, f"the worker has {memory / MIB:.0f} MiB")


def raw_client(case, session):
    """A client by hand with a context: its context's index is 1."""
    raw = Raw(case, session)
    raw.sock.sendall(raw.frame(RETAIN, struct.pack("<q", 0)))
    size, _, _, _, result = struct.unpack("<IHHIi", raw.take(16))
    raw.take(size - 16)
    case.equal(result, SUCCESS, "a context for a client by hand")
    return raw


def raw_alloc(raw, size):
    raw.sock.sendall(raw.frame(MALLOC, struct.pack("<Q", size), flags=REPLY, ctx=1))
    length, _, _, _, result = struct.unpack("<IHHIi", raw.take(16))
    raw.take(length - 16)
    return result


def test_clients_by_hand_share_the_limits_of_their_session(case):
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB", options=("--processes", 3))
    clients = [raw_client(case, session) for _ in range(3)]
    had = sum(raw_alloc(raw, 5 * MIB) == SUCCESS for _ in range(10) for raw in clients)
    case.equal(had, 64 // 5, "pieces of 5 MiB that three clients had together")
    case.equal(raw_alloc(clients[0], (1 << 64) - 1), OUT_OF_MEMORY, "all there is")
    case.wait_for(lambda: pool.sessions()[0]["slices"][0]["used_bytes"] == had * 5 * MIB,
                  "the sum is reported")
    for raw in clients:
        raw.sock.close()
    case.wait_for(lambda: pool.sessions()[0]["slices"][0]["used_bytes"] == 0,
                  "nothing stays behind")


def test_launches_that_wait_for_each_other_in_a_bad_order_end(case):
    """A context destroyed under its kernels, freed memory that kernels use, modules
    unloaded in between: the session's books are even afterwards."""
    pool = case.pool()
    session = pool.session(core=30, memory="64MiB", options=("--policy", "fs"))
    other = pool.session(core=30, memory="64MiB").cudash().begin()
    for _ in range(3):
        shell = session.cudash().begin()
        shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
        slot = shell.ok("alloc", 8 * MIB)
        shell.ok("store", slot, 0, 0)
        shell.ok("flood", slot, 3000)
        shell("free", slot)
        shell("unload")
        shell("destroy")
        shell("sync")
        shell.close()
    other.ok("alloc", 64 * MIB)
    case.equal(other.ok("info"), [0, 64 * MIB], "the neighbour's memory")
    case.wait_for(lambda: {s["slices"][0]["used_bytes"] for s in pool.sessions()}
                  == {0, 64 * MIB}, "nothing stays behind")
