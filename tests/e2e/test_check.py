# SPDX-License-Identifier: Apache-2.0
"""SOFTGPU_CHECK: what is wrong in a kernel is said where the user looks, with its place."""

import re

from test_programs import local_driver

# Line 20 of race.cu reads what line 18 has written in another warp; fresh.cu reads memory
# that nothing was written to.
KERNELS = """.version 7.0
.target sm_70
.address_size 64
.file 1 "race.cu"
.file 2 "fresh.cu"
.visible .entry race(.param .u64 memory, .param .u32 n)
{
    .shared .align 4 .b8 words[256];
    .reg .b32 %r<8>;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, words;
    add.u32 %r4, %r3, %r2;
    .loc 1 18 5
    st.shared.u32 [%r4], %r1;
    xor.b32 %r5, %r2, 128;
    add.u32 %r5, %r3, %r5;
    .loc 1 20 9
    ld.shared.u32 %r6, [%r5];
    ret;
}
.visible .entry fresh(.param .u64 memory, .param .u32 n)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    .loc 2 7 1
    ld.global.u32 %r2, [%rd2];
    ret;
}
"""
RACE = ("gpupool: softgpu check: race on shared memory: load of 4 bytes at shared 0x0\n"
        "    at race.cu:20, PTX line 19, block (0,0,0), thread (32,0,0), lane 0, in race\n"
        "    was written at race.cu:18, PTX line 15, block (0,0,0), thread (0,0,0), lane 0\n")
FRESH = re.compile(r"gpupool: softgpu check: uninitialised memory: load of 4 bytes at global "
                   r"(0x[0-9a-f]+), where nothing was written to \1\n    at fresh\.cu:7, "
                   r"PTX line 30, block \(0,0,0\), thread \(0,0,0\), lane 0, in fresh\n")
PROGRAMS = ("vecadd", "matmul", "reduce", "histogram", "mandelbrot", "pipeline", "features",
            "graphs", "managed", "textures", "graphcopies", "linking", "nodes")


BOTH = ["alloc 4096"] + ["launch race 1 64 0 0", "launch fresh 1 32 0 0", "sync"] * 2


def commands(case, *lines):
    """Standard input for cudash, with the kernels loaded."""
    ptx = case.folder / "kernels.ptx"
    ptx.write_text(KERNELS)
    path = case.folder / "commands"
    path.write_text("\n".join(("init", "device 0", "context", f"load {ptx}") + lines) + "\n")
    return open(path, encoding="utf-8")


def test_findings_have_kernel_line_and_lane(case):
    env = dict(local_driver(case), SOFTGPU_CHECK="1", SOFTGPU_CHECK_EXIT="77")
    with commands(case, *BOTH) as stdin:
        done = case.run([case.programs / "cudash"], stdin=stdin, env=env, status=77)
    case.contains(done.err, RACE, "what is said of the race")
    case.check(FRESH.search(done.err), f"what is said of memory never written:\n{done.err}")
    case.equal(done.err.count("race on shared"), 2, "each place is named once")
    case.contains(done.err, " in 3 places, 1 allocation not freed\n", "the summary")
    case.contains(done.err, "check: leak: 4096 bytes at 0x", "the allocation")
    case.contains(done.err, " of cuMemAlloc, ", "who made it")


def test_a_log_takes_the_findings_and_stderr_stays_the_programs(case):
    log = case.folder / "findings"
    env = dict(local_driver(case), SOFTGPU_CHECK="races,init", SOFTGPU_CHECK_LOG=str(log))
    with commands(case, *BOTH, "free 0") as stdin:
        done = case.run([case.programs / "cudash"], stdin=stdin, env=env)
    case.equal(done.err, "", "standard error")
    case.contains(log.read_text(), RACE, "the log")
    case.contains(log.read_text(), " in 3 places, 0 allocations not freed\n", "its last line")


def test_what_is_not_asked_for_is_not_looked_for(case):
    env = dict(local_driver(case), SOFTGPU_CHECK="races")
    with commands(case, *BOTH) as stdin:
        done = case.run([case.programs / "cudash"], stdin=stdin, env=env)
    case.contains(done.err, RACE, "the race")
    case.check("uninitialised" not in done.err and "leak" not in done.err, "nothing else")


def test_findings_of_a_remote_card_reach_the_user(case):
    pool = case.pool(env={"SOFTGPU_CHECK": "1"})
    session = pool.session()
    env = dict(session.env, GPUPOOL_TRANSPORT="tcp")
    with commands(case, *BOTH) as stdin:
        done = case.run([case.programs / "cudash"], stdin=stdin, env=env)
    case.contains(done.err, RACE, "what the client's user sees of the race")
    case.check(FRESH.search(done.err), f"and of memory never written:\n{done.err}")


