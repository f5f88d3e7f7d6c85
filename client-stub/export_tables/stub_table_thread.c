/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's state, as libraries query it: slot 2 is its current context. */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_table.h"

static CUresult
thread_current_ctx(CUcontext *out)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stub_ctx_handle(stub_tls.ctx);
    return CUDA_SUCCESS;
}

static CUresult
thread_unserved(void)
{
    return stub_table_unserved(&stub_table_thread);
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1)(void);
    CUresult (*current_ctx)(CUcontext *);
} words = {
    .size = sizeof(words),
    .unused_1 = thread_unserved,
    .current_ctx = thread_current_ctx,
};

const struct stub_table stub_table_thread = {
    .name = "thread",
    .id = {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a,
           0x3a, 0xec, 0xdc},
    .words = &words,
};
