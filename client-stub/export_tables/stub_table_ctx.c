/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two small tables about contexts.  The checks: whether a context is wrapped into
 * another one (never, here). The tools' view: slot 4 returns a number unique to the
 * context, slot 51 the stream that a handle means, and slot 39 a number unique to it;
 * libraries use them as keys of caches.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_table.h"

#include <assert.h>

#define CHECK_WORDS 4
#define CTX_WORDS 93
#define CTX_STREAM_NUMBER 39
#define CTX_STREAM 51

static CUresult
check_wrapped(CUcontext ctx, uint32_t *is_wrapped, CUcontext *inner)
{
    *is_wrapped = 0;
    return CUDA_SUCCESS;
}

static uint32_t
check_mode(void)
{
    return 0;
}

static CUresult
check_unserved(void)
{
    return stub_table_unserved(&stub_table_ctxchk);
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1)(void);
    CUresult (*wrapped)(CUcontext, uint32_t *, CUcontext *);
    uint32_t (*mode)(void);
} check_words = {
    .size = sizeof(check_words),
    .unused_1 = check_unserved,
    .wrapped = check_wrapped,
    .mode = check_mode,
};

static_assert(sizeof(check_words) == CHECK_WORDS * 8, "read as an array");

const struct stub_table stub_table_ctxchk = {
    .name = "context checks",
    .id = {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00,
           0x6d, 0xfa, 0x7e},
    .words = &check_words,
};

static CUresult
ctx_unique_id(CUcontext handle, uint64_t *id)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(handle, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = ctx->unique;
    return CUDA_SUCCESS;
}

/* The stream that @stream means; with @per_thread, 0 is the thread's own default
 * stream. */
static CUresult
ctx_stream(CUcontext ctx, CUstream stream, CUstream *out, uint32_t per_thread)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    *out = stream;
    return CUDA_SUCCESS;
}

/* A number that no other stream of this process has or will have.  Libraries ask for
 * it at every operation, so it comes from the handle, which is never used twice, and
 * not from the server. */
static CUresult
ctx_stream_number(CUcontext handle, CUstream stream, uint64_t *out)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(handle, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)stream;
    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        *out |= ctx->unique << 2;
    return CUDA_SUCCESS;
}

static CUresult
ctx_unserved(void)
{
    return stub_table_unserved(&stub_table_ctx);
}

typedef CUresult ctx_slot(void);

static const struct {
    uintptr_t size;
    ctx_slot *unused_1[3];
    CUresult (*unique_id)(CUcontext, uint64_t *);
    ctx_slot *unused_5[CTX_STREAM_NUMBER - 5];
    CUresult (*stream_number)(CUcontext, CUstream, uint64_t *);
    ctx_slot *unused_40[CTX_STREAM - CTX_STREAM_NUMBER - 1];
    CUresult (*stream)(CUcontext, CUstream, CUstream *, uint32_t);
    ctx_slot *unused_52[CTX_WORDS - CTX_STREAM - 1];
} ctx_words = {
    .size = sizeof(ctx_words),
    .unused_1 = {[0 ... 2] = ctx_unserved},
    .unique_id = ctx_unique_id,
    .unused_5 = {[0 ... CTX_STREAM_NUMBER - 6] = ctx_unserved},
    .stream_number = ctx_stream_number,
    .unused_40 = {[0 ... CTX_STREAM - CTX_STREAM_NUMBER - 2] = ctx_unserved},
    .stream = ctx_stream,
    .unused_52 = {[0 ... CTX_WORDS - CTX_STREAM - 2] = ctx_unserved},
};

static_assert(sizeof(ctx_words) == CTX_WORDS * 8, "read as an array");

const struct stub_table stub_table_ctx = {
    .name = "tools context",
    .id = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73,
           0x24, 0xc8, 0xf2},
    .words = &ctx_words,
};
