#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make test-clients`: clients that nobody adapted, through `gpupool run`.

Each client is a program beside this file (see client.py for what it prints) and a
list of packages in requirements/.  They are installed into one virtual environment,
BUILD/clients-venv or $GPUPOOL_CLIENTS_VENV (some into one beside it), and kept; a
client whose packages cannot be had is skipped by name, and one whose packages are large
unless it is asked for (--only) or they are there.  Each runs on a slice of one software
card, or on the null driver.

Prints one line PASS, FAIL or SKIP for each check, then `N passed, N failed, N skipped`;
the exit status is 0 only if none failed.  What a client said is in
BUILD/clients-logs/NAME.log.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chosen import end_if_none, matches  # noqa: E402
from failed_calls import FailedCalls  # noqa: E402
from pool import Pool, Tally, last_line  # noqa: E402

HERE = Path(__file__).resolve().parent
MEMORY = 1 << 30


class Client:
    """A program, what it is called, and what it needs around it.

    @env: {libraries} in a value is the folder of the packages' shared libraries.

    @card: the environment of `gpupool up`: which card is simulated.
    @packages: the names of lists in requirements/, installed one after the other, the
    program's own by default; empty: the system's Python and the toolkit.

    @servers: of the pool, with a card each; the session has all of them.

    @apart: its packages have an environment of their own, where no other client takes
    them for its own.

    @memory: of its slice, in bytes; @limit_s: seconds that it may take.

    @module: run by a Python that has it: $GPUPOOL_GPU_PYTHON, or one that other clients
    or `make test-gpu` have made.

    @tool: a program of the system that it is about.

    @settings: files in the home directory of whoever installs the packages, which are
    built here: {name: text}.

    @device_file: run it where /dev has a driver's file (device_file.sh; root).

    @keep_ptx: its compilers leave PTX as it is, for a software card.

    @large: how much its packages are, which nobody fetches by chance.

    @refused: calls that may be refused, each with the reason.  On the null driver all
    others must be carried.
    """

    def __init__(self, name, program, env=None, driver="softgpu", card=None, packages=None,
                 module="", servers=1, apart="", memory=MEMORY, limit_s=300, refused=None,
                 large="", device_file=False, tool="", settings=None, keep_ptx=False):
        self.name = name
        self.program = HERE / f"{program}.py"
        self.env = env or {}
        self.driver = driver
        self.card = card or {}
        self.packages = (program if packages is None else packages).split()
        self.module = module
        self.servers = servers
        self.apart = apart
        self.memory = memory
        self.limit_s = limit_s
        self.refused = refused or {}
        self.large = large
        self.device_file = device_file
        self.tool = tool
        self.settings = settings or {}
        self.keep_ptx = keep_ptx

    def requirements(self):
        return [HERE / "requirements" / f"{name}.txt" for name in self.packages]


# They look for NVRTC, or for all of the toolkit, as shared libraries of the system.
NVRTC_WHEEL = {"LD_LIBRARY_PATH": "{libraries}"}
CUPY_PTX = {"CUPY_COMPILE_WITH_PTX": "1"}
# Where nothing is computed, nothing is to be tuned.
NO_TUNING = {"XLA_FLAGS": "--xla_gpu_autotune_level=0", "TF_CUDNN_USE_AUTOTUNE": "0"}
# Products of matrices by XLA's own kernels, for those of cuBLAS are machine code.
PRODUCTS_IN_PTX = ("--xla_gpu_cublas_fallback=false", "--xla_gpu_triton_gemm_any=true",
                   "--xla_gpu_autotune_level=0")
# What an H200 says of itself, as far as libraries choose their kernels by it.
HOPPER = {"NULLDRV_ATTRIBUTES": "16=132,34=6,38=62914560,39=2048,75=9,76=0,81=233472,97=232448,"
                                "106=32,111=1024,120=1"}
