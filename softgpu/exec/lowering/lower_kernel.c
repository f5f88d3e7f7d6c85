/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing a kernel: its unit is built on first use, under the program's lock.
 */
#include "lower_unit.h"
#include "sg_prog.h"

#include "gp_err.h"

#include <pthread.h>

enum {
    SM_REGISTERS = 65536, /* of one multiprocessor, of all cards since 3.0 */
};

/* The registers per thread that a card's compiler limits itself to: as many blocks
 * as .minnctapersm says, of as many threads as .reqntid or .maxntid allows, must
 * fit onto one multiprocessor. */
static uint32_t
bounded_regs(const struct sg_kernel *k)
{
    const uint32_t *dims = k->reqntid[0] ? k->reqntid : k->maxntid;
    uint64_t threads = 1, regs;

    if (!dims[0])
        return 255;
    for (int i = 0; i < 3; i++)
        threads = gp_min(threads * gp_max(dims[i], 1u), UINT64_C(1024));
    threads = (threads + 31) / 32 * 32 * gp_max(gp_min(k->min_ctas_per_sm, 32u), 1u);
    regs = SM_REGISTERS / threads & ~UINT64_C(7);
    return (uint32_t)gp_max(gp_min(regs, UINT64_C(255)), UINT64_C(16));
}

static int
prepare_locked(const struct sg_prog *prog, struct sg_prog_kernel *k)
{
    struct sg_unit *unit;
    uint32_t regs;

    k->failed = sg_unit_build(prog, k->ast, &unit, &regs, &k->words);
    if (k->failed < 0) {
        gp_err_wrap(&k->words, k->failed, "kernel %s", k->pub.name);
        return k->failed;
    }
    k->pub.static_shared = unit->static_shared;
    k->pub.local_bytes = unit->local_bytes;
    k->pub.uses_dyn_stack = unit->uses_dyn_stack;
    k->pub.uses_grid_sync = unit->uses_grid_sync;
    regs = gp_min(gp_max(regs, 16u), bounded_regs(&k->pub));
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
