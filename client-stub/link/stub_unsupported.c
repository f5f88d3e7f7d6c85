/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of calls that are not carried, and one line of the log for each.
 */
#include "gp_log.h"
#include "stub_call.h"
#include "wire_trace.h"

#include <stdatomic.h>

#define CALL_NUMBERS 65536u

static _Atomic uint8_t refused[CALL_NUMBERS / 8];

CUresult
stub_unsupported(uint16_t call)
{
    uint8_t bit = (uint8_t)(1u << (call & 7));
    const char *name;

    if (atomic_fetch_or(&refused[call >> 3], bit) & bit)
        return CUDA_ERROR_NOT_SUPPORTED;
    name = wire_call_name(call);
    gp_log_warn("stub", "%s (call 0x%04x) is not carried by gpupool",
                name ? name : "unknown call", call);
    return CUDA_ERROR_NOT_SUPPORTED;
}
