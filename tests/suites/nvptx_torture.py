# SPDX-License-Identifier: Apache-2.0
"""GCC's execution tests (gcc.c-torture/execute) as programs for nvptx-none.

Debian has the offloading compiler alone, which reads what the host's compiler wrote
for an accelerator.  So each test is compiled by the host's as one declared target, then
by the accelerator's as a program of its own, with its start-up code and C library, and
run by nvptx-none-run.  The host's preprocessor defines what x86-64 is; tests that look
at that do not fit a card.
"""

import re

from suite import Missing, Pool, Report, Result, PLAIN, SLICE, attempt, gcc_source, need_tool, \
    options, run_all

TESTS = "gcc/testsuite/gcc.c-torture/execute"
LEVELS = ["-O0", "-O2"]
LIMIT_S = 300
# The host says how long a double is; on nvptx the longest has 64 bits.
HOST_FLAGS = ["-mlong-double-64"]
WRAP = "#pragma omp declare target\n#include \"{}\"\n#pragma omp end declare target\n"
BUILTIN_FLAGS = ("-fno-tree-dse -fno-tree-loop-distribute-patterns -fno-tracer "
                 "-fno-ipa-ra -fno-inline-functions").split()

# What GCC's own lists say an nvptx target has not (target-supports.exp).
NOT_NVPTX = ("alloca", "indirect_jumps", "label_values", "mmap", "nonlocal_goto",
             "return_address", "signal", "trampolines", "untyped_assembly", "unwrapped",
             "dfp", "fileio")
# What a card could not do either.
COUNTS = "wants printf to count characters; a card's counts arguments"
EMPTY = "the compiler's call with an empty structure is no valid PTX (ptxas refuses it too)"
NOT_ON_A_CARD = {
    "pr78622.c": COUNTS, "printf-1.c": COUNTS, "printf-chk-1.c": COUNTS,
    "vprintf-1.c": COUNTS, "vprintf-chk-1.c": COUNTS,
    "pr23324.c": EMPTY, "zero-struct-2.c": EMPTY,
    "pr28982b.c": "needs more local memory than the 512 KiB of a thread",
    "builtins/sprintf.c": "hands the host compiler's va_list to the card's C library",
}
# What the compilers say when they cannot, and what that means.
REFUSALS = [
    (r"sorry, unimplemented: target cannot support (label values|alloca|nonlocal goto)",
     "the compiler has no {0} on nvptx"),
    (r"sorry, unimplemented: (?:target cannot support )?([a-z ]+)",
     "the compiler has no {0} on nvptx"),
    (r"supports only 128-bit wide long double|unsupported mode '?XF|XFmode|'long double'",
     "long double of x86-64"),
    (r"unresolved symbol ([A-Za-z_0-9]+)", "newlib has no {0}"),
    (r"undefined (?:symbol|reference)[^A-Za-z_]*([A-Za-z_0-9]+)", "newlib has no {0}"),
    (r"alias definitions not supported|weak definition", "no such alias on nvptx"),
    (r"internal compiler error: ([^\n]{1,50})", "the compiler fails: {0}"),
    (r"(?:fatal )?error: ([^\n]{1,60})", "does not compile: {0}"),
]


class Torture:
    def __init__(self, build, pool, folder, level):
        self.folder = folder
        self.level = level
        self.work = build / "suites" / f"torture{level}"
        self.work.mkdir(parents=True, exist_ok=True)
        self.run_words = [pool.gpupool, "run", *SLICE, "--",
                          need_tool("nvptx-none-run", "nvptx-tools")]
        self.env = {**pool.env, **PLAIN}

    def one(self, source):
        test = str(source.relative_to(self.folder))
        name = f"{test} {self.level}"
        text = source.read_text(encoding="latin-1")
        extra = source.with_suffix(".x")
        extra = extra.read_text(encoding="latin-1") if extra.exists() else ""
        why = NOT_ON_A_CARD.get(test) or not_for_nvptx(text)
        if "*-flto*" in extra:
            why = "GCC skips it with link-time optimisation"
        if why:
            return Result(name, "NA", why)
        stem = "-".join(source.relative_to(self.folder).with_suffix("").parts)
        program = self.work / f"{stem}.exe"
        parts = [source]
        flags = options(text) + re.findall(r"^set additional_flags (-f\S+)", extra, re.M)
        if source.parent.name == "builtins":
            parts += [source.with_name(f"{source.stem}-lib.c"), source.parent / "lib/main.c"]
            flags += BUILTIN_FLAGS
        why = self.compile(stem, parts, flags, program)
        if why:
            return Result(name, "NA", why)
        status, said = attempt([*self.run_words, program], self.work, self.env, LIMIT_S)
        program.unlink()
        if status == 0:
            return Result(name, "PASS")
        last = ([line for line in said.strip().split("\n") if line] or [""])[-1]
        return Result(name, "FAIL", f"exit status {status}: {last[:160]}")

    def compile(self, stem, parts, flags, program):
        """Words when the compilers will not; None when @program is there."""
        objects = []
        for i, part in enumerate(parts):
            wrap = self.work / f"{stem}.{i}.c"
            wrap.write_text(WRAP.format(part))
            objects.append(self.work / f"{stem}.{i}.o")
            status, said = attempt(
                ["gcc-12", "-w", "-fopenmp", "-foffload=nvptx-none", *HOST_FLAGS, self.level,
                 *flags, "-I", part.parent, "-c", wrap, "-o", objects[-1]], self.work, PLAIN,
                LIMIT_S)
            wrap.unlink()
            if status != 0:
                return refusal(said)
        status, said = attempt(
            ["x86_64-linux-gnu-accel-nvptx-none-gcc-12", "-xlto", self.level, *flags,
             "-mmainkernel", *objects, "-o", program, "-lm"], self.work, PLAIN, LIMIT_S)
        for path in objects:
            path.unlink()
        return refusal(said) if status != 0 else None


def not_for_nvptx(text):
    for lacks in re.findall(r"dg-require-effective-target\s+\"?([a-z0-9_]+)", text):
        if lacks in NOT_NVPTX:
            return f"needs {lacks}, which nvptx has not"
    for targets in re.findall(r"dg-(?:skip-if|xfail-if|xfail-run-if)\s+\"[^\"]*\"\s*\{([^}]*)",
                              text):
        if "nvptx" in targets:
            return "GCC skips it on nvptx"
    if re.search(r"dg-require-(?:alias|weak)", text):
        return "needs an alias, which nvptx has not"
    if re.search(r"<signal\.h>|\bsignal *\(", text):
        return "needs signals"
    return None


def refusal(said):
    for pattern, words in REFUSALS:
        found = re.search(pattern, said)
        if found:
            return words.format(*[group.strip() for group in found.groups()])
    return "does not compile"


def run(build, only):
    need_tool("gcc-12", "gcc-12")
    need_tool("x86_64-linux-gnu-accel-nvptx-none-gcc-12", "gcc-12-offload-nvptx")
    folder = gcc_source(build) / TESTS
    sources = sorted(path for path in folder.rglob("*.c")
                     if not path.name.endswith("-lib.c") and path.parent.name != "lib")
    sources = [path for path in sources if only in path.name]
    if not sources:
        raise Missing("no such test")
    report = Report(build, "nvptx-torture")
    with Pool(build, "softgpu", {"SOFTGPU_SMS": "2"}) as pool:
        for level in LEVELS:
            run_all(sources, Torture(build, pool, folder, level).one, report)
    return report.close()
