/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_spare_table.h. */
#include "stub_spare_table.h"

#include "gp_base.h"

#include <string.h>

/* May that block be handed out for @size bytes? */
static bool
fits(const struct stub_spare_table *t, const struct stub_spare *s, uint64_t size)
{
    return s->size >= size && s->size / STUB_SPARE_TIMES <= size &&
           t->slack + (s->size - size) <= t->limit / 2;
}

/* Of two that fit: the shorter one, or the one that was freed last. */
static bool
is_better(const struct stub_spare *s, const struct stub_spare *than)
{
    return s->size != than->size ? s->size < than->size : s->order > than->order;
}

/* Places from this one on are empty.  A link that has had no stream-ordered memory has
 * no ranges. */
static int
places(const struct stub_spare_table *t)
{
    return t->ranges ? (int)atomic_load_explicit(&t->ranges->n, memory_order_relaxed)
                     : 0;
}

int
stub_spare_table_find(const struct stub_spare_table *t, const struct stub_spare *want)
{
    int n = places(t), best = -1;

    for (int i = 0; i < n; i++) {
        const struct stub_spare *s = &t->at[i];

        if (s->size && s->stream == want->stream && s->pool == want->pool &&
            s->ctx_unique == want->ctx_unique &&
            (s->size == want->size || fits(t, s, want->size)) &&
            (best < 0 || is_better(s, &t->at[best])))
            best = i;
    }
    return best;
}

int
stub_spare_table_oldest(const struct stub_spare_table *t)
{
    int n = places(t), best = -1;

    for (int i = 0; i < n; i++)
        if (t->at[i].size && (best < 0 || t->at[i].order < t->at[best].order))
            best = i;
    return best;
}

static int
empty_place(const struct stub_spare_table *t)
{
    for (int i = 0; i < (int)STUB_SPARES_MAX; i++)
        if (!t->at[i].size)
            return i;
    return -1;
}

bool
stub_spare_table_could_hold(const struct stub_spare_table *t, uint64_t size)
{
    return size <= t->limit && t->slack <= t->limit - size;
}

bool
stub_spare_table_has_room(const struct stub_spare_table *t, uint64_t size)
{
    return stub_spare_table_could_hold(t, size) &&
           t->bytes <= t->limit - size - t->slack && empty_place(t) >= 0;
}

void
stub_spare_table_enter(struct stub_spare_table *t, const struct stub_spare *spare)
{
    int i = empty_place(t);

    t->at[i] = *spare;
    t->at[i].order = ++t->order;
    t->bytes += spare->size;
    stub_spare_ranges_enter(t->ranges, (uint32_t)i, spare->addr, spare->size);
}

void
stub_spare_table_remove(struct stub_spare_table *t, int i)
{
    t->bytes -= t->at[i].size;
    t->at[i] = (struct stub_spare){0};
    stub_spare_ranges_clear(t->ranges, (uint32_t)i);
}

/* ---- pools ------------------------------------------------------------------ */

static struct stub_spare_pool *
pool_at(struct stub_spare_table *t, uint32_t pool)
{
    struct stub_spare_pool *p = &t->pools[pool - 1];

    return p->same ? &t->pools[p->same - 1] : p;
}

/* One that has a number of its own.  0: none. */
static uint32_t
pool_find(const struct stub_spare_table *t, uint64_t handle)
{
    for (uint32_t i = 0; handle && i < STUB_SPARE_POOLS; i++)
        if (t->pools[i].used && t->pools[i].handle == handle && !t->pools[i].same)
            return i + 1;
    return 0;
}

/* Nobody can mean it any more: it was destroyed, or turned out to be another one, and
 * has no memory of a living context. */
static bool
pool_is_over(struct stub_spare_table *t, uint32_t i)
{
    const struct stub_spare_pool *p = &t->pools[i], *of = pool_at(t, i + 1);

    return !p->used || ((p->destroyed || p->same) && of->live == of->lost_live &&
                        of->held == of->lost_held);
}

/* What the pool's changes were is of no interest any more. */
static void
changes_forget(struct stub_spare_table *t, uint32_t pool)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_changes; i++)
        if (t->changes[i].pool != pool)
            t->changes[n++] = t->changes[i];
    t->n_changes = n;
}

static void
pool_forget(struct stub_spare_table *t, uint32_t i)
{
    t->pools[i] = (struct stub_spare_pool){0};
    changes_forget(t, i + 1);
}

/* Numbers of the same pool go before its own. */
static uint32_t
pool_new(struct stub_spare_table *t, uint64_t handle, CUdevice dev)
{
    for (int same = 1; same >= 0; same--)
        for (uint32_t i = 0; i < STUB_SPARE_POOLS; i++)
            if (t->pools[i].used && !t->pools[i].same == !same && pool_is_over(t, i))
                pool_forget(t, i);
    for (uint32_t i = 0; i < STUB_SPARE_POOLS; i++)
        if (!t->pools[i].used) {
            t->pools[i] =
                (struct stub_spare_pool){.used = true, .handle = handle, .dev = dev};
            return i + 1;
        }
    return 0;
}

static bool
has_current(CUdevice dev)
{
    return dev >= 0 && dev < (int)STUB_SPARE_DEVICES;
}

uint32_t
stub_spare_table_pool(struct stub_spare_table *t, uint64_t handle, CUdevice dev)
{
    uint32_t pool;

    if (!handle && !has_current(dev))
        return 0;
    pool = handle ? pool_find(t, handle) : t->current[dev];
    if (!pool)
        pool = pool_new(t, handle, dev);
    if (!handle)
        t->current[dev] = pool;
    return pool;
}

