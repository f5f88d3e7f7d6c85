/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_event.h. */
#include "stub_event.h"

#include "cuda_api.h"
#include "stub_accepted.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_gen.h"
#include "stub_handle.h"
#include "stub_ipc_event.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "wire_api.h"

/* The notes of an event: the position of its record, 0: unknown; and the stream, or
 * DONE. */
enum { RECORDED, STREAM };
#define DONE UINT64_MAX

/* Of a stream: the position of a wait for it.  Of a context: of a wait for all of its
 * streams, and for its default stream. */
enum { WAITED, WAITED_DEFAULT };

/* ---- positions -------------------------------------------------------------- */

/* Frames' numbers come round, and a frame may give its number back: positions only
 * grow, and stand still where it is not clear by how much. */
static uint64_t
position_now(struct stub_link *link)
{
    uint32_t seq = atomic_load_explicit(&link->seq, memory_order_relaxed);
    int32_t more = (int32_t)(seq - (uint32_t)link->position);

    if (more > 0)
        link->position += (uint32_t)more;
    return link->position;
}

uint64_t
stub_event_position(const struct stub_call *c)
{
    return position_now(c->link);
}

static void
note_wait(_Atomic uint64_t *note, uint64_t position)
{
    if (atomic_load_explicit(note, memory_order_relaxed) < position)
        atomic_store_explicit(note, position, memory_order_relaxed);
}

/* Under send. */
static void
note_waited(uint64_t stream, uint64_t position)
{
    _Atomic uint64_t *notes;

    if (stream && stream != STUB_EVENT_ALL_STREAMS) {
        notes = stub_handle_notes(WIRE_KIND_STREAM, stream);
        if (notes)
            note_wait(&notes[WAITED], position);
        return;
    }
    notes =
        stub_tls.ctx ? stub_handle_notes(WIRE_KIND_CTX, stub_tls.ctx->handle) : NULL;
    if (notes)
        note_wait(&notes[stream ? WAITED : WAITED_DEFAULT], position);
}

void
stub_event_waited(uint64_t stream, uint64_t position)
{
    struct stub_link *link = stub_link_here();

    gp_lock_take(&link->send);
    note_waited(stream, position);
    gp_lock_release(&link->send);
}

void
stub_event_waited_by(const struct stub_call *c, uint64_t stream)
{
    uint32_t since;
    uint64_t now;

    gp_lock_take(&c->link->send);
    now = position_now(c->link);
    since = atomic_load_explicit(&c->link->seq, memory_order_relaxed) - c->seq;
    if (since < now)
        note_waited(stream, now - since);
    gp_lock_release(&c->link->send);
}

void
stub_event_waited_without_frame(uint64_t stream)
{
    struct stub_link *link = stub_link_here();

    if (!(stub_link_attention(link) & STUB_ATTEND_SPARE))
        return;
    gp_lock_take(&link->send);
    note_waited(stream, position_now(link) + 1);
    gp_lock_release(&link->send);
}

uint64_t
stub_event_position_on(struct stub_link *link)
{
    uint64_t position;

    gp_lock_take(&link->send);
    position = position_now(link);
    gp_lock_release(&link->send);
    return position;
}

bool
stub_event_is_waited(const struct stub_ctx *ctx, uint64_t stream, uint64_t position)
{
    const _Atomic uint64_t *of_ctx = stub_handle_notes(WIRE_KIND_CTX, ctx->handle);
    const _Atomic uint64_t *of_stream =
        stream ? stub_handle_notes(WIRE_KIND_STREAM, stream) : NULL;
    uint64_t waited = 0;

    if (of_ctx)
        waited = atomic_load_explicit(&of_ctx[WAITED], memory_order_relaxed);
    if (of_ctx && !stream)
        of_stream = &of_ctx[WAITED_DEFAULT];
    if (of_stream)
        waited = gp_max(waited, atomic_load_explicit(of_stream, memory_order_relaxed));
    return waited > position;
}

/* ---- what is known ---------------------------------------------------------- */

static _Atomic bool in_graphs;

void
stub_event_in_graphs(void)
{
    atomic_store(&in_graphs, true);
}

/* Are all records of events in this process made by cuEventRecord, outside of
 * captures? */
static bool
records_are_plain(void)
{
    return stub_links_n == 1 && !stub_capture_any() &&
           !atomic_load_explicit(&in_graphs, memory_order_relaxed) &&
           !stub_handle_any(WIRE_KIND_GREENCTX) &&
           !atomic_load_explicit(&stub_ipc_events, memory_order_relaxed);
}

