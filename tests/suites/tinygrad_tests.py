# SPDX-License-Identifier: Apache-2.0
"""tinygrad's own tests of tensors and kernels, with its CUDA and its PTX back end.

The last source archive on PyPI that carries them is 0.12.0's, and it lacks the helpers
that some of them import: those are not applicable.  PyTorch, which many compare with,
is not installed; tests that want it are not applicable either.
"""

import os

from suite import HERE, Missing, Pool, Report, Result, SLICE, Venv, python_source, run_all, \
    run_bounded

VERSION = "0.12.0"
PACKAGES = [f"tinygrad=={VERSION}", "nvidia-cuda-nvrtc==13.0.*",
            "nvidia-cuda-runtime==13.0.*", "numpy"]
MODULES = ["test_arange", "test_assign", "test_const_folding", "test_edgecases",
           "test_fusion_op", "test_jit", "test_kernel_cache", "test_memory_planner",
           "test_method_cache", "test_opt_gemm", "test_pickle", "test_randomness",
           "test_renderer_failures", "test_setitem", "test_softmax_fusion",
           "test_stunning", "test_subbuffer", "test_symbolic_jit", "test_symbolic_ops",
           "test_tensor_variable", "test_tiny", "test_to_numpy", "test_zero_copy"]
BACKENDS = ["CUDA", "CUDA:PTX"]
LIMIT_S = 2700


def link(at, to):
    at.unlink(missing_ok=True)
    at.symlink_to(to)


def judged(outcome, name, why):
    if outcome == "FAIL":
        if "Failed to import" in why or "No module named" in why:
            return Result(name, "NA", "imports what the archive or the environment lacks")
        if "URLError" in why:
            return Result(name, "NA", "downloads data")
    return Result(name, outcome, why)


class Runner:
    def __init__(self, build, pool, venv, folder):
        self.pool, self.venv, self.folder = pool, venv, folder
        self.logs = build / "suites" / "tinygrad"
        self.logs.mkdir(parents=True, exist_ok=True)
        # It looks for the driver and for headers in one folder, elsewhere for NVRTC.
        root = build / "suites" / "tinygrad" / "cuda"
        root.mkdir(exist_ok=True)
        self.paths = {"CUDA_PATH": str(root)}
        link(root / "libcuda.so.1", build / "lib" / "libcuda.so.1")
        for path in venv.folder.glob("lib/python*/site-packages/nvidia/*/*"):
            if path.name == "include" and (path / "cuda_fp16.h").exists():
                link(root / "include", path)
            for library in path.glob("libnvrtc.so*"):
                self.paths["NVRTC_PATH"] = str(library)
                self.paths["LD_LIBRARY_PATH"] = str(path)

    def one(self, task):
        module, backend = task
        home = self.pool.folder.name
        env = {**self.pool.env, "PYTHONPATH": str(self.folder / "test"), "HOME": home,
               "XDG_CACHE_HOME": home, **self.paths,
               "PYTHONDONTWRITEBYTECODE": "1", "CACHELEVEL": "0", "CUDA": "1",
               "CUDA_PTX": "1" if backend == "CUDA:PTX" else "0"}
        lines, status = run_bounded(
            [self.pool.gpupool, "run", *SLICE, "--", self.venv.python, "-W", "ignore",
             HERE / "unittest_lines.py", module], env,
            self.logs / f"{module}-{backend}.log", LIMIT_S)
        results = []
        for line in lines:
            if line.startswith("@"):
                outcome, name, why = (line[1:].split("\t") + [""])[:3]
                results.append(judged(outcome, f"{backend} {name}", why))
        if not results or status is None or status < 0:
            results.append(Result(f"{backend} {module}", "FAIL", f"exit status {status}"))
        return results


def run(build, only):
    venv = Venv(build, "tinygrad", PACKAGES)
    folder = python_source(build, venv, "tinygrad", VERSION)
    tasks = [(module, backend) for backend in BACKENDS for module in MODULES
             if only in module]
    if not tasks:
        raise Missing("no such test")
    report = Report(build, "tinygrad")
    with Pool(build, "softgpu", {"SOFTGPU_SMS": str(os.cpu_count())}) as pool:
        run_all(tasks, Runner(build, pool, venv, folder).one, report)
    return report.close()
