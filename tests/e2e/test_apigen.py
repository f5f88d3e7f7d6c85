# SPDX-License-Identifier: Apache-2.0
"""The generator: it keeps the wire contract, names the place of a mistake, and gives the
same bytes for the same input.  Where a toolkit is installed, its header agrees with ours.
"""

import os
import re
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("CC", "gcc").split()


def copy_of_proto(case):
    to = case.folder / "proto"
    shutil.copytree(
        REPOSITORY / "proto", to, ignore=shutil.ignore_patterns("__pycache__")
    )
    return to


def generate(case, proto, out, status=0):
    return case.run(
        [sys.executable, "-B", proto / "apigen", "generate", "--out", out],
        status=status,
    )


def replaced(case, path, old, new):
    text = path.read_text()
    case.check(
        old in text, f"{path.name} no longer has {old!r}: the test is out of date"
    )
    path.write_text(text.replace(old, new, 1))


def test_same_input_gives_the_same_bytes(case):
    proto = copy_of_proto(case)
    files = []
    for name, seed in (("a", "1"), ("b", "2")):
        out = case.folder / name
        case.run(
            [sys.executable, "-B", proto / "apigen", "generate", "--out", out],
            env={"PYTHONHASHSEED": seed},
        )
        files.append({p.name: p.read_text() for p in out.iterdir()})
    case.check(len(files[0]) > 60, "fewer files than there are families")
    case.equal(files[0] == files[1], True, "both runs agree")


def test_generated_files_are_read_only_and_name_their_source(case):
    proto = copy_of_proto(case)
    generate(case, proto, case.folder / "out")
    for path in (case.folder / "out").iterdir():
        case.equal(path.stat().st_mode & 0o222, 0, f"{path.name} can be written")
    text = (case.folder / "out" / "wrk_stream.c").read_text()
    case.check(
        re.search(r"/\* cuStreamCreate: proto/api/stream\.api:\d+ \*/", text),
        "cuStreamCreate names no line of stream.api",
    )


def test_every_frame_is_dispatched_once_and_hot_code_lies_together(case):
    proto = copy_of_proto(case)
    generate(case, proto, case.folder / "out")
    text = (case.folder / "out" / "wrk_dispatch.c").read_text()
    known = re.findall(r"^bool wrk_recv_(\w+)\(", (case.folder / "out" / "wrk_gen.h").read_text(), re.M)
    entries = re.findall(r"\[WIRE_CALL_(\w+)(?: - INTERNAL_FIRST)?\] = wrk_recv_(\w+),", text)
    case.equal(sorted(name for name, _ in entries), sorted(known), "the calls of both tables")
    case.check(all(name == function for name, function in entries), "each has its own function")
    launch = (case.folder / "out" / "wrk_launch.c").read_text()
    case.check("GP_HOT bool\nwrk_recv_cuLaunchKernel(" in launch, "a hot call")
    case.check("GP_HOT bool\nwrk_recv_cuParamSetv(" not in launch, "one that is not")


def test_locked_wire_form_cannot_change(case):
    proto = copy_of_proto(case)
    replaced(
        case,
        proto / "api" / "stream.api",
        "in     priority  i32",
        "in     priority  u64",
    )
    done = generate(case, proto, case.folder / "out", status=1)
    case.contains(
        done.err,
        "wire.lock: the wire form of cuStreamCreateWithPriority changed",
        "the refusal",
    )
    case.check(not (case.folder / "out").exists(), "it wrote files all the same")


def test_locked_number_cannot_be_given_up(case):
    proto = copy_of_proto(case)
    replaced(case, proto / "api" / "ctx.api", "cuCtxDisablePeerAccess", "cuCtxOther")
    done = generate(case, proto, case.folder / "out", status=1)
    case.contains(
        done.err, "wire form of cuCtxDisablePeerAccess changed", "the refusal"
    )


def test_number_used_twice_is_refused(case):
    proto = copy_of_proto(case)
    replaced(case, proto / "api" / "event.api", "call 0x0d02", "call 0x0d01")
    done = generate(case, proto, case.folder / "out", status=1)
    case.check(
        re.search(r"proto/api/event\.api:\d+: number 0x0d01 is cu\w+'s", done.err),
        f"the words do not name the place: {done.err}",
    )


def test_unknown_type_names_its_line(case):
    proto = copy_of_proto(case)
    replaced(
        case,
        proto / "api" / "stream.api",
        "in     priority  i32",
        "in     priority  i33",
    )
    done = generate(case, proto, case.folder / "out", status=1)
    case.check(
        re.search(r"proto/api/stream\.api:\d+: unknown type i33", done.err),
        f"the words do not name the place: {done.err}",
    )


def test_hand_written_call_needs_a_reason(case):
    proto = copy_of_proto(case)
    path = proto / "api" / "ctx.api"
    path.write_text(
        path.read_text() + "\ncall 0x03ff cuCtxWhy\n    since 1.0\n"
        "    reply none\n    server manual\n"
    )
    done = generate(case, proto, case.folder / "out", status=1)
    case.contains(done.err, "server by hand needs a why", "the refusal")


def test_pointer_in_a_structure_needs_a_rule(case):
    proto = copy_of_proto(case)
    replaced(
        case, proto / "api" / "structs.api", "    zero   win32HandleMetaData\n", ""
    )
    done = generate(case, proto, case.folder / "out", status=1)
    case.contains(
        done.err, "no rule for CUmemAllocationProp.win32HandleMetaData", "the refusal"
    )


def test_locked_call_may_gain_a_frame(case):
    proto = copy_of_proto(case)
    lock = proto / "wire.lock"
    line = next(l for l in lock.read_text().splitlines() if " cuCtxSetLimit " in l)
    lock.write_text(lock.read_text().replace(line, " ".join(line.split()[:2]) + " - -"))
    generate(case, proto, case.folder / "out")


