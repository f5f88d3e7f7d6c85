/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks by which features of the worker run on every call, reply, wait and end of an
 * object, without the core (calls, contexts, waits, the loop) knowing any of them.
 *
 * There is one list for the process, wrk_hooks, in wrk_features.c: per occasion, the
 * functions in the order in which they run, ended by NULL.  It is constant, so nothing
 * can be entered at run time and a stray write cannot lead to a call.  On the hot path
 * an occasion is guarded by one test of a word that the feature sets; the list is read
 * only then.
 */
#ifndef WRK_HOOKS_H
#define WRK_HOOKS_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wire_req;
struct tls_keys;
struct wrk;

#define WRK_HOOKS_MAX 12 /* of one occasion, with the NULL */

typedef void wrk_hook(struct wrk *w);
typedef void wrk_frame_hook(struct wrk *w, const struct wire_req *req);
typedef void wrk_ctx_hook(struct wrk *w, uint32_t ctx_index);
typedef void wrk_stream_hook(struct wrk *w, const void *stream);
typedef CUcontext wrk_ctx_named_hook(struct wrk *w, CUcontext ctx);
typedef void wrk_peer_hook(uint32_t link, int fd, const struct tls_keys *tls);

struct wrk_poll_hook {
    bool (*pending)(const struct wrk *w);
    void (*poll)(struct wrk *w);
};

/* Around the end of a context: work of our own in other ones, which the driver does not
 * wait for, has ended and none begins until the second.  The first: a waiter thread, or
 * the receive thread if @may_wait is false; false then: it would have had to wait. */
struct wrk_ctx_end_hook {
    bool (*hold)(struct wrk *w, bool may_wait);
    void (*let_go)(void);
};

/* All on the receive thread but those that say otherwise. */
struct wrk_hooks {
    /* Before the next call, if before_call of struct wrk is set. */
    wrk_hook *before_call[WRK_HOOKS_MAX];
    /* Before a reply, while struct wrk_priv's before_reply is not 0; any thread that
     * may call the driver, with the send lock held. */
    wrk_hook *before_reply[WRK_HOOKS_MAX];
    /* Nothing is left to execute: the loop is about to wait for a frame. */
    wrk_hook *idle[WRK_HOOKS_MAX];
    /* Between frames, while struct wrk_priv has WRK_POLL_HOOKS set and one is pending.
     */
    struct wrk_poll_hook poll[WRK_HOOKS_MAX];
    /* A frame with WIRE_F_D2H_ASYNC has been executed. */
    wrk_frame_hook *d2h_async_end[WRK_HOOKS_MAX];
    /* A wait found that the current context has nothing left to do. */
    wrk_hook *ctx_idle[WRK_HOOKS_MAX];
    struct wrk_ctx_end_hook ctx_end;
    /* A context is gone with all that was in it; its objects have been forgotten. */
    wrk_ctx_hook *ctx_gone[WRK_HOOKS_MAX];
    /* The client's id of a stream is forgotten. */
    wrk_stream_hook *stream_gone[WRK_HOOKS_MAX];
    /* The context as the client knows it that stands for one of the driver's. */
    wrk_ctx_named_hook *ctx_named[WRK_HOOKS_MAX];
    /* The client's link has been replaced by another one; any thread. */
    wrk_hook *link_replaced[WRK_HOOKS_MAX];
    /* A function of the client was registered that work of the GPU will wait for. */
    wrk_hook *host_function[WRK_HOOKS_MAX];
    /* Such a function is due and the main connection cannot be had to say so; a thread
     * of the driver. */
    wrk_hook *host_urgent[WRK_HOOKS_MAX];
    /* The supervisor sent a connection of another worker, which is the hook's. */
    wrk_peer_hook *peer_arrived;
};

extern const struct wrk_hooks wrk_hooks;

static inline void
wrk_hooks_run(wrk_hook *const *list, struct wrk *w)
{
    for (; *list; list++)
        (*list)(w);
}

/* Has a poll hook something to do? */
static inline bool
wrk_hooks_pending(const struct wrk *w)
{
    for (const struct wrk_poll_hook *h = wrk_hooks.poll; h->poll; h++)
        if (h->pending(w))
            return true;
    return false;
}

#endif
