# SPDX-License-Identifier: Apache-2.0
"""cuda.core: NVIDIA's objects for Python over the driver and the management library."""

import importlib.metadata
import multiprocessing
import warnings

import numpy as np
from cuda.core import (
    ContextOptions,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    SMResourceOptions,
    StreamOptions,
    VirtualMemoryResource,
    launch,
    system,
)
from cuda.core.graph import GraphBuilder, GraphDefinition
from cuda.core.texture import OpaqueArrayOptions, ResourceDescriptor
from cuda.core.utils import copy_batch

from client import check, main

SOURCE = r"""
extern "C" __global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

extern "C" __global__ void add_one(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] += 1;
}

extern "C" __global__ void write_surface(cudaSurfaceObject_t to)
{
    surf2Dwrite<float>(threadIdx.x + 100.f * blockIdx.x, to, threadIdx.x * 4, blockIdx.x);
}

extern "C" __global__ void read_texture(cudaTextureObject_t from, float *to)
{
    to[blockIdx.x * blockDim.x + threadIdx.x] = tex2D<float>(from, threadIdx.x + 0.5f, blockIdx.x + 0.5f);
}

template <typename T> __global__ void scale(T *p, T by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] *= by;
}
"""
N = 1024
CONFIG = LaunchConfig(grid=N // 128, block=128)


def with_bytes(buffer, work):
    """Copy @buffer into page-locked memory, and what @work leaves there back."""
    host = LegacyPinnedMemoryResource().allocate(buffer.size)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    result = work(np.from_dlpack(host))
    host.copy_to(buffer, stream=stream)
    stream.sync()
    host.close()
    return result


def of(array):
    buffer = card.allocate(array.nbytes, stream=stream)

    def fill(there):
        there.view(array.dtype)[:] = array
    with_bytes(buffer, fill)
    return buffer


def values(buffer, kind):
    return with_bytes(buffer, lambda there: there.view(kind).copy())


def zeros():
    return of(np.zeros(N, np.int32))


@check
def kernels_and_templates():
    x = np.arange(N, dtype=np.float32)
    y = of(2 * x)
    launch(stream, CONFIG, module.get_kernel("axpy"), np.float32(3), of(x), y, np.int32(N))
    assert (values(y, np.float32) == 5 * x).all()
    doubles = of(np.arange(N, dtype=np.float64))
    launch(stream, CONFIG, module.get_kernel("scale<double>"), doubles, np.float64(2.5), np.int32(N))
    assert (values(doubles, np.float64) == 2.5 * np.arange(N)).all()


@check
def kernels_and_cards_say_what_they_are():
    kernel = module.get_kernel("axpy")
    assert [(p.offset, p.size) for p in kernel.arguments_info] == [(0, 4), (8, 8), (16, 8), (24, 4)]
    assert kernel.attributes.max_threads_per_block >= 128
    assert kernel.occupancy.max_active_blocks_per_multiprocessor(128, 0) >= 1
    properties = [name for name in dir(card.properties) if not name.startswith("_")]
    for name in properties:
        getattr(card.properties, name)
    assert len(properties) > 100


@check
def fills_and_batches_of_copies():
    sources = [card.allocate(4 * N, stream=stream) for _ in range(4)]
    targets = [card.allocate(4 * N, stream=stream) for _ in range(4)]
    for i, buffer in enumerate(sources):
        buffer.fill(bytes([i, 1, 2, 3]), stream=stream)
    copy_batch(stream, sources, targets)
    for i, buffer in enumerate(targets):
        assert (values(buffer, np.uint32) == 0x03020100 + i).all()


@check
def pools_have_a_limit():
    pool = DeviceMemoryResource(card, DeviceMemoryResourceOptions(max_size=1 << 24))
    blocks = [pool.allocate(100000, stream=stream) for _ in range(20)]
    assert pool.attributes.used_mem_current >= 20 * 100000
    try:
        pool.allocate(1 << 25, stream=stream)
        raise AssertionError("more than the pool's limit")
    except Exception as error:
        assert "OUT_OF_MEMORY" in str(error)
    for block in blocks:
        block.close(stream)
    stream.sync()
    pool.close()


@check
def reserved_addresses_grow():
    resource = VirtualMemoryResource(card)
    buffer = resource.allocate(1 << 21)
    buffer.fill(0, stream=stream)
    launch(stream, CONFIG, module.get_kernel("add_one"), buffer, np.int32(N))
    buffer = resource.modify_allocation(buffer, 1 << 23)
    assert buffer.size == 1 << 23
    assert (values(buffer, np.int32)[:N] == 1).all()
    buffer.close()


@check
def events_and_streams():
    options = EventOptions(timing_enabled=True)
    begin = stream.record(options=options)
    launch(stream, CONFIG, module.get_kernel("add_one"), zeros(), np.int32(N))
    end = stream.record(options=options)
    other = card.create_stream(options=StreamOptions(nonblocking=True, priority=-1))
    other.wait(end)
    other.sync()
    assert end.is_done and end - begin >= 0


@check
def graphs_by_capture_with_branches():
    kernel, numbers = module.get_kernel("add_one"), zeros()
    builder = card.create_graph_builder().begin_building()
    launch(builder, CONFIG, kernel, numbers, np.int32(N))
    left, right = builder.split(2)
    half = LaunchConfig(grid=N // 256, block=128)
    launch(left, half, kernel, numbers, np.int32(N // 2))
    launch(right, half, kernel, int(numbers.handle) + 2 * N, np.int32(N // 2))
    builder = GraphBuilder.join(left, right)
    launch(builder, CONFIG, kernel, numbers, np.int32(N))
    graph = builder.end_building().complete()
    graph.upload(stream)
    for _ in range(3):
        graph.launch(stream)
    assert (values(numbers, np.int32) == 9).all()


@check
def graphs_by_nodes_with_memory_and_callbacks():
    kernel, result, called = module.get_kernel("add_one"), zeros(), []
    definition = GraphDefinition()
    memory = definition.allocate(4 * N)
    node = memory.memset(memory.dptr, 3, 4 * N).launch(CONFIG, kernel, memory.dptr, np.int32(N))
    node = node.memcpy(result, memory.dptr, 4 * N).deallocate(memory.dptr)
    node.callback(lambda: called.append(len(called)))
    graph = definition.instantiate()
    graph.launch(stream)
    graph.launch(stream)
    assert (values(result, np.uint32) == 0x03030304).all()
    assert called == [0, 1]


@check
def textures_and_surfaces():
    picture = card.create_opaque_array(OpaqueArrayOptions(shape=(16, 8), format="float32", num_channels=1,
                                                          is_surface_load_store=True))
    resource = ResourceDescriptor.from_opaque_array(picture)
    surface = card.create_surface_object(resource=resource)
    texture = card.create_texture_object(resource=resource)
    result = of(np.zeros(128, np.float32))
    config = LaunchConfig(grid=8, block=16)
    launch(stream, config, module.get_kernel("write_surface"), surface.handle)
    launch(stream, config, module.get_kernel("read_texture"), texture.handle, result)
    wanted = np.arange(16)[None] + 100 * np.arange(8)[:, None]
    assert (values(result, np.float32).reshape(8, 16) == wanted).all()


@check
def contexts_with_a_part_of_the_card():
    groups, _ = card.resources.sm.split(SMResourceOptions(count=2))
    context = card.create_context(ContextOptions(resources=[groups[0]]))
    own, numbers = context.create_stream(), zeros()
    launch(own, CONFIG, module.get_kernel("add_one"), numbers, np.int32(N))
    own.sync()
    assert context.is_green and (values(numbers, np.int32) == 1).all()


@check
def launches_of_blocks_that_work_together():
    numbers = zeros()
    config = LaunchConfig(grid=N // 128, block=128, is_cooperative=True)
    launch(stream, config, module.get_kernel("add_one"), numbers, np.int32(N))
    assert (values(numbers, np.int32) == 1).all()


def fill_in_another_process(buffer, answers):
    try:
        Device(0).set_current()
        own = Device(0).create_stream()
        buffer.fill(9, stream=own)
        own.sync()
        answers.put("filled")
    except Exception as error:
        answers.put(repr(error))


@check
def memory_of_pools_goes_to_other_processes():
    pool = DeviceMemoryResource(card, DeviceMemoryResourceOptions(max_size=1 << 21, ipc_enabled=True))
    buffer = pool.allocate(4 * N, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    answers = multiprocessing.Queue()
    process = multiprocessing.Process(target=fill_in_another_process, args=(buffer, answers))
    process.start()
    assert answers.get(timeout=100) == "filled"
    process.join()
    assert (values(buffer, np.uint8) == 9).all()


@check
def management_has_the_same_card():
    assert system.get_num_devices() == 1
    assert system.get_kernel_mode_driver_version()[0] >= 525
    assert system.get_nvml_version()[0] == system.get_user_mode_driver_version()[0]
    there = card.to_system_device()
    assert there.uuid_without_prefix == card.uuid and there.name == card.name


if __name__ == "__main__":
    warnings.simplefilter("error")
    multiprocessing.set_start_method("spawn")
    card = Device(0)
    card.set_current()
    stream = card.create_stream()
    options = ProgramOptions(std="c++17", arch="compute_" + "".join(map(str, card.compute_capability)))
    module = Program(SOURCE, "c++", options).compile("ptx", name_expressions=("scale<double>",))
    main("cuda-core " + importlib.metadata.version("cuda-core"))
