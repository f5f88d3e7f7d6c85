/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending calls: the hot path of the application's threads.
 *
 * Arguments are written straight into the transport's send buffer.  The lock of the
 * queue, link->send, gives every call its place in the one order.  It is held while
 * arguments are written and during a write that cannot block, but not while a payload
 * is sent, nor while the worker is slow to read (stub_send_overflow.h). Frames are sent
 * when a call needs a reply, when STUB_SEND_HIGH bytes are queued, or when the flusher
 * finds that they have waited.
 */
#include "stub_call.h"

#include "gp_copy.h"
#include "gp_log.h"
#include "stub_flush.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_post.h"
#include "stub_send_overflow.h"
#include "stub_tls.h"
#include "stub_wait.h"
#include "wire_format.h"
#include "xport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Payloads up to this size are looked through; tables of pointers are not larger. */
#define CONTENT_MAX (256u * 1024)

GP_HOT_DATA bool stub_slow;

static struct wire_req *
call_req(const struct stub_call *c)
{
    return (struct wire_req *)c->body - 1;
}

/* The number of a frame is its place in the order of the link.  Both under send. */
static GP_INLINE uint32_t
call_take_place(struct stub_link *link)
{
    uint32_t seq = atomic_load_explicit(&link->seq, memory_order_relaxed) + 1;

    atomic_store_explicit(&link->seq, seq, memory_order_relaxed);
    return seq;
}

static void
call_give_place_back(struct stub_link *link)
{
    uint32_t seq = atomic_load_explicit(&link->seq, memory_order_relaxed);

    atomic_store_explicit(&link->seq, seq - 1, memory_order_relaxed);
}

GP_HOT CUresult
stub_enter(void)
{
    const struct stub_link *link = stub_link_here();

    if (unlikely(stub_tls.refusal))
        return (CUresult)stub_tls.refusal;
    return stub_link_ready(link) ? CUDA_SUCCESS : stub_link_refusal(link);
}

static CUresult
call_lost(struct stub_link *link, int r)
{
    gp_lock_release(&link->send);
    return stub_link_broken(link, r);
}

/* Room for the frame: in the connection's buffer, or in the overflow buffer while
 * another thread sends.  Under send. */
static GP_INLINE struct wire_req *
call_room(struct stub_call *c, uint32_t size)
{
    struct stub_link *link = c->link;
    struct wire_req *req;

    c->overflow = c->searched = false;
    if (unlikely(stub_send_overflow_busy(&link->overflow))) {
        req = stub_send_overflow_reserve(&link->overflow, size);
        if (req) {
            c->overflow = true;
            return req;
        }
        stub_send_overflow_wait(link);
    }
    return xport_reserve(link->conn, size);
}

/* The flags of the frame.  A frame that is searched for addresses begins as zeros,
 * because the padding between its fields would hold parts of older frames otherwise,
 * which can look like an address together with the field beside it. */
static GP_COLD uint16_t
call_attended(struct stub_link *link, struct wire_req *req, uint32_t attention,
              uint32_t clear)
{
    if (attention & STUB_ATTEND_COUNT)
        stub_tls.frames++;
    if (attention & STUB_ATTEND_CALL)
        stub_hooks_placed(link, req->seq);
    if (attention & STUB_ATTEND_CONTENT)
        memset(req + 1, 0, clear);
    return attention & STUB_ATTEND_FLAGS ? stub_hooks_frame_flags() : 0;
}

/* The attention word is read under the lock: a capture that begins by an earlier frame
 * has set it by then, and this frame must carry what follows from that. */
static GP_INLINE CUresult
call_claim(struct stub_call *c, uint16_t call, uint32_t body_size, uint32_t clear)
{
    uint32_t size = (uint32_t)sizeof(struct wire_req) + body_size;
    struct stub_link *link = c->link;
    struct wire_req *req;
    uint32_t attention;

    if (unlikely(body_size > WIRE_FRAME_MAX - sizeof(struct wire_req)))
        return CUDA_ERROR_INVALID_VALUE;
    gp_lock_take(&link->send);
    req = call_room(c, size);
    if (unlikely(!req))
        return call_lost(link, -EPIPE);
    attention = stub_link_attention(link);
    req->size = size;
    req->call = call;
    req->seq = call_take_place(link);
    req->flags = likely(!(attention & (STUB_ATTEND_FLAGS | STUB_ATTEND_CONTENT |
                                       STUB_ATTEND_CALL | STUB_ATTEND_COUNT)))
                     ? 0
                     : call_attended(link, req, attention, clear);
    req->ctx = stub_tls.ctx_frame;
    c->body = req + 1;
    c->frame_size = size;
    c->call = call;
    return CUDA_SUCCESS;
}