CLIENTS = [
    Client("pynvml", "management"),
    Client("pynvml-servers", "management_servers", packages="management", servers=2),
    Client("gputil-ray", "management_consumers", apart="-ray"),
    Client("cuda-bindings", "bindings"),
    Client("nvrtc", "linked_nvrtc", packages="bindings", keep_ptx=True),
    Client("cuda-core", "objects_cudacore", NVRTC_WHEEL, apart="-core"),
    Client("numba-cuda", "jit_numba"),
    Client("cupy", "arrays_cupy", {**CUPY_PTX, "CUPY_ACCELERATORS": ""}),
    # The wheel's CUB kernels carry PTX for this card alone.
    Client("cupy-cub", "arrays_cupy", CUPY_PTX, card={"SOFTGPU_CC": "12.0"}),
    Client("tinygrad", "tensors_tinygrad", {**NVRTC_WHEEL, "DEV": "CUDA"}),
    Client("tinygrad-ptx", "tensors_tinygrad", {**NVRTC_WHEEL, "DEV": "CUDA:PTX"}),
    # Its own kernels are PTX for this card alone.
    Client("mlx-soft", "arrays_mlx", card={"SOFTGPU_CC": "12.0"}, apart="-mlx", large="3 GB", limit_s=900),
    Client("mlx", "arrays_mlx", {"ALL_CALLS": "1"}, driver="null", apart="-mlx", large="3 GB", memory=2 << 30,
           limit_s=900),
    Client("drjit", "arrays_drjit", apart="-drjit"),
    Client("slangpy", "shaders_slang", NVRTC_WHEEL, apart="-slang"),
    Client("luisa", "shaders_luisa", apart="-luisa", card={"SOFTGPU_MEMORY": "4GiB"}, memory=2 << 30),
    Client("halide", "pipelines_halide", apart="-halide"),
    # Its ready-made kernels are PTX for the cards that it has no machine code for.
    Client("blender", "render_blender", card={"SOFTGPU_CC": "9.0", "SOFTGPU_MEMORY": "4GiB"},
           memory=3 << 30, apart="-blender", limit_s=1500),
    Client("openmm", "forces_openmm", apart="-openmm", limit_s=900),
    Client("openmm-installation", "installation_openmm", packages="forces_openmm",
           apart="-openmm", memory=2 << 30, card={"SOFTGPU_MEMORY": "4GiB"}, limit_s=900),
    # Their wheels carry PTX for the newest cards that they know.
    Client("xgboost", "trees_xgboost", card={"SOFTGPU_CC": "12.0"}, apart="-trees",
           large="700 MB with NCCL"),
    Client("catboost", "trees_catboost", card={"SOFTGPU_CC": "12.0"}, apart="-trees",
           limit_s=900, large="270 MB"),
    Client("astra", "tomography_astra", card={"SOFTGPU_CC": "12.0"}, apart="-astra",
           large="700 MB"),
    Client("colmap", "views_pycolmap", card={"SOFTGPU_CC": "12.0"}, apart="-colmap",
           limit_s=900, large="600 MB"),
    Client("open3d", "clouds_open3d", card={"SOFTGPU_CC": "12.0"}, apart="-open3d",
           large="1.2 GB"),
    Client("qiskit", "circuits_qiskit", apart="-qiskit", large="3 GB"),
    Client("ffmpeg", "filters_ffmpeg", apart="-ffmpeg"),
    Client("cupoch", "clouds_cupoch", apart="-cupoch"),
    Client("qrack", "circuits_qrack", apart="-qrack"),
    Client("pmcx", "photons_pmcx", apart="-pmcx"),
    Client("taichi", "kernels_taichi", apart="-taichi"),
    Client("gstaichi", "kernels_taichi", {"TAICHI": "gstaichi"}, packages="kernels_gstaichi",
           apart="-gstaichi"),
    Client("quadrants", "kernels_taichi", {"TAICHI": "quadrants"}, packages="kernels_quadrants",
           apart="-quadrants"),
    Client("taichi-examples", "examples_taichi", packages="kernels_taichi", apart="-taichi",
           limit_s=3600),
    Client("hashcat", "cracks_hashcat", tool="hashcat", limit_s=1800),
    Client("warp", "own_tests_warp", apart="-warp", card={"SOFTGPU_MEMORY": "4GiB"},
           memory=2 << 30, limit_s=7200,
           large="130 MB, and its tests are compiled for half an hour"),
    Client("mujoco", "physics_mujoco", apart="-mujoco", limit_s=1200, large="600 MB"),
    # Only its source is on PyPI.
    Client("pycuda", "driver_pycuda", packages="headers_pycuda driver_pycuda",
           apart="-pycuda", settings={".aksetup-defaults.py": "CUDA_ENABLE_CURAND = False\n"}),
    Client("toolkit", "toolkit_null", driver="null", packages=""),
    Client("toolkit-hopper", "toolkit_null", driver="null", card=HOPPER, packages=""),
    # A driver that does not tell the parameters of kernels, as the runtime knows them.
    Client("toolkit-12", "toolkit_null", {**NVRTC_WHEEL, "TOOLKIT": "12"}, driver="null",
           card={"NULLDRV_CUDA_VERSION": "12010"}, packages="toolkit_12", apart="-12"),
    # Machine code for real cards: on the null driver every call must be carried.
    Client("pytorch", "../gpu/torch_tensors", driver="null", packages="", module="torch"),
    # Its allocator on virtual memory, with handles that could be shared.
    Client("pytorch-expandable", "../gpu/torch_tensors",
           {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, driver="null",
           packages="", module="torch"),
    Client("pytorch-hopper", "../gpu/torch_tensors", driver="null", card=HOPPER, packages="",
           module="torch"),
    Client("pytorch-gpt", "../gpu/torch_training", driver="null", packages="",
           module="torch"),
    Client("pytorch-libraries", "../gpu/libraries", driver="null", packages="",
           module="torch"),
    Client("pytorch-nccl", "../gpu/ranks_nccl", driver="null", packages="", module="torch"),
    Client("pytorch-collect-env", "collect_env_torch", driver="null", packages="",
           module="torch"),
    Client("triton", "kernels_triton", driver="null", apart="-torch", large="5 GB",
           limit_s=900),
    Client("triton-soft", "compute_triton", packages="kernels_triton", apart="-torch",
           keep_ptx=True, large="5 GB", limit_s=900),
    Client("liger-soft", "compute_liger", packages="kernels_triton kernels_liger",
           apart="-torch", keep_ptx=True, large="5 GB", limit_s=900),
    Client("fla-soft", "compute_fla", packages="kernels_triton kernels_fla", apart="-torch",
           keep_ptx=True, large="5 GB", limit_s=1800),
    # Its kernels are PTX for this card alone.
    Client("bitsandbytes", "weights_bitsandbytes", card={"SOFTGPU_CC": "12.0"},
           packages="kernels_triton weights_bitsandbytes", apart="-torch", large="5 GB", limit_s=900),
    Client("torch-compile-soft", "compute_inductor", packages="kernels_triton", apart="-torch",
           keep_ptx=True, large="5 GB", limit_s=900),
    # Kernels that come with it ready-made are PTX for this card alone.
    Client("jax-soft", "compute_jax", {"XLA_FLAGS": " ".join(PRODUCTS_IN_PTX)},
           card={"SOFTGPU_CC": "12.0"}, packages="networks_jax", apart="-jax", keep_ptx=True, large="4 GB", device_file=True,
           memory=2 << 30, limit_s=1200),
    Client("iree", "functions_iree", apart="-iree", large="400 MB"),
    Client("iree-graphs", "functions_iree", {"IREE_GRAPHS": "1"}, apart="-iree", large="400 MB"),
    Client("max", "graphs_max", {"MODULAR_CRASH_REPORTING_ENABLED": "false"}, apart="-max", keep_ptx=True,
           limit_s=1800, large="800 MB"),
    Client("jax", "networks_jax", NO_TUNING, driver="null", apart="-jax", large="4 GB",
           device_file=True, memory=2 << 30, limit_s=1200),
    Client("onnxruntime", "sessions_onnxruntime", driver="null", apart="-onnxruntime",
           large="3 GB", memory=2 << 30, limit_s=900),
    Client("tensorflow", "networks_tensorflow", {**NO_TUNING, **NVRTC_WHEEL}, driver="null",
           apart="-tensorflow", large="5 GB", memory=2 << 30, limit_s=1200),
]


class Environment:
    """A virtual environment; installs each list of packages once."""

    def __init__(self, build, apart=""):
        folder = os.environ.get("GPUPOOL_CLIENTS_VENV") or build / "clients-venv"
        self.folder = Path(f"{folder}{apart}")
        self.python = self.folder / "bin" / "python"
        self.build = build

    def libraries(self):
        folders = self.folder.glob("lib/python*/site-packages/nvidia/*/lib")
        return ":".join(str(folder) for folder in folders)

    def _settings(self, settings):
        """What a package that is compiled here finds: the toolkit's headers in other
        packages, our driver library to link with, and its @settings."""
        for name, text in settings.items():
            (self.folder / name).write_text(text)
        headers = self.folder.glob("lib/python*/site-packages/nvidia/*/include")
        return {**os.environ, "HOME": str(self.folder), "LIBRARY_PATH": str(self.build / "lib"),
                "CPATH": ":".join(str(folder) for folder in headers)}

    def lacks(self, requirements, large="", settings=None):
        """Install the packages; words when that cannot be done, or, if they are @large,
        is not wanted."""
        stamp = self.folder / f"{requirements.stem}.installed"
        wanted = requirements.read_text()
        if stamp.exists() and stamp.read_text() == wanted:
            return None
        if large:
            return f"its packages are {large}: name it (ONLY=) and they are fetched"
        if not self.python.exists():
            done = _quiet([sys.executable, "-m", "venv", self.folder])
            if done.returncode != 0:
                return f"no virtual environment ({last_line(done.stdout)})"
        done = _quiet([self.python, "-m", "pip", "install", "--quiet", "--retries", "1",
                       "--disable-pip-version-check", "-r", requirements],
                      self._settings(settings) if settings else None)
        if done.returncode != 0:
            return f"packages cannot be installed ({last_line(done.stdout)})"
        stamp.write_text(wanted)
        return None


def _quiet(command, env=None):
    return subprocess.run([str(word) for word in command], text=True, errors="replace", env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def judge(tally, client, lines, status, log):
    """One line for each check that the client had planned."""
    planned, seen, version = [], {}, ""
    for line in lines:
        word, _, rest = line.partition(" ")
        name, _, words = rest.partition(": ")
        if word == "plan":
            planned = rest.split()
        elif word == "version":
            version = rest
        elif word == "cuts":
            version += f", its link was cut {rest} times"
        elif word == "saw":  # what it saw is compared by `make test-gpu`
            seen[name] = ("ok", "")
        elif word in ("ok", "bad", "skip"):
            seen[name] = (word, words)
    print(f"--- {client.name}: {version or 'did not start'}", flush=True)
    if not planned:
        return tally.line("FAIL", client.name, f"exit status {status}, see {log}")
    for name in planned:
        word, words = seen.get(name, ("bad", f"not reached, exit status {status}, see {log}"))
        outcome = {"ok": "PASS", "bad": "FAIL", "skip": "SKIP"}[word]
        tally.line(outcome, f"{client.name}.{name}", words)
    if status != 0 and all(word != "bad" for word, _ in seen.values()) and \
            len(seen) == len(planned):
        tally.line("FAIL", f"{client.name}.exit", f"exit status {status}, see {log}")
    return None


def judge_calls(tally, client, failed_calls, log):
    """What it was refused; its own checks say whether it made any call at all."""
    refused = [call for call in failed_calls.not_carried() if call not in client.refused]
    tally.line("FAIL" if refused else "PASS", f"{client.name}.every_call_is_carried",
               f"not {', '.join(refused)}, see {log}" if refused else "")


def python_with(module, build):
    """A Python that has @module, or None: the one that the user names, or one that was made
    for other clients or for `make test-gpu`."""
    named = os.environ.get("GPUPOOL_GPU_PYTHON")
    for python in [named] if named else [Environment(build, f"-{module}").python,
                                         build / "gpu-venv" / "bin" / "python", sys.executable]:
        if shutil.which(python) and _quiet([python, "-c", f"import {module}"]).returncode == 0:
            return python
    return None


def run_client(build, environment, client, tally, asked_for, cut_ms):
    python = Path(sys.executable)
    if client.module:
        python = python_with(client.module, build)
        if not python:
            return tally.line("SKIP", client.name,
                              f"no Python with {client.module} (GPUPOOL_GPU_PYTHON; or name "
                              "triton, ONLY=, and its packages bring one)")
    for requirements in client.requirements():
        lacking = environment.lacks(requirements, "" if asked_for else client.large,
                                    client.settings)
        if lacking:
            return tally.line("SKIP", client.name, lacking)
        python = environment.python
    if client.tool and not shutil.which(client.tool):
        return tally.line("SKIP", client.name, f"{client.tool} is not installed")
    if client.device_file and os.geteuid() != 0:
        return tally.line("SKIP", client.name, "needs root, for a file in /dev")
    log = build / "clients-logs" / f"{client.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    words = {key: value.replace("{libraries}", environment.libraries())
             for key, value in client.env.items()}
    with Pool(build, client.driver, client.card, servers=client.servers) as pool:
        home = pool.folder.name
        failed_calls = FailedCalls(Path(home) / "failed-calls") if client.driver == "null" else None
        command = [python, client.program]
        if client.device_file:
            command.insert(0, HERE / "device_file.sh")
        if cut_ms:
            command[:0] = [sys.executable, HERE / "cut.py", build, cut_ms]
        lines, status = pool.run(command, {
            **words, "PYTHONDONTWRITEBYTECODE": "1", "CLIENT_MEMORY_BYTES": str(client.memory),
            "CLIENT_CARDS": str(client.servers),
            "HOME": home, "XDG_CACHE_HOME": home, "CUPY_CACHE_DIR": home,
        }, log, memory=client.memory, limit_s=client.limit_s,
            failed_calls=failed_calls, options=["--keep-ptx"] if client.keep_ptx else [])
        judge(tally, client, lines, status, log)
        if failed_calls:
            judge_calls(tally, client, failed_calls, log)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--only", default="", help="clients whose name matches")
    parser.add_argument("--cut", type=int, default=0, metavar="MS",
                        help="cut every client's link so often (0: never)")
    args = parser.parse_args()

    build = args.build.resolve()
    some = [client for client in CLIENTS if matches(client.name, args.only)]
    end_if_none(some, args.only, [client.name for client in CLIENTS])
    tally = Tally()
    for client in some:
        run_client(build, Environment(build, client.apart), client, tally, bool(args.only),
                   args.cut)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
