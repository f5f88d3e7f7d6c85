/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The occupancy calls: how many blocks fit, what block size fits best.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_launch.h"
#include "sg_module.h"

#include "gp_base.h"

static CUresult
enter_func(CUfunction handle, struct sg_func **ret_func)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_func_get(ctx, handle, ret_func);
    if (rc == CUDA_SUCCESS)
        rc = sg_kernel_ready((*ret_func)->kernel);
    if (rc == CUDA_SUCCESS) /* the lock was dropped */
        rc = sg_func_get(ctx, handle, ret_func);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

/* The part of the first cache that would be shared memory: the smallest that a card of
 * this capability can set aside, that is as much as was asked for and holds @block.
 * There is no such cache here, but programs choose their blocks by this answer. */
static uint64_t
shared_part(const struct sg_func *f, uint64_t block)
{
    static const uint8_t kib[] = {8, 16, 32, 64, 100, 132, 164, 196};
    const struct sg_ctx *ctx = f->module->ctx;
    uint64_t all = (uint64_t)ctx->dev->profile->shared_per_sm, want;
    CUfunc_cache cache = f->attrs.cache ? f->attrs.cache : ctx->cache_config;
    int percent = f->attrs.carveout >= 0                ? f->attrs.carveout
                  : cache == CU_FUNC_CACHE_PREFER_L1    ? 0
                  : cache == CU_FUNC_CACHE_PREFER_EQUAL ? 50
                                                        : 100;

    want = gp_max(all * (unsigned)percent / 100, block);
    for (size_t i = 0; i < ARRAY_SIZE(kib); i++)
        if (kib[i] * UINT64_C(1024) >= want && kib[i] * UINT64_C(1024) < all &&
            (ctx->dev->profile->major > 7 || kib[i] >= 32))
            return kib[i] * UINT64_C(1024);
    return all;
}

/* Blocks of a multiprocessor; none, and no error, with more dynamic shared memory than
 * a launch of the function may have. */
static int
resident(const struct sg_func *f, unsigned threads, size_t dyn_shared)
{
    const struct sg_dev *dev = f->module->ctx->dev;
    int most = 0, blocks;
    uint64_t block;

    sg_func_attribute(dev, f->kernel, f->module->code, &f->attrs,
                      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &most);
    if (dyn_shared > (size_t)most)
        return 0;
    blocks = sg_occupancy(dev, f->kernel, threads, dyn_shared);
    block = ((f->kernel->static_shared + dyn_shared + 127) & ~UINT64_C(127)) + 1024;
    return gp_min(blocks, (int)(shared_part(f, block) / block));
}

SG_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *numBlocks,
        CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
    struct sg_func *f;
    CUresult rc = enter_func(func, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!numBlocks || blockSize <= 0 ||
        flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *numBlocks = resident(f, (unsigned)blockSize, dynamicSMemSize);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *numBlocks, CUfunction func,
        int blockSize, size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, func, blockSize, dynamicSMemSize, CU_OCCUPANCY_DEFAULT);
}

/* What decides on a block size; the lock is not held, as @b2d is the application's. */
struct choice {
    CUfunction func;
    CUoccupancyB2DSize b2d;
    size_t shared; /* without @b2d */
    unsigned flags;
};

/* The block size of at most @top threads, a multiple of the warp, that keeps most
 * threads resident; the largest of equals, and 0 when none fits. */
static CUresult
best_block(const struct choice *c, int top, int *ret_blocks, int *ret_threads)
{
    CUresult rc = CUDA_SUCCESS;
    int best = 0;

    *ret_blocks = *ret_threads = 0;
    for (int size = (top + 31) / 32 * 32; size > 0 && rc == CUDA_SUCCESS; size -= 32) {
        int block = gp_min(size, top), n = 0;

        rc = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &n, c->func, block, c->b2d ? c->b2d(block) : c->shared, c->flags);
        if (n * block <= best)
            continue;
        best = n * block;
        *ret_blocks = n;
        *ret_threads = block;
    }
    return rc;
}

