/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries: images put together, options filled in, and what a
 * launch needs to know about a kernel sent along with it.
 */
#include "drv.h"
#include "gp_image.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ctx.h"
#include "wrk_image.h"
#include "wrk_jit.h"
#include "wrk_kernels.h"
#include "wrk_log_mute.h"
#include "wrk_release.h"
#include "wrk_transfer.h"
#include "wrk_variables.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* ---- kernels ---- */

/* The attributes that ride along: 0 up to and with this one. */
#define ATTRS_COUNT ((uint32_t)CU_FUNC_ATTRIBUTE_MAX)

/* @kernel: @func is a kernel of a library, which is a function in each context, and of
 * which a driver answers on each device. */
static void
info_attrs(struct wrk *w, CUfunction func, bool kernel, int32_t attrs[ATTRS_COUNT])
{
    wrk_log_mute();
    for (uint32_t i = 0; i < ATTRS_COUNT; i++) {
        CUfunction_attribute attr = (CUfunction_attribute)i;
        int value = 0;

        if ((kernel
                 ? WRK_CALL(w, cuKernelGetAttribute, &value, attr, (CUkernel)func, 0)
                 : WRK_CALL(w, cuFuncGetAttribute, &value, attr, func)) == CUDA_SUCCESS)
            attrs[i] = value;
    }
    wrk_log_unmute();
}

/* The three replies that carry it have one layout. */
static_assert(sizeof(struct wire_cuModuleGetFunction_rep) ==
                      sizeof(struct wire_gp_func_info_rep) &&
                  sizeof(struct wire_cuLibraryGetKernel_rep) ==
                      sizeof(struct wire_gp_func_info_rep),
              "one layout for what is known about a function");

static void
info_reply(struct wrk *w, struct wrk_reply *rep, CUfunction func, bool kernel,
           const struct wrk_kernel_params *known)
{
    struct wire_gp_func_info_rep fixed = {
        .param_bytes = known->bytes,
        .n_attrs = ATTRS_COUNT,
        .n_params = known->n,
    };
    struct wire_gp_func_info_rep_room room;
    int32_t attrs[ATTRS_COUNT] = {0};
    void *body;

    if (!(rep->req->flags & WIRE_F_REPLY))
        return;
    info_attrs(w, func, kernel, attrs);
    body = wrk_reply_reserve(w, rep->req, wire_gp_func_info_rep_size(&fixed));
    rep->taken = true;
    if (!body)
        return;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_func_info_rep_place(&room, body);
    memcpy(room.attrs, attrs, sizeof(attrs));
    for (uint32_t i = 0; i < known->n; i++)
        room.params[i] =
            (uint64_t)known->params[i].size << 32 | known->params[i].offset;
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
}

/* What the client must know to launch a function or kernel.  A kernel whose parameters
 * are unknown is not returned to it. */
static CUresult
give_func(struct wrk *w, struct wrk_reply *rep, void *owner, uint64_t owner_id,
          const char *name, uint64_t id, CUfunction func, bool kernel)
{
    CLEANUP_FREE struct wrk_kernel_params *known = malloc(sizeof(*known));
    struct wrk_ctx_lent lent;
    CUresult r;

    if (!known)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_ctx_lend(w, &lent);
    r = wrk_kernels_named(w, owner, name, func, kernel, known);
    if (r == CUDA_SUCCESS) {
        wrk_handle_put(w, WIRE_KIND_FUNC, id, func);
        wrk_handle_of(w, id, owner_id);
        info_reply(w, rep, func, kernel, known);
    }
    wrk_ctx_take_back(w, &lent);
    return r;
}

CUresult
h_cuModuleGetFunction(struct wrk *w, const struct wire_args_cuModuleGetFunction *a,
                      struct wrk_reply *rep)
{
    CUfunction func = NULL;
    CUresult r = WRK_CALL(w, cuModuleGetFunction, &func, a->hmod, a->name);

    return r == CUDA_SUCCESS ? give_func(w, rep, a->hmod, a->hmod_id, a->name,
                                         a->hfunc_id, func, false)
                             : r;
}

CUresult
h_cuLibraryGetKernel(struct wrk *w, const struct wire_args_cuLibraryGetKernel *a,
                     struct wrk_reply *rep)
{
    CUkernel kernel = NULL;
    CUresult r = WRK_CALL(w, cuLibraryGetKernel, &kernel, a->library, a->name);

    return r == CUDA_SUCCESS ? give_func(w, rep, a->library, a->library_id, a->name,
                                         a->pKernel_id, (CUfunction)kernel, true)
                             : r;
}

