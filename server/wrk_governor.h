/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The share of a card that the session's kernels may take.
 *
 * Around every launch: acquire() waits until the session has credit, launched()
 * says what became of it.  The time that the card then spends is measured with
 * events and charged to the session's bucket in the shared segment, so that the
 * share holds over all its processes; an overrun is debt that later launches wait
 * for.  A session with the whole card is never held up and costs one compare.
 *
 * acquire() and launched() on the reader thread; a thread of the governor's own
 * waits for the events.
 */
#ifndef WRK_GOVERNOR_H
#define WRK_GOVERNOR_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_governor;

/* Between acquire and launched; the caller's storage. */
struct wrk_charge {
    bool governed;
    uint32_t slice;
    CUstream stream;
    CUevent begin;
};

/* *ret is NULL when no slice of the session has a limit. */
int wrk_governor_new(struct wrk *w, struct wrk_governor **ret);

void wrk_governor_acquire_slow(struct wrk *w, CUstream stream, struct wrk_charge *charge);
void wrk_governor_launched_slow(struct wrk *w, struct wrk_charge *charge,
                                CUresult result);

/* The context died: forget events of it. */
void wrk_governor_forget(struct wrk *w, uint32_t ctx_index);

#define wrk_governor_acquire(w, stream, charge)                                        \
    do {                                                                               \
        (charge)->governed = (w)->priv->governor != NULL;                              \
        if (unlikely((charge)->governed))                                              \
            wrk_governor_acquire_slow((w), (stream), (charge));                        \
    } while (0)

#define wrk_governor_launched(w, charge, result)                                       \
    do {                                                                               \
        if (unlikely((charge)->governed))                                              \
            wrk_governor_launched_slow((w), (charge), (result));                       \
    } while (0)

#endif
