# SPDX-License-Identifier: Apache-2.0
"""Arrays down and up again, elementwise kernels, a reduction whose value is read."""

import sys

import cupy

a = cupy.arange(4096, dtype=cupy.float32)
for _ in range(int(sys.argv[1])):
    b = cupy.asarray(a.get())
    float((a * 2 + b).sum())
    cupy.sqrt(a)[::2].copy()
    cupy.cuda.get_current_stream().synchronize()
