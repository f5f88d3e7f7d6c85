/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_copygate.h"

#include "gov_copy.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_governor.h"
#include "wrk_segment.h"

#include <stdatomic.h>
#include <time.h>

/* Small copies ask the arbiter once for so many bytes. */
#define ASK_BYTES (256u * 1024)
/* How often to look whether the others have caught up. */
#define POLL_NS 200000

/* Bytes that the arbiter has not been told of yet. */
static _Atomic uint64_t untold[TICKET_SLICES_MAX];

uint64_t
wrk_copygate_take(struct wrk *w, uint32_t slice, uint64_t bytes)
{
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    struct gov_card *card;
    uint64_t sum, until;
    int at;

    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_MOVED][slice], bytes,
                              memory_order_relaxed);
    sum = atomic_fetch_add_explicit(&untold[slice], bytes, memory_order_relaxed);
    if (sum + bytes < ASK_BYTES || !wrk_governor_seat(w, slice, &card, &at))
        return 0;
    sum = atomic_exchange_explicit(&untold[slice], 0, memory_order_relaxed);
    gov_card_lock(card);
    until = gov_copy_take(card, at, sum, gp_now_ns());
    gov_card_unlock(card);
    return until;
}

void
wrk_copygate_wait(struct wrk *w, uint32_t slice, uint64_t until_ns)
{
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    uint64_t began = gp_now_ns(), now = began;
    struct timespec pause = {.tv_nsec = POLL_NS};
    struct gov_card *card;
    bool over = false;
    int at;

    if (!wrk_governor_seat(w, slice, &card, &at))
        return;
    while (!over && now < until_ns && !atomic_load(&w->priv->stopping)) {
        nanosleep(&pause, NULL);
        now = gp_now_ns();
        gov_card_lock(card);
        over = gov_copy_caught_up(card, at, now);
        gov_card_unlock(card);
    }
    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_WAIT_NS][slice], now - began,
                              memory_order_relaxed);
}
