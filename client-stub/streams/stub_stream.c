/* SPDX-License-Identifier: Apache-2.0 */
/* Per-thread default streams, and waiting for streams; see stub_stream.h. */
#include "stub_stream.h"

#include "cuda_api.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_elapsed.h"
#include "stub_event.h"
#include "stub_gen.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "wire_api.h"

extern int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *dso);
extern void *__dso_handle;

/* When the thread ends its streams are destroyed; the driver finishes their work
 * first. */
static void
stream_thread_end(void *arg)
{
    struct stub_tls *tls = arg;
    struct stub_own_stream *own = tls->streams;

    tls->streams = NULL;
    while (own) {
        struct stub_own_stream *next = own->next;

        if (stub_enter() == CUDA_SUCCESS)
            cuStreamDestroy_v2((CUstream)(uintptr_t)own->stream);
        free(own);
        own = next;
    }
}

static uint64_t
stream_own_new(struct stub_ctx *ctx)
{
    struct stub_own_stream *own = malloc(sizeof(*own));
    CUstream stream;

    if (!own || cuStreamCreate(&stream, CU_STREAM_DEFAULT) != CUDA_SUCCESS) {
        free(own);
        return UINT64_MAX;
    }
    if (!stub_tls.streams)
        __cxa_thread_atexit_impl(stream_thread_end, &stub_tls, &__dso_handle);
    own->ctx_unique = ctx->unique;
    own->stream = (uintptr_t)stream;
    own->next = stub_tls.streams;
    stub_tls.streams = own;
    return own->stream;
}

/* A primary context that was reset has another number (stub_ctx_end_primary()), so its
 * dead streams are not found. */
uint64_t
stub_stream_slow(CUstream stream, bool per_thread)
{
    struct stub_own_stream *own = stub_tls.streams;

    if (stream == CU_STREAM_LEGACY || (!stream && !per_thread))
        return 0;
    if (!stub_tls.ctx)
        return 0; /* the worker refuses the call for want of a context */
    while (own && own->ctx_unique != stub_tls.ctx->unique)
        own = own->next;
    return own ? own->stream : stream_own_new(stub_tls.ctx);
}

/* ---- waiting ---------------------------------------------------------------- */

void
stub_stream_idle(const struct stub_call *c, uint64_t stream)
{
    stub_tls.idle_stream = stream;
    stub_tls.idle_seq = c->seq;
    stub_tls.idle_ctx = stub_tls.ctx_index;
    stub_event_waited_by(c, stream);
}

/* A copy to pageable memory has waited for the stream already.  The program's own
 * wait for the same stream right behind it would cost a second round trip. */
bool
stub_stream_is_idle(uint64_t stream)
{
    return stub_tls.idle_ctx && stub_tls.idle_ctx == stub_tls.ctx_index &&
           stub_tls.idle_stream == stream &&
           stub_tls.idle_seq ==
               atomic_load_explicit(&stub_link_here()->seq, memory_order_relaxed);
}

void
stub_stream_note_only_uploads(uint32_t seq, uint64_t stream)
{
    stub_tls.uploads_stream = stream;
    stub_tls.uploads_seq = seq;
    stub_tls.uploads_ctx = stub_tls.ctx_index;
}

bool
stub_stream_has_only_uploads(uint64_t stream)
{
    return stub_stream_is_idle(stream) ||
           (stub_tls.uploads_ctx && stub_tls.uploads_ctx == stub_tls.ctx_index &&
            stub_tls.uploads_stream == stream &&
            stub_tls.uploads_seq ==
                atomic_load_explicit(&stub_link_here()->seq, memory_order_relaxed));
}

void
stub_stream_note_upload(uint32_t seq)
{
    stub_tls.upload_seq = seq;
    stub_tls.upload_waited = 0;
}

bool
stub_stream_waits_behind_uploads(void)
{
    return stub_tls.upload_waited;
}

/* The program waits: behind such a copy? */
static void
note_wait(void)
{
    if (stub_tls.upload_seq &&
        stub_tls.upload_seq ==
            atomic_load_explicit(&stub_link_here()->seq, memory_order_relaxed))
        stub_tls.upload_waited = 1;
}

