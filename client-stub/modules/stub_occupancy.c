/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block size with the best occupancy.  The search runs here because a function of
 * the application may compute the shared memory of a block size; the occupancy of each
 * candidate is queried from the driver.
 */
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_manual.h"

struct occupancy {
    CUfunction func;
    CUoccupancyB2DSize block_to_shared;
    size_t shared;
    unsigned int flags;
};

static CUresult
occupancy_of(const struct occupancy *o, int block, int *ret)
{
    size_t shared = o->block_to_shared ? o->block_to_shared(block) : o->shared;

    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret, o->func, block,
                                                                shared, o->flags);
}

/* Candidates are tried from the largest on, so that the largest of equally good ones
 * is the result.  They are whole warps, except for the limit itself. */
static CUresult
occupancy_search(const struct occupancy *o, int limit, int warp, int *ret_blocks,
                 int *ret_size)
{
    int best = 0, start = (limit + warp - 1) / warp * warp;

    for (int size = start; size > 0; size -= warp) {
        int tried = size < limit ? size : limit, blocks = 0;
        CUresult r = occupancy_of(o, tried, &blocks);

        if (r != CUDA_SUCCESS)
            return r;
        if (blocks * tried > best) {
            best = blocks * tried;
            *ret_blocks = blocks;
            *ret_size = tried;
        }
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
stub_impl_cuOccupancyMaxPotentialBlockSizeWithFlags(
    int *minGridSize, int *blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
    int blockSizeLimit, unsigned int flags)
{
    struct occupancy o = {func, blockSizeToDynamicSMemSize, dynamicSMemSize, flags};
    const struct stub_device *dev;
    struct stub_ctx *ctx;
    int most = 0, blocks = 0;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_FUNC, (uintptr_t)func))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!minGridSize || !blockSize)
        return CUDA_ERROR_INVALID_VALUE;
    dev = stub_device_get(ctx->dev);
    r = cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func);
    if (r != CUDA_SUCCESS)
        return r;
    most =
        gp_min(most, stub_device_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    if (blockSizeLimit > 0)
        most = gp_min(most, blockSizeLimit);
    r = occupancy_search(
        &o, most, gp_max(stub_device_attr(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE), 1),
        &blocks, blockSize);
    if (r == CUDA_SUCCESS)
        *minGridSize =
            blocks * stub_device_attr(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return r;
}

CUresult
stub_impl_cuOccupancyMaxPotentialBlockSize(
    int *minGridSize, int *blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
    int blockSizeLimit)
{
    return stub_impl_cuOccupancyMaxPotentialBlockSizeWithFlags(
        minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
        blockSizeLimit, CU_OCCUPANCY_DEFAULT);
}
