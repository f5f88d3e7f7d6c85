# SPDX-License-Identifier: Apache-2.0
"""cuda-bindings: the driver API from Python, one function for one."""

import ctypes
import importlib.metadata

import numpy as np
from cuda.bindings import driver as cu

from client import check, main
from nvrtc_ptx import done, ptx_of

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void block_sums(const int *x, int *sums, int n)
{
    extern __shared__ int part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}

__device__ int counter;
extern "C" __global__ void count(int by)
{
    atomicAdd(&counter, by);
}
"""
THREADS = 128


def ptx_of_ours(source, *options):
    capability = [done(cu.cuDeviceGetAttribute(attribute, device)) for attribute in (
        cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)]
    return ptx_of(source, *capability, *options)


def launch(function, items, values, types, stream=0, shared=0):
    blocks = (items + THREADS - 1) // THREADS
    done(cu.cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, shared, stream,
                           (tuple(values), tuple(types)), 0))


def upload(array):
    address = int(done(cu.cuMemAlloc(array.nbytes)))  # c_void_p takes a plain number
    done(cu.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
    return address


def download(address, like):
    array = np.empty_like(like)
    done(cu.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
    return array


@check
def device_has_a_name_and_memory():
    name = done(cu.cuDeviceGetName(128, device)).split(b"\0")[0]
    assert name, name
    free, total = done(cu.cuMemGetInfo())
    assert 0 < free <= total, (free, total)


@check
def kernel_adds_arrays():
    function = done(cu.cuModuleGetFunction(module, b"saxpy"))
    x = np.arange(5000, dtype=np.float32)
    y = np.full(5000, 3, dtype=np.float32)
    on_x, on_y = upload(x), upload(y)
    launch(function, x.size, (2.5, on_x, on_y, x.size),
           (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    np.testing.assert_allclose(download(on_y, y), 2.5 * x + y)
    done(cu.cuMemFree(on_x))
    done(cu.cuMemFree(on_y))


@check
def kernel_sums_blocks_in_shared_memory():
    function = done(cu.cuModuleGetFunction(module, b"block_sums"))
    x = np.random.default_rng(1).integers(-1000, 1000, 4000, dtype=np.int32)
    sums = np.zeros((x.size + THREADS - 1) // THREADS, dtype=np.int32)
    on_x, on_sums = upload(x), upload(sums)
    launch(function, x.size, (on_x, on_sums, x.size),
           (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int), shared=4 * THREADS)
    assert download(on_sums, sums).sum() == x.sum()
    done(cu.cuMemFree(on_x))
    done(cu.cuMemFree(on_sums))


@check
def streams_and_events_order_work():
    function = done(cu.cuModuleGetFunction(module, b"saxpy"))
    first, second = done(cu.cuStreamCreate(1)), done(cu.cuStreamCreate(1))
    begin, end = done(cu.cuEventCreate(0)), done(cu.cuEventCreate(0))
    x = np.ones(2000, dtype=np.float32)
    y = np.zeros(2000, dtype=np.float32)
    on_x, on_y = upload(x), upload(y)
    types = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    done(cu.cuEventRecord(begin, first))
    for _ in range(10):
        launch(function, x.size, (1.0, on_x, on_y, x.size), types, first)
    done(cu.cuEventRecord(end, first))
    done(cu.cuStreamWaitEvent(second, end, 0))
    done(cu.cuMemcpyDtoHAsync(y.ctypes.data, on_y, y.nbytes, second))
    done(cu.cuStreamSynchronize(second))
    assert (y == 10).all(), y
    assert done(cu.cuEventElapsedTime(begin, end)) >= 0
    for stream in (first, second):
        done(cu.cuStreamDestroy(stream))
    for event in (begin, end):
        done(cu.cuEventDestroy(event))


@check
def graph_repeats_captured_work():
    function = done(cu.cuModuleGetFunction(module, b"count"))
    address, size = done(cu.cuModuleGetGlobal(module, b"counter"))
    done(cu.cuMemsetD8(address, 0, size))
    stream = done(cu.cuStreamCreate(1))
    done(cu.cuStreamBeginCapture(
        stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    launch(function, THREADS, (3,), (ctypes.c_int,), stream)
    graph = done(cu.cuStreamEndCapture(stream))
    repeat = done(cu.cuGraphInstantiate(graph, 0))
    for _ in range(4):
        done(cu.cuGraphLaunch(repeat, stream))
    done(cu.cuStreamSynchronize(stream))
    assert download(address, np.zeros(1, np.int32))[0] == 4 * 3 * THREADS
    done(cu.cuGraphExecDestroy(repeat))
    done(cu.cuGraphDestroy(graph))
    done(cu.cuStreamDestroy(stream))


@check
def linker_joins_two_images():
    twice = 'extern "C" __device__ int twice(int x)'
    half = ptx_of_ours(twice + " { return 2 * x; }", b"--relocatable-device-code=true")
    whole = ptx_of_ours(twice + '; extern "C" __global__ void use(int *x) { *x = twice(*x); }',
                   b"--relocatable-device-code=true")
    state = done(cu.cuLinkCreate(0, [], []))
    kind = cu.CUjitInputType.CU_JIT_INPUT_PTX
    done(cu.cuLinkAddData(state, kind, half, len(half), b"half", 0, [], []))
    done(cu.cuLinkAddData(state, kind, whole, len(whole), b"whole", 0, [], []))
    image, size = done(cu.cuLinkComplete(state))
    assert size > 0
    linked = done(cu.cuModuleLoadData(image))
    done(cu.cuLinkDestroy(state))
    cell = upload(np.full(1, 21, np.int32))
    function = done(cu.cuModuleGetFunction(linked, b"use"))
    done(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0,
                           ((cell,), (ctypes.c_void_p,)), 0))
    assert download(cell, np.zeros(1, np.int32))[0] == 42
    done(cu.cuMemFree(cell))
    done(cu.cuModuleUnload(linked))


@check
def pool_memory_comes_back_in_stream_order():
    stream = done(cu.cuStreamCreate(1))
    data = np.arange(1000, dtype=np.int64)
    back = np.zeros_like(data)
    address = done(cu.cuMemAllocAsync(data.nbytes, stream))
    done(cu.cuMemcpyHtoDAsync(address, data.ctypes.data, data.nbytes, stream))
    done(cu.cuMemcpyDtoHAsync(back.ctypes.data, address, data.nbytes, stream))
    done(cu.cuMemFreeAsync(address, stream))
    done(cu.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(back, data)
    done(cu.cuStreamDestroy(stream))


@check
def errors_are_the_drivers():
    assert int(cu.cuModuleGetFunction(module, b"nothing")[0]) == 500
    assert int(cu.cuMemFree(12345)[0]) == 1
    assert int(cu.cuDeviceGet(99)[0]) == 101
    _, name = cu.cuGetErrorName(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    assert name == b"CUDA_ERROR_OUT_OF_MEMORY", name


done(cu.cuInit(0))
device = done(cu.cuDeviceGet(0))
context = done(cu.cuDevicePrimaryCtxRetain(device))
done(cu.cuCtxSetCurrent(context))
module = done(cu.cuModuleLoadData(ptx_of_ours(SOURCE)))
main("cuda-bindings " + importlib.metadata.version("cuda-bindings"))
