/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches and resident CTAs: memory for warps, the loop over warps.
 *
 * A CTA object keeps its memory from launch to launch and grows only.  Warps run in
 * turn, each until it blocks, ends or has had its quantum, so that one warp's registers
 * stay in the cache.
 */
#include "exec_native.h"
#include "exec_race.h"
#include "exec_race_grid.h"
#include "exec_straight.h"
#include "gp_err.h"
#include "sg_cta.h"
#include "sg_prog.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint64_t launches; /* so far: atomic; a launch's serial number */

static bool
cluster_fits(const struct sg_launch *launch)
{
    uint64_t n = 1;

    for (int k = 0; k < 3; k++) {
        uint32_t c = launch->cluster[k];
        if (c == 0 || c > SG_MAX_CLUSTER || launch->grid[k] % c)
            return false;
        n *= c;
    }
    return n <= SG_MAX_CLUSTER;
}

int
sg_launch_init(struct sg_launch *launch, struct gp_err *err)
{
    const struct sg_unit *unit = sg_kernel_unit(launch->kernel);
    const struct sg_target *target = sg_prog_target(launch->kernel->prog);
    uint64_t threads, ctas, shared, local;

    if (!unit)
        return gp_err_set(err, -EINVAL, "kernel is not prepared");
    for (int k = 0; k < 3; k++)
        if (launch->grid[k] == 0 || launch->block[k] == 0)
            return gp_err_set(err, -EINVAL, "grid or block has a dimension of zero");
    if (launch->grid[0] > INT32_MAX || launch->grid[1] > 65535 ||
        launch->grid[2] > 65535)
        return gp_err_set(err, -EINVAL, "grid is too large");
    if (launch->block[0] > 1024 || launch->block[1] > 1024 || launch->block[2] > 64)
        return gp_err_set(err, -EINVAL, "block is too large");
    if (launch->cluster[0] && !cluster_fits(launch))
        return gp_err_set(
            err, -EINVAL,
            "a cluster of %u x %u x %u blocks does not divide the grid or "
            "has more than %u",
            launch->cluster[0], launch->cluster[1], launch->cluster[2], SG_MAX_CLUSTER);
    threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    shared = (uint64_t)unit->static_shared + launch->dyn_shared;
    if (threads > target->max_threads_per_cta)
        return gp_err_set(err, -EINVAL, "block of %llu threads, at most %u",
                          (unsigned long long)threads, target->max_threads_per_cta);
    if (shared > target->max_shared_per_cta)
        return gp_err_set(err, -EINVAL, "%llu bytes of shared memory, at most %u",
                          (unsigned long long)shared, target->max_shared_per_cta);
    local = unit->local_bytes;
    if (unit->uses_dyn_stack)
        local += launch->stack_bytes;
    if (local > target->max_local_per_thread)
        return gp_err_set(err, -EINVAL, "%llu bytes of local memory, at most %u",
                          (unsigned long long)local, target->max_local_per_thread);
    launch->unit = unit;
    if (!target->check)
        sg_native_launch((struct sg_unit *)(uintptr_t)unit);
    launch->serial = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    launch->n_ctas = ctas;
    launch->threads = (uint32_t)threads;
    launch->warps = (uint32_t)((threads + SG_LANES - 1) / SG_LANES);
    launch->shared_bytes =
        (uint32_t)GP_ALIGN_UP(shared, gp_max(target->shared_unit, 1u));
    launch->local_stride = (uint32_t)GP_ALIGN_UP(local, (uint64_t)16);
    launch->fault_lock = 0;
    memset(&launch->fault, 0, sizeof(launch->fault));
    if (target->check & SG_CHECK_RACES)
        launch->races = sg_race_grid_new(ctas);
    return 0;
}

void
sg_launch_end(struct sg_launch *launch)
{
    sg_race_grid_free(launch->races);
    launch->races = NULL;
}

int
sg_cta_new(struct sg_cta **ret_cta)
{
    struct sg_cta *cta = calloc(1, sizeof(*cta));

    if (!cta)
        return -ENOMEM;
    cta->end = SG_CTA_DONE;
    *ret_cta = cta;
    return 0;
}

static void
warp_free(struct sg_warp *warp)
{
    if (!warp)
        return;
    for (int c = 0; c < SG_N_CLASSES; c++)
        free(warp->area[c]);
    free(warp->calls);
    free(warp);
}

void
sg_cta_free(struct sg_cta *cta)
{
    if (!cta)
        return;
    for (uint32_t i = 0; i < cta->cap_warps; i++)
        warp_free(cta->warps[i]);
    free(cta->warps);
    free(cta->shared);
    free(cta->local);
    free(cta->tid_tables);
    free(cta->matrix);
    free(cta->wgmma);
    sg_race_free(cta->race);
    free(cta);
}

