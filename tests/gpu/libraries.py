# SPDX-License-Identifier: Apache-2.0
"""cuBLAS and cuDNN called as a C program calls them, without a framework."""

import ctypes
import ctypes.util
from array import array
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_void_p
from pathlib import Path
import site
import sysconfig

from observe import Skip, main, observe

UP, DOWN = 1, 2
SIZE = 128


def folders():
    """Where wheels and toolkits keep their libraries."""
    places = {*site.getsitepackages(), sysconfig.get_paths()["purelib"]}
    for place in sorted(places):
        yield from sorted(Path(place).glob("nvidia/*/lib"))
    yield Path("/usr/local/cuda/lib64")


def library(stem, *versions):
    """The shared library of the first of these versions that is here."""
    for number in versions:
        name = f"lib{stem}.so.{number}"
        for place in [*(folder / name for folder in folders()), name]:
            try:
                return ctypes.CDLL(str(place), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
    raise Skip(f"lib{stem} is not installed")


def done(status, words):
    if status != 0:
        raise RuntimeError(f"{words} says {status}")


class Card:
    """The CUDA runtime, as far as it is needed here."""

    def __init__(self):
        self.runtime = library("cudart", 13, 12)

    def put(self, values):
        pointer = c_void_p()
        size = c_size_t(len(values) * values.itemsize)
        done(self.runtime.cudaMalloc(byref(pointer), size), "cudaMalloc")
        done(self.runtime.cudaMemcpy(pointer, c_void_p(values.buffer_info()[0]), size, UP),
             "cudaMemcpy")
        return pointer

    def get(self, pointer, kind, count):
        values = array(kind, bytes(count * array(kind).itemsize))
        size = c_size_t(count * values.itemsize)
        done(self.runtime.cudaMemcpy(c_void_p(values.buffer_info()[0]), pointer, size, DOWN),
             "cudaMemcpy")
        return values.tobytes()


def ramp(kind, count, step):
    return array(kind, [((i * step) % 97) / 97 - 0.5 for i in range(count)])


def product(kind, multiply, one):
    card, blas, handle = Card(), library("cublas", 13, 12), c_void_p()
    done(blas.cublasCreate_v2(byref(handle)), "cublasCreate")
    a, b = card.put(ramp(kind, SIZE * SIZE, 7)), card.put(ramp(kind, SIZE * SIZE, 11))
    c = card.put(ramp(kind, SIZE * SIZE, 13))
    done(getattr(blas, multiply)(handle, 0, 1, SIZE, SIZE, SIZE, byref(one), a, SIZE, b,
                                 SIZE, byref(one), c, SIZE), multiply)
    result = card.get(c, kind, SIZE * SIZE)
    done(blas.cublasDestroy_v2(handle), "cublasDestroy")
    return result


@observe
def cublas_single():
    return product("f", "cublasSgemm_v2", c_float(1))


@observe
def cublas_double():
    return product("d", "cublasDgemm_v2", c_double(1))


@observe
def cublas_scalars_from_the_card():
    card, blas, handle, at = Card(), library("cublas", 13, 12), c_void_p(), c_int()
    norm = c_float()
    done(blas.cublasCreate_v2(byref(handle)), "cublasCreate")
    x = card.put(ramp("f", 5000, 29))
    done(blas.cublasSnrm2_v2(handle, 5000, x, 1, byref(norm)), "cublasSnrm2")
    done(blas.cublasIsamax_v2(handle, 5000, x, 1, byref(at)), "cublasIsamax")
    return [norm.value, at.value]


@observe
def cublas_refuses_nonsense():
    card, blas, handle, one = Card(), library("cublas", 13, 12), c_void_p(), c_float(1)
    done(blas.cublasCreate_v2(byref(handle)), "cublasCreate")
    x = card.put(ramp("f", 16, 3))
    return blas.cublasSgemm_v2(handle, 0, 0, -1, 4, 4, byref(one), x, 4, x, 4, byref(one), x, 4)


def activation(dnn, mode):
    descriptor = c_void_p()
    done(dnn.cudnnCreateActivationDescriptor(byref(descriptor)), "cudnnCreateActivation")
    done(dnn.cudnnSetActivationDescriptor(descriptor, mode, 0, c_double(0)),
         "cudnnSetActivationDescriptor")
    return descriptor


@observe
def cudnn_activations():
    card, dnn, handle, tensor = Card(), library("cudnn", 9), c_void_p(), c_void_p()
    one, zero, results = c_float(1), c_float(0), []
    done(dnn.cudnnCreate(byref(handle)), "cudnnCreate")
    done(dnn.cudnnCreateTensorDescriptor(byref(tensor)), "cudnnCreateTensorDescriptor")
    done(dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 2, 3, 16, 16), "cudnnSetTensor4d")
    for mode in (0, 1, 2):  # sigmoid, ReLU, tanh
        x = card.put(ramp("f", 2 * 3 * 16 * 16, 31))
        done(dnn.cudnnActivationForward(handle, activation(dnn, mode), byref(one), tensor, x,
                                        byref(zero), tensor, x), "cudnnActivationForward")
        results.append(card.get(x, "f", 2 * 3 * 16 * 16))
    return results


@observe
def cudnn_softmax():
    card, dnn, handle, tensor = Card(), library("cudnn", 9), c_void_p(), c_void_p()
    one, zero = c_float(1), c_float(0)
    done(dnn.cudnnCreate(byref(handle)), "cudnnCreate")
    done(dnn.cudnnCreateTensorDescriptor(byref(tensor)), "cudnnCreateTensorDescriptor")
    done(dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 4, 10, 1, 1), "cudnnSetTensor4d")
    x = card.put(ramp("f", 40, 17))
    done(dnn.cudnnSoftmaxForward(handle, 1, 0, byref(one), tensor, x, byref(zero), tensor, x),
         "cudnnSoftmaxForward")
    return card.get(x, "f", 40)


main("cuBLAS and cuDNN")
