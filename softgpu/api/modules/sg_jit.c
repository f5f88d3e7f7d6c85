/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compile options.  There is one way to run PTX here, so optimisation levels,
 * register limits and cache modes change nothing and are accepted; the logs and
 * the time are real.
 */
#include "sg_jit.h"

#include "gp_time.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t
size_value(void *value)
{
    return (size_t)(unsigned)(uintptr_t)value; /* an unsigned int by contract */
}

/* More than there are kinds of options is a number that was never set. */
#define MAX_OPTIONS 64u

CUresult
sg_jit_log_begin(struct sg_jit_log *log, unsigned n, const CUjit_option *options,
                 void **values)
{
    memset(log, 0, sizeof(*log));
    log->start_ns = gp_now_ns();
    if (n > MAX_OPTIONS || (n && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        switch ((int)options[i]) {
        case CU_JIT_WALL_TIME:
            log->time_slot = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            log->info = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            log->info_size = size_value(values[i]);
            log->info_slot = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            log->error = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            log->error_size = size_value(values[i]);
            log->error_slot = &values[i];
            break;
        case CU_JIT_MAX_REGISTERS:
            log->max_regs = (unsigned)size_value(values[i]);
            break;
        default:
            if ((unsigned)options[i] >= CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
            break;
        }
    }
    return CUDA_SUCCESS;
}

/* As a card's driver, one that is cut off is said to fill its room, with the NUL. */
static void
fill(char *buf, size_t size, void **slot, const char *text)
{
    size_t n = 0;

    if (buf && size) {
        n = (size_t)snprintf(buf, size, "%s", text);
        if (n >= size)
            n = size > 1 ? size : 0;
    }
    if (slot)
        *slot = (void *)(uintptr_t)n;
}

void
sg_jit_log_end(struct sg_jit_log *log, CUresult rc, const char *words)
{
    float ms;

    if (!log)
        return;
    fill(log->error, log->error_size, log->error_slot, rc == CUDA_SUCCESS ? "" : words);
    fill(log->info, log->info_size, log->info_slot, "");
    if (log->time_slot) { /* a float in the slot, by contract */
        ms = (float)((double)(gp_now_ns() - log->start_ns) / 1e6);
        memcpy(log->time_slot, &ms, sizeof(ms));
    }
}
