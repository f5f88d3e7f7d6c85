# SPDX-License-Identifier: Apache-2.0
"""Taichi, or a fork of it that $TAICHI names: each program on the card and on its own CPU back
end, compared."""

import importlib
import os

import numpy as np

from client import check, main

ti = importlib.import_module(os.environ.get("TAICHI", "taichi"))

N = 64


def both(program, rtol=1e-5, atol=1e-6):
    """Run @program after ti.init() for either back end; its arrays must agree."""
    results = []
    for arch in (ti.cpu, ti.cuda):
        ti.init(arch=arch, random_seed=3, offline_cache=False, device_memory_GB=0.3,
                log_level=ti.ERROR)
        assert ti.lang.impl.current_cfg().arch == arch, "it fell back to another back end"
        results.append(program())
        ti.reset()
    for cpu, card in zip(*results):
        np.testing.assert_allclose(card, cpu, rtol=rtol, atol=atol)


def julia():
    pixels = ti.field(ti.f32, (2 * N, N))

    @ti.kernel
    def paint(t: ti.f32):
        for i, j in pixels:
            c = ti.Vector([-0.8, ti.cos(t) * 0.2])
            z = ti.Vector([i / N - 1, j / N - 0.5]) * 2
            rounds = 0
            while z.norm() < 20 and rounds < 50:
                z = ti.Vector([z[0] ** 2 - z[1] ** 2, z[0] * z[1] * 2]) + c
                rounds += 1
            pixels[i, j] = 1 - rounds * 0.02

    paint(0.3)
    return [pixels.to_numpy()]


def particles_and_grid():
    """Momentum that particles give to the cells of a grid, by atomic additions."""
    x = ti.Vector.field(2, ti.f32, 4 * N)
    v = ti.Vector.field(2, ti.f32, 4 * N)
    cells = ti.Vector.field(2, ti.f32, (16, 16))
    rng = np.random.default_rng(1)
    x.from_numpy(rng.random((4 * N, 2), dtype=np.float32))
    v.from_numpy(rng.random((4 * N, 2), dtype=np.float32))

    @ti.kernel
    def scatter():
        for p in x:
            base = ti.cast(x[p] * 15, ti.i32)
            cells[base] += v[p]

    scatter()
    return [cells.to_numpy()]


def reductions():
    x = ti.field(ti.i32, 50 * N)
    x.from_numpy(np.random.default_rng(2).integers(-1000, 1000, 50 * N).astype(np.int32))

    @ti.kernel
    def total() -> ti.i32:
        s = 0
        for i in x:
            s += x[i]
        return s

    @ti.kernel
    def largest() -> ti.i32:
        m = -10000
        for i in x:
            ti.atomic_max(m, x[i])
        return m

    return [np.array([total(), largest()])]


def sparse_structure():
    x = ti.field(ti.f32)
    block = ti.root.pointer(ti.ij, (8, 8))
    block.dense(ti.ij, (8, 8)).place(x)
    out = ti.field(ti.f32, (N, N))

    @ti.kernel
    def activate():
        for i in range(N):
            x[i, (i * 7) % N] = i

    @ti.kernel
    def gather():
        for i, j in x:
            out[i, j] = x[i, j] + 1

    activate()
    gather()
    return [out.to_numpy()]


def gradient():
    x = ti.field(ti.f32, N, needs_grad=True)
    loss = ti.field(ti.f32, (), needs_grad=True)
    x.from_numpy(np.linspace(0.1, 2, N, dtype=np.float32))

    @ti.kernel
    def energy():
        for i in x:
            loss[None] += ti.sin(x[i]) * x[i]

    with ti.ad.Tape(loss):
        energy()
    return [x.grad.to_numpy(), np.array([loss[None]])]


def matrices():
    a = ti.Matrix.field(3, 3, ti.f32, N)
    u = ti.Matrix.field(3, 3, ti.f32, N)
    s = ti.Matrix.field(3, 3, ti.f32, N)
    w = ti.Matrix.field(3, 3, ti.f32, N)
    back = ti.Matrix.field(3, 3, ti.f32, N)
    given = np.random.default_rng(3).random((N, 3, 3), dtype=np.float32)
    a.from_numpy(given)

    @ti.kernel
    def decompose():
        for i in a:
            u[i], s[i], w[i] = ti.svd(a[i])
            back[i] = u[i] @ s[i] @ w[i].transpose()

    decompose()
    np.testing.assert_allclose(back.to_numpy(), given, atol=1e-4)
    return [s.to_numpy()]


@check
def julia_set():
    # A point at the border of the set takes a round more or less: one step is 0.02.
    both(julia, atol=0.021)


@check
def particles_to_grid():
    both(particles_and_grid)


@check
def integer_reductions():
    both(reductions)


@check
def sparse_fields():
    both(sparse_structure)


@check
def automatic_differentiation():
    both(gradient)


@check
def singular_values():
    both(matrices, atol=1e-4)


main(f"{ti.__name__} {'.'.join(str(part) for part in ti.__version__)}")
