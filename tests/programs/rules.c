/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA's documentation states of parameters: room in pitches and heights, the
 * extents of arrays, what a texture may be made of, what may change in graphs and in
 * their instances, and that a call which failed has changed nothing.
 */
#include "parts.h"

#include <semaphore.h>
#include <stdint.h>

#define MIB ((size_t)1 << 20)
#define GRANULE (2 * MIB)
/* Of a launch, or of a kernel's node. */
#define ONE_THREAD                                                                     \
    .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,       \
    .blockDimZ = 1

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry nothing()\n{\n ret;\n}\n";

static CUcontext ctx;
static CUdevice dev;
static CUstream stream;
static CUdeviceptr memory; /* 1 MiB */
static unsigned char host[1 << 16];

static int
devices_before_init(void)
{
    CUmemoryPool pool;
    size_t width;
    int value;

    CODE(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_ERROR_NOT_INITIALIZED);
    CODE(cuDeviceGetP2PAttribute(&value, 1, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
    CODE(cuDeviceGraphMemTrim(0), CUDA_ERROR_NOT_INITIALIZED);
    CODE(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, 0),
         CUDA_ERROR_NOT_INITIALIZED);
    TRY(cuInit(0));
    CODE(cuDeviceGetDefaultMemPool(&pool, 99), CUDA_ERROR_INVALID_DEVICE);
    return 0;
}

/* ---- copies -------------------------------------------------------------------- */

static CUDA_MEMCPY2D
rectangle(void)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = host,
        .srcPitch = 128,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = memory,
        .dstPitch = 256,
        .WidthInBytes = 100,
        .Height = 10,
    };
}

static int
rectangles_of_nothing(void)
{
    CUDA_MEMCPY2D c = rectangle();
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = host,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = memory,
                         .WidthInBytes = 64,
                         .Height = 4};

    c.Height = 0;
    TRY(cuMemcpy2D_v2(&c));
    TRY(cuMemcpy2DAsync_v2(&c, stream));
    c.Height = 10;
    c.WidthInBytes = 0;
    TRY(cuMemcpy2D_v2(&c));
    TRY(cuMemcpy3D_v2(&box));
    box.Depth = 1;
    box.Height = 0;
    TRY(cuMemcpy3DAsync_v2(&box, stream));
    TRY(cuStreamSynchronize(stream));
    return 0;
}

