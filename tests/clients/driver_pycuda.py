# SPDX-License-Identifier: Apache-2.0
"""PyCUDA: its driver interface, with kernels that come as PTX.

Its SourceModule, and GPUArray's own kernels, call nvcc, which no wheel brings; so the PTX is
made by NVRTC and loaded with module_from_buffer.
"""

import numpy as np
import pycuda
import pycuda.driver as cuda
from pycuda import gpuarray
from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

from client import check, main
from nvrtc_ptx import ptx_of

SOURCE = r"""
extern "C" __global__ void add(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

extern "C" __global__ void reversed(const int *x, int *out)
{
    extern __shared__ int part[];
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}

__constant__ float factors[4];
extern "C" __global__ void scale(float *x)
{
    x[threadIdx.x] *= factors[threadIdx.x % 4];
}

extern "C" __global__ void astray(int *x)
{
    x[1ull << 40] = 1;
}
"""
N = 5000


def numbers(count=N, seed=3):
    return np.random.default_rng(seed).random(count, dtype=np.float32)


@check
def card_says_what_it_is():
    assert cuda.Device.count() == 1
    assert device.name() and device.total_memory() > 0
    free, total = cuda.mem_get_info()
    assert 0 < free <= total, (free, total)
    assert device.get_attribute(cuda.device_attribute.WARP_SIZE) == 32
    assert device.pci_bus_id()


@check
def arguments_are_carried_in_and_out():
    x, y, out = numbers(), numbers(seed=4), np.zeros(N, np.float32)
    module.get_function("add")(cuda.In(x), cuda.In(y), cuda.Out(out), np.int32(N),
                               block=(128, 1, 1), grid=(40, 1))
    np.testing.assert_array_equal(out, x + y)


@check
def prepared_functions_take_shared_memory():
    x, out = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    function = module.get_function("reversed")
    assert function.num_regs >= 0 and function.max_threads_per_block >= 256
    function.prepare("PP")
    on_card, result = cuda.to_device(x), cuda.mem_alloc(out.nbytes)
    function.prepared_call((1, 1), (256, 1, 1), on_card, result, shared_size=1024)
    cuda.memcpy_dtoh(out, result)
    np.testing.assert_array_equal(out, x[::-1])


@check
def constants_are_found_by_name():
    x, factors = numbers(64), np.array([1, 2, 4, 8], np.float32)
    address, size = module.get_global("factors")
    assert size == factors.nbytes
    cuda.memcpy_htod(address, factors)
    scaled = x.copy()
    module.get_function("scale")(cuda.InOut(scaled), block=(64, 1, 1))
    np.testing.assert_array_equal(scaled, x * np.tile(factors, 16))


@check
def streams_and_events_order_work():
    stream, begin, end = cuda.Stream(), cuda.Event(), cuda.Event()
    x = cuda.pagelocked_empty(N, np.float32)
    x[:] = numbers()
    out = cuda.pagelocked_zeros(N, np.float32)
    on_card = cuda.mem_alloc(x.nbytes)
    begin.record(stream)
    cuda.memcpy_htod_async(on_card, x, stream)
    module.get_function("add")(on_card, on_card, on_card, np.int32(N), block=(128, 1, 1),
                               grid=(40, 1), stream=stream)
    cuda.memcpy_dtoh_async(out, on_card, stream)
    end.record(stream)
    end.synchronize()
    assert end.query() and stream.is_done()
    np.testing.assert_array_equal(out, x + x)
    assert end.time_since(begin) >= 0


@check
def managed_and_mapped_memory():
    x = cuda.managed_empty(N, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    x[:] = 3
    mapped = cuda.pagelocked_empty(N, np.float32,
                                   mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    mapped[:] = 4
    address = np.intp(mapped.base.get_device_pointer())
    module.get_function("add")(x, address, x, np.int32(N), block=(128, 1, 1), grid=(40, 1))
    cuda.Context.synchronize()
    assert (np.asarray(x) == 7).all(), x[:4]


@check
def boxes_are_copied():
    whole = np.arange(24 * 32, dtype=np.float32).reshape(24, 32)
    on_card, pitch = cuda.mem_alloc_pitch(16 * 4, 10, 4)
    copy = cuda.Memcpy2D()
    copy.set_src_host(whole)
    copy.src_x_in_bytes, copy.src_y, copy.src_pitch = 8 * 4, 5, whole.strides[0]
    copy.set_dst_device(on_card)
    copy.dst_pitch, copy.width_in_bytes, copy.height = pitch, 16 * 4, 10
    copy(aligned=True)
    out = np.zeros((10, 16), np.float32)
    back = cuda.Memcpy2D()
    back.set_src_device(on_card)
    back.src_pitch = pitch
    back.set_dst_host(out)
    back.dst_pitch, back.width_in_bytes, back.height = out.strides[0], 16 * 4, 10
    back(aligned=True)
    np.testing.assert_array_equal(out, whole[5:15, 8:24])


@check
def arrays_come_back():
    picture = numbers(16 * 24).reshape(16, 24)
    array = cuda.np_to_array(picture, order="C")
    descriptor = array.get_descriptor_3d()
    assert (descriptor.width, descriptor.height) == (24, 16)
    out = np.zeros_like(picture)
    copy = cuda.Memcpy2D()
    copy.set_src_array(array)
    copy.set_dst_host(out)
    copy.width_in_bytes, copy.height, copy.dst_pitch = 24 * 4, 16, 24 * 4
    copy(aligned=True)
    np.testing.assert_array_equal(out, picture)


@check
def pools_keep_memory():
    pool, pinned = DeviceMemoryPool(), PageLockedMemoryPool()
    block = pool.allocate(100_000)
    address = int(block)
    block.free()
    assert pool.held_blocks == 1 and int(pool.allocate(100_000)) == address
    assert pinned.allocate((1000,), np.float32).shape == (1000,)
    pool.stop_holding()
    pinned.stop_holding()


@check
def gpu_arrays_are_filled_by_copies():
    x = numbers()
    on_card = gpuarray.to_gpu(x)
    np.testing.assert_array_equal(on_card.get(), x)
    np.testing.assert_array_equal(on_card[100:200].get(), x[100:200])
    np.testing.assert_array_equal(on_card.reshape(50, 100).get(), x.reshape(50, 100))
    np.testing.assert_array_equal(on_card.copy().get(), x)


@check
def wrong_requests_are_errors():
    for wrong in (lambda: module.get_function("nothing"),
                  lambda: cuda.module_from_buffer(b"no image at all\0"),
                  lambda: cuda.mem_alloc(1 << 50)):
        try:
            wrong()
        except (cuda.LogicError, cuda.RuntimeError, cuda.MemoryError):
            continue
        raise AssertionError("no error")


@check
def stray_write_ends_the_context():
    """The last check: nothing can be done in this context afterwards."""
    module.get_function("astray")(cuda.mem_alloc(4), block=(1, 1, 1))
    for _ in range(2):
        try:
            cuda.Context.synchronize()
        except cuda.LogicError as error:
            assert "illegal" in str(error) or "memory access" in str(error), error
            continue
        raise AssertionError("no error")


cuda.init()
device = cuda.Device(0)
context = device.make_context()
module = cuda.module_from_buffer(ptx_of(SOURCE, *device.compute_capability()))
try:
    main(f"PyCUDA {pycuda.VERSION_TEXT}")
finally:
    context.pop()
