# SPDX-License-Identifier: Apache-2.0
"""Triton on the null driver: kernels compiled to machine code and launched by its own
launcher.  Nothing is computed, so nothing is compared: every call must be carried.
"""

import torch
import triton
import triton.language as tl

from client import check, main

CARD = torch.device("cuda")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    parts = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, parts / tl.sum(parts, axis=0), mask=at < n)


@triton.autotune(configs=[triton.Config({"M": 32, "N": 32, "K": 32}, num_warps=4),
                          triton.Config({"M": 64, "N": 64, "K": 32}, num_warps=4,
                                        num_stages=2)], key=["size"])
@triton.jit
def product(a, b, c, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, size, K):
        at = k + tl.arange(0, K)
        total += tl.dot(tl.load(a + row[:, None] * size + at[None, :]),
                        tl.load(b + at[:, None] * size + column[None, :]))
    tl.store(c + row[:, None] * size + column[None, :], total.to(tl.float16))


def on_card(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype, device=CARD)


@check
def target_is_the_card():
    target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch) == ("cuda", 86), target


@check
def kernel_is_compiled_and_launched():
    x, y, out = (on_card(100000) for _ in range(3))
    kernel = add[(triton.cdiv(100000, 1024),)](x, y, out, 100000, BLOCK=1024)
    torch.cuda.synchronize()
    assert ".target sm_86" in kernel.asm["ptx"] and kernel.asm["cubin"], kernel.asm.keys()


@check
def rows_are_reduced():
    x, out = on_card(257, 781), on_card(257, 781)
    softmax[(257,)](out, x, 781, 781, BLOCK=1024)
    torch.cuda.synchronize()


@check
def tiles_are_tuned():
    a, b, c = (on_card(256, 256, dtype=torch.float16) for _ in range(3))
    for _ in range(2):
        product[lambda meta: (256 // meta["M"], 256 // meta["N"])](a, b, c, 256)
    torch.cuda.synchronize()
    assert product.best_config.kwargs["K"] == 32, product.best_config


@check
def launches_are_captured():
    x, y, out = (on_card(4096) for _ in range(3))
    add[(4,)](x, y, out, 4096, BLOCK=1024)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(4,)](x, y, out, 4096, BLOCK=1024)
    graph.replay()
    torch.cuda.synchronize()


@check
def benchmark_reaches_its_end():
    x, y, out = (on_card(4096) for _ in range(3))
    ms = triton.testing.do_bench(lambda: add[(4,)](x, y, out, 4096, BLOCK=1024), warmup=1,
                                 rep=5)
    assert ms > 0, ms


main(f"Triton {triton.__version__}, PyTorch {torch.__version__}")
