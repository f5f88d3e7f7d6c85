/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuTexRef*, cuSurfRef*: see sg_texref.h.
 *
 * A reference that is bound to a resource is registered with the executor like an
 * object, and bound again at every change.  Kernels read the binding when they run, so
 * a change waits for those that were launched before.
 */
#include "sg_texref.h"

#include "gp_list.h"
#include "sg_array.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_format.h"
#include "sg_handle.h"
#include "sg_module.h"
#include "sg_stream.h"
#include "sg_texdesc.h"

#include "sg_exec.h"
#include "sg_tex.h"

#include <stdlib.h>
#include <string.h>

enum {
    ADDRESS_ALIGN = 512, /* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT */
    UNBOUND = -1,
};

struct texref {
    struct texref *next, **at;
    uint64_t handle;
    struct sg_module *module; /* NULL: made by the caller */
    uint32_t index;           /* in the module's program */
    bool surface;
    int resource; /* CUresourcetype, or UNBOUND */
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC tex;
    bool clamped; /* to levels of its own */
    CUarray_format format;
    unsigned channels;
    uint64_t bound; /* the executor's handle, or 0 */
};

static struct texref *refs; /* lock held */

static CUresult
ref_new(struct sg_module *module, uint32_t index, bool surface, struct texref **ret)
{
    struct texref *r = calloc(1, sizeof(*r));

    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->handle = sg_handle_new(surface ? SG_KIND_SURFREF : SG_KIND_TEXREF, r);
    if (!r->handle) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r->module = module;
    r->index = index;
    r->surface = surface;
    r->resource = UNBOUND;
    r->format = CU_AD_FORMAT_FLOAT;
    r->channels = 1;
    GP_LIST_ADD(&refs, r);
    *ret = r;
    return CUDA_SUCCESS;
}

static void
ref_free(struct texref *r)
{
    GP_LIST_DROP(r);
    sg_handle_drop(r->handle);
    if (r->bound)
        sg_tex_unregister(r->bound);
    free(r);
}

void
sg_texref_detach_module(const struct sg_module *module)
{
    struct texref *next;

    for (struct texref *r = refs; r; r = next) {
        next = r->next;
        if (r->module == module)
            ref_free(r);
    }
}

/* Makes what the reference says true for kernels launched from now on. */
static CUresult
ref_bind(struct texref *r)
{
    uint64_t handle = 0;
    struct sg_tex t;
    CUresult rc;
    int e;

    if (r->resource == UNBOUND || !r->module)
        return CUDA_SUCCESS;
    rc = sg_texdesc_make(&r->res, r->surface ? NULL : &r->tex, NULL, &t);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!r->clamped)
        t.lod_max = SG_TEX_LEVELS;
    e = sg_tex_register(&t, &handle);
    if (e < 0)
        return sg_result(e);
    sg_inst_bind_texref(r->module->inst, r->index, handle);
    if (r->bound)
        sg_tex_unregister(r->bound);
    r->bound = handle;
    return CUDA_SUCCESS;
}

/* The reference, with nothing running that was launched with its old state. */
static CUresult
enter_change(uint64_t handle, bool surface, struct texref **ret)
{
    enum sg_kind kind = surface ? SG_KIND_SURFREF : SG_KIND_TEXREF;
    struct texref *r;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    r = sg_handle_get(kind, handle);
    if (r && r->bound && r->module) {
        sg_streams_synchronize(r->module->ctx); /* drops the lock */
        r = sg_handle_get(kind, handle);
    }
    *ret = r;
    return r ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

/* Unlocks; what could not be bound is as it was. */
static CUresult
leave_change(struct texref *r, const struct texref *old)
{
    CUresult rc = ref_bind(r);

    if (rc != CUDA_SUCCESS)
        *r = *old;
    return sg_leave(rc);
}

/* ----------------------------------------------------------------------- finding */

static CUresult
module_ref(CUmodule hmod, const char *name, bool surface, uint64_t *ret_handle)
{
    struct sg_module *mod;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);
    uint32_t n;

    if (rc != CUDA_SUCCESS)
        return rc;
    mod = SG_OBJ(sg_module, SG_KIND_MODULE, hmod);
    if (!mod)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!name || !ret_handle)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    n = sg_prog_n_texrefs(mod->code->prog);
    for (uint32_t i = 0; i < n; i++) {
        const struct sg_texref *t = sg_prog_texref(mod->code->prog, i);
        struct texref *r = refs;

        if ((t->kind == 's') != surface || strcmp(t->name, name) != 0)
            continue;
        while (r && (r->module != mod || r->index != i))
            r = r->next;
        if (!r)
            rc = ref_new(mod, i, surface, &r);
        if (rc == CUDA_SUCCESS)
            *ret_handle = r->handle;
        return sg_leave(rc);
    }
    return sg_leave(CUDA_ERROR_NOT_FOUND);
}

