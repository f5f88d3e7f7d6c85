/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of just-in-time compilation and linking: the client's values, with our
 * buffers where it had its own.
 *
 * Belongs to one call, or to a link until it ends.  What the logs say goes back in
 * the answer.
 */
#ifndef WRK_JIT_H
#define WRK_JIT_H

#include "cuda_abi.h"

#include <stdint.h>

/* The wire's caps: options of one call, bytes of one log. */
#define WRK_JIT_OPTIONS_MAX 64u
#define WRK_JIT_LOG_MAX 32768u

struct wrk_jit {
    CUjit_option options[WRK_JIT_OPTIONS_MAX];
    void *values[WRK_JIT_OPTIONS_MAX];
    unsigned n;
    char *info_log, *error_log;
    /* Index of the size or time value, or WRK_JIT_OPTIONS_MAX. */
    unsigned info_at, error_at, wall_at;
};

/* CUDA_ERROR_NOT_SUPPORTED: an option that points into the client. */
CUresult wrk_jit_init(struct wrk_jit *jit, unsigned n, const CUjit_option *options,
                      const unsigned long long *values);
void wrk_jit_fini(struct wrk_jit *jit);

/* Bytes of a log as the driver counts them, with the NUL where it does: it counts that
 * of a log that did not fit its room.  @size_at is the index of the log's size. */
uint32_t wrk_jit_log_len(const struct wrk_jit *jit, const char *log, unsigned size_at);

#endif
