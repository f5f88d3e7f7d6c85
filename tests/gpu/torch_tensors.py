# SPDX-License-Identifier: Apache-2.0
"""PyTorch: tensor operations, streams, events, random numbers, cuBLAS and cuDNN."""

from observe import Skip, main, observe
from torch_setup import CARD, seeded, torch, version


def numbers(*shape, dtype=torch.float32, seed=7):
    host = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=host).to(CARD, dtype)


@observe
def card_is_what_it_is():
    card = torch.cuda.get_device_properties(0)
    return [torch.cuda.device_count(), card.name, card.major, card.minor,
            card.multi_processor_count, card.warp_size]


@observe
def elementwise():
    x = numbers(1000, 1000)
    return [x + 1, x.sin().exp(), torch.where(x > 0, x, -x).sqrt(), x.half().tanh()]


@observe
def reductions():
    x = numbers(777, 1023)
    return [x.sum(), x.mean(0), x.std(1), x.argmax(1), x.logsumexp(0), x.cumsum(1), x.norm()]


@observe
def sorting_and_indexing():
    x = numbers(100000)
    values, places = x.sort(stable=True)
    return [values, places, x.topk(100).values, x[places[:50]], x[x > 1], torch.unique(
        (x * 10).int()), x.nonzero()]


@observe
def random_numbers():
    seeded()
    first = torch.randn(100000, device=CARD)
    return [first, torch.randint(0, 99, (1000,), device=CARD),
            torch.randperm(1000, device=CARD), torch.nn.functional.dropout(first, 0.3)]


@observe
def cublas_products():
    out = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        a, b = numbers(512, 384, dtype=dtype), numbers(384, 640, dtype=dtype, seed=8)
        out += [a @ b, torch.baddbmm(numbers(4, 64, 64, dtype=dtype),
                                     numbers(4, 64, 96, dtype=dtype),
                                     numbers(4, 96, 64, dtype=dtype))]
    return out


@observe
def cusolver_and_cufft():
    """Without a look at the status that a kernel computes, as below."""
    a = numbers(128, 128, dtype=torch.float64)
    return [torch.linalg.solve_ex(a @ a.T + 128 * torch.eye(128, device=CARD), a).result,
            torch.linalg.qr(a).R.abs(), torch.fft.rfft2(a).abs()]


@observe
def singular_values():
    if "null" in torch.cuda.get_device_name(0):
        raise Skip("cuSOLVER looks at a status in the card's memory, which a kernel computes")
    return [torch.linalg.svdvals(numbers(128, 128, dtype=torch.float64))]


@observe
def cudnn_convolutions():
    x = numbers(8, 16, 40, 40).requires_grad_()
    w = numbers(32, 16, 3, 3).requires_grad_()
    y = torch.nn.functional.conv2d(x, w, stride=2, padding=1)
    y.square().mean().backward()
    return [y, x.grad, w.grad]


@observe
def cudnn_recurrent_and_normalised():
    seeded()
    lstm = torch.nn.LSTM(32, 48, num_layers=2).to(CARD)
    y, (h, c) = lstm(numbers(20, 4, 32))
    normal = torch.nn.BatchNorm2d(8).to(CARD)
    return [y, h, c, normal(numbers(4, 8, 16, 16)), normal.running_var]


@observe
def streams_and_events():
    x, side = numbers(1 << 20), torch.cuda.Stream()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    side.wait_event(begin)
    with torch.cuda.stream(side):
        y = x * 3
        end.record()
    end.synchronize()
    return [y, begin.elapsed_time(end) > 0, side.query()]


@observe
def copies_pinned_and_pageable():
    host = torch.arange(1 << 20, dtype=torch.float32)
    pinned = host.pin_memory()
    up = pinned.to(CARD, non_blocking=True)
    back = torch.empty_like(pinned).pin_memory()
    back.copy_(up * 2, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    strided = host.view(1024, 1024)[::3, ::5].to(CARD)
    return [back, strided, up.view(1024, 1024).t().cpu()]


@observe
def memory_is_given_back():
    before = torch.cuda.memory_allocated()
    block = torch.empty(64 << 20, dtype=torch.uint8, device=CARD)
    during = torch.cuda.memory_allocated() - before
    del block
    torch.cuda.empty_cache()
    return [during, torch.cuda.memory_allocated() - before]


main(version())