/* ---------------------------------------------------------------------- memory */

static int
warps_ensure(struct sg_cta *cta, uint32_t n)
{
    struct sg_warp **warps;

    if (n <= cta->cap_warps)
        return 0;
    warps = reallocarray(cta->warps, n, sizeof(*warps));
    if (!warps)
        return -ENOMEM;
    cta->warps = warps;
    while (cta->cap_warps < n) {
        struct sg_warp *warp = calloc(1, sizeof(*warp));
        if (!warp)
            return -ENOMEM;
        warp->index = cta->cap_warps;
        cta->warps[cta->cap_warps++] = warp;
    }
    return 0;
}

static int
area_ensure(struct sg_warp *warp, int cls, uint32_t bytes)
{
    char *area;

    bytes = gp_max(GP_ALIGN_UP(bytes, 64u), 64u);
    if (warp->cap[cls] >= bytes)
        return 0;
    area = aligned_alloc(64, bytes);
    if (!area)
        return -ENOMEM;
    memset(area, 0, bytes); /* a new tenant's registers hold nothing of the old one */
    free(warp->area[cls]);
    warp->area[cls] = area;
    warp->cap[cls] = bytes;
    return 0;
}

static int
memory_ensure(struct sg_cta *cta, const struct sg_launch *launch)
{
    uint64_t local = (uint64_t)launch->local_stride * launch->warps * SG_LANES;
    uint8_t *p;

    if (cta->cap_shared < cta->shared_bytes) {
        uint32_t cap = GP_ALIGN_UP(cta->shared_bytes, 1024u);
        p = aligned_alloc(1024, cap);
        if (!p)
            return -ENOMEM;
        free(cta->shared);
        cta->shared = p;
        cta->cap_shared = cap;
        memset(p, 0, cap);
    }
    if (cta->cap_local < local) {
        p = calloc(1, local);
        if (!p)
            return -ENOMEM;
        free(cta->local);
        cta->local = p;
        cta->cap_local = local;
    }
    return 0;
}

/* Thread indexes by lane; the same for every CTA of a block shape. */
static int
tids_ensure(struct sg_cta *cta, const struct sg_launch *launch)
{
    const uint32_t *b = launch->block;
    uint32_t lanes = launch->warps * SG_LANES;

    if (cta->tid_cap >= lanes && memcmp(cta->tid_block, b, sizeof(cta->tid_block)) == 0)
        return 0;
    if (cta->tid_cap < lanes) {
        uint32_t *t = aligned_alloc(64, (size_t)lanes * 3 * sizeof(*t));
        if (!t)
            return -ENOMEM;
        free(cta->tid_tables);
        cta->tid_tables = t;
        cta->tid_cap = lanes;
    }
    memcpy(cta->tid_block, b, sizeof(cta->tid_block));
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t *t = cta->tid_tables + (size_t)(i / SG_LANES) * 3 * SG_LANES;
        t[i % SG_LANES] = i % b[0];
        t[SG_LANES + i % SG_LANES] = i / b[0] % b[1];
        t[2 * SG_LANES + i % SG_LANES] = i / b[0] / b[1];
    }
    return 0;
}

/* ----------------------------------------------------------------------- start */

static int
warp_start(struct sg_cta *cta, struct sg_warp *warp, const struct sg_launch *launch)
{
    const struct sg_unit_func *func = &cta->unit->funcs[0];
    uint32_t left = launch->threads - warp->index * SG_LANES;

    for (int c = 0; c < SG_N_CLASSES; c++) {
        if (warp->cap[c] >= func->frame.bytes[c] && warp->area[c])
            continue;
        warp->consts_of = 0;
        if (area_ensure(warp, c, func->frame.bytes[c]) < 0)
            return -ENOMEM;
    }
    for (int k = 0; k < 3; k++)
        warp->tid[k] =
            cta->tid_tables + ((size_t)warp->index * 3 + (size_t)k) * SG_LANES;
    warp->born = left >= SG_LANES ? UINT32_MAX : (1u << left) - 1;
    warp->live = warp->born;
    warp->cluster_parity = UINT32_MAX;
    if (warp->takes)
        memset(warp->taken, 0, sizeof(warp->taken));
    warp->takes = false;
    warp->n_frags = 1;
    warp->frags[0] =
        (struct sg_frag){.mask = warp->live, .pc = func->entry, .state = SG_FRAG_RUN};
    warp->edges = SG_FAIR_BACK_EDGES;
    warp->want_fair = warp->yielded = warp->polled = false;
    warp->asleep_on = NULL;
    if (warp->consts_of != cta->fill_serial) {
        const uint32_t base[SG_N_CLASSES] = {0};
        sg_warp_fill_consts(cta, warp, func, base, warp->live);
        /* calls grow frames over nothing of function 0, whose constants stay; the rest
         * of them is there when READY has run */
        if (func->body == func->entry)
            warp->consts_of = cta->fill_serial;
    } else {
        warp->frags[0].pc = func->body;
    }
    return 0;
}

