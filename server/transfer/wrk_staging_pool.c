/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_staging_pool.h"

#include "wrk.h"
#include "wrk_copy.h"
#include "wrk_staging.h"
#include "wrk_wait.h"

#include <errno.h>
#include <stdlib.h>

struct wrk_staging_pool {
    struct wrk_staging slot[WRK_STAGING_H2D_MAX];
    unsigned n;    /* that have memory */
    unsigned last; /* used last */
};

/* Buffers that may begin small.  The more buffers there are, the more is copied at a
 * time, so further ones have their whole size at once, and memory that was replaced
 * does not add up. */
#define SMALL_SLOTS 4

static CUresult
slot_ready(struct wrk *w, unsigned at, uint64_t len)
{
    return wrk_staging_ready(w, &w->priv->staging->slot[at],
                             at < SMALL_SLOTS ? wrk_staging_size(len)
                                              : WRK_STAGING_SIZE);
}

CUresult
wrk_staging_pool_get(struct wrk *w, uint64_t len, struct wrk_staging **ret_slot)
{
    struct wrk_staging_pool *pool = w->priv->staging;
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; i < pool->n; i++) {
        unsigned at = (pool->last + i) % pool->n;

        if (pool->slot[at].taken || !wrk_staging_idle(w, &pool->slot[at]))
            continue;
        pool->last = at;
        *ret_slot = &pool->slot[at];
        return slot_ready(w, at, len);
    }
    if (pool->n < WRK_STAGING_H2D_MAX) {
        r = slot_ready(w, pool->n, len);
        if (r == CUDA_SUCCESS) {
            pool->last = pool->n++;
            *ret_slot = &pool->slot[pool->last];
            return r;
        }
    }
    if (pool->n == 0)
        return r;
    /* Every buffer is in flight.  Replies that are due are sent, and waits handed to
     * waiter threads, before the receive thread blocks. */
    wrk_flush(w);
    wrk_wait_hand_over(w);
    pool->last = (pool->last + 1) % pool->n;
    *ret_slot = &pool->slot[pool->last];
    wrk_staging_wait(w, *ret_slot);
    return slot_ready(w, pool->last, len);
}

void
wrk_staging_pool_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_staging_pool *pool = w->priv->staging;

    for (unsigned i = 0; i < pool->n; i++)
        wrk_staging_forget(&pool->slot[i], ctx_index);
}

int
wrk_staging_pool_new(struct wrk_staging_pool **ret)
{
    struct wrk_staging_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return -ENOMEM;
    *ret = pool;
    return 0;
}

/* The buffers' memory goes with the process. */
void
wrk_staging_pool_free(struct wrk_staging_pool *pool)
{
    free(pool);
}