static GP_INLINE CUresult
call_begin(struct stub_call *c, uint16_t call, uint32_t body_size, uint32_t clear)
{
    uint32_t attention;

    c->link = stub_link_here();
    attention = stub_link_attention(c->link);
    attention &= STUB_ATTEND_NOT_READY | STUB_ATTEND_CALL | STUB_ATTEND_SPARE;
    if (unlikely(attention | stub_tls.refusal)) {
        if (stub_tls.refusal)
            return (CUresult)stub_tls.refusal;
        if (attention & STUB_ATTEND_NOT_READY)
            return stub_link_refusal(c->link);
        if (attention & STUB_ATTEND_SPARE) {
            CUresult r = stub_hooks_spare_before(c->link, call);

            if (r != CUDA_SUCCESS)
                return r;
        }
        if (attention & STUB_ATTEND_CALL)
            stub_hooks_before_call(call);
    }
    return call_claim(c, call, body_size, clear);
}

GP_HOT CUresult
stub_call_begin(struct stub_call *c, uint16_t call, uint32_t body_size)
{
    return call_begin(c, call, body_size, body_size);
}

GP_HOT CUresult
stub_call_begin_inline(struct stub_call *c, uint16_t call, uint32_t fixed,
                       uint32_t inlined)
{
    return call_begin(c, call, fixed + inlined, fixed);
}

/* A frame that is searched for addresses has them searched for on the way, and zeros
 * for the padding.  The bytes behind @fixed are at the end of the frame. */
static GP_COLD void
call_inline_searched(struct stub_call *c, uint32_t fixed, const void *bytes, size_t n)
{
    uint8_t *to = (uint8_t *)c->body + fixed;

    memset(to + n, 0, c->frame_size - sizeof(struct wire_req) - fixed - n);
    c->searched = !stub_hooks_copy_needs(to, bytes, n);
    c->fixed = fixed;
}

GP_HOT void
stub_call_inline(struct stub_call *c, uint32_t fixed, const void *bytes, size_t n)
{
    if (unlikely(stub_link_attention(c->link) & STUB_ATTEND_CONTENT))
        call_inline_searched(c, fixed, bytes, n);
    else
        gp_copy((uint8_t *)c->body + fixed, bytes, n);
}

CUresult
stub_call_begin_on(struct stub_call *c, struct stub_link *link, uint16_t call,
                   uint32_t body_size)
{
    CUresult r;

    c->link = link;
    if (!stub_link_ready(c->link) && atomic_load(&c->link->phase) != STUB_LINKED)
        return stub_link_refusal(c->link);
    r = unlikely(stub_link_attention(link) & STUB_ATTEND_SPARE)
            ? stub_hooks_spare_before(link, call)
            : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        r = call_claim(c, call, body_size, body_size);
    if (r == CUDA_SUCCESS && link != stub_link_here())
        call_req(c)->ctx = 0; /* ours is another server's */
    return r;
}

GP_HOT void
stub_call_become(struct stub_call *c, uint16_t call, uint32_t body_size)
{
    c->call = call;
    c->frame_size = (uint32_t)sizeof(struct wire_req) + body_size;
    call_req(c)->call = call;
    call_req(c)->size = c->frame_size;
}

void
stub_call_cancel(struct stub_call *c)
{
    struct stub_link *link = c->link;

    call_give_place_back(link);
    if (c->overflow)
        stub_send_overflow_wait(link);
    gp_lock_release(&link->send);
}

/* Nothing waits in the send buffer any more.  Under send. */
static void
call_flushed(struct stub_link *link)
{
    uint32_t n = atomic_load_explicit(&link->flushes, memory_order_relaxed);

    atomic_store_explicit(&link->queued, 0, memory_order_relaxed);
    atomic_store_explicit(&link->flushes, n + 1, memory_order_relaxed);
}

/* An asynchronous copy to the host reports its result with its bytes. */
static bool
call_may_want_reply(const struct stub_call *c)
{
    return !(call_req(c)->flags & WIRE_F_D2H_ASYNC) &&
           stub_hooks_wants_reply(stub_link_attention(c->link), c->call);
}

/* What stub_send_overflow_end() has moved into the empty buffer stays there, or is
 * sent if it is enough for a write.  Under send, which is released. */
