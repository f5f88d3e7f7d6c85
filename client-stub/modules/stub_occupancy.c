/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Occupancy: how many blocks of a kernel fit on a multiprocessor, which the driver
 * answers once, and the block size with the best occupancy.
 *
 * cuBLAS asks for the occupancy of the same kernels before every launch.  The driver's
 * answers are kept until something changes what they depend on: an attribute or
 * preference of a kernel or context, or the kernel's handle.
 *
 * The search for a block size runs here because a function of the application may
 * compute the shared memory of a block size.
 */
#include "stub_occupancy.h"
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_func.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <stdatomic.h>

#define ANSWERS 64u

struct answer {
    uint64_t func, ctx;
    size_t shared;
    int block;
    unsigned int flags;
    uint32_t settings, gone; /* as they were; 0, 0 in an empty entry */
    int blocks;
};

static struct {
    struct gp_lock lock;
    struct answer answer[ANSWERS];
} known;

/* How often an attribute or preference was set, from 1 on. */
static _Atomic uint32_t settings = 1;

static struct answer *
answer_place(const struct answer *question)
{
    uint64_t hash =
        (question->func ^ question->ctx << 7) * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= (uint64_t)(unsigned int)question->block << 40 ^ question->shared << 32;
    return &known.answer[(hash >> 32 ^ hash >> 48) % ANSWERS];
}

static bool
answer_find(struct answer *question)
{
    const struct answer *a = answer_place(question);
    bool found;

    gp_lock_take(&known.lock);
    found = a->func == question->func && a->ctx == question->ctx &&
            a->shared == question->shared && a->block == question->block &&
            a->flags == question->flags && a->settings == question->settings &&
            a->gone == question->gone;
    question->blocks = a->blocks;
    gp_lock_release(&known.lock);
    return found;
}

static void
answer_keep(const struct answer *answer)
{
    gp_lock_take(&known.lock);
    *answer_place(answer) = *answer;
    gp_lock_release(&known.lock);
}

CUresult
stub_impl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks,
                                                               CUfunction func,
                                                               int blockSize,
                                                               size_t dynamicSMemSize,
                                                               unsigned int flags)
{
    struct answer a = {.func = (uintptr_t)func,
                       .shared = dynamicSMemSize,
                       .block = blockSize,
                       .flags = flags,
                       .settings = atomic_load(&settings),
                       .gone = atomic_load(&stub_func_gone)};
    struct stub_ctx *ctx;
    bool ours = stub_enter() == CUDA_SUCCESS && numBlocks &&
                stub_handle_ok(WIRE_KIND_FUNC, a.func) &&
                stub_ctx_resolve(NULL, &ctx) == CUDA_SUCCESS &&
                !stub_link_wants_replies(stub_link_here());
    CUresult r;

    if (ours) {
        a.ctx = atomic_load(&ctx->unique);
        if (answer_find(&a)) {
            *numBlocks = a.blocks;
            return CUDA_SUCCESS;
        }
    }
    r = stub_gen_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, func, blockSize, dynamicSMemSize, flags);
    if (r != CUDA_SUCCESS || !ours)
        return r;
    a.blocks = *numBlocks;
    answer_keep(&a);
    return r;
}

CUresult
stub_impl_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
                                                      int blockSize,
                                                      size_t dynamicSMemSize)
{
    return stub_impl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, func, blockSize, dynamicSMemSize, CU_OCCUPANCY_DEFAULT);
}

void
stub_occupancy_forget(void)
{
    atomic_fetch_add(&settings, 1);
}

/* ---- the best block size ---------------------------------------------------- */

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
 * is the result; 0 when none fits.  They are whole warps, except for the limit itself.
 */
static CUresult
occupancy_search(const struct occupancy *o, int limit, int warp, int *ret_blocks,
                 int *ret_size)
{
    int best = 0, start = (limit + warp - 1) / warp * warp;

    *ret_blocks = *ret_size = 0;
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
    return CUDA_SUCCESS;
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
    int most = 0, blocks, threads;
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
        &blocks, &threads);
    if (r != CUDA_SUCCESS)
        return r;
    *minGridSize =
        blocks * stub_device_attr(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    *blockSize = threads;
    return CUDA_SUCCESS;
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
