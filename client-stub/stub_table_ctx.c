/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two small tables about contexts.  The checks: is a context wrapped into another one
 * (never, here).  The tools' view: slot 4 gives a number unique to the context, which
 * libraries key their caches with.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_table.h"

#include <assert.h>

#define CHECK_WORDS 4
#define CTX_WORDS 93

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

static CUresult
ctx_unserved(void)
{
    return stub_table_unserved(&stub_table_ctx);
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1[3])(void);
    CUresult (*unique_id)(CUcontext, uint64_t *);
    CUresult (*unused_5[CTX_WORDS - 5])(void);
} ctx_words = {
    .size = sizeof(ctx_words),
    .unused_1 = {ctx_unserved, ctx_unserved, ctx_unserved},
    .unique_id = ctx_unique_id,
    .unused_5 = {[0 ... CTX_WORDS - 6] = ctx_unserved},
};

static_assert(sizeof(ctx_words) == CTX_WORDS * 8, "read as an array");

const struct stub_table stub_table_ctx = {
    .name = "tools context",
    .id = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73,
           0x24, 0xc8, 0xf2},
    .words = &ctx_words,
};
