# SPDX-License-Identifier: Apache-2.0
"""Dr.Jit: programs that it traces and writes as PTX, and its ready-made kernels.

All results are compared with numpy's.
"""

import importlib.metadata

import drjit as dr
import numpy as np
from drjit.cuda import (Array2f, Array4f, Float, Float16, Float64, Int64, TensorXf, TensorXf16,
                        TensorXf64, Texture2f, UInt, UInt64)
from drjit.cuda.ad import Float as Differentiable

from client import check, main

N = 20000


def close(ours, theirs, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.array(ours), theirs, rtol=rtol, atol=atol)


def same(ours, theirs):
    np.testing.assert_array_equal(np.array(ours), theirs)


def mixed(n):
    """The same @n words on the card and here."""
    return (dr.arange(UInt, n) * 2654435761,
            (np.arange(n, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF).astype(np.uint32))


@check
def functions():
    x = dr.linspace(Float, -8, 8, N)
    host = np.array(x, dtype=np.float64)
    for name in ("sin", "cos", "exp", "tanh", "floor", "ceil", "trunc", "abs"):
        close(getattr(dr, name)(x), getattr(np, name)(host), rtol=1e-4, atol=1e-5)
    close(dr.sin(Float64(x)), np.sin(host), rtol=1e-9, atol=1e-12)
    y = dr.linspace(Float, 0.01, 20, N)
    host = np.array(y, dtype=np.float64)
    for name in ("log", "log2", "sqrt"):
        close(getattr(dr, name)(y), getattr(np, name)(host), rtol=1e-5, atol=1e-5)
    close(Float(Float16(y) * Float16(y)), host ** 2, rtol=3e-3)


@check
def integers():
    x, host = mixed(N)
    same(x // 7, host // 7)
    same(x % 13, host % 13)
    same(dr.mul_hi(x, x), host.astype(np.uint64) ** 2 >> np.uint64(32))
    same(dr.popcnt(x), [bin(word).count("1") for word in host])
    same(dr.lzcnt(x), [32 - int(word).bit_length() for word in host])
    wide, host = UInt64(x) * UInt64(0x9E3779B97F4A7C15), host * np.uint64(0x9E3779B97F4A7C15)
    same(wide // 12345, host // np.uint64(12345))
    same(Int64(wide) >> 9, host.astype(np.int64) >> 9)


@check
def reductions_and_scans():
    """Its ready-made kernels; of 33 to 64 values they read shared memory that was never
    asked for, to the end of its unit of allocation."""
    for n in (1, 31, 33, 64, 65, 1023, 1025, 65537, 300001):
        x, host = mixed(n)
        x, host = x >> 20, host >> 20
        same(dr.sum(x), [host.sum() & 0xFFFFFFFF])
        same(dr.max(x), [host.max()])
        same(dr.prefix_sum(x), np.cumsum(host) - host)
        close(dr.sum(Float64(x)), [host.sum(dtype=np.float64)], rtol=1e-12)
        same(dr.compress((x & 3) == 1), np.flatnonzero((host & 3) == 1))
    x, host = mixed(100000)
    same(dr.block_sum(x & 255, 50), (host & 255).reshape(-1, 50).sum(axis=1))


@check
def scatters():
    n = 50000
    to, value = (dr.arange(UInt, n) * 7919) % 1000, dr.arange(UInt, n) ^ 0x55
    at, host = np.arange(n) * 7919 % 1000, np.arange(n, dtype=np.uint32) ^ 0x55
    for op, theirs in ((dr.ReduceOp.Add, np.add), (dr.ReduceOp.Min, np.minimum),
                       (dr.ReduceOp.Max, np.maximum), (dr.ReduceOp.Or, np.bitwise_or)):
        cells, expected = dr.full(UInt, 5, 1000), np.full(1000, 5, np.uint32)
        dr.scatter_reduce(op, cells, value, to)
        theirs.at(expected, at, host)
        same(cells, expected)
    cells = dr.zeros(Float, 7)
    dr.scatter_reduce(dr.ReduceOp.Add, cells, dr.full(Float, 1, n), dr.arange(UInt, n) % 7,
                      mode=dr.ReduceMode.Local)
    same(cells, np.bincount(np.arange(n) % 7))
    rows = dr.gather(Array4f, dr.arange(Float, 4 * 4096), (dr.arange(UInt, 4096) * 613) % 4096)
    same(rows.numpy(), np.arange(4 * 4096.0).reshape(-1, 4)[np.arange(4096) * 613 % 4096].T)


@check
def loops_that_diverge():
    @dr.syntax
    def collatz(i):
        steps = UInt(0)
        while i > 1:
            i = dr.select((i & 1) == 0, i >> 1, 3 * i + 1)
            steps += 1
        return steps

    def one(i):
        steps = 0
        while i > 1:
            i, steps = i // 2 if i % 2 == 0 else 3 * i + 1, steps + 1
        return steps

    expected = [one(i + 1) for i in range(3000)]
    for symbolic in (True, False):
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic):
            same(collatz(dr.arange(UInt, 3000) + 1), expected)


@check
def calls_through_tables():
    """One inside another: those outside take the data of those inside in a register."""
    def inner(x):
        return dr.switch(UInt(dr.abs(x)) % 3,
                         [lambda v: v + 1, lambda v: v * 2, lambda v: v - 3], x)

    x, host = dr.linspace(Float, -5, 5, N), np.linspace(-5, 5, N, dtype=np.float32)
    kind = np.abs(host).astype(np.uint32) % 3
    expected = np.where(kind == 0, host + 1, np.where(kind == 1, host * 2, host - 3))
    expected = np.where(np.arange(N) % 2 == 0, expected, -host)
    for mode in ("symbolic", "evaluated"):
        close(dr.switch(dr.arange(UInt, N) % 2, [inner, lambda v: -v], x, mode=mode), expected,
              atol=1e-5)
    functions = [lambda x, k=k: x * k + k for k in range(300)]
    picked, host = mixed(10000)
    close(dr.switch(picked % 300, functions, dr.arange(Float, 10000)),
          (np.arange(10000) + 1.0) * (host % 300))


@check
def local_arrays():
    @dr.syntax
    def shuffled(i):
        cells, k = dr.alloc_local(UInt, 32, value=UInt(0)), UInt(0)
        while k < 64:
            cells[(i + k * 7) % 32] = cells[(i * 3 + k) % 32] + k
            k += 1
        return cells[i % 32]

    host = np.arange(1000)
    cells = np.zeros((1000, 32), np.int64)
    for k in range(64):
        cells[host, (host + k * 7) % 32] = cells[host, (host * 3 + k) % 32] + k
    same(shuffled(dr.arange(UInt, 1000)), cells[host, host % 32])


@check
def textures():
    texels = np.random.default_rng(1).random((16, 24, 2), dtype=np.float32)
    at = np.random.default_rng(2).random((2, 3000), dtype=np.float32) * 0.8 + 0.1
    x, y = at[0] * 24 - 0.5, at[1] * 16 - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    dx, dy = (x - left)[:, None], (y - top)[:, None]
    expected = ((texels[top, left] * (1 - dx) + texels[top, left + 1] * dx) * (1 - dy) +
                (texels[top + 1, left] * (1 - dx) + texels[top + 1, left + 1] * dx) * dy)
    # A card's textures weigh with 8 bits; Dr.Jit's own arithmetic is exact.
    for accelerated, tolerance in ((True, 1e-2), (False, 1e-5)):
        texture = Texture2f(TensorXf(texels), use_accel=accelerated)
        close(np.array(texture.eval(Array2f(at[0], at[1]))), expected.T, atol=tolerance)


@check
def slopes():
    x, host = dr.linspace(Differentiable, 0.1, 3, N), np.linspace(0.1, 3, N)
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.sin(x) * dr.exp(-x) + dr.sqrt(x)))
    close(dr.grad(x), (np.cos(host) - np.sin(host)) * np.exp(-host) + 0.5 / np.sqrt(host),
          atol=1e-4)


@check
def frozen_functions():
    @dr.freeze
    def frozen(x, y):
        return dr.sum(x * y), x + y

    for n in (1000, 1100, 900, 1000):
        x, host = dr.linspace(Float, 0, 1, n), np.linspace(0, 1, n)
        total, added = frozen(x, x * n)
        close(total, [(host * host * n).sum()], rtol=1e-4)
        close(added, host * (n + 1), rtol=1e-5)


@check
def products_of_matrices():
    rng = np.random.default_rng(5)
    for kind, dtype, tolerance in ((TensorXf, np.float32, 1e-4), (TensorXf64, np.float64, 1e-10),
                                   (TensorXf16, np.float16, 3e-2)):
        for m, k, n in ((5, 7, 3), (64, 64, 64), (130, 33, 65)):
            a, b = (rng.random((m, k)) - 0.5).astype(dtype), (rng.random((k, n)) - 0.5).astype(dtype)
            close((kind(a) @ kind(b)).numpy().astype(np.float64),
                  a.astype(np.float64) @ b.astype(np.float64), atol=tolerance)


main(f"Dr.Jit {importlib.metadata.version('drjit')}")
