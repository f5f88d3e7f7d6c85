/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_move.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "gp_log.h"
#include "stub_ctx.h"
#include "stub_side.h"
#include "wire_format.h"

#include <stdatomic.h>
#include <stdlib.h>

/* What passes through this process at a time: enough to keep a fast link busy. */
#define BOUNCE_SIZE (UINT64_C(4) << 20)

/* One copy under way through a buffer of ours. */
struct bounce {
    const struct stub_move *move;
    CUstream down, up; /* streams of ours in the two contexts */
    char *buffer;
};

/* ---- through this process ---------------------------------------------------------
 */

/* The order of the two halves of a step is the host's: down blocks, and up has taken
 * the buffer when it returns. */
static CUresult
bounce_linear(const struct bounce *b, CUdeviceptr dst, CUdeviceptr src, uint64_t len)
{
    CUresult r = CUDA_SUCCESS;

    for (uint64_t at = 0; at < len && r == CUDA_SUCCESS; at += BOUNCE_SIZE) {
        uint64_t n = gp_min(len - at, BOUNCE_SIZE);

        if (!stub_side_push(b->move->src_ctx))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        r = cuMemcpyDtoHAsync_v2(b->buffer, src + at, n, b->down);
        if (r == CUDA_SUCCESS)
            r = cuStreamSynchronize(b->down);
        stub_side_pop();
        if (r != CUDA_SUCCESS)
            return r;
        if (!stub_side_push(b->move->dst_ctx))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        r = cuMemcpyHtoDAsync_v2(dst + at, b->buffer, n, b->up);
        stub_side_pop();
    }
    return r;
}

/* @rows rows that fit in the buffer. */
static CUresult
bounce_rows(const struct bounce *b, CUdeviceptr dst, CUdeviceptr src, uint64_t rows)
{
    const struct stub_move *m = b->move;
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = src,
                          .srcPitch = m->src_pitch,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = b->buffer,
                          .dstPitch = m->width,
                          .WidthInBytes = m->width,
                          .Height = rows};
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = b->buffer,
                        .srcPitch = m->width,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = dst,
                        .dstPitch = m->dst_pitch,
                        .WidthInBytes = m->width,
                        .Height = rows};
    CUresult r;

    if (!stub_side_push(m->src_ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = cuMemcpy2DAsync_v2(&down, b->down);
    if (r == CUDA_SUCCESS)
        r = cuStreamSynchronize(b->down);
    stub_side_pop();
    if (r != CUDA_SUCCESS || !stub_side_push(m->dst_ctx))
        return r == CUDA_SUCCESS ? CUDA_ERROR_CONTEXT_IS_DESTROYED : r;
    r = cuMemcpy2DAsync_v2(&up, b->up);
    stub_side_pop();
    return r;
}

static CUresult
bounce_slice(const struct bounce *b, CUdeviceptr dst, CUdeviceptr src)
{
    const struct stub_move *m = b->move;
    uint64_t some = BOUNCE_SIZE / m->width;
    CUresult r = CUDA_SUCCESS;

    if (m->rows == 1 || (m->dst_pitch == m->width && m->src_pitch == m->width))
        return bounce_linear(b, dst, src, m->rows * m->width);
    for (uint64_t i = 0; i < m->rows && r == CUDA_SUCCESS; i += gp_max(some, 1u)) {
        CUdeviceptr to = dst + i * m->dst_pitch, from = src + i * m->src_pitch;

        r = some ? bounce_rows(b, to, from, gp_min(some, m->rows - i))
                 : bounce_linear(b, to, from, m->width);
    }
    return r;
}

static CUresult
bounce_run(struct bounce *b)
{
    const struct stub_move *m = b->move;
    CUresult r = CUDA_SUCCESS;

    for (uint64_t z = 0; z < m->slices && r == CUDA_SUCCESS; z++)
        r = bounce_slice(b, m->dst + z * m->dst_slice, m->src + z * m->src_slice);
    if (!stub_side_push(m->dst_ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (r == CUDA_SUCCESS)
        r = cuStreamSynchronize(b->up);
    stub_side_stream_put(b->up);
    stub_side_pop();
    return r;
}

static CUstream
bounce_stream(struct stub_ctx *ctx)
{
    CUstream stream = NULL;

    if (stub_side_push(ctx)) {
        stream = stub_side_stream();
        stub_side_pop();
    }
    return stream;
}

static CUresult
move_through_here(const struct stub_move *move)
{
    CLEANUP_FREE char *buffer = malloc(BOUNCE_SIZE);
    struct bounce b = {.move = move, .buffer = buffer};
    CUresult r;

    b.down = bounce_stream(move->src_ctx);
    b.up = bounce_stream(move->dst_ctx);
    if (!buffer || !b.down || !b.up)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = bounce_run(&b);
    if (stub_side_push(move->src_ctx)) {
        stub_side_stream_put(b.down);
        stub_side_pop();
    }
    return r;
}

/* ---- */

CUresult
stub_move_now(const struct stub_move *move)
{
    if (!move->width || !move->rows || !move->slices)
        return CUDA_SUCCESS;
    return move_through_here(move);
}
