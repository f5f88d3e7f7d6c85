/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel arguments in the form that few programs use. */
#include "stub_args.h"

/* Pairs of key and value up to a zero key. */
CUresult
stub_args_take_extra(struct stub_args *args, void **extra)
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