static int
room_in_pitches(void)
{
    CUDA_MEMCPY2D c = rectangle();

    TRY(cuMemcpy2D_v2(&c));
    c.srcPitch = 99;
    CODE(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c.Height = 1;
    CODE(cuMemcpy2DUnaligned_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c = rectangle();
    c.srcXInBytes = 29;
    CODE(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c.srcXInBytes = 28;
    TRY(cuMemcpy2D_v2(&c));
    c.dstXInBytes = 157;
    CODE(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c.dstXInBytes = 156;
    TRY(cuMemcpy2D_v2(&c));
    c = rectangle();
    c.Height = 1;
    c.srcPitch = 0x7fffffff;
    TRY(cuMemcpy2D_v2(&c));
    c.srcPitch++;
    CODE(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c.srcPitch = 128;
    c.dstPitch = (size_t)1 << 31;
    CODE(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c = rectangle();
    c.srcMemoryType = 0;
    CODE(cuMemcpy2D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int
room_in_heights(void)
{
    const CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                               .srcHost = host,
                               .srcPitch = 64,
                               .srcHeight = 8,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = memory,
                               .dstPitch = 64,
                               .dstHeight = 10,
                               .WidthInBytes = 64,
                               .Height = 8,
                               .Depth = 4};
    CUDA_MEMCPY3D c = box;

    TRY(cuMemcpy3D_v2(&c));
    c.srcHeight = 7;
    CODE(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c = box;
    c.srcY = 1;
    CODE(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c = box;
    c.dstY = 2;
    TRY(cuMemcpy3D_v2(&c));
    c.dstY = 3;
    CODE(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c = box;
    c.dstHeight = 7;
    CODE(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

/* A pitch that is not given has room for the offset and the width, on either side. */
static int
pitches_that_are_not_given(void)
{
    CUDA_MEMCPY2D c = rectangle();
    unsigned char back[64];

    for (unsigned i = 0; i < sizeof(host); i++)
        host[i] = (unsigned char)(i * 7);
    c.srcPitch = c.dstPitch = 0;
    c.srcXInBytes = 4;
    c.WidthInBytes = 20;
    c.Height = 2;
    TRY(cuMemcpy2D_v2(&c));
    TRY(cuMemcpyDtoH_v2(back, memory, 40));
    SAME(memcmp(back, host + 4, 20), 0);
    SAME(memcmp(back + 20, host + 28, 20), 0);
    return 0;
}

/* ---- memory -------------------------------------------------------------------- */

static int
what_is_refused_stays_mapped(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, dev},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again;
    unsigned long long types = 77;
    CUmemAllocationProp told;
    CUdeviceptr p;

    TRY(cuMemCreate(&handle, 2 * GRANULE, &prop, 0));
    TRY(cuMemAddressReserve(&p, 4 * GRANULE, 0, 0, 0));
    TRY(cuMemMap(p, 2 * GRANULE, 0, handle, 0));
    TRY(cuMemSetAccess(p, 2 * GRANULE, &access, 1));
    CODE(cuMemUnmap(p, GRANULE), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemUnmap(p, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 77)));
    SAME(again == handle, 1);
    TRY(cuMemRelease(handle)); /* one of two */
    TRY(cuMemGetAllocationPropertiesFromHandle(&told, again));
    TRY(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
    SAME(types, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    TRY(cuMemUnmap(p, 2 * GRANULE));
    TRY(cuMemRelease(again));
    CODE(cuMemRelease(again), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemAddressFree(p, 4 * GRANULE));
    return 0;
}

/* All eight bytes of an answer are written, also about memory that CUDA does not know.
 */
static int
whole_attributes(void)
{
    static const CUpointer_attribute wide[] = {
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};
    CUpointer_attribute none = (CUpointer_attribute)4711;
    unsigned long long value;
    void *out = &value, *pinned;

    for (unsigned i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        CUpointer_attribute which = wide[i];

        memset(&value, 0xee, sizeof(value));
        TRY(cuPointerGetAttributes(1, &which, &out, (CUdeviceptr)(uintptr_t)&value));
        SAME(value, 0);
    }
    TRY(cuMemHostAlloc(&pinned, 4096, 0));
    memset(&value, 0xee, sizeof(value));
    TRY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                              (CUdeviceptr)(uintptr_t)pinned));
    SAME(value, 0);
    TRY(cuMemFreeHost(pinned));
    CODE(cuPointerGetAttributes(1, &none, &out, memory), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int
advice_that_is_refused(void)
{
    CUdeviceptr p;
    int where = 77;

    TRY(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
    CODE(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 99),
         CUDA_ERROR_INVALID_DEVICE);
    TRY(cuMemRangeGetAttribute(&where, sizeof(where),
                               CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB));
    SAME(where, CU_DEVICE_INVALID);
    TRY(cuMemFree_v2(p));
    return 0;
}

/* ---- arrays and textures -------------------------------------------------------- */

static CUDA_ARRAY3D_DESCRIPTOR
bytes_of(size_t width, size_t height, size_t depth, unsigned flags)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
                                     .Height = height,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                     .NumChannels = 1,
                                     .Flags = flags};
}

static CUresult
array_of(size_t width, size_t height, size_t depth, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = bytes_of(width, height, depth, flags);
    CUarray array;
    CUresult r = cuArray3DCreate_v2(&array, &d);

    return r == CUDA_SUCCESS ? cuArrayDestroy(array) : r;
}

static size_t
most(CUdevice_attribute which)
{
    int value = 0;

    cuDeviceGetAttribute(&value, which, dev);
    return (size_t)value;
}

#define MOST(name) most(CU_DEVICE_ATTRIBUTE_MAXIMUM_##name)
#define BAD CUDA_ERROR_INVALID_VALUE

static int
extents_of_arrays(void)
{
    const unsigned layered = CUDA_ARRAY3D_LAYERED, cube = CUDA_ARRAY3D_CUBEMAP;

    TRY(array_of(MOST(TEXTURE1D_WIDTH), 0, 0, 0));
    CODE(array_of(MOST(TEXTURE1D_WIDTH) + 1, 0, 0, 0), BAD);
    TRY(array_of(1, MOST(TEXTURE2D_HEIGHT), 0, 0));
    CODE(array_of(1, MOST(TEXTURE2D_HEIGHT) + 1, 0, 0), BAD);
    CODE(array_of(MOST(TEXTURE2D_GATHER_WIDTH) + 1, 1, 0, CUDA_ARRAY3D_TEXTURE_GATHER),
         BAD);
    TRY(array_of(MOST(TEXTURE3D_WIDTH), 1, 1, 0));
    CODE(array_of(MOST(TEXTURE3D_WIDTH) + 1, 1, 1, 0), BAD);
    TRY(array_of(1, 1, MOST(TEXTURE3D_DEPTH_ALTERNATE), 0));
    CODE(array_of(1, 1, MOST(TEXTURE3D_DEPTH_ALTERNATE) + 1, 0), BAD);
    TRY(array_of(1, 0, MOST(TEXTURE1D_LAYERED_LAYERS), layered));
    CODE(array_of(1, 0, MOST(TEXTURE1D_LAYERED_LAYERS) + 1, layered), BAD);
    CODE(array_of(MOST(TEXTURE2D_LAYERED_WIDTH) + 1, 1, 1, layered), BAD);
    TRY(array_of(1, 1, MOST(TEXTURE2D_LAYERED_LAYERS), layered));
    CODE(array_of(1, 1, MOST(TEXTURE2D_LAYERED_LAYERS) + 1, layered), BAD);
    CODE(array_of(MOST(SURFACE1D_WIDTH) + 1, 0, 0, CUDA_ARRAY3D_SURFACE_LDST), BAD);
    TRY(array_of(4, 4, 6, cube));
    CODE(array_of(4, 4, 12, cube), BAD);
    TRY(array_of(4, 4, 12, cube | layered));
    CODE(array_of(1, 1, MOST(TEXTURECUBEMAP_LAYERED_LAYERS) + 6, cube | layered), BAD);
    return 0;
}

static int
levels_of(size_t width, size_t height, size_t depth, unsigned flags, unsigned asked)
{
    CUDA_ARRAY3D_DESCRIPTOR d = bytes_of(width, height, depth, flags);
    CUmipmappedArray mip;
    CUarray level;
    int n = 0;

    if (cuMipmappedArrayCreate(&mip, &d, asked) != CUDA_SUCCESS)
        return -1;
    while (cuMipmappedArrayGetLevel(&level, mip, (unsigned)n) == CUDA_SUCCESS)
        n++;
    cuMipmappedArrayDestroy(mip);
    return n;
}

static int
levels_of_mipmaps(void)
{
    SAME(levels_of(16, 16, 0, 0, 99), 5);
    SAME(levels_of(16, 16, 0, 0, 0), 1);
    SAME(levels_of(8, 8, 6, CUDA_ARRAY3D_CUBEMAP, 99), 4);
    SAME(levels_of(8, 8, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, 4), 4);
    SAME(levels_of(MOST(TEXTURE2D_MIPMAPPED_WIDTH) + 1, 1, 0, 0, 1), -1);
    SAME(levels_of(MOST(TEXTURE1D_MIPMAPPED_WIDTH) + 1, 0, 0, 0, 1), -1);
    return 0;
}

static CUresult
texture_of(const CUDA_RESOURCE_DESC *res, unsigned flags,
           const CUDA_RESOURCE_VIEW_DESC *view)
{
    CUDA_TEXTURE_DESC desc = {.flags = flags};
    CUtexObject object;
    CUresult r = cuTexObjectCreate(&object, res, &desc, view);

    return r == CUDA_SUCCESS ? cuTexObjectDestroy(object) : r;
}

static int
textures_of_rows(void)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_PITCH2D}, bad;

    res.res.pitch2D.devPtr = memory;
    res.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    res.res.pitch2D.numChannels = 1;
    res.res.pitch2D.width = res.res.pitch2D.height = 16;
    res.res.pitch2D.pitchInBytes = 64;
    TRY(texture_of(&res, 0, NULL));
    bad = res;
    bad.res.pitch2D.devPtr += 32;
    CODE(texture_of(&bad, 0, NULL), BAD);
    bad = res;
    bad.res.pitch2D.pitchInBytes = 68;
    CODE(texture_of(&bad, 0, NULL), BAD);
    bad = res;
    bad.res.pitch2D.height = 1;
    bad.res.pitch2D.pitchInBytes = MOST(TEXTURE2D_LINEAR_PITCH);
    TRY(texture_of(&bad, 0, NULL));
    bad.res.pitch2D.pitchInBytes += 32;
    CODE(texture_of(&bad, 0, NULL), BAD);
    bad = res;
    bad.flags = 1;
    CODE(texture_of(&bad, 0, NULL), BAD);
    return 0;
}

static int
textures_of_arrays(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16,
                                 .Height = 16,
                                 .Depth = 6,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                 .NumChannels = 4};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_RESOURCE_VIEW_DESC view = {
        .format = CU_RES_VIEW_FORMAT_UINT_1X32, .width = 16, .height = 16, .depth = 6};
    CUarray deep, cube;
    CUmipmappedArray mip;

    TRY(cuArray3DCreate_v2(&deep, &d));
    d.Flags = CUDA_ARRAY3D_CUBEMAP;
    TRY(cuArray3DCreate_v2(&cube, &d));
    res.res.array.hArray = deep;
    CODE(texture_of(&res, CU_TRSF_SEAMLESS_CUBEMAP, NULL), BAD);
    TRY(texture_of(&res, 0, &view));
    view.depth = 5;
    CODE(texture_of(&res, 0, &view), BAD);
    res.res.array.hArray = cube;
    TRY(texture_of(&res, CU_TRSF_SEAMLESS_CUBEMAP, NULL));
    d.Depth = d.Flags = 0;
    TRY(cuMipmappedArrayCreate(&mip, &d, 3));
    res.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    res.res.mipmap.hMipmappedArray = mip;
    CODE(texture_of(&res, 0, NULL), BAD);
    TRY(texture_of(&res, CU_TRSF_NORMALIZED_COORDINATES, NULL));
    TRY(cuMipmappedArrayDestroy(mip));
    TRY(cuArrayDestroy(cube));
    TRY(cuArrayDestroy(deep));
    return 0;
}

/* ---- graphs -------------------------------------------------------------------- */

/* The error of a free in the capture, which may come with the next call that waits. */
static CUresult
free_captured(CUdeviceptr p)
{
    CUstreamCaptureStatus status;
    CUresult r = cuMemFreeAsync(p, stream);

    return r != CUDA_SUCCESS ? r : cuStreamIsCapturing(stream, &status);
}

/* Memory of allocation nodes alone, and each once. */
static int
what_graphs_free(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}},
        .bytesize = 1000};
    CUgraphNode from, to, other;
    CUdeviceptr ours, planned;
    CUgraph graph, captured;
    CUgraphExec exec;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddMemAllocNode(&from, graph, NULL, 0, &alloc));
    CODE(cuGraphAddMemFreeNode(&other, graph, NULL, 0, memory), BAD);
    CODE(cuGraphAddMemFreeNode(&other, graph, NULL, 0, alloc.dptr + 8), BAD);
    TRY(cuGraphAddMemFreeNode(&to, graph, &from, 1, alloc.dptr));
    CODE(cuGraphAddMemFreeNode(&other, graph, &from, 1, alloc.dptr), BAD);
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    TRY(cuMemAllocAsync(&ours, 100, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CODE(free_captured(ours), BAD);
    cuStreamEndCapture(stream, &captured);
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemAllocAsync(&planned, 100, stream));
    TRY(cuMemFreeAsync(planned, stream));
    CODE(free_captured(planned), BAD);
    cuStreamEndCapture(stream, &captured);
    TRY(cuMemFree_v2(ours));
    return 0;
}

static int
graphs_with_memory_keep_their_shape(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}},
        .bytesize = 1000};
    CUgraphNode first, second, node, found;
    CUgraph graph;
    size_t n = 0;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    TRY(cuGraphAddEmptyNode(&second, graph, &first, 1));
    CODE(cuGraphNodeFindInClone(&found, first, graph), BAD); /* it is no clone */
    TRY(cuGraphRemoveDependencies(graph, &first, &second, 1));
    TRY(cuGraphAddDependencies(graph, &first, &second, 1));
    TRY(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
    SAME(cuGraphRemoveDependencies(graph, &first, &second, 1) != CUDA_SUCCESS, 1);
    SAME(cuGraphDestroyNode(second) != CUDA_SUCCESS, 1);
    TRY(cuGraphGetNodes(graph, NULL, &n));
    SAME(n, 3);
    TRY(cuGraphDestroy(graph));
    return 0;
}

static int
what_instances_take(void)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = memory,
                                    .value = 0x11,
                                    .elementSize = 4,
                                    .width = 4,
                                    .height = 1},
                            new_fill;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = memory + 4096,
                          .WidthInBytes = 16,
                          .Height = 1,
                          .Depth = 1},
                  new_copy;
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    CUgraphNode filled, copied;
    uint32_t word = 0;
    CUgraphExec exec;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddMemsetNode(&filled, graph, NULL, 0, &fill, ctx));
    TRY(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, ctx));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    new_fill = fill;
    new_fill.value = 0x22;
    TRY(cuGraphExecMemsetNodeSetParams(exec, filled, &new_fill, ctx));
    new_fill.height = 2;
    new_fill.pitch = 64;
    CODE(cuGraphExecMemsetNodeSetParams(exec, filled, &new_fill, ctx), BAD);
    new_fill = fill;
    new_fill.width = 0;
    CODE(cuGraphExecMemsetNodeSetParams(exec, filled, &new_fill, ctx), BAD);
    new_copy = copy;
    new_copy.dstDevice = memory + 8192;
    TRY(cuGraphExecMemcpyNodeSetParams(exec, copied, &new_copy, ctx));
    new_copy.Height = 2;
    new_copy.srcPitch = new_copy.dstPitch = 64;
    CODE(cuGraphExecMemcpyNodeSetParams(exec, copied, &new_copy, ctx), BAD);
    any.memcpy.copyParams = new_copy;
    any.memcpy.copyCtx = ctx;
    CODE(cuGraphExecNodeSetParams(exec, copied, &any), BAD);
    new_copy = copy;
    new_copy.WidthInBytes = 0;
    CODE(cuGraphExecMemcpyNodeSetParams(exec, copied, &new_copy, ctx), BAD);
    TRY(cuGraphLaunch(exec, stream)); /* as the last changes that were taken have it */
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(&word, memory + 8192, sizeof(word)));
    SAME(word, 0x22);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

