# SPDX-License-Identifier: Apache-2.0
"""CuPy: arrays, reductions, sorting, streams, custom kernels.

No product of matrices: that would be cuBLAS, whose kernels carry no PTX.
"""

import os

import cupy as cp
import numpy as np

from client import Skip, check, main

WITH_CUB = os.environ.get("CUPY_ACCELERATORS") != ""


def same(on_card, expected, rtol=1e-6):
    np.testing.assert_allclose(cp.asnumpy(on_card), expected, rtol=rtol)


@check
def elementwise_expression():
    x = np.linspace(0.1, 4, 3000, dtype=np.float32)
    on_card = cp.asarray(x)
    same(cp.sqrt(on_card) * 2 + cp.sin(on_card), np.sqrt(x) * 2 + np.sin(x), 1e-5)


@check
def broadcasting_and_slices():
    x = np.arange(600).reshape(20, 30)
    on_card = cp.asarray(x)
    same(on_card[::2, 5:-3] + on_card[0, 5:-3], x[::2, 5:-3] + x[0, 5:-3])
    same(on_card.T.copy(), x.T)


@check
def reductions():
    x = np.random.default_rng(1).random((40, 50))
    on_card = cp.asarray(x)
    same(on_card.sum(), x.sum(), 1e-12)
    same(on_card.mean(axis=0), x.mean(axis=0), 1e-12)
    same(on_card.max(axis=1), x.max(axis=1))
    assert int(on_card.argmin()) == int(x.argmin())


@check
def prefix_sums():
    x = np.random.default_rng(2).integers(0, 1000, 2000)
    same(cp.cumsum(cp.asarray(x)), np.cumsum(x))


@check
def sorting():
    if not WITH_CUB:
        raise Skip("a kernel of the wheel, with PTX for compute_120 alone: see cupy-cub")
    x = np.random.default_rng(2).integers(0, 1000, 2000)
    on_card = cp.asarray(x)
    same(cp.sort(on_card), np.sort(x))
    same(cp.unique(on_card), np.unique(x))


@check
def custom_elementwise_kernel():
    kernel = cp.ElementwiseKernel("float64 x, float64 y", "float64 z",
                                  "z = x > y ? x - y : 0", "positive_difference")
    x, y = np.random.default_rng(3).random((2, 1000))
    same(kernel(cp.asarray(x), cp.asarray(y)), np.maximum(x - y, 0))


@check
def custom_reduction_kernel():
    kernel = cp.ReductionKernel("float64 x", "float64 y", "x * x", "a + b",
                                "y = sqrt(a)", "0", "root_of_squares")
    x = np.random.default_rng(4).random(3000)
    same(kernel(cp.asarray(x)), np.sqrt((x * x).sum()), 1e-12)


@check
def raw_kernel_multiplies_matrices():
    kernel = cp.RawKernel(r"""
        extern "C" __global__ void multiply(const float *a, const float *b, float *c, int n)
        {
            int row = blockIdx.y * blockDim.y + threadIdx.y;
            int column = blockIdx.x * blockDim.x + threadIdx.x;
            float total = 0;
            for (int k = 0; k < n; k++)
                total += a[row * n + k] * b[k * n + column];
            c[row * n + column] = total;
        }""", "multiply")
    a, b = np.random.default_rng(5).random((2, 64, 64), dtype=np.float32)
    out = cp.zeros((64, 64), dtype=cp.float32)
    kernel((8, 8), (8, 8), (cp.asarray(a), cp.asarray(b), out, np.int32(64)))
    same(out, a @ b, 1e-5)


@check
def streams_and_events_order_work():
    stream = cp.cuda.Stream(non_blocking=True)
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    with stream:
        begin.record()
        x = cp.ones(2000)
        for _ in range(5):
            x += 1
        end.record()
    end.synchronize()
    assert (x.get(stream=stream) == 6).all()
    assert cp.cuda.get_elapsed_time(begin, end) >= 0


@check
def graph_repeats_captured_work():
    stream = cp.cuda.Stream(non_blocking=True)
    x = cp.zeros(500)
    x += 1  # compiled before the capture
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        x += 1
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
    stream.synchronize()
    assert (x.get() == 4).all(), x[0]


@check
def memory_pool_gives_back():
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    before = cp.cuda.runtime.memGetInfo()[0]
    held = cp.zeros(1 << 20)
    assert cp.cuda.runtime.memGetInfo()[0] <= before - held.nbytes
    del held
    pool.free_all_blocks()
    assert cp.cuda.runtime.memGetInfo()[0] == before


main(f"cupy {cp.__version__}, accelerators: {'cub' if WITH_CUB else 'none'}")
