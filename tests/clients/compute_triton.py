# SPDX-License-Identifier: Apache-2.0
"""Triton on a software card: its kernels compute, compared with PyTorch on the processor.

PyTorch's own kernels are machine code, so tensors are made on the processor, copied
to the card and back.
"""

import torch
import triton
import triton.language as tl

from client import check, main

CARD = torch.device("cuda")


def near(found, expected, tolerance=1e-5):
    found = found.cpu().double()
    expected = expected.double()
    assert torch.allclose(found, expected, rtol=tolerance, atol=tolerance), \
        (found - expected).abs().max().item()


def numbers(*shape, dtype=torch.float32, seed=11):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def room(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device=CARD)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@check
def sums_of_arrays():
    for dtype in (torch.float32, torch.float16, torch.int32, torch.int8, torch.float64):
        for n in (1, 1000, 4097):
            x, y = (10 * numbers(n, seed=seed) for seed in (1, 2))
            x, y = x.to(dtype), y.to(dtype)
            out = room(n, dtype=dtype)
            add[(triton.cdiv(n, 256),)](x.to(CARD), y.to(CARD), out, n, BLOCK=256)
            assert torch.equal(out.cpu(), x + y), (dtype, n)


@triton.jit
def softmax(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    parts = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * n + at, parts / tl.sum(parts, axis=0), mask=at < n)


@check
def softmax_of_rows():
    for n in (7, 300, 1024):
        x = numbers(40, n)
        out = room(40, n)
        softmax[(40,)](out, x.to(CARD), n, BLOCK=triton.next_power_of_2(n))
        near(out, torch.softmax(x, 1))


@triton.jit
def layer_norm(x, weight, bias, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    values = tl.load(x + row * n + at, mask=mask, other=0.0)
    mean = tl.sum(values, axis=0) / n
    apart = tl.where(mask, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, axis=0) / n + 1e-5)
    tl.store(out + row * n + at, apart * scale * tl.load(weight + at, mask=mask)
             + tl.load(bias + at, mask=mask), mask=mask)


@check
def layer_norm_of_rows():
    x, weight, bias = numbers(30, 200), numbers(200, seed=2), numbers(200, seed=3)
    out = room(30, 200)
    layer_norm[(30,)](x.to(CARD), weight.to(CARD), bias.to(CARD), out, 200, BLOCK=256)
    near(out, torch.nn.functional.layer_norm(x, (200,), weight, bias), 1e-4)


@triton.jit
def product(a, b, c, rows, columns, inner, M: tl.constexpr, N: tl.constexpr,
            K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, inner, K):
        at = k + tl.arange(0, K)
        x = tl.load(a + row[:, None] * inner + at[None, :],
                    mask=(row[:, None] < rows) & (at[None, :] < inner), other=0.0)
        y = tl.load(b + at[:, None] * columns + column[None, :],
                    mask=(at[:, None] < inner) & (column[None, :] < columns), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + row[:, None] * columns + column[None, :], total,
             mask=(row[:, None] < rows) & (column[None, :] < columns))


@check
def products_of_matrices():
    # float32 is multiplied as TF32.
    for dtype, tolerance in ((torch.float16, 1e-3), (torch.bfloat16, 1e-3),
                             (torch.float32, 1e-1)):
        for rows, columns, inner in ((64, 64, 64), (70, 90, 130)):
            a, b = numbers(rows, inner, dtype=dtype), numbers(inner, columns, dtype=dtype, seed=2)
            c = room(rows, columns)
            product[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](
                a.to(CARD), b.to(CARD), c, rows, columns, inner, M=32, N=32, K=32)
            near(c, a.float() @ b.float(), tolerance)


@triton.jit
def attention(q, k, v, out, scale, length, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = tl.arange(0, WIDTH)
    query = tl.load(q + row[:, None] * WIDTH + inside[None, :])
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    weight = tl.zeros((BLOCK,), tl.float32)
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, length, BLOCK):
        column = start + tl.arange(0, BLOCK)
        key = tl.load(k + column[None, :] * WIDTH + inside[:, None])
        score = tl.dot(query, key) * scale
        score = tl.where(row[:, None] >= column[None, :], score, -float("inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        part = tl.exp(score - higher[:, None])
        shrink = tl.exp(most - higher)
        weight = weight * shrink + tl.sum(part, 1)
        value = tl.load(v + column[:, None] * WIDTH + inside[None, :])
        total = total * shrink[:, None] + tl.dot(part.to(tl.float16), value)
        most = higher
    tl.store(out + row[:, None] * WIDTH + inside[None, :], total / weight[:, None])


@check
def attention_without_all_scores():
    q, k, v = (numbers(128, 32, dtype=torch.float16, seed=seed) for seed in (1, 2, 3))
    out = room(128, 32)
    attention[(4,)](q.to(CARD), k.to(CARD), v.to(CARD), out, 0.2, 128, BLOCK=32, WIDTH=32)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float()[None], k.float()[None], v.float()[None], is_causal=True, scale=0.2)[0]
    near(out, expected, 1e-2)


@triton.jit
def ordered(x, total, running, sorted_, histogram, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.atomic_add(total, tl.sum(values, 0))
    tl.store(running + at, tl.cumsum(values, 0))
    tl.store(sorted_ + at, tl.sort(values))
    tl.atomic_add(histogram + values, 1)


@check
def sums_scans_sorting_and_atomics():
    x = torch.randint(0, 64, (512,), dtype=torch.int32,
                      generator=torch.Generator().manual_seed(5))
    total, histogram = (torch.zeros(n, dtype=torch.int32).to(CARD) for n in (1, 64))
    running, in_order = (room(512, dtype=torch.int32) for _ in range(2))
    ordered[(1,)](x.to(CARD), total, running, in_order, histogram, BLOCK=512)
    assert total.item() == x.sum().item()
    assert torch.equal(running.cpu(), x.cumsum(0).int())
    assert torch.equal(in_order.cpu(), x.sort()[0])
    assert torch.equal(histogram.cpu(), torch.bincount(x, minlength=64).int())


@triton.jit
def dropped(x, out, seed, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    kept = tl.rand(seed, at) > 0.25
    tl.store(out + at, tl.where(kept, tl.load(x + at, mask=mask) / 0.75, 0.0), mask=mask)


@check
def dropout_by_its_own_random_numbers():
    x = numbers(10000)
    outs = [room(10000) for _ in range(2)]
    for out in outs:
        dropped[(40,)](x.to(CARD), out, 123, 10000, BLOCK=256)
    first, second = (out.cpu() for out in outs)
    assert torch.equal(first, second)
    kept = first != 0
    assert 0.72 < kept.float().mean().item() < 0.78
    near(first[kept], x[kept] / 0.75)


main(f"triton {triton.__version__}, torch {torch.__version__}")
