/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compile options that a caller hands to loading and linking calls: which
 * are accepted, and the log buffers that are filled.
 *
 * On the caller's stack for one call; the buffers are the application's.
 */
#ifndef SG_JIT_H
#define SG_JIT_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stddef.h>

struct sg_jit_log {
    char *info, *error;
    size_t info_size, error_size;
    unsigned max_regs; /* 0 = not limited */
    /* Where the filled sizes and the time go: the value slots themselves. */
    void **info_slot, **error_slot, **time_slot;
    unsigned long long start_ns;
};

/* CUDA_ERROR_INVALID_VALUE: an option number that does not exist. */
CUresult sg_jit_log_begin(struct sg_jit_log *log, unsigned n,
                          const CUjit_option *options, void **values);
/* @log may be NULL. */
void sg_jit_log_end(struct sg_jit_log *log, CUresult rc, const char *words);

#endif
