/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects.
 */
#include "sg_userobj.h"

#include "sg_core.h"
#include "sg_graph.h"
#include "sg_handle.h"

#include <limits.h>
#include <stdlib.h>

struct sg_user_object {
    uint64_t handle;
    uint64_t refs;
    CUhostFn destroy;
    void *ptr;
};

static void *
destroy_main(void *arg)
{
    struct sg_user_object *obj = arg;

    obj->destroy(obj->ptr);
    free(obj);
    return NULL;
}

static void
userobj_unref(struct sg_user_object *obj, uint64_t n)
{
    obj->refs -= n;
    if (obj->refs)
        return;
    sg_handle_drop(obj->handle);
    if (sg_thread_start(destroy_main, obj) < 0)
        free(obj); /* the application's data is lost: nobody may run its code here */
}

static struct sg_user_ref *
find_ref(struct sg_graph *graph, const struct sg_user_object *obj)
{
    for (size_t i = 0; i < graph->n_users; i++)
        if (graph->users[i].object == obj)
            return &graph->users[i];
    return NULL;
}

static CUresult
graph_retain(struct sg_graph *graph, struct sg_user_object *obj, unsigned count)
{
    struct sg_user_ref *ref = find_ref(graph, obj), *p;

    if (!ref) {
        p = realloc(graph->users, (graph->n_users + 1) * sizeof(*p));
        if (!p)
            return CUDA_ERROR_OUT_OF_MEMORY;
        graph->users = p;
        ref = &p[graph->n_users++];
        *ref = (struct sg_user_ref){.object = obj};
    }
    ref->count += count;
    return CUDA_SUCCESS;
}

CUresult
sg_userobj_share(const struct sg_graph *from, struct sg_graph *to)
{
    CUresult rc = CUDA_SUCCESS;

    for (size_t i = 0; i < from->n_users && rc == CUDA_SUCCESS; i++) {
        rc = graph_retain(to, from->users[i].object, from->users[i].count);
        if (rc == CUDA_SUCCESS)
            from->users[i].object->refs += from->users[i].count;
    }
    return rc;
}

void
sg_userobj_release_all(struct sg_graph *graph)
{
    for (size_t i = 0; i < graph->n_users; i++)
        userobj_unref(graph->users[i].object, graph->users[i].count);
    free(graph->users);
    graph->users = NULL;
    graph->n_users = 0;
}

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
    userobj_unref(obj, count);
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
    rc = graph_retain(g, obj, count);
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
    ref = g ? find_ref(g, obj) : NULL;
    if (!ref || count > ref->count)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ref->count -= count;
    if (!ref->count)
        *ref = g->users[--g->n_users];
    userobj_unref(obj, count);
    return sg_leave(CUDA_SUCCESS);
}
