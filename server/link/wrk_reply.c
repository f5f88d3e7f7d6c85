/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_reply.h"

#include "gp_log.h"
#include "gp_words.h"
#include "wrk_desk.h"
#include "wrk_hooks.h"
#include "wrk_priv.h"
#include "wrk_state.h"
#include "wrk_wake.h"
#include "xport.h"

#include <string.h>

#define DRAIN_CHUNK                                                                    \
    (16u * 1024) /* of the stack: as a thread's own it is in every one */

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

/* On a broken card a worker may not come to its end, so this is told at once. */
static GP_COLD void
note_error(const struct wrk *w, CUresult result)
{
    if (result == CUDA_ERROR_ECC_UNCORRECTABLE ||
        result == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
        result == CUDA_ERROR_DEVICE_UNAVAILABLE ||
        result == CUDA_ERROR_HARDWARE_STACK_ERROR || result == CUDA_ERROR_UNKNOWN)
        atomic_store(&w->priv->desks->desk->hardware_error, 1);
}

GP_HOT void
wrk_call_leave(struct wrk *w, const struct wire_req *req, CUresult result)
{
    if (unlikely(result != CUDA_SUCCESS))
        note_error(w, result);
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
    struct wire_event_deferred event = {
        .call = req->call, .seq = req->seq, .result = (int32_t)result};
    CUresult none = CUDA_SUCCESS;

    note_error(w, result);
    if (!atomic_compare_exchange_strong(&w->deferred, &none, result))
        return;
    gp_log_debug("call",
                 "call 0x%04x (frame %u) failed with %d, kept for the next "
                 "call that is answered",
                 req->call, req->seq, (int)result);
    wrk_unsolicited(w, WIRE_EVENT_DEFERRED, &event, sizeof(event), NULL, 0);
}

GP_HOT CUresult
wrk_deferred(struct wrk *w, CUresult result)
{
    if (likely(atomic_load_explicit(&w->deferred, memory_order_relaxed) ==
               CUDA_SUCCESS) ||
        result != CUDA_SUCCESS)
        return result;
    return atomic_exchange(&w->deferred, CUDA_SUCCESS);
}

__attribute__((noinline)) static void
run_before_reply(struct wrk *w)
{
    wrk_hooks_run(wrk_hooks.before_reply, w);
}

/* The sender's lock is held. */
static GP_INLINE void
before_reply(struct wrk *w)
{
    if (unlikely(atomic_load_explicit(&w->priv->before_reply, memory_order_relaxed) !=
                 0))
        run_before_reply(w);
}

/* The body is the caller's to write, all @total less the header. */
static GP_INLINE struct wire_rep *
reply_reserve(struct wrk *w, const struct wire_req *req, uint32_t total)
{
    struct wrk_priv *p = w->priv;
    struct wire_rep *rep;

    gp_lock_take(&p->send_lock);
    before_reply(w);
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
    p->unflushed = xport_buffered(p->conn) || (p->polled & WRK_POLL_WAITS);
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

/* Payload that the function did not receive still precedes the next frame. */
static void
drain(struct wrk *w, uint64_t len)
{
    uint8_t chunk[DRAIN_CHUNK];

    while (len) {
        size_t n = gp_min(len, (uint64_t)sizeof(chunk));

        if (xport_recv_bulk(w->priv->conn, chunk, n) < 0)
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

    if (unlikely(result != CUDA_SUCCESS))
        note_error(w, result);
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
wrk_reply_whole(struct wrk *w, const struct wire_req *req, CUresult result,
                const void *body, uint32_t size)
{
    struct wrk_priv *p = w->priv;
    uint32_t total = (uint32_t)sizeof(struct wire_rep) + wire_align(size);
    struct wire_rep *rep;

    if (unlikely(result != CUDA_SUCCESS))
        note_error(w, result);
    gp_lock_take(&p->send_lock);
    before_reply(w);
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
    wrk_wake(w);
}

void
wrk_before_reply_locked(struct wrk *w)
{
    before_reply(w);
}

void
wrk_unsolicited_locked(struct wrk *w, enum wire_event what, const void *body,
                       uint32_t size, const void *more, uint32_t more_size)
{
    struct wrk_priv *p = w->priv;
    uint32_t total =
        (uint32_t)sizeof(struct wire_rep) + wire_align(size) + wire_align(more_size);
    struct wire_rep *rep = xport_reserve(p->conn, total);
    uint8_t *at;

    if (!rep)
        return;
    at = (uint8_t *)(rep + 1);
    memset(rep, 0, total);
    rep->size = total;
    rep->call = (uint16_t)what;
    rep->flags = WIRE_F_EVENT;
    memcpy(at, body, size);
    if (more_size)
        memcpy(at + wire_align(size), more, more_size);
    xport_commit(p->conn, total);
    xport_flush(p->conn);
    wrk_wake(w);
}

void
wrk_unsolicited(struct wrk *w, enum wire_event what, const void *body, uint32_t size,
                const void *more, uint32_t more_size)
{
    gp_lock_take(&w->priv->send_lock);
    wrk_unsolicited_locked(w, what, body, size, more, more_size);
    gp_lock_release(&w->priv->send_lock);
}

bool
wrk_unsolicited_within(struct wrk *w, uint64_t ns, enum wire_event what,
                       const void *body, uint32_t size)
{
    if (!gp_lock_try(&w->priv->send_lock) && !gp_lock_take_for(&w->priv->send_lock, ns))
        return false;
    wrk_unsolicited_locked(w, what, body, size, NULL, 0);
    gp_lock_release(&w->priv->send_lock);
    return true;
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
