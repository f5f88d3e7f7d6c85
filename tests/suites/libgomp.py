# SPDX-License-Identifier: Apache-2.0
"""libgomp's own tests of OpenMP target regions and OpenACC, offloaded to a card.

Of OpenMP only the tests that have target constructs; all of OpenACC in C, selected for
an nvidia device as libgomp's own test driver does.
"""

import re

from suite import Missing, Pool, Report, Result, PLAIN, SLICE, attempt, gcc_source, need_tool, \
    options, run_all

TESTS = "libgomp/testsuite"
OPENMP = ["libgomp.c", "libgomp.c-c++-common"]
OPENACC = ["libgomp.oacc-c", "libgomp.oacc-c-c++-common"]
OFFLOAD = ["-foffload=nvptx-none", "-foffload-options=-lm"]
ACC_FLAGS = ["-fopenacc", "-DACC_DEVICE_TYPE_nvidia=1", "-DACC_MEM_SHARED=0"]
LIMIT_S = 300
COMPILER_LIMIT_S = 1500
# What the card, the host and the compiler are, in the words of the tests.
TRUE = {"offload_target_nvptx", "offload_device", "offload_device_nonshared_as",
        "offload_device_nvptx", "openacc_nvidia_accel_selected",
        "openacc_nvidia_accel_present", "tls_runtime", "tls", "lto", "size32plus",
        "sync_int_long", "c", "fpic", "shared", "large_long_double", "weak_undefined",
        "vect_simd_clones", "__float128", "alloca", "i?86-*-*", "x86_64-*-*", "lp64",
        "*-*-linux*", "run_expensive_tests", "avx_runtime", "sse2_runtime", "pthread_h"}
CUDA = {"openacc_cuda": "the toolkit's headers", "openacc_cublas": "cuBLAS",
        "openacc_cudart": "the toolkit's runtime"}


def holds(selector):
    """A selector of the tests: names of which one must hold, or `!`, `&&` and `||`."""
    words = re.findall(r"&&|\|\||!|[^\s{}!&|]+", selector)
    either, all_so_far, negate = False, True, False
    for i, word in enumerate(words):
        if word == "!":
            negate = True
        elif word == "||" or (word != "&&" and i and words[i - 1] not in ("&&", "||", "!")):
            either, all_so_far = either or all_so_far, True
        if word not in ("!", "&&", "||"):
            all_so_far = all_so_far and (word in TRUE) != negate
            negate = False
    return either or all_so_far


class Test:
    """What a test asks of the one who runs it."""

    def __init__(self, source, text):
        self.text = text
        self.why_not = self._why_not()
        self.should_fail = any(holds(target) for target in re.findall(
            r"dg-shouldfail\s+\"[^\"]*\"\s*(?:\{(.*)\}\s*\})?", text))
        self.env = dict(re.findall(
            r"dg-set-target-env-var\s+\"?([A-Z_]+)\"?\s+\"([^\"]*)\"", text))
        self.sources = [source] + [
            source.parent / word for words in re.findall(
                r"dg-additional-sources\s+\"?([^\"}]*)", text) for word in words.split()]

    def _why_not(self):
        do = re.search(r"dg-do\s+\"?(\w+)\"?\s*(?:\{\s*target\s+(.*)\}\s*\})?", self.text)
        if do and do[1] != "run":
            return "compiles only"
        if do and do[2] and not holds(do[2]):
            return "is for another device"
        for lacks in re.findall(r"dg-require-effective-target\s+(\S+)", self.text):
            if lacks in CUDA:
                return f"needs {CUDA[lacks]}"
            if lacks not in TRUE:
                return f"needs {lacks}"
        for targets in re.findall(r"dg-(?:skip-if|xfail-if|xfail-run-if)\s+(?:\"[^\"]*\"|\w+)"
                                  r"\s*\{([^}]*)\}\s*(?:\}|\{\s*\"\*\")", self.text):
            if targets.strip() and holds(targets):
                return "GCC skips it or knows it to fail on this device"
        if re.search(r"dg-xfail-run-if.*\{ \*-\*-\* \} \{ \"-DACC_MEM_SHARED=0\" \}", self.text):
            return "GCC skips it or knows it to fail on this device"
        return None


class Runner:
    def __init__(self, build, pool, folder):
        self.folder = folder
        self.work = build / "suites" / "libgomp"
        self.work.mkdir(parents=True, exist_ok=True)
        self.pool = pool

    def one(self, source):
        test = Test(source, source.read_text(encoding="latin-1"))
        name = str(source.relative_to(self.folder))
        if test.why_not:
            return Result(name, "NA", test.why_not)
        program = self.work / f"{source.parent.name}-{source.stem}.exe"
        acc = source.parent.name in OPENACC
        command = ["gcc-12", "-w", "-O2", *(ACC_FLAGS if acc else ["-fopenmp"]), *OFFLOAD,
                   *options(test.text), "-I", self.folder.parent,
                   "-I", self.folder.parents[1] / "include", "-I", source.parent,
                   *test.sources, "-o", program, "-lm"]
        status, said = attempt(command, source.parent, PLAIN, COMPILER_LIMIT_S)
        if status is None:
            return Result(name, "FAIL", "the compiler ran out of time")
        if status != 0:
            found = re.search(r"(?:error|unresolved symbol):? ([^\n]{1,70})", said)
            return Result(name, "NA", f"does not compile: {found[1] if found else status}")
        env = {**self.pool.env, **PLAIN, "OMP_TARGET_OFFLOAD": "MANDATORY", **test.env}
        if acc:
            env["ACC_DEVICE_TYPE"] = "nvidia"
        status, said = attempt([self.pool.gpupool, "run", *SLICE, "--", program], source.parent, env, LIMIT_S)
        program.unlink()
        if (status == 0) != test.should_fail and status is not None:
            return Result(name, "PASS")
        last = ([line for line in said.strip().split("\n") if line] or [""])[-1]
        return Result(name, "FAIL", f"exit status {status}: {last[:160]}")


def run(build, only):
    need_tool("gcc-12", "gcc-12")
    need_tool("nvptx-none-as", "nvptx-tools")
    folder = gcc_source(build) / TESTS
    sources = [path for name in OPENMP + OPENACC
               for path in sorted((folder / name).glob("*.c"))
               if only in path.name and
               (name in OPENACC or re.search(r"omp\s+target|omp_target|omp_get_num_devices",
                                             path.read_text(encoding="latin-1")))]
    if not sources:
        raise Missing("no such test")
    report = Report(build, "libgomp")
    with Pool(build, "softgpu", {"SOFTGPU_SMS": "2"}) as pool:
        run_all(sources, Runner(build, pool, folder).one, report)
    return report.close()
