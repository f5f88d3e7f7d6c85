/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_straight.h"

/* SG_STOP_DONE: @warp has come to its end, which the caller enters into the books. */
static inline enum sg_stop
run_native(struct sg_cta *cta, struct sg_warp *warp, uint32_t mask, uint32_t *pc)
{
    const struct sg_unit *unit = cta->unit;
    const struct sg_native_entry *entries = unit->native->entries;
    struct sg_native_run run = {.cta = cta,
                                .warp = warp,
                                .wb = warp->area[SG_W],
                                .db = warp->area[SG_D],
                                .pb = warp->area[SG_P],
                                .mask = mask,
                                .limit = UINT32_MAX,
                                .pc = *pc};
    const uint32_t end = entries[run.pc].fn(&run);
    uint32_t code;

    *pc = run.pc;
    cta->executed += run.executed;
    if (end == SG_NATIVE_FAULT)
        return SG_STOP_FAULT;
    code = entries[run.pc].fn ? entries[run.pc].code : unit->ops[run.pc].code;
    if (end != SG_NATIVE_STEP || (code != SG_OP_EXIT && code != SG_OP_RET))
        return SG_STOP_NONE;
    cta->executed++;
    return SG_STOP_DONE;
}

enum sg_stop
sg_straight_warp(struct sg_cta *cta, struct sg_warp *warp)
{
    struct sg_frag *frag = &warp->frags[0];
    enum sg_stop stop = run_native(cta, warp, frag->mask, &frag->pc);

    frag->fair = false;
    if (stop != SG_STOP_DONE)
        return stop;
    cta->n_straight++;
    return sg_op_exit(cta, warp, frag->mask);
}

enum sg_stop
sg_straight_cta(struct sg_cta *cta, uint32_t *ret_at, uint32_t *ret_pc)
{
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        struct sg_warp *warp = cta->warps[i];
        uint32_t pc = cta->unit->funcs[0].body, mask = warp->born;
        enum sg_stop stop = run_native(cta, warp, mask, &pc);
        if (stop != SG_STOP_DONE) {
            *ret_at = i;
            *ret_pc = pc;
            return stop;
        }
        cta->live_threads -= (uint32_t)__builtin_popcount(mask);
        cta->alone.pending -= (uint32_t)__builtin_popcount(mask);
    }
    return SG_STOP_DONE;
}