int
sg_cta_start(struct sg_cta *cta, struct sg_launch *launch, uint64_t index,
             uint32_t smid)
{
    const struct sg_unit *unit = launch->unit;
    const bool same_launch = cta->filled_launch == launch->serial;

    if (!same_launch) {
        cta->fill_serial++;
        cta->filled_launch = launch->serial;
    }
    cta->launch = launch;
    cta->unit = unit;
    cta->inst = launch->inst;
    cta->index = index;
    cta->smid = smid;
    cta->ctaid[0] = (uint32_t)(index % launch->grid[0]);
    cta->ctaid[1] = (uint32_t)(index / launch->grid[0] % launch->grid[1]);
    cta->ctaid[2] = (uint32_t)(index / launch->grid[0] / launch->grid[1]);
    cta->generation = sg_memview_generation(launch->view);
    cta->local_stride = launch->local_stride;
    cta->shared_bytes = launch->shared_bytes;
    if (unit->uses_reserved)
        cta->shared_bytes = GP_ALIGN_UP(launch->shared_bytes, 16u) + SG_RESERVED_SHARED;
    cta->live_threads = launch->threads;
    cta->n_warps = launch->warps;
    cta->cur_warp = 0;
    cta->cluster = NULL;
    cta->cluster_rank = 0;
    cta->alone.n = 1;
    cta->alone.ctas[0] = cta;
    cta->alone.pending = launch->threads;
    cta->alone.phase = false;
    cta->rng = launch->seed ? launch->seed * 0x9e3779b97f4a7c15ull + index + 1 : 0;
    cta->end = SG_CTA_YIELD;
    if (cta->bars_used)
        memset(cta->bars, 0, sizeof(cta->bars));
    cta->bars_used = 0;
    for (int k = 0; k < 3; k++) {
        cta->dims[k] = launch->block[k];
        cta->dims[3 + k] = cta->ctaid[k];
        cta->dims[6 + k] = launch->grid[k];
    }
    if (warps_ensure(cta, launch->warps) < 0 || memory_ensure(cta, launch) < 0 ||
        tids_ensure(cta, launch) < 0)
        return -ENOMEM;
    /* the CTA before it, of the same launch, has left its warps as they would be */
    cta->as_left = same_launch && cta->n_straight == cta->n_warps && !cta->rng &&
                   !launch->cluster[0];
    if (!cta->as_left)
        cta->n_straight = 0;
    for (uint32_t i = 0; !cta->as_left && i < cta->n_warps; i++)
        if (warp_start(cta, cta->warps[i], launch) < 0)
            return -ENOMEM;
    return 0;
}

/* ------------------------------------------------------------------------- run */

static sg_interp_fn *interp;
static const char *interp_name = "?";
static pthread_once_t interp_once = PTHREAD_ONCE_INIT;

static void
interp_init(void)
{
    interp = sg_interp_choose(&interp_name);
}

const char *
sg_exec_isa(void)
{
    pthread_once(&interp_once, interp_init);
    return interp_name;
}

/* Nobody can run: say who waits for whom. */
static enum sg_cta_state
deadlock(struct sg_cta *cta)
{
    for (uint32_t w = 0; w < cta->n_warps; w++) {
        struct sg_warp *warp = cta->warps[w];
        if (!warp->live)
            continue;
        sg_fault_set(cta, warp, (unsigned)__builtin_ctz(warp->frags[0].mask),
                     SG_FAULT_LAUNCH_FAILED, 0,
                     warp->frags[0].state == SG_FRAG_BAR
                         ? "deadlock: threads wait at a barrier that others never reach"
                         : "deadlock: lanes wait for members that never come");
        break;
    }
    return SG_CTA_FAULT;
}

/* Whether the warp misses its turn; see sg_warp.asleep_on. */
static bool
stays_asleep(struct sg_warp *warp)
{
    if (likely(!warp->asleep_on))
        return false;
    if ((*warp->asleep_on & SG_MBAR_PHASE) == warp->asleep_phase &&
        warp->missed_turns++ < SG_MAX_MISSED_TURNS)
        return true;
    warp->asleep_on = NULL;
    return false;
}

static void
wake_all(struct sg_cta *cta)
{
    for (uint32_t w = 0; w < cta->n_warps; w++)
        cta->warps[w]->asleep_on = NULL;
}

