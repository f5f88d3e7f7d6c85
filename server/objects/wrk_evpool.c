/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_evpool.h"

#include "drv.h"
#include "wrk_state.h"

#include <pthread.h>

/* Contexts with an index above this (very many were created) have no spare list:
 * their events are made and destroyed each time. */
#define POOL_CONTEXTS 32
#define POOL_EVENTS 64

#define FLAG_DISABLE_TIMING 0x2u
#define FLAG_BLOCKING_SYNC 0x1u

struct evpool {
    CUevent spare[POOL_EVENTS];
    unsigned n;
};

/* One process is one attachment, so the pools are the process's. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct evpool pools[2][POOL_CONTEXTS];

static CUevent
pool_get(struct wrk *w, bool timed, uint32_t ctx_index)
{
    CUevent event = NULL;

    if (ctx_index < POOL_CONTEXTS) {
        struct evpool *pool = &pools[timed][ctx_index];

        pthread_mutex_lock(&pool_lock);
        if (pool->n)
            event = pool->spare[--pool->n];
        pthread_mutex_unlock(&pool_lock);
        if (event)
            return event;
    }
    /* Threads that wait in the driver sleep there and do not spin: the cores are the
     * clients'. */
    if (WRK_CALL(w, cuEventCreate, &event,
                 FLAG_BLOCKING_SYNC | (timed ? 0 : FLAG_DISABLE_TIMING)) !=
        CUDA_SUCCESS)
        return NULL;
    return event;
}

static void
pool_put(struct wrk *w, bool timed, uint32_t ctx_index, CUevent event)
{
    bool kept = false;

    if (ctx_index < POOL_CONTEXTS) {
        struct evpool *pool = &pools[timed][ctx_index];

        pthread_mutex_lock(&pool_lock);
        if (pool->n < POOL_EVENTS) {
            pool->spare[pool->n++] = event;
            kept = true;
        }
        pthread_mutex_unlock(&pool_lock);
    }
    if (!kept)
        WRK_CALL(w, cuEventDestroy_v2, event);
}

CUevent
wrk_evpool_get(struct wrk *w, uint32_t ctx_index)
{
    return pool_get(w, false, ctx_index);
}

void
wrk_evpool_put(struct wrk *w, uint32_t ctx_index, CUevent event)
{
    pool_put(w, false, ctx_index, event);
}

CUevent
wrk_evpool_get_timed(struct wrk *w, uint32_t ctx_index)
{
    return pool_get(w, true, ctx_index);
}

void
wrk_evpool_put_timed(struct wrk *w, uint32_t ctx_index, CUevent event)
{
    pool_put(w, true, ctx_index, event);
}

void
wrk_evpool_forget(uint32_t ctx_index)
{
    if (ctx_index >= POOL_CONTEXTS)
        return;
    pthread_mutex_lock(&pool_lock);
    pools[0][ctx_index].n = 0;
    pools[1][ctx_index].n = 0;
    pthread_mutex_unlock(&pool_lock);
}
