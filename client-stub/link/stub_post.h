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

/* The body of a frame of @size bytes in all, at the next place in the queue.  The
 * attention word (stub_link.h) tells whether a hook has to run; it may change until the
 * lock is held, under which the state of the send buffer is known as well.  NULL:
 * nothing has happened, and the call must take the general path, stub_call_begin(),
 * which also finds the error if there is one. */
static inline void *
stub_post_begin(struct stub_link *link, uint16_t call, uint32_t size)
{
    struct xport_conn *conn = link->conn;
    struct wire_req *req;

    if (unlikely(stub_link_attention(link) & ~STUB_POST_CHECKS))
        return NULL;
    gp_lock_take(&link->send);
    /* While another thread sends, the buffer is that thread's alone, with or without
     * the lock. */
    if (unlikely(stub_link_attention(link) & ~STUB_POST_CHECKS ||
                 stub_send_overflow_busy(&link->overflow) ||
                 (size_t)(conn->tx.end - conn->tx.pos) < size ||
                 atomic_load_explicit(&link->queued, memory_order_relaxed) + size >=
                     STUB_SEND_HIGH)) {
        gp_lock_release(&link->send);
        return NULL;
    }
    req = (struct wire_req *)conn->tx.pos;
    req->size = size;
    req->call = call;
    req->flags = 0;
    req->seq = atomic_load_explicit(&link->seq, memory_order_relaxed) + 1;
    req->ctx = stub_tls.ctx_index;
    return req + 1;
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

/* The body is complete. */
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
