/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's objects behind the ids of the client: the operations that calls perform
 * on the table of wrk_handle.h.  Receive thread only.  Not for what an object holds
 * (memory, events): features that keep something about an object register a hook for
 * its end.
 */
#ifndef WRK_OBJECT_H
#define WRK_OBJECT_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;

/* The driver's handle behind @id.  0 gives NULL and success (whether NULL is
 * allowed is for the driver to say); for streams 1 and 2 pass through as well.
 * Unknown: CUDA_ERROR_INVALID_HANDLE, or CUDA_ERROR_INVALID_CONTEXT for
 * contexts; *ret is then NULL. */
CUresult wrk_handle_get(struct wrk *w, unsigned kind, uint64_t id, void **ret);

/* The same for a call that needs a function: a kernel of a library (CUkernel), whose id
 * serves for both, gives its function in the current context.  A driver takes a kernel
 * for a function where it is launched and in questions of occupancy, nowhere else. */
CUresult wrk_func_get(struct wrk *w, uint64_t id, void **ret);

/* The id of a driver's function: that of the kernel where wrk_func_get() has given it
 * out.  0: it has none. */
uint64_t wrk_func_id_of(const struct wrk *w, const void *func);

/* Functions end with their context. */
void wrk_object_ctx_gone(struct wrk *w, uint32_t ctx_index);

/* Enter a new object under the id that the client allocated.  A malformed or
 * taken id ends the attachment (only a broken client sends one). */
void wrk_handle_put(struct wrk *w, unsigned kind, uint64_t id, void *obj);

/* The id under which the client knows @obj, for handles in answers: its own,
 * or one that the worker allocates (WIRE_INDEX_SERVER).  NULL gives 0, streams 1 and 2
 * themselves.  Green contexts are the client's alone: others give 0. */
uint64_t wrk_handle_name(struct wrk *w, unsigned kind, void *obj);

/* The function @func_id dies with the module or library @owner_id: when that id is
 * forgotten, so is this one, and a launch of it is refused before the driver sees it.
 */
void wrk_handle_of(struct wrk *w, uint64_t func_id, uint64_t owner_id);

/* Forget an id once the driver has destroyed (or refused to destroy) it. */
void wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id);

#endif
