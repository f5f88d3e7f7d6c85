/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts in the worker: which one is current, and to which slice it belongs.
 *
 * A frame names its context by index; entry 1 + d of the handle table is the primary
 * context of device d once it has been retained.  Receive thread only, except for
 * wrk_ctx_enter().
 */
#ifndef WRK_CTX_H
#define WRK_CTX_H

#include "cuda_abi.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Make context @index current on the reader thread.  One that was made from a green
 * context counts as the primary context of its device, to which all that is made in it
 * belongs: w->ctx_index is that one's. */
CUresult wrk_ctx_use(struct wrk *w, uint32_t index);

/* The driver's handle of the context that is current now; NULL if none. */
CUcontext wrk_ctx_current(struct wrk *w);

/* The index of the context in which the client made @stream; of the current one for
 * streams that it did not make.  Reader thread. */
uint32_t wrk_ctx_of_stream(const struct wrk *w, const void *stream);

/* The slice (= device ordinal) of context @index; 0 when it is unknown. */
uint32_t wrk_ctx_slice(struct wrk *w, uint32_t index);

/* The id of the primary context of @device, and its index. */
uint64_t wrk_ctx_primary_id(const struct wrk *w, CUdevice device);
uint32_t wrk_ctx_primary(const struct wrk *w, CUdevice device);

/* Enter a new context of @device under @id. */
void wrk_ctx_put(struct wrk *w, uint64_t id, CUcontext ctx, CUdevice device);

/* The context that the worker named @id was made from a green context of @device:
 * frames may name it while the primary context lives.  It has to end before the driver
 * ends the green context. */
void wrk_ctx_put_green(struct wrk *w, uint64_t id, CUdevice device);
void wrk_ctx_end_green(struct wrk *w, uint64_t id);

/* The context is gone with all that was in it: forget its objects, give back
 * its memory. */
void wrk_ctx_gone(struct wrk *w, uint64_t id);

/* All objects that live and die with context @index. */
void wrk_ctx_objects(struct wrk *w, uint32_t index,
                     void (*fn)(struct wrk *w, enum wire_kind kind, void *obj));

/* How many there are, those made from green contexts included, which have default
 * streams of their own.  The reader's. */
unsigned wrk_ctx_count(void);

/* The index of the next one after context @index, or with 0 of the first; 0 when there
 * is none: all that frames may name.  Receive thread. */
uint32_t wrk_ctx_next(const struct wrk *w, uint32_t index);

/* Changes when a context begins to die and when it is dead; any thread. */
unsigned wrk_ctx_epoch(void);
void wrk_ctx_dies(void);

/* Between these two some context is current, for questions that a driver answers only
 * in one though the client's call needs none: what a kernel of a library is like.  Any
 * context of the session, or, while it has none, the first device's primary one.
 * Receive thread. */
struct wrk_ctx_lent {
    bool current, retained;
};
void wrk_ctx_lend(struct wrk *w, struct wrk_ctx_lent *ret);
void wrk_ctx_take_back(struct wrk *w, const struct wrk_ctx_lent *lent);

/* On a waiter thread: make @ctx current there unless it is already. */
void wrk_ctx_enter(struct wrk *w, CUcontext ctx);

#endif