static int
what_kernel_nodes_remember(void)
{
    CUlaunchAttributeValue value = {0};
    CUDA_KERNEL_NODE_PARAMS p = {ONE_THREAD};
    CUgraphNode node, other;
    CUmodule module;
    CUgraph graph;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&p.func, module, "nothing"));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p));
    TRY(cuGraphAddKernelNode_v2(&other, graph, NULL, 0, &p));
    value.accessPolicyWindow.base_ptr = (void *)(uintptr_t)memory;
    value.accessPolicyWindow.num_bytes = 4096;
    value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    TRY(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                      &value));
    TRY(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_PERSISTING;
    CODE(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                       &value),
         BAD);
    CODE(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value),
         BAD);
    memset(&value, 0, sizeof(value));
    value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    TRY(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                      &value));
    TRY(cuGraphKernelNodeCopyAttributes(other, node));
    memset(&value, 0, sizeof(value));
    TRY(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                      &value));
    SAME(value.accessPolicyWindow.num_bytes, 4096);
    SAME(value.accessPolicyWindow.hitProp, CU_ACCESS_PROPERTY_PERSISTING);
    memset(&value, 0, sizeof(value));
    TRY(cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                      &value));
    SAME(value.memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
    TRY(cuGraphDestroy(graph));
    TRY(cuModuleUnload(module));
    return 0;
}

