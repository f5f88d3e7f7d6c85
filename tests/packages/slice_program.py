# SPDX-License-Identifier: Apache-2.0
"""A CUDA program for any Python: adds two arrays on the card that it is given.

It knows the driver's library by its name alone, as programs do, and so runs only where
`gpupool run` points the loader at the client's libraries.
"""

import ctypes

N = 4096
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd1, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd1];
    ld.global.u32 %r3, [%rd2];
    add.u32 %r2, %r2, %r3;
    st.global.u32 [%rd2], %r2;
    ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status != 0:
        raise SystemExit("%s says %d" % (name, status))


def uploaded(values):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * N))
    call("cuMemcpyHtoD_v2", address, (ctypes.c_uint32 * N)(*values), ctypes.c_size_t(4 * N))
    return address


def main():
    context, module, kernel = (ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"add")
    x, y = uploaded(range(N)), uploaded(range(0, 2 * N, 2))
    parameters = (ctypes.c_void_p * 2)(*(ctypes.addressof(v) for v in (x, y)))
    call("cuLaunchKernel", kernel, N // 128, 1, 1, 128, 1, 1, 0, None, parameters, None)
    sums = (ctypes.c_uint32 * N)()
    call("cuMemcpyDtoH_v2", sums, y, ctypes.c_size_t(4 * N))
    if list(sums) != [3 * i for i in range(N)]:
        raise SystemExit("wrong sums: %s..." % list(sums)[:8])
    name = ctypes.create_string_buffer(96)
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() != 0 or nvml.nvmlSystemGetDriverVersion(name, 96) != 0:
        raise SystemExit("no management library")
    print("slice ok: driver", name.value.decode())


main()
