/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills: every form of cuMemcpy* and cuMemset* becomes one box of
 * rows between two host-visible places, checked at the call.
 *
 * Lock held for all functions; the bytes move without it.
 */
#ifndef SG_COPY_H
#define SG_COPY_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>

struct sg_ctx;
struct sg_work;
struct sg_stream;

struct sg_box {
    char *dst;
    const char *src;
    size_t dst_pitch, dst_slice, src_pitch, src_slice;
    size_t width, height, depth;
    bool src_pageable, dst_pageable;
};

/* Checks a description and resolves it.  @planned: memory of a graph counts, although
 * it is only there while the graph runs. */
CUresult sg_copy_resolve(const CUDA_MEMCPY3D *desc, bool planned,
                         struct sg_box *ret_box);
/* A fill: @set->elementSize is 1, 2 or 4. */
CUresult sg_fill_check(const CUDA_MEMSET_NODE_PARAMS *set, bool planned);

/* Work that makes a copy or a fill that was checked, to be put into a stream or a
 * graph; the caller owns it until then. */
CUresult sg_copy_work(struct sg_ctx *ctx, const struct sg_box *box,
                      struct sg_work **ret_work);
CUresult sg_fill_work(struct sg_ctx *ctx, const CUDA_MEMSET_NODE_PARAMS *set,
                      struct sg_work **ret_work);

/* In stream order; sync: returns when it is done. */
CUresult sg_copy_enqueue(struct sg_stream *stream, const CUDA_MEMCPY3D *desc,
                         bool sync);
/* The same, but the source has been read when it returns, whatever the stream does
 * then. May drop the lock. */
CUresult sg_copy_enqueue_read(struct sg_ctx *ctx, CUstream hstream,
                              const CUDA_MEMCPY3D *desc);
/* Between contexts, without a stream: behind all work of both and of the current one,
 * and in front of all later work.  Waited for only where memory of the host is part of
 * it. */
CUresult sg_copy_enqueue_between(struct sg_stream *stream, const CUDA_MEMCPY3D *desc,
                                 struct sg_ctx *dst, struct sg_ctx *src);
CUresult sg_fill_enqueue(struct sg_stream *stream, const CUDA_MEMSET_NODE_PARAMS *set,
                         bool sync);

/* Builds the description of a linear copy. */
CUDA_MEMCPY3D sg_copy_linear(CUmemorytype dst_type, const void *dst,
                             CUmemorytype src_type, const void *src, size_t len);

#endif
