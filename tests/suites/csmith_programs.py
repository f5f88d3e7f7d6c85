# SPDX-License-Identifier: Apache-2.0
"""Random C programs of Csmith, compiled by clang for a card, against the host's processor.

Csmith writes programs whose result C defines; each prints a checksum over its variables.
Here each becomes a kernel of one thread, at several levels of optimisation, and must come
to the checksum that the same program has on the host.
"""

import sys

from suite import HERE, Missing, Pool, Report, Result, SLICE, attempt, need_tool, run_all

SEEDS = range(1, 201)
LEVELS = ["-O0", "-O1", "-O2", "-O3"]
# Packed structures have members at odd addresses, where a card faults.
SHAPE = ["--no-argc", "--no-packed-struct", "--max-funcs", "8"]
HOST_LIMIT_S, LIMIT_S = 5, 300
CLANG = ["clang-19", "--target=nvptx64-nvidia-cuda", "-march=sm_86", "-w", "-S",
         "-ffp-contract=off", "-fwrapv", "-nostdlibinc", "-I/usr/include/csmith"]
# What the headers of the host are wanted for.
HEADERS = {
    "stdio.h": "#define printf(...) 0\n",
    "assert.h": "#define assert(condition) ((void)0)\n",
    "math.h": "static inline double fabs(double x) { return __builtin_fabs(x); }\n"
              "static inline float fabsf(float x) { return __builtin_fabsf(x); }\n",
    "string.h": "static inline int strcmp(const char *a, const char *b)\n"
                "{ while (*a && *a == *b) a++, b++; return *a - *b; }\n",
}
KERNEL = """
__attribute__((nvptx_kernel)) void k(unsigned *out)
{ program(); *out = crc32_context ^ 0xFFFFFFFFu; }
"""


class Programs:
    def __init__(self, build, pool):
        self.work = build / "suites" / "csmith"
        self.headers = self.work / "include"
        self.headers.mkdir(parents=True, exist_ok=True)
        for name, text in HEADERS.items():
            (self.headers / name).write_text(text)
        self.run_words = [pool.gpupool, "run", *SLICE, "--", sys.executable,
                          HERE / "checksum_of_kernel.py"]
        self.env = pool.env

    def one(self, seed):
        name, source = f"seed-{seed}", self.work / f"{seed}.c"
        expected, why = self.on_host(seed, source)
        if why:
            return Result(name, "NA", why)
        files = []
        text = source.read_text().replace("int main (void)", "static int program(void)")
        source.write_text(text + KERNEL)
        for level in LEVELS:
            files.append(self.work / f"{seed}{level}.ptx")
            status, said = attempt([*CLANG, level, "-I", self.headers, source, "-o", files[-1]],
                                   self.work, None, LIMIT_S)
            if status != 0:
                return Result(name, "NA", f"clang refuses it: {said.strip()[-80:]}")
        status, said = attempt([*self.run_words, *files], self.work, self.env, LIMIT_S)
        found = said.split("\n")[:len(files)]
        if found != [expected] * len(files):
            return Result(name, "FAIL", f"{expected} on the host, exit status {status}: "
                          f"{' '.join(said.split())[:160]}")
        for path in (source, *files):
            path.unlink()
        return Result(name, "PASS")

    def on_host(self, seed, source):
        """Its checksum there; or why it is not run."""
        program = source.with_suffix("")
        status, _ = attempt(["csmith", "--seed", seed, *SHAPE, "-o", source], self.work, None,
                            LIMIT_S)
        if status != 0:
            return None, "Csmith does not end"
        status, said = attempt(["gcc", "-w", "-O1", "-ffp-contract=off", "-fwrapv",
                                "-I/usr/include/csmith", source, "-o", program], self.work,
                               None, LIMIT_S)
        if status != 0:
            return None, f"gcc refuses it: {said.strip()[-80:]}"
        status, said = attempt([program], self.work, None, HOST_LIMIT_S)
        program.unlink()
        if status != 0:
            return None, "it does not end on the host in time"
        return f"{int(said.split()[-1], 16):08x}", None


def run(build, only):
    need_tool("csmith", "csmith, libcsmith-dev")
    need_tool("clang-19", "clang-19")
    seeds = [seed for seed in SEEDS if only in f"seed-{seed}"]
    if not seeds:
        raise Missing("no such test")
    report = Report(build, "csmith")
    with Pool(build, "softgpu", {"SOFTGPU_SMS": "2"}) as pool:
        run_all(seeds, Programs(build, pool).one, report)
    return report.close()
