/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: the thread's mode, whether anything is captured at all, and the
 * arrays that a capture's description points to.
 *
 * Captures begin and end only by calls of this process, so while it has begun none, no
 * stream is capturing and nobody needs to be asked.
 */
#include "stub_capture.h"

#include "cuda_api.h"
#include "gp_lock.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_gen.h"
#include "stub_handle.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "wire_api.h"
#include "wire_unsafe.h"

#include <string.h>

CUresult
stub_impl_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult r = stub_enter();
    CUstreamCaptureMode old = (CUstreamCaptureMode)stub_tls.capture_mode;

    if (r != CUDA_SUCCESS)
        return r;
    if (!mode || (int)*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    stub_tls.capture_mode = (uint32_t)*mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* Captures begun and not ended, nor gone with their context.  A capture whose stream
 * was destroyed stays counted until the next call is sent. */
GP_HOT_DATA _Atomic uint32_t stub_captures;

/* The captures.  Those that find no room are counted, and count as captures of every
 * thread. */
#define CAPTURES_MAX 64

static struct {
    struct gp_lock lock;
    struct {
        uint64_t thread;
        uint64_t stream;
        CUstreamCaptureMode mode;
    } list[CAPTURES_MAX];
    uint32_t n;
    uint32_t others; /* that found no room */
} capturing;

/* The calling thread's number.  A thread that ended left its captures to no other one,
 * though that may have its storage. */
static uint64_t
this_thread(void)
{
    static __thread uint64_t mine;
    static _Atomic uint64_t last;

    if (!mine)
        mine = atomic_fetch_add(&last, 1) + 1;
    return mine;
}

/* Entered before the worker begins it: calls of other threads that arrive there behind
 * the beginning must know already whether it forbids them. */
static void
capture_enter(uint64_t stream, CUstreamCaptureMode mode)
{
    gp_lock_take(&capturing.lock);
    if (capturing.n < CAPTURES_MAX) {
        capturing.list[capturing.n].thread = this_thread();
        capturing.list[capturing.n].stream = stream;
        capturing.list[capturing.n++].mode = mode;
    } else {
        capturing.others++;
    }
    if (atomic_fetch_add(&stub_captures, 1) == 0)
        stub_link_attend_all(STUB_ATTEND_FLAGS, true);
    gp_lock_release(&capturing.lock);
}

/* Under the lock. */
static void
capture_remove(uint32_t i)
{
    if (i < capturing.n)
        memmove(&capturing.list[i], &capturing.list[i + 1],
                (--capturing.n - i) * sizeof(capturing.list[0]));
    else if (capturing.others)
        capturing.others--;
    else
        return;
    if (atomic_fetch_sub(&stub_captures, 1) == 1)
        stub_link_attend_all(STUB_ATTEND_FLAGS, false);
}

/* The newest one of the stream. */
static void
capture_remove_of_stream(uint64_t stream)
{
    uint32_t i;

    gp_lock_take(&capturing.lock);
    for (i = capturing.n; i > 0 && capturing.list[i - 1].stream != stream; i--)
        ;
    capture_remove(i ? i - 1 : CAPTURES_MAX);
    gp_lock_release(&capturing.lock);
}

/* There is no such stream; a missing context comes before that. */
static CUresult
capture_refuse(void)
{
    CUresult r = stub_ctx_enter();

    return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_HANDLE : r;
}

static CUresult
capture_begun(CUresult r, uint64_t stream)
{
    if (r != CUDA_SUCCESS)
        capture_remove_of_stream(stream);
    return r;
}

/* Under the lock: of streams that were destroyed. */
static void
capture_remove_of_no_stream(void)
{
    for (uint32_t i = capturing.n; i-- > 0;)
        if (!stub_handle_ok(WIRE_KIND_STREAM, capturing.list[i].stream))
            capture_remove(i);
}

/* The rule of cuThreadExchangeStreamCaptureMode.  A relaxed thread may make all
 * calls, and a relaxed capture forbids none.  If the capture or the calling thread
 * is thread-local, only the thread that captures is restricted. */
static bool
capture_forbids(uint32_t i)
{
    CUstreamCaptureMode mine = (CUstreamCaptureMode)stub_tls.capture_mode;
    CUstreamCaptureMode mode = capturing.list[i].mode;

    if (mine == CU_STREAM_CAPTURE_MODE_RELAXED ||
        mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return capturing.list[i].thread == this_thread() ||
           (mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
            mine == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult
stub_capture_wait_stream(CUstream stream)
{
    uint32_t mode = stub_tls_relax();
    CUresult r = cuStreamSynchronize(stream);

    stub_tls_restore(mode);
    return r;
}

/* The newest capture that forbids this thread what is unsafe; its stream. */
static bool
capture_find_forbidding(uint64_t *ret_stream)
{
    uint32_t i;

    gp_lock_take(&capturing.lock);
    capture_remove_of_no_stream();
    for (i = capturing.n; i > 0 && !capture_forbids(i - 1); i--)
        ;
    if (i)
        *ret_stream = capturing.list[i - 1].stream;
    gp_lock_release(&capturing.lock);
    return i != 0;
}

bool
stub_capture_forbids(void)
{
    uint64_t stream;

    if (stub_tls.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return capture_find_forbidding(&stream) ||
           atomic_load(&stub_captures) > CAPTURES_MAX;
}

static struct stub_link *
capture_link(uint64_t stream)
{
    return stub_handle_ok(WIRE_KIND_STREAM, stream)
               ? &stub_links[wire_handle_link(stream)]
               : stub_link_here();
}

/* Waiting for a stream that is being captured is forbidden to everybody, and makes that
 * capture invalid and no other one.  A driver that knows several captures, and takes
 * all of them for captures of the worker's thread, could not choose. */
CUresult
stub_capture_refuse(void)
{
    struct wire_cuStreamSynchronize_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r = stub_ctx_enter();

    if (r != CUDA_SUCCESS || !capture_find_forbidding(&stream))
        return r;
    r = stub_call_begin_on(&c, capture_link(stream), WIRE_CALL_cuStreamSynchronize,
                           sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hStream = stream;
    r = stub_call_wait(&c);
    stub_call_end(&c);
    /* Another thread may have destroyed the stream meanwhile. */
    return r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_CONTEXT_IS_DESTROYED
               ? CUDA_SUCCESS
               : r;
}

static uint16_t
capture_flags(void)
{
    return stub_capture_forbids() ? 0 : WIRE_F_RELAXED;
}

/* It may be refused, and then at once. */
static bool
capture_wants_reply(uint32_t attention, uint16_t call)
{
    return attention & STUB_ATTEND_FLAGS && wire_call_is_unsafe(call) &&
           stub_capture_forbids();
}

/* The handles of its streams are deleted later. */
static void
capture_ctx_end(struct stub_ctx *ctx)
{
    gp_lock_take(&capturing.lock);
    for (uint32_t i = capturing.n; i-- > 0;)
        if (stub_handle_ctx(WIRE_KIND_STREAM, capturing.list[i].stream) == ctx->index)
            capture_remove(i);
    gp_lock_release(&capturing.lock);
}

const struct stub_feature stub_capture_feature = {
    .name = "stream capture",
    .frame_flags = capture_flags,
    .wants_reply = capture_wants_reply,
    .ctx_end = capture_ctx_end,
};

CUresult
stub_impl_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode,
                                  bool per_thread)
{
    struct wire_cuStreamBeginCapture_v2_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r;

    if (stub_gen_stream(hStream, per_thread, &stream))
        return capture_refuse();
    capture_enter(stream, mode);
    r = stub_call_begin(&c, WIRE_CALL_cuStreamBeginCapture_v2, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return capture_begun(r, stream);
    req = c.body;
    *req = (struct wire_cuStreamBeginCapture_v2_req){.hStream = stream,
                                                     .mode = (int32_t)mode};
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return capture_begun(r, stream);
}

CUresult
stub_impl_cuStreamBeginCapture(CUstream hStream, bool per_thread)
{
    return stub_impl_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL,
                                             per_thread);
}

CUresult
stub_impl_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                      const CUgraphNode *dependencies,
                                      const CUgraphEdgeData *dependencyData,
                                      size_t numDependencies, CUstreamCaptureMode mode,
                                      bool per_thread)
{
    struct wire_cuStreamBeginCaptureToGraph_req head = {
        .hGraph = (uintptr_t)hGraph,
        .numDependencies = numDependencies,
        .mode = (int32_t)mode,
        .given =
            dependencyData ? WIRE_GIVEN_cuStreamBeginCaptureToGraph_dependencyData : 0,
    };
    struct wire_cuStreamBeginCaptureToGraph_req_room room;
    struct stub_call c;
    uint32_t size;
    CUresult r;

    if (stub_gen_stream(hStream, per_thread, &head.hStream))
        return capture_refuse();
    size = wire_cuStreamBeginCaptureToGraph_req_size(&head);
    if (numDependencies && !dependencies)
        return CUDA_ERROR_INVALID_VALUE;
    if (!size) /* and a worker that nodes cannot be sent ahead to */
        return stub_gen_too_many(WIRE_CALL_cuStreamBeginCaptureToGraph,
                                 numDependencies);
    capture_enter(head.hStream, mode);
    r = stub_call_begin(&c, WIRE_CALL_cuStreamBeginCaptureToGraph, size);
    if (r != CUDA_SUCCESS)
        return capture_begun(r, head.hStream);
    memcpy(c.body, &head, sizeof(head));
    wire_cuStreamBeginCaptureToGraph_req_place(&room, c.body);
    for (size_t i = 0; i < numDependencies; i++)
        room.dependencies[i] = (uintptr_t)dependencies[i];
    if (dependencyData && numDependencies)
        memcpy(room.dependencyData, dependencyData,
               numDependencies * sizeof(*dependencyData));
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return capture_begun(r, head.hStream);
}

/* Only a relaxed capture may be ended by a thread that has not begun it.  The worker
 * has one thread for all of ours, so its driver cannot tell. */
static bool
capture_is_of_other_thread(uint64_t stream)
{
    bool other = false;

    gp_lock_take(&capturing.lock);
    for (uint32_t i = 0; i < capturing.n; i++)
        if (capturing.list[i].stream == stream)
            other = capturing.list[i].thread != this_thread() &&
                    capturing.list[i].mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    gp_lock_release(&capturing.lock);
    return other;
}

/* A capture that went wrong is over too, unless it was not ours to end. */
static void
capture_ended(CUresult r, uint64_t stream)
{
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
        r == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        capture_remove_of_stream(stream);
}

CUresult
stub_impl_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph, bool per_thread)
{
    struct wire_cuStreamEndCapture_rep_view rep = {0};
    struct wire_cuStreamEndCapture_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r;

    if (stub_gen_stream(hStream, per_thread, &stream))
        return capture_refuse();
    if (phGraph)
        *phGraph = NULL;
    if (capture_is_of_other_thread(stream))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    r = stub_call_begin(&c, WIRE_CALL_cuStreamEndCapture, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hStream = stream;
    r = stub_call_wait(&c);
    capture_ended(r, stream);
    if (r == CUDA_SUCCESS &&
        !wire_cuStreamEndCapture_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuStreamEndCapture);
    if (r == CUDA_SUCCESS && phGraph) /* who captures to a graph has it already */
        *phGraph = (CUgraph)(uintptr_t)rep.f->phGraph;
    stub_call_end(&c);
    return r;
}

/* The checks that the worker would make, for results that are known here. */
static CUresult
capture_check(CUstream hStream, bool per_thread, const void *out, uint64_t *ret_stream)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &ctx);
    if (r == CUDA_SUCCESS && stub_gen_stream(hStream, per_thread, ret_stream))
        r = CUDA_ERROR_INVALID_HANDLE;
    return r;
}

CUresult
stub_impl_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus,
                              bool per_thread)
{
    struct wire_cuStreamIsCapturing_rep_view rep = {0};
    struct wire_cuStreamIsCapturing_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r = capture_check(hStream, per_thread, captureStatus, &stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (atomic_load_explicit(&stub_captures, memory_order_relaxed) == 0 &&
        !stub_link_wants_replies(stub_link_here())) {
        *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    }
    r = stub_call_begin(&c, WIRE_CALL_cuStreamIsCapturing, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hStream = stream;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuStreamIsCapturing_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuStreamIsCapturing);
    if (r == CUDA_SUCCESS)
        *captureStatus = (CUstreamCaptureStatus)rep.f->captureStatus;
    stub_call_end(&c);
    return r;
}

/* The last description of a capture.  Per thread: CUDA says that the arrays are valid
 * until the next call that changes them, and threads must not see each other's. */
struct capture_arrays {
    CUgraphNode *nodes;
    CUgraphEdgeData *edges;
};

static __thread struct capture_arrays arrays;

static CUresult
capture_keep(const struct wire_cuStreamGetCaptureInfo_v3_rep_view *rep)
{
    uint32_t n = rep->f->n_nodes, m = rep->f->n_edges;
    CUgraphNode *nodes = realloc(arrays.nodes, (n + 1) * sizeof(*nodes));
    CUgraphEdgeData *edges;

    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    arrays.nodes = nodes;
    edges = realloc(arrays.edges, (m + 1) * sizeof(*edges));
    if (!edges)
        return CUDA_ERROR_OUT_OF_MEMORY;
    arrays.edges = edges;
    for (uint32_t i = 0; i < n; i++)
        nodes[i] = (CUgraphNode)(uintptr_t)rep->nodes[i];
    if (m)
        memcpy(edges, rep->edges, m * sizeof(*edges));
    return CUDA_SUCCESS;
}

/* A caller that does not ask for the edges' data must not miss an edge that has
 * some. */
static bool
edges_are_plain(uint32_t n)
{
    static const CUgraphEdgeData plain;

    for (uint32_t i = 0; i < n; i++) {
        if (memcmp(&arrays.edges[i], &plain, sizeof(plain)) != 0)
            return false;
    }
    return true;
}

CUresult
stub_impl_cuStreamGetCaptureInfo_v3(CUstream hStream,
                                    CUstreamCaptureStatus *captureStatus_out,
                                    cuuint64_t *id_out, CUgraph *graph_out,
                                    const CUgraphNode **dependencies_out,
                                    const CUgraphEdgeData **edgeData_out,
                                    size_t *numDependencies_out, bool per_thread)
{
    struct wire_cuStreamGetCaptureInfo_v3_rep_view rep = {0};
    struct wire_cuStreamGetCaptureInfo_v3_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r = capture_check(hStream, per_thread, captureStatus_out, &stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (atomic_load_explicit(&stub_captures, memory_order_relaxed) == 0) {
        *captureStatus_out = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    }
    r = stub_call_begin(&c, WIRE_CALL_cuStreamGetCaptureInfo_v3, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hStream = stream;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuStreamGetCaptureInfo_v3_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuStreamGetCaptureInfo_v3);
    if (r == CUDA_SUCCESS)
        r = capture_keep(&rep);
    if (r == CUDA_SUCCESS) {
        *captureStatus_out = (CUstreamCaptureStatus)rep.f->captureStatus_out;
        if (dependencies_out && !edgeData_out && !edges_are_plain(rep.f->n_edges))
            r = CUDA_ERROR_LOSSY_QUERY;
    }
    if (r == CUDA_SUCCESS) {
        if (id_out)
            *id_out = rep.f->id_out;
        if (graph_out)
            *graph_out = (CUgraph)(uintptr_t)rep.f->graph_out;
        if (dependencies_out)
            *dependencies_out = arrays.nodes;
        if (edgeData_out)
            *edgeData_out = rep.f->n_edges ? arrays.edges : NULL;
        if (numDependencies_out)
            *numDependencies_out = rep.f->n_nodes;
    }
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuStreamGetCaptureInfo_v2(CUstream hStream,
                                    CUstreamCaptureStatus *captureStatus_out,
                                    cuuint64_t *id_out, CUgraph *graph_out,
                                    const CUgraphNode **dependencies_out,
                                    size_t *numDependencies_out, bool per_thread)
{
    return stub_impl_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out,
                                               graph_out, dependencies_out, NULL,
                                               numDependencies_out, per_thread);
}

CUresult
stub_impl_cuStreamGetCaptureInfo(CUstream hStream,
                                 CUstreamCaptureStatus *captureStatus_out,
                                 cuuint64_t *id_out, bool per_thread)
{
    return stub_impl_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL,
                                               NULL, NULL, NULL, per_thread);
}
