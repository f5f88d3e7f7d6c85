/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Around every call: context, deferred error, answer.  See wrk_call.h.
 */
#include "wrk_call.h"
#include "drv.h"
#include "wire_result.h"

#include "gp_log.h"
#include "gp_words.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_governor.h"
#include "wrk_land.h"
#include "wrk_settle.h"
#include "wrk_spatial.h"
#include "wrk_wait.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

#define DRAIN_PIECE (64u * 1024)

static void
call_relax(struct wrk *w, bool relaxed)
{
    CUstreamCaptureMode mode =
        relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;

    if (w->drv->cuThreadExchangeStreamCaptureMode)
        w->drv->cuThreadExchangeStreamCaptureMode(&mode);
    w->relaxed = relaxed;
}

GP_HOT CUresult
wrk_call_enter(struct wrk *w, const struct wire_req *req, unsigned flags)
{
    CUresult r = atomic_load_explicit(&w->deferred, memory_order_relaxed);

    if (unlikely(r != CUDA_SUCCESS) && (req->flags & WIRE_F_REPLY) &&
        !(flags & WRK_CALL_ALWAYS)) {
        return atomic_exchange(&w->deferred, CUDA_SUCCESS);
    }
    if (unlikely(w->settling))
        wrk_settle(w);
    if (unlikely(((req->flags & WIRE_F_RELAXED) != 0) != w->relaxed))
        call_relax(w, !w->relaxed);
    if (likely(req->ctx == w->ctx_index) || (flags & WRK_CALL_NO_CTX))
        return CUDA_SUCCESS;
    return wrk_ctx_use(w, req->ctx);
}

GP_HOT void
wrk_call_leave(struct wrk *w, const struct wire_req *req, CUresult result)
{
    if (req->flags & WIRE_F_REPLY) {
        if (wrk_reply_reserve(w, req, 0))
            wrk_reply_send(w, req, result);
    } else if (unlikely(result != CUDA_SUCCESS)) {
        wrk_defer(w, req, result);
    }
}

void
wrk_defer(struct wrk *w, const struct wire_req *req, CUresult result)
{
    CUresult none = CUDA_SUCCESS;

    if (atomic_compare_exchange_strong(&w->deferred, &none, result))
        gp_log_debug("call",
                     "call 0x%04x (frame %u) failed with %d, kept for the next "
                     "call that is answered",
                     req->call, req->seq, (int)result);
}

bool
wrk_frame_bad(struct wrk *w, const struct wire_req *req, const char *why)
{
    gp_log_error("frame",
                 "bad frame %u (call 0x%04x, %u bytes): %s; the attachment ends",
                 req->seq, req->call, req->size, why);
    if (!w->priv->bad)
        w->priv->bad = why;
    return false;
}

GP_HOT CUresult
wrk_handle_get(struct wrk *w, unsigned kind, uint64_t id, void **ret)
{
    const struct wrk_handle_slot *slot;

    *ret = NULL;
    if (id == 0)
        return CUDA_SUCCESS;
    if (id <= 2 && kind == WIRE_KIND_STREAM) {
        *ret = (void *)(uintptr_t)id;
        return CUDA_SUCCESS;
    }
    slot = wrk_handles_find(&w->handles, kind, id);
    if (unlikely(!slot))
        return wire_handle_error((enum wire_kind)kind);
    *ret = slot->obj;
    return CUDA_SUCCESS;
}

/* Without memory for the table, the next call that is answered says so.  The object
 * stays with what it was made from, under an id that no call accepts. */
