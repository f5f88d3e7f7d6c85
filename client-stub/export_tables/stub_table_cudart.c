/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's own interface.  Slot 2 returns a device's primary context without
 * retaining it; runtime 9.2 loads its fat binaries through slot 1, 11.8 through slot 6,
 * and says through slot 7 that it has unloaded one; through slot 12 runtimes from 13.2
 * on have the driver's compilers loaded before anything else.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_manual.h"
#include "stub_table.h"

#include <assert.h>

#define CUDART_WORDS 13

static CUresult
cudart_primary_ctx(CUcontext *out, CUdevice dev)
{
    CUresult r = stub_enter();
    struct stub_ctx *ctx = stub_ctx_primary(dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = stub_ctx_handle(ctx);
    return CUDA_SUCCESS;
}

static CUresult
cudart_load(CUmodule *out, const void *wrapper)
{
    return stub_impl_cuModuleLoadData(out, wrapper);
}

/* What the further arguments say is not known; the module is the same without them. */
static CUresult
cudart_load_fatbin(CUmodule *out, const void *wrapper, uintptr_t a, uintptr_t b,
                   uintptr_t c)
{
    return stub_impl_cuModuleLoadData(out, wrapper);
}

static void
cudart_unloaded_fatbin(const void *wrapper)
{
}

/* The compilers are the server's, and are there. */
static CUresult
cudart_load_compilers(void)
{
    return CUDA_SUCCESS;
}

static CUresult
cudart_unserved(void)
{
    return stub_table_unserved(&stub_table_cudart);
}

static const struct {
    uintptr_t size;
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*primary_ctx)(CUcontext *, CUdevice);
    CUresult (*unused_3[3])(void);
    CUresult (*load_fatbin)(CUmodule *, const void *, uintptr_t, uintptr_t, uintptr_t);
    void (*unloaded)(const void *);
    CUresult (*unused_8[CUDART_WORDS - 9])(void);
    CUresult (*load_compilers)(void);
} words = {
    .size = sizeof(words),
    .load = cudart_load,
    .primary_ctx = cudart_primary_ctx,
    .unused_3 = {cudart_unserved, cudart_unserved, cudart_unserved},
    .load_fatbin = cudart_load_fatbin,
    .unloaded = cudart_unloaded_fatbin,
    .unused_8 = {cudart_unserved, cudart_unserved, cudart_unserved, cudart_unserved},
    .load_compilers = cudart_load_compilers,
};

static_assert(sizeof(words) == CUDART_WORDS * 8, "the runtime reads it as an array");

const struct stub_table stub_table_cudart = {
    .name = "cudart",
    .id = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12,
           0xfd, 0x9d, 0xf9},
    .words = &words,
};
