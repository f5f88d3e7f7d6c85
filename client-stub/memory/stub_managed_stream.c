/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_stream.h"

#include "cuda_api.h"
#include "stub_ctx.h"
#include "stub_tls.h"

#include <stdatomic.h>
#include <stdlib.h>

struct managed_stream {
    struct managed_stream *next;
    uint64_t ctx_unique;
    CUstream stream;
};

static struct managed_stream *streams;

CUresult
managed_stream(CUstream *ret)
{
    struct managed_stream *s = streams;
    CUresult r;

    if (!stub_tls.ctx_index)
        return CUDA_ERROR_INVALID_CONTEXT;
    while (s && s->ctx_unique != atomic_load(&stub_tls.ctx->unique))
        s = s->next;
    if (!s) {
        s = calloc(1, sizeof(*s));
        r = s ? cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING)
              : CUDA_ERROR_OUT_OF_MEMORY;
        if (r != CUDA_SUCCESS) {
            free(s);
            return r;
        }
        s->ctx_unique = atomic_load(&stub_tls.ctx->unique);
        s->next = streams;
        streams = s;
    }
    *ret = s->stream;
    return CUDA_SUCCESS;
}
