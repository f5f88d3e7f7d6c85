# SPDX-License-Identifier: Apache-2.0
"""The toolkit's libraries on the null driver: a handle and one operation each.

Nothing is computed there, so nothing is compared: every call must be carried, and
each library must say success.  Of their machine code only the parameters are read.
TOOLKIT=12 takes the libraries of CUDA 12, for drivers older than the newest.
"""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_size_t, c_void_p

from client import Skip, check, main

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
# What each library of the toolkit is called.
NAMES = {
    "13": {"cudart": 13, "nvrtc": 13, "cublas": 13, "cufft": 12, "cudnn": 9, "curand": 10,
           "cusparse": 12, "cusolver": 12},
    "12": {"cudart": 12, "nvrtc": 12, "cublas": 12, "cufft": 11, "curand": 10,
           "cusparse": 12, "cusolver": 11},
}[os.environ.get("TOOLKIT", "13")]


def library(stem):
    if stem not in NAMES:
        raise Skip(f"{stem} is not among the packages")
    name = f"lib{stem}.so.{NAMES[stem]}"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise Skip(f"{name} is not on this machine") from error


def done(status, words):
    if status != 0:
        raise RuntimeError(f"{words} says {status}")


def on_card(runtime, size):
    pointer = c_void_p()
    done(runtime.cudaMalloc(byref(pointer), c_size_t(size)), "cudaMalloc")
    return pointer


def runtime_library():
    return library("cudart")


@check
def runtime_copies_and_streams():
    runtime = runtime_library()
    stream = c_void_p()
    memory = on_card(runtime, 4096)
    host = (ctypes.c_char * 4096)()
    done(runtime.cudaStreamCreate(byref(stream)), "cudaStreamCreate")
    done(runtime.cudaMemcpyAsync(memory, host, c_size_t(4096), HOST_TO_DEVICE, stream),
         "cudaMemcpyAsync")
    done(runtime.cudaStreamSynchronize(stream), "cudaStreamSynchronize")
    done(runtime.cudaMemcpy(host, memory, c_size_t(4096), DEVICE_TO_HOST), "cudaMemcpy")
    done(runtime.cudaStreamDestroy(stream), "cudaStreamDestroy")
    done(runtime.cudaFree(memory), "cudaFree")


@check
def nvrtc_compiles():
    nvrtc = library("nvrtc")
    program, size = c_void_p(), c_size_t()
    source = b'extern "C" __global__ void f(float *x) { x[threadIdx.x] += 1; }'
    done(nvrtc.nvrtcCreateProgram(byref(program), source, b"f.cu", 0, None, None),
         "nvrtcCreateProgram")
    done(nvrtc.nvrtcCompileProgram(program, 0, None), "nvrtcCompileProgram")
    done(nvrtc.nvrtcGetPTXSize(program, byref(size)), "nvrtcGetPTXSize")
    assert size.value > 100, size.value
    done(nvrtc.nvrtcDestroyProgram(byref(program)), "nvrtcDestroyProgram")


@check
def cublas_multiplies():
    blas, runtime = library("cublas"), runtime_library()
    handle = c_void_p()
    one = c_float(1)
    a, b, c = (on_card(runtime, 4 * 64 * 64) for _ in range(3))
    done(blas.cublasCreate_v2(byref(handle)), "cublasCreate")
    done(blas.cublasSgemm_v2(handle, 0, 0, 64, 64, 64, byref(one), a, 64, b, 64, byref(one),
                             c, 64), "cublasSgemm")
    done(blas.cublasSaxpy_v2(handle, 64, byref(one), a, 1, b, 1), "cublasSaxpy")
    done(runtime.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    done(blas.cublasDestroy_v2(handle), "cublasDestroy")


@check
def cublas_multiplies_halves():
    """By cuBLASLt, which on cards of 9.0 asks for more than elsewhere."""
    blas, runtime = library("cublas"), runtime_library()
    handle, half, single, size = c_void_p(), 2, 68, 256
    one = c_float(1)
    a, b, c = (on_card(runtime, 2 * size * size) for _ in range(3))
    done(blas.cublasCreate_v2(byref(handle)), "cublasCreate")
    done(blas.cublasGemmEx(handle, 1, 0, size, size, size, byref(one), a, half, size, b, half,
                           size, byref(one), c, half, size, single, -1), "cublasGemmEx")
    done(runtime.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    done(blas.cublasDestroy_v2(handle), "cublasDestroy")


@check
def cufft_transforms():
    fft, runtime = library("cufft"), runtime_library()
    plan = c_int()
    data = on_card(runtime, 8 * 1024)
    done(fft.cufftPlan1d(byref(plan), 1024, 0x29, 1), "cufftPlan1d")
    done(fft.cufftExecC2C(plan, data, data, -1), "cufftExecC2C")
    done(runtime.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    done(fft.cufftDestroy(plan), "cufftDestroy")


@check
def cudnn_activates():
    dnn, runtime = library("cudnn"), runtime_library()
    handle, tensor, activation = c_void_p(), c_void_p(), c_void_p()
    one, zero = c_float(1), c_float(0)
    data = on_card(runtime, 4 * 16 * 16)
    done(dnn.cudnnCreate(byref(handle)), "cudnnCreate")
    done(dnn.cudnnCreateTensorDescriptor(byref(tensor)), "cudnnCreateTensorDescriptor")
    done(dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 1, 1, 16, 16),
         "cudnnSetTensor4dDescriptor")
    done(dnn.cudnnCreateActivationDescriptor(byref(activation)),
         "cudnnCreateActivationDescriptor")
    done(dnn.cudnnSetActivationDescriptor(activation, 1, 0, ctypes.c_double(0)),
         "cudnnSetActivationDescriptor")
    done(dnn.cudnnActivationForward(handle, activation, byref(one), tensor, data,
                                    byref(zero), tensor, data), "cudnnActivationForward")
    done(runtime.cudaDeviceSynchronize(), "cudaDeviceSynchronize")
    done(dnn.cudnnDestroy(handle), "cudnnDestroy")


@check
def curand_generates():
    rand, runtime = library("curand"), runtime_library()
    generator = c_void_p()
    data = on_card(runtime, 4 * 1024)
    done(rand.curandCreateGenerator(byref(generator), 100), "curandCreateGenerator")
    done(rand.curandGenerateUniform(generator, data, c_size_t(1024)), "curandGenerateUniform")
    done(rand.curandDestroyGenerator(generator), "curandDestroyGenerator")


@check
def cusparse_and_cusolver_begin():
    for name, create, destroy in (
            ("cusparse", "cusparseCreate", "cusparseDestroy"),
            ("cusolver", "cusolverDnCreate", "cusolverDnDestroy")):
        maths, handle = library(name), c_void_p()
        done(getattr(maths, create)(byref(handle)), create)
        done(getattr(maths, destroy)(handle), destroy)


def version():
    try:
        runtime, number = runtime_library(), c_int()
    except Skip as words:
        return str(words)
    runtime.cudaRuntimeGetVersion(byref(number))
    return f"toolkit {number.value // 1000}.{number.value % 1000 // 10}, null driver"


main(version())
