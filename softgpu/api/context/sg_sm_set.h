/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some of a device's multiprocessors: those that work may run on.  A plain value.
 */
#ifndef SG_SM_SET_H
#define SG_SM_SET_H

#include "sg_conf.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_sm_set {
    uint64_t bits[SG_MAX_SMS / 64];
    unsigned n; /* how many are set */
};

static inline bool
sg_sm_set_has(const struct sg_sm_set *set, unsigned sm)
{
    return sm < SG_MAX_SMS && set->bits[sm / 64] >> sm % 64 & 1;
}

/* False: it is there already. */
static inline bool
sg_sm_set_add(struct sg_sm_set *set, unsigned sm)
{
    if (sg_sm_set_has(set, sm))
        return false;
    set->bits[sm / 64] |= UINT64_C(1) << sm % 64;
    set->n++;
    return true;
}

/* The first @n multiprocessors, at most SG_MAX_SMS. */
static inline struct sg_sm_set
sg_sm_set_first(unsigned n)
{
    struct sg_sm_set set = {0};

    for (unsigned sm = 0; sm < n; sm++)
        sg_sm_set_add(&set, sm);
    return set;
}

/* Takes up to @n multiprocessors out of @from, the lowest first. */
static inline struct sg_sm_set
sg_sm_set_take(struct sg_sm_set *from, unsigned n)
{
    struct sg_sm_set set = {0};

    for (unsigned sm = 0; sm < SG_MAX_SMS && set.n < n; sm++)
        if (sg_sm_set_has(from, sm)) {
            from->bits[sm / 64] &= ~(UINT64_C(1) << sm % 64);
            from->n--;
            sg_sm_set_add(&set, sm);
        }
    return set;
}

#endif
