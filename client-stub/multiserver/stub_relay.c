/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_relay.h"

#include "cuda_api.h"
#include "gp_base.h"
#include "gp_lock.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_move.h"
#include "stub_thread.h"

#include <stdlib.h>

/* Threads that stay for the next job. */
#define RELAY_IDLE_MAX 4u

struct relay {
    struct relay *next;
    struct stub_fence fence;
    bool moves;
    struct stub_move move;
    struct stub_semaphore semaphore;
};

static struct {
    struct gp_lock lock;
    struct relay *first, **last;
    uint32_t jobs;           /* queued or running */
    uint32_t idle;           /* threads that wait for one */
    _Atomic uint32_t queued; /* futex word: counts jobs ever queued */
} relays;

/* Contexts may be destroyed meanwhile, but not forgotten. */
static void
relay_each_ctx(struct relay *relay, void (*fn)(struct stub_ctx *ctx))
{
    fn(relay->fence.ctx);
    fn(relay->semaphore.ctx);
    if (relay->moves) {
        fn(relay->move.dst_ctx);
        fn(relay->move.src_ctx);
    }
}

static void
relay_free(struct relay *relay)
{
    relay_each_ctx(relay, stub_ctx_unref);
    free(relay);
}

/* Work behind the semaphore sees the changes that the wait for the fence received. */
static void
relay_carry(const struct stub_semaphore *semaphore)
{
    if (!stub_managed_is_on() || !stub_internal_ctx_push(semaphore->ctx))
        return;
    stub_managed_carry();
    stub_internal_ctx_pop();
}

static void
relay_run(struct relay *relay)
{
    CUresult r = stub_fence_wait(&relay->fence);
    CUresult none = CUDA_SUCCESS;
    struct stub_link *link =
        &stub_links[wire_handle_link(relay->semaphore.ctx->handle)];

    if (r == CUDA_SUCCESS && relay->moves)
        r = stub_move_now(&relay->move);
    if (r != CUDA_SUCCESS)
        atomic_compare_exchange_strong(&link->relay_error, &none, r);
    relay_carry(&relay->semaphore);
    stub_semaphore_release(&relay->semaphore);
}

/* Under the lock. */
static struct relay *
relay_take(void)
{
    struct relay *relay = relays.first;

    if (!relay)
        return NULL;
    relays.first = relay->next;
    if (!relays.first)
        relays.last = &relays.first;
    return relay;
}

static void
relay_thread(void *arg)
{
    struct relay *relay = arg;
    uint32_t seen;

    for (;;) {
        if (relay) {
            relay_run(relay);
            relay_free(relay);
        }
        gp_lock_take(&relays.lock);
        if (relay)
            relays.jobs--;
        relay = relay_take();
        seen = atomic_load(&relays.queued);
        if (!relay && relays.idle >= RELAY_IDLE_MAX) {
            gp_lock_release(&relays.lock);
            return;
        }
        if (!relay)
            relays.idle++;
        gp_lock_release(&relays.lock);
        if (relay)
            continue;
        gp_futex_wait(&relays.queued, seen, NULL);
        gp_lock_take(&relays.lock);
        relays.idle--;
        gp_lock_release(&relays.lock);
    }
}

/* An idle thread takes the job, else one is made: a job must not wait for another
 * one, which may wait for it. */
static CUresult
relay_queue(struct relay *relay)
{
    bool wake;

    gp_lock_take(&relays.lock);
    if (!relays.last)
        relays.last = &relays.first;
    if (relays.jobs >= STUB_RELAYS_MAX) {
        gp_lock_release(&relays.lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    relays.jobs++;
    wake = relays.idle > 0 && !relays.first;
    if (wake) {
        *relays.last = relay;
        relays.last = &relay->next;
        atomic_fetch_add(&relays.queued, 1);
    }
    gp_lock_release(&relays.lock);
    if (wake) {
        gp_futex_wake(&relays.queued, 1);
        return CUDA_SUCCESS;
    }
    if (stub_thread_start("gpupool-relay", relay_thread, relay) == 0)
        return CUDA_SUCCESS;
    gp_lock_take(&relays.lock);
    relays.jobs--;
    gp_lock_release(&relays.lock);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
stub_relay(const struct stub_fence *fence, const struct stub_move *move,
           const struct stub_semaphore *semaphore)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    CUresult r = relay ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    if (relay) {
        *relay = (struct relay){
            .fence = *fence, .moves = move != NULL, .semaphore = *semaphore};
        if (move)
            relay->move = *move;
        relay_each_ctx(relay, stub_ctx_ref);
        r = relay_queue(relay);
        if (r != CUDA_SUCCESS)
            relay_free(relay);
    }
    if (r != CUDA_SUCCESS)
        stub_semaphore_release(semaphore); /* nothing waits for ever */
    return r;
}

CUresult
stub_relay_result(struct stub_link *link, CUresult r)
{
    if (r != CUDA_SUCCESS || stub_tls.internal || !atomic_load(&link->relay_error))
        return r;
    return (CUresult)atomic_exchange(&link->relay_error, CUDA_SUCCESS);
}
