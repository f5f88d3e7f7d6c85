# SPDX-License-Identifier: Apache-2.0
"""Linear attention by flash-linear-attention, whose kernels are written in Triton, on a
software card, against its own plain recurrences by PyTorch on the processor.

Only ways forward, for those back call kernels of PyTorch's own, which are machine code.
Kernels that multiply matrices do so in halves or TF32.
"""

import importlib
import importlib.metadata

import torch
import torch.nn.functional as F

from client import check, main

BATCH, TIME, HEADS, WIDTH = 1, 96, 2, 32
ROUNDED = 3e-3  # halves, TF32


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


Q, K, V = (numbers(BATCH, TIME, HEADS, WIDTH, seed=seed) for seed in (1, 2, 3))
UNIT = F.normalize(K, dim=-1)
BETA = torch.sigmoid(numbers(BATCH, TIME, HEADS, seed=4))
GATE = F.logsigmoid(numbers(BATCH, TIME, HEADS, seed=5))
GATES = F.logsigmoid(numbers(BATCH, TIME, HEADS, WIDTH, seed=6))


def of(module, name):
    return getattr(importlib.import_module(f"fla.ops.{module}"), name)


def on_card(*tensors):
    return [tensor.to("cuda") for tensor in tensors]


def halves(*tensors):
    return [tensor.half() for tensor in tensors]


def heads_first(*tensors):
    return [tensor.transpose(1, 2) for tensor in tensors]


def near(found, expected, tolerance):
    found, expected = found.cpu().float(), expected.float()
    error = (found - expected).pow(2).mean().sqrt() / expected.pow(2).mean().sqrt()
    assert error < tolerance, f"off by {error:.2e} of its size"


@check
def gated_linear_attention():
    expected = of("gla.naive", "naive_recurrent_gla")(Q, K, V, GATES)[0]
    near(of("gla", "fused_recurrent_gla")(*on_card(Q, K, V, GATES))[0], expected, 1e-5)
    near(of("gla", "chunk_gla")(*on_card(Q, K, V, GATES))[0], expected, ROUNDED)


@check
def delta_rule():
    expected = of("delta_rule.naive", "delta_rule_recurrence")(
        *heads_first(Q, UNIT, V, BETA))[0].transpose(1, 2)
    near(of("delta_rule", "fused_recurrent_delta_rule")(*on_card(Q, UNIT, V, BETA))[0], expected, 1e-5)
    near(of("delta_rule", "chunk_delta_rule")(*on_card(*halves(Q, UNIT, V, BETA)))[0], expected, ROUNDED)


@check
def gated_delta_rule():
    expected = of("gated_delta_rule.naive", "naive_recurrent_gated_delta_rule")(
        Q, UNIT, V, BETA, GATE)[0]
    near(of("gated_delta_rule", "fused_recurrent_gated_delta_rule")(
        *on_card(Q, UNIT, V, GATE), beta=BETA.to("cuda"))[0], expected, 1e-5)
    q, k, v, beta = halves(Q, UNIT, V, BETA)
    near(of("gated_delta_rule", "chunk_gated_delta_rule")(*on_card(q, k, v, GATE, beta))[0],
         expected, ROUNDED)


@check
def delta_attention_with_gates():
    expected = of("kda.naive", "naive_recurrent_kda")(Q, UNIT, V, GATES, BETA)[0]
    near(of("kda", "fused_recurrent_kda")(*on_card(Q, UNIT, V, GATES), beta=BETA.to("cuda"))[0],
         expected, 1e-5)


@check
def recurrence_with_gates():
    x, gate = numbers(2, TIME, 64, seed=7), F.logsigmoid(numbers(2, TIME, 64, seed=8))
    expected = of("hgrn.naive", "naive_recurrent_hgrn")(x, gate)[0]
    near(of("hgrn", "fused_recurrent_hgrn")(*on_card(x, gate))[0], expected, 1e-5)
    near(of("hgrn", "chunk_hgrn")(*on_card(x, gate))[0], expected, 1e-5)


@check
def attention():
    near(of("attn", "parallel_attn")(*on_card(*halves(Q, K, V))),
         F.scaled_dot_product_attention(*heads_first(Q, K, V), is_causal=True).transpose(1, 2), ROUNDED)


@check
def attention_that_forgets():
    near(of("forgetting_attn", "parallel_forgetting_attn")(*on_card(*halves(Q, K, V), GATE)),
         of("forgetting_attn.naive", "naive_forgetting_attn")(Q, K, V, GATE), ROUNDED)


@check
def generalised_delta_rule():
    decay = -torch.exp(-0.5 - F.softplus(GATES))
    left, right = -UNIT, UNIT * torch.sigmoid(V)
    expected = of("generalized_delta_rule.dplr.naive", "dplr_recurrence")(
        *heads_first(Q * WIDTH ** 0.5, K, V, left, right, decay))[0].transpose(1, 2)
    near(of("rwkv7", "fused_recurrent_rwkv7")(*on_card(Q, decay, K, V, left, right), scale=1.0)[0],
         expected, 1e-5)


main(f"fla-core {importlib.metadata.version('fla-core')}, torch {torch.__version__}")
