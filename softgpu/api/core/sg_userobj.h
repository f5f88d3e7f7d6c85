/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: counted data of the application that graphs keep alive.
 *
 * The destructor is the application's; it runs on a thread of the library,
 * without any lock.  Lock held for all functions.
 */
#ifndef SG_USEROBJ_H
#define SG_USEROBJ_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct sg_user_object {
    uint64_t handle;
    uint64_t refs;
    CUhostFn destroy;
    void *ptr;
};

struct sg_user_ref {
    struct sg_user_object *object;
    unsigned count;
};

/* What one graph holds. */
struct sg_user_refs {
    struct sg_user_ref *list;
    size_t n;
};

/* Counts @count more in the list; the object's own count is the caller's business. */
CUresult sg_userobj_retain(struct sg_user_refs *refs, struct sg_user_object *obj,
                           unsigned count);
struct sg_user_ref *sg_userobj_find(struct sg_user_refs *refs,
                                    const struct sg_user_object *obj);
void sg_userobj_unref(struct sg_user_object *obj, uint64_t n);
/* A clone holds what the original holds. */
CUresult sg_userobj_share(const struct sg_user_refs *from, struct sg_user_refs *to);
void sg_userobj_release_all(struct sg_user_refs *refs);

#endif
