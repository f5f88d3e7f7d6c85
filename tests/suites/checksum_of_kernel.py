#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run kernel k(unsigned *) of each PTX file with one thread; print the word that it wrote."""

import ctypes
import sys
from ctypes import byref

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status != 0:
        sys.exit(f"{name}: error {status}")


context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
device, word, address = ctypes.c_int(), ctypes.c_uint32(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", byref(device), 0)
call("cuCtxCreate_v2", byref(context), 0, device)
call("cuMemAlloc_v2", byref(address), ctypes.c_size_t(4))
params = (ctypes.c_void_p * 1)(ctypes.addressof(address))
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        call("cuModuleLoadData", byref(module), file.read() + b"\0")
    call("cuModuleGetFunction", byref(kernel), module, b"k")
    call("cuMemsetD32_v2", address, 0, ctypes.c_size_t(1))
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, params, None)
    call("cuMemcpyDtoH_v2", byref(word), address, ctypes.c_size_t(4))
    call("cuModuleUnload", module)
    print(f"{word.value:08x}", flush=True)
