/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported fills: three element sizes, one or two dimensions, waiting or
 * not, on the legacy or the thread's default stream.
 */
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_stream.h"
#include "sg_work.h"

static CUresult
fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned size, size_t width,
     size_t height, CUstream hstream, bool sync)
{
    CUDA_MEMSET_NODE_PARAMS set = {dst, pitch, value, size, width, height};
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_work(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hstream, &stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_fill_enqueue(stream, &set, sync);
    return sg_leave(rc);
}

/* NAME, suffix of the per-thread variant's name, type, bytes */
#define FILL_1D(name, thread_name, type, size)                                         \
    SG_CALL(name, CUdeviceptr dstDevice, type value, size_t N)                         \
    {                                                                                  \
        return fill(dstDevice, 0, value, size, N, 1, CU_STREAM_LEGACY, true);          \
    }                                                                                  \
    SG_CALL(thread_name, CUdeviceptr dstDevice, type value, size_t N)                  \
    {                                                                                  \
        return fill(dstDevice, 0, value, size, N, 1, CU_STREAM_PER_THREAD, true);      \
    }

#define FILL_1D_ASYNC(name, type, size)                                                \
    SG_CALL(name, CUdeviceptr dstDevice, type value, size_t N, CUstream hStream)       \
    {                                                                                  \
        return fill(dstDevice, 0, value, size, N, 1, hStream, false);                  \
    }

#define FILL_2D(name, thread_name, type, size)                                         \
    SG_CALL(name, CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,    \
            size_t Height)                                                             \
    {                                                                                  \
        return fill(dstDevice, dstPitch, value, size, Width, Height, CU_STREAM_LEGACY, \
                    true);                                                             \
    }                                                                                  \
    SG_CALL(thread_name, CUdeviceptr dstDevice, size_t dstPitch, type value,           \
            size_t Width, size_t Height)                                               \
    {                                                                                  \
        return fill(dstDevice, dstPitch, value, size, Width, Height,                   \
                    CU_STREAM_PER_THREAD, true);                                       \
    }

#define FILL_2D_ASYNC(name, type, size)                                                \
    SG_CALL(name, CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,    \
            size_t Height, CUstream hStream)                                           \
    {                                                                                  \
        return fill(dstDevice, dstPitch, value, size, Width, Height, hStream, false);  \
    }

FILL_1D(cuMemsetD8_v2, cuMemsetD8_v2_ptds, unsigned char, 1)
FILL_1D(cuMemsetD16_v2, cuMemsetD16_v2_ptds, unsigned short, 2)
FILL_1D(cuMemsetD32_v2, cuMemsetD32_v2_ptds, unsigned int, 4)
FILL_1D_ASYNC(cuMemsetD8Async, unsigned char, 1)
FILL_1D_ASYNC(cuMemsetD16Async, unsigned short, 2)
FILL_1D_ASYNC(cuMemsetD32Async, unsigned int, 4)
FILL_2D(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, unsigned char, 1)
FILL_2D(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, unsigned short, 2)
FILL_2D(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, unsigned int, 4)
FILL_2D_ASYNC(cuMemsetD2D8Async, unsigned char, 1)
FILL_2D_ASYNC(cuMemsetD2D16Async, unsigned short, 2)
FILL_2D_ASYNC(cuMemsetD2D32Async, unsigned int, 4)