SG_CALL(cuModuleGetTexRef, CUtexref *pTexRef, CUmodule hmod, const char *name)
{
    uint64_t handle;
    CUresult rc = module_ref(hmod, name, false, pTexRef ? &handle : NULL);

    if (rc == CUDA_SUCCESS)
        *pTexRef = (CUtexref)(uintptr_t)handle;
    return rc;
}

SG_CALL(cuModuleGetSurfRef, CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
    uint64_t handle;
    CUresult rc = module_ref(hmod, name, true, pSurfRef ? &handle : NULL);

    if (rc == CUDA_SUCCESS)
        *pSurfRef = (CUsurfref)(uintptr_t)handle;
    return rc;
}

SG_CALL(cuTexRefCreate, CUtexref *pTexRef)
{
    struct texref *r;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pTexRef)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = ref_new(NULL, 0, false, &r);
    if (rc == CUDA_SUCCESS)
        *pTexRef = (CUtexref)(uintptr_t)r->handle;
    return sg_leave(rc);
}

SG_CALL(cuTexRefDestroy, CUtexref hTexRef)
{
    struct texref *r;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    r = SG_OBJ(texref, SG_KIND_TEXREF, hTexRef);
    if (!r)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (r->module) /* a module's own goes with it */
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    ref_free(r);
    return sg_leave(CUDA_SUCCESS);
}

/* ----------------------------------------------------------------------- binding */

SG_CALL(cuTexRefSetArray, CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
    const struct sg_array *a;
    struct texref *r, old;
    CUresult rc = enter_change((uintptr_t)hTexRef, false, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    a = SG_OBJ(sg_array, SG_KIND_ARRAY, hArray);
    if (!a || Flags & ~(unsigned)CU_TRSA_OVERRIDE_FORMAT)
        return sg_leave(a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    if (!(Flags & CU_TRSA_OVERRIDE_FORMAT) &&
        (r->format != a->desc.Format || r->channels != a->desc.NumChannels))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old = *r;
    r->format = a->desc.Format;
    r->channels = a->desc.NumChannels;
    r->resource = CU_RESOURCE_TYPE_ARRAY;
    r->res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY};
    r->res.res.array.hArray = hArray;
    return leave_change(r, &old);
}

SG_CALL(cuTexRefSetMipmappedArray, CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
        unsigned int Flags)
{
    const struct sg_array *levels;
    struct texref *r, old;
    CUresult rc = enter_change((uintptr_t)hTexRef, false, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_mipmap_levels(hMipmappedArray, &levels))
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (Flags != CU_TRSA_OVERRIDE_FORMAT)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old = *r;
    r->format = levels[0].desc.Format;
    r->channels = levels[0].desc.NumChannels;
    r->resource = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    r->res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    r->res.res.mipmap.hMipmappedArray = hMipmappedArray;
    return leave_change(r, &old);
}

SG_CALL(cuTexRefSetAddress_v2, size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr,
        size_t bytes)
{
    struct texref *r, old;
    CUresult rc = enter_change((uintptr_t)hTexRef, false, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dptr || (dptr % ADDRESS_ALIGN && !ByteOffset))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old = *r;
    r->resource = CU_RESOURCE_TYPE_LINEAR;
    r->res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_LINEAR};
    r->res.res.linear.devPtr = dptr;
    r->res.res.linear.sizeInBytes = bytes;
    r->res.res.linear.format = r->format;
    r->res.res.linear.numChannels = r->channels;
    if (ByteOffset)
        *ByteOffset = 0; /* any address can be read from */
    return leave_change(r, &old);
}

