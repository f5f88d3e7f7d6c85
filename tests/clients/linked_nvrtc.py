# SPDX-License-Identifier: Apache-2.0
"""NVRTC as programs have it that are linked with it: by name, from all libraries that are
loaded.  They ask it for machine code, load that and launch it."""

import ctypes
from pathlib import Path

import nvidia
import numpy as np

from client import check, main

SOURCE = rb"""
extern "C" __global__ void triple(const int *x, int *out)
{
    out[threadIdx.x] = 3 * x[threadIdx.x];
}
"""
LIBRARY = next(path for folder in nvidia.__path__ for path in Path(folder).rglob("libnvrtc.so.*"))
ctypes.CDLL(str(LIBRARY), ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(None)
cuda = ctypes.CDLL("libcuda.so.1")


def ok(status):
    if status:
        raise RuntimeError(f"error {status}")


def machine_code(*options):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    ok(nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"triple.cu", 0, None, None))
    ok(nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)))
    ok(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    ok(nvrtc.nvrtcGetCUBIN(program, code))
    ok(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
    return code


def context():
    handle = ctypes.c_void_p()
    ok(cuda.cuInit(0))
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0))
    ok(cuda.cuCtxSetCurrent(handle))


def tripled(code):
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, dtype=np.int32)
    memory = [ctypes.c_uint64(), ctypes.c_uint64()]
    context()
    ok(cuda.cuModuleLoadData(ctypes.byref(module), code))
    ok(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"triple"))
    for pointer in memory:
        ok(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(x.nbytes)))
    ok(cuda.cuMemcpyHtoD_v2(memory[0], x.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(x.nbytes)))
    words = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(p), ctypes.c_void_p) for p in memory))
    ok(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, words, None))
    ok(cuda.cuMemcpyDtoH_v2(out.ctypes.data_as(ctypes.c_void_p), memory[1], ctypes.c_size_t(x.nbytes)))
    ok(cuda.cuModuleUnload(module))
    return np.array_equal(out, 3 * x)


@check
def code_for_the_card_computes():
    assert tripled(machine_code(b"--gpu-architecture=sm_86"))


@check
def name_and_value_may_be_apart():
    assert tripled(machine_code(b"-arch", b"sm_80"))


@check
def text_that_was_asked_for_is_the_same():
    assert machine_code(b"-arch=compute_86").value == machine_code(b"-arch=sm_86").value


if __name__ == "__main__":
    major, minor = ctypes.c_int(), ctypes.c_int()
    ok(nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    main(f"NVRTC {major.value}.{minor.value}")