bool
stub_event_notes_hold(void)
{
    return records_are_plain() &&
           !(stub_link_attention(stub_link_here()) &
             (STUB_ATTEND_NOT_READY | STUB_ATTEND_CALL | STUB_ATTEND_REPLY));
}

uint64_t
stub_event_recorded(uint64_t event)
{
    const _Atomic uint64_t *notes = stub_handle_notes(WIRE_KIND_EVENT, event);

    return notes ? atomic_load_explicit(&notes[RECORDED], memory_order_relaxed) : 0;
}

void
stub_event_unknown(CUevent event)
{
    _Atomic uint64_t *notes = stub_handle_notes(WIRE_KIND_EVENT, (uintptr_t)event);

    if (notes)
        atomic_store_explicit(&notes[RECORDED], 0, memory_order_relaxed);
}

/* The driver refuses to record an event in a stream of another context. */
static bool
is_one_context(CUevent event, uint64_t stream)
{
    uint32_t of_stream =
        stream ? stub_handle_ctx(WIRE_KIND_STREAM, stream) : stub_tls.ctx_index;

    return of_stream && of_stream == stub_handle_ctx(WIRE_KIND_EVENT, (uintptr_t)event);
}

/* The index of the context that @of is, or belongs to, and its server, in one word. */
static uint64_t
context_of(uint32_t kind, uint64_t of)
{
    if (kind == WIRE_KIND_STREAM && !wire_handle_is(of, WIRE_KIND_STREAM))
        return stub_tls.ctx ? context_of(WIRE_KIND_CTX, stub_tls.ctx->handle) : 0;
    return (uint64_t)wire_handle_link(of) << 32 |
           (kind == WIRE_KIND_CTX ? wire_handle_index(of) : stub_handle_ctx(kind, of));
}

/* What a green context has may have been made with any other context current. */
bool
stub_event_asks(CUevent event, uint32_t kind, uint64_t of)
{
    return stub_ipc_event_is(event) ||
           (context_of(kind, of) != context_of(WIRE_KIND_EVENT, (uintptr_t)event) &&
            !stub_handle_any(WIRE_KIND_GREENCTX));
}

/* Under send, of the frame that records it. */
static void
note_record(const struct stub_call *c, CUevent event, uint64_t stream, bool known)
{
    _Atomic uint64_t *notes = stub_handle_notes(WIRE_KIND_EVENT, (uintptr_t)event);

    if (!notes)
        return;
    atomic_store_explicit(&notes[RECORDED], known ? position_now(c->link) : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&notes[STREAM], stream, memory_order_relaxed);
}

/* Under send.  The position of the last wait that covers @stream. */
static uint64_t
waited_for(CUevent event, uint64_t stream)
{
    const _Atomic uint64_t *of_stream, *of_ctx = NULL;
    uint64_t position = 0;

    if (stub_tls.ctx_index &&
        stub_tls.ctx_index == stub_handle_ctx(WIRE_KIND_EVENT, (uintptr_t)event))
        of_ctx = stub_handle_notes(WIRE_KIND_CTX, stub_tls.ctx->handle);
    of_stream = stream   ? stub_handle_notes(WIRE_KIND_STREAM, stream)
                : of_ctx ? &of_ctx[WAITED_DEFAULT]
                         : NULL;
    if (of_ctx)
        position = atomic_load_explicit(&of_ctx[WAITED], memory_order_relaxed);
    return of_stream
               ? gp_max(position, atomic_load_explicit(of_stream, memory_order_relaxed))
               : position;
}

bool
stub_event_is_done(CUevent event, uint64_t *ret_recorded)
{
    const _Atomic uint64_t *notes =
        stub_handle_notes(WIRE_KIND_EVENT, (uintptr_t)event);
    struct stub_link *link = stub_link_here();
    uint64_t stream;
    bool done = false;

    *ret_recorded = 0;
    if (!notes || !stub_event_notes_hold())
        return false;
    gp_lock_take(&link->send);
    *ret_recorded = atomic_load_explicit(&notes[RECORDED], memory_order_relaxed);
    stream = atomic_load_explicit(&notes[STREAM], memory_order_relaxed);
    if (*ret_recorded)
        done = stream == DONE || waited_for(event, stream) > *ret_recorded;
    gp_lock_release(&link->send);
    return done;
}

