/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attachments of this process, one per server of its session: phase, connection,
 * snapshot.
 *
 * Most sessions have one server.  All links are made ready together, by the first call
 * that needs a server, and never torn down: runtimes call into the driver from their
 * own exit handlers, after ours would have run.  A link that died stays dead; the
 * others go on.  `send` guards everything about writing, `wait` everything about
 * reading; send is taken before wait, never after, and nobody holds locks of two links.
 *
 * A call goes to the link of the thread's current context, stub_link_here(); what makes
 * that the right one for arguments of another server is stub_detour.h.  What a CUDA
 * call means is not known here.
 */
#ifndef STUB_LINK_H
#define STUB_LINK_H

#include "cuda_abi.h"
#include "gp_lock.h"
#include "stub_aside.h"
#include "stub_tls.h"
#include "wire_format.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Gpupool__AttachReply;
struct stub_call;
struct xport_conn;

enum stub_phase {
    STUB_COLD,   /* no server asked yet */
    STUB_LINKED, /* attached, cuInit not called (cuDriverGetVersion was) */
    STUB_READY,  /* cuInit succeeded */
    STUB_FAILED, /* no server; every cuInit says so */
    STUB_FORKED, /* a child of the process that attached */
    STUB_LOST,   /* the connection or the worker died */
    STUB_GONE,   /* the library's destructor ran */
};

/* As many as a handle can tell apart, and as a session can have cards. */
#define STUB_LINKS_MAX WIRE_LINKS_MAX

struct stub_link {
    /* What every call touches, in one cache line. */
    _Alignas(64) struct xport_conn *conn;
    _Atomic(struct stub_call *) waiting; /* calls without their answer; under wait */
    _Atomic uint32_t phase;
    struct gp_lock send;
    _Atomic uint32_t seq;     /* of the last frame; written under send */
    _Atomic uint32_t queued;  /* bytes in the send buffer; written under send */
    _Atomic uint32_t flushes; /* how often it was emptied; written under send */
    _Atomic uint32_t failed;  /* contexts with a sticky error: stub_sticky.h */
    struct stub_aside aside;  /* what gathers while somebody sends; under send */
    struct gp_lock wait;
    atomic_bool leading; /* somebody reads the connection, or is about to */

    uint32_t number;         /* in stub_links, and in the handles of its objects */
    uint32_t device_base;    /* devices of the links before it */
    _Atomic int32_t failure; /* what calls return in FAILED and LOST */
    const struct Gpupool__AttachReply *attach;
    _Atomic uint32_t flush_asleep; /* stub_flush.h */
    _Atomic uint32_t landing;      /* copies under way that nobody waits for */
    int doze_fd;                   /* eventfd that ends the flusher's sleep */
    uint32_t releases;             /* posted since one was waited for; under send */
    bool hung_up;                  /* the worker is gone; the flusher's */
    struct gp_lock lose;           /* one thread finds out why the link ended */
    char *address;                 /* of the server, as it was reached; may be NULL */

    _Atomic int32_t relay_error; /* stub_relay.h */
    _Atomic uint64_t moved;      /* bytes of payloads, until lanes are settled */
    _Atomic bool lanes_settled;  /* stub_lanes.h: nothing more to decide */
};
static_assert(offsetof(struct stub_link, number) == 64, "one cache line");

extern struct stub_link stub_links[STUB_LINKS_MAX];

/* How many of them the session has; 1 until it is known. */
extern uint32_t stub_links_n;

/* Attach to every server if nobody has yet.  On failure one line on stderr, once per
 * process. */
CUresult stub_link_open(void);

/* After cuInit: calls may be made. */
void stub_link_set_ready(void);

/* The link is dead: remember it, and release every waiting call with an error.
 * @why goes to the log, once.  Takes wait; the caller may hold send. */
CUresult stub_link_lose(struct stub_link *link, const char *why);

/* The same where the transport has failed with @r (-errno): finds out why. */
CUresult stub_link_broken(struct stub_link *link, int r);

/* What a call returns when the phase is not READY. */
CUresult stub_link_refusal(const struct stub_link *link);

/* Did the worker say, attaching, that it has this of its own? */
bool stub_link_can(const struct stub_link *link, const char *capability);

/* What all servers' drivers can: the oldest version among them. */
int stub_link_driver_version(void);

/* May the process make calls to some server?  For what concerns none in particular. */
CUresult stub_link_enter_any(void);

/* The link of the calling thread's current context; without one, the first. */
static inline struct stub_link *
stub_link_here(void)
{
    return stub_tls.link;
}

static inline bool
stub_link_ready(const struct stub_link *link)
{
    return likely(atomic_load_explicit(&link->phase, memory_order_acquire) ==
                  STUB_READY);
}

#endif
