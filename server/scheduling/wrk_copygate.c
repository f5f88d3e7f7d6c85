/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_copygate.h"

#include "gp_time.h"
#include "wrk.h"
#include "wrk_desk.h"
#include "wrk_governor.h"

#include <stdatomic.h>
#include <time.h>

/* How often to look whether the others have caught up. */
#define POLL_NS 200000

uint64_t
wrk_copygate_take(struct wrk *w, uint32_t slice, uint64_t bytes)
{
    struct wrk_desks *desks = w->priv->desks;
    const struct gov_turn *turn = &desks->notice->turns[slice];
    uint64_t until;

    atomic_fetch_add_explicit(&w->priv->usage->spent[WRK_SPENT_MOVED][slice], bytes,
                              memory_order_relaxed);
    if (wrk_governor_off(w))
        return 0;
    atomic_fetch_add_explicit(&desks->desk->wants[slice].copied, bytes,
                              memory_order_relaxed);
    /* From the first ring on the arbiter looks by itself until nobody copies. */
    if (atomic_load_explicit(&turn->rivals, memory_order_relaxed) &&
        !atomic_load_explicit(&turn->watched, memory_order_relaxed))
        wrk_desks_ring(desks);
    until = atomic_load_explicit(&turn->pause_ns, memory_order_relaxed);
    return until && until > gp_now_ns() ? until : 0;
}

void
wrk_copygate_wait(struct wrk *w, uint32_t slice, uint64_t until_ns)
{
    const struct gov_turn *turn = &w->priv->desks->notice->turns[slice];
    uint64_t began = gp_now_ns(), now = began;
    struct timespec pause = {.tv_nsec = POLL_NS};

    while (now < until_ns && !atomic_load(&w->priv->stopping) &&
           atomic_load_explicit(&turn->pause_ns, memory_order_relaxed)) {
        nanosleep(&pause, NULL);
        now = gp_now_ns();
    }
    atomic_fetch_add_explicit(&w->priv->usage->spent[WRK_SPENT_WAIT_NS][slice],
                              now - began, memory_order_relaxed);
}
