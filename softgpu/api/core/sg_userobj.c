/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects.
 */
#include "sg_userobj.h"

#include "gp_base.h"
#include "sg_core.h"
#include "sg_handle.h"

#include <stdbool.h>
#include <stdlib.h>

static void *
destroy_main(void *arg)
{
    struct sg_user_object *obj = arg;

    obj->destroy(obj->ptr);
    free(obj);
    return NULL;
}

void
sg_userobj_unref(struct sg_user_object *obj, uint64_t n)
{
    obj->refs -= n;
    if (obj->refs)
        return;
    sg_handle_drop(obj->handle);
    if (sg_thread_start(destroy_main, obj) < 0)
        free(obj); /* the application's data is lost: nobody may run its code here */
}

struct sg_user_ref *
sg_userobj_find(struct sg_user_refs *refs, const struct sg_user_object *obj)
{
    for (size_t i = 0; i < refs->n; i++)
        if (refs->list[i].object == obj)
            return &refs->list[i];
    return NULL;
}

CUresult
sg_userobj_retain(struct sg_user_refs *refs, struct sg_user_object *obj, unsigned count)
{
    struct sg_user_ref *ref = sg_userobj_find(refs, obj), *p;
    bool full = (refs->n & (refs->n - 1)) == 0; /* 0, or a power of two */

    if (!ref && full) {
        p = realloc(refs->list, gp_max(2 * refs->n, (size_t)1) * sizeof(*p));
        if (!p)
            return CUDA_ERROR_OUT_OF_MEMORY;
        refs->list = p;
    }
    if (!ref) {
        ref = &refs->list[refs->n++];
        *ref = (struct sg_user_ref){.object = obj};
    }
    ref->count += count;
    return CUDA_SUCCESS;
}

CUresult
sg_userobj_share(const struct sg_user_refs *from, struct sg_user_refs *to)
{
    CUresult rc = CUDA_SUCCESS;

    for (size_t i = 0; i < from->n && rc == CUDA_SUCCESS; i++) {
        rc = sg_userobj_retain(to, from->list[i].object, from->list[i].count);
        if (rc == CUDA_SUCCESS)
            from->list[i].object->refs += from->list[i].count;
    }
    return rc;
}

void
sg_userobj_release_all(struct sg_user_refs *refs)
{
    for (size_t i = 0; i < refs->n; i++)
        sg_userobj_unref(refs->list[i].object, refs->list[i].count);
    free(refs->list);
    refs->list = NULL;
    refs->n = 0;
}
