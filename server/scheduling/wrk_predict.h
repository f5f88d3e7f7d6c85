/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates of how long launches will take, from the last ones of their kind (the
 * kernel and its shape, or the graph).
 *
 * One per slice, owned by the governor.  Read by the receive thread and updated under
 * the governor's lock, so its numbers are atomic: a value read during an update is
 * slightly out of date.
 */
#ifndef WRK_PREDICT_H
#define WRK_PREDICT_H

#include <stdatomic.h>
#include <stdint.h>

#define WRK_PREDICT_KINDS 512u

/* A kind that was measured less often counts as unknown: the same kernel takes a
 * microsecond with one argument and a second with another. */
#define WRK_PREDICT_MARKS 3u

/* A later kind takes the place of one with the same hash, which then counts as
 * unknown. */
struct wrk_predict {
    struct wrk_predict_kind {
        _Atomic uint64_t key;
        _Atomic uint64_t ewma_ns;
        _Atomic uint32_t seen; /* marks that it was learned from */
    } kinds[WRK_PREDICT_KINDS];
};

static inline struct wrk_predict_kind *
wrk_predict_kind(struct wrk_predict *p, uint64_t key)
{
    return &p->kinds[(key * 0x9e3779b97f4a7c15u >> 32) % WRK_PREDICT_KINDS];
}

/* Of one launch of kind @key; 0: not known. */
static inline uint64_t
wrk_predict_ns(struct wrk_predict *p, uint64_t key)
{
    struct wrk_predict_kind *kind = wrk_predict_kind(p, key);

    if (atomic_load_explicit(&kind->key, memory_order_relaxed) != key ||
        atomic_load_explicit(&kind->seen, memory_order_relaxed) < WRK_PREDICT_MARKS)
        return 0;
    return atomic_load_explicit(&kind->ewma_ns, memory_order_relaxed);
}

/* It took so long. */
void wrk_predict_learn(struct wrk_predict *p, uint64_t key, uint64_t ns);

#endif
