# SPDX-License-Identifier: Apache-2.0
"""Liger's kernels, which train language models and are written in Triton, on a software
card, against PyTorch on the processor.

Those that call kernels of PyTorch's own beside, which are machine code, are left out:
cross entropy, rotary positions, divergences.
"""

import importlib.metadata

import torch
import torch.nn.functional as F
from liger_kernel.ops import dyt, geglu, group_norm, layer_norm, rms_norm, softmax, swiglu

from client import check, main


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def on_card(*tensors):
    return [tensor.detach().to("cuda") for tensor in tensors]


def near(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=tolerance,
                               atol=tolerance)


def with_slopes(function, *args):
    """What it is, and the slopes of its product with a known tensor."""
    leaves = [arg.clone().requires_grad_() for arg in args]
    value = function(*leaves)
    outer = numbers(*value.shape, seed=9)
    value.backward(outer)
    return value, outer, [leaf.grad for leaf in leaves]


@check
def rms_norm_of_rows():
    x, weight = numbers(6, 64), numbers(64, seed=2)
    found = rms_norm.rms_norm_forward(*on_card(x, weight), 1e-6, 0.0, "llama", None)[0]
    near(found, F.rms_norm(x, (64,), weight, 1e-6))


@check
def layer_norm_of_rows():
    x, weight, bias = numbers(6, 64), numbers(64, seed=2), numbers(64, seed=3)
    near(layer_norm.layer_norm_forward(*on_card(x, weight, bias), 1e-5)[0],
         F.layer_norm(x, (64,), weight, bias))


@check
def group_norm_of_channels():
    x, weight, bias = numbers(2, 8, 20), numbers(8, seed=2), numbers(8, seed=3)
    card = on_card(x, weight, bias)
    near(group_norm.group_norm_forward(card[0], 8, 4, card[1], card[2], 1e-5)[0],
         F.group_norm(x, 4, weight, bias, 1e-5))


def gated(forward, backward, gate):
    """gate(a) * b and its slopes."""
    a, b = numbers(8, 100), numbers(8, 100, seed=2)
    value, outer, slopes = with_slopes(lambda a, b: gate(a) * b, a, b)
    near(forward(*on_card(a, b))[2], value)
    for found, expected in zip(backward(*on_card(a, b, outer)), slopes):
        near(found, expected)


@check
def swiglu_and_its_slopes():
    gated(swiglu.swiglu_forward, swiglu.swiglu_backward, F.silu)


@check
def geglu_and_its_slopes():
    gated(geglu.geglu_forward, geglu.geglu_backward, lambda a: F.gelu(a, approximate="tanh"))


@check
def softmax_of_rows():
    x = numbers(8, 300)
    near(softmax._softmax_forward(*on_card(x))[0], x.softmax(-1))


@check
def dynamic_tanh():
    x, weight, bias = numbers(8, 64), numbers(64, seed=2), numbers(64, seed=3)
    scale = torch.tensor([0.5])
    near(dyt.liger_dyt_fwd(*on_card(x, scale, weight, bias)), torch.tanh(scale * x) * weight + bias)


main(f"liger-kernel {importlib.metadata.version('liger-kernel')}, torch {torch.__version__}")
