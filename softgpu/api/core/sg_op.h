/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One piece of asynchronous work and what it waits for.
 *
 * All work forms a graph: an operation becomes ready when everything it was
 * put after is done, and then runs on the lane of its class.  Streams, default
 * stream rules, event waits and graph launches are only ways to say "after".
 *
 * Reference counted.  The queue holds one reference from sg_op_submit() until
 * the operation is done; streams and events hold more.  Lock held for all
 * functions; which of the class's functions run with it is said below.
 */
#ifndef SG_OP_H
#define SG_OP_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;
struct sg_op;
struct sg_stream;

/* The queue of a card is finite: whoever would queue more waits.  A real one holds
 * about a thousand launches for each stream; this many take some 20 MiB. */
#define SG_OPS_MAX 32768u

enum sg_lane {
    SG_LANE_INLINE, /* run() with the lock held, at once: bookkeeping only */
    SG_LANE_COPY,   /* run() without the lock, on one of the two copy threads */
    SG_LANE_HOST,   /* run() without the lock, on a thread of its own: may block */
    SG_LANE_POLL,   /* run() with the lock held, again and again: SG_NOT_YET */
    SG_LANE_KERNEL, /* handed to the multiprocessors (sg_sm.c) */
};

/* No CUresult: a polled operation is not done yet. */
#define SG_NOT_YET ((CUresult)-1)

struct sg_op_class {
    const char *name;
    enum sg_lane lane;
    bool always; /* also run in a context that has a sticky error */
    CUresult (*run)(struct sg_op *op);
    void (*fini)(struct sg_op *op); /* lock held; frees all but @op's storage */
};

enum sg_op_state {
    SG_OP_NEW,
    SG_OP_WAITING,
    SG_OP_READY,
    SG_OP_DONE,
};

struct sg_op {
    const struct sg_op_class *class;
    struct sg_ctx *ctx;       /* reference */
    struct sg_stream *stream; /* NULL for graph-internal work; no reference */
    unsigned refs;
    enum sg_op_state state;
    unsigned n_deps;
    struct sg_op **succ;
    unsigned n_succ, cap_succ;
    CUresult result;
    uint64_t done_ns;
    int priority;
    bool has_priority;  /* its own, not the stream's */
    struct sg_op *next; /* in the queue of its lane */
};

/* @op is the first member of storage from calloc() that it now owns. */
void sg_op_init(struct sg_op *op, const struct sg_op_class *class, struct sg_ctx *ctx);
struct sg_op *sg_op_ref(struct sg_op *op); /* NULL passes through */
void sg_op_unref(struct sg_op *op);        /* NULL is a no-op */

/* Orders @op, not yet submitted, behind @dep (NULL or done: nothing to do). */
int sg_op_after(struct sg_op *op, struct sg_op *dep);
/* Starts it as soon as its dependencies allow. */
void sg_op_submit(struct sg_op *op);
/* A kernel ended (sg_sm.c). */
void sg_op_finish(struct sg_op *op, CUresult result);
/* Drops the lock while it waits; the caller holds a reference. */
void sg_op_wait(struct sg_op *op);

static inline bool
sg_op_is_done(const struct sg_op *op)
{
    return !op || op->state == SG_OP_DONE;
}

#endif
