/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context-local storage as runtimes see it: put, delete, get, and no size word.  A
 * lookup that finds nothing must be an error: on success a runtime skips setting the
 * context up.  The context may be a primary one that is not retained yet.
 */
#include "gp_base.h"
#include "stub_ctx.h"
#include "stub_ctx_storage.h"
#include "stub_result.h"
#include "stub_table.h"

static struct stub_ctx *
storage_ctx(CUcontext ctx)
{
    return ctx ? stub_ctx_get(ctx) : stub_tls.ctx;
}

static CUresult
storage_put(CUcontext handle, void *key, void *value, stub_ctx_storage_dtor *dtor)
{
    struct stub_ctx *ctx = storage_ctx(handle);

    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return stub_result_errno(stub_ctx_storage_put(&ctx->storage, key, value, dtor));
}

static CUresult
storage_del(CUcontext handle, void *key)
{
    struct stub_ctx *ctx = storage_ctx(handle);

    if (!ctx || stub_ctx_storage_del(&ctx->storage, key) < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static CUresult
storage_get(void **value, CUcontext handle, void *key)
{
    struct stub_ctx *ctx = likely(!handle) ? stub_tls.ctx : stub_ctx_get(handle);

    if (!ctx || stub_ctx_storage_get(&ctx->storage, key, value) < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult (*put)(CUcontext, void *, void *, stub_ctx_storage_dtor *);
    CUresult (*del)(CUcontext, void *);
    CUresult (*get)(void **, CUcontext, void *);
    void (*end)(void);
} words = {
    .put = storage_put,
    .del = storage_del,
    .get = storage_get,
};

const struct stub_table stub_table_storage = {
    .name = "storage",
    .id = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55,
           0xd8, 0x95, 0x93},
    .words = &words,
};
