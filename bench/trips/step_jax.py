# SPDX-License-Identifier: Apache-2.0
"""Training steps of a linear model on a batch from pageable memory, and the loss of each."""

import sys

import jax
import jax.numpy as jnp
import numpy


@jax.jit
def step(w, x, y):
    loss, slope = jax.value_and_grad(lambda w: ((x @ w - y) ** 2).mean())(w)
    return w - 0.1 * slope, loss


weights = jnp.zeros((256, 10))
batch, labels = numpy.ones((64, 256), numpy.float32), numpy.ones((64, 10), numpy.float32)
for _ in range(int(sys.argv[1])):
    weights, loss = step(weights, batch, labels)
    float(loss)
