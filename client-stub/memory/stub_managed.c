/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is with shared memory, and the calls that change turns.
 *
 * After a wait it is the host's turn: it may write, so the next work of the card finds
 * out what to send.  Further work needs no look, because the host leaves managed
 * memory alone while the card works; mapped memory, and everything once the program
 * has attached memory to streams, is looked at every time.
 *
 * The moves use a stream of their own per context, so that they neither wait for the
 * program's streams nor get into a capture.  One lock covers everything; a move makes
 * calls itself, which the thread-local mark keeps from coming back here.
 */
#include "stub_managed.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_lock.h"
#include "stub_managed_range.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <stdlib.h>

#define STREAM_NONE (UINT64_MAX - 2)

struct managed_stream {
    struct managed_stream *next;
    uint64_t ctx_unique;
    CUstream stream;
};

_Atomic bool stub_managed_on;

static struct {
    struct stub_lock lock;
    struct managed_range *ranges;
    struct managed_stream *streams;
    CUresult failed; /* of a move that no wait has told the program of yet */
    /* The one stream that has unfinished work, SOME, or STREAM_NONE; read without the
     * lock by copies, whose program orders them against other threads itself. */
    _Atomic uint64_t work;
    uint32_t work_ctx; /* index of its context, 0 = of several */
    bool host_turn;
    _Atomic bool eager; /* some range, or all */
    _Atomic bool attached;
} managed = {.work = STREAM_NONE};

static __thread bool managed_busy;

/* ---- where moves run
 * ------------------------------------------------------------------- */

/* The context of some range, NULL when there is none left: a context that ends takes
 * its ranges with it, in a moment. */
static struct stub_ctx *
managed_home(void)
{
    for (struct managed_range *m = managed.ranges; m; m = m->next) {
        struct stub_ctx *ctx = stub_ctx_get((CUcontext)(uintptr_t)m->ctx);

        if (ctx && atomic_load(&ctx->alive))
            return ctx;
    }
    return NULL;
}

/* A wait for an event needs no context, the moves behind it do. */
static bool
managed_enter(bool *pushed)
{
    struct stub_ctx *ctx;

    *pushed = false;
    if (managed_busy || stub_enter() != CUDA_SUCCESS)
        return false;
    stub_lock_take(&managed.lock);
    if (!stub_tls.ctx) {
        ctx = managed_home();
        *pushed = ctx && stub_ctx_push(ctx) == 0;
    }
    managed_busy = true;
    return true;
}

static void
managed_leave(bool pushed)
{
    managed_busy = false;
    if (pushed)
        stub_ctx_pop();
    stub_lock_release(&managed.lock);
}

static CUresult
managed_stream(CUstream *ret)
{
    struct managed_stream *s = managed.streams;
    CUresult r;

    if (!stub_tls.ctx)
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
        s->next = managed.streams;
        managed.streams = s;
    }
    *ret = s->stream;
    return CUDA_SUCCESS;
}

/* ---- moves, under the lock
 * ------------------------------------------------------------- */

/* The host or the card goes on with old bytes; the next wait says so. */
static void
managed_failed(const char *what, CUresult r)
{
    gp_log_warn("stub", "shared memory could not be %s the server: error %d", what,
                (int)r);
    if (managed.failed == CUDA_SUCCESS)
        managed.failed = r;
}

/* What another thread's context took with it when it ended is no failure. */
static bool
managed_is_gone(const struct managed_range *m)
{
    const struct stub_ctx *ctx = stub_ctx_get((CUcontext)(uintptr_t)m->ctx);

    return !ctx || !atomic_load(&ctx->alive);
}

static void
managed_up(bool all)
{
    CUstream stream;
    bool sent = false;
    CUresult r;

    if (!managed.ranges)
        return;
    r = managed_stream(&stream);

    for (struct managed_range *m = managed.ranges; m && r == CUDA_SUCCESS; m = m->next)
        if ((all || m->eager || managed.attached) && !managed_is_gone(m))
            r = managed_range_up(m, stream, &sent);
    if (sent && r == CUDA_SUCCESS)
        r = stub_m_cuStreamSynchronize(stream, false);
    if (r != CUDA_SUCCESS)
        managed_failed("brought to", r);
}

