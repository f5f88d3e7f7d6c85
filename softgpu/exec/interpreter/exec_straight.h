/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warps of short kernels: from the first operation to the last one in machine code,
 * without the interpreter, whose beginning and end cost more than such a kernel's work.
 *
 * Only where the kernel has no jump back (sg_native.straight), so that there is nothing
 * to count against budgets and turns.  The interpreter goes on with what the machine
 * code leaves to it.  When all warps of a CTA have ended so, the next one of the launch
 * does not set its warps up anew: sg_straight_cta() runs them as they are.
 *
 * On the thread that runs the CTA.
 */
#ifndef EXEC_STRAIGHT_H
#define EXEC_STRAIGHT_H

#include "sg_native.h"

#include "gp_base.h"

/* Whether kernels of @unit may run straight now. */
static inline bool
sg_straight_unit(const struct sg_unit *unit)
{
    const struct sg_native *native = __atomic_load_n(&unit->native, __ATOMIC_ACQUIRE);

    return native && native->straight;
}

/* Whether @warp, which is alive, is where its kernel begins, all lanes together. */
static inline bool
sg_straight_begins(const struct sg_cta *cta, const struct sg_warp *warp)
{
    return sg_straight_unit(cta->unit) && warp->n_frags == 1 && !cta->rng &&
           warp->frags[0].pc == cta->unit->funcs[0].body &&
           warp->frags[0].state == SG_FRAG_RUN && !warp->want_fair && warp->edges;
}

/* SG_STOP_DONE: the warp has ended.  SG_STOP_FAULT.  SG_STOP_NONE: the interpreter goes
 * on where the warp's fragment is. */
enum sg_stop sg_straight_warp(struct sg_cta *cta, struct sg_warp *warp);

/* The warps of a CTA, none of which has been set up, in turn.  SG_STOP_DONE: all have
 * ended.  Else what stopped *ret_at, whose fragment is at *ret_pc; those before it have
 * ended, those behind it have not begun. */
enum sg_stop sg_straight_cta(struct sg_cta *cta, uint32_t *ret_at, uint32_t *ret_pc);

#endif
