# SPDX-License-Identifier: Apache-2.0
"""A kernel on an array that comes up each time, and its result down."""

import sys

import numpy
from numba import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


x = numpy.arange(4096, dtype=numpy.float32)
on_card = cuda.to_device(x)
for _ in range(int(sys.argv[1])):
    out = cuda.device_array_like(x)
    add[32, 128](on_card, cuda.to_device(x), out)
    out.copy_to_host()
    cuda.synchronize()