/* One turn over the warps.  *ret_ran: some warp executed something but a sleep. */
static enum sg_stop
run_round(struct sg_cta *cta, bool *ret_ran, bool *ret_alive)
{
    *ret_ran = *ret_alive = false;
    for (uint32_t n = 0; n < cta->n_warps; n++) {
        struct sg_warp *warp = cta->warps[cta->cur_warp];
        enum sg_stop stop = SG_STOP_DONE;
        uint64_t before = cta->executed;
        if (warp->live && stays_asleep(warp)) {
            stop = SG_STOP_YIELD;
        } else if (warp->live) {
            warp->yielded = false;
            stop = sg_straight_begins(cta, warp) ? sg_straight_warp(cta, warp)
                                                 : SG_STOP_NONE;
            if (stop == SG_STOP_NONE)
                stop = interp(cta, warp);
        }
        switch (stop) {
        case SG_STOP_FAULT:
        case SG_STOP_CANCEL:
            return stop;
        case SG_STOP_BUDGET:
            *ret_ran = *ret_alive = true;
            cta->cur_warp = (cta->cur_warp + 1) % cta->n_warps;
            return stop;
        case SG_STOP_YIELD:
            *ret_alive = true;
            *ret_ran |= !warp->yielded;
            break;
        default:
            *ret_alive |= warp->live != 0;
            *ret_ran |= cta->executed != before;
            break;
        }
        cta->cur_warp = (cta->cur_warp + 1) % cta->n_warps;
    }
    return SG_STOP_NONE;
}

static bool
any_runnable(const struct sg_cta *cta)
{
    for (uint32_t w = 0; w < cta->n_warps; w++)
        for (uint32_t i = 0; i < cta->warps[w]->n_frags && cta->warps[w]->live; i++)
            if (cta->warps[w]->frags[i].state == SG_FRAG_RUN)
                return true;
    return false;
}

static enum sg_cta_state
run_until(struct sg_cta *cta)
{
    for (;;) {
        bool ran, alive;
        enum sg_stop stop = run_round(cta, &ran, &alive);
        if (stop == SG_STOP_FAULT)
            return SG_CTA_FAULT;
        if (stop == SG_STOP_CANCEL)
            return SG_CTA_CANCELLED;
        if (!alive)
            return SG_CTA_DONE;
        if (stop == SG_STOP_BUDGET)
            return SG_CTA_YIELD;
        if (sg_cancelled(cta))
            return SG_CTA_CANCELLED;
        if (__atomic_load_n(&cta->launch->fault_lock, __ATOMIC_RELAXED))
            return SG_CTA_FAULT;
        if (!any_runnable(cta))
            return deadlock(cta);
        if (cta->executed >= cta->limit)
            return SG_CTA_YIELD;
        if (cta->all_slept && !ran)
            return SG_CTA_STALLED;
        cta->all_slept = !ran;
        if (!ran)
            wake_all(cta);
    }
}

/* A CTA whose warps are as the one before it left them, which ended straight: most end
 * so too.  From the first one that does not, they are set up. */
static enum sg_cta_state
run_as_left(struct sg_cta *cta)
{
    enum sg_stop stop;
    uint32_t at, pc;

    cta->as_left = false;
    stop = sg_straight_cta(cta, &at, &pc);
    if (stop == SG_STOP_DONE)
        return SG_CTA_DONE;
    if (stop == SG_STOP_FAULT)
        return SG_CTA_FAULT;
    cta->n_straight = 0;
    for (uint32_t i = at; i < cta->n_warps; i++)
        if (warp_start(cta, cta->warps[i], cta->launch) < 0)
            return SG_CTA_FAULT; /* never: it has been started in this launch */
    cta->warps[at]->frags[0].pc = pc;
    cta->cur_warp = at;
    return run_until(cta);
}

enum sg_cta_state
sg_cta_run(struct sg_cta *cta, uint64_t budget)
{
    uint64_t seen, before = cta->executed;

    pthread_once(&interp_once, interp_init);
    if (cta->end != SG_CTA_YIELD && cta->end != SG_CTA_STALLED)
        return cta->end;
    seen = cta->reader.seen;
    sg_memview_reader_enter(cta->launch->view, &cta->reader);
    if (cta->tlb_launch != cta->launch->serial || cta->reader.seen != seen) {
        /* what is cached of this view holds until something is removed from it */
        memset(cta->tlb, 0, sizeof(cta->tlb));
        cta->tlb_launch = cta->launch->serial;
    }
    cta->limit =
        gp_add_ok(cta->executed, budget, &cta->limit) ? cta->limit : UINT64_MAX;
    cta->all_slept = false;
    cta->end = cta->as_left ? run_as_left(cta) : run_until(cta);
    sg_memview_reader_leave(&cta->reader);
    if (sg_native_wants_heat() && !sg_prog_target(cta->launch->kernel->prog)->check)
        sg_native_heat((struct sg_unit *)(uintptr_t)cta->unit, cta->executed - before);
    return cta->end;
}

uint64_t
sg_cta_instructions(const struct sg_cta *cta)
{
    return cta->executed;
}
