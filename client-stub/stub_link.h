/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one attachment of this process: its phase, its connection, its snapshot.
 *
 * There is one struct stub_link, made ready by the first call that needs a server and
 * never torn down: runtimes call into the driver from their own exit handlers, after
 * ours would have run.  A link that died stays dead.  `send` guards everything about
 * writing, `wait` everything about reading; send is taken before wait, never after.
 * What a CUDA call means is not known here.
 */
#ifndef STUB_LINK_H
#define STUB_LINK_H

#include "cuda_abi.h"
#include "stub_lock.h"

#include <stdatomic.h>
#include <stdbool.h>
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

struct stub_link {
    _Atomic uint32_t phase;
    _Atomic int32_t failure; /* what calls return in FAILED and LOST */
    struct xport_conn *conn;
    const struct Gpupool__AttachReply *attach;

    struct stub_lock send;
    _Atomic uint32_t seq;     /* of the last frame; written under send */
    _Atomic uint32_t queued;  /* bytes in the send buffer; written under send */
    _Atomic uint32_t flushes; /* how often it was emptied; written under send */

    struct stub_lock wait;
    bool leading;              /* somebody reads the connection */
    struct stub_call *waiting; /* calls without their answer yet */
};

extern struct stub_link stub_link;

/* Attach if nobody has yet.  On failure one line on stderr, once per process. */
CUresult stub_link_open(void);

/* After cuInit: calls may be made. */
void stub_link_set_ready(void);

/* The link is dead: remember it, and release every waiting call with an error.
 * @why goes to the log, once.  Takes wait; the caller may hold send. */
CUresult stub_link_lose(const char *why);

/* What a call returns when the phase is not READY. */
CUresult stub_link_refusal(void);

static inline bool
stub_link_ready(void)
{
    return likely(atomic_load_explicit(&stub_link.phase, memory_order_acquire) ==
                  STUB_READY);
}

#endif
