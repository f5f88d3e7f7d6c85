/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_turn.h"

#include "stub_link.h"

static_assert(STUB_LINKS_MAX <= 32, "one bit each");

static __thread uint32_t newest[STUB_LINKS_MAX]; /* this thread's newest frames */
/* Links where this thread has noted work since it last waited; one bit each. */
static __thread uint32_t working;

static uint32_t
turn_bit(const struct stub_link *link)
{
    return 1u << link->number;
}

bool
managed_turn_work(struct managed_turn *t, uint64_t stream, uint32_t ctx)
{
    const bool idle = managed_turn_is_idle(t);

    if (idle) {
        t->work = stream;
        t->ctx = ctx;
    } else if (t->work != stream || t->ctx != ctx) {
        t->work = STUB_MANAGED_SOME;
        if (t->ctx != ctx)
            t->ctx = 0;
    }
    working |= turn_bit(stub_link_here());
    return idle;
}

void
managed_turn_placed(struct managed_turn *t, const struct stub_link *link, uint32_t seq,
                    uint32_t ctx)
{
    uint64_t idle = MANAGED_TURN_IDLE;

    newest[link->number] = seq;
    if (!(working & turn_bit(link)))
        return;
    atomic_store(&t->placed, seq);
    if (managed_turn_is_idle(t)) {
        t->ctx = ctx;
        atomic_compare_exchange_strong(&t->work, &idle, STUB_MANAGED_SOME);
    }
}

static bool
turn_is_behind(const struct managed_turn *t)
{
    return (int32_t)(atomic_load(&t->placed) - newest[stub_link_here()->number]) > 0;
}

bool
managed_turn_is_over(const struct managed_turn *t, uint64_t stream, uint32_t ctx)
{
    return t->ctx == ctx && !turn_is_behind(t) &&
           (stream == STUB_MANAGED_ALL ||
            (stream == t->work && stream != STUB_MANAGED_SOME));
}

/* Whoever notes a place behind the wait sees the turn as it was and need do nothing, or
 * begins it anew; in the first case the second look here finds that place. */
void
managed_turn_waited(struct managed_turn *t, uint64_t stream, uint32_t ctx, bool seen)
{
    working &= ~turn_bit(stub_link_here());
    if (!seen || !managed_turn_is_over(t, stream, ctx))
        return;
    t->work = MANAGED_TURN_IDLE;
    if (turn_is_behind(t))
        t->work = STUB_MANAGED_SOME;
}
