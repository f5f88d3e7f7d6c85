/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel parameters as one buffer, in the form that the driver takes them: the
 * `extra` list of a launch or of a graph's node.
 *
 * Lives on the stack of the call that uses it and borrows the frame's bytes.
 */
#ifndef WRK_PARAMS_H
#define WRK_PARAMS_H

#include "cuda_abi.h"

#include <stddef.h>
#include <stdint.h>

struct wrk_params {
    size_t size;
    void *list[5];
};

/* The list for @len bytes at @params; NULL when there are none. */
static inline void **
wrk_params_fill(struct wrk_params *p, const uint8_t *params, uint32_t len)
{
    if (!len)
        return NULL;
    p->size = len;
    p->list[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    p->list[1] = (void *)(uintptr_t)params;
    p->list[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    p->list[3] = &p->size;
    p->list[4] = CU_LAUNCH_PARAM_END;
    return p->list;
}

#endif
