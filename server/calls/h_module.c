/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: images put together, options filled in, and what a
 * launch needs to know about a kernel sent along with it.
 */
#include "drv.h"
#include "gp_image.h"
#include "gp_log.h"
#include "h_notice.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_bulk.h"
#include "wrk_image.h"
#include "wrk_jit.h"
#include "wrk_release.h"

#include <stdlib.h>
#include <string.h>

#define PARAMS_MAX 4096u

/* --- kernels -------------------------------------------------------------------- */

/* The attributes that ride along: 0 up to and with this one. */
#define ATTRS_COUNT ((uint32_t)CU_FUNC_ATTRIBUTE_MAX)

struct func_info {
    uint32_t param_bytes;
    uint32_t n_params;
    int32_t attrs[ATTRS_COUNT];
    uint64_t params[PARAMS_MAX];
};

static void
info_attrs(struct wrk *w, CUfunction func, struct func_info *info)
{
    h_notice_mute();
    for (uint32_t i = 0; i < ATTRS_COUNT; i++) {
        int value = 0;

        if (WRK_CALL(w, cuFuncGetAttribute, &value, (CUfunction_attribute)i, func) ==
            CUDA_SUCCESS)
            info->attrs[i] = value;
    }
    h_notice_unmute();
}

/* A driver before 12.4 cannot say; the client then finds out from the image. */
static CUresult
info_params(struct wrk *w, CUfunction func, bool kernel, struct func_info *info)
{
    for (uint32_t i = 0; i < PARAMS_MAX; i++) {
        size_t offset = 0;
        size_t size = 0;
        CUresult r;

        h_notice_mute(); /* the last one is refused */
        r = kernel
                ? WRK_CALL(w, cuKernelGetParamInfo, (CUkernel)func, i, &offset, &size)
                : WRK_CALL(w, cuFuncGetParamInfo, func, i, &offset, &size);
        h_notice_unmute();
        if (r == CUDA_ERROR_INVALID_VALUE)
            break;
        if (r != CUDA_SUCCESS)
            return r;
        info->params[info->n_params++] = (uint64_t)size << 32 | offset;
        info->param_bytes = (uint32_t)gp_max((size_t)info->param_bytes, offset + size);
    }
    return CUDA_SUCCESS;
}

/* The three replies that carry it have one layout. */
static_assert(sizeof(struct wire_cuModuleGetFunction_rep) ==
                      sizeof(struct wire_gp_func_info_rep) &&
                  sizeof(struct wire_cuLibraryGetKernel_rep) ==
                      sizeof(struct wire_gp_func_info_rep),
              "one layout for what is known about a function");

static CUresult
info_reply(struct wrk *w, struct wrk_reply *rep, CUfunction func, bool kernel)
{
    struct func_info *info = calloc(1, sizeof(*info));
    struct wire_gp_func_info_rep fixed = {0};
    struct wire_gp_func_info_rep_room room;
    void *body;
    CUresult r;

    if (!info)
        return CUDA_ERROR_OUT_OF_MEMORY;
    info_attrs(w, func, info);
    r = info_params(w, func, kernel, info);
    if (r == CUDA_SUCCESS && (rep->req->flags & WIRE_F_REPLY)) {
        fixed.param_bytes = info->param_bytes;
        fixed.n_attrs = ATTRS_COUNT;
        fixed.n_params = info->n_params;
        body = wrk_reply_reserve(w, rep->req, wire_gp_func_info_rep_size(&fixed));
        rep->taken = true;
        if (body) {
            memcpy(body, &fixed, sizeof(fixed));
            wire_gp_func_info_rep_place(&room, body);
            memcpy(room.attrs, info->attrs, ATTRS_COUNT * sizeof(int32_t));
            if (info->n_params)
                memcpy(room.params, info->params, info->n_params * sizeof(uint64_t));
            wrk_reply_send(w, rep->req, CUDA_SUCCESS);
        }
    }
    free(info);
    return r;
}

CUresult
h_cuModuleGetFunction(struct wrk *w, const struct wire_args_cuModuleGetFunction *a,
                      struct wrk_reply *rep)
{
    CUfunction func = NULL;
    CUresult r = WRK_CALL(w, cuModuleGetFunction, &func, a->hmod, a->name);

    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_put(w, WIRE_KIND_FUNC, a->hfunc_id, func);
    return info_reply(w, rep, func, false);
}

CUresult
h_cuLibraryGetKernel(struct wrk *w, const struct wire_args_cuLibraryGetKernel *a,
                     struct wrk_reply *rep)
{
    CUkernel kernel = NULL;
    CUresult r = WRK_CALL(w, cuLibraryGetKernel, &kernel, a->library, a->name);

    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_put(w, WIRE_KIND_FUNC, a->pKernel_id, kernel);
    return info_reply(w, rep, (CUfunction)kernel, true);
}

CUresult
h_gp_func_info(struct wrk *w, const struct wire_args_gp_func_info *a,
               struct wrk_reply *rep)
{
    return info_reply(w, rep, a->hfunc, false);
}

/* --- build options and logs ------------------------------------------------------- */

