# SPDX-License-Identifier: Apache-2.0
"""JAX on a software card: what XLA compiles computes, compared with XLA on the processor.

Without cuBLAS, cuDNN and the other libraries, whose kernels are machine code: products
of matrices go through Triton (XLA_FLAGS, see run.py).
"""

import jax
import jax.numpy as jnp
import numpy as np

from client import check, main

CARD = jax.devices("gpu")[0]
PROCESSOR = jax.devices("cpu")[0]


def numbers(*shape, seed=7):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(function, *args, tolerance=1e-5):
    """What both say of it, leaf by leaf."""
    found, expected = (
        jax.tree.leaves(jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, device))))
        for device in (CARD, PROCESSOR))
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@check
def element_by_element():
    same(lambda x: jnp.sin(x) * jnp.exp(-x * x) + jnp.tanh(x) / jnp.sqrt(jnp.abs(x) + 1),
         numbers(1000))
    same(lambda x: (jax.scipy.special.erf(x), jax.scipy.special.gammaln(jnp.abs(x) + 0.1),
                    jax.scipy.special.erfinv(x * 0.2)), numbers(500), tolerance=1e-4)
    same(lambda x: jnp.abs(jnp.exp(1j * x) * (x + 2j)), numbers(500))
    bits = np.random.default_rng(1).integers(-2**31, 2**31 - 1, 1000).astype(np.int32)
    same(lambda x: (x * 7919 >> 3, x ^ (x << 5), jax.lax.population_count(x), x // 7, x % 13), bits)


@check
def reductions_and_scans():
    same(lambda x: (x.sum(0), x.max(1), x.mean(), jnp.argmax(x, 1), jnp.var(x, 0)),
         numbers(100, 300), tolerance=1e-4)
    same(lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x * 0.1 + 1, 0)), numbers(50, 200),
         tolerance=1e-3)
    same(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3), (1, 2, 2), "SAME"),
         numbers(2, 20, 20))


@check
def softmax_and_a_gradient():
    same(lambda x: jax.nn.softmax(x, -1), numbers(64, 257))

    def loss(x):
        scaled = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return jnp.sum(jnp.square(scaled) * jnp.arange(128.0))
    same(jax.grad(loss), numbers(32, 128), tolerance=1e-3)


@check
def elements_elsewhere():
    where = np.random.default_rng(2).integers(0, 64, 100)
    same(lambda x: jnp.transpose(x, (2, 0, 1)) + 1, numbers(17, 33, 65))
    same(lambda x, i: (x[i], x.at[i].add(1.0), jnp.take_along_axis(x, i[:, None], 1)),
         numbers(100, 64), where)
    same(lambda x: (jnp.sort(x), jnp.argsort(x), jax.lax.top_k(x, 5)), numbers(3000))


@check
def loops_and_choices():
    same(lambda x: jax.lax.scan(lambda c, a: (c * 0.9 + a, c), jnp.zeros(16), x), numbers(50, 16))
    same(lambda x: jax.lax.while_loop(lambda s: s[1].sum() < 1e6, lambda s: (s[0] + 1, s[1] * 1.5),
                                      (0, x)), np.abs(numbers(10)))
    same(lambda x: jax.lax.cond(x[0] > 0, lambda x: x * 2, lambda x: x - 1, x), numbers(10))


@check
def random_numbers_are_the_processors():
    def draw(key):
        return (jax.random.normal(key, (500,)), jax.random.randint(key, (100,), 0, 1000),
                jax.random.permutation(key, 200))
    same(draw, np.array([0, 42], dtype=np.uint32), tolerance=1e-4)


@check
def products_of_matrices():
    same(lambda a, b: a @ b, numbers(64, 96), numbers(96, 80), tolerance=5e-2)
    same(lambda a, b: (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32),
         numbers(128, 128), numbers(128, 128, seed=8), tolerance=0.2)
    same(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), numbers(4, 16, 32), numbers(4, 32, 24),
         tolerance=5e-2)


@check
def network_that_trains():
    x = numbers(64, 8)
    y = np.tanh(x.sum(1, keepdims=True))

    def loss(layers):
        hidden = jax.nn.relu(x @ layers[0] + layers[1])
        return jnp.mean((hidden @ layers[2] + layers[3] - y) ** 2)

    def step(layers, _):
        found, slope = jax.value_and_grad(loss)(layers)
        return tuple(a - 0.1 * b for a, b in zip(layers, slope)), found

    def train(*layers):
        return jax.lax.scan(step, layers, None, length=40)[1]
    layers = (0.3 * numbers(8, 32), np.zeros(32, np.float32), 0.3 * numbers(32, 1),
              np.zeros(1, np.float32))
    same(train, *layers, tolerance=2e-2)
    losses = np.asarray(jax.jit(train)(*jax.device_put(layers, CARD)))
    assert losses[-1] < losses[0] / 2, losses


main(f"jax {jax.__version__}")
