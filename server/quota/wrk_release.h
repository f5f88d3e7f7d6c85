/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases of objects that the GPU may still use.
 *
 * Drivers wait for a context, or for all of them, before they free memory, unload a
 * module or destroy an array, and that work may in turn wait for a frame that has not
 * been received yet.  The context need not be the current one: an object may be given
 * back in any.  So while any context is busy a release is put into the queue of the
 * current one, which one waiter thread executes in order; if the client does not wait
 * for the call, its result is returned with a later one.  A queue exists while it is
 * not empty.
 *
 * Receive thread only, except for the jobs themselves, which waiter threads run.
 */
#ifndef WRK_RELEASE_H
#define WRK_RELEASE_H

#include "wrk_ctx_jobs.h"

#include <stdbool.h>
#include <stdint.h>

/* Releases of an attachment that wait, all contexts together, each some 150 bytes.  The
 * client waits for an answer every WIRE_RELEASES_POSTED, so it takes more than sixteen
 * busy contexts to get here: the attachment ends. */
#define WRK_RELEASES_MAX (16u * WIRE_RELEASES_POSTED)

/* What to do: @fn with @obj and @size. */
struct wrk_release_what {
    CUresult (*fn)(struct wrk *w, uint64_t obj, uint64_t size);
    uint64_t obj, size;
    /* the bytes that the quota has noted for it are given back; 0: none */
    uint64_t key;
    uint64_t id; /* the handle that ends; 0: none, or the caller has forgotten it */
    uint64_t module_id; /* and the one of a library's module */
    /* What else is known of @obj ends; NULL: nothing.  Receive thread. */
    void (*forget)(struct wrk *w, const void *obj);
};

/* Must a release of something of the current context wait, or be behind one that does?
 */
bool wrk_release_must_wait(struct wrk *w);

/* Into the queue of the current context; takes the answer over from @rep.  When it has
 * been done, its run() calls wrk_release_done() before it answers.  False when there
 * are too many: the attachment ends, and the object is still the caller's. */
bool wrk_release_queue(struct wrk *w, struct wrk_reply *rep, struct wrk_ctx_job *job);
void wrk_release_done(struct wrk *w);

/* Do it now or soon.  What the driver may refuse to release is released now: its handle
 * stays valid then. */
CUresult wrk_release(struct wrk *w, struct wrk_reply *rep,
                     const struct wrk_release_what *what);

#endif