bool
stub_spare_table_is_unclear(const struct stub_spare_table *t, uint64_t handle,
                            CUdevice dev)
{
    if (handle)
        return !pool_find(t, handle) && stub_spare_table_unknown(t);
    if (!has_current(dev) || t->current[dev])
        return false;
    for (uint32_t i = 0; i < STUB_SPARE_POOLS; i++)
        if (t->pools[i].used)
            return true;
    return false;
}

uint32_t
stub_spare_table_unknown(const struct stub_spare_table *t)
{
    for (uint32_t i = 0; i < STUB_SPARE_POOLS; i++)
        if (t->pools[i].used && !t->pools[i].handle)
            return i + 1;
    return 0;
}

void
stub_spare_table_destroyed(struct stub_spare_table *t, uint64_t handle)
{
    uint32_t pool = pool_find(t, handle);

    if (pool)
        t->pools[pool - 1].destroyed = true;
}

/* If both were used already, their largest uses need not have been at the same time,
 * which is not known any more: the sums are what they can have been at most, and their
 * difference is that of the two. */
void
stub_spare_table_known(struct stub_spare_table *t, uint32_t pool, uint64_t handle)
{
    struct stub_spare_pool *p = &t->pools[pool - 1], *other;
    uint32_t same = pool_find(t, handle);

    p->handle = handle;
    p->destroyed = handle == UINT64_MAX;
    if (!same || same == pool)
        return;
    other = &t->pools[same - 1];
    other->live += p->live;
    other->held += p->held;
    other->lost_live += p->lost_live;
    other->lost_held += p->lost_held;
    other->live_high += p->live_high;
    other->held_high += p->held_high;
    p->same = same;
    for (uint32_t i = 0; i < STUB_SPARE_DEVICES; i++)
        if (t->current[i] == pool)
            t->current[i] = same;
}

void
stub_spare_table_forget_current(struct stub_spare_table *t)
{
    for (uint32_t i = 0; i < STUB_SPARE_DEVICES; i++)
        t->current[i] = 0;
}

void
stub_spare_table_count(struct stub_spare_table *t, uint32_t pool, int64_t live,
                       int64_t held)
{
    struct stub_spare_pool *p = pool_at(t, pool);

    p->live += live;
    p->held += held;
    p->live_high = gp_max(p->live_high, p->live);
    p->held_high = gp_max(p->held_high, p->held);
}

/* The change in its place among those that are remembered; the first ones are
 * forgotten when there are too many. */
static void
change_enter(struct stub_spare_table *t, const struct stub_spare_change *change)
{
    uint32_t i;

    if (!t->asked)
        return;
    if (t->n_changes == STUB_SPARE_CHANGES)
        memmove(t->changes, t->changes + 1, --t->n_changes * sizeof(*t->changes));
    for (i = t->n_changes++; i && (int32_t)(t->changes[i - 1].seq - change->seq) > 0;
         i--)
        t->changes[i] = t->changes[i - 1];
    t->changes[i] = *change;
}

/* The largest use at the server, whose order was another one than that of the counts.
 */
static void
change_highest(struct stub_spare_table *t, uint32_t pool)
{
    struct stub_spare_pool *p = pool_at(t, pool);
    int64_t held = p->held;

    for (uint32_t i = t->n_changes; i-- > 0;)
        if (pool_at(t, t->changes[i].pool) == p) {
            p->held_high = gp_max(p->held_high, held);
            held -= t->changes[i].bytes;
        }
}

void
stub_spare_table_ask(struct stub_spare_table *t)
{
    t->asked++;
}

void
stub_spare_table_answered(struct stub_spare_table *t, uint32_t pool, uint64_t size,
                          uint32_t seq)
{
    const struct stub_spare_change change = {pool, seq, (int64_t)size};
    struct stub_spare_pool *p = pool_at(t, pool);

    if (size) {
        p->live += change.bytes;
        p->live_high = gp_max(p->live_high, p->live);
        p->held += change.bytes;
        change_enter(t, &change);
        change_highest(t, pool);
    }
    if (--t->asked == 0)
        t->n_changes = 0;
}

void
stub_spare_table_sent(struct stub_spare_table *t, uint32_t pool, uint64_t size,
                      uint32_t seq)
{
    const struct stub_spare_change change = {pool, seq, -(int64_t)size};

    pool_at(t, pool)->held += change.bytes;
    change_enter(t, &change);
}

void
stub_spare_table_lose(struct stub_spare_table *t, uint32_t pool, uint64_t size,
                      uint64_t block)
{
    pool_at(t, pool)->lost_live += (int64_t)size;
    pool_at(t, pool)->lost_held += (int64_t)block;
}

uint64_t
stub_spare_table_excess(const struct stub_spare_table *t, uint64_t handle)
{
    uint32_t pool = pool_find(t, handle);
    const struct stub_spare_pool *p = pool ? &t->pools[pool - 1] : NULL;

    return p && p->held_high > p->live_high ? (uint64_t)(p->held_high - p->live_high)
                                            : 0;
}

uint64_t
stub_spare_table_excess_now(const struct stub_spare_table *t, uint64_t handle)
{
    uint32_t pool = pool_find(t, handle);
    const struct stub_spare_pool *p = pool ? &t->pools[pool - 1] : NULL;

    return p && p->held > p->live ? (uint64_t)(p->held - p->live) : 0;
}

void
stub_spare_table_reset(struct stub_spare_table *t, uint64_t handle)
{
    uint32_t pool = pool_find(t, handle);

    if (!pool)
        return;
    t->pools[pool - 1].live_high = t->pools[pool - 1].live;
    t->pools[pool - 1].held_high = t->pools[pool - 1].held;
    changes_forget(t, pool);
}
