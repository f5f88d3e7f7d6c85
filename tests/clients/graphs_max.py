# SPDX-License-Identifier: Apache-2.0
"""MAX: graphs of tensors that Mojo's compiler turns into kernels for the card, against NumPy."""

import importlib.metadata
import math

import numpy as np
from max.driver import CPU, Accelerator, Buffer
from max.dtype import DType
from max.engine import InferenceSession
from max.graph import DeviceRef, Graph, TensorType, ops

from client import check, main

RNG = np.random.default_rng(1)
CARD = Accelerator()
SESSION = InferenceSession(devices=[CARD])
A, B = (RNG.standard_normal((33, 64)).astype(np.float32) for _ in range(2))
WEIGHT = RNG.standard_normal((64, 48)).astype(np.float32)
SCALE, SHIFT = (RNG.standard_normal(64).astype(np.float32) for _ in range(2))
WHOLE = RNG.integers(-50, 50, (33, 64)).astype(np.int32)
ROWS = np.array([3, 32, 0, 7, 3], np.int64)


def graph(build, *arrays):
    """What a graph of @build makes of the arrays; every output at once, for each graph is compiled."""
    types = [TensorType(DType.from_numpy(array.dtype), array.shape, device=DeviceRef.GPU()) for array in arrays]
    model = SESSION.load(Graph("graph", forward=build, input_types=types))
    made = model.execute(*[Buffer.from_numpy(array).to(CARD) for array in arrays])
    return [value.to(CPU()).to_numpy() for value in made]


def softmax(x):
    made = np.exp(x - x.max(-1, keepdims=True))
    return made / made.sum(-1, keepdims=True)


def agree(found, wanted, tolerance=2e-5):
    assert len(found) == len(wanted)
    for number, (one, other) in enumerate(zip(found, wanted)):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=f"output {number}")


@check
def copies():
    for array in (A, WHOLE, ROWS, (A > 0), A.astype(np.float16)):
        np.testing.assert_array_equal(Buffer.from_numpy(array).to(CARD).to(CPU()).to_numpy(), array)


@check
def elements():
    def build(a, b, whole):
        return (a + b * 2.0 - 1.0, a / (ops.abs(b) + 1.0), ops.exp(a), ops.tanh(a), ops.sqrt(ops.abs(a)), ops.sin(a),
                ops.erf(a), ops.max(a, b), ops.where(a > b, a, b * 3.0), ops.cast(whole, DType.float32) * 0.5,
                whole * 3 + 7, ops.gelu(a), ops.sigmoid(a), ops.floor(a * 4.0))
    erf = np.vectorize(math.erf)(A)
    agree(graph(build, A, B, WHOLE), (
        A + B * 2 - 1, A / (abs(B) + 1), np.exp(A), np.tanh(A), np.sqrt(abs(A)), np.sin(A), erf, np.maximum(A, B),
        np.where(A > B, A, B * 3), WHOLE * .5, WHOLE * 3 + 7, A * .5 * (1 + np.vectorize(math.erf)(A / math.sqrt(2))),
        1 / (1 + np.exp(-A)), np.floor(A * 4)))


@check
def rows():
    def build(a, scale, shift):
        return (ops.softmax(a), ops.sum(a), ops.mean(a), ops.max(a), ops.argmax(a), ops.cumsum(a, axis=1),
                ops.layer_norm(a, scale, shift, 1e-5))
    spread = (A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + 1e-5)
    agree(graph(build, A, SCALE, SHIFT), (
        softmax(A), A.sum(-1, keepdims=True), A.mean(-1, keepdims=True), A.max(-1, keepdims=True),
        A.argmax(-1)[:, None], A.cumsum(1), spread * SCALE + SHIFT), 1e-4)


@check
def shapes():
    def build(a, b, which):
        return (ops.transpose(a, 0, 1), ops.concat([a, b], axis=1), ops.reshape(a, (64, 33)), a[3:20, ::2],
                ops.gather(a, which, axis=0), ops.broadcast_to(ops.unsqueeze(a, 0), (2, 33, 64)),
                ops.permute(ops.reshape(a, (3, 11, 64)), [2, 0, 1]))
    agree(graph(build, A, B, ROWS), (A.T, np.concatenate([A, B], axis=1), A.reshape(64, 33), A[3:20, ::2], A[ROWS],
                                     np.broadcast_to(A, (2, 33, 64)), A.reshape(3, 11, 64).transpose(2, 0, 1)), 0)


@check
def products():
    agree(graph(lambda a, weight: (ops.matmul(a, weight),), A, WEIGHT), (A @ WEIGHT,), 2e-4)


main(f"max {importlib.metadata.version('max')}")