/* The extent of a view is that of the resource, which has no height or depth of 1. */
static int
views_of_arrays(void)
{
    static const struct {
        unsigned height, depth, flags;
    } shapes[] = {{0, 0, 0},
                  {16, 0, 0},
                  {16, 5, 0},
                  {0, 3, CUDA_ARRAY3D_LAYERED},
                  {16, 3, CUDA_ARRAY3D_LAYERED}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const CUDA_ARRAY3D_DESCRIPTOR d =
            bytes_of(16, shapes[i].height, shapes[i].depth, shapes[i].flags);
        CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
        const CUDA_RESOURCE_VIEW_DESC right = {.format = CU_RES_VIEW_FORMAT_UINT_1X8,
                                               .width = 16,
                                               .height = shapes[i].height,
                                               .depth = shapes[i].depth};
        CUDA_RESOURCE_VIEW_DESC view = right;

        TRY(cuArray3DCreate_v2(&res.res.array.hArray, &d));
        TRY(texture_of(&res, 0, &view));
        view.width = 15;
        CODE(texture_of(&res, 0, &view), BAD);
        view = right;
        view.height++;
        CODE(texture_of(&res, 0, &view), BAD);
        view = right;
        view.depth++;
        CODE(texture_of(&res, 0, &view), BAD);
        view.depth += 100;
        CODE(texture_of(&res, 0, &view), BAD);
        view = right;
        view.lastMipmapLevel = 1;
        CODE(texture_of(&res, 0, &view), BAD);
        view = right;
        view.lastLayer = shapes[i].flags ? shapes[i].depth : 1;
        CODE(texture_of(&res, 0, &view), BAD);
        TRY(cuArrayDestroy(res.res.array.hArray));
    }
    return 0;
}

