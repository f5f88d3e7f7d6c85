# SPDX-License-Identifier: Apache-2.0
"""The paths that copies take in the worker, by the names that it logs."""

import re

MIB = 1 << 20
LOG = {"GPUPOOL_LOG": "copy:debug"}


def paths(pool, begun=0):
    return set(re.findall(r"copy: (h2d|d2h) (\d+) bytes: path (\w+), because", pool.log()[begun:]))


def taken(case, transport, size):
    """{(direction, path)} of a blocking copy of @size bytes there and back."""
    pool = case.pool(env=LOG)
    shell = pool.session(core=50).cudash({"GPUPOOL_TRANSPORT": transport}).begin()
    slot = shell.ok("alloc", size)
    shell.ok("copy", slot, size)
    pool.kill(shell.process.pid)
    case.wait_for(lambda: ": detached" in pool.log(), "the worker's lines are in the server's log")
    return {(direction, path) for direction, n, path in paths(pool) if int(n) == size}


def test_short_copies_go_inline_and_through_staging(case):
    case.equal(taken(case, "shm", 4096), {("h2d", "inline"), ("d2h", "staging")}, "paths")


def test_long_copies_over_shared_memory_use_the_ring(case):
    case.equal(taken(case, "shm", 4 * MIB), {("h2d", "ring"), ("d2h", "ring")}, "paths")


def test_copies_down_over_shared_memory_use_the_ring_from_16_kib_on(case):
    case.equal(taken(case, "shm", 64 << 10), {("h2d", "staging"), ("d2h", "ring")}, "paths")


def test_long_copies_over_tcp_go_through_staging(case):
    case.equal(taken(case, "tcp", 4 * MIB), {("h2d", "staging"), ("d2h", "staging")}, "paths")


def test_lengths_of_pieces_are_tried_over_tcp_alone(case):
    """By whoever copies again and again; `sources` compares what has come."""
    pool = case.pool(env=LOG)
    for link, tried in (("shm", False), ("tcp", True)):
        pool.run(case.programs / "sources", env={"GPUPOOL_TRANSPORT": link})
        told = re.findall(r"copy: pieces of (\d+) bytes up and (\d+) down", pool.log())
        case.equal(any(up != "0" for up, _ in told), tried, f"{link}: lengths up, {told}")
        case.equal(any(down != "0" for _, down in told), tried, f"{link}: lengths down, {told}")


def test_copies_with_memory_that_both_map_are_named_shared_pinned(case):
    pool = case.pool(env=LOG)
    pool.run(case.programs / "pinned", env={"GPUPOOL_TRANSPORT": "shm"})
    names = {(direction, path) for direction, _, path in paths(pool)}
    case.check({("h2d", "shared_pinned"), ("d2h", "shared_pinned")} <= names, f"paths {names}")


def test_copies_that_nobody_waits_for_are_named_d2h_async(case):
    pool = case.pool(env=LOG)
    pool.run(case.programs / "landing", env={"GPUPOOL_TRANSPORT": "tcp"})
    names = {(direction, path) for direction, _, path in paths(pool)}
    case.check(("d2h", "d2h_async") in names, f"paths {names}")


def test_client_logs_the_path_of_every_shape_of_copy(case):
    pool = case.pool()
    # Over shared memory page-locked memory is the card's at the same address.
    ran = "".join(pool.run(case.programs / program, status=None,
                           env={**LOG, "GPUPOOL_TRANSPORT": link}).err
                  for program, link in (("features", "shm"), ("moves", "shm"),
                                        ("landing", "shm"), ("landing", "tcp")))
    found = set(re.findall(r"copy: ([\w-]+(?: \w+)?) copy of \d+ bytes: path (\w+), because",
                           ran))
    wanted = {("host-to-device", "inline"), ("device-to-host", "payload"),
              ("host-to-device box", "payload"), ("device-to-host box", "payload"),
              ("device-to-host box", "d2h_async"), ("device-to-device box", "device_copy"),
              ("host-to-device array", "inline"), ("device-to-host array", "payload")}
    case.equal(wanted - found, set(), f"paths that are missing of {sorted(found)}")
