# SPDX-License-Identifier: Apache-2.0
"""The software GPU's kernels: `make bench ONLY=kernels`.

Each kernel's speed beside gcc -O3 of the same per-thread C, in one process on one core;
and the throughput of two processes on two cores beside that of one.  The aims are what
an interpreter of the same design reached before this one was written, as ratios to gcc
-O3 on the machine that it ran on.  Kernels compiled to machine code (docs/softgpu-jit.md)
are measured beside the interpreter, in turns."""
import os
import statistics
import subprocess

KERNELS = {"fma": 0.62, "saxpy": 0.037, "matmul": 1.12, "collatz": 0.51, "mandelbrot": 1.22}
AIMS = {f"softgpu_{name}_ratio": (f"software GPU, {name}: speed / gcc -O3, one core", aim, False)
        for name, aim in KERNELS.items()}
COMPILED = {"fma": 2.5, "saxpy": 2.5, "matmul": 1.0, "collatz": 2.5, "mandelbrot": 2.5}
AIMS.update({f"softgpu_jit_{name}_of_interpreter":
             (f"software GPU, {name}: machine code / interpreter", aim, False)
             for name, aim in COMPILED.items()})
AIMS["softgpu_two_cores"] = ("software GPU: two cores / one, least of the kernels", 1.9, False)


def together(program, cores, parse, env=None):
    """What `program` prints on each of `cores`, all at the same time."""
    runs = [subprocess.Popen(["taskset", "-c", str(core), program], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             env={**os.environ, "SOFTGPU_JIT": "0", **(env or {})})
            for core in cores]
    texts = [run.communicate()[0] for run in runs]
    if any(run.returncode for run in runs):
        raise RuntimeError(f"{program} failed")
    return [parse(text) for text in texts]


def measure(program, plugin, rounds, progress, parse):
    cores = sorted(os.sched_getaffinity(0))[:2]
    alone, ratios, compiled = [], [], []
    if not plugin.exists():
        progress(f"kernels: there is no {plugin.name} (build with llvm-14-dev): nothing is compiled")
    for number in range(rounds):
        progress(f"kernels: round {number + 1} of {rounds}")
        one = together(program, cores[:1], parse)[0]
        alone.append(one)
        if plugin.exists():
            jit = together(program, cores[:1], parse,
                           {"SOFTGPU_JIT": "wait", "SOFTGPU_JIT_LIB": str(plugin)})[0]
            compiled.append({f"softgpu_jit_{name}_of_interpreter":
                             one[f"softgpu_{name}_us"] / jit[f"softgpu_{name}_us"]
                             for name in COMPILED})
        if len(cores) == 2:
            two = together(program, cores, parse)
            ratios.append(min(sum(values[f"softgpu_{name}_gslots"] for values in two)
                              / one[f"softgpu_{name}_gslots"] for name in KERNELS))
    found = {key: statistics.median(values[key] for values in alone) for key in alone[0]}
    found.update({key: statistics.median(values[key] for values in compiled)
                  for key in (compiled[0] if compiled else ())})
    if ratios:
        found["softgpu_two_cores"] = statistics.median(ratios)
    return found
