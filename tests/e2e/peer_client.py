# SPDX-License-Identifier: Apache-2.0
"""A program that copies between its first and its last card, and says how many bytes its
own connections moved meanwhile: `moved N`, and `right` when the bytes have arrived."""

import ctypes
import os
import socket
import struct

BYTES = 64 << 20
cuda = ctypes.CDLL("libcuda.so.1")
Size = ctypes.c_size_t


def ok(result):
    assert result == 0, result


def moved():
    """Bytes that the kernel has sent and received for this process over TCP."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as link:
                info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            continue
        # Sent, not acknowledged: that may come after the peer's answer.
        total += sum(struct.unpack_from("=Q", info, at)[0] for at in (200, 128))
    return total


def context_of(card):
    context = ctypes.c_void_p()
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), card))
    ok(cuda.cuCtxSetCurrent(context))
    return context


def memory_of(value):
    address = ctypes.c_ulonglong()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(address), Size(BYTES)))
    ok(cuda.cuMemsetD8_v2(address, value, Size(BYTES)))
    ok(cuda.cuCtxSynchronize())
    return address


ok(cuda.cuInit(0))
count = ctypes.c_int()
ok(cuda.cuDeviceGetCount(ctypes.byref(count)))
there = context_of(count.value - 1)
target = memory_of(1)
here = context_of(0)
source = memory_of(42)
ok(cuda.cuMemcpyPeer(target, there, source, here, Size(1)))  # the way is found out
before = moved()
ok(cuda.cuMemcpyPeer(target, there, source, here, Size(BYTES)))
ok(cuda.cuCtxSynchronize())
ok(cuda.cuCtxSetCurrent(there))
ok(cuda.cuCtxSynchronize())
print("moved", moved() - before)
last = ctypes.c_ubyte()
ok(cuda.cuMemcpyDtoH_v2(ctypes.byref(last), ctypes.c_ulonglong(target.value + BYTES - 1),
                        Size(1)))
print("right" if last.value == 42 else f"wrong: {last.value}")
