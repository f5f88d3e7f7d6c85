# SPDX-License-Identifier: Apache-2.0
"""SlangPy: shaders that Slang translates to CUDA and NVRTC compiles to PTX.

All results are compared with numpy's.
"""

import importlib.metadata
import os
import pathlib
import tempfile

# The headers of the packages, whatever toolkit is on this machine.
HEADER = next(file.locate() for file in importlib.metadata.files("nvidia-cuda-runtime")
              if file.name == "cuda_fp16.h")
os.environ["CUDA_PATH"] = str(HEADER.parent.parent)

import numpy as np  # noqa: E402
import slangpy as spy  # noqa: E402

from client import check, main  # noqa: E402

SOURCE = """
float wave(float a, float b) { return sin(a) * b + sqrt(abs(a)); }
double precise(double a) { return exp(-a * a) * 3.0; }
float halves(float a) { half h = half(a); return float(h * h + half(1)); }
uint bits(uint a) { return countbits(a) * 31 + reversebits(a) + firstbitlow(a | 256u) + (a << (a & 31)); }
int64_t wide(int64_t a) { return (a * 0x12345678901LL) / 777 % 1000003; }
uint collatz(uint a) { uint n = 0; while (a > 1) { a = (a & 1) == 0 ? a >> 1 : 3 * a + 1; n++; } return n; }

[Differentiable] float curve(float a) { return sin(a) * a * a; }
float slope(float a) { var pair = diffPair(a); bwd_diff(curve)(pair, 1.0f); return pair.d; }

groupshared uint cells[64];
[shader("compute")] [numthreads(64, 1, 1)]
void sums(uint3 thread : SV_DispatchThreadID, uint in_group : SV_GroupIndex,
          uint3 group : SV_GroupID, StructuredBuffer<uint> values,
          RWStructuredBuffer<uint> totals, RWStructuredBuffer<uint> counts)
{
    cells[in_group] = values[thread.x];
    GroupMemoryBarrierWithGroupSync();
    for (uint step = 32; step > 0; step >>= 1) {
        if (in_group < step)
            cells[in_group] += cells[in_group + step];
        GroupMemoryBarrierWithGroupSync();
    }
    if (in_group == 0)
        totals[group.x] = cells[0];
    InterlockedAdd(counts[values[thread.x] % 16], 1u);
}

[shader("compute")] [numthreads(64, 1, 1)]
void waves(uint3 thread : SV_DispatchThreadID, StructuredBuffer<uint> values,
           RWStructuredBuffer<uint> out)
{
    uint value = values[thread.x];
    out[thread.x] = WaveActiveSum(value) + 3 * WavePrefixSum(value) + WaveActiveMax(value)
                    + WaveReadLaneAt(value, 5) + countbits(WaveActiveBallot((value & 1) == 1).x);
}
"""
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "shaders.slang").write_text(SOURCE)
device = spy.create_device(type=spy.DeviceType.cuda, include_paths=[folder])
module = spy.Module.load_from_file(device, str(folder / "shaders.slang"))
rng = np.random.default_rng(1)
N = 4096


def buffer(host=None, count=None):
    usage = spy.BufferUsage.shader_resource | spy.BufferUsage.unordered_access
    if host is None:
        host = np.zeros(count, np.uint32)
    return device.create_buffer(element_count=len(host), struct_size=4, usage=usage, data=host)


def words(made):
    return made.to_numpy().view(np.uint32)


@check
def functions():
    a, b = rng.random((2, N), dtype=np.float32) * 8 - 4
    np.testing.assert_allclose(module.wave(a, b, _result="numpy"), np.sin(a) * b + np.sqrt(np.abs(a)),
                               rtol=1e-5, atol=1e-5)
    wide = a.astype(np.float64)
    np.testing.assert_allclose(module.precise(wide, _result="numpy"), np.exp(-wide * wide) * 3,
                               rtol=1e-12)
    half = a.astype(np.float16)
    np.testing.assert_allclose(module.halves(a, _result="numpy"), half * half + np.float16(1),
                               rtol=2e-3)


@check
def integers():
    a = rng.integers(0, 1 << 32, N, np.uint32)

    def one(x):
        low = (x | 256) & -(x | 256)
        return (bin(x).count("1") * 31 + int(f"{x:032b}"[::-1], 2) + low.bit_length() - 1 +
                (x << (x & 31))) & 0xFFFFFFFF

    np.testing.assert_array_equal(module.bits(a, _result="numpy"), [one(int(x)) for x in a])
    b = rng.integers(0, 1 << 20, N, np.int64)
    np.testing.assert_array_equal(module.wide(b, _result="numpy"), b * 0x12345678901 // 777 % 1000003)


@check
def loops_that_diverge():
    def one(i):
        steps = 0
        while i > 1:
            i, steps = i // 2 if i % 2 == 0 else 3 * i + 1, steps + 1
        return steps

    a = np.arange(1, 2000, dtype=np.uint32)
    np.testing.assert_array_equal(module.collatz(a, _result="numpy"), [one(int(i)) for i in a])


@check
def slopes():
    a = rng.random(N, dtype=np.float32) * 4
    np.testing.assert_allclose(module.slope(a, _result="numpy"), np.cos(a) * a * a + np.sin(a) * 2 * a,
                               rtol=1e-4, atol=1e-4)


@check
def groups_share_memory_and_atomics():
    values = rng.integers(0, 1000, N, np.uint32)
    totals, counts = buffer(count=N // 64), buffer(count=16)
    kernel = device.create_compute_kernel(device.load_program("shaders.slang", ["sums"]))
    kernel.dispatch([N, 1, 1], values=buffer(values), totals=totals, counts=counts)
    np.testing.assert_array_equal(words(totals), values.reshape(-1, 64).sum(axis=1))
    np.testing.assert_array_equal(words(counts), np.bincount(values % 16, minlength=16))


@check
def waves():
    values = rng.integers(0, 1000, N, np.uint32)
    out = buffer(count=N)
    kernel = device.create_compute_kernel(device.load_program("shaders.slang", ["waves"]))
    kernel.dispatch([N, 1, 1], values=buffer(values), out=out)
    rows = values.reshape(-1, 32)
    expected = (rows.sum(axis=1, keepdims=True) + 3 * (np.cumsum(rows, axis=1) - rows) +
                rows.max(axis=1, keepdims=True) + rows[:, 5:6] +
                (rows & 1).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(words(out), expected.ravel())


main(f"SlangPy {importlib.metadata.version('slangpy')}")
