/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel arguments on their way into a frame. */
#include "stub_args.h"

#include "gp_base.h"
#include "stub_func.h"

#include <string.h>

/* The `extra` list: pairs of key and value up to a zero key. */
static CUresult
args_take_extra(struct stub_args *args, void **extra)
{
    const size_t *size = NULL;

    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            args->packed = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!size || *size > STUB_PARAM_BYTES_MAX || (*size && !args->packed))
        return CUDA_ERROR_INVALID_VALUE;
    args->len = (uint32_t)*size;
    return CUDA_SUCCESS;
}

CUresult
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
    if (likely(!extra)) {
        if (unlikely(func->n_params && !pointers))
            return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
    }
    return pointers ? CUDA_ERROR_INVALID_VALUE : args_take_extra(args, extra);
}

static inline void
args_copy(uint8_t *to, const void *from, uint32_t size)
{
    switch (size) {
    case 8:
        memcpy(to, from, 8);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, size);
    }
}

void
stub_args_put(const struct stub_args *args, uint8_t *to)
{
    const struct stub_func *func = args->func;

    if (args->packed || !args->pointers) {
        if (args->packed)
            memcpy(to, args->packed, args->len);
        return;
    }
    for (uint32_t i = 0; i < func->n_params; i++)
        args_copy(to + func->params[i].offset, args->pointers[i], func->params[i].size);
}