static CUresult
call_gathered(struct stub_link *link, uint32_t gathered)
{
    bool much = gathered >= STUB_SEND_HIGH ||
                (gathered && stub_link_attention(link) & STUB_ATTEND_FLUSH);
    int r = 0;

    call_flushed(link);
    if (much)
        r = xport_flush(link->conn);
    if (unlikely(r < 0))
        return call_lost(link, r);
    atomic_store_explicit(&link->queued, much ? 0 : gathered, memory_order_relaxed);
    gp_lock_release(&link->send);
    if (gathered && !much)
        stub_flush_arm(link);
    return CUDA_SUCCESS;
}

/* Send everything queued so far, and the payload behind it, with the lock open: other
 * threads put their frames into the overflow queue meanwhile.  Under send, which is
 * released. */
static CUresult
call_send_unlocked(struct stub_link *link, const struct iovec *chunks, size_t n)
{
    int64_t gathered;
    int r = 0;

    stub_send_overflow_begin(link);
    if (n == 0)
        r = xport_flush(link->conn);
    for (size_t i = 0; i < n && r >= 0; i++)
        r = xport_send_bulk(link->conn, chunks[i].iov_base, chunks[i].iov_len);
    gathered = stub_send_overflow_end(link);
    if (unlikely(r < 0 || gathered < 0))
        return call_lost(link, r < 0 ? r : (int)gathered);
    return call_gathered(link, (uint32_t)gathered);
}

/* Flags of the features may have changed since the frame was claimed first: they are
 * those of its new place in the order.  Under send. */
static void
call_renew_flags(const struct stub_call *c, struct wire_req *req)
{
    req->flags &= (uint16_t)~WIRE_F_RELAXED;
    if (stub_link_attention(c->link) & STUB_ATTEND_FLAGS)
        req->flags |= stub_hooks_frame_flags();
}

/* A frame that needs a reply or has a payload cannot be sent from the overflow
 * buffer: its room there is given back, and the frame is claimed again in the
 * connection's buffer. */
