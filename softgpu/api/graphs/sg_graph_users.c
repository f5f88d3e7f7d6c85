/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on user objects.
 */
#include "sg_core.h"
#include "sg_graph.h"
#include "sg_handle.h"
#include "sg_userobj.h"

#include <limits.h>
#include <stdlib.h>

SG_CALL(cuUserObjectCreate, CUuserObject *object_out, void *ptr, CUhostFn destroy,
        unsigned int initialRefcount, unsigned int flags)
{
    struct sg_user_object *obj;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!object_out || !destroy || !initialRefcount || initialRefcount > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    obj = calloc(1, sizeof(*obj));
    if (obj)
        obj->handle = sg_handle_new(SG_KIND_USEROBJ, obj);
    if (!obj || !obj->handle) {
        free(obj);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    obj->refs = initialRefcount;
    obj->destroy = destroy;
    obj->ptr = ptr;
    *object_out = (CUuserObject)(uintptr_t)obj->handle;
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
enter_object(CUuserObject handle, unsigned count, struct sg_user_object **ret_obj)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_obj = SG_OBJ(sg_user_object, SG_KIND_USEROBJ, handle);
    if (!*ret_obj || !count || count > INT_MAX)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

SG_CALL(cuUserObjectRetain, CUuserObject object, unsigned int count)
{
    struct sg_user_object *obj;
    CUresult rc = enter_object(object, count, &obj);

    if (rc != CUDA_SUCCESS)
        return rc;
    obj->refs += count;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuUserObjectRelease, CUuserObject object, unsigned int count)
{
    struct sg_user_object *obj;
    CUresult rc = enter_object(object, count, &obj);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (count > obj->refs)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sg_userobj_unref(obj, count);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuGraphRetainUserObject, CUgraph graph, CUuserObject object, unsigned int count,
        unsigned int flags)
{
    struct sg_user_object *obj;
    struct sg_graph *g;
    CUresult rc = enter_object(object, count, &obj);

    if (rc != CUDA_SUCCESS)
        return rc;
    g = SG_OBJ(sg_graph, SG_KIND_GRAPH, graph);
    if (!g || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE ||
        (flags && count > obj->refs))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_userobj_retain(&g->users, obj, count);
    if (rc == CUDA_SUCCESS && !flags) /* moved references were the caller's */
        obj->refs += count;
    return sg_leave(rc);
}

SG_CALL(cuGraphReleaseUserObject, CUgraph graph, CUuserObject object,
        unsigned int count)
{
    struct sg_user_object *obj;
    struct sg_user_ref *ref;
    struct sg_graph *g;
    CUresult rc = enter_object(object, count, &obj);

    if (rc != CUDA_SUCCESS)
        return rc;
    g = SG_OBJ(sg_graph, SG_KIND_GRAPH, graph);
    ref = g ? sg_userobj_find(&g->users, obj) : NULL;
    if (!ref || count > ref->count)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ref->count -= count;
    if (!ref->count)
        *ref = g->users.list[--g->users.n];
    sg_userobj_unref(obj, count);
    return sg_leave(CUDA_SUCCESS);
}