/* Logs go out with a failing result too: they say why. */
static void
jit_reply(struct wrk *w, struct wrk_reply *rep, const struct wrk_jit *jit,
          CUresult result)
{
    struct wire_cuModuleLoadDataEx_rep fixed = {0};
    struct wire_cuModuleLoadDataEx_rep_room room;
    void *body;

    if (!(rep->req->flags & WIRE_F_REPLY))
        return;
    if (jit->wall_at != WRK_JIT_OPTIONS_MAX)
        memcpy(&fixed.wall_time, &jit->values[jit->wall_at], sizeof(fixed.wall_time));
    fixed.info_log_len = wrk_jit_log_len(jit, jit->info_log, jit->info_at);
    fixed.error_log_len = wrk_jit_log_len(jit, jit->error_log, jit->error_at);
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_cuModuleLoadDataEx_rep_size(&fixed));
    if (!body)
        return;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuModuleLoadDataEx_rep_place(&room, body);
    if (fixed.info_log_len)
        memcpy(room.info_log, jit->info_log, fixed.info_log_len);
    if (fixed.error_log_len)
        memcpy(room.error_log, jit->error_log, fixed.error_log_len);
    wrk_reply_send(w, rep->req, result);
}

static_assert(sizeof(struct wire_cuModuleLoadDataEx_rep) ==
                  sizeof(struct wire_cuLibraryLoadData_rep),
              "one layout for both ways to load");

/* --- loading ------------------------------------------------------------------------
 */

CUresult
h_cuModuleLoadDataEx(struct wrk *w, const struct wire_args_cuModuleLoadDataEx *a,
                     struct wrk_reply *rep)
{
    CLEANUP(wrk_image_fini) struct wrk_image image = {0};
    CLEANUP(wrk_jit_fini) struct wrk_jit jit;
    CUmodule module = NULL;
    CUresult r = wrk_jit_init(&jit, a->numOptions, a->options, a->values);

    if (r == CUDA_SUCCESS)
        r = wrk_image_take(w, rep, &image, a->image, a->image_len, a->parts,
                           a->n_parts);
    if (r != CUDA_SUCCESS)
        return r;
    if (w->drv->cuModuleLoadDataEx)
        r = w->drv->cuModuleLoadDataEx(&module, image.code, jit.n, jit.options,
                                       jit.values);
    else
        r = WRK_CALL(w, cuModuleLoadData, &module, image.code);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_MODULE, a->module_id, module);
    jit_reply(w, rep, &jit, r);
    if (r == CUDA_SUCCESS)
        wrk_image_keep(&image, a->parts, a->n_parts);
    return r;
}

/* Values of library options are numbers, but for a preserved image: ours is a
 * copy that ends with this call. */
static CUresult
library_options(const struct wire_args_cuLibraryLoadData *a, CUlibraryOption *options,
                void **values)
{
    if (a->numLibraryOptions > WRK_JIT_OPTIONS_MAX ||
        (a->numLibraryOptions && !a->libraryOptions))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < a->numLibraryOptions; i++) {
        options[i] = a->libraryOptions[i];
        values[i] = (void *)(uintptr_t)a->library_values[i];
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
            values[i] = NULL;
        else if (options[i] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
            return CUDA_ERROR_NOT_SUPPORTED; /* functions of the client */
    }
    return CUDA_SUCCESS;
}

CUresult
h_cuLibraryLoadData(struct wrk *w, const struct wire_args_cuLibraryLoadData *a,
                    struct wrk_reply *rep)
{
    CLEANUP(wrk_image_fini) struct wrk_image image = {0};
    CLEANUP(wrk_jit_fini) struct wrk_jit jit;
    CUlibraryOption options[WRK_JIT_OPTIONS_MAX];
    void *values[WRK_JIT_OPTIONS_MAX];
    CUlibrary library = NULL;
    CUresult r = wrk_jit_init(&jit, a->numJitOptions, a->jitOptions, a->jit_values);

    if (r == CUDA_SUCCESS)
        r = library_options(a, options, values);
    if (r == CUDA_SUCCESS)
        r = wrk_image_take(w, rep, &image, a->image, a->image_len, a->parts,
                           a->n_parts);
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuLibraryLoadData, &library, image.code, jit.options, jit.values,
                 jit.n, options, values, a->numLibraryOptions);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_LIBRARY, a->library_id, library);
    jit_reply(w, rep, &jit, r);
    if (r == CUDA_SUCCESS)
        wrk_image_keep(&image, a->parts, a->n_parts);
    return r;
}

/* --- unloading ----------------------------------------------------------------------
 */

static CUresult
module_unload(struct wrk *w, void *module)
{
    return WRK_CALL(w, cuModuleUnload, module);
}

CUresult
h_cuModuleUnload(struct wrk *w, const struct wire_args_cuModuleUnload *a,
                 struct wrk_reply *rep)
{
    wrk_handle_del(w, WIRE_KIND_MODULE, a->hmod_id);
    return wrk_release(w, rep, module_unload, a->hmod, 0);
}

static CUresult
library_unload(struct wrk *w, void *library)
{
    return WRK_CALL(w, cuLibraryUnload, library);
}

CUresult
h_cuLibraryUnload(struct wrk *w, const struct wire_args_cuLibraryUnload *a,
                  struct wrk_reply *rep)
{
    wrk_handle_del(w, WIRE_KIND_LIBRARY, a->library_id);
    return wrk_release(w, rep, library_unload, a->library, 0);
}
