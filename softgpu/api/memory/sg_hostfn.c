/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuLaunchHostFunc, cuStreamAddCallback, cuStreamWaitValue and their kin.
 */
#include "sg_hostfn.h"

#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_mem.h"
#include "sg_node.h"
#include "sg_stream.h"
#include "sg_work.h"

#include "sg_shadow.h"
#include "sg_written.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Operations of one batch: fewer than 256, as cuStreamBatchMemOp has it. */
    MAX_BATCH = 255,
};

struct host_work {
    struct sg_work work; /* first */
    CUhostFn fn;
    CUstreamCallback callback; /* instead of fn */
    CUstream stream;
    void *arg;
};

static CUresult
host_run(struct sg_work *work)
{
    struct host_work *h = container_of(work, struct host_work, work);
    CUresult error;

    sg_lock();
    error = work->ctx->error;
    sg_unlock();
    sg_calls_forbid(true);
    if (h->fn)
        h->fn(h->arg);
    else
        h->callback(h->stream, error, h->arg);
    sg_calls_forbid(false);
    return CUDA_SUCCESS;
}

static const struct sg_work_class host_class = {
    .name = "host-function",
    .queue = SG_QUEUE_HOST,
    .run = host_run,
};

/* Stream callbacks run in a broken context too, and get its error. */
static const struct sg_work_class callback_class = {
    .name = "stream-callback",
    .queue = SG_QUEUE_HOST,
    .always = true,
    .run = host_run,
};

CUresult
sg_hostfn_work(struct sg_ctx *ctx, CUhostFn fn, void *arg, struct sg_work **ret_work)
{
    struct host_work *h = calloc(1, sizeof(*h));

    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&h->work, &host_class, ctx);
    h->fn = fn;
    h->arg = arg;
    *ret_work = &h->work;
    return CUDA_SUCCESS;
}

static CUresult
enter_stream(CUstream handle, struct sg_stream **ret_stream)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_work(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, handle, ret_stream);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

SG_CALL(cuLaunchHostFunc, CUstream hStream, CUhostFn fn, void *userData)
{
    struct sg_stream *stream;
    struct sg_work *work;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!fn)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture) {
        struct sg_node_data data = {
            .type = CU_GRAPH_NODE_TYPE_HOST,
            .ctx = stream->ctx->handle,
            .host = {fn, userData},
        };

        return sg_leave(sg_capture_add(stream, &data, NULL));
    }
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_hostfn_work(stream->ctx, fn, userData, &work);
    if (rc == CUDA_SUCCESS)
        rc = sg_stream_enqueue(stream, work, NULL);
    return sg_leave(rc);
}

SG_CALL(cuStreamAddCallback, CUstream hStream, CUstreamCallback callback,
        void *userData, unsigned int flags)
{
    struct sg_stream *stream;
    struct host_work *h;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!callback || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_capture_check_none(stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    h = calloc(1, sizeof(*h));
    if (!h)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    sg_work_init(&h->work, &callback_class, stream->ctx);
    h->callback = callback;
    h->stream = hStream;
    h->arg = userData;
    return sg_leave(sg_stream_enqueue(stream, &h->work, NULL));
}

/* ----------------------------------------------------------- memory operations */

struct memops_work {
    struct sg_work work; /* first */
    unsigned n, done;
    CUstreamBatchMemOpParams ops[];
};

static bool
wait_is_over(uint64_t have, uint64_t want, unsigned flags, bool wide)
{
    switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, so that counters may wrap */
        return wide ? (int64_t)(have - want) >= 0
                    : (int32_t)((uint32_t)have - (uint32_t)want) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return have == want;
    case CU_STREAM_WAIT_VALUE_AND:
        return (have & want) != 0;
    default: /* NOR */
        return ~(have | want) & (wide ? UINT64_MAX : UINT32_MAX);
    }
}

