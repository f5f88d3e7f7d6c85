# SPDX-License-Identifier: Apache-2.0
"""A CUDA program whose card is never idle for long: kernels of a second and more, one
behind the other, until the file that it is given is there; then the sum has to be right.
"""

import ctypes
import os
import sys

LOOPS = 20000000
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [%rd1];
again:
    add.u32 %r2, %r2, 3;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra again;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status != 0:
        raise SystemExit("%s says %d" % (name, status))


def main():
    context, module, kernel = (ctypes.c_void_p() for _ in range(3))
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"spin")
    x, n, found = ctypes.c_uint64(), ctypes.c_uint32(LOOPS), ctypes.c_uint32()
    call("cuMemAlloc_v2", ctypes.byref(x), ctypes.c_size_t(4))
    call("cuMemsetD32_v2", x, 0, ctypes.c_size_t(1))
    parameters = (ctypes.c_void_p * 2)(*(ctypes.addressof(v) for v in (x, n)))
    launches, last = 0, False
    while not last:
        last = os.path.exists(sys.argv[1])
        call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        call("cuMemcpyDtoH_v2", ctypes.byref(found), x, ctypes.c_size_t(4))
        launches += 1
        if found.value != launches * LOOPS * 3 % 2**32:
            raise SystemExit("wrong after %d launches: %d" % (launches, found.value))
        print("launch", launches, flush=True)
    print("long ok", flush=True)


main()