SG_CALL(cuOccupancyMaxPotentialBlockSizeWithFlags, int *minGridSize, int *blockSize,
        CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize,
        size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
    const struct choice choice = {func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                                  flags};
    int top, blocks, threads;
    struct sg_func *f;
    unsigned sms;
    CUresult rc = enter_func(func, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!minGridSize || !blockSize ||
        flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sms = f->module->ctx->dev->sms;
    sg_func_attribute(f->module->ctx->dev, f->kernel, f->module->code, &f->attrs,
                      CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &top);
    sg_unlock();
    if (blockSizeLimit > 0)
        top = gp_min(top, blockSizeLimit);
    rc = best_block(&choice, top, &blocks, &threads);
    if (rc != CUDA_SUCCESS)
        return rc;
    *minGridSize = blocks * (int)sms;
    *blockSize = threads;
    return CUDA_SUCCESS;
}

SG_CALL(cuOccupancyMaxPotentialBlockSize, int *minGridSize, int *blockSize,
        CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize,
        size_t dynamicSMemSize, int blockSizeLimit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(
        minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
        blockSizeLimit, CU_OCCUPANCY_DEFAULT);
}

SG_CALL(cuOccupancyAvailableDynamicSMemPerBlock, size_t *dynamicSmemSize,
        CUfunction func, int numBlocks, int blockSize)
{
    const struct sg_profile *prof;
    struct sg_func *f;
    int64_t each;
    CUresult rc = enter_func(func, &f);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    prof = f->module->ctx->dev->profile;
    each = (prof->shared_per_sm / numBlocks - 1024) & ~127;
    each = gp_min(each, (int64_t)prof->shared_optin) - f->kernel->static_shared;
    *dynamicSmemSize = each > 0 ? (size_t)each : 0;
    return sg_leave(CUDA_SUCCESS);
}

/* The blocks of the cluster that @config asks for. */
static CUresult
cluster_of(const struct sg_func *f, const CUlaunchConfig *config, unsigned *ret,
           bool *ret_clustered)
{
    struct sg_launch_req req = {
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ}};
    unsigned shape[3];
    CUresult rc;

    for (unsigned i = 0; config->attrs && i < gp_min(config->numAttrs, 64u); i++) {
        const CUlaunchAttribute *a = &config->attrs[i];

        if (a->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        req.cluster[0] = a->value.clusterDim.x;
        req.cluster[1] = a->value.clusterDim.y;
        req.cluster[2] = a->value.clusterDim.z;
    }
    rc = sg_launch_cluster(f->module->ctx->dev, f, &req, shape);
    *ret = rc == CUDA_SUCCESS ? shape[0] * shape[1] * shape[2] : 1;
    *ret_clustered = req.cluster[0] || f->kernel->reqcluster[0] || f->attrs.cluster[0];
    return rc;
}

SG_CALL(cuOccupancyMaxPotentialClusterSize, int *clusterSize, CUfunction func,
        const CUlaunchConfig *config)
{
    struct sg_func *f;
    CUresult rc = enter_func(func, &f);
    unsigned blocks;
    bool clustered;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!clusterSize || !config)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = cluster_of(f, config, &blocks,
                    &clustered); /* its size is ignored, and has to be one */
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    *clusterSize = (int)sg_launch_max_cluster(f->module->ctx->dev, f);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuOccupancyMaxActiveClusters, int *numClusters, CUfunction func,
        const CUlaunchConfig *config)
{
    const struct sg_dev *dev;
    struct sg_func *f;
    CUresult rc = enter_func(func, &f);
    unsigned blocks;
    bool clustered;
    uint64_t threads;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!numClusters || !config)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = cluster_of(f, config, &blocks, &clustered);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    dev = f->module->ctx->dev;
    if (!clustered) { /* none, as a driver has it */
        *numClusters = 0;
        return sg_leave(CUDA_SUCCESS);
    }
    threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    *numClusters =
        sg_occupancy(dev, f->kernel, (unsigned)gp_min(threads, (uint64_t)2048),
                     config->sharedMemBytes) *
        (int)dev->sms / (int)blocks;
    return sg_leave(CUDA_SUCCESS);
}
