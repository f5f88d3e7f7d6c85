# SPDX-License-Identifier: Apache-2.0
"""IREE on a software card: functions of JAX, which its compiler makes PTX of and its
runtime runs, against JAX on the processor.

IREE_GRAPHS=1: it builds CUDA graphs instead of filling a stream.
"""

import importlib.metadata
import os
import threading

os.environ["JAX_PLATFORMS"] = "cpu"

import iree.compiler  # pylint: disable=wrong-import-position
import iree.runtime  # pylint: disable=wrong-import-position
import jax  # pylint: disable=wrong-import-position
import jax.numpy as jnp  # pylint: disable=wrong-import-position
import numpy as np  # pylint: disable=wrong-import-position

from client import check, main  # pylint: disable=wrong-import-position

GRAPHS = os.environ.get("IREE_GRAPHS") == "1"
iree.runtime.flags.parse_flags(f"--cuda_use_streams={'false' if GRAPHS else 'true'}")
CARD = iree.runtime.Config("cuda")


def numbers(*shape, seed=7):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(below, *shape, seed=7):
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def compiled(function, *args):
    """The function on the card; it takes arrays of the card or of the host."""
    code = iree.compiler.compile_str(
        jax.jit(function).lower(*args).as_text(), input_type="stablehlo",
        target_backends=["cuda"], extra_args=["--iree-cuda-target=sm_86",
                                              "--iree-input-demote-f64-to-f32=false"])
    module = iree.runtime.VmModule.copy_buffer(CARD.vm_instance, code)
    context = iree.runtime.SystemContext(config=CARD)
    context.add_vm_module(module)
    return context.modules[module.name]["main"]


def leaves(found):
    return [leaf.to_host() for leaf in (found if isinstance(found, (tuple, list)) else [found])]


def near(found, expected, tolerance):
    expected = jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        np.testing.assert_allclose(mine, np.asarray(theirs), rtol=tolerance, atol=tolerance)


def same(function, *args, tolerance=1e-5):
    near(leaves(compiled(function, *args)(*args)), jax.jit(function)(*args), tolerance)


@check
def element_by_element():
    same(lambda x: jnp.sin(x) * jnp.exp(-x * x) + jnp.tanh(x) / (1 + jnp.abs(x)), numbers(37, 41))
    same(lambda x: (jax.lax.erf(x), jnp.log1p(jnp.abs(x)), jnp.expm1(x), jnp.cbrt(x),
                    jnp.arctan2(x, x + 1), jnp.power(jnp.abs(x), 1.7), jnp.round(x * 3)),
         numbers(100))
    same(lambda a, b: ((a >> b) ^ (a * b), a // (b + 1), a % (b + 1),
                       jax.lax.population_count(a), jax.lax.clz(a)),
         whole(1 << 30, 1000), whole(31, 1000, seed=8))
    same(lambda m, x: (jnp.where(m, x, -x), m.any(0), m.all(1), jnp.logical_xor(m, x > 0)),
         numbers(16, 16) > 0, numbers(16, 16, seed=8))


@check
def halves_and_doubles():
    half = numbers(40, 40).astype(np.float16)
    same(lambda a: (a * a + a, jnp.maximum(a, a.T)), half, tolerance=2e-3)
    same(lambda a: jnp.matmul(a, a, preferred_element_type=jnp.float32), half)
    with jax.enable_x64(True):
        same(lambda x: jnp.exp(x) @ x, np.float64(numbers(30, 30)), tolerance=1e-13)


@check
def sums_and_prefixes():
    same(lambda x: (x.sum(), x.max(), x.min(), jnp.argmax(x)), numbers(4000), tolerance=1e-4)
    same(lambda x: (x.mean(0), x.var(1)), numbers(60, 130))
    same(lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x * 0.1 + 1, 0)), numbers(9, 100), tolerance=1e-4)


@check
def softmax_and_norms_of_rows():
    same(lambda x: jax.nn.softmax(x, -1), numbers(64, 100))

    def norm(x, gain):
        middle = x - x.mean(-1, keepdims=True)
        return middle * jax.lax.rsqrt((middle ** 2).mean(-1, keepdims=True) + 1e-5) * gain
    same(norm, numbers(33, 77), numbers(77, seed=8))


