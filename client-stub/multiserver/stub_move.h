/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving memory of one server's card to another server's.
 *
 * Where the two servers reach each other the bytes go straight between them; else they
 * pass through this process, which the log says once per pair.  Blocking; the order
 * with the program's streams is the caller's matter.  Any thread.
 */
#ifndef STUB_MOVE_H
#define STUB_MOVE_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;

/* @slices boxes of @rows rows of @width bytes. */
struct stub_move {
    struct stub_ctx *dst_ctx, *src_ctx;
    bool named; /* the program said which contexts (stub_multi.c) */
    CUdeviceptr dst, src;
    uint64_t width, rows, slices;
    uint64_t dst_pitch, src_pitch; /* from a row to the next */
    uint64_t dst_slice, src_slice; /* from a slice to the next */
};

/* Done, and visible to all work begun later, when this returns. */
CUresult stub_move_now(const struct stub_move *move);

#endif
