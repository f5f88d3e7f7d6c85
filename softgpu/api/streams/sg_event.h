/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event: the operation that last recorded it, whose end is its time.
 *
 * Owned by its context's list.  Lock held for all functions.
 */
#ifndef SG_EVENT_H
#define SG_EVENT_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "sg_deps.h"

#include <stdint.h>

struct sg_ctx;
struct sg_ipc_event;
struct sg_work;
struct sg_stream;

struct sg_event {
    uint64_t handle;
    struct sg_ctx *ctx;          /* no reference: the context owns the event */
    struct sg_event *next, **at; /* in its context's list */
    unsigned flags;
    struct sg_work *record; /* reference; NULL: never recorded */
    /* Recorded inside a stream capture: the nodes it stands for. */
    uint64_t capture_id;
    struct sg_deps capture_deps;
    struct sg_ipc_event *ipc; /* shared with other processes; NULL: not yet */
    bool opened;              /* by cuIpcOpenEventHandle: it is another process's */
};

/* With the lock held.  Work that waits for an event that is destroyed goes on. */
CUresult sg_event_new(struct sg_ctx *ctx, unsigned flags, struct sg_event **ret_event);
void sg_event_destroy(struct sg_event *event);

/* Records in stream order; also used by graph nodes. */
CUresult sg_event_record(struct sg_event *event, struct sg_stream *stream);
/* Records the end of what is now in all streams of @ctx, or only in those of one
 * green context (its handle; 0: all). */
CUresult sg_event_record_all(struct sg_event *event, struct sg_ctx *ctx,
                             uint64_t green);
/* An operation that ends when the event's record at this moment does. */
CUresult sg_event_wait(struct sg_stream *stream, struct sg_event *event);

#endif