static void
handle_trouble(struct wrk *w, unsigned kind, int r)
{
    CUresult none = CUDA_SUCCESS;

    if (r == -ENOMEM) {
        gp_log_warn("call", "no memory to enter a handle of kind %u", kind);
        atomic_compare_exchange_strong(&w->deferred, &none, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    gp_log_error("frame",
                 "handle of kind %u cannot be entered: %s; the attachment ends", kind,
                 r == -EEXIST ? "its id is in use" : strerror(-r));
    if (!w->priv->bad)
        w->priv->bad = "bad handle id";
}

void
wrk_handle_put(struct wrk *w, unsigned kind, uint64_t id, void *obj)
{
    int r = wrk_handles_put(&w->handles, kind, id, obj);
    struct wrk_handle_slot *slot;

    if (unlikely(r < 0)) {
        handle_trouble(w, kind, r);
        return;
    }
    slot = wrk_handles_find(&w->handles, kind, id);
    slot->user = kind == WIRE_KIND_FUNC ? 0 : w->ctx_index;
}

uint64_t
wrk_handle_name(struct wrk *w, unsigned kind, void *obj)
{
    uint64_t id = 0;
    int r;

    if (!obj || (kind == WIRE_KIND_STREAM && (uintptr_t)obj <= 2))
        return (uintptr_t)obj;
    if (kind == WIRE_KIND_CTX)
        obj = wrk_spatial_named(w, obj);
    r = wrk_handles_name(&w->handles, kind, obj, &id);
    if (unlikely(r < 0))
        handle_trouble(w, kind, r);
    return id;
}

/* What a function's slot says of its module or library; 0 is nobody. */
static uint32_t
owner_key(uint64_t owner_id)
{
    bool library = wire_handle_is(owner_id, WIRE_KIND_LIBRARY);

    return (library ? UINT32_C(1) << 31 : 0) | (wire_handle_index(owner_id) + 1);
}

void
wrk_handle_of(struct wrk *w, uint64_t func_id, uint64_t owner_id)
{
    struct wrk_handle_slot *slot =
        wrk_handles_find(&w->handles, WIRE_KIND_FUNC, func_id);

    if (slot)
        slot->user = owner_key(owner_id);
}

/* A driver frees a module's functions with it; an id that outlived them would lead the
 * driver to freed memory. */
static void
forget_functions(struct wrk *w, uint64_t owner_id)
{
    const struct wrk_handle_array *arrays[] = {&w->handles.client[WIRE_KIND_FUNC],
                                               &w->handles.server[WIRE_KIND_FUNC]};
    const uint32_t base[] = {0, WIRE_INDEX_SERVER};
    uint32_t key = owner_key(owner_id);

    for (unsigned side = 0; side < ARRAY_SIZE(arrays); side++)
        for (uint32_t i = 0; i < arrays[side]->cap; i++) {
            const struct wrk_handle_slot *slot = &arrays[side]->slots[i];

            if (slot->obj && slot->user == key)
                wrk_handles_del(
                    &w->handles, WIRE_KIND_FUNC,
                    wire_handle_make(WIRE_KIND_FUNC, slot->gen, base[side] + i) |
                        w->handles.link);
        }
}

void
wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id)
{
    void *obj = wrk_handles_del(&w->handles, kind, id);

    if (kind == WIRE_KIND_STREAM && obj)
        wrk_governor_stream_gone(w, obj);
    else if ((kind == WIRE_KIND_MODULE || kind == WIRE_KIND_LIBRARY) && obj)
        forget_functions(w, id);
}

/* --- answers ---------------------------------------------------------------- */

/* The body is the caller's to write, all @total less the header. */
static GP_INLINE struct wire_rep *
reply_reserve(struct wrk *w, const struct wire_req *req, uint32_t total)
{
    struct wrk_priv *p = w->priv;
    struct wire_rep *rep;

    gp_lock_take(&p->send_lock);
    wrk_land_gate(w);
    rep = xport_reserve(p->conn, total);
    if (unlikely(!rep)) {
        gp_lock_release(&p->send_lock);
        return NULL;
    }
    *rep = (struct wire_rep){.size = total, .call = req->call, .seq = req->seq};
    p->reserved = rep;
    return rep;
}

static GP_INLINE void
reply_send(struct wrk *w, CUresult result)
{
    struct wrk_priv *p = w->priv;
    uint32_t size = p->reserved->size;

    p->reserved->result = (int32_t)result;
    if (unlikely(result != CUDA_SUCCESS) && size == sizeof(struct wire_rep))
        p->reserved->flags |= WIRE_F_ERROR;
    xport_commit(p->conn, size);
    /* Whoever else is answered at once goes along; else now, with the lock at hand. */
    p->unflushed = xport_buffered(p->conn) || wrk_wait_pending(w);
    if (likely(!p->unflushed))
        xport_flush(p->conn);
    gp_lock_release(&p->send_lock);
}

static uint32_t
reply_size(uint32_t body)
{
    return (uint32_t)sizeof(struct wire_rep) + wire_align(body);
}

GP_HOT void *
wrk_reply_reserve(struct wrk *w, const struct wire_req *req, uint32_t size)
{
    struct wire_rep *rep = reply_reserve(w, req, reply_size(size));

    if (unlikely(!rep))
        return NULL;
    gp_words_clear(rep + 1, wire_align(size));
    return rep + 1;
}

GP_HOT void
wrk_reply_send(struct wrk *w, const struct wire_req *req, CUresult result)
{
    (void)req;
    reply_send(w, result);
}

/* Payload that the function did not take still stands in front of the next
 * frame. */
static void
drain(struct wrk *w, uint64_t len)
{
    static _Thread_local uint8_t piece[DRAIN_PIECE];

    while (len) {
        size_t n = gp_min(len, (uint64_t)sizeof(piece));

        if (xport_recv_bulk(w->priv->conn, piece, n) < 0)
            return;
        len -= n;
    }
}

GP_HOT void
wrk_reply_finish(struct wrk *w, struct wrk_reply *rep, CUresult result)
{
    bool bare = result != CUDA_SUCCESS && !rep->on_error;
    uint32_t size = bare ? 0 : rep->size;
    struct wire_rep *to;

    if (unlikely(rep->bulk))
        drain(w, rep->bulk);
    if (unlikely(rep->taken))
        return;
    if (!(rep->req->flags & WIRE_F_REPLY)) {
        wrk_call_leave(w, rep->req, result);
        return;
    }
    to = reply_reserve(w, rep->req, reply_size(size));
    if (unlikely(!to))
        return;
    if (unlikely(size % 8 || size > GP_WORDS_MAX)) {
        memset(to + 1, 0, wire_align(size));
        memcpy(to + 1, rep->body, size);
    } else {
        gp_words_copy(to + 1, rep->body, size);
    }
    reply_send(w, result);
}

void
wrk_answer(struct wrk *w, const struct wire_req *req, CUresult result, const void *body,
           uint32_t size)
{
    struct wrk_priv *p = w->priv;
    uint32_t total = (uint32_t)sizeof(struct wire_rep) + wire_align(size);
    struct wire_rep *rep;

    gp_lock_take(&p->send_lock);
    wrk_land_gate(w);
    rep = xport_reserve(p->conn, total);
    if (rep) {
        *rep = (struct wire_rep){.size = total,
                                 .call = req->call,
                                 .flags =
                                     result != CUDA_SUCCESS && !size ? WIRE_F_ERROR : 0,
                                 .seq = req->seq,
                                 .result = (int32_t)result};
        memset(rep + 1, 0, total - sizeof(*rep));
        if (size)
            memcpy(rep + 1, body, size);
        xport_commit(p->conn, total);
        xport_flush(p->conn);
    }
    gp_lock_release(&p->send_lock);
}

void
wrk_event(struct wrk *w, enum wire_event what, const void *body, uint32_t size,
          const void *more, uint32_t more_size)
{
    struct wrk_priv *p = w->priv;
    uint32_t total =
        (uint32_t)sizeof(struct wire_rep) + wire_align(size) + wire_align(more_size);
    struct wire_rep *rep;

    gp_lock_take(&p->send_lock);
    rep = xport_reserve(p->conn, total);
    if (rep) {
        uint8_t *at = (uint8_t *)(rep + 1);

        memset(rep, 0, total);
        rep->size = total;
        rep->call = (uint16_t)what;
        rep->flags = WIRE_F_EVENT;
        memcpy(at, body, size);
        if (more_size)
            memcpy(at + wire_align(size), more, more_size);
        xport_commit(p->conn, total);
        xport_flush(p->conn);
    }
    gp_lock_release(&p->send_lock);
}

GP_HOT void
wrk_flush(struct wrk *w)
{
    struct wrk_priv *p = w->priv;

    if (!p->unflushed)
        return;
    gp_lock_take(&p->send_lock);
    p->unflushed = false;
    xport_flush(p->conn);
    gp_lock_release(&p->send_lock);
}

void
wrk_stop(struct wrk *w)
{
    atomic_store(&w->priv->stopping, true);
    xport_abort(w->priv->conn);
}
