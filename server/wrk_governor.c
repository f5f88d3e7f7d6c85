/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_governor.h"

#include "wrk.h"

int
wrk_governor_new(struct wrk *w, struct wrk_governor **ret)
{
    (void)w;
    *ret = NULL;
    return 0;
}

void
wrk_governor_acquire_slow(struct wrk *w, CUstream stream, struct wrk_charge *charge)
{
    (void)w;
    (void)stream;
    charge->governed = false;
}

void
wrk_governor_launched_slow(struct wrk *w, struct wrk_charge *charge, CUresult result)
{
    (void)w;
    (void)charge;
    (void)result;
}

void
wrk_governor_forget(struct wrk *w, uint32_t ctx_index)
{
    (void)w;
    (void)ctx_index;
}
