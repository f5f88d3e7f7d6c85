/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small calls that belong to no object of their own: profiler switches, batches
 * of copies, graph memory figures, atomic capabilities.
 */
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_stream.h"

#include <string.h>

enum {
    /* Copies of one batch call; beyond it somebody passed garbage. */
    MAX_BATCH = 1 << 20,
    MAX_OPERATIONS = 64,
};

/* There is no profiler to switch; programs bracket regions with these. */
SG_CALL(cuProfilerStart, void)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    return rc == CUDA_SUCCESS ? sg_leave(rc) : rc;
}

SG_CALL(cuProfilerStop, void)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    return rc == CUDA_SUCCESS ? sg_leave(rc) : rc;
}

/* --------------------------------------------------------------- batched copies */

static CUresult
batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
      CUstream hstream)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    /* A batch has no order inside and may not go to a default stream. */
    if (!dsts || !srcs || !sizes || !count || count > MAX_BATCH || !hstream ||
        hstream == CU_STREAM_LEGACY || hstream == CU_STREAM_PER_THREAD)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_stream_check_no_capture(stream);
    for (size_t i = 0; i < count && rc == CUDA_SUCCESS; i++) {
        CUDA_MEMCPY3D d = sg_copy_linear(
            CU_MEMORYTYPE_UNIFIED, (void *)(uintptr_t)dsts[i], CU_MEMORYTYPE_UNIFIED,
            (const void *)(uintptr_t)srcs[i], sizes[i]);

        rc = sizes[i] ? sg_copy_enqueue(stream, &d, false) : CUDA_ERROR_INVALID_VALUE;
        if (rc == CUDA_SUCCESS) /* pageable copies drop the lock */
            rc = sg_stream_get(ctx, hstream, &stream);
    }
    return sg_leave(rc);
}

SG_CALL(cuMemcpyBatchAsync_v2, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
        CUstream hStream)
{
    return batch(dsts, srcs, sizes, count, hStream);
}

SG_CALL(cuMemcpyBatchAsync_v2_ptsz, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
        CUstream hStream)
{
    return batch(dsts, srcs, sizes, count, hStream);
}

SG_CALL(cuMemcpyBatchAsync, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
        size_t *failIdx, CUstream hStream)
{
    if (failIdx)
        *failIdx = SIZE_MAX;
    return batch(dsts, srcs, sizes, count, hStream);
}

SG_CALL(cuMemcpyBatchAsync_ptsz, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
        size_t *failIdx, CUstream hStream)
{
    return cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs,
                              failIdx, hStream);
}

/* ------------------------------------------------------------------- atomics */

static CUresult
enter_device(CUdevice dev)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_dev_get(dev) ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_DEVICE);
}

/* Graphs keep no memory between launches: there is nothing to trim or count. */
/* ------------------------------------------------------------------- atomics */

/* Host and devices share one memory and its atomics. */
static CUresult
capabilities(unsigned *caps, const CUatomicOperation *ops, unsigned count)
{
    const unsigned ints = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
                          CU_ATOMIC_CAPABILITY_REDUCTION |
                          CU_ATOMIC_CAPABILITY_SCALAR_32 |
                          CU_ATOMIC_CAPABILITY_SCALAR_64;

    if (!caps || !ops || !count || count > MAX_OPERATIONS)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)ops[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        switch ((int)ops[i]) {
        case CU_ATOMIC_OPERATION_FLOAT_ADD:
            caps[i] = CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                      CU_ATOMIC_CAPABILITY_SCALAR_64;
            break;
        case CU_ATOMIC_OPERATION_FLOAT_MIN:
        case CU_ATOMIC_OPERATION_FLOAT_MAX:
            caps[i] = 0;
            break;
        default:
            caps[i] = ints;
            break;
        }
    }
    return CUDA_SUCCESS;
}

SG_CALL(cuDeviceGetHostAtomicCapabilities, unsigned int *caps,
        const CUatomicOperation *operations, unsigned int count, CUdevice dev)
{
    CUresult rc = enter_device(dev);

    return rc == CUDA_SUCCESS ? sg_leave(capabilities(caps, operations, count)) : rc;
}

SG_CALL(cuDeviceGetP2PAtomicCapabilities, unsigned int *caps,
        const CUatomicOperation *operations, unsigned int count, CUdevice srcDevice,
        CUdevice dstDevice)
{
    CUresult rc = enter_device(srcDevice);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dstDevice) || srcDevice == dstDevice)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    return sg_leave(capabilities(caps, operations, count));
}