def test_coverage_counts_every_exported_name(case):
    done = case.run(
        [sys.executable, "-B", REPOSITORY / "proto" / "apigen", "coverage"]
        + ["--stub", REPOSITORY / "client-stub", "--server", REPOSITORY / "server"]
    )
    last = done.out.strip().split("\n")[-1]
    found = re.fullmatch(r"carried (\d+), local (\d+), refused (\d+), of (\d+)", last)
    case.check(found, f"the last line is {last!r}")
    carried, local, refused, total = map(int, found.groups())
    case.equal(total, 637, "names of the driver's library")
    case.equal(carried + local + refused, total, "the sum")
    case.check(
        refused * 100 < total * 8, f"{refused} of {total} are refused: 8 % or more"
    )


# ------------------------------------------------------------------ a toolkit's header --


def toolkit(case):
    """The include folder of an installed CUDA 13 toolkit, or a skip."""
    homes = [
        os.environ.get("CUDA_HOME"),
        os.environ.get("CUDA_PATH"),
        "/usr/local/cuda",
    ]
    homes += sorted(str(p) for p in Path("/usr/local").glob("cuda-13*"))
    for home in filter(None, homes):
        header = Path(home) / "include" / "cuda.h"
        if header.exists() and "#define CUDA_VERSION 13000" in header.read_text():
            return header.parent
    return case.skip("no CUDA 13.0 toolkit is installed")


def compiled(case, source, folders):
    case.need_tool(COMPILER[0])
    out = case.folder / source.stem
    case.run(
        [*COMPILER, "-std=gnu11", "-w", *(f"-I{f}" for f in folders), source, "-o", out]
    )
    return case.run([out]).out.splitlines()


def test_every_function_is_declared_as_in_the_toolkit(case):
    include = toolkit(case)
    generate(case, REPOSITORY / "proto", case.folder / "gen")
    source = case.folder / "gen" / "check_decl.c"
    declared = source.read_text().count("CUresult cu")
    print(f"{declared} functions declared as we know them, after {include}/cuda.h")
    case.check(declared >= 637, "fewer than 637 declarations")
    case.run(
        [
            *COMPILER,
            "-std=gnu11",
            "-Wno-deprecated-declarations",
            f"-I{include}",
            "-fsyntax-only",
            source,
        ]
    )


def test_every_layout_and_value_is_the_toolkits(case):
    include = toolkit(case)
    generate(case, REPOSITORY / "proto", case.folder / "gen")
    ours = compiled(case, case.folder / "gen" / "check_ours.c", [REPOSITORY / "proto"])
    theirs = compiled(case, case.folder / "gen" / "check_theirs.c", [include])
    counts = [sum(l.startswith(word) for l in ours) for word in ("sizeof ", "offset ")]
    print(f"{counts[0]} sizes, {counts[1]} offsets, {len(ours) - sum(counts)} values")
    case.check(len(ours) > 1500, f"only {len(ours)} facts were compared")
    case.equal([l for l in ours if l not in set(theirs)], [], "facts that differ")


def test_functions_of_an_older_toolkit_are_declared_as_there(case):
    """E2E_OLD_CUDA names the include folder of a 12.x toolkit (its runtime's package from
    PyPI has one): what it declares, we declare the same way."""
    folder = os.environ.get("E2E_OLD_CUDA")
    if not folder:
        case.skip("E2E_OLD_CUDA names no include folder of CUDA 12.x")
    header = (Path(folder) / "cuda.h").read_text()
    generate(case, REPOSITORY / "proto", case.folder / "gen")
    source = (case.folder / "gen" / "check_decl.c").read_text()
    lines = re.findall(r"^(CUresult (cu\w+)\(.*?\);)$", source, flags=re.M | re.S)
    there = set(re.findall(r"\bcu[A-Z]\w+", header))
    kept = [line for line, name in lines if name in there]
    unknown = set(re.findall(r"CUDAAPI (cu\w+)\(", header)) - {name for _, name in lines}
    unknown = {name for name in unknown if f"{name}_v2" not in source}
    case.equal(unknown, set(), "functions that we do not know")
    case.check(len(kept) > 450, f"only {len(kept)} functions were compared")
    print(f"{len(kept)} functions declared as we know them, after {folder}/cuda.h")
    old = case.folder / "old.c"
    old.write_text(source[:source.index("CUresult cu")] + "\n".join(kept) + "\n")
    case.run([*COMPILER, "-std=gnu11", "-Wno-deprecated-declarations",
              f"-I{folder}", "-fsyntax-only", old])


def test_a_field_of_hand_written_meaning_needs_a_hand_at_the_worker(case):
    """What the generated dispatch does not understand it would give to the driver."""
    by_hand = '    server manual\n    why    "a pointer to host memory would be one into the worker"\n'
    value = "    out    value    struct CUstreamAttrValue\n"
    why = '    why    "which member of the union holds a handle follows from the attribute"\n'
    for name, old, new, words in (
        ("graph.api", by_hand, "",
         "cuGraphAddMemcpyNode: copyParams: CUDA_MEMCPY3D.srcHost needs a hand-written server"),
        ("stream.api", value + "    server manual\n" + why, value,
         "cuStreamGetAttribute: value: CUstreamAttrValue.programmaticEvent.event needs a"),
        ("memset.api", "  devptr\n", "  host\n", "dstDevice: host cannot travel"),
    ):
        proto = copy_of_proto(case)
        replaced(case, proto / "api" / name, old, new)
        run = generate(case, proto, case.folder / "out", status=1)
        case.contains(run.err, words, f"{name} without {old!r}")
        shutil.rmtree(proto)
