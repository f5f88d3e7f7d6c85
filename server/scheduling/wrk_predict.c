/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_predict.h"

#include "gp_base.h"

GP_HOT void
wrk_predict_learn(struct wrk_predict *p, uint64_t key, uint64_t ns)
{
    struct wrk_predict_kind *kind = wrk_predict_kind(p, key);
    uint64_t before = atomic_load_explicit(&kind->ewma_ns, memory_order_relaxed);
    uint32_t seen = atomic_load_explicit(&kind->seen, memory_order_relaxed);

    if (atomic_load_explicit(&kind->key, memory_order_relaxed) != key)
        seen = 0;
    /* Too short a prediction lets a queue build up, too long a one does not. */
    if (seen)
        ns = ns > before ? (before + ns) / 2 : (before * 7 + ns) / 8;
    atomic_store_explicit(&kind->ewma_ns, gp_max(ns, UINT64_C(1)),
                          memory_order_relaxed);
    atomic_store_explicit(&kind->seen, gp_min(seen + 1, WRK_PREDICT_MARKS),
                          memory_order_relaxed);
    atomic_store_explicit(&kind->key, key, memory_order_relaxed);
}