static CUresult
call_come_back(struct stub_call *c)
{
    CLEANUP_FREE struct wire_req *copy = malloc(c->frame_size);
    struct stub_link *link = c->link;
    struct wire_req *req;

    if (copy)
        memcpy(copy, call_req(c), c->frame_size);
    call_give_place_back(link);
    if (!copy) {
        gp_lock_release(&link->send);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stub_send_overflow_wait(link);
    req = xport_reserve(link->conn, c->frame_size);
    if (!req)
        return call_lost(link, -EPIPE);
    memcpy(req, copy, c->frame_size);
    call_renew_flags(c, req);
    req->seq = call_take_place(link);
    if (stub_link_attention(link) & STUB_ATTEND_CALL)
        stub_hooks_placed(link, req->seq); /* others took the place that it had */
    c->body = req + 1;
    c->overflow = false;
    return CUDA_SUCCESS;
}

static CUresult
call_post_overflow(struct stub_call *c)
{
    stub_send_overflow_commit(&c->link->overflow, c->frame_size);
    gp_lock_release(&c->link->send);
    return CUDA_SUCCESS;
}

/* The frame names memory that the server does not have yet, or that it has and should
 * not (@spare): the room of the frame is given back, the server is provided with the
 * memory or frees it, and the frame is claimed again. */
static GP_COLD CUresult
call_provide(struct stub_call *c, bool spare)
{
    CLEANUP_FREE struct wire_req *copy = malloc(c->frame_size);
    struct stub_link *link = c->link;
    CUresult r;

    if (copy)
        memcpy(copy, call_req(c), c->frame_size);
    call_give_place_back(link);
    gp_lock_release(&link->send);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = CUDA_SUCCESS;
    if (spare)
        r = stub_hooks_spare_named(link, copy->call);
    else
        stub_hooks_provide();
    if (r == CUDA_SUCCESS)
        r = call_claim(c, copy->call, copy->size - (uint32_t)sizeof(*copy), 0);
    if (r != CUDA_SUCCESS)
        return r;
    copy->seq = call_req(c)->seq;
    memcpy(call_req(c), copy, c->frame_size);
    call_renew_flags(c, call_req(c));
    return CUDA_SUCCESS;
}

/* Calls between stub and worker name nothing that a feature would have to give. */
static GP_COLD CUresult
call_check_content(struct stub_call *c)
{
    size_t n = c->searched ? c->fixed : c->frame_size - sizeof(struct wire_req);

    if (c->call >= WIRE_CALL_INTERNAL || call_req(c)->flags & WIRE_F_D2H_ASYNC ||
        !stub_hooks_needs(c->body, n))
        return CUDA_SUCCESS;
    return call_provide(c, false);
}

/* An asynchronous copy to the host is to memory that is known to live. */
static GP_COLD CUresult
call_check_spares(struct stub_call *c)
{
    if (c->call >= WIRE_CALL_INTERNAL || call_req(c)->flags & WIRE_F_D2H_ASYNC ||
        !stub_spare_ranges_named(&c->link->spares, c->body,
                                 c->frame_size - sizeof(struct wire_req)) ||
        stub_hooks_spare_is_freed())
        return CUDA_SUCCESS;
    return call_provide(c, true);
}

static GP_COLD CUresult
call_check_chunks(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    bool some = stub_hooks_needs(c->body, c->frame_size - sizeof(struct wire_req));

    for (size_t i = 0; i < n; i++)
        if (chunks[i].iov_len <= CONTENT_MAX &&
            stub_hooks_needs(chunks[i].iov_base, chunks[i].iov_len))
            some = true;
    return some ? call_provide(c, false) : CUDA_SUCCESS;
}

GP_HOT CUresult
stub_call_post(struct stub_call *c)
{
    struct stub_link *link = c->link;
    uint32_t attention = stub_link_attention(link), queued, counted;
    CUresult r;

    if (unlikely(attention & (STUB_ATTEND_CONTENT | STUB_ATTEND_SPARE))) {
        r = attention & STUB_ATTEND_SPARE ? call_check_spares(c) : CUDA_SUCCESS;
        if (r == CUDA_SUCCESS && attention & STUB_ATTEND_CONTENT)
            r = call_check_content(c);
        if (r != CUDA_SUCCESS)
            return r;
    }
    queued = atomic_load_explicit(&link->queued, memory_order_relaxed);
    if (unlikely(attention & (STUB_ATTEND_REPLY | STUB_ATTEND_FLAGS)) &&
        call_may_want_reply(c))
        return stub_call_post_checked(c);
    if (unlikely(c->overflow))
        return call_post_overflow(c);
    xport_commit(link->conn, c->frame_size);
    counted = gp_min(c->frame_size, STUB_SEND_COUNTED);
    if (unlikely(queued + counted >= STUB_SEND_HIGH || attention & STUB_ATTEND_FLUSH))
        return call_send_unlocked(link, NULL, 0);
    atomic_store_explicit(&link->queued, queued + counted, memory_order_relaxed);
    gp_lock_release(&link->send);
    if (unlikely(queued == 0))
        stub_flush_arm(link);
    return CUDA_SUCCESS;
}

static void
call_moved(struct stub_link *link, uint64_t bytes)
{
    if (unlikely(atomic_load_explicit(&link->count_payloads, memory_order_relaxed)))
        stub_hooks_payload_moved(link, bytes);
}

static void
call_moved_up(struct stub_link *link, const struct iovec *chunks, size_t n)
{
    uint64_t moved = 0;

    for (size_t i = 0; i < n; i++)
        moved += chunks[i].iov_len;
    if (moved)
        call_moved(link, moved);
}

/* Send everything up to this frame, the frame, and its payload.  Frames behind it in
 * the order cannot overtake the payload. */
static CUresult
call_send(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    CUresult r;

    xport_commit(c->link->conn, c->frame_size);
    r = call_send_unlocked(c->link, chunks, n);
    if (r == CUDA_SUCCESS)
        call_moved_up(c->link, chunks, n);
    return r;
}

/* The same for a call that waits for its reply, which confirms the payload: the worker
 * replies when it has received all of it.  The payload is lent to the connection until
 * call_payload_back(). */
static CUresult
call_send_lent(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    struct stub_link *link = c->link;
    CUresult result;
    int64_t gathered;
    int r = 0;

    xport_commit(link->conn, c->frame_size);
    stub_send_overflow_begin(link);
    for (size_t i = 0; i < n && r >= 0; i++) {
        uint64_t ticket;

        r = xport_send_bulk_start(link->conn, chunks[i].iov_base, chunks[i].iov_len,
                                  &ticket);
        c->ticket = gp_max(c->ticket, ticket);
    }
    c->sent = xport_sent(link->conn);
    gathered = stub_send_overflow_end(link);
    if (unlikely(r < 0 || gathered < 0))
        return call_lost(link, r < 0 ? r : (int)gathered);
    result = call_gathered(link, (uint32_t)gathered);
    if (result == CUDA_SUCCESS)
        call_moved_up(link, chunks, n);
    return result;
}

/* There was no room for all of it. */
static GP_COLD CUresult
call_send_leading_later(struct stub_call *c, int r)
{
    if (r != -EAGAIN)
        return call_lost(c->link, r);
    stub_wait_step_back(c);
    return call_send_unlocked(c->link, NULL, 0);
}

/* The thread that reads must not wait for room in the send buffer: the worker may be
 * making no room because nobody reads its replies. */
static GP_INLINE CUresult
call_send_leading(struct stub_call *c)
{
    struct stub_link *link = c->link;
    int r;

    xport_commit(link->conn, c->frame_size);
    r = xport_flush_now(link->conn);
    if (unlikely(r < 0))
        return call_send_leading_later(c, r);
    call_flushed(link);
    c->sent = xport_sent(link->conn);
    gp_lock_release(&link->send);
    return CUDA_SUCCESS;
}

/* The reply shows that the worker has received the frame, and all before it. */
static GP_INLINE void
call_confirm(const struct stub_call *c)
{
    if (likely(c->sent && c->reply))
        xport_confirm(c->link->conn, c->sent);
}

/* The payload's memory is the caller's again.  Behind a reply nothing has to be waited
 * for; without one the connection keeps a copy, if it lives. */
static CUresult
call_payload_back(struct stub_call *c, CUresult result)
{
    int r = xport_send_bulk_wait(c->link->conn, c->ticket);

    return r < 0 && result == CUDA_SUCCESS ? stub_link_broken(c->link, r) : result;
}

static GP_COLD CUresult
call_not_sent(struct stub_call *c, CUresult r)
{
    stub_wait_cancel(c);
    return r;
}

/* What has to be done before the frame is sent. */
static GP_COLD CUresult
call_attend(struct stub_call *c, uint32_t attention, const struct iovec *chunks,
            size_t n)
{
    CUresult r = CUDA_SUCCESS;

    if (attention & STUB_ATTEND_WATCH) {
        stub_link_attend(c->link, STUB_ATTEND_WATCH, false);
        stub_flush_wake(c->link);
    }
    if (attention & STUB_ATTEND_SPARE)
        r = call_check_spares(c);
    if (r != CUDA_SUCCESS || !(attention & STUB_ATTEND_CONTENT))
        return r;
    return n ? call_check_chunks(c, chunks, n) : call_check_content(c);
}

static GP_INLINE CUresult
call_send_and_wait(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    uint32_t attention = stub_link_attention(c->link);
    CUresult r = CUDA_SUCCESS;

    if (unlikely(attention &
                 (STUB_ATTEND_CONTENT | STUB_ATTEND_WATCH | STUB_ATTEND_SPARE)))
        r = call_attend(c, attention, chunks, n);
    if (r == CUDA_SUCCESS && unlikely(c->overflow))
        r = call_come_back(c);
    if (unlikely(r != CUDA_SUCCESS)) {
        stub_wait_enter(c, false);
        return call_not_sent(c, r);
    }
    call_req(c)->flags |= WIRE_F_REPLY;
    c->seq = call_req(c)->seq;
    stub_wait_enter(c, n == 0 && xport_flushes_now(c->link->conn));
    c->sent = 0;
    r = likely(c->leads)                     ? call_send_leading(c)
        : n && xport_confirms(c->link->conn) ? call_send_lent(c, chunks, n)
                                             : call_send(c, chunks, n);
    if (unlikely(r != CUDA_SUCCESS))
        return call_not_sent(c, r);
    r = stub_wait_for(c);
    call_confirm(c);
    return r;
}

/* With a payload, or for one.  A copy of its own of the inlined function, so that a
 * call without one, in stub_call_wait(), carries nothing of payloads. */
static CUresult
call_send_and_wait_bulk(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    CUresult r;

    c->ticket = 0;
    r = call_send_and_wait(c, chunks, n);
    return unlikely(c->ticket) ? call_payload_back(c, r) : r;
}

GP_HOT CUresult
stub_call_wait(struct stub_call *c)
{
    c->dst_len = 0;
    return call_send_and_wait(c, NULL, 0);
}

CUresult
stub_call_post_chunks(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    CUresult r;

    if (stub_link_attention(c->link) & (STUB_ATTEND_REPLY | STUB_ATTEND_FLAGS) &&
        stub_hooks_wants_reply(stub_link_attention(c->link), c->call)) {
        r = stub_call_wait_chunks(c, chunks, n);
        stub_call_end(c);
        return r;
    }
    r = stub_link_attention(c->link) & STUB_ATTEND_SPARE ? call_check_spares(c)
                                                         : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && stub_link_attention(c->link) & STUB_ATTEND_CONTENT)
        r = call_check_chunks(c, chunks, n);
    if (r == CUDA_SUCCESS && c->overflow)
        r = call_come_back(c);
    if (r != CUDA_SUCCESS)
        return r;
    call_req(c)->flags |= WIRE_F_BULK;
    return call_send(c, chunks, n);
}