void
stub_event_mark_done(CUevent event, uint64_t recorded)
{
    _Atomic uint64_t *notes = stub_handle_notes(WIRE_KIND_EVENT, (uintptr_t)event);
    struct stub_link *link = stub_link_here();

    if (!recorded || !notes)
        return;
    gp_lock_take(&link->send);
    if (atomic_load_explicit(&notes[RECORDED], memory_order_relaxed) == recorded)
        atomic_store_explicit(&notes[STREAM], DONE, memory_order_relaxed);
    gp_lock_release(&link->send);
}

/* ---- the calls -------------------------------------------------------------- */

GP_HOT CUresult
stub_impl_cuEventRecord(CUevent hEvent, CUstream hStream, bool per_thread)
{
    struct wire_cuEventRecord_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r;
    bool known;

    if (unlikely(!records_are_plain())) {
        stub_event_unknown(hEvent);
        return stub_gen_cuEventRecord(hEvent, hStream, per_thread);
    }
    if (!stub_gen_handle(WIRE_KIND_EVENT, (uintptr_t)hEvent) ||
        stub_gen_stream(hStream, per_thread, &stream))
        return CUDA_ERROR_INVALID_HANDLE;
    r = stub_call_begin(&c, WIRE_CALL_cuEventRecord, sizeof(*req));
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    req = c.body;
    req->hEvent = (uintptr_t)hEvent;
    req->hStream = stream;
    known = is_one_context(hEvent, stream);
    note_record(&c, hEvent, stream, known);
    return likely(known) ? stub_call_post(&c) : stub_call_post_checked(&c);
}

CUresult
stub_impl_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags,
                                 bool per_thread)
{
    stub_event_unknown(hEvent);
    if (flags)
        stub_event_in_graphs();
    return stub_gen_cuEventRecordWithFlags(hEvent, hStream, flags, per_thread);
}

CUresult
stub_impl_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
    stub_event_unknown(hEvent);
    return stub_gen_cuCtxRecordEvent(hCtx, hEvent);
}

CUresult
stub_impl_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                    const CUgraphNode *dependencies,
                                    size_t numDependencies, CUevent event)
{
    stub_event_in_graphs();
    return stub_gen_cuGraphAddEventRecordNode(phGraphNode, hGraph, dependencies,
                                              numDependencies, event);
}

/* An event of another server is none that the server of the node knows.  That the node
 * is of another kind than @type is what a driver finds first. */
static CUresult
node_check_event(CUgraphNode node, CUevent event, CUgraphNodeType type)
{
    CUgraphNodeType is = type;
    CUresult r = CUDA_SUCCESS;

    if (wire_handle_link((uintptr_t)node) != wire_handle_link((uintptr_t)event) &&
        stub_handle_ok(WIRE_KIND_GRAPHNODE, (uintptr_t)node) &&
        stub_handle_ok(WIRE_KIND_EVENT, (uintptr_t)event))
        r = cuGraphNodeGetType(node, &is);
    return r == CUDA_SUCCESS && is != type ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult
stub_impl_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    CUresult r = node_check_event(hNode, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);

    if (r != CUDA_SUCCESS)
        return r;
    stub_event_in_graphs();
    return stub_gen_cuGraphEventRecordNodeSetEvent(hNode, event);
}

CUresult
stub_impl_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    CUresult r = node_check_event(hNode, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);

    return r == CUDA_SUCCESS ? stub_gen_cuGraphEventWaitNodeSetEvent(hNode, event) : r;
}

CUresult
stub_impl_cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             CUevent event)
{
    stub_event_in_graphs();
    return stub_gen_cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event);
}

CUresult
stub_impl_cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                        const CUkernelNodeAttrValue *value)
{
    CUresult r;

    stub_event_in_graphs();
    r = stub_gen_cuGraphKernelNodeSetAttribute(hNode, attr, value);
    stub_accepted_forget();
    return r;
}

CUresult
stub_impl_cuEventQuery(CUevent hEvent)
{
    uint64_t recorded;
    CUresult r;

    if (stub_event_is_done(hEvent, &recorded))
        return CUDA_SUCCESS;
    r = stub_gen_cuEventQuery(hEvent);
    if (r == CUDA_SUCCESS)
        stub_event_mark_done(hEvent, recorded);
    return r;
}
