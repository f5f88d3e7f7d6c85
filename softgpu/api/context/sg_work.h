/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A work item: one piece of asynchronous work and what it waits for.
 *
 * All asynchronous work of the process is one graph.  An item becomes ready when
 * everything it was put after has ended, and then runs on the queue of its class.
 * Streams, the rules of the default streams, event waits and graph launches only add
 * edges.
 *
 * Items are reference counted.  The queue holds one reference from sg_work_submit()
 * until the item has ended; streams and events hold more.  All functions are called
 * with the lock held; which functions of a class run with it is said at enum sg_queue.
 */
#ifndef SG_WORK_H
#define SG_WORK_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;
struct sg_work;
struct sg_stream;

/* Items that may be pending; a call that would queue more waits.  A real card holds
 * about a thousand launches for each stream; this many items take some 20 MiB. */
#define SG_WORK_MAX 32768u

enum sg_queue {
    SG_QUEUE_INLINE, /* run() with the lock held, at once: bookkeeping only */
    SG_QUEUE_COPY,   /* run() without the lock, on one of the two copy threads */
    SG_QUEUE_HOST,   /* run() without the lock, on a thread of its own: may block */
    SG_QUEUE_POLL,   /* run() with the lock held, again and again: SG_NOT_YET */
    SG_QUEUE_OTHER,  /* submit() hands it to somebody who calls sg_work_finish() */
};

/* What run() of a polled item returns while it has not ended; not a CUresult. */
#define SG_NOT_YET ((CUresult)-1)

struct sg_work_class {
    const char *name;
    enum sg_queue queue;
    bool always; /* also run in a context that has a sticky error */
    void (*submit)(struct sg_work *work); /* SG_QUEUE_OTHER: hands it over */
    CUresult (*run)(struct sg_work *work);
    void (*fini)(struct sg_work *work); /* lock held; frees all but @work's storage */
};

enum sg_work_state {
    SG_WORK_NEW,
    SG_WORK_WAITING,
    SG_WORK_READY,
    SG_WORK_DONE,
};

struct sg_work {
    const struct sg_work_class *class;
    struct sg_ctx *ctx;       /* reference */
    struct sg_stream *stream; /* NULL for graph-internal work; no reference */
    void (*ended)(struct sg_work *work); /* lock held; for the stream; may be NULL */
    unsigned refs;
    enum sg_work_state state;
    unsigned n_deps;
    struct sg_work **succ;
    unsigned n_succ, cap_succ;
    CUresult result;
    uint64_t done_ns;
    int priority;
    bool has_priority;    /* its own, not the stream's */
    struct sg_work *next; /* in the queue of its queue */
};

/* @work is the first member of storage from calloc() that it now owns. */
void sg_work_init(struct sg_work *work, const struct sg_work_class *class,
                  struct sg_ctx *ctx);
struct sg_work *sg_work_ref(struct sg_work *work); /* NULL passes through */
void sg_work_unref(struct sg_work *work);          /* NULL is a no-op */

/* Orders @work, not yet submitted, behind @dep (NULL or done: nothing to do). */
int sg_work_after(struct sg_work *work, struct sg_work *dep);
/* Starts it as soon as its dependencies allow. */
void sg_work_submit(struct sg_work *work);
/* An item of SG_QUEUE_OTHER has ended. */
void sg_work_finish(struct sg_work *work, CUresult result);
/* Drops the lock while it waits; the caller holds a reference. */
void sg_work_wait(struct sg_work *work);

/* As sg_enter(), for calls that queue work: waits while SG_WORK_MAX items are pending.
 */
CUresult sg_enter_work(struct sg_ctx **ret_ctx);

static inline bool
sg_work_is_done(const struct sg_work *work)
{
    return !work || work->state == SG_WORK_DONE;
}

#endif
