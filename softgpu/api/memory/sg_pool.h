/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: allocation and freeing in stream order.
 *
 * A pool here keeps nothing that is freed, whatever its release threshold: an
 * allocation costs the same from a cache and without.  Default pools live as
 * long as their device, others until destroyed and empty.  Lock held for all
 * functions.
 */
#ifndef SG_POOL_H
#define SG_POOL_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_alloc;
struct sg_dev;
struct sg_pool;
struct sg_stream;

uint64_t sg_pool_handle(const struct sg_pool *pool); /* 0 for NULL */

/* sg_enter_init() for a call about @handle; CUDA_ERROR_INVALID_VALUE, and the lock is
 * not held, when it is no pool.  The one function that is called without the lock. */
CUresult sg_pool_enter(CUmemoryPool handle, struct sg_pool **ret_pool);

/* Pools of other processes (sg_pool_share.c): their memory comes from there alone. */
bool sg_pool_is_exportable(const struct sg_pool *pool);
bool sg_pool_is_imported(const struct sg_pool *pool);
struct sg_dev *sg_pool_device(const struct sg_pool *pool);
CUresult sg_pool_import(struct sg_dev *dev, struct sg_pool **ret_pool);
void sg_pool_take_import(struct sg_pool *pool, struct sg_alloc *alloc);

/* At once; the caller knows that nothing uses it any more.  May drop the lock. */
void sg_pool_free(struct sg_alloc *alloc);

#endif
