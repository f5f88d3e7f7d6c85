# SPDX-License-Identifier: Apache-2.0
"""A program that asks the management library, then uses a card in a forked child."""

import ctypes
import os
import sys

nvml = ctypes.CDLL("libnvidia-ml.so.1")


def memory(handle):
    figures = (ctypes.c_ulonglong * 3)()
    assert nvml.nvmlDeviceGetMemoryInfo(handle, figures) == 0
    return list(figures)


def child():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_ulonglong()
    results = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               cuda.cuCtxSetCurrent(context),
               cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1000000))]
    print("child", results, memory(handle), flush=True)
    held, room = (ctypes.c_ulonglong * 64)(), ctypes.c_uint(0)
    short = nvml.nvmlDeviceGetComputeRunningProcesses(handle, ctypes.byref(room), held)
    full = nvml.nvmlDeviceGetComputeRunningProcesses(handle, ctypes.byref(room), held)
    print("processes", short, full, room.value, held[0] == os.getpid(), held[1], flush=True)
    rates = (ctypes.c_uint * 2)(7, 7)
    print("rates", nvml.nvmlDeviceGetUtilizationRates(handle, rates), *rates, flush=True)
    print("refused", nvml.nvmlDeviceGetPowerUsage(handle, rates), flush=True)
    os._exit(0)


count, handle = ctypes.c_uint(), ctypes.c_void_p()
text = ctypes.create_string_buffer(96)
print("before", nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), nvml.nvmlShutdown(),
      nvml.nvmlSystemGetNVMLVersion(text, 96), text.value.decode())
nvml.nvmlErrorString.restype = ctypes.c_char_p
print("words", sorted(code for code in range(-1, 40)
                      if nvml.nvmlErrorString(code) == nvml.nvmlErrorString(999)))
print("init", nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value)
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetUUID(handle, text, 96) == 0
print("uuid", text.value.decode())
print("memory", memory(handle))
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    child()
os.waitpid(pid, 0)
events, kinds, data = ctypes.c_void_p(), ctypes.c_ulonglong(7), ctypes.create_string_buffer(64)
made = nvml.nvmlEventSetCreate(ctypes.byref(events))
print("events", made, nvml.nvmlDeviceGetSupportedEventTypes(handle, ctypes.byref(kinds)), kinds.value,
      nvml.nvmlDeviceRegisterEvents(handle, ctypes.c_ulonglong(8), events),
      nvml.nvmlEventSetWait_v2(events, data, 10), nvml.nvmlEventSetFree(events))
print("freed", nvml.nvmlEventSetFree(events), nvml.nvmlEventSetWait_v2(events, data, 10),
      nvml.nvmlDeviceRegisterEvents(handle, ctypes.c_ulonglong(8), events),
      nvml.nvmlEventSetFree(None))
print("unknown", nvml.nvmlDeviceGetName(ctypes.c_void_p(5), text, 96))
print("shutdown", nvml.nvmlShutdown(), nvml.nvmlShutdown())