CUresult
stub_call_wait_chunks(struct stub_call *c, const struct iovec *chunks, size_t n)
{
    call_req(c)->flags |= WIRE_F_BULK;
    c->dst_len = 0;
    return call_send_and_wait_bulk(c, chunks, n);
}

CUresult
stub_call_post_bulk(struct stub_call *c, const void *data, uint64_t len)
{
    struct iovec chunk = {(void *)(uintptr_t)data, len};

    return stub_call_post_chunks(c, &chunk, 1);
}

CUresult
stub_call_wait_bulk(struct stub_call *c, const void *data, uint64_t len)
{
    struct iovec chunk = {(void *)(uintptr_t)data, len};

    return stub_call_wait_chunks(c, &chunk, 1);
}

CUresult
stub_call_wait_into(struct stub_call *c, void *dst, uint64_t len, uint32_t rep_size,
                    uint64_t said)
{
    CUresult r;

    c->said = said;
    c->dst = dst;
    c->dst_len = len;
    c->bulk_at = rep_size - (uint32_t)sizeof(uint64_t);
    r = call_send_and_wait_bulk(c, NULL, 0);
    call_moved(c->link, len);
    return r;
}

CUresult
stub_call_post_checked(struct stub_call *c)
{
    CUresult r = stub_call_wait(c);

    stub_call_end(c);
    return r;
}

