# SPDX-License-Identifier: Apache-2.0
"""bitsandbytes on a software card: weights in 8 and 4 bits, products with them, and
optimisers whose state is in 32 or 8 bits, against sums in plain PyTorch on the processor.

Its kernels come ready-made; PyTorch only brings the tensors, because its own are machine
code.  What goes through cuBLASLt is left out.
"""

import importlib.metadata

import bitsandbytes.functional as B
import torch

from client import check, main

OPS = torch.ops.bitsandbytes
TYPES = (torch.float32, torch.float16, torch.bfloat16)
STEPS = 3
RATE, BETA1, BETA2, EPSILON = 0.01, 0.9, 0.99, 1e-8


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def near(found, expected, tolerance):
    torch.testing.assert_close(found.cpu().float(), expected.float(), rtol=tolerance, atol=tolerance)


def is_nearest(values, found, code, blocksize, rounding):
    """Each of @found is the largest of its block times the code that is nearest, or one
    that is as near but for the @rounding of such numbers."""
    values, found = (flat.float().flatten().split(blocksize) for flat in (values, found.cpu()))
    for mine, theirs in zip(values, found):
        largest = mine.abs().max()
        best = (mine[:, None] / largest - code[None, :]).abs().min(1).values
        excess = (theirs - mine).abs() / largest - best
        assert excess.max() <= rounding, f"off by {excess.max():.2e} more than the nearest code"


@check
def blocks_of_8_bits():
    values = numbers(257 * 64)
    for code in (B.create_dynamic_map(), B.create_linear_map()):
        for blocksize in (64, 256, 4096):
            quantized, largest = OPS.quantize_blockwise(values.cuda(), code.cuda(), blocksize)
            back = OPS.dequantize_blockwise(quantized, largest, code.cuda(), blocksize, torch.float32)
            is_nearest(values, back, code, blocksize, 1e-6)


@check
def blocks_of_4_bits():
    for kind in ("nf4", "fp4"):
        code = B.get_4bit_type(kind, device="cpu")
        for dtype in TYPES:
            rounding = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
            for blocksize in (64, 128, 512):
                values = numbers(96, 512, seed=blocksize).to(dtype)
                quantized, largest = OPS.quantize_4bit(values.cuda(), blocksize, kind, torch.uint8)
                back = OPS.dequantize_4bit(quantized, largest, blocksize, kind, values.shape, dtype)
                # The thresholds of its tables are rounded to five digits.
                is_nearest(values, back, code, blocksize, rounding + 1e-3)


@check
def products_with_4_bits():
    code = B.get_4bit_type("nf4", device="cpu")
    for dtype in TYPES:
        weights, vector = numbers(96, 512).to(dtype), numbers(1, 512, seed=2).to(dtype)
        quantized, largest = OPS.quantize_4bit(weights.cuda(), 64, "nf4", torch.uint8)
        plain = OPS.dequantize_4bit(quantized, largest, 64, "nf4", weights.shape, torch.float32).cpu()
        found = OPS.gemv_4bit(vector.cuda(), quantized, weights.shape, largest, code.cuda(), 64)
        near(found.cpu() / 23, vector.float() @ plain.T / 23, 1e-5 if dtype == torch.float32 else 1e-2)


@check
def rows_of_integers():
    rows = numbers(64, 512).half()
    found, largest, _ = OPS.int8_vectorwise_quant(rows.cuda())
    near(largest, rows.abs().max(1).values, 0)
    expected = rows.float() / rows.float().abs().max(1, keepdim=True).values * 127
    assert (found.cpu().float() - expected).abs().max() <= 0.5 + 1e-3


def adam(values, slopes):
    first, second = torch.zeros_like(values), torch.zeros_like(values)
    for step in range(1, STEPS + 1):
        first = BETA1 * first + (1 - BETA1) * slopes
        second = BETA2 * second + (1 - BETA2) * slopes ** 2
        root = (1 - BETA2 ** step) ** 0.5
        rate = RATE * root / (1 - BETA1 ** step)
        values = values - rate * first / (second.sqrt() + EPSILON * root)
    return values


def momentum(values, slopes):
    moving = slopes
    for step in range(STEPS):
        moving = BETA1 * moving + slopes if step else slopes
        values = values - RATE * moving
    return values


def lion(values, slopes):
    moving = torch.zeros_like(values)
    for _ in range(STEPS):
        values = values - RATE * (BETA1 * moving + (1 - BETA1) * slopes).sign()
        moving = BETA2 * moving + (1 - BETA2) * slopes
    return values


def adagrad(values, slopes):
    squares = torch.zeros_like(values)
    for _ in range(STEPS):
        squares = squares + slopes ** 2
        values = values - RATE * slopes / (squares.sqrt() + EPSILON)
    return values


OPTIMISERS = {"adam": adam, "momentum": momentum, "lion": lion, "adagrad": adagrad}


@check
def optimisers_with_state_of_32_bits():
    for name, plain in OPTIMISERS.items():
        for dtype in (torch.float32, torch.float16):
            values, slopes = numbers(5000).to(dtype), (numbers(5000, seed=2) * 0.1).to(dtype)
            card = values.cuda()
            first = torch.zeros(5000).cuda()
            second = torch.zeros(5000).cuda() if name == "adam" else None
            for step in range(1, STEPS + 1):
                B.optimizer_update_32bit(name, slopes.cuda(), card, first, BETA1, EPSILON, step, RATE,
                                         second, BETA2)
            near(card, plain(values.float(), slopes.float()),
                 1e-5 if dtype == torch.float32 else 4e-3)


@check
def optimisers_with_state_of_8_bits():
    """The state is rounded at each step, so the values are near, not the same."""
    signed, unsigned = B.create_dynamic_map(), B.create_dynamic_map(signed=False)
    for name, plain in OPTIMISERS.items():
        values, slopes = numbers(4096), numbers(4096, seed=2) * 0.1
        card = values.cuda()
        states = [torch.zeros(4096, dtype=torch.uint8).cuda() for _ in range(2)]
        largest = [torch.zeros(16).cuda() for _ in range(2)]
        two = name == "adam"
        for step in range(1, STEPS + 1):
            B.optimizer_update_8bit_blockwise(
                name, slopes.cuda(), card, states[0], states[1] if two else None, BETA1, BETA2, 0.0,
                0.0, EPSILON, step, RATE, signed.cuda(), unsigned.cuda() if two else None,
                largest[0], largest[1] if two else None)
        expected = plain(values, slopes)
        error = (card.cpu() - expected).abs().mean() / (values - expected).abs().mean()
        assert error < 0.05, f"{name} is off by {error:.3f} of its way"


main(f"bitsandbytes {importlib.metadata.version('bitsandbytes')}, torch {torch.__version__}")
