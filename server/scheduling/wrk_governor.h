/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The governor: the worker's side of the session's share of its GPUs.
 *
 * Every launch goes through acquire() and launched().  The arbiter in the supervisor
 * decides whose turn it is on a GPU (gov_desk.h).  The governor requests the turn,
 * records events after the work that it submits, reports the GPU time that the events
 * measured, keeps little in flight while others wait or a ceiling holds, and gives the
 * turn up when the GPU has drained.
 *
 * A session that is alone on its GPU and has no ceiling pays a compare and a load per
 * launch, and an event per sixteen launches; none where it waits after few
 * (wrk_meter.h).  How long a launch will take is estimated from the last ones of its
 * kind; unknown kinds run one at a time.
 *
 * Watchdog: work that does not end while another session waits for the GPU is ended
 * with its attachment, CUDA_ERROR_LAUNCH_TIMEOUT.
 *
 * acquire(), launched(), idle(), ctx_idle() and forget() run on the receive thread,
 * which records all events; a thread of the governor's own notices when they are
 * complete.
 */
#ifndef WRK_GOVERNOR_H
#define WRK_GOVERNOR_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "gp_err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gov_slice;
struct wrk;
struct wrk_governor;

/* Between acquire and launched; the caller's storage. */
struct wrk_charge {
    CUstream stream;
    uint64_t key;
    uint64_t predicted_ns; /* 0: not known */
    struct gov_slice *slice;
    bool skip;      /* it is captured, so it does not run */
    bool wake;      /* the governor's thread sleeps until there is work */
    bool throttled; /* others may want the card, or a ceiling holds */
};

/* The key of a kind of launch, by which the duration of the next one is estimated: the
 * kernel and its shape, or the graph. */
static inline uint64_t
wrk_governor_mix(uint64_t key, unsigned grid, unsigned block)
{
    return (key ^ ((uint64_t)grid << 16 ^ block)) * 0x9e3779b97f4a7c15u;
}

static inline uint64_t
wrk_governor_key(const void *what, const unsigned *grid, const unsigned *block)
{
    uint64_t key = (uintptr_t)what;

    if (grid) {
        key = wrk_governor_mix(key, grid[0], block[0]);
        key = wrk_governor_mix(key, grid[1], block[1]);
        key = wrk_governor_mix(key, grid[2], block[2]);
    }
    return key ? key : 1;
}

/* Take a place at the cards' arbiters. */
int wrk_governor_new(struct wrk *w, struct wrk_governor **ret, struct gp_err *err);

/* The operator has switched it off: nothing is charged or limited. */
bool wrk_governor_off(const struct wrk *w);

/* May wait: for the turn, for credit, for what is in flight. */
void wrk_governor_acquire(struct wrk *w, CUstream stream, uint64_t key,
                          struct wrk_charge *charge);
/* Before a copy on the card, or a fill, of @bytes: a launch as well. */
void wrk_governor_acquire_copy(struct wrk *w, struct wrk_charge *charge,
                               CUstream stream, uint64_t bytes);
/* The same for the same launch once more, right behind it; how many may be made before
 * it is told of them. */
unsigned wrk_governor_again(struct wrk *w, struct wrk_charge *charge);
void wrk_governor_launched_n(struct wrk *w, const struct wrk_charge *charge,
                             unsigned n);

static inline void
wrk_governor_launched(struct wrk *w, const struct wrk_charge *charge)
{
    wrk_governor_launched_n(w, charge, 1);
}

/* The reader has nothing to do: mark what is not marked yet. */
void wrk_governor_idle(struct wrk *w);

/* A wait found that nothing of the current context is left to do. */
void wrk_governor_ctx_idle(struct wrk *w);

/* The client is gone: charge what has been done. */
void wrk_governor_finish(struct wrk *w);

/* Before a context is destroyed, or a stream's handle goes: events in it must not
 * be looked at any more. */
void wrk_governor_forget(struct wrk *w, uint32_t ctx_index);
void wrk_governor_stream_gone(struct wrk *w, const void *stream);

#endif