CUresult
h_gp_func_info(struct wrk *w, const struct wire_args_gp_func_info *a,
               struct wrk_reply *rep)
{
    CLEANUP_FREE struct wrk_kernel_params *known = malloc(sizeof(*known));
    struct wrk_ctx_lent lent;
    CUresult r;

    if (!known)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_ctx_lend(w, &lent);
    r = wrk_kernels_params(w, a->hfunc, false, known);
    if (r == CUDA_SUCCESS)
        info_reply(w, rep, a->hfunc, false, known);
    wrk_ctx_take_back(w, &lent);
    return r;
}

/* ---- build options and logs ---- */

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

/* ---- loading ---- */

static void
keep_kernels(struct wrk *w, void *object, bool library, const struct wrk_image *image,
             const unsigned long long *parts, uint32_t n_parts)
{
    struct iovec pieces[WRK_IMAGE_PIECES];
    size_t n = wrk_image_pieces(image, parts, n_parts, pieces);

    wrk_kernels_loaded(w, object, library, pieces, n);
}

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
    r = wrk_variables_take_module(w, a->module_id, &image, a->parts, a->n_parts);
    if (r != CUDA_SUCCESS)
        return r;
    if (w->drv->cuModuleLoadDataEx)
        r = w->drv->cuModuleLoadDataEx(&module, image.code, jit.n, jit.options,
                                       jit.values);
    else
        r = WRK_CALL(w, cuModuleLoadData, &module, image.code);
    if (r == CUDA_SUCCESS) {
        wrk_handle_put(w, WIRE_KIND_MODULE, a->module_id, module);
        keep_kernels(w, module, false, &image, a->parts, a->n_parts);
    } else {
        wrk_variables_module_failed(w, a->module_id);
    }
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
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
            values[i] = NULL;
        else
            return CUDA_ERROR_NOT_SUPPORTED; /* functions of the client, or unknown */
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
    r = wrk_variables_take_library(w, a->library_id, &image, a->parts, a->n_parts);
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuLibraryLoadData, &library, image.code, jit.options, jit.values,
                 jit.n, options, values, a->numLibraryOptions);
    if (r == CUDA_SUCCESS) {
        wrk_handle_put(w, WIRE_KIND_LIBRARY, a->library_id, library);
        wrk_variables_loaded(a->library_id, library);
        keep_kernels(w, library, true, &image, a->parts, a->n_parts);
    } else {
        wrk_variables_library_failed(w, a->library_id);
    }
    jit_reply(w, rep, &jit, r);
    if (r == CUDA_SUCCESS)
        wrk_image_keep(&image, a->parts, a->n_parts);
    return r;
}

/* ---- unloading ---- */

static CUresult
module_unload(struct wrk *w, uint64_t module, uint64_t size)
{
    (void)size;
    return WRK_CALL(w, cuModuleUnload, (CUmodule)(uintptr_t)module);
}

CUresult
h_cuModuleUnload(struct wrk *w, const struct wire_args_cuModuleUnload *a,
                 struct wrk_reply *rep)
{
    return wrk_release(w, rep,
                       &(struct wrk_release_what){.fn = module_unload,
                                                  .obj = (uintptr_t)a->hmod,
                                                  .key = a->hmod_id,
                                                  .id = a->hmod_id,
                                                  .forget = wrk_kernels_unloaded});
}

static CUresult
library_unload(struct wrk *w, uint64_t library, uint64_t serial)
{
    CUresult r = WRK_CALL(w, cuLibraryUnload, (CUlibrary)(uintptr_t)library);

    if (r == CUDA_SUCCESS)
        wrk_variables_unloaded(w, serial);
    return r;
}

static void
library_forget(struct wrk *w, const void *library)
{
    wrk_kernels_unloaded(w, library);
    wrk_variables_forget(library);
}

/* A library's module in the current context, if the client knows it, ends with the
 * library, and so do its functions. */
static uint64_t
module_id(struct wrk *w, CUlibrary library)
{
    CUmodule module = NULL;

    if (!w->handles.server[WIRE_KIND_MODULE].count || !library ||
        WRK_CALL(w, cuLibraryGetModule, &module, library) != CUDA_SUCCESS)
        return 0;
    return wrk_handles_id_of(&w->handles, WIRE_KIND_MODULE, module);
}

CUresult
h_cuLibraryUnload(struct wrk *w, const struct wire_args_cuLibraryUnload *a,
                  struct wrk_reply *rep)
{
    return wrk_release(
        w, rep,
        &(struct wrk_release_what){.fn = library_unload,
                                   .obj = (uintptr_t)a->library,
                                   .size = wrk_variables_of_library(a->library),
                                   .id = a->library_id,
                                   .module_id = module_id(w, a->library),
                                   .forget = library_forget});
}
