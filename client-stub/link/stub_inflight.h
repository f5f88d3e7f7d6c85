/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call in flight: its state from the frame to the reply.
 *
 * It is on the stack of the application thread that makes the call (stub_call.h), and
 * while that thread waits, in the link's list of waiting calls (stub_wait.h), where the
 * thread that reads the connection finds it.
 */
#ifndef STUB_INFLIGHT_H
#define STUB_INFLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Replies up to this size are kept in the call itself when another thread read them. */
#define STUB_CALL_INLINE 128

struct stub_link;

struct stub_call {
    void *body;           /* request body behind the frame header, 8-aligned */
    const void *reply;    /* reply body, valid from wait to end */
    uint32_t reply_size;  /* bytes in it, without the header */
    uint16_t reply_flags; /* WIRE_F_BULK: bulk_len bytes went to dst */
    uint64_t bulk_len;

    /* private to stub_call.c and stub_wait.c */
    struct stub_link *link;
    uint32_t frame_size;
    uint32_t fixed;
    uint32_t seq;
    _Atomic uint32_t state; /* futex word, enum stub_call_state */
    int32_t result;
    uint64_t sent;    /* bytes of the connection up to its end; 0: not known */
    uint64_t ticket;  /* the connection still uses its payload; 0: it does not */
    uint32_t bulk_at; /* offset in the reply of the u64 length of the bulk bytes */
    uint16_t call;
    bool overflow; /* its frame is in the overflow queue (stub_send_overflow.h) */
    bool searched; /* for addresses, but for the first @fixed bytes of the body */
    bool events;   /* waits for events, has no reply of its own */
    bool leads;    /* holds the reading end until stub_call_end() */
    bool apart;    /* leads without ever having been in link->waiting */
    bool listed;   /* in link->waiting, where other threads find it; under wait */
    bool sleeps;   /* in stub_wait_for(), and not leading */
    void *dst;     /* where bulk bytes of the reply go */
    uint64_t dst_len;
    uint64_t said; /* the worker has heard of so many bytes when it answers; 0: none */
    void *heap;    /* deposited reply that did not fit in stash */
    struct stub_call *next;
    struct stub_call *prev;
    uint64_t stash[STUB_CALL_INLINE / 8];
};

#endif
