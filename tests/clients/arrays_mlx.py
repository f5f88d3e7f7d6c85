# SPDX-License-Identifier: Apache-2.0
"""MLX: arrays, automatic differentiation and compiled functions, as graphs that it builds node by node and updates.

On a software card its own kernels compute and are compared with MLX on the processor.  Where nothing is computed
(`ALL_CALLS=1`) what has machine code alone is called too.
"""

import importlib.metadata
import os

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
import numpy as np

from client import check, main

ALL_CALLS = os.environ.get("ALL_CALLS") == "1"
numbers = np.random.default_rng(7)


def uniform(*shape):
    return numbers.uniform(-2, 2, shape).astype(np.float32)


def same(function, *arrays, close=1e-5):
    """What @function gives on the card is what it gives on the processor."""
    there = function(*map(mx.array, arrays))
    mx.eval(there)
    if ALL_CALLS:
        return
    with mx.stream(mx.cpu):
        here = function(*map(mx.array, arrays))
        mx.eval(here)
    for a, b in zip(flat(there), flat(here), strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=close, atol=close)


def flat(arrays):
    return [arrays] if isinstance(arrays, mx.array) else [one for each in arrays for one in flat(each)]


@check
def element_by_element():
    x, y = uniform(33, 1000), uniform(1000)
    same(lambda x, y: [x + y, x * y - 1, mx.sin(x), mx.exp(x), mx.maximum(x, y), x > y, mx.abs(x) ** 0.5], x, y)
    whole = numbers.integers(-1000, 1000, (3, 777))
    same(lambda i: [i // 7, i % 7, i & 255, i << 2, i.astype(mx.float32) / 3], whole)


@check
def halves_and_bfloat16():
    same(lambda x: [(x.astype(kind) * 3 + 1).astype(mx.float32) for kind in (mx.float16, mx.bfloat16)], uniform(5000))


@check
def views_and_broadcasts():
    x = uniform(20, 30, 40)
    same(lambda x: [x.transpose(2, 0, 1) + 1, x[::2, 1::3] * 2, mx.broadcast_to(x[:1], (5, 30, 40)) - 1, x[..., ::-1] + 0], x)


@check
def sums_and_their_like():
    x = uniform(70, 900)
    same(lambda x: [x.sum(), x.sum(0), x.sum(1), x.max(1), x.min(0), mx.mean(x), mx.var(x, axis=1), mx.argmax(x, axis=1),
                    mx.logsumexp(x, axis=1), mx.all(x > -3), mx.prod(x[:, :3], axis=1)], x, close=1e-4)


@check
def softmax_and_norms():
    x, weight = uniform(16, 512), uniform(512)
    # Not layer_norm(): its second sum writes shared memory that the first may not have read (docs/clients.md).
    same(lambda x, w: [mx.softmax(x, axis=-1), mx.fast.rms_norm(x, w, 1e-5),
                       mx.fast.rope(x.reshape(1, 4, 4, 512), 64, traditional=False, base=10000.0, scale=1.0, offset=2)],
         x, weight, close=1e-4)


@check
def orders_and_running_sums():
    x = uniform(11, 3000)
    same(lambda x: [mx.sort(x), mx.argsort(x, axis=0), mx.partition(x, 100)[:, 100], mx.cumsum(x, axis=1), mx.cummax(x, axis=0)],
         x, close=1e-3)


@check
def random_numbers():
    key = mx.random.key(5)
    same(lambda: [mx.random.randint(0, 1 << 20, (1001,), key=key), mx.random.uniform(shape=(1001,), key=key),
                  mx.random.normal((99,), key=key)])


@check
def gradients_and_training():
    x, y = uniform(512, 8), uniform(512)

    def error(weights, x, y):
        return mx.mean((mx.sum(mx.tanh(x * weights), axis=1) - y) ** 2)

    def train(x, y):
        weights, optimizer = {"w": mx.full((8,), 0.25)}, optimizers.Adam(1e-2)
        for _ in range(20):
            gradient = mx.grad(error)(weights["w"], x, y)
            weights = optimizer.apply_gradients({"w": gradient}, weights)
            mx.eval(weights, optimizer.state)
        return weights["w"]
    same(train, x, y, close=1e-4)


@check
def streams_wait_for_each_other():
    one, other = mx.new_stream(mx.gpu), mx.new_stream(mx.gpu)
    x = uniform(100000)

    def work(x):
        for i in range(20):
            x = mx.add(x, 1.0, stream=one if i % 2 else other)
        return x
    y = work(mx.array(x))
    mx.eval(y)
    want = x
    for _ in range(20):
        want = want + np.float32(1)
    assert ALL_CALLS or (np.array(y) == want).all()


def machine_code():
    """What MLX compiles at run time, always to machine code, and NVIDIA's libraries."""
    x = mx.array(uniform(64, 256))
    kernel = mx.fast.cuda_kernel(
        name="twice", input_names=["x"], output_names=["y"],
        source="auto i = cooperative_groups::this_grid().thread_rank(); y[i] = x[i] * 2;")
    mx.eval(kernel(inputs=[x], grid=(x.size, 1, 1), threadgroup=(256, 1, 1), output_shapes=[x.shape],
                   output_dtypes=[x.dtype]))
    mx.eval(mx.compile(lambda x: mx.tanh(x * x + 1) * mx.sigmoid(x))(x), x[mx.array([1, 2, 3])], x.at[mx.array([1, 2])].add(1.0),
            mx.fast.layer_norm(x, x[0], x[0], 1e-5))
    mx.eval(x @ x.T, mx.fft.fft(x), mx.conv2d(mx.zeros((1, 16, 16, 8)), mx.zeros((4, 3, 3, 8))), mx.quantize(x))
    heads = mx.zeros((1, 4, 32, 64))
    mx.eval(mx.fast.scaled_dot_product_attention(heads, heads, heads, scale=1.0))
    network, optimizer = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)), optimizers.Adam(1e-3)
    step = nn.value_and_grad(network, lambda network, x: mx.mean(network(x) ** 2))
    for _ in range(5):
        optimizer.update(network, step(network, x)[1])
        mx.eval(network.parameters(), optimizer.state)


if ALL_CALLS:
    check(machine_code)
assert mx.default_device() == mx.gpu
main("mlx " + importlib.metadata.version("mlx"))
