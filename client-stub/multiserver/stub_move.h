/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from a device of one server to a device of another.
 *
 * Where the two servers reach each other the bytes go straight between them; else they
 * pass through this process, which is logged once per pair.  Blocking; the caller
 * orders them with the program's streams.  Any thread.
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
    bool named; /* the program has named the contexts (stub_multi.c) */
    CUdeviceptr dst, src;
    uint64_t width, rows, slices;
    uint64_t dst_pitch, src_pitch; /* from a row to the next */
    uint64_t dst_slice, src_slice; /* from a slice to the next */
};

/* Done, and visible to all work begun later, when this returns. */
CUresult stub_move_now(const struct stub_move *move);

#endif
