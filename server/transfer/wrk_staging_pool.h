/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging buffers of host-to-device copies.
 *
 * A buffer is free again when the copy from it is complete; the one that was used last
 * is used first, because it is in the cache.  Buffers are allocated once and kept:
 * fresh memory per transfer would cost more than the copy.  Receive thread only.
 */
#ifndef WRK_STAGING_POOL_H
#define WRK_STAGING_POOL_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;
struct wrk_staging;
struct wrk_staging_pool;

int wrk_staging_pool_new(struct wrk_staging_pool **ret);
void wrk_staging_pool_free(struct wrk_staging_pool *pool); /* NULL is a no-op */

/* A free buffer for @len bytes, WRK_STAGING_SIZE at most.  If all WRK_STAGING_H2D_MAX
 * are in flight it waits for the oldest, after what is due to the client has been sent.
 * An error: out of memory, or the driver does not register the buffer. */
CUresult wrk_staging_pool_get(struct wrk *w, uint64_t len,
                              struct wrk_staging **ret_slot);

/* The context is gone. */
void wrk_staging_pool_forget(struct wrk *w, uint32_t ctx_index);

#endif
