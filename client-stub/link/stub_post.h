/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting a call where every instruction counts: what stub_call_begin() and
 * stub_call_post() do, without their rare cases.
 *
 * No object: the queue's lock is held from a begin that succeeded to the end.  Any
 * thread.
 */
#ifndef STUB_POST_H
#define STUB_POST_H

#include "gp_base.h"
#include "gp_lock.h"
#include "stub_flush.h"
#include "stub_link.h"
#include "stub_send_overflow.h"
#include "stub_tls.h"
#include "wire_format.h"
#include "xport.h"

#include <stdatomic.h>
#include <stdint.h>

/* Frames are sent when so many bytes are queued.  One write of this size costs the
 * kernel about as much per byte as a larger one, and the worker starts while the
 * program goes on filling. */
#define STUB_SEND_HIGH (32u * 1024u)

/* What a frame counts for that: a larger one waits for those behind it as well, because
 * what follows a copy is mostly a launch and a wait. */
#define STUB_SEND_COUNTED (STUB_SEND_HIGH / 2)

/* The one bit of the attention word that changes nothing here: whoever posts makes the
 * check, stub_post_names_spare(), when the body is complete. */
#define STUB_POST_CHECKS ((uint32_t)STUB_ATTEND_SPARE)

/* Take the queue's lock.  False: it is not held, and the call must take the general
 * path. While another thread sends, the buffer is that thread's alone, with or without
 * the lock. */
static inline bool
stub_post_take(struct stub_link *link)
{
    if (unlikely(stub_link_attention(link) & ~STUB_POST_CHECKS))
        return false;
    gp_lock_take(&link->send);
    if (likely(!(stub_link_attention(link) & ~STUB_POST_CHECKS) &&
               !stub_send_overflow_busy(&link->overflow)))
        return true;
    gp_lock_release(&link->send);
    return false;
}

/* Room for a frame of up to @size bytes in all, at the next place in the queue.  The
 * attention word (stub_link.h) tells whether a hook has to run; it may change until the
 * lock is held, under which the state of the send buffer is known as well.  NULL:
 * nothing has happened, and the call must take the general path, stub_call_begin(),
 * which also finds the error if there is one. */
static inline struct wire_req *
stub_post_begin(struct stub_link *link, uint32_t size)
{
    struct xport_conn *conn = link->conn;

    if (unlikely(!stub_post_take(link)))
        return NULL;
    if (unlikely(!xport_reserve_now(conn, size) ||
                 atomic_load_explicit(&link->queued, memory_order_relaxed) + size >=
                     STUB_SEND_HIGH)) {
        gp_lock_release(&link->send);
        return NULL;
    }
    return (struct wire_req *)conn->tx.pos;
}

/* The frame is one of @call, of @size bytes in all: its body. */
static inline void *
stub_post_head(const struct stub_link *link, struct wire_req *req, uint16_t call,
               uint32_t size)
{
    req->size = size;
    req->call = call;
    req->flags = 0;
    req->seq = atomic_load_explicit(&link->seq, memory_order_relaxed) + 1;
    req->ctx = stub_tls.ctx_frame;
    return req + 1;
}

/* The frame @req of @size bytes, which waits behind @queued bytes, may be made longer
 * for as long as it is the last one and no write has been tried since, up to @max
 * bytes.  To be called before its end is posted, with @seq the number it will have
 * brought the link to.  Under send. */
static inline void
stub_post_open(struct stub_link *link, struct wire_req *req, uint32_t size,
               uint32_t max, uint32_t queued, uint32_t seq)
{
    const struct xport_conn *conn = link->conn;
    uint8_t *at = (uint8_t *)req;
    size_t most = gp_min((size_t)(conn->tx.end - at), (size_t)max);

    link->open = (struct stub_open_frame){
        .req = req,
        .end = at + size,
        .most = at + gp_min(most, (size_t)(STUB_SEND_HIGH - 1) -
                                      gp_min(queued, STUB_SEND_HIGH - 1)),
        .base = conn->tx.base,
        .seq = seq,
        .partial = conn->tx.partial,
    };
}

/* The frame that may be made longer may not be any more.  Under send. */
static inline void
stub_post_close(struct stub_link *link)
{
    link->open.end = NULL;
}

/* Room for @n bytes at the end of the frame that may be made longer: the link's last
 * one.  NULL: there is none, or not so much room.  Under send, and nobody is sending:
 * what has been sent, or tried to send and may be sealed in a layer below, has moved
 * the buffer's beginning or its end, or counts as partial. */
static inline uint8_t *
stub_post_more(const struct stub_link *link, uint32_t n)
{
    const struct stub_open_frame *open = &link->open;
    const struct xport_conn *conn = link->conn;

    return likely(open->end == conn->tx.pos && open->base == conn->tx.base &&
                  open->seq == atomic_load_explicit(&link->seq, memory_order_relaxed) &&
                  open->partial == conn->tx.partial && open->end + n <= open->most)
               ? open->end
               : NULL;
}

/* That frame has become @n bytes longer, and stub_post_end() follows. */
static inline void
stub_post_grow(struct stub_link *link, uint32_t n)
{
    link->open.req->size += n;
    link->open.end += n;
    link->open.seq++;
}

/* Does the complete body of @n bytes name a spare block?  Then the frame must not be
 * sent, but cancelled, and the call takes the general path. */
static inline bool
stub_post_names_spare(const struct stub_link *link, const void *body, size_t n)
{
    return unlikely(stub_link_attention(link) & STUB_ATTEND_SPARE) &&
           stub_spare_ranges_named(&link->spares, body, n);
}

/* Nothing has happened. */
static inline void
stub_post_cancel(struct stub_link *link)
{
    gp_lock_release(&link->send);
}

/* The body is complete; or the last frame has become @size bytes longer. */
static inline void
stub_post_end(struct stub_link *link, uint32_t size)
{
    uint32_t queued = atomic_load_explicit(&link->queued, memory_order_relaxed);
    uint32_t seq = atomic_load_explicit(&link->seq, memory_order_relaxed);

    atomic_store_explicit(&link->seq, seq + 1, memory_order_relaxed);
    atomic_store_explicit(&link->queued, queued + size, memory_order_relaxed);
    xport_commit(link->conn, size);
    gp_lock_release(&link->send);
    if (unlikely(queued == 0))
        stub_flush_arm(link);
}

#endif
