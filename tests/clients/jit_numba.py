# SPDX-License-Identifier: Apache-2.0
"""Numba: kernels compiled from Python, linked by the driver.

Numba links with nvJitLink where it finds one, which makes machine code; a software
card runs PTX.  Without it, it links through the driver (cuLink*), so this program
keeps the library away from it, wherever on this machine it may lie.
"""

import importlib.metadata
import math
import warnings

from cuda import pathfinder


def _find_all_but_nvjitlink(name, find=pathfinder.load_nvidia_dynamic_lib):
    if name == "nvJitLink":
        raise pathfinder.DynamicLibNotFoundError("kept away from this program")
    return find(name)


pathfinder.load_nvidia_dynamic_lib = _find_all_but_nvjitlink

import numpy as np  # noqa: E402
from numba import cuda, float32, int32  # noqa: E402

from client import check, main  # noqa: E402

warnings.simplefilter("ignore")
TILE = 8


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def multiply(a, b, out):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for step in range(a.shape[1] // TILE):
        tile_a[y, x] = a[row, step * TILE + x]
        tile_b[y, x] = b[step * TILE + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    out[row, column] = total


@cuda.jit
def histogram(values, bins):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i], 1)


@cuda.jit
def warp_sums(values, out):
    lane = cuda.laneid
    value = values[cuda.grid(1)]
    step = 16
    while step:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if lane == 0:
        out[cuda.grid(1) // 32] = value


@cuda.reduce
def total_of(a, b):
    return a + b


@check
def arrays_add():
    x = np.arange(3000, dtype=np.float64)
    out = cuda.device_array_like(x)
    add[24, 128](cuda.to_device(x), cuda.to_device(2 * x), out)
    np.testing.assert_array_equal(out.copy_to_host(), 3 * x)


@check
def matrices_multiply_in_shared_memory():
    rng = np.random.default_rng(2)
    a, b = (rng.random((64, 64), dtype=np.float32) for _ in range(2))
    out = np.zeros((64, 64), dtype=np.float32)
    multiply[(8, 8), (TILE, TILE)](a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


@check
def reduction_agrees():
    x = np.random.default_rng(3).integers(-99, 99, 10000)
    assert total_of(x) == x.sum()


@check
def atomics_count():
    values = np.random.default_rng(4).integers(0, 16, 5000).astype(np.int32)
    bins = np.zeros(16, dtype=np.int32)
    histogram[40, 128](values, bins)
    np.testing.assert_array_equal(bins, np.bincount(values, minlength=16))


@check
def warps_shuffle():
    values = np.arange(256, dtype=np.int32)
    out = np.zeros(8, dtype=np.int32)
    warp_sums[2, 128](values, out)
    np.testing.assert_array_equal(out, values.reshape(8, 32).sum(axis=1))


@check
def mathematical_functions():
    @cuda.jit
    def waves(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = math.sin(x[i]) * math.exp(-x[i])

    x = np.linspace(0, 3, 1000)
    out = np.zeros_like(x)
    waves[8, 128](x, out)
    np.testing.assert_allclose(out, np.sin(x) * np.exp(-x), rtol=1e-12)


@check
def streams_and_events_order_work():
    stream = cuda.stream()
    begin, end = cuda.event(), cuda.event()
    x = cuda.to_device(np.ones(1000), stream=stream)
    out = cuda.device_array(1000, stream=stream)
    begin.record(stream)
    add[8, 128, stream](x, x, out)
    add[8, 128, stream](out, x, out)
    end.record(stream)
    host = out.copy_to_host(stream=stream)
    stream.synchronize()
    assert (host == 3).all(), host
    assert cuda.event_elapsed_time(begin, end) >= 0


@check
def pinned_and_mapped_memory():
    pinned = cuda.pinned_array(500, dtype=np.int32)
    pinned[:] = np.arange(500)
    on_card = cuda.to_device(pinned)
    out = cuda.pinned_array(500, dtype=np.int32)
    add[4, 128](on_card, on_card, on_card)
    on_card.copy_to_host(out)
    np.testing.assert_array_equal(out, 2 * np.arange(500))


@check
def local_arrays():
    @cuda.jit
    def reverse(x):
        kept = cuda.local.array(8, int32)
        base = cuda.grid(1) * 8
        for k in range(8):
            kept[k] = x[base + k]
        for k in range(8):
            x[base + k] = kept[7 - k]

    x = np.arange(256, dtype=np.int32)
    expected = x.reshape(32, 8)[:, ::-1].ravel().copy()
    reverse[1, 32](x)
    np.testing.assert_array_equal(x, expected)


main("numba " + importlib.metadata.version("numba") +
     ", numba-cuda " + importlib.metadata.version("numba-cuda"))