SG_CALL(cuTexRefSetAddress2D_v3, CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
        CUdeviceptr dptr, size_t Pitch)
{
    struct texref *r, old;
    CUresult rc = enter_change((uintptr_t)hTexRef, false, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!desc || !dptr)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old = *r;
    r->format = desc->Format;
    r->channels = desc->NumChannels;
    r->resource = CU_RESOURCE_TYPE_PITCH2D;
    r->res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D};
    r->res.res.pitch2D.devPtr = dptr;
    r->res.res.pitch2D.format = desc->Format;
    r->res.res.pitch2D.numChannels = desc->NumChannels;
    r->res.res.pitch2D.width = desc->Width;
    r->res.res.pitch2D.height = desc->Height;
    r->res.res.pitch2D.pitchInBytes = Pitch;
    return leave_change(r, &old);
}

SG_CALL(cuSurfRefSetArray, CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
    const struct sg_array *array;
    struct texref *r, old;
    CUresult rc = enter_change((uintptr_t)hSurfRef, true, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    array = SG_OBJ(sg_array, SG_KIND_ARRAY, hArray);
    if (Flags || (array && !(array->desc.Flags & CUDA_ARRAY3D_SURFACE_LDST)))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    old = *r;
    r->resource = CU_RESOURCE_TYPE_ARRAY;
    r->res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY};
    r->res.res.array.hArray = hArray;
    return leave_change(r, &old);
}

/* ---------------------------------------------------------------------- sampling */

/* Changes one thing of a texture reference. */
#define CHANGE(valid, change)                                                          \
    struct texref *r, old;                                                             \
    CUresult rc = enter_change((uintptr_t)hTexRef, false, &r);                         \
                                                                                       \
    if (rc != CUDA_SUCCESS)                                                            \
        return rc;                                                                     \
    if (!(valid))                                                                      \
        return sg_leave(CUDA_ERROR_INVALID_VALUE);                                     \
    old = *r;                                                                          \
    change;                                                                            \
    return leave_change(r, &old)

SG_CALL(cuTexRefSetFormat, CUtexref hTexRef, CUarray_format fmt,
        int NumPackedComponents)
{
    CHANGE(sg_format_texel(fmt, (unsigned)NumPackedComponents),
           (r->format = fmt, r->channels = (unsigned)NumPackedComponents));
}

SG_CALL(cuTexRefSetAddressMode, CUtexref hTexRef, int dim, CUaddress_mode am)
{
    CHANGE(dim >= 0 && dim < 3 && (unsigned)am <= CU_TR_ADDRESS_MODE_BORDER,
           r->tex.addressMode[dim] = am);
}

SG_CALL(cuTexRefSetFilterMode, CUtexref hTexRef, CUfilter_mode fm)
{
    CHANGE((unsigned)fm <= CU_TR_FILTER_MODE_LINEAR, r->tex.filterMode = fm);
}

SG_CALL(cuTexRefSetMipmapFilterMode, CUtexref hTexRef, CUfilter_mode fm)
{
    CHANGE((unsigned)fm <= CU_TR_FILTER_MODE_LINEAR, r->tex.mipmapFilterMode = fm);
}

SG_CALL(cuTexRefSetMipmapLevelBias, CUtexref hTexRef, float bias)
{
    CHANGE(true, r->tex.mipmapLevelBias = bias);
}

SG_CALL(cuTexRefSetMipmapLevelClamp, CUtexref hTexRef, float minMipmapLevelClamp,
        float maxMipmapLevelClamp)
{
    CHANGE(true, (r->clamped = true, r->tex.minMipmapLevelClamp = minMipmapLevelClamp,
                  r->tex.maxMipmapLevelClamp = maxMipmapLevelClamp));
}

SG_CALL(cuTexRefSetMaxAnisotropy, CUtexref hTexRef, unsigned int maxAniso)
{
    CHANGE(true, r->tex.maxAnisotropy = maxAniso);
}

SG_CALL(cuTexRefSetBorderColor, CUtexref hTexRef, float *pBorderColor)
{
    CHANGE(pBorderColor,
           memcpy(r->tex.borderColor, pBorderColor, sizeof(r->tex.borderColor)));
}

SG_CALL(cuTexRefSetFlags, CUtexref hTexRef, unsigned int Flags)
{
    CHANGE(!(Flags & ~(unsigned)(CU_TRSF_READ_AS_INTEGER | CU_TRSF_SRGB |
                                 CU_TRSF_NORMALIZED_COORDINATES)),
           r->tex.flags = Flags);
}