/* ---- attributes of launches and streams -------------------------------------------
 */

/* The kernel node of a launch that a stream captured. */
static CUresult
captured(CUstream from, const CUlaunchConfig *config, CUfunction f, CUgraph *ret_graph,
         CUgraphNode *ret_node)
{
    CUresult r = cuStreamBeginCapture_v2(from, CU_STREAM_CAPTURE_MODE_RELAXED);
    size_t n = 1;

    if (r == CUDA_SUCCESS)
        r = cuLaunchKernelEx(config, f, NULL, NULL);
    if (r == CUDA_SUCCESS)
        r = cuStreamEndCapture(from, ret_graph);
    return r == CUDA_SUCCESS ? cuGraphGetNodes(*ret_graph, ret_node, &n) : r;
}

/* The priority of the stream, unless the launch has its own, and all its attributes. */
static int
what_captured_launches_remember(void)
{
    CUlaunchAttribute attrs[] = {{.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW},
                                 {.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN},
                                 {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY}};
    CUlaunchConfig config = {ONE_THREAD, .attrs = attrs};
    CUlaunchAttributeValue value;
    CUstream urgent;
    CUgraphNode node;
    CUmodule module;
    CUgraph graph;
    CUfunction f;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&f, module, "nothing"));
    TRY(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -1));
    attrs[0].value.accessPolicyWindow.base_ptr = (void *)(uintptr_t)memory;
    attrs[0].value.accessPolicyWindow.num_bytes = 512;
    attrs[1].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    attrs[2].value.priority = 0;
    config.hStream = urgent;
    config.numAttrs = 2;
    TRY(captured(urgent, &config, f, &graph, &node));
    TRY(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    SAME(value.priority, -1);
    TRY(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                      &value));
    SAME(value.accessPolicyWindow.num_bytes, 512);
    TRY(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                      &value));
    SAME(value.memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
    TRY(cuGraphDestroy(graph));
    config.numAttrs = 3;
    TRY(captured(urgent, &config, f, &graph, &node));
    TRY(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    SAME(value.priority, 0);
    TRY(cuGraphDestroy(graph));
    TRY(cuStreamDestroy_v2(urgent));
    TRY(cuModuleUnload(module));
    return 0;
}

static void
pass_gate(void *gate)
{
    sem_wait(gate);
}

/* A launch waits for the gate, and its event for the launch. */
static int
record_with(CUlaunchConfig *config, CUfunction f, CUevent event)
{
    sem_t gate;

    sem_init(&gate, 0, 0);
    TRY(cuLaunchHostFunc(config->hStream, pass_gate, &gate));
    TRY(cuLaunchKernelEx(config, f, NULL, NULL));
    CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    sem_post(&gate);
    TRY(cuEventSynchronize(event));
    TRY(cuEventQuery(event));
    TRY(cuStreamSynchronize(config->hStream));
    sem_destroy(&gate);
    return 0;
}

/* Events without timing, of this process. */
static int
launches_record_events(void)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    CUlaunchConfig config = {ONE_THREAD, .attrs = &attr, .numAttrs = 1,
                             .hStream = stream};
    CUevent event, timed, shared;
    CUmodule module;
    CUfunction f;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&f, module, "nothing"));
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cuEventCreate(&timed, 0));
    TRY(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    attr.value.programmaticEvent.event = event;
    if (record_with(&config, f, event))
        return 1;
    attr.value.programmaticEvent.event = timed;
    CODE(settled(cuLaunchKernelEx(&config, f, NULL, NULL)), BAD);
    attr.value.programmaticEvent.event = shared;
    CODE(settled(cuLaunchKernelEx(&config, f, NULL, NULL)), BAD);
    memset(&attr.value, 0, sizeof(attr.value));
    attr.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    attr.value.launchCompletionEvent.event = event;
    if (record_with(&config, f, event))
        return 1;
    TRY(cuEventDestroy_v2(event));
    TRY(cuEventDestroy_v2(timed));
    TRY(cuEventDestroy_v2(shared));
    TRY(cuModuleUnload(module));
    return 0;
}

