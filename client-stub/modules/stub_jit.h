/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options: numbers to send, and buffers of the caller to fill from the reply.
 *
 * A struct stub_jit lives on the stack of one load; it borrows the caller's arrays.
 */
#ifndef STUB_JIT_H
#define STUB_JIT_H

#include "cuda_abi.h"

#include <stdint.h>

struct stub_jit {
    uint32_t n;
    const CUjit_option *options;
    void **values;
    uint32_t info_room, error_room; /* of the log buffers; the values become lengths */
};

/* CUDA_ERROR_INVALID_VALUE: too many, or no arrays.  CUDA_ERROR_NOT_SUPPORTED: an
 * option whose value points to tables that cannot travel. */
CUresult stub_jit_open(struct stub_jit *jit, unsigned int n,
                       const CUjit_option *options, void **values);

/* For the request: jit->n options and values, without the addresses of the caller's
 * buffers. */
void stub_jit_put(const struct stub_jit *jit, int32_t *options, uint64_t *values);

/* The reply: logs into the caller's buffers, their lengths and the time into the
 * option values, as the driver does. */
void stub_jit_take(const struct stub_jit *jit, float wall_time, const uint8_t *info,
                   uint32_t info_len, const uint8_t *error, uint32_t error_len);

/* The same where no driver was asked: empty logs. */
void stub_jit_take_nothing(const struct stub_jit *jit);

/* Its parts, for calls that get them one by one. */
void stub_jit_take_logs(const struct stub_jit *jit, const uint8_t *info,
                        uint32_t info_len, const uint8_t *error, uint32_t error_len);
void stub_jit_take_time(const struct stub_jit *jit, float wall_time);

#endif
