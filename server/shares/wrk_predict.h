/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long launches will take: known from the last ones of their kind (the kernel and
 * its shape, or the graph).
 *
 * The governor's, one per slice.  Asked by the reader and taught under the governor's
 * lock, so its numbers are atomic: what is read beside a change is a little old.
 */
#ifndef WRK_PREDICT_H
#define WRK_PREDICT_H

#include <stdint.h>

#define WRK_PREDICT_KINDS 512u

/* A later kind takes the place of one with the same hash, which then counts as
 * unknown. */
struct wrk_predict {
    struct wrk_predict_kind {
        _Atomic uint64_t key;
        _Atomic uint64_t ewma_ns;
        _Atomic uint32_t seen; /* marks that it was learned from */
    } kinds[WRK_PREDICT_KINDS];
};

/* Of one launch of kind @key; 0: not known. */
uint64_t wrk_predict_ns(struct wrk_predict *p, uint64_t key);
void wrk_predict_learn(struct wrk_predict *p, uint64_t key, uint64_t ns);

#endif