SUMMARY = re.compile(r"gpupool: softgpu check: (\d+) errors? in (\d+) places?, (\d+) "
                     r"allocations? not freed")


def run_remote(case, stdin, *options, status=0, variables="1", env=None):
    """The outcome of `gpupool run` of cudash, over TCP, on a checked card."""
    pool = case.pool(env={"SOFTGPU_CHECK": variables})
    with stdin:
        return pool.run(case.programs / "cudash", options=options, stdin=stdin, status=status,
                        env=dict(env or {}, GPUPOOL_TRANSPORT="tcp"))


def test_the_user_of_a_remote_card_gets_leaks_and_the_summary(case):
    done = run_remote(case, commands(case, *BOTH))
    case.contains(done.err, RACE, "the race")
    case.contains(done.err, "check: leak: 4096 bytes at 0x", "the allocation")
    found = SUMMARY.findall(done.err)
    case.equal(len(found), 1, f"last lines in:\n{done.err}")
    case.equal(found[0][1:], ("3", "1"), "places and allocations")
    case.check(done.err.rstrip().splitlines()[-1].startswith("gpupool: softgpu check: "),
               f"the last line is the summary's: {done.err}")


def test_run_exits_as_told_when_something_was_found(case):
    done = run_remote(case, commands(case, *BOTH), "--check-exit", 77, status=77)
    case.contains(done.err, " in 3 places, 1 allocation not freed\n", "the summary")


def test_a_leak_alone_is_something(case):
    done = run_remote(case, commands(case, "alloc 4096"), "--check-exit", 9, status=9)
    case.contains(done.err, "check: 0 errors in 0 places, 1 allocation not freed\n", "the summary")


def test_run_exits_as_the_program_when_nothing_was_found(case):
    done = run_remote(case, commands(case, "alloc 4096", "free 0"), "--check-exit", 77)
    case.contains(done.err, "check: 0 errors in 0 places, 0 allocations not freed\n",
                  "the summary")


def test_findings_do_not_cover_a_program_that_fails(case):
    pool = case.pool(env={"SOFTGPU_CHECK": "1"})
    commands(case, "alloc 4096").close()
    program = case.folder / "program"
    program.write_text(f"#!/bin/sh\n{case.programs / 'cudash'} < {case.folder / 'commands'}\n"
                       "exit 3\n")
    program.chmod(0o755)
    pool.run(program, options=("--check-exit", 77), status=3)


def test_many_leaks_are_counted_and_some_are_named(case):
    done = run_remote(case, commands(case, *["alloc 4096"] * 130), "--check-exit", 9, status=9)
    case.equal(done.err.count("check: leak: "), 100, "allocations that are named")
    case.contains(done.err, ", 130 allocations not freed, the first 100 of them named\n",
                  "the summary")


def test_a_card_that_checks_nothing_says_nothing(case):
    pool = case.pool()
    with commands(case, *BOTH) as stdin:
        done = pool.run(case.programs / "cudash", options=("--check-exit", 77), stdin=stdin)
    case.equal(done.err, "", "standard error")


def test_programs_that_keep_to_the_rules_are_not_accused(case):
    env = dict(local_driver(case), SOFTGPU_CHECK="init,races,barriers")
    for name in PROGRAMS:
        plain = case.run([case.programs / name, 1], env=local_driver(case), status=None)
        done = case.run([case.programs / name, 1], env=env, status=plain.status)
        case.equal(done.out, plain.out, f"{name}: what it prints under a check")
        case.contains(done.err, "check: 0 errors in 0 places, ", f"{name} under a check")


def test_what_is_no_check_fails_init(case):
    env = dict(local_driver(case), SOFTGPU_CHECK="races,rases")
    done = case.run([case.programs / "vecadd"], env=env, status=None)
    case.check(done.status != 0, "exit status")
    case.contains(done.err, "0, 1 or a list of faults, init, races, barriers and leaks is wanted",
                  "the error")


def test_a_pool_leaks_nothing_of_its_own(case):
    """What the worker allocates for itself is not counted: the same numbers here and there."""
    pool = case.pool(env={"SOFTGPU_CHECK": "1"})
    for name in ("vecadd", "managed", "nodes", "textures"):
        env = dict(local_driver(case), SOFTGPU_CHECK="1")
        here = case.run([case.programs / name, 1], env=env, status=None)
        there = pool.run(case.programs / name, 1, status=None)
        case.equal(SUMMARY.findall(there.err), SUMMARY.findall(here.err), f"{name} in a pool")
