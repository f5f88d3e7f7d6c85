/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_jit.h"

#include "gp_base.h"

#include <string.h>

void
wrk_jit_fini(struct wrk_jit *jit)
{
    free(jit->info_log);
    free(jit->error_log);
}

static unsigned
log_size(uint64_t asked)
{
    return (unsigned)gp_min(asked, (uint64_t)WRK_JIT_LOG_MAX);
}

/* Which value stands for which of our buffers; sizes come as the client has them. */
static CUresult
jit_option(struct wrk_jit *jit, CUjit_option option, uint64_t value)
{
    char **log = option == CU_JIT_INFO_LOG_BUFFER    ? &jit->info_log
                 : option == CU_JIT_ERROR_LOG_BUFFER ? &jit->error_log
                                                     : NULL;
    void *v = (void *)(uintptr_t)value;

    /* An option given twice keeps the buffer that the driver was promised first. */
    if (log && *log) {
        v = *log;
    } else if (log) {
        *log = calloc(1, WRK_JIT_LOG_MAX + 1);
        if (!*log)
            return CUDA_ERROR_OUT_OF_MEMORY;
        v = *log;
    } else if (option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) {
        jit->info_at = jit->n;
        v = (void *)(uintptr_t)log_size(value);
    } else if (option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
        jit->error_at = jit->n;
        v = (void *)(uintptr_t)log_size(value);
    } else if (option == CU_JIT_WALL_TIME) {
        jit->wall_at = jit->n;
    } else if ((unsigned)option >= CU_JIT_NUM_OPTIONS) {
        return CUDA_ERROR_INVALID_VALUE; /* perhaps a pointer into the client */
    } else if (option == CU_JIT_GLOBAL_SYMBOL_NAMES ||
               option == CU_JIT_GLOBAL_SYMBOL_ADDRESSES ||
               option == CU_JIT_REFERENCED_KERNEL_NAMES ||
               option == CU_JIT_REFERENCED_VARIABLE_NAMES) {
        return CUDA_ERROR_NOT_SUPPORTED; /* pointers into the client */
    }
    jit->options[jit->n] = option;
    jit->values[jit->n++] = v;
    return CUDA_SUCCESS;
}

CUresult
wrk_jit_init(struct wrk_jit *jit, unsigned n, const CUjit_option *options,
             const unsigned long long *values)
{
    CUresult r = CUDA_SUCCESS;

    memset(jit, 0, sizeof(*jit));
    jit->info_at = jit->error_at = jit->wall_at = WRK_JIT_OPTIONS_MAX;
    if (n > WRK_JIT_OPTIONS_MAX || (n && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = jit_option(jit, options[i], values[i]);
    return r;
}

uint32_t
wrk_jit_log_len(const struct wrk_jit *jit, const char *log, unsigned size_at)
{
    size_t said, len;

    if (!log || size_at == WRK_JIT_OPTIONS_MAX || !log[0])
        return 0;
    said = (unsigned)(uintptr_t)jit->values[size_at]; /* the driver wrote so much */
    len = strlen(log);
    return (uint32_t)gp_min(said, len + 1);
}
