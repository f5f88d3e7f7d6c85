# SPDX-License-Identifier: Apache-2.0
"""A program that asks the null driver what frameworks ask it before they compute:
`ok WHAT` for each promise."""

import ctypes
import struct
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

SIZE = 4096
MEMORY_TYPE, ORDINAL, START, LENGTH = 2, 9, 11, 12
ON_HOST, ON_DEVICE = 1, 2
SM, INVALID_RESOURCE_TYPE = 1, 914
cuda = ctypes.CDLL("libcuda.so.1")
HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, ctypes.c_char_p, c_size_t)


def ok(result):
    assert result == 0, result


def attribute(which, at, kind=c_uint):
    value = kind()
    ok(cuda.cuPointerGetAttribute(byref(value), which, c_ulonglong(at)))
    return value.value


def kernel_of_a_library():
    library, kernel = c_void_p(), c_void_p()
    ok(cuda.cuLibraryLoadData(byref(library), b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry two(.param .u64 a, .param .u32 b) { ret; }
""", None, None, 0, None, None, 0))
    ok(cuda.cuLibraryGetKernel(byref(kernel), library, b"two"))
    return kernel


def second_parameter(kernel):
    at, size = c_size_t(), c_size_t()
    ok(cuda.cuKernelGetParamInfo(kernel, c_size_t(1), byref(at), byref(size)))
    return at.value, size.value


ok(cuda.cuInit(0))
kernels = [kernel_of_a_library()]  # while there is no context
context = c_void_p()
ok(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))

# Where none is current.
thread = threading.Thread(target=lambda: kernels.append(kernel_of_a_library()))
thread.start()
thread.join()
assert [second_parameter(kernel) for kernel in kernels] == [(8, 4)] * 2
numbers = (c_ulonglong * 2)(1, 2)
places = (c_void_p * 2)(ctypes.addressof(numbers), ctypes.addressof(numbers) + 8)
for kernel in kernels:
    ok(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, places, None))
print("ok kernels without a context")

pinned, memory = c_void_p(), c_ulonglong()
ok(cuda.cuMemHostAlloc(byref(pinned), c_size_t(2 * SIZE), 3))
ok(cuda.cuMemAlloc_v2(byref(memory), c_size_t(SIZE)))
words = bytes(i % 251 for i in range(SIZE))
ctypes.memmove(pinned, words, SIZE)
back = pinned.value + SIZE
for _ in range(2):
    ok(cuda.cuMemcpyHtoDAsync_v2(memory, pinned, c_size_t(SIZE), None))
    ok(cuda.cuMemcpyDtoHAsync_v2(c_void_p(back), memory, c_size_t(SIZE), None))
ok(cuda.cuStreamSynchronize(None))
assert ctypes.string_at(back, SIZE) == words
print("ok page-locked copies")

module, place, size = c_void_p(), c_ulonglong(), c_size_t()
ok(cuda.cuModuleLoadData(byref(module), b"""
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .b8 table[256];
"""))
ok(cuda.cuModuleGetGlobal_v2(byref(place), byref(size), module, b"table"))
assert attribute(MEMORY_TYPE, place.value + 5) == ON_DEVICE
assert attribute(ORDINAL, place.value + 5) == 0
assert attribute(START, place.value + 5, c_ulonglong) == place.value
assert attribute(LENGTH, place.value + 5, c_ulonglong) >= 256
assert attribute(MEMORY_TYPE, pinned.value) == ON_HOST
print("ok pointers")

streams, called = [c_void_p(), c_void_p()], []
for stream in streams:
    ok(cuda.cuStreamCreate(byref(stream), 1))


@HOST_FUNCTION
def call(number):
    time.sleep(0.02 if not number else 0)  # the first is the slowest
    called.append(number or 0)


event = c_void_p()
ok(cuda.cuEventCreate(byref(event), 2))
for n in range(20):
    ok(cuda.cuLaunchHostFunc(streams[n % 2], call, c_void_p(n)))
    ok(cuda.cuEventRecord(event, streams[n % 2]))
    ok(cuda.cuStreamWaitEvent(streams[(n + 1) % 2], event, 0))
ok(cuda.cuStreamSynchronize(streams[1]))
assert called == list(range(20)), called
print("ok host functions")

of_stream, green = c_void_p(), c_void_p()
ok(cuda.cuStreamGetCtx_v2(streams[0], byref(of_stream), byref(green)))
assert (of_stream.value, green.value) == (context.value, None)
resource = (c_uint * 36)()
ok(cuda.cuCtxGetDevResource(context, resource, SM))
assert resource[24] == 32, "multiprocessors"
assert cuda.cuCtxGetDevResource(context, resource, 7) == INVALID_RESOURCE_TYPE
log = c_void_p()
ok(cuda.cuLogsRegisterCallback(LOG_FUNCTION(lambda *_: None), None, byref(log)))
ok(cuda.cuLogsUnregisterCallback(log))
print("ok streams, parts of the card, logs")

# Memory and pools of cards; what the program's processor would touch is refused.
NOT_SUPPORTED = 801
PINNED, MANAGED = 1, 2
CARD, HOST = 1, 2
pool, memory = c_void_p(), c_ulonglong()
for kind, place, answer in ((PINNED, CARD, 0), (MANAGED, CARD, NOT_SUPPORTED), (PINNED, HOST, NOT_SUPPORTED)):
    # CUmemAllocationProp, and the longer CUmemPoolProps, begin with these.
    properties = struct.pack("<4i", kind, 0, place, 0).ljust(88, b"\0")
    assert cuda.cuMemPoolCreate(byref(pool), properties) == answer, (kind, place)
    assert cuda.cuMemCreate(byref(memory), c_size_t(2 << 20), properties, c_ulonglong(0)) == answer, (kind, place)
print("ok memory and pools of cards")