static CUresult
stream_waited(uint64_t stream)
{
    return unlikely(stub_link_attention(stub_link_here()) & STUB_ATTEND_CALL)
               ? stub_hooks_stream_waited(stream)
               : CUDA_SUCCESS;
}

/* *@ret_position: of the wait. */
static CUresult
stream_wait(uint64_t stream, uint64_t *ret_position)
{
    struct stub_elapsed_wait wait = {.what = WIRE_WAIT_STREAM, .stream = stream};
    struct wire_cuStreamSynchronize_req *req;
    struct stub_call c;
    CUresult r;

    if (unlikely(stub_elapsed_wait(&wait))) {
        *ret_position = wait.position;
        return wait.result;
    }
    r = stub_call_begin(&c, WIRE_CALL_cuStreamSynchronize, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hStream = stream;
    *ret_position = stub_event_position(&c);
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuStreamSynchronize(CUstream hStream, bool per_thread)
{
    uint64_t stream, position;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (stub_gen_stream(hStream, per_thread, &stream))
        return CUDA_ERROR_INVALID_HANDLE;
    note_wait();
    if (stub_stream_is_idle(stream)) {
        stub_event_waited_without_frame(stream);
        return stream_waited(stream);
    }
    r = stream_wait(stream, &position);
    if (r != CUDA_SUCCESS)
        return r;
    stub_event_waited(stream, position);
    return stream_waited(stream);
}

static CUresult
ctx_wait(struct stub_call *c)
{
    uint64_t position = stub_event_position(c);
    CUresult r = stub_call_wait(c);

    stub_call_end(c);
    if (r == CUDA_SUCCESS) {
        stub_event_waited(STUB_EVENT_ALL_STREAMS, position);
        stub_stream_note_only_uploads(c->seq, 0);
    }
    return r == CUDA_SUCCESS ? (CUresult)c->result : r;
}

/* The same for a wait for the context, in programs that know no stream but the default
 * one. */
static bool
ctx_is_idle(void)
{
    return stub_stream_is_idle(0) && !stub_handle_any(WIRE_KIND_STREAM) &&
           stub_links_n == 1 && !stub_capture_any() &&
           !(stub_link_attention(stub_link_here()) & STUB_ATTEND_NOT_READY);
}

CUresult
stub_impl_cuCtxSynchronize(void)
{
    struct stub_elapsed_wait wait = {.what = WIRE_WAIT_CTX};
    struct stub_call c;
    CUresult r;

    note_wait();
    if (ctx_is_idle()) {
        stub_event_waited_without_frame(STUB_EVENT_ALL_STREAMS);
        return stub_link_attention(stub_link_here()) & STUB_ATTEND_CALL
                   ? stub_hooks_after_wait(WIRE_CALL_cuCtxSynchronize, CUDA_SUCCESS)
                   : CUDA_SUCCESS;
    }
    if (unlikely(stub_elapsed_wait(&wait))) {
        if (wait.result == CUDA_SUCCESS)
            stub_event_waited(STUB_EVENT_ALL_STREAMS, wait.position);
        return wait.result;
    }
    r = stub_call_begin(&c, WIRE_CALL_cuCtxSynchronize, 0);
    return r == CUDA_SUCCESS ? ctx_wait(&c) : r;
}

/* A capture is counted before the frame that begins it gets its place in the queue. */
CUresult
stub_ctx_synchronize_uncaptured(bool *ret_captured)
{
    struct stub_call c;
    CUresult r;

    for (;;) {
        r = stub_call_begin(&c, WIRE_CALL_cuCtxSynchronize, 0);
        if (r != CUDA_SUCCESS)
            return r;
        *ret_captured = stub_capture_any();
        if (!*ret_captured && !c.overflow)
            return ctx_wait(&c);
        stub_call_cancel(&c);
        if (*ret_captured)
            return CUDA_SUCCESS;
    }
}

CUresult
stub_impl_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    unsigned known =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    bool untimed = Flags & CU_EVENT_DISABLE_TIMING;

    if (Flags & ~known || (Flags & CU_EVENT_INTERPROCESS && !untimed))
        return stub_ctx_refuse();
    return stub_gen_cuEventCreate(phEvent, Flags);
}