static void
managed_down(void)
{
    CUstream stream;
    CUresult r;

    if (!managed.ranges)
        return;
    r = managed_stream(&stream);
    for (struct managed_range *m = managed.ranges; m && r == CUDA_SUCCESS; m = m->next)
        if (!managed_is_gone(m))
            r = managed_range_down(m, stream);
    if (r != CUDA_SUCCESS)
        managed_failed("brought from", r);
}

/* ---- turns
 * ----------------------------------------------------------------------------- */

void
stub_managed_work(uint64_t stream)
{
    bool pushed;

    if (!managed_enter(&pushed))
        return;
    if (managed.host_turn || managed.eager)
        managed_up(managed.host_turn);
    managed.host_turn = false;
    if (managed.work == STREAM_NONE) {
        managed.work = stream;
        managed.work_ctx = stub_tls.ctx_index;
    } else if (managed.work != stream || managed.work_ctx != stub_tls.ctx_index) {
        managed.work = STUB_MANAGED_SOME;
        if (managed.work_ctx != stub_tls.ctx_index)
            managed.work_ctx = 0;
    }
    managed_leave(pushed);
}

/* Unless all of the work is known to be done, the next wait looks again. */
CUresult
stub_managed_waited(uint64_t stream)
{
    CUresult r;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_SUCCESS;
    if (managed.work != STREAM_NONE) {
        managed_down();
        if (managed.failed == CUDA_SUCCESS && managed.work_ctx == stub_tls.ctx_index &&
            (stream == STUB_MANAGED_ALL ||
             (stream == managed.work && stream != STUB_MANAGED_SOME)))
            managed.work = STREAM_NONE;
    }
    managed.host_turn = true;
    r = managed.failed;
    managed.failed = CUDA_SUCCESS;
    managed_leave(pushed);
    return r;
}

bool
stub_managed_pending(void)
{
    return stub_managed_is_on() && !managed_busy && managed.work != STREAM_NONE;
}

CUresult
stub_managed_settle(void)
{
    return stub_managed_pending() ? cuCtxSynchronize() : CUDA_SUCCESS;
}

/* ---- ranges
 * ---------------------------------------------------------------------------- */

/* Fresh memory of the server begins as what the host sees: zeros. */
static CUresult
managed_begin(struct managed_range *range, bool fresh)
{
    CUstream stream;
    CUresult r = managed_stream(&stream);

    if (r == CUDA_SUCCESS && !fresh)
        return managed_range_down(range, stream);
    if (r == CUDA_SUCCESS)
        r = cuMemsetD8Async(range->dev, 0, range->size, stream);
    return r == CUDA_SUCCESS ? stub_m_cuStreamSynchronize(stream, false) : r;
}

CUresult
stub_managed_add(uint64_t dev, uint64_t host, uint64_t size, bool fresh)
{
    struct managed_range *range;
    CUresult r;
    bool pushed;

    if (!managed_enter(&pushed))
        return CUDA_ERROR_NOT_INITIALIZED;
    range = managed_range_new(dev, (uint8_t *)(uintptr_t)host, size);
    if (range)
        range->ctx = stub_tls.ctx ? stub_tls.ctx->handle : 0;
    r = range ? managed_begin(range, fresh) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        range->next = managed.ranges;
        managed.ranges = range;
        managed.host_turn = true;
        if (range->eager)
            managed.eager = true;
        atomic_store(&stub_managed_on, true);
    } else if (range) {
        managed_range_free(range);
    }
    managed_leave(pushed);
    return r;
}

bool
stub_managed_drop(uint64_t addr)
{
    struct managed_range **at = &managed.ranges, *range;

    if (!stub_managed_is_on())
        return false;
    stub_lock_take(&managed.lock);
    while (*at && (uintptr_t)(*at)->host != addr && (*at)->dev != addr)
        at = &(*at)->next;
    range = *at;
    if (range) {
        *at = range->next;
        managed_range_free(range);
    }
    stub_lock_release(&managed.lock);
    return range != NULL;
}

