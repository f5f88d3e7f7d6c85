/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was advised of the parts of one managed allocation, and where they were
 * prefetched to: runs of bytes with the same answers.
 *
 * Owned by the allocation, from the first advice until sg_advice_free().  Nothing here
 * moves memory or knows what a page is: the caller rounds ranges.  Lock held.
 */
#ifndef SG_ADVICE_H
#define SG_ADVICE_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_advice;

/* What all bytes of a range have in common.  A location of type
 * CU_MEM_LOCATION_TYPE_INVALID: there is none, or not the same for all of them. */
struct sg_advised {
    CUmemLocation preferred, prefetched;
    unsigned accessed_by; /* bit per ordinal */
    bool accessed_by_host;
    bool read_mostly;
};

/* Changes one run; @arg as it was given to sg_advice_change(). */
typedef void sg_advice_fn(struct sg_advised *run, const void *arg);

/* Has @fn change what is known of the bytes from @from to @end.  *advice is NULL, or
 * what this function made of it.  CUDA_ERROR_OUT_OF_MEMORY: nothing is changed. */
CUresult sg_advice_change(struct sg_advice **advice, uint64_t from, uint64_t end,
                          sg_advice_fn *fn, const void *arg);

/* What the bytes from @from to @end, at least one, have in common. */
struct sg_advised sg_advice_of(const struct sg_advice *advice, uint64_t from,
                               uint64_t end);

void sg_advice_free(struct sg_advice *advice); /* NULL is a no-op */

#endif