static int
hints_that_kernel_nodes_take(void)
{
    CUDA_KERNEL_NODE_PARAMS p = {ONE_THREAD};
    const CUlaunchAttributeID
        carveout = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
        scheduling = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
    CUlaunchAttributeValue value = {.sharedMemCarveout = 50};
    CUgraphNode node, other;
    CUmodule module;
    CUgraph graph;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&p.func, module, "nothing"));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p));
    TRY(cuGraphAddKernelNode_v2(&other, graph, NULL, 0, &p));
    TRY(cuGraphKernelNodeSetAttribute(node, carveout, &value));
    value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
    TRY(cuGraphKernelNodeSetAttribute(node, scheduling, &value));
    TRY(cuGraphKernelNodeCopyAttributes(other, node));
    TRY(cuGraphKernelNodeGetAttribute(other, carveout, &value));
    SAME(value.sharedMemCarveout, 50);
    TRY(cuGraphKernelNodeGetAttribute(other, scheduling, &value));
    SAME(value.clusterSchedulingPolicyPreference, CU_CLUSTER_SCHEDULING_POLICY_SPREAD);
    TRY(cuGraphDestroy(graph));
    TRY(cuModuleUnload(module));
    return 0;
}

static int
priorities_are_copied(void)
{
    CUstreamAttrValue value;
    CUstream urgent, other;
    int priority = 9;

    TRY(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -1));
    TRY(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCopyAttributes(other, urgent));
    TRY(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    SAME(value.priority, -1);
    TRY(cuStreamGetPriority(other, &priority));
    SAME(priority, -1);
    TRY(cuStreamDestroy_v2(urgent));
    TRY(cuStreamDestroy_v2(other));
    return 0;
}

static int
start(void)
{
    if (devices_before_init())
        return 1;
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuCtxCreate_v2(&ctx, 0, dev));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&memory, MIB));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"rectangles of nothing", rectangles_of_nothing},
        {"room in pitches", room_in_pitches},
        {"room in heights", room_in_heights},
        {"pitches that are not given", pitches_that_are_not_given},
        {"what is refused stays mapped", what_is_refused_stays_mapped},
        {"whole attributes", whole_attributes},
        {"advice that is refused", advice_that_is_refused},
        {"extents of arrays", extents_of_arrays},
        {"levels of mipmaps", levels_of_mipmaps},
        {"textures of rows", textures_of_rows},
        {"textures of arrays", textures_of_arrays},
        {"views of arrays", views_of_arrays},
        {"what graphs free", what_graphs_free},
        {"graphs with memory keep their shape", graphs_with_memory_keep_their_shape},
        {"what instances take", what_instances_take},
        {"what kernel nodes remember", what_kernel_nodes_remember},
        {"what captured launches remember", what_captured_launches_remember},
        {"launches record events", launches_record_events},
        {"hints that kernel nodes take", hints_that_kernel_nodes_take},
        {"priorities are copied", priorities_are_copied},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
