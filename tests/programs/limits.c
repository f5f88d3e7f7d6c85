/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each allocating call costs of the session's memory.
 *
 * `CALL BYTES RESULT FREE_AT_END FREE_AFTER_ALL_IS_FREED`: pieces were allocated until
 * that was refused; how many bytes were to be had, the refusal, and what cuMemGetInfo
 * says before and after all is freed.  A call that the driver does not have is printed
 * with 0 bytes and its result.
 *
 * `CALL exact ASKED CHARGED REFUSAL LEFT`: an odd number of bytes, what it was counted
 * as, and the answer when all but one byte of it are free; LEFT of that afterwards.
 */
#include "prog.h"

#define PIECES_MAX 4096
#define PIECE ((size_t)2 << 20) /* also what physical memory comes in */
#define ODD ((size_t)1001)

struct piece {
    CUdeviceptr address;
    CUarray array;
    CUmipmappedArray mipmap;
    CUmemGenericAllocationHandle handle;
    CUgraph graph;
    CUgraphExec exec;
};

static CUdevice the_device;
static CUmemoryPool the_pool;

static CUresult
take_plain(struct piece *piece, size_t size)
{
    return cuMemAlloc(&piece->address, size);
}

static CUresult
take_pitched(struct piece *piece, size_t size)
{
    size_t width = size % 4096 ? size : 4096, pitch;

    return cuMemAllocPitch_v2(&piece->address, &pitch, width, size / width, 4);
}

static CUresult
take_managed(struct piece *piece, size_t size)
{
    return cuMemAllocManaged(&piece->address, size, CU_MEM_ATTACH_GLOBAL);
}

static CUresult
take_async(struct piece *piece, size_t size)
{
    return cuMemAllocAsync(&piece->address, size, NULL);
}

static CUresult
take_pooled(struct piece *piece, size_t size)
{
    return cuMemAllocFromPoolAsync(&piece->address, size, the_pool, NULL);
}

static CUDA_ARRAY3D_DESCRIPTOR
shape(size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = size % 4096 ? size : 4096,
                                    .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                    .NumChannels = 1};

    desc.Height = size / desc.Width > 1 ? size / desc.Width : 0;
    return desc;
}

static CUresult
take_array(struct piece *piece, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR whole = shape(size);
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = whole.Width,
                                  .Height = whole.Height,
                                  .Format = whole.Format,
                                  .NumChannels = 1};

    return cuArrayCreate_v2(&piece->array, &desc);
}

static CUresult
take_array3d(struct piece *piece, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = shape(size);

    desc.Depth = size % 4096 ? 13 : 2;
    desc.Height = size % 4096 ? 7 : desc.Height / 2;
    desc.Width = size % 4096 ? size / 7 / 13 : desc.Width;
    return cuArray3DCreate_v2(&piece->array, &desc);
}

static CUresult
take_mipmap(struct piece *piece, size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = shape(size);

    return cuMipmappedArrayCreate(&piece->mipmap, &desc, 1);
}

static CUresult
take_physical(struct piece *piece, size_t size)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device}};

    return cuMemCreate(&piece->handle, size, &prop, 0);
}

/* The memory of a graph's node is counted once the graph can be launched. */
static CUresult
take_node(struct piece *piece, size_t size)
{
    CUDA_MEM_ALLOC_NODE_PARAMS node = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, the_device}},
        .bytesize = size};
    CUgraphNode made;
    CUresult result;

    CU(cuGraphCreate(&piece->graph, 0));
    result = cuGraphAddMemAllocNode(&made, piece->graph, NULL, 0, &node);
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiateWithFlags(&piece->exec, piece->graph, 0);
    if (result != CUDA_SUCCESS)
        CU(cuGraphDestroy(piece->graph));
    return result;
}

static CUresult
take_captured(struct piece *piece, size_t size)
{
    CUstream stream;
    CUresult result;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuMemAllocAsync(&piece->address, size, stream));
    CU(cuStreamEndCapture(stream, &piece->graph));
    CU(cuStreamDestroy(stream));
    result = cuGraphInstantiateWithFlags(&piece->exec, piece->graph, 0);
    if (result != CUDA_SUCCESS)
        CU(cuGraphDestroy(piece->graph));
    return result;
}

