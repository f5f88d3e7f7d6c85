/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_kernels.h"

#include "drv.h"
#include "gp_err.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_log_mute.h"
#include "wrk_output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* What one module or library was made of. */
struct owner {
    struct owner *next;
    void *object;
    bool library;       /* of no context */
    uint32_t ctx_index; /* of a module */
    struct kernel_params_set layouts;
    struct gp_err why; /* not all of the image could be read */
};

struct wrk_kernels {
    struct owner *first;
};

static bool
driver_tells(const struct wrk *w)
{
    return w->drv->cuFuncGetParamInfo != NULL;
}

/* ---- owners ---- */

static void
owner_free(struct owner *owner)
{
    kernel_params_fini(&owner->layouts);
    free(owner);
}

static unsigned
card_sm(const struct wrk *w)
{
    const int32_t *a = w->priv->cards.card[0].attributes;

    return (unsigned)(a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR - 1] * 10 +
                      a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR - 1]);
}

void
wrk_kernels_loaded(struct wrk *w, void *object, bool library,
                   const struct iovec *pieces, size_t n)
{
    struct wrk_priv *p = w->priv;
    struct owner *owner;

    if (driver_tells(w))
        return;
    if (!p->kernels)
        p->kernels = calloc(1, sizeof(*p->kernels));
    owner = p->kernels ? calloc(1, sizeof(*owner)) : NULL;
    if (!owner)
        return;
    owner->object = object;
    owner->library = library;
    owner->ctx_index = w->ctx_index;
    for (size_t i = 0; i < n; i++)
        kernel_params_image(pieces[i].iov_base, pieces[i].iov_len, card_sm(w),
                            &owner->layouts, &owner->why);
    if (owner->why.code)
        gp_log_warn("kernel", "not all of an image could be read: %s", owner->why.msg);
    owner->next = p->kernels->first;
    p->kernels->first = owner;
}

static void
forget(struct wrk *w, bool (*is)(const struct owner *owner, const void *what),
       const void *what)
{
    struct owner **at, *owner;

    if (!w->priv->kernels)
        return;
    at = &w->priv->kernels->first;
    while ((owner = *at)) {
        if (is(owner, what)) {
            *at = owner->next;
            owner_free(owner);
        } else {
            at = &owner->next;
        }
    }
}

static bool
is_object(const struct owner *owner, const void *object)
{
    return owner->object == object;
}

static bool
is_in_ctx(const struct owner *owner, const void *index)
{
    return !owner->library && owner->ctx_index == *(const uint32_t *)index;
}

void
wrk_kernels_unloaded(struct wrk *w, const void *object)
{
    forget(w, is_object, object);
}

void
wrk_kernels_forget_ctx(struct wrk *w, uint32_t ctx_index)
{
    forget(w, is_in_ctx, &ctx_index);
}

/* The module of a library in this context has no image of its own. */
static bool
is_module_of(struct wrk *w, const struct owner *owner, const void *object)
{
    CUmodule module = NULL;

    return owner->library &&
           WRK_CALL(w, cuLibraryGetModule, &module, (CUlibrary)owner->object) ==
               CUDA_SUCCESS &&
           module == object;
}

static struct owner *
owner_of(struct wrk *w, const void *object)
{
    struct owner *first = w->priv->kernels ? w->priv->kernels->first : NULL;

    for (struct owner *owner = first; owner; owner = owner->next)
        if (owner->object == object)
            return owner;
    for (struct owner *owner = first; owner; owner = owner->next)
        if (is_module_of(w, owner, object))
            return owner;
    return NULL;
}

/* ---- functions without a name ---- */

/* The handle that the driver has for @name, or NULL. */
static void *
func_named(struct wrk *w, const struct owner *owner, const char *name)
{
    CUfunction func = NULL;
    CUkernel kernel = NULL;

    if (!owner->library)
        WRK_CALL(w, cuModuleGetFunction, &func, owner->object, name);
    else if (WRK_CALL(w, cuLibraryGetKernel, &kernel, owner->object, name) ==
             CUDA_SUCCESS)
        return kernel;
    return func;
}

static bool
is_func_of_kernel(struct wrk *w, void *kernel, const void *func)
{
    CUfunction here = NULL;

    return WRK_CALL(w, cuKernelGetFunction, &here, kernel) == CUDA_SUCCESS &&
           here == func;
}

/* One handle stands for one kernel, so asking for each name finds it. */
static struct kernel_params *
owner_find_func(struct wrk *w, const struct owner *owner, const void *func,
                const char *name)
{
    for (size_t i = 0; i < owner->layouts.n; i++) {
        struct kernel_params *l = owner->layouts.all[i];

        if (name && strcmp(name, l->name) != 0)
            continue;
        if (!l->func)
            l->func = func_named(w, owner, l->name);
        if (l->func && (l->func == func ||
                        (owner->library && is_func_of_kernel(w, l->func, func))))
            return l;
    }
    return NULL;
}

