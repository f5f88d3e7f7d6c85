/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuTexObject* and cuSurfObject*.
 */
#include "sg_texobj.h"

#include "gp_hash.h"
#include "gp_table.h"

#include "sg_check.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_stream.h"
#include "sg_texdesc.h"

#include "sg_exec.h"
#include "sg_tex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct texobj {
    struct sg_ctx *ctx; /* no reference: the context owns it */
    uint64_t handle;    /* of the executor's table, and the caller's */
    bool surface;
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC tex;
    CUDA_RESOURCE_VIEW_DESC view;
    bool has_view;
};

GP_TABLE_TYPE(objects, struct texobj *);

static inline bool
objects_used(struct texobj *const *e)
{
    return *e != NULL;
}

static inline uint32_t
objects_hash(uint64_t handle)
{
    return (uint32_t)gp_hash_u64(handle);
}

static inline uint32_t
objects_hash_of(struct texobj *const *e)
{
    return objects_hash((*e)->handle);
}

static inline bool
objects_is(struct texobj *const *e, uint64_t handle)
{
    return (*e)->handle == handle;
}

GP_TABLE(objects, struct texobj *, uint64_t)

static struct objects objects; /* by handle; lock held */

/* --------------------------------------------------------------------- objects */

static CUresult
object_new(struct sg_ctx *ctx, const CUDA_RESOURCE_DESC *res,
           const CUDA_TEXTURE_DESC *tex, const CUDA_RESOURCE_VIEW_DESC *view,
           uint64_t *ret_handle)
{
    struct texobj *o;
    struct sg_tex t;
    CUresult rc = sg_texdesc_make(res, tex, view, &t);
    int r;

    if (rc != CUDA_SUCCESS)
        return rc;
    o = calloc(1, sizeof(*o));
    if (!o || objects_room(&objects) < 0) {
        free(o);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r = sg_tex_register(&t, &o->handle);
    if (r < 0) {
        free(o);
        return r == -ENOSPC ? CUDA_ERROR_OUT_OF_MEMORY : sg_result(r);
    }
    o->ctx = ctx;
    o->surface = !tex;
    o->res = *res;
    if (tex)
        o->tex = *tex;
    if (view)
        o->view = *view;
    o->has_view = view != NULL;
    *objects_enter(&objects, o->handle) = o;
    *ret_handle = o->handle;
    return CUDA_SUCCESS;
}

static struct texobj *
object_find(uint64_t handle, bool surface)
{
    struct texobj **at = objects_find(&objects, handle);

    return at && (*at)->surface == surface ? *at : NULL;
}

static void
object_remove(struct texobj *o)
{
    objects_remove(&objects, objects_find(&objects, o->handle));
}

static void
object_free(struct texobj *o)
{
    object_remove(o);
    sg_tex_unregister(o->handle);
    free(o);
}

/* Kernels may be given its handle even now (sg_tex.h); whoever checks a program is
 * told. Drops the lock. */
static void
object_retire(struct texobj *o)
{
    struct sg_tex_slot *expired;

    if (sg_check_flags() & SG_CHECK_FAULTS) {
        object_free(o);
        return;
    }
    object_remove(o);
    if (sg_tex_retire(o->handle)) {
        expired = sg_tex_expire();
        if (sg_mem_flush_views() == 0)
            sg_tex_reuse(expired);
    }
    free(o);
}

void
sg_texobj_detach_ctx(struct sg_ctx *ctx)
{
    for (uint32_t i = 0; i < objects.cap;) {
        struct texobj *o = objects.slots[i];

        if (o && o->ctx == ctx)
            object_free(o); /* another one may be in its place */
        else
            i++;
    }
}

/* A card's driver takes what is no object, or is one no more, without an error, and
 * programs destroy objects twice (COLMAP). */
static CUresult
object_destroy(uint64_t handle, bool surface)
{
    struct texobj *o;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!object_find(handle, surface))
        return sg_leave(CUDA_SUCCESS);
    sg_streams_synchronize_all(); /* kernels may still read it; drops the lock */
    o = object_find(handle, surface);
    if (o)
        object_retire(o);
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
enter_object(uint64_t handle, bool surface, const void *out, struct texobj **ret)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = object_find(handle, surface);
    return *ret && out ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuTexObjectCreate, CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
        const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    struct sg_ctx *ctx;
    uint64_t handle;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pTexObject || !pResDesc || !pTexDesc)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = object_new(ctx, pResDesc, pTexDesc, pResViewDesc, &handle);
    if (rc == CUDA_SUCCESS)
        *pTexObject = handle;
    return sg_leave(rc);
}

SG_CALL(cuTexObjectDestroy, CUtexObject texObject)
{
    return object_destroy(texObject, false);
}

SG_CALL(cuTexObjectGetResourceDesc, CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    struct texobj *o;
    CUresult rc = enter_object(texObject, false, pResDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pResDesc = o->res;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuTexObjectGetTextureDesc, CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
    struct texobj *o;
    CUresult rc = enter_object(texObject, false, pTexDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pTexDesc = o->tex;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuTexObjectGetResourceViewDesc, CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
        CUtexObject texObject)
{
    struct texobj *o;
    CUresult rc = enter_object(texObject, false, pResViewDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!o->has_view)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pResViewDesc = o->view;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuSurfObjectCreate, CUsurfObject *pSurfObject,
        const CUDA_RESOURCE_DESC *pResDesc)
{
    struct sg_ctx *ctx;
    uint64_t handle;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pSurfObject || !pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = object_new(ctx, pResDesc, NULL, NULL, &handle);
    if (rc == CUDA_SUCCESS)
        *pSurfObject = handle;
    return sg_leave(rc);
}

SG_CALL(cuSurfObjectDestroy, CUsurfObject surfObject)
{
    return object_destroy(surfObject, true);
}

SG_CALL(cuSurfObjectGetResourceDesc, CUDA_RESOURCE_DESC *pResDesc,
        CUsurfObject surfObject)
{
    struct texobj *o;
    CUresult rc = enter_object(surfObject, true, pResDesc, &o);

    if (rc != CUDA_SUCCESS)
        return rc;
    *pResDesc = o->res;
    return sg_leave(CUDA_SUCCESS);
}
