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

#include <stdint.h>

struct stub_func;

struct stub_args {
    const struct stub_func *func;
    void **pointers;    /* one per parameter, or */
    const void *packed; /* a ready-made block */
    uint32_t len;       /* bytes in the frame */
};

/* Check the function and the shape of its arguments.  CUDA_ERROR_INVALID_HANDLE,
 * CUDA_ERROR_INVALID_VALUE. */
CUresult stub_args_open(struct stub_args *args, CUfunction f, void **pointers,
                        void **extra);

/* Write args->len bytes at @to. */
void stub_args_put(const struct stub_args *args, uint8_t *to);

#endif
