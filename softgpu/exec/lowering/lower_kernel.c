/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing a kernel: its unit is built on first use, under the program's lock.
 */
#include "lower_unit.h"
#include "sg_prog.h"

#include "gp_err.h"

#include <pthread.h>

static int
prepare_locked(const struct sg_prog *prog, struct sg_prog_kernel *k)
{
    struct sg_unit *unit;
    uint32_t regs;

    k->failed = sg_unit_build(prog, k->ast, &unit, &k->words);
    if (k->failed < 0) {
        gp_err_wrap(&k->words, k->failed, "kernel %s", k->pub.name);
        return k->failed;
    }
    regs = unit->funcs[0].frame.bytes[SG_W] / SG_SLOT_W +
           2 * (unit->funcs[0].frame.bytes[SG_D] / SG_SLOT_D);
    k->pub.static_shared = unit->static_shared;
    k->pub.local_bytes = unit->local_bytes;
    k->pub.uses_dyn_stack = unit->uses_dyn_stack;
    k->pub.uses_grid_sync = unit->uses_grid_sync;
    /* what the card would use: slots that hold constants are none there */
    regs = gp_min(gp_max(regs - gp_min(regs, unit->funcs[0].n_consts), 16u), 255u);
    if (k->pub.max_regs)
        regs = gp_min(regs, k->pub.max_regs);
    k->pub.regs = regs;
    __atomic_store_n(&k->unit, unit, __ATOMIC_RELEASE);
    return 0;
}

int
sg_kernel_prepare(const struct sg_kernel *kernel, struct gp_err *err)
{
    struct sg_prog_kernel *k = (struct sg_prog_kernel *)(uintptr_t)kernel;
    int r = 0;

    if (__atomic_load_n(&k->unit, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(sg_prog_lock(kernel->prog));
    if (!k->unit && !k->failed)
        prepare_locked(kernel->prog, k);
    if (k->failed) {
        r = k->failed;
        gp_err_set(err, r, "%s", k->words.msg);
    }
    pthread_mutex_unlock(sg_prog_lock(kernel->prog));
    return r;
}
