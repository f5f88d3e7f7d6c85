# SPDX-License-Identifier: Apache-2.0
"""Random programs give the same on a software card and on a slice of one (docs/fuzzing.md)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "apifuzz"
# Uses processor time in a thread of that name, and in no other.
SPIN = """
import ctypes, sys, threading
def spin():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
    while True:
        pass
threading.Thread(target=spin).start()
"""

# Waits for a word that nobody writes.
HANGS = """0 ctx 0 0 0
0 st 1 1
0 da 2 64
0 set32 2 0 16 1 -1
0 stv 1 2 7
0 sts 1
"""
# The fuzzer's own sides, with less patience.
ONE_SIDE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import sides
sides.PATIENCE_S, sides.LOOK_EVERY_S, sides.GOES_ON_S = 2, 1, 1
folder = Path(sys.argv[3])
with sides.Sides(Path(sys.argv[2]), folder) as all:
    all.evidence.folder = folder / "kept"
    for side in all.all[1:3]:
        print(side.run(folder / "program").decode(), flush=True)
"""

# The addresses of page-locked memory are asked for, and kernels use it, inside a capture that forbids
# allocations.
ADDRESSES = """0 ctx 0 0 0
0 st 1 1
0 ha 1 4096 0
0 hfill 1 7
0 hm 2 4096
0 hr 2 2
0 hfill 2 8
0 cap 1 0
0 hasks 1
0 hasks 2
0 hstep 1 100 5 1
0 hstep 2 100 5 1
0 cape 1 1
0 gasks 1
0 inst 1 1
0 gl 1 1
0 sts 1
0 hhash 1
0 hhash 2
"""
# All sides, without room in their address space for a range that host and cards have in common.
NO_ROOM = r"""
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import sides
LIMIT = "import resource, os, sys\nresource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n" \
        "os.execv(sys.argv[1], sys.argv[1:])"
folder = Path(sys.argv[3])
with sides.Sides(Path(sys.argv[2]), folder) as all:
    outs = []
    for side in all.all:
        if side.front:
            side.front = [*side.front, sys.executable, "-c", LIMIT]
        outs.append(side.run(folder / "program"))
        print(side.name, outs[-1].decode(), flush=True)
print("the same" if len(set(outs)) == 1 else "others")
"""


def test_programs_answer_as_on_the_driver_itself(case):
    """Those that differed once, and random ones; where a port is given, over RDMA and TCP."""
    links = ["--links", "rdma,tcp", "--listen", os.environ["E2E_LISTEN"]] \
        if os.environ.get("E2E_TRANSPORT") == "rdma" else []
    done = case.run([sys.executable, "-B", FOLDER / "fuzz.py", "--build", case.build, *links, "--programs", 8,
                     "--program", *sorted((FOLDER / "programs").iterdir())],
                    env={"TMPDIR": str(case.folder)})
    case.contains(done.out, "differences at none", "the last line")


def test_programs_answer_the_same_where_host_and_cards_have_no_addresses_in_common(case):
    """Page-locked memory has another address on each server's card there."""
    if case.sanitizer:
        case.skip("the sanitizer's runtime needs more address space than the test leaves")
    done = case.run([sys.executable, "-B", FOLDER / "fuzz.py", "--build", case.build, "--no-range", "--programs", 8,
                     "--program", *sorted((FOLDER / "programs").iterdir())],
                    env={"TMPDIR": str(case.folder)})
    case.contains(done.out, "differences at none", "the last line")


def test_programs_printed_as_c_compile_and_run(case):
    """What the fuzzer prints of a difference."""
    root = FOLDER.parents[1]
    compiler = [*os.environ.get("CC", "gcc").split(), "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Werror",
                *(f"-I{folder}" for folder in (FOLDER, root / "proto", root / "common",
                                               case.build / "gen"))]
    if case.sanitizer:
        compiler.append(f"-fsanitize={case.sanitizer}")
    sources = []
    for program in sorted((FOLDER / "programs").iterdir()):
        with program.open() as lines:
            text = case.run([sys.executable, "-B", FOLDER / "as_c.py"], stdin=lines).out
        sources.append(case.folder / f"{program.name}.c")
        sources[-1].write_text(text)
    case.run([*compiler, "-fsyntax-only", *sources])
    replay = [path for path in FOLDER.glob("replay_*.c") if path.name != "replay_main.c"]
    case.run([*compiler, "-o", case.folder / "program", sources[0], *replay, "-pthread",
              f"-L{case.build / 'lib'}", "-l:libcuda.so.1"])
    local = case.folder / "local"
    local.mkdir()
    (local / "libcuda.so.1").symlink_to(case.build / "lib" / "libsoftgpu.so")
    done = case.run([case.folder / "program"], env={"LD_LIBRARY_PATH": str(local)})
    case.equal(done.out.splitlines()[0], "ctx 0", "what the first call answers")


def test_watchdog_counts_threads_that_only_ask_again_as_idle(case):
    """A program hangs when nothing but such threads runs behind it."""
    sys.path.insert(0, str(FOLDER))
    import watch

    for name, works in ("softgpu-poll", False), ("replay", True):
        child = subprocess.Popen([sys.executable, "-c", SPIN, name])
        try:
            def used(child=child):
                return watch.stat(Path(f"/proc/{child.pid}"))[2]

            case.wait_for(lambda: used() >= 20, "the thread runs")
            before = watch.progress(child.pid, case.folder)
            case.wait_for(lambda: used() >= 20 + 4 * watch.IDLE_TICKS, "it has used processor time")
            done = watch.progress(child.pid, case.folder) - before
            case.equal(done >= watch.IDLE_TICKS, works, f"{name}: {done} ticks of progress")
        finally:
            child.kill()
            child.wait()


def test_watchdog_takes_evidence_before_it_ends_a_program(case):
    """Where every thread of the program, of its worker and of the pool is, over each transport."""
    (case.folder / "program").write_text(HANGS)
    done = case.run([sys.executable, "-B", "-c", ONE_SIDE, FOLDER, case.build, case.folder])
    case.contains(done.out, "HANGS after", "what the program answers")
    files = sorted((case.folder / "kept").iterdir())
    case.equal([path.name.split("-")[0] for path in files], ["shm", "tcp"], "a file for each")
    for path in files:
        case.contains(done.out, f"is in {path}", "the output")
        text = path.read_text()
        for part in "stv 0", "replay:", "gpupool-worker", "gpupool-server", "local-1.log", \
                "It printed nothing":
            case.contains(text, part, path.name)
        # What one may read of other processes, and with what, is the machine's to say.
        if shutil.which("gdb") and "not permitted" not in text:
            case.contains(text, "cuStreamSynchronize", f"the stacks of {path.name}")
    over_shm, over_tcp = (path.read_text() for path in files)
    if "ring at" in over_shm and "Permission denied" not in over_shm:
        case.contains(over_shm, "bytes in it, producer sleeps 0, consumer sleeps", "the rings")
    if shutil.which("ss"):
        case.contains(over_tcp, "ESTAB", "the sockets")


def test_no_capture_forbids_asking_for_the_address_of_page_locked_memory(case):
    """Also where the answer takes an allocation, because host and cards have no addresses in common."""
    if case.sanitizer:
        case.skip("the sanitizer's runtime needs more address space than the test leaves")
    (case.folder / "program").write_text(ADDRESSES)
    done = case.run([sys.executable, "-B", "-c", NO_ROOM, FOLDER, case.build, case.folder])
    case.contains(done.out, "gasks 0 2", "nodes in the graph")
    case.equal(done.out.splitlines()[-1], "the same", "what all sides answer")
