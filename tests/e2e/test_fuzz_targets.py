# SPDX-License-Identifier: Apache-2.0
"""Every parser that faces a peer is in tests/fuzz/targets.txt, with its fuzz target or the
reason why it has none."""

import re
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("common", "proto", "transport", "client-stub", "server", "pool-scheduler", "cli",
         "softgpu", "drivers")

# What a source does that takes bytes of another process, or of a file, apart.
PARSES = re.compile(r"__unpack\(|\bgp_fatbin_next\(const|\bgp_image_measure\(const|"
                    r"\bxport_ring_read|\bticket_verify\(const|\bZSTD_decompress|"
                    r"\bjson_load(s|b|f|_file|_callback)\(|\bsqlite3_column_(blob|text)\(|"
                    r"\bgp_fds_recv\(sock|\brecvmsg\(|\bgetline\(|\bfgets\(|\bsrv_kept_map\(")


def listed():
    """(source, function, targets, reason) of each line."""
    for line in (ROOT / "tests/fuzz/targets.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            source, function, targets, *reason = line.split(None, 3)
            yield source, function, targets, " ".join(reason)


def built():
    return set(re.findall(r"call fuzz_target,(fuzz_\w+)",
                          (ROOT / "tests/fuzz/build.mk").read_text()))


def sources():
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.c")):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_every_parser_of_foreign_bytes_is_listed_with_its_fuzz_target(case):
    known = {source for source, *_ in listed()}
    found = {name for name, text in sources() if PARSES.search(text)}
    case.check(len(found) > 10, f"only {sorted(found)} look like parsers")
    case.equal(sorted(found - known), [], "parsers that tests/fuzz/targets.txt does not name")


def test_descriptors_are_received_in_one_place(case):
    """recvmsg() installs as many as the peer has sent, and who forgets one leaks it."""
    found = [name for name, text in sources() if re.search(r"\brecvmsg\(", text)]
    # The stub looks at a message without taking it, and gives no room for descriptors.
    case.equal(found, ["common/gp_fds.c", "client-stub/memory/stub_export.c"],
               "sources that call recvmsg()")


def test_list_of_fuzz_targets_says_what_is_there(case):
    targets = built()
    named = set()
    for source, function, names, reason in listed():
        path = ROOT / source
        case.check(path.exists(), f"{source} of the list is there")
        if function != "-":
            case.check(re.search(rf"^{function}\(", path.read_text(), re.M),
                       f"{source} defines {function}()")
        if names == "-":
            case.check(len(reason) > 20, f"{source}: why it has no target")
            continue
        named |= set(names.split(","))
    case.equal(sorted(named - targets), [], "targets of the list that are not built")
    # The generated decoders and the executor have no source of their own to name.
    case.equal(sorted(targets - named - {"fuzz_dispatch"}), [], "targets that the list leaves out")


def calls_of(seed):
    """Numbers of the calls in a seed of fuzz_worker, which is a client's frames."""
    data = seed.read_bytes()
    while len(data) >= 16:
        size, call = struct.unpack_from("<IH", data)
        yield call
        data = data[max(size & ~7, 16):]


def test_seeds_of_the_worker_reach_most_of_its_calls(case):
    """Seeds whose frames are not taken apart right end with the first payload."""
    calls = {call for seed in (ROOT / "tests/fuzz/seeds-worker").iterdir()
             for call in calls_of(seed)}
    known = {int(line.split()[0], 16)
             for line in (ROOT / "proto/wire.lock").read_text("ascii").splitlines()
             if not line.startswith("#")}
    case.check(len(calls & known) > 200, f"{len(calls & known)} calls are in the seeds")


def test_every_fuzz_target_has_a_floor_of_coverage(case):
    lines = (ROOT / "tests/fuzz/floors.txt").read_text().splitlines()
    floors = [line.split()[0] for line in lines if line and not line.startswith("#")]
    case.equal(sorted(floors), sorted(built()), "targets of tests/fuzz/floors.txt")