@check
def products_of_matrices():
    same(jnp.matmul, numbers(65, 49), numbers(49, 83), tolerance=1e-4)
    same(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), numbers(5, 33, 20), numbers(5, 20, 31),
         tolerance=1e-4)


@check
def convolutions_and_pools():
    same(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
         numbers(2, 3, 16, 16), numbers(8, 3, 3, 3), tolerance=1e-4)
    same(lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", feature_group_count=8),
         numbers(2, 8, 17, 17), numbers(8, 1, 3, 3), tolerance=1e-4)
    same(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"),
         numbers(2, 4, 18, 18))


@check
def elements_elsewhere():
    where = whole(50, 77)
    same(lambda x, i: (x[i], x[i, ::-1]), numbers(50, 20), where)
    same(lambda x, i, u: x.at[i].add(u), numbers(50, 20), where, numbers(77, 20, seed=8),
         tolerance=1e-4)
    same(lambda x: (x.transpose(3, 1, 0, 2), x[::-1, :, ::2], jnp.pad(x, ((0, 0), (1, 1), (2, 0), (0, 3)))),
         numbers(8, 3, 5, 7))
    same(lambda x, i: (jax.ops.segment_sum(x, i, 10), jax.ops.segment_max(x, i, 10)),
         numbers(60), whole(10, 60), tolerance=1e-4)
    same(jnp.sort, numbers(300))


@check
def loops_of_the_host_and_of_the_card():
    """Each turn is a command buffer of its own."""
    same(lambda x: jax.lax.fori_loop(0, 17, lambda i, v: v * 0.9 + jnp.float32(i) * 0.1, x), numbers(10))
    same(lambda x: jax.lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), jnp.zeros(6, jnp.float32), x),
         numbers(20, 6))
    same(lambda x: jax.lax.while_loop(lambda s: jnp.abs(s).max() > 0.1, lambda s: s * 0.7, x),
         numbers(30))


@check
def attention_and_a_gradient():
    def attention(q, k, v):
        scores = jnp.einsum("bqd,bkd->bqk", q, k) / jnp.sqrt(8.0)
        scores = jnp.where(jnp.tril(jnp.ones((16, 16), bool)), scores, -1e30)
        return jax.nn.softmax(scores, -1) @ v
    same(attention, numbers(12, 16, 8), numbers(12, 16, 8, seed=8), numbers(12, 16, 8, seed=9))

    def slopes(x, w, b, y):
        return jax.grad(lambda w, b: jnp.mean((jnp.tanh(x @ w + b) - y) ** 2), (0, 1))(w, b)
    same(slopes, numbers(40, 30), numbers(30, 20, seed=8), numbers(20, seed=9), numbers(40, 20, seed=10))


@check
def random_bits_and_a_transform():
    same(lambda key: jax.random.uniform(key, (257,)), np.uint32([7, 9]), tolerance=0)
    same(lambda x: jnp.abs(jnp.fft.rfft(x)), numbers(32), tolerance=1e-4)


@check
def results_stay_on_the_card():
    """Fifty steps, each of the array that the one before left there."""
    def step(x, w):
        return jnp.tanh(x @ w)
    x, w = numbers(24, 24), numbers(24, 24, seed=8) * np.float32(0.3)
    on_card = compiled(step, x, w)
    found, weights = x, iree.runtime.asdevicearray(CARD.device, w)
    expected = x
    for _ in range(50):
        found = on_card(found, weights)
        expected = jax.jit(step)(expected, w)
    near([found.to_host()], expected, 1e-4)


@check
def several_threads():
    x = numbers(50, 60)
    functions = [compiled(lambda x, n=n: jnp.cumsum(jnp.sin(x * n), 1), x) for n in range(1, 5)]
    wrong = []

    def work(n):
        for _ in range(20):
            found = functions[n - 1](x).to_host()
            if not np.allclose(found, np.cumsum(np.sin(x * n), 1), atol=1e-4):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


main(f"iree {importlib.metadata.version('iree-base-runtime')}, "
     f"{'graphs' if GRAPHS else 'streams'}, jax {jax.__version__}")