static struct kernel_params *
find_func(struct wrk *w, void *func, bool kernel)
{
    struct owner *owner = w->priv->kernels ? w->priv->kernels->first : NULL;
    struct kernel_params *found = NULL;
    const char *name = NULL;

    wrk_log_mute();
    if (kernel ? WRK_CALL(w, cuKernelGetName, &name, func)
               : WRK_CALL(w, cuFuncGetName, &name, func))
        name = NULL; /* before 12.3 */
    for (; owner && !found; owner = owner->next)
        found = owner_find_func(w, owner, func, name);
    wrk_log_unmute();
    return found;
}

/* ---- the functions of a module ---- */

CUresult
wrk_kernels_functions(struct wrk *w, CUmodule module, CUfunction *ret, unsigned cap,
                      unsigned *ret_n)
{
    struct owner *owner = owner_of(w, module);
    unsigned n = 0;

    if (!owner)
        return CUDA_ERROR_INVALID_HANDLE;
    kernel_params_find(&owner->layouts, ""); /* each name once */
    wrk_log_mute();
    for (size_t i = 0; i < owner->layouts.n; i++) {
        const char *name = owner->layouts.all[i]->name;
        CUfunction func;

        if (WRK_CALL(w, cuModuleGetFunction, &func, module, name) != CUDA_SUCCESS)
            continue;
        if (n < cap)
            ret[n] = func;
        n++;
    }
    wrk_log_unmute();
    *ret_n = n;
    return CUDA_SUCCESS;
}

/* ---- answers ---- */

static CUresult
ask_driver(struct wrk *w, CUfunction func, bool kernel, struct wrk_kernel_params *ret)
{
    ret->n = ret->bytes = 0;
    while (ret->n < KERNEL_PARAMS_PARAMS_MAX) {
        size_t offset = 0, size = 0;
        CUresult r;

        wrk_log_mute(); /* the last one is refused */
        r = kernel ? WRK_CALL(w, cuKernelGetParamInfo, (CUkernel)func, ret->n, &offset,
                              &size)
                   : WRK_CALL(w, cuFuncGetParamInfo, func, ret->n, &offset, &size);
        wrk_log_unmute();
        if (r == CUDA_ERROR_INVALID_VALUE)
            break;
        if (r != CUDA_SUCCESS)
            return r;
        ret->params[ret->n++] = (struct kernel_param){(uint32_t)offset, (uint32_t)size};
        ret->bytes = gp_max(ret->bytes, (uint32_t)(offset + size));
    }
    return CUDA_SUCCESS;
}

/* To the program's own stderr too: its user is the one who can do something. */
static CUresult
refuse(struct wrk *w, const char *name, const char *why)
{
    int version = w->priv->cards.driver_version;

    gp_log_warn("kernel", "%s: parameters unknown: %s", name, why);
    wrk_output_say(
        w,
        "gpupool: kernel %s cannot be launched: the server's driver speaks "
        "CUDA %d.%d, and only 12.4 and newer tell the parameters of a kernel; "
        "its image does not either: %s. A newer driver there helps, or an "
        "image with PTX or final machine code.\n",
        name, version / 1000, version % 1000 / 10, why);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult
answer(struct wrk *w, const struct kernel_params *l, struct wrk_kernel_params *ret)
{
    if (l->why)
        return refuse(w, l->name, l->why);
    ret->n = l->n_params;
    ret->bytes = l->param_bytes;
    if (l->n_params)
        memcpy(ret->params, l->params, l->n_params * sizeof(l->params[0]));
    return CUDA_SUCCESS;
}

CUresult
wrk_kernels_named(struct wrk *w, void *object, const char *name, CUfunction func,
                  bool kernel, struct wrk_kernel_params *ret)
{
    struct kernel_params *l;
    struct owner *owner;

    if (driver_tells(w))
        return ask_driver(w, func, kernel, ret);
    owner = owner_of(w, object);
    l = owner ? kernel_params_find(&owner->layouts, name) : NULL;
    if (!l)
        return refuse(w, name,
                      !owner ? "it is of no image that was loaded"
                      : owner->why.code
                          ? owner->why.msg
                          : "it is in none of the parts that can be read");
    if (owner->object == object)
        l->func = func;
    return answer(w, l, ret);
}

CUresult
wrk_kernels_params(struct wrk *w, CUfunction func, bool kernel,
                   struct wrk_kernel_params *ret)
{
    const struct kernel_params *l;

    if (driver_tells(w))
        return ask_driver(w, func, kernel, ret);
    l = find_func(w, func, kernel);
    return l ? answer(w, l, ret)
             : refuse(w, "(of a graph)", "it is in no image that was loaded");
}
