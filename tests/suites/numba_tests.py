# SPDX-License-Identifier: Apache-2.0
"""numba-cuda's own tests, which its wheel carries, linked by the driver (cuLink*).

Each module is a process of its own on a slice of its own, as one fault ends a context.
"""

import os
import re

from suite import HERE, Missing, Pool, Report, Result, SLICE, Venv, run_all, run_bounded

PACKAGES = ["numba", "numba-cuda", "cuda-bindings==13.0.*", "nvidia-cuda-nvrtc==13.0.*",
            "nvidia-cuda-runtime==13.0.*", "nvidia-nvvm==13.0.*", "numpy", "cffi", "psutil",
            "filecheck", "ml_dtypes", "pytest", "cupy-cuda13x>=14"]
TESTS = "numba.cuda.tests"
LIMIT_S = 2700
# One example fills 1.8 GB.
MEMORY = ["--memory", "3GiB"]
# They fail without any card's part: this pair of versions counts other cache files.
CPU_CACHE = ("test_cpu_and_cuda_reuse", "test_cpu_and_cuda_targets")
# What is no fault of the card's, by the words of the error.
NOT_APPLICABLE = [
    (r"CURAND_STATUS", "cuRAND's kernels are machine code"),
    (r"nvJitLink|nvjitlink", "wants nvJitLink, which makes machine code"),
    (r"nvdisasm|cuobjdump|disassemble", "looks at machine code"),
]


class Runner:
    def __init__(self, build, pool, venv):
        self.pool, self.venv = pool, venv
        self.logs = build / "suites" / "numba-cuda"
        self.logs.mkdir(parents=True, exist_ok=True)

    def env(self):
        home = self.pool.folder.name
        return {**self.pool.env, "PYTHONPATH": str(HERE / "site"), "HOME": home,
                "XDG_CACHE_HOME": home, "CUPY_CACHE_DIR": home, "CUPY_COMPILE_WITH_PTX": "1",
                "PYTHONDONTWRITEBYTECODE": "1"}

    def modules(self, only):
        lines, _ = run_bounded(
            [self.pool.gpupool, "run", *SLICE, "--",
             self.venv.python, "-m", "numba.runtests", "-l", TESTS], self.env(),
            self.logs / "list.log", LIMIT_S)
        names = {line.rsplit(".", 2)[0] for line in lines if line.startswith(TESTS)}
        return sorted(name for name in names if only in name)

    def one(self, module):
        lines, status = run_bounded(
            [self.pool.gpupool, "run", *SLICE, *MEMORY, "--",
             self.venv.python, "-W", "ignore", HERE / "unittest_lines.py", module],
            self.env(), self.logs / f"{module}.log", LIMIT_S)
        results = []
        for line in lines:
            if line.startswith("@"):
                outcome, name, why = (line[1:].split("\t") + [""])[:3]
                results.append(judged(outcome, name.removeprefix(TESTS + "."), why))
        if status != 0 or not results:
            results.append(Result(module, "FAIL", f"ended with exit status {status}"))
        return results


def judged(outcome, name, why):
    if outcome == "FAIL" and name.endswith(CPU_CACHE):
        return Result(name, "NA", "counts files in the cache of numba's CPU back end")
    if outcome == "FAIL":
        for pattern, words in NOT_APPLICABLE:
            if re.search(pattern, why):
                return Result(name, "NA", words)
    return Result(name, outcome, why)


def run(build, only):
    venv = Venv(build, "numba", PACKAGES)
    report = Report(build, "numba-cuda")
    card = {"SOFTGPU_SMS": str(os.cpu_count()), "SOFTGPU_MEMORY": "8GiB"}
    with Pool(build, "softgpu", card) as pool:
        runner = Runner(build, pool, venv)
        modules = runner.modules(only)
        if not modules:
            raise Missing("no such test, or its tests cannot be listed "
                          f"({runner.logs / 'list.log'})")
        run_all(modules, runner.one, report)
    return report.close()
