# SPDX-License-Identifier: Apache-2.0
"""`gpupool run --keep-ptx`: compilers that call ptxas get one that leaves PTX as it is, which a
software card runs."""

import os
import re
import stat

VARIABLES = ("CUDA_ROOT", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH",
             "MODULAR_NVPTX_COMPILER_PATH")
PTX = """// written by a compiler
/* of several lines
   */
.version 7.0
.target sm_70
.address_size 64
.visible .entry seven(.param .u64 p)
{
 .reg .b64 %a;
 ld.param.u64 %a, [p];
 cvta.to.global.u64 %a, %a;
 st.global.u32 [%a], 7;
 ret;
}
"""
# The toolkit as XLA finds it, and the program as Triton does, loaded as both load it.
LOADS = """
import ctypes, subprocess, os, sys
subprocess.run([os.environ["CUDA_ROOT"] + "/bin/ptxas", "kernel.ptx", "-o", "kernel.cubin",
                "-arch=sm_86", "--warn-on-spills"], check=True)
subprocess.run([os.environ["TRITON_PTXAS_PATH"], "-lineinfo", "-v", "--fmad=false",
                "--gpu-name=sm_86", "kernel.ptx", "-o", "other.cubin"], check=True)
assert open("kernel.cubin", "rb").read() == open("other.cubin", "rb").read()
cuda = ctypes.CDLL("libcuda.so.1")
image = open("kernel.cubin", "rb").read()
context, module, kernel, memory = (ctypes.c_void_p() for _ in range(4))
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"seven") == 0
cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4))
parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None) == 0
found = ctypes.c_uint32()
assert cuda.cuMemcpyDtoH_v2(ctypes.byref(found), memory, ctypes.c_size_t(4)) == 0
print(found.value, os.environ["CUPY_COMPILE_WITH_PTX"])
"""


def ptxas(case, *args, status=0):
    return case.run([case.build / "lib" / "ptx" / "bin" / "ptxas", *args], status=status)


def written(case, name="kernel.ptx", text=PTX):
    path = case.folder / name
    path.write_text(text)
    return path


def test_what_a_compiler_gets_runs_on_a_software_card(case):
    written(case)
    pool = case.pool()
    done = pool.run(*case.interpreter(), "-c", f"import os; os.chdir({str(case.folder)!r})\n{LOADS}",
                    options=("--keep-ptx",))
    case.equal(done.out.split(), ["7", "1"], "what the kernel wrote")


def test_without_it_compilers_find_their_own(case):
    done = case.pool().run("sh", "-c", " ".join(["echo", *(f"${{{name}:-none}}" for name in VARIABLES)]))
    case.equal(done.out.split(), ["none"] * len(VARIABLES), "the program's environment")


def test_each_compiler_is_told_in_its_own_words(case):
    done = case.pool().run("sh", "-c", " ".join(["echo", *(f"${name}" for name in VARIABLES)]),
                           options=("--keep-ptx",))
    ptxas = str(case.build / "lib" / "ptx" / "bin" / "ptxas")
    case.equal(done.out.split(), [ptxas.removesuffix("/bin/ptxas"), ptxas, ptxas, ptxas],
               "where they look")


def test_variables_of_the_user_come_last(case):
    done = case.pool().run("sh", "-c", "echo $CUDA_ROOT; basename $TRITON_PTXAS_PATH",
                           options=("--keep-ptx", "--env", "CUDA_ROOT=/mine"))
    case.equal(done.out.split(), ["/mine", "ptxas"], "the program's environment")


def test_the_text_is_left_as_it_is(case):
    source = written(case)
    image = PTX.encode() + b"\0"
    for number, output in enumerate((["-o", "{}"], ["-o{}"], ["--output-file", "{}"],
                                     ["--output-file={}"])):
        target = case.folder / f"out{number}"
        words = [word.format(target) for word in output]
        ptxas(case, "-arch", "sm_90a", "-O", "3", "--maxrregcount", "64", *words, source)
        case.equal(target.read_bytes(), image, f"what {words} writes")
        ptxas(case, "-optf", "options", source, "-arch=sm_86", *words)
        case.equal(target.read_bytes(), image, f"what {words} writes behind the file")


def test_dev_null_stays_what_it_is(case):
    ptxas(case, written(case), "-o", "/dev/null")
    case.check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is a device")


def test_its_version_is_read_as_compilers_read_it(case):
    said = ptxas(case, "--version").out
    case.check(re.search(r"release (\d+)\.(\d+), V\1\.\2\.\d+", said), f"a toolkit's version: {said}")
    case.contains(said, "gpupool", "whose it is")
    case.contains(ptxas(case, "--help").out, "--keep-ptx", "what it is for")


def test_mistakes_are_said(case):
    cubin = written(case, "machine.cubin", "\x7fELF")
    for args, words in (
            ((), "which file?"), ((cubin, "-o", "x"), "this is no PTX"),
            (("nowhere.ptx",), "No such file"), ((written(case), "-o"), "need a name"),
            ((written(case), "other.ptx"), "one file at a time"),
            ((written(case), "-o", case.folder / "no" / "such"), "No such file")):
        case.contains(ptxas(case, *args, status=255).err, words, f"ptxas {args}")


def test_what_is_linked_with_nvrtc_gets_ptx_for_machine_code(case):
    """Of a program, and of a library that another program loads for itself."""
    programs = case.build / "tests" / "programs" / "nvrtc"
    pool = case.pool()
    for words in ((programs / "compiles",), (programs / "loads", programs / "libcompiles.so")):
        case.equal(pool.run(*words, options=("--keep-ptx",)).out.splitlines(),
                   ["PTX: -DOF=sm_1 --gpu-architecture=compute_90a", "PTX: -arch compute_86",
                    "PTX: -arch=compute_75", "PTX:"], f"what {words} has")
        case.contains(pool.run(*words).out, "code: -arch sm_86", f"what {words} has without it")


def test_what_the_user_preloads_stays(case):
    if case.sanitizer:
        case.skip("the runtimes of sanitizers have to be preloaded first")
    own = case.build / "tests" / "programs" / "nvrtc" / "libnvrtc.so.13"
    done = case.pool().run("sh", "-c", "echo $LD_PRELOAD", options=("--keep-ptx",),
                           env={"LD_PRELOAD": str(own)})
    case.equal(done.out.strip(), f"{case.build}/lib/libgpupool-nvrtc.so.1:{own}", "what is preloaded")
