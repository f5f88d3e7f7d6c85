/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's own state, behind struct wrk of wrk_state.h.
 *
 * One process serves one client process.  Threads: the receive thread ("the reader",
 * the main thread) takes frames in order, executes them, and never waits for the GPU;
 * waiter threads (wrk_wait.c) wait and reply later; threads of the driver call host
 * functions (wrk_hostfn.c); one thread waits for SIGTERM (wrk_main.c).  Fields without
 * a comment on threads belong to the receive thread.
 */
#ifndef WRK_PRIV_H
#define WRK_PRIV_H

#include "gp_lock.h"
#include "wrk_cards.h"
#include "wrk_conf.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct wrk_d2h_replies;
struct wrk_governor;
struct wrk_hostfns;
struct wrk_kernels;
struct wire_rep;
struct wrk_d2h_async;
struct wrk_sender;
struct wrk_quota;
struct wrk_ring;
struct wrk_desks;
struct wrk_usage;
struct wrk_staging;
struct wrk_spatial;
struct wrk_frame_buffers;
struct wrk_staging_pool;
struct wrk_waiters;
struct wrk_waits;
struct wrk_windows;
struct xport_conn;

#define WRK_POLL_WAITS 0x1u /* of wrk_wait.c: replies are due */
#define WRK_POLL_HOOKS 0x2u /* a poll hook may have something to do (wrk_hooks.h) */

struct wrk_priv {
    /* What every frame touches, in one cache line. */
    _Alignas(64) struct xport_conn *conn;
    struct wrk_waits *waits;
    struct wrk_governor *governor;
    struct wire_rep *reserved; /* between reserve and send, send_lock held */
    const char *bad;           /* why the attachment ends, or NULL */
    _Atomic uint32_t seq;      /* of the last frame; written by the reader */
    _Atomic uint32_t drained;  /* times that the reader had nothing to execute */
    struct gp_lock send_lock;  /* the sending half of the connection: any thread */
    bool unflushed;            /* the reader has committed answers */
    atomic_bool waiting;       /* the reader sleeps until a frame comes */
    atomic_bool stopping;      /* any thread */
    bool captures;             /* the client has captured a stream at least once */
    uint16_t capturing;        /* captures under way; receive thread */
    uint8_t polled;            /* WRK_POLL_*: what the reader does between frames */
    atomic_bool watch_asleep;  /* a frame must wake the watch (wrk_wake.h) */
    /* Payloads that must be sent before the next reply: while this is not 0, the
     * before_reply hooks run before each.  Written under send_lock. */
    _Atomic uint32_t before_reply;

    struct wrk_conf conf;
    /* WIRE_EVENT_D2H_DONE sent since the attachment.  Written under send_lock. */
    _Atomic uint32_t d2h_sent;
    struct wrk_desks *desks; /* what the supervisor and we show each other */
    struct wrk_usage *usage; /* what we say that we use, on our desk */
    struct wrk_cards cards;
    struct wrk_quota *quota;
    struct wrk_waiters *waiters;
    struct wrk_spatial *spatial; /* NULL: the session shares in time */
    struct wrk_staging_pool *staging;
    struct wrk_frame_buffers *frame_buffers;
    struct wrk_d2h_replies *d2h_replies;
    struct wrk_d2h_async *d2h_async;
    struct wrk_staging *h2d_fence; /* wrk_h2d_fence.h */
    struct wrk_ring *ring;
    struct wrk_windows *windows; /* NULL: the link is no RDMA */
    struct wrk_hostfns *hosts;
    struct wrk_sender *sender;
    struct wrk_kernels *kernels; /* NULL: the driver knows them, or nothing is loaded */
};
static_assert(offsetof(struct wrk_priv, conf) == 64, "one cache line");

#endif