/* ------------------------------------------------------------------------ asking */

static CUresult
enter_query(uint64_t handle, enum sg_kind kind, const void *out, struct texref **ret)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = sg_handle_get(kind, handle);
    if (!*ret)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    return out ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

/* Answers with one thing of a texture reference. */
#define TELL(out, valid, value)                                                        \
    struct texref *r;                                                                  \
    CUresult rc = enter_query((uintptr_t)hTexRef, SG_KIND_TEXREF, out, &r);            \
                                                                                       \
    if (rc != CUDA_SUCCESS)                                                            \
        return rc;                                                                     \
    if (!(valid))                                                                      \
        return sg_leave(CUDA_ERROR_INVALID_VALUE);                                     \
    *(out) = (value);                                                                  \
    return sg_leave(CUDA_SUCCESS)

SG_CALL(cuTexRefGetAddress_v2, CUdeviceptr *pdptr, CUtexref hTexRef)
{
    TELL(pdptr,
         r->resource == CU_RESOURCE_TYPE_LINEAR ||
             r->resource == CU_RESOURCE_TYPE_PITCH2D,
         r->resource == CU_RESOURCE_TYPE_LINEAR ? r->res.res.linear.devPtr
                                                : r->res.res.pitch2D.devPtr);
}

SG_CALL(cuTexRefGetArray, CUarray *phArray, CUtexref hTexRef)
{
    TELL(phArray, r->resource == CU_RESOURCE_TYPE_ARRAY, r->res.res.array.hArray);
}

SG_CALL(cuTexRefGetMipmappedArray, CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
    TELL(phMipmappedArray, r->resource == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
         r->res.res.mipmap.hMipmappedArray);
}

SG_CALL(cuTexRefGetAddressMode, CUaddress_mode *pam, CUtexref hTexRef, int dim)
{
    TELL(pam, dim >= 0 && dim < 3, r->tex.addressMode[dim]);
}

SG_CALL(cuTexRefGetFilterMode, CUfilter_mode *pfm, CUtexref hTexRef)
{
    TELL(pfm, true, r->tex.filterMode);
}

SG_CALL(cuTexRefGetMipmapFilterMode, CUfilter_mode *pfm, CUtexref hTexRef)
{
    TELL(pfm, true, r->tex.mipmapFilterMode);
}

SG_CALL(cuTexRefGetMipmapLevelBias, float *pbias, CUtexref hTexRef)
{
    TELL(pbias, true, r->tex.mipmapLevelBias);
}

SG_CALL(cuTexRefGetMipmapLevelClamp, float *pminMipmapLevelClamp,
        float *pmaxMipmapLevelClamp, CUtexref hTexRef)
{
    TELL(pminMipmapLevelClamp, pmaxMipmapLevelClamp,
         (*pmaxMipmapLevelClamp = r->tex.maxMipmapLevelClamp,
          r->tex.minMipmapLevelClamp));
}

SG_CALL(cuTexRefGetMaxAnisotropy, int *pmaxAniso, CUtexref hTexRef)
{
    TELL(pmaxAniso, true, (int)r->tex.maxAnisotropy);
}

SG_CALL(cuTexRefGetFlags, unsigned int *pFlags, CUtexref hTexRef)
{
    TELL(pFlags, true, r->tex.flags);
}

SG_CALL(cuTexRefGetFormat, CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef)
{
    TELL(pFormat, pNumChannels, (*pNumChannels = (int)r->channels, r->format));
}

SG_CALL(cuTexRefGetBorderColor, float *pBorderColor, CUtexref hTexRef)
{
    struct texref *r;
    CUresult rc = enter_query((uintptr_t)hTexRef, SG_KIND_TEXREF, pBorderColor, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    memcpy(pBorderColor, r->tex.borderColor, sizeof(r->tex.borderColor));
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuSurfRefGetArray, CUarray *phArray, CUsurfref hSurfRef)
{
    struct texref *r;
    CUresult rc = enter_query((uintptr_t)hSurfRef, SG_KIND_SURFREF, phArray, &r);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (r->resource != CU_RESOURCE_TYPE_ARRAY)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *phArray = r->res.res.array.hArray;
    return sg_leave(CUDA_SUCCESS);
}