static uint64_t
load_value(CUdeviceptr addr, bool wide)
{
    if (wide)
        return __atomic_load_n((const uint64_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const uint32_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
}

static bool
is_wide(const CUstreamBatchMemOpParams *p)
{
    return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
           p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

/* The memory may have been freed since the call was checked. */
static CUresult
memop_step(const CUstreamBatchMemOpParams *p)
{
    bool wide = is_wide(p);

    switch ((int)p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (!sg_mem_holds(p->waitValue.address, wide ? 8 : 4))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        return wait_is_over(load_value(p->waitValue.address, wide),
                            wide ? p->waitValue.value64 : p->waitValue.value,
                            p->waitValue.flags, wide)
                   ? CUDA_SUCCESS
                   : SG_NOT_YET;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        if (!sg_mem_holds(p->writeValue.address, 4))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        sg_shadow_define(p->writeValue.address, 4);
        __atomic_store_n((uint32_t *)(uintptr_t)p->writeValue.address,
                         p->writeValue.value, __ATOMIC_SEQ_CST);
        sg_written_mark(p->writeValue.address, 4);
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (!sg_mem_holds(p->writeValue.address, 8))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        sg_shadow_define(p->writeValue.address, 8);
        __atomic_store_n((uint64_t *)(uintptr_t)p->writeValue.address,
                         p->writeValue.value64, __ATOMIC_SEQ_CST);
        sg_written_mark(p->writeValue.address, 8);
        return CUDA_SUCCESS;
    default: /* barriers and flushes: the lock already orders what came before */
        return CUDA_SUCCESS;
    }
}

static CUresult
memops_poll(struct sg_work *work)
{
    struct memops_work *m = container_of(work, struct memops_work, work);
    CUresult rc = CUDA_SUCCESS;

    while (m->done < m->n && rc == CUDA_SUCCESS) {
        rc = memop_step(&m->ops[m->done]);
        if (rc == CUDA_SUCCESS)
            m->done++;
    }
    return rc;
}

static const struct sg_work_class memops_class = {
    .name = "memory-operations",
    .queue = SG_QUEUE_POLL,
    .run = memops_poll,
};

/* Not managed memory, as documented, and not that of pools, as drivers have it. */
static bool
may_have_values(const struct sg_alloc *alloc)
{
    return alloc->kind != SG_MEM_MANAGED && !alloc->pool;
}

CUresult
sg_memops_check(unsigned n, const CUstreamBatchMemOpParams *ops)
{
    if (!n || n > MAX_BATCH || !ops)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        uint64_t size = is_wide(&ops[i]) ? 8 : 4;

        switch ((int)ops[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            if (ops[i].waitValue.address % size ||
                !sg_mem_holds(ops[i].waitValue.address, size) ||
                !may_have_values(sg_mem_find(ops[i].waitValue.address)))
                return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult
sg_memops_work(struct sg_ctx *ctx, unsigned n, const CUstreamBatchMemOpParams *ops,
               struct sg_work **ret_work)
{
    struct memops_work *m = calloc(1, sizeof(*m) + n * sizeof(m->ops[0]));

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(&m->work, &memops_class, ctx);
    m->n = n;
    memcpy(m->ops, ops, n * sizeof(*ops));
    *ret_work = &m->work;
    return CUDA_SUCCESS;
}

static CUresult
capture_memops(struct sg_stream *stream, unsigned n,
               const CUstreamBatchMemOpParams *ops, unsigned flags)
{
    struct sg_node_data data = {
        .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        .ctx = stream->ctx->handle,
        .memops = {malloc(n * sizeof(*ops)), n, flags},
    };

    if (!data.memops.ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(data.memops.ops, ops, n * sizeof(*ops));
    return sg_capture_add(stream, &data, NULL);
}

SG_CALL(cuStreamBatchMemOp_v2, CUstream hStream, unsigned int count,
        CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
    struct sg_stream *stream;
    struct sg_work *work;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = flags ? CUDA_ERROR_INVALID_VALUE : sg_memops_check(count, paramArray);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (stream->capture)
        return sg_leave(capture_memops(stream, count, paramArray, flags));
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_memops_work(stream->ctx, count, paramArray, &work);
    if (rc == CUDA_SUCCESS)
        rc = sg_stream_enqueue(stream, work, NULL);
    return sg_leave(rc);
}

static CUresult
one_memop(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr addr,
          uint64_t value, unsigned flags, unsigned allowed)
{
    CUstreamBatchMemOpParams p;

    if (flags & ~allowed)
        return CUDA_ERROR_INVALID_VALUE;
    memset(&p, 0, sizeof(p));
    p.waitValue.operation = type;
    p.waitValue.address = addr;
    p.waitValue.value64 = value; /* the 32-bit value is its low half */
    p.waitValue.flags = flags;
    return cuStreamBatchMemOp_v2(stream, 1, &p, 0);
}

enum {
    WAIT_FLAGS = 3 | CU_STREAM_WAIT_VALUE_FLUSH,
    WRITE_FLAGS = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER,
};

SG_CALL(cuStreamWaitValue32_v2, CUstream stream, CUdeviceptr addr, cuuint32_t value,
        unsigned int flags)
{
    return one_memop(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags,
                     WAIT_FLAGS);
}

SG_CALL(cuStreamWaitValue64_v2, CUstream stream, CUdeviceptr addr, cuuint64_t value,
        unsigned int flags)
{
    return one_memop(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags,
                     WAIT_FLAGS);
}

SG_CALL(cuStreamWriteValue32_v2, CUstream stream, CUdeviceptr addr, cuuint32_t value,
        unsigned int flags)
{
    return one_memop(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags,
                     WRITE_FLAGS);
}

SG_CALL(cuStreamWriteValue64_v2, CUstream stream, CUdeviceptr addr, cuuint64_t value,
        unsigned int flags)
{
    return one_memop(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags,
                     WRITE_FLAGS);
}
