/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's arguments, wherever the application keeps them, and how they get into a
 * frame: used by launches and by graph nodes.
 *
 * Borrows the application's arrays for the length of one call.
 */
#ifndef STUB_ARGS_H
#define STUB_ARGS_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "stub_func.h"

#include <stdint.h>
#include <string.h>

struct stub_args {
    const struct stub_func *func;
    void **pointers;    /* one per parameter, or */
    const void *packed; /* a ready-made block */
    uint32_t len;       /* bytes in the frame */
};

/* The `extra` list of a launch. */
CUresult stub_args_take_extra(struct stub_args *args, void **extra);

/* Check the function and the shape of its arguments.  CUDA_ERROR_INVALID_HANDLE,
 * CUDA_ERROR_INVALID_VALUE. */
static inline CUresult
stub_args_open(struct stub_args *args, CUfunction f, void **pointers, void **extra)
{
    struct stub_func *func;
    CUresult r = stub_func_get(f, &func);

    if (unlikely(r != CUDA_SUCCESS))
        return r;
    args->func = func;
    args->pointers = pointers;
    args->packed = NULL;
    args->len = func->param_bytes;
    if (unlikely(extra != NULL))
        return pointers ? CUDA_ERROR_INVALID_VALUE : stub_args_take_extra(args, extra);
    return unlikely(func->n_params && !pointers) ? CUDA_ERROR_INVALID_VALUE
                                                 : CUDA_SUCCESS;
}

/* Write what the application points to, func->param_bytes of it, at @to.  Without @odd
 * sizes (stub_func.h) there is no call in the loop, which would cost the caller its
 * registers. */
static GP_INLINE void
stub_args_gather_as(const struct stub_func *func, void **from, uint8_t *to, bool odd)
{
    const struct stub_param *param = func->params;
    const struct stub_param *end = param + func->n_params;

    for (; param < end; param++, from++) {
        if (param->size == 8)
            memcpy(to + param->offset, *from, 8);
        else if (!odd || param->size == 4)
            memcpy(to + param->offset, *from, 4);
        else
            memcpy(to + param->offset, *from, param->size);
    }
}

static inline void
stub_args_gather(const struct stub_func *func, void **from, uint8_t *to)
{
    stub_args_gather_as(func, from, to, true);
}

/* Write args->len bytes at @to. */
static inline void
stub_args_put(const struct stub_args *args, uint8_t *to)
{
    if (likely(args->pointers != NULL))
        stub_args_gather(args->func, args->pointers, to);
    else if (args->packed)
        memcpy(to, args->packed, args->len);
}

#endif
