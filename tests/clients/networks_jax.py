# SPDX-License-Identifier: Apache-2.0
"""JAX on the null driver: what XLA compiles, the libraries that it calls, its graphs.

Nothing is computed there, so only what copies carry is compared: every call must be
carried, and every program must reach its end.  Loops whose length the card decides are
left out.
"""

import jax
import jax.numpy as jnp
import numpy as np

from client import check, main


def numbers(*shape, dtype=np.float32, seed=7):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def ended(tree):
    return jax.block_until_ready(tree)


@check
def card_is_listed():
    cards = jax.devices("gpu")
    assert len(cards) == 1 and "null card" in cards[0].device_kind, cards
    assert cards[0].compute_capability == "8.6", cards[0].compute_capability
    assert cards[0].memory_stats()["bytes_limit"] > 1 << 20, cards[0].memory_stats()


@check
def arrays_go_up_and_come_back():
    for shape in ((), (17,), (1 << 20,), (3, 5, 7, 11)):
        host = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        on_card = ended(jax.device_put(host))
        assert np.array_equal(np.asarray(on_card), host), shape


@check
def functions_are_compiled():
    x = numbers(1000, 1000)
    ended(jax.jit(lambda x: jnp.where(x > 0, jnp.sin(x), x * 2 + 1).sum(axis=1))(x))
    ended(jax.jit(lambda x: (jnp.sort(x), jnp.argsort(x, axis=0), jnp.cumsum(x)))(x))
    ended(jax.vmap(lambda row: row @ row)(x))


@check
def cublas_multiplies():
    for dtype in (jnp.float32, jnp.float64, jnp.float16, jnp.bfloat16):
        a, b = numbers(384, 512, dtype=dtype), numbers(512, 256, dtype=dtype, seed=8)
        assert ended(a @ b).shape == (384, 256)
    ended(jnp.einsum("bij,bjk->bik", numbers(4, 64, 96), numbers(4, 96, 32)))


@check
def cudnn_convolves():
    x, w = numbers(8, 16, 32, 32), numbers(32, 16, 3, 3, seed=8)

    def loss(x, w):
        return jax.lax.conv(x, w, (1, 1), "SAME").sum()
    ended(jax.jit(jax.grad(loss, argnums=(0, 1)))(x, w))


@check
def cufft_and_cusolver():
    a = numbers(64, 64)
    ended(jnp.fft.irfft2(jnp.fft.rfft2(a)))
    ended(jnp.linalg.cholesky(a @ a.T + 64 * jnp.eye(64)))
    ended(jnp.linalg.qr(a))
    ended(jnp.linalg.solve(a, a))


@check
def random_numbers():
    key = jax.random.key(7)
    ended(jax.random.normal(key, (1000, 100)))
    ended(jax.random.permutation(jax.random.split(key)[0], 1000))


def network(parameters, x):
    for w, b in parameters[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = parameters[-1]
    return jax.nn.log_softmax(x @ w + b)


@check
def network_trains():
    sizes = (64, 256, 256, 10)
    parameters = [(numbers(m, n, seed=i), jnp.zeros(n))
                  for i, (m, n) in enumerate(zip(sizes, sizes[1:]))]
    x, y = numbers(128, 64), jnp.arange(128) % 10

    def loss(parameters):
        return -network(parameters, x)[jnp.arange(128), y].mean()

    @jax.jit
    def step(parameters, _):
        gradient = jax.grad(loss)(parameters)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient), None
    for _ in range(8):  # a command buffer is recorded, then replayed and updated
        parameters, _ = step(parameters, None)
    ended(parameters)
    ended(jax.jit(lambda p: jax.lax.scan(step, p, None, length=5))(parameters))


@check
def host_is_called_back():
    seen = []

    def look(x):
        seen.append(x.shape)
        return np.asarray(x)
    y = jax.jit(lambda x: jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(
        numbers(100))
    ended(y)
    assert seen == [(100,)], seen


@check
def memory_is_given_back():
    card = jax.devices()[0]
    before = card.memory_stats()["bytes_in_use"]
    block = ended(jnp.zeros(16 << 20, jnp.uint8))
    assert card.memory_stats()["bytes_in_use"] >= before + (16 << 20)
    block.delete()
    assert card.memory_stats()["bytes_in_use"] <= before, card.memory_stats()


jax.config.update("jax_enable_x64", True)
main(f"JAX {jax.__version__}, {jax.devices()[0].client.platform_version.splitlines()[-1]}")
