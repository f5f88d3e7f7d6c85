/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: what a caller holds instead of a pointer.
 *
 * A handle names a slot and the generation of that slot, and the kind of object
 * it was made for, so that a stale, foreign or invented one is found out and
 * never dereferenced.  Handles are no canonical addresses: a caller that
 * dereferences one crashes at once.
 *
 * The table owns nothing: an object drops its own handle before it goes away.
 * Lock held for all of them.
 */
#ifndef SG_HANDLE_H
#define SG_HANDLE_H

#include <stdint.h>

enum sg_kind {
    SG_KIND_NONE,
    SG_KIND_CTX,
    SG_KIND_STREAM,
    SG_KIND_EVENT,
    SG_KIND_MODULE,
    SG_KIND_FUNC,
    SG_KIND_LIBRARY,
    SG_KIND_KERNEL,
    SG_KIND_POOL,
    SG_KIND_PHYS, /* cuMemCreate */
    SG_KIND_ARRAY,
    SG_KIND_MIPMAP,
    SG_KIND_TEX,
    SG_KIND_SURF,
    SG_KIND_TEXREF,
    SG_KIND_SURFREF,
    SG_KIND_LINK,
    SG_KIND_GRAPH,
    SG_KIND_NODE,
    SG_KIND_EXEC,
    SG_KIND_USEROBJ,
    SG_KIND_GREEN,
    SG_KIND_COND,
    SG_KIND_DESC,
    SG_KIND_LOGCB,
    SG_KIND_ASYNCCB,
    SG_N_KINDS,
};

/* 0 when there is no memory for one more. */
uint64_t sg_handle_new(enum sg_kind kind, void *obj);
/* NULL when the handle is not a live one of that kind. */
void *sg_handle_get(enum sg_kind kind, uint64_t handle);
/* Makes a live handle name another object, or none (NULL): primary contexts keep
 * their handle over their whole life and its repetitions. */
void sg_handle_set(uint64_t handle, void *obj);
void sg_handle_drop(uint64_t handle);         /* 0 is a no-op */
enum sg_kind sg_handle_kind(uint64_t handle); /* SG_KIND_NONE if not alive */

#define SG_OBJ(type, kind, handle)                                                     \
    ((struct type *)sg_handle_get(kind, (uint64_t)(uintptr_t)(handle)))

#endif
