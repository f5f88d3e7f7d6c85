# SPDX-License-Identifier: Apache-2.0
"""Halide: pipelines that LLVM compiles to PTX, against Halide's own code for the processor."""

import importlib.metadata

import halide as hl
import numpy as np

from client import check, main

HOST = hl.get_host_target()
CARD = HOST.with_feature(hl.TargetFeature.CUDA).with_feature(hl.TargetFeature.CUDACapability86)
WIDTH, HEIGHT = 128, 48
x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
xo, yo, xi, yi = (hl.Var(name) for name in ("xo", "yo", "xi", "yi"))


def both(program, tolerance=0, width=WIDTH, height=HEIGHT):
    """@program(whether on the card) gives the last Func of a pipeline, scheduled."""
    results = []
    for target in (CARD, HOST):
        buffer = program(target is CARD).realize([width, height], target)
        buffer.copy_to_host()
        results.append(np.array(buffer).copy())
    card, host = results
    assert host.std() > 0, "nothing was computed"
    if tolerance:
        np.testing.assert_allclose(card, host, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(card, host)


def image(dtype, seed=1):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.random((HEIGHT, WIDTH)).astype(dtype) * 8 - 4
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, (HEIGHT, WIDTH), dtype, endpoint=True)


def tiles(func, width=16, height=4):
    return func.gpu_tile(x, y, xo, yo, xi, yi, width, height, hl.TailStrategy.GuardWithIf)


@check
def blur_through_shared_memory():
    source = image(np.float32)

    def program(card):
        rows, out = hl.Func("rows"), hl.Func("out")
        clamped = hl.BoundaryConditions.repeat_edge(hl.Buffer(source))
        rows[x, y] = (clamped[x - 1, y] + clamped[x, y] + clamped[x + 1, y]) / 3
        out[x, y] = rows[x, y - 1] + rows[x, y] * 2 + rows[x, y + 1]
        if card:
            tiles(out)
            rows.compute_at(out, xo).gpu_threads(x, y)
        return out

    both(program, 1e-5)


@check
def integers_of_all_sizes():
    """Division and shifts as Halide rounds them, bits, saturation, averages."""
    for dtype, kind in ((np.uint8, hl.UInt(8)), (np.int8, hl.Int(8)), (np.uint16, hl.UInt(16)),
                        (np.int16, hl.Int(16)), (np.uint32, hl.UInt(32)), (np.int32, hl.Int(32))):
        first, second = image(dtype, 2), image(dtype, 3)
        bits = np.dtype(dtype).itemsize * 8
        unsigned = hl.UInt(bits)

        def program(card):
            out = hl.Func("out")
            a, b = (hl.Buffer(pixels)[x, y] for pixels in (first, second))
            shift = hl.cast(unsigned, b) & hl.cast(unsigned, bits - 1)
            values = [a / (b | hl.cast(kind, 1)), a % hl.max(b, hl.cast(kind, 3)),
                      hl.saturating_add(a, b), hl.saturating_sub(a, b), hl.halving_add(a, b),
                      hl.popcount(a), hl.count_leading_zeros(a | hl.cast(kind, 1)), a >> shift,
                      hl.cast(kind, hl.cast(unsigned, a) << shift), hl.cast(kind, hl.absd(a, b)),
                      hl.cast(kind, hl.cast(hl.Int(64), a) * 3 / 5), ~a ^ b]
            total = hl.cast(hl.UInt(32), 0)
            for value in values:
                total = total * hl.cast(hl.UInt(32), 31) + hl.cast(hl.UInt(32), value)
            out[x, y] = total
            return tiles(out) if card else out

        both(program)


@check
def floats_and_their_conversions():
    single, double = image(np.float32, 4), image(np.float64, 5)

    def program(card):
        out = hl.Func("out")
        a, b = hl.Buffer(single)[x, y], hl.Buffer(double)[x, y]
        half = hl.cast(hl.Float(32), hl.cast(hl.Float(16), a))
        out[x, y] = (hl.floor(a) + hl.round(a * 3) + hl.sqrt(hl.abs(a)) + half +
                     hl.sin(a) * hl.exp(-hl.abs(a)) + hl.cast(hl.Float(32), hl.log(hl.abs(b) + 1)) +
                     hl.cast(hl.Float(32), hl.cast(hl.Int(16), b * 100)) + hl.atan2(a, a + 5))
        return tiles(out) if card else out

    both(program, 1e-4)


@check
def vectors_and_unrolled_loops():
    source = image(np.uint16, 6)

    def program(card):
        out = hl.Func("out")
        clamped = hl.BoundaryConditions.mirror_image(hl.Buffer(source))
        out[x, y] = clamped[x + 3, y] ^ (clamped[x, y - 2] + clamped[x - 1, y + 1] * 5)
        if card:
            xv = hl.Var("xv")
            out.split(x, xo, xi, 32).split(y, yo, yi, 4).reorder(xi, yi, xo, yo)
            out.split(xi, xi, xv, 4).vectorize(xv).gpu_blocks(xo, yo).gpu_threads(xi, yi)
        return out

    both(program)


@check
def histogram_by_atomics():
    source = image(np.uint8, 7)

    def program(card):
        counts, out = hl.Func("counts"), hl.Func("out")
        pixels = hl.RDom([(0, WIDTH), (0, HEIGHT)])
        counts[x] = hl.cast(hl.UInt(32), 0)
        counts[hl.cast(hl.Int(32), hl.Buffer(source)[pixels.x, pixels.y])] += hl.cast(hl.UInt(32), 1)
        out[x, y] = counts[x] * hl.cast(hl.UInt(32), y + 1)
        counts.compute_root()
        if card:
            ro, ri = hl.RVar("ro"), hl.RVar("ri")
            counts.gpu_tile(x, xo, xi, 64)
            counts.update().atomic().split(pixels.x, ro, ri, 32).reorder(ri, ro, pixels.y)
            counts.update().gpu_blocks(pixels.y).gpu_threads(ri)
            tiles(out)
        return out

    both(program)


@check
def product_of_matrices():
    a, b = image(np.float32, 8)[:, :48].copy(), image(np.float32, 9)

    def program(card):
        product, out = hl.Func("product"), hl.Func("out")
        k = hl.RDom([(0, 48)])
        product[x, y] = hl.f32(0)
        product[x, y] += hl.Buffer(a)[k.x, y] * hl.Buffer(b)[x, k.x]
        out[x, y] = product[x, y]
        if card:
            out.gpu_tile(x, y, xo, yo, xi, yi, 16, 8)
            product.compute_at(out, xi)
            product.update().unroll(k.x, 4)
        return out

    both(program, 1e-4)


main(f"Halide {importlib.metadata.version('halide')}")
