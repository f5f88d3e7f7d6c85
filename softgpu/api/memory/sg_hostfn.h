/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions and memory operations in stream order.
 *
 * Lock held for all functions; the host function itself runs without any lock,
 * on a thread of the library.
 */
#ifndef SG_HOSTFN_H
#define SG_HOSTFN_H

#include "cuda_abi.h"
#include "gp_base.h"

struct sg_ctx;
struct sg_work;

CUresult sg_hostfn_work(struct sg_ctx *ctx, CUhostFn fn, void *arg,
                        struct sg_work **ret_work);

/* Waits, writes and barriers, in order; copies @ops. */
CUresult sg_memops_check(unsigned n, const CUstreamBatchMemOpParams *ops);
CUresult sg_memops_work(struct sg_ctx *ctx, unsigned n,
                        const CUstreamBatchMemOpParams *ops, struct sg_work **ret_work);

#endif