uint64_t
stub_managed_device(uint64_t host)
{
    uint64_t dev = 0;

    if (!stub_managed_is_on() || managed_busy)
        return 0;
    stub_lock_take(&managed.lock);
    for (struct managed_range *m = managed.ranges; m && !dev; m = m->next)
        if (host - (uintptr_t)m->host < m->size)
            dev = m->dev + (host - (uintptr_t)m->host);
    stub_lock_release(&managed.lock);
    return dev;
}

bool
stub_managed_touches(uint64_t dev, uint64_t size)
{
    bool some = false;

    if (!stub_managed_is_on() || managed_busy)
        return false;
    stub_lock_take(&managed.lock);
    for (struct managed_range *m = managed.ranges; m && !some; m = m->next)
        some = dev - m->dev < m->size || m->dev - dev < size;
    stub_lock_release(&managed.lock);
    return some;
}

/* ---- calls in general
 * ------------------------------------------------------------------ */

/* Launches and linear copies say themselves what they do.  Here is everything else
 * that reads or writes memory on the card. */
static bool
managed_is_work(uint16_t number)
{
    switch (number) {
    case WIRE_CALL_cuGraphLaunch:
    case WIRE_CALL_cuMemcpyDtoD_v2:
    case WIRE_CALL_cuMemcpyDtoDAsync_v2:
    case WIRE_CALL_cuMemcpyPeer:
    case WIRE_CALL_cuMemcpyPeerAsync:
    case WIRE_CALL_cuMemcpyAtoD_v2:
    case WIRE_CALL_cuMemcpyDtoA_v2:
    case WIRE_CALL_cuMemcpy2D_v2:
    case WIRE_CALL_cuMemcpy2DAsync_v2:
    case WIRE_CALL_cuMemcpy2DUnaligned_v2:
    case WIRE_CALL_cuMemcpy3D_v2:
    case WIRE_CALL_cuMemcpy3DAsync_v2:
    case WIRE_CALL_cuMemcpy3DPeer:
    case WIRE_CALL_cuMemcpy3DPeerAsync:
    case WIRE_CALL_cuMemsetD8_v2:
    case WIRE_CALL_cuMemsetD8Async:
    case WIRE_CALL_cuMemsetD16_v2:
    case WIRE_CALL_cuMemsetD16Async:
    case WIRE_CALL_cuMemsetD32_v2:
    case WIRE_CALL_cuMemsetD32Async:
    case WIRE_CALL_cuMemsetD2D8_v2:
    case WIRE_CALL_cuMemsetD2D8Async:
    case WIRE_CALL_cuMemsetD2D16_v2:
    case WIRE_CALL_cuMemsetD2D16Async:
    case WIRE_CALL_cuMemsetD2D32_v2:
    case WIRE_CALL_cuMemsetD2D32Async:
    case WIRE_CALL_cuStreamWriteValue32_v2:
    case WIRE_CALL_cuStreamWriteValue64_v2:
    case WIRE_CALL_cuStreamWaitValue32_v2:
    case WIRE_CALL_cuStreamWaitValue64_v2:
    case WIRE_CALL_cuStreamBatchMemOp_v2:
        return true;
    default:
        return false;
    }
}

void
stub_managed_before(uint16_t number)
{
    if (managed_busy)
        return;
    if (managed_is_work(number)) {
        stub_managed_work(STUB_MANAGED_SOME);
    } else if (number == WIRE_CALL_cuStreamAttachMemAsync) {
        managed.attached = true;
        managed.eager = true;
    }
}

CUresult
stub_managed_after(uint16_t number, CUresult result)
{
    if (managed_busy || result != CUDA_SUCCESS)
        return result;
    switch (number) {
    case WIRE_CALL_cuCtxSynchronize:
    case WIRE_CALL_cuCtxSynchronize_v2:
        return stub_managed_waited(STUB_MANAGED_ALL);
    case WIRE_CALL_cuEventSynchronize:
    case WIRE_CALL_cuEventQuery:
    case WIRE_CALL_cuStreamQuery:
        return stub_managed_waited(STUB_MANAGED_SOME);
    default:
        return result;
    }
}
