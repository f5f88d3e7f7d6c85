/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates in pieces by each allocating call until it is refused: prints how many
 * bytes were to be had, the refusal, and what cuMemGetInfo says before and after.
 *
 * `CALL BYTES RESULT FREE_AT_END FREE_AFTER_ALL_IS_FREED`, a line per call.  A call
 * that the driver does not have is printed with 0 bytes and its result.
 */
#include "prog.h"

#define PIECES_MAX 4096
#define PIECE ((size_t)2 << 20) /* also what physical memory comes in */

struct piece {
    CUdeviceptr address;
    CUarray array;
    CUmemGenericAllocationHandle handle;
};

static CUdevice the_device;

static CUresult
take_plain(struct piece *piece)
{
    return cuMemAlloc(&piece->address, PIECE);
}

static CUresult
take_pitched(struct piece *piece)
{
    size_t pitch;

    return cuMemAllocPitch_v2(&piece->address, &pitch, 4096, PIECE / 4096, 4);
}

static CUresult
take_managed(struct piece *piece)
{
    return cuMemAllocManaged(&piece->address, PIECE, CU_MEM_ATTACH_GLOBAL);
}

static CUresult
take_async(struct piece *piece)
{
    return cuMemAllocAsync(&piece->address, PIECE, NULL);
}

static CUresult
take_array(struct piece *piece)
{
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1024,
                                  .Height = PIECE / 4096,
                                  .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                  .NumChannels = 1};

    return cuArrayCreate_v2(&piece->array, &desc);
}

static CUresult
take_physical(struct piece *piece)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device}};

    return cuMemCreate(&piece->handle, PIECE, &prop, 0);
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
give_physical(struct piece *piece)
{
    return cuMemRelease(piece->handle);
}

static const struct {
    const char *name;
    CUresult (*take)(struct piece *piece);
    CUresult (*give)(struct piece *piece);
} calls[] = {
    {"cuMemAlloc", take_plain, give_plain},
    {"cuMemAllocPitch", take_pitched, give_plain},
    {"cuMemAllocManaged", take_managed, give_plain},
    {"cuMemAllocAsync", take_async, give_async},
    {"cuArrayCreate", take_array, give_array},
    {"cuMemCreate", take_physical, give_physical},
};

static void
try_call(size_t which)
{
    static struct piece pieces[PIECES_MAX];
    size_t n = 0, free_at_end, free_after, total;
    CUmemoryPool pool;
    CUresult result;

    while ((result = calls[which].take(&pieces[n])) == CUDA_SUCCESS)
        if (++n == PIECES_MAX)
            break;
    CU(cuMemGetInfo(&free_at_end, &total));
    for (size_t i = 0; i < n; i++)
        CU(calls[which].give(&pieces[i]));
    CU(cuCtxSynchronize());
    if (calls[which].give == give_async) {
        CU(cuDeviceGetDefaultMemPool(&pool, the_device));
        CU(cuMemPoolTrimTo(pool, 0));
    }
    CU(cuMemGetInfo(&free_after, &total));
    printf("%s %zu %d %zu %zu\n", calls[which].name, n * PIECE, (int)result,
           free_at_end, free_after);
}

int
main(void)
{
    CUcontext context;

    CU(cuInit(0));
    CU(cuDeviceGet(&the_device, 0));
    CU(cuCtxCreate(&context, 0, the_device));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        try_call(i);
    CU(cuCtxDestroy(context));
    return 0;
}
