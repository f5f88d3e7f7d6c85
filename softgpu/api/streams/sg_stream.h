/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream: the last operation put into it, and which rules apply to it.
 *
 * Default stream rules are edges: work in the legacy stream comes after the
 * last operation of every blocking stream, and work in a blocking stream after
 * the last of the legacy stream.  Copies between contexts are barriers: they come
 * after all work of the contexts, and all later work after them.
 *
 * Owned by its context's list.  A destroyed stream loses its handle at once
 * and goes away with its last operation.  Lock held for all functions.
 */
#ifndef SG_STREAM_H
#define SG_STREAM_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "sg_deps.h"
#include "sg_sm_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_capture;
struct sg_ctx;
struct sg_work;

enum sg_stream_kind {
    SG_STREAM_NORMAL,
    SG_STREAM_LEGACY_KIND,
    SG_STREAM_THREAD, /* one per (context, thread) */
};

struct sg_stream {
    uint64_t handle;
    unsigned refs;
    struct sg_ctx *ctx;           /* no reference: the context owns the stream */
    struct sg_stream *next, **at; /* of the context */
    enum sg_stream_kind kind;
    bool non_blocking;
    bool dead;
    bool kept; /* dead, and listed until its work is done */
    int priority;
    uint64_t id;
    uint64_t thread;            /* SG_STREAM_THREAD: whose */
    struct sg_work *last;       /* reference; NULL or not done */
    struct sg_capture *capture; /* NULL when not capturing */
    struct sg_deps capture_deps;
    CUsynchronizationPolicy sync_policy;
    CUaccessPolicyWindow window;
    CUlaunchMemSyncDomainMap domain_map;
    CUlaunchMemSyncDomain domain;
    uint64_t green;       /* handle of the green context it was made for, or 0 */
    struct sg_sm_set sms; /* where its kernels run */
};

CUresult sg_stream_new(struct sg_ctx *ctx, enum sg_stream_kind kind, unsigned flags,
                       int priority, struct sg_stream **ret_stream);
/* Work that is in it goes on, and the context waits for it as for that of other
 * streams. Destroyed once more, by the end of its context, it is forgotten at once. */
void sg_stream_destroy(struct sg_stream *stream);
struct sg_stream *sg_stream_ref(struct sg_stream *stream);
void sg_stream_unref(struct sg_stream *stream); /* NULL is a no-op */

/* The stream a handle means for the calling thread: NULL and 1 are the legacy
 * stream of @ctx, 2 is the thread's own.  CUDA_ERROR_INVALID_HANDLE: none;
 * CUDA_ERROR_INVALID_CONTEXT: of another context than @ctx. */
CUresult sg_stream_get(struct sg_ctx *ctx, CUstream handle,
                       struct sg_stream **ret_stream);

/* Puts @work at the end, also behind @extra; takes over the caller's reference,
 * also on failure. */
CUresult sg_stream_enqueue(struct sg_stream *stream, struct sg_work *work,
                           struct sg_work *extra);
/* The same behind all that is in the streams of @ctxs, and in front of all that is put
 * there later. */
CUresult sg_stream_enqueue_barrier(struct sg_stream *stream, struct sg_work *work,
                                   struct sg_ctx *const *ctxs, size_t n);
/* Puts @work at the end and waits for its end; returns its result or the context's
 * error. */
CUresult sg_stream_enqueue_wait(struct sg_stream *stream, struct sg_work *work);
/* True when an operation put there now could start at once. */
bool sg_stream_is_idle(const struct sg_stream *stream);

/* Work of the green context may be in it: it is one of its own, or a default stream,
 * which it shares with the primary context.  0: all of that one. */
bool sg_stream_serves(const struct sg_stream *stream, uint64_t green);
/* True when there is no work in any stream of @ctx, nor a barrier. */
bool sg_streams_are_idle(const struct sg_ctx *ctx);
/* True while a barrier holds up what is put into the stream. */
bool sg_stream_is_barred(const struct sg_stream *stream);
/* Waits for what is in the stream now, and for a barrier. */
CUresult sg_stream_synchronize(struct sg_stream *stream);

/* Waits until everything that was put into the streams of @ctx is done; its error. */
CUresult sg_streams_synchronize(struct sg_ctx *ctx);
/* The same for every context of the process. */
void sg_streams_synchronize_all(void);

/* @fn is called when a stream is destroyed that has a part in a capture. */
void sg_stream_on_leaving_capture(void (*fn)(struct sg_stream *stream));

#endif
