# SPDX-License-Identifier: Apache-2.0
"""A program that adds nodes to a graph until the driver has no memory for them: `full N`,
and then `goes on` when its context still works.  Arguments: the most nodes to try."""

import ctypes
import sys

OUT_OF_MEMORY = 2
cuda = ctypes.CDLL("libcuda.so.1")


def ok(result):
    assert result == 0, result


def fill(graph, most):
    node = ctypes.c_void_p()
    for n in range(most):
        result = cuda.cuGraphAddEmptyNode(ctypes.byref(node), graph, None,
                                          ctypes.c_size_t(0))
        if result == 0 and n % 10000 == 9999:
            result = cuda.cuCtxSynchronize()
        if result:
            return n, result
    return most, 0


ok(cuda.cuInit(0))
context = ctypes.c_void_p()
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
graph = ctypes.c_void_p()
ok(cuda.cuGraphCreate(ctypes.byref(graph), 0))
nodes, result = fill(graph, int(sys.argv[1]))
print("full" if result == OUT_OF_MEMORY else f"result {result} after", nodes)
ok(cuda.cuGraphDestroy(graph))
memory = ctypes.c_uint64()
ok(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)))
ok(cuda.cuMemsetD8_v2(memory, 7, ctypes.c_size_t(1 << 20)))
ok(cuda.cuCtxSynchronize())
print("goes on")