static CUresult
give_plain(struct piece *piece)
{
    return cuMemFree(piece->address);
}

static CUresult
give_async(struct piece *piece)
{
    return cuMemFreeAsync(piece->address, NULL);
}

static CUresult
give_array(struct piece *piece)
{
    return cuArrayDestroy(piece->array);
}

static CUresult
give_mipmap(struct piece *piece)
{
    return cuMipmappedArrayDestroy(piece->mipmap);
}

static CUresult
give_physical(struct piece *piece)
{
    return cuMemRelease(piece->handle);
}

static CUresult
give_graph(struct piece *piece)
{
    CUresult result = cuGraphExecDestroy(piece->exec);

    return result == CUDA_SUCCESS ? cuGraphDestroy(piece->graph) : result;
}

static const struct {
    const char *name;
    CUresult (*take)(struct piece *piece, size_t size);
    CUresult (*give)(struct piece *piece);
} calls[] = {
    {"cuMemAlloc", take_plain, give_plain},
    {"cuMemAllocPitch", take_pitched, give_plain},
    {"cuMemAllocManaged", take_managed, give_plain},
    {"cuMemAllocAsync", take_async, give_async},
    {"cuMemAllocFromPoolAsync", take_pooled, give_async},
    {"cuArrayCreate", take_array, give_array},
    {"cuArray3DCreate", take_array3d, give_array},
    {"cuMipmappedArrayCreate", take_mipmap, give_mipmap},
    {"cuMemCreate", take_physical, give_physical},
    {"cuGraphAddMemAllocNode", take_node, give_graph},
    {"captured-cuMemAllocAsync", take_captured, give_graph},
};

static size_t
free_now(void)
{
    size_t available, total;

    CU(cuMemGetInfo(&available, &total));
    return available;
}

static void
give(size_t which, struct piece *piece)
{
    CUmemoryPool pool;

    CU(calls[which].give(piece));
    CU(cuCtxSynchronize());
    if (calls[which].give != give_async)
        return;
    CU(cuDeviceGetDefaultMemPool(&pool, the_device));
    CU(cuMemPoolTrimTo(pool, 0));
    CU(cuMemPoolTrimTo(the_pool, 0));
}

static void
try_until_refused(size_t which)
{
    static struct piece pieces[PIECES_MAX];
    size_t n = 0, free_at_end;
    CUresult result;

    while ((result = calls[which].take(&pieces[n], PIECE)) == CUDA_SUCCESS)
        if (++n == PIECES_MAX)
            break;
    free_at_end = free_now();
    for (size_t i = 0; i < n; i++)
        give(which, &pieces[i]);
    printf("%s %zu %d %zu %zu\n", calls[which].name, n * PIECE, (int)result,
           free_at_end, free_now());
}

static void
try_exact(size_t which)
{
    size_t size = calls[which].take == take_physical ? PIECE : ODD;
    size_t before = free_now(), charged;
    struct piece piece = {0};
    CUdeviceptr filler;
    CUresult result;

    if (calls[which].take(&piece, size) != CUDA_SUCCESS)
        return; /* said already */
    charged = before - free_now();
    give(which, &piece);
    CU(cuMemAlloc(&filler, free_now() - (size - 1)));
    result = calls[which].take(&piece, size);
    printf("%s exact %zu %zu %d %zu\n", calls[which].name, size, charged, (int)result,
           free_now());
    if (result == CUDA_SUCCESS)
        give(which, &piece);
    CU(cuMemFree(filler));
}

int
main(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUcontext context;

    CU(cuInit(0));
    CU(cuDeviceGet(&the_device, 0));
    CU(cuCtxCreate(&context, 0, the_device));
    CU(cuMemPoolCreate(&the_pool, &props));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        try_until_refused(i);
        try_exact(i);
    }
    CU(cuMemPoolDestroy(the_pool));
    CU(cuCtxDestroy(context));
    return 0;
}