GP_HOT CUresult
stub_call_post_release(struct stub_call *c)
{
    struct stub_link *link = c->link;
    uint32_t ctx = call_req(c)->ctx;
    struct stub_releases *releases = &link->releases[ctx % STUB_RELEASES];
    CUresult r;

    /* Under send.  The worker queues them by context, so an answer in one context says
     * nothing about those of another. */
    if (likely(releases->ctx == ctx && releases->n < WIRE_RELEASES_POSTED)) {
        releases->n++;
        return stub_call_post(c);
    }
    r = stub_call_post_checked(c);
    gp_lock_take(&link->send);
    *releases = (struct stub_releases){.ctx = ctx};
    gp_lock_release(&link->send);
    return r;
}

/* No capture forbids such copies, and the flag stands alone (wire_format.h). */
uint32_t
stub_call_mark_d2h_async(struct stub_call *c)
{
    call_req(c)->flags = WIRE_F_D2H_ASYNC;
    return call_req(c)->seq;
}

uint32_t
stub_call_seq(const struct stub_call *c)
{
    return call_req(c)->seq;
}

CUresult
stub_call_post_now(struct stub_call *c)
{
    CUresult r = c->overflow ? call_come_back(c) : CUDA_SUCCESS;

    return r == CUDA_SUCCESS ? call_send(c, NULL, 0) : r;
}

CUresult
stub_call_post_soon(struct stub_call *c)
{
    return c->overflow ? call_post_overflow(c) : call_send(c, NULL, 0);
}

CUresult
stub_call_post_along(struct stub_call *c)
{
    if (c->overflow)
        return call_post_overflow(c);
    xport_commit(c->link->conn, c->frame_size);
    gp_lock_release(&c->link->send);
    return CUDA_SUCCESS;
}

GP_HOT void
stub_call_end(struct stub_call *c)
{
    stub_wait_leave(c);
    if (unlikely(c->heap != NULL))
        free(TAKE_PTR(c->heap));
    c->reply = NULL;
    if (unlikely(c->result != CUDA_SUCCESS))
        stub_hooks_call_failed(c->link, c->result);
    if (unlikely(stub_link_attention(c->link) & STUB_ATTEND_CALL))
        c->result = stub_hooks_after_wait(c->call, c->result);
}

CUresult
stub_call_bad(uint16_t call)
{
    char why[64];

    snprintf(why, sizeof(why), "malformed answer to call 0x%04x", call);
    return stub_link_lose(stub_link_here(), why);
}
