# SPDX-License-Identifier: Apache-2.0
"""A program that says which cards it sees, by the driver and by the management library,
and whether a child of it that forked later may use them."""

import ctypes
import os

cuda = ctypes.CDLL("libcuda.so.1")
nvml = ctypes.CDLL("libnvidia-ml.so.1")


def of_driver():
    count, cards = ctypes.c_int(), []
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return cards
    for i in range(count.value):
        uuid, bus = (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(64)
        assert cuda.cuDeviceGetUuid(uuid, i) == 0
        assert cuda.cuDeviceGetPCIBusId(bus, 64, i) == 0
        cards.append((bytes(uuid).hex(), bus.value.decode().lower()))
    return cards


def of_management():
    count, cards = ctypes.c_uint(), []
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return cards
    for i in range(count.value):
        handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        assert nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) == 0
        assert nvml.nvmlDeviceGetUUID(handle, text, 96) == 0
        cards.append(text.value.decode().removeprefix("GPU-").replace("-", ""))
    return cards


def work(card):
    context, address = ctypes.c_void_p(), ctypes.c_ulonglong()
    return [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), card),
            cuda.cuCtxSetCurrent(context),
            cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)),
            cuda.cuMemsetD8_v2(address, 7, ctypes.c_size_t(4096)),
            cuda.cuCtxSynchronize()]


driver = of_driver()
print("driver", *(uuid for uuid, _ in driver))
print("bus", *(bus for _, bus in driver))
print("management", *of_management())
mode = ctypes.c_int(-1)
print("loading", cuda.cuModuleGetLoadingMode(ctypes.byref(mode)), mode.value)
print("work", [work(card) for card in range(len(driver))], flush=True)
pid = os.fork()
if pid == 0:  # attached by its parent: nothing of CUDA works here, and nothing hangs
    print("child", cuda.cuInit(0), work(0), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("parent", [work(card) for card in range(len(driver))], flush=True)
