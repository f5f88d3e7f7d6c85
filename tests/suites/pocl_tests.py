# SPDX-License-Identifier: Apache-2.0
"""PoCL's own tests of OpenCL on CUDA: those that its build says a CUDA device passes.

PoCL compiles OpenCL to PTX by LLVM and launches it through the driver.  Its source is
Debian's of a later release; headers of the driver and the library of mathematical
functions (libdevice) are PyPI's.
"""

import os
import re
import shutil

import debian
from suite import Missing, Pool, Report, Result, Venv, mirror, need_tool, quiet, run_bounded

RELEASE, PACKAGE, LLVM = "trixie", "pocl", "llvm-config-15"
WHEELS = ["nvidia-cuda-runtime-cu12==12.4.*", "nvidia-cuda-nvcc-cu12==12.4.*"]
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DENABLE_CUDA=ON", "-DENABLE_HOST_CPU_DEVICES=OFF",
           "-DENABLE_ICD=ON", "-DENABLE_LOADABLE_DRIVERS=ON", "-DENABLE_TESTS=ON",
           "-DENABLE_EXAMPLES=ON"]
LIMIT_S = 1800
# It reads the third of two numbers, on the stack: beyond the last page, if they end one.
READS_PAST_ITS_BUFFER = "case_with_multiple_variable_length_loops_and_a_barrier_in_one"
LINE = re.compile(r"\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\s*(\S.*?)\s+[\d.]+ sec")


def source(build):
    """PoCL's source, unpacked; its build would ask for a whole toolkit."""
    folder = build / "suites" / PACKAGE
    if (folder / "done").exists():
        return folder / "source"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "source"):
        (folder / name).mkdir(parents=True)
    listed = folder / "sources.list"
    listed.write_text(f"deb-src [signed-by={debian.KEYS}] {mirror()} {RELEASE} main\n")
    apt = ["apt-get", "-o", f"Dir::Etc::sourcelist={listed}", "-o",
           "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={folder}/lists",
           "-o", f"Dir::Cache={folder}/cache", "-o", "APT::Sandbox::User=root"]
    quiet([*apt, "update"], folder, "no list of Debian's sources")
    quiet([*apt, "source", "--download-only", PACKAGE], folder, "its source cannot be had")
    quiet(["tar", "-xf", next(folder.glob("*.orig.tar.*")), "--strip-components=1", "-C",
           folder / "source"], folder, "its source cannot be unpacked")
    cmake = folder / "source" / "lib/CL/devices/cuda/CMakeLists.txt"
    cmake.write_text(cmake.read_text().replace(
        "find_package(CUDA REQUIRED)",
        "set(CUDA_INCLUDE_DIRS ${CUDA_TOOLKIT_ROOT_DIR}/include)"))
    (folder / "done").touch()
    return folder / "source"


def toolkit(build):
    """A folder with what PoCL needs of a toolkit: headers, and libdevice."""
    venv = Venv(build, PACKAGE, WHEELS)
    folder = build / "suites" / f"{PACKAGE}-toolkit"
    folder.mkdir(parents=True, exist_ok=True)
    for name, pattern in (("include", "cuda_runtime/include"), ("nvvm", "cuda_nvcc/nvvm")):
        found = list(venv.folder.glob(f"lib/python*/site-packages/nvidia/{pattern}"))
        if not found:
            raise Missing(f"the packages have no {pattern}")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(found[0])
    return folder


def built(build):
    """Its build folder; some minutes the first time."""
    for tool, package in (("cmake", "cmake"), ("ninja", "ninja-build"), (LLVM, "llvm-15-dev")):
        need_tool(tool, package)
    folder = build / "suites" / f"{PACKAGE}-build"
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "LIBRARY_PATH": str(build / "lib")}
    if not (folder / "build.ninja").exists():
        quiet(["cmake", "-G", "Ninja", *OPTIONS, f"-DWITH_LLVM_CONFIG={shutil.which(LLVM)}",
               f"-DCUDA_TOOLKIT_ROOT_DIR={toolkit(build)}", source(build)], folder,
              "it cannot be configured", env)
        print("--- pocl: compiling it takes some minutes", flush=True)
    quiet(["ninja"], folder, "it cannot be compiled", env)
    return folder


def environment(folder, pool):
    """For programs that are to find PoCL, and no other OpenCL."""
    return {"OCL_ICD_VENDORS": str(folder / "ocl-vendors"), "POCL_BUILDING": "1",
            "POCL_DEVICES": "cuda", "POCL_CACHE_DIR": pool.folder.name}


def judged(name, words):
    if READS_PAST_ITS_BUFFER in name:
        return Result(name, "NA", "reads past its buffer")
    if words == "Passed":
        return Result(name, "PASS")
    if "Skipped" in words or "Disabled" in words:
        return Result(name, "NA", "PoCL leaves it out")
    return Result(name, "FAIL", words.strip("*"))


def run(build, only):
    folder = built(build)
    report = Report(build, PACKAGE)
    with Pool(build, "softgpu", {"SOFTGPU_SMS": str(os.cpu_count())}) as pool:
        lines, status = run_bounded(
            [pool.gpupool, "run", "--core", "50", "--memory", "1GiB", "--", "ctest", "--test-dir",
             folder, "-L", "cuda", "-R", only or ".", "--timeout", "300", "-j",
             str(os.cpu_count())], {**pool.env, **environment(folder, pool)},
            folder / "ctest.log", LIMIT_S)
    found = [match for match in map(LINE.match, lines) if match]
    for match in found:
        report.add(judged(match[1], match[2]))
    if not any("tests failed out of" in line for line in lines):  # it was ended before
        report.add(Result("ctest", "FAIL", f"exit status {status} ({folder / 'ctest.log'})"))
    return report.close()
