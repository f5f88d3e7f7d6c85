/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that run thread blocks, one per multiprocessor of the device.
 *
 * A thread keeps a few blocks resident and switches between them: when one only
 * spins or sleeps, when it has used its budget, and always for cooperative
 * launches, whose blocks must all be resident.  It holds a token of the card
 * while it runs a block; when another process waits it gives the token back
 * after a slice, with its blocks frozen where they are.
 *
 * Blocks of one launch start in increasing order.  Launches are taken by
 * priority, then in the order in which they became ready.
 */
#include "sg_sm.h"

#include "sg_card.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"

#include "gp_log.h"
#include "gp_time.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    /* Resident blocks per thread: what the largest profile allows per SM. */
    MAX_RESIDENT = 32,
    /* A block with more local memory than this is not kept for the next one. */
    KEEP_LOCAL = 8 << 20,
    /* Warp instructions per turn: about 0.2 ms of the interpreter, so that
     * cancelling, slices and switching stay well under a millisecond. */
    TURN = 20000,
    /* How long a token is kept when another process waits for it. */
    SLICE_NS = 2 * 1000 * 1000,
    /* Everything resident only spins: how long to leave the processor alone. */
    STALL_NS = 20 * 1000,
};

/* The blocks of a cluster that is resident.  Those that have ended wait here for the
 * others, who may still look into their shared memory. */
struct resident_cluster {
    struct sg_cluster *shared; /* the blocks' memory, as they see each other's */
    struct sg_cta *ended[SG_MAX_CLUSTER];
    unsigned n_ended, n;
};

struct resident {
    struct sg_cta *cta;
    struct sg_run *run;
    struct resident_cluster *cluster; /* NULL: no cluster */
    bool stalled;
};

struct sm_thread {
    struct sg_sm *sm;
    unsigned smid;
    struct resident slots[MAX_RESIDENT];
    struct sg_cta *spare[MAX_RESIDENT];
    unsigned n_slots, n_spare;
    unsigned turn; /* slot that runs next */
    bool token;
    uint64_t token_since;
};

struct sg_sm {
    struct sg_dev *dev;
    struct sg_run *runs; /* ready, with blocks not yet started; sorted */
    struct sg_run *busy; /* all blocks started, some active */
    pthread_cond_t cond;
    unsigned n_threads, n_idle;
};

int
sg_sm_new(struct sg_dev *dev, struct sg_sm **ret_sm)
{
    struct sg_sm *sm = calloc(1, sizeof(*sm));

    if (!sm)
        return -ENOMEM;
    sm->dev = dev;
    pthread_cond_init(&sm->cond, NULL);
    *ret_sm = sm;
    return 0;
}

/* ------------------------------------------------------------------- launches */

static void
list_remove(struct sg_run **list, struct sg_run *run)
{
    while (*list && *list != run)
        list = &(*list)->next;
    if (*list)
        *list = run->next;
}

/* Polled by the executor without the lock. */
static void
run_set_cancel(struct sg_run *run)
{
    __atomic_store_n(&run->cancel, 1, __ATOMIC_RELAXED);
}

static CUresult
run_result(const struct sg_run *run)
{
    const struct sg_fault *fault = &run->launch.fault;

    if (fault->code == SG_FAULT_NONE && run->late)
        gp_log_error("softgpu", "kernel %s: ended after %llu s (SOFTGPU_TIME_LIMIT)",
                     run->launch.kernel->name,
                     (unsigned long long)(run->dev->time_limit_ns / GP_NS_PER_S));
    if (fault->code == SG_FAULT_NONE)
        return run->late ? CUDA_ERROR_LAUNCH_TIMEOUT : CUDA_SUCCESS;
    gp_log_error(
        "softgpu",
        "kernel %s: %s (error %d) at line %u, address 0x%llx, block (%u,%u,%u), "
        "thread (%u,%u,%u), lane %u",
        fault->kernel ? fault->kernel : "?", fault->what, (int)fault->code, fault->line,
        (unsigned long long)fault->address, fault->cta[0], fault->cta[1], fault->cta[2],
        fault->thread[0], fault->thread[1], fault->thread[2], fault->lane);
    return (CUresult)fault->code;
}

static void
run_queue(struct sg_sm *sm, struct sg_run *run)
{
    struct sg_run **p = &sm->runs;

    while (*p && (*p)->work.priority <= run->work.priority)
        p = &(*p)->next;
    run->next = *p;
    *p = run;
    if (run->launch.n_ctas == 1 && run->sms.n == sm->dev->sms)
        pthread_cond_signal(&sm->cond);
    else
        pthread_cond_broadcast(&sm->cond);
}

/* Lock held.  Ends the launch when nothing of it is left to do, or goes on with what
 * its kernels have launched. */
static void
run_check_done(struct sg_sm *sm, struct sg_run *run)
{
    CUresult r;

    if (run->n_active || (!run->cancel && run->next_cta < run->launch.n_ctas))
        return;
    list_remove(&sm->runs, run);
    list_remove(&sm->busy, run);
    r = run_result(run);
    if (r == CUDA_SUCCESS && !run->cancel && run->then)
        r = run->then(run);
    if (r == CUDA_ERROR_NOT_READY)
        run_queue(sm, run);
    else
        sg_work_finish(&run->work, r);
}

static bool
runs_here(const struct sg_run *run, unsigned smid)
{
    return sg_sm_set_has(&run->sms, smid);
}

static unsigned
count_resident(const struct sm_thread *t, const struct sg_run *run)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->n_slots; i++)
        n += t->slots[i].run == run;
    return n;
}

/* Lock held.  The first launch that has a block for this thread, @other_than left out;
 * NULL: there is none. */
static struct sg_run *
pick_run(struct sm_thread *t, const struct sg_run *other_than)
{
    for (struct sg_run *run = t->sm->runs; run; run = run->next)
        if (run != other_than && !run->cancel && runs_here(run, t->smid) &&
            t->n_slots + run->cluster <= MAX_RESIDENT &&
            count_resident(t, run) < run->max_resident)
            return run;
    return NULL;
}

/* Lock held.  Takes the next block or cluster of @run; it is counted as active. */
static uint64_t
take_cta(struct sg_sm *sm, struct sg_run *run)
{
    uint64_t index = run->next_cta;

    if (!index)
        run->first_ns = gp_now_ns();
    run->next_cta += run->cluster;
    run->n_active += run->cluster;
    if (run->next_cta == run->launch.n_ctas) {
        list_remove(&sm->runs, run);
        run->next = sm->busy;
        sm->busy = run;
    }
    return index;
}

static void
ctas_ended(struct sg_sm *sm, struct sg_run *run, unsigned n, bool stop_all)
{
    sg_lock();
    if (stop_all)
        run_set_cancel(run);
    run->n_active -= n;
    run_check_done(sm, run);
    sg_unlock();
}

/* --------------------------------------------------------------------- tokens */

static void
token_take(struct sm_thread *t)
{
    if (t->token)
        return;
    sg_card_token_get(t->sm->dev->card);
    t->token = true;
    t->token_since = gp_now_ns();
}

static void
token_give(struct sm_thread *t)
{
    if (!t->token)
        return;
    t->token = false;
    sg_card_token_put(t->sm->dev->card, gp_now_ns() - t->token_since);
}

static void
token_share(struct sm_thread *t)
{
    if (sg_card_contended(t->sm->dev->card) && gp_now_ns() - t->token_since >= SLICE_NS)
        token_give(t);
}

/* ------------------------------------------------------------------ residency */

static void
cta_put(struct sm_thread *t, const struct sg_launch *launch, struct sg_cta *cta)
{
    if ((uint64_t)launch->local_stride * launch->threads > KEEP_LOCAL ||
        t->n_spare == MAX_RESIDENT)
        sg_cta_free(cta);
    else
        t->spare[t->n_spare++] = cta;
}

static void
cluster_end(struct sm_thread *t, const struct sg_launch *launch,
            struct resident_cluster *cluster)
{
    sg_cluster_free(cluster->shared);
    for (unsigned i = 0; i < cluster->n_ended; i++)
        cta_put(t, launch, cluster->ended[i]);
    free(cluster);
}

static void
slot_drop(struct sm_thread *t, unsigned i)
{
    const struct sg_launch *launch = &t->slots[i].run->launch;
    struct resident_cluster *cluster = t->slots[i].cluster;

    if (!cluster) {
        cta_put(t, launch, t->slots[i].cta);
    } else {
        cluster->ended[cluster->n_ended++] = t->slots[i].cta;
        if (cluster->n_ended == cluster->n)
            cluster_end(t, launch, cluster);
    }
    t->slots[i] = t->slots[--t->n_slots];
    if (t->turn >= t->n_slots)
        t->turn = 0;
}

static struct sg_cta *
cta_take(struct sm_thread *t)
{
    struct sg_cta *cta = NULL;

    if (t->n_spare)
        return t->spare[--t->n_spare];
    return sg_cta_new(&cta) < 0 ? NULL : cta;
}

static struct sg_cta *
cta_begin(struct sm_thread *t, struct sg_run *run, uint64_t index)
{
    struct sg_cta *cta = cta_take(t);

    if (cta && sg_cta_start(cta, &run->launch, index, t->smid) == 0)
        return cta;
    if (cta)
        cta_put(t, &run->launch, cta);
    return NULL;
}

/* The launch cannot go on: blocks that were taken end without having run. */
static void
give_up(struct sm_thread *t, struct sg_run *run)
{
    sg_lock();
    if (run->launch.fault.code == SG_FAULT_NONE)
        run->launch.fault.code = SG_FAULT_LAUNCH_FAILED;
    sg_unlock();
    ctas_ended(t->sm, run, run->cluster, true);
}

/* All blocks of the cluster that begins with the @index'th block taken. */
static struct resident_cluster *
cluster_begin(struct sm_thread *t, struct sg_run *run, uint64_t index)
{
    struct resident_cluster *cluster = calloc(1, sizeof(*cluster));
    bool ok = cluster != NULL;

    for (unsigned i = 0; ok && i < run->cluster; i++) {
        uint64_t member =
            sg_cluster_member(&run->launch, index / run->cluster, (uint32_t)i);

        cluster->ended[i] = cta_begin(t, run, member);
        ok = cluster->ended[i] != NULL;
        cluster->n_ended += ok;
    }
    if (ok && sg_cluster_join(cluster->ended, run->cluster, &cluster->shared) == 0) {
        cluster->n = run->cluster;
        return cluster;
    }
    if (cluster)
        cluster_end(t, &run->launch, cluster);
    return NULL;
}

static void
cluster_add(struct sm_thread *t, struct sg_run *run, uint64_t index)
{
    struct resident_cluster *cluster = cluster_begin(t, run, index);

    if (!cluster) {
        give_up(t, run);
        return;
    }
    t->turn = t->n_slots;
    for (unsigned i = 0; i < cluster->n; i++)
        t->slots[t->n_slots++] =
            (struct resident){cluster->ended[i], run, cluster, false};
    cluster->n_ended = 0;
}

/* No lock.  Makes what was taken of @run resident. */
static void
slot_add(struct sm_thread *t, struct sg_run *run, uint64_t index)
{
    struct sg_cta *cta;

    if (run->cluster > 1) {
        cluster_add(t, run, index);
        return;
    }
    cta = cta_begin(t, run, index);
    if (!cta) {
        give_up(t, run);
        return;
    }
    t->turn = t->n_slots;
    t->slots[t->n_slots++] = (struct resident){cta, run, NULL, false};
}

/* Another block beside the resident ones?  Cooperative launches take their
 * share at once; otherwise only when what is resident makes no progress, or
 * another launch would starve behind a long one. */
static void
admit_more(struct sm_thread *t, bool all_stalled, bool turn_used_up)
{
    const struct sg_run *mine = t->slots[t->turn].run;
    struct sg_run *run = NULL;
    uint64_t index = 0;

    if (t->n_slots + mine->cluster > MAX_RESIDENT)
        return;
    if (!mine->launch.cooperative && !all_stalled && !turn_used_up)
        return;
    sg_lock();
    if (mine->launch.cooperative && mine->next_cta < mine->launch.n_ctas &&
        count_resident(t, mine) < (mine->launch.n_ctas + mine->sms.n - 1) / mine->sms.n)
        run = t->slots[t->turn].run;
    if (!run && (all_stalled || turn_used_up))
        run = pick_run(t, mine);
    if (run && turn_used_up && !all_stalled && count_resident(t, run))
        run = NULL;
    if (!run && all_stalled)
        run = pick_run(t, NULL);
    if (run)
        index = take_cta(t->sm, run);
    sg_unlock();
    if (run)
        slot_add(t, run, index);
}

/* Waits for the first block.  The token is given back first. */
static void
wait_for_work(struct sm_thread *t)
{
    struct sg_run *run;
    uint64_t index;

    sg_lock();
    run = pick_run(t, NULL);
    if (!run && t->token) {
        sg_unlock();
        token_give(t);
        sg_lock();
        run = pick_run(t, NULL);
    }
    while (!run) {
        t->sm->n_idle++;
        sg_wait_on(&t->sm->cond);
        t->sm->n_idle--;
        run = pick_run(t, NULL);
    }
    index = take_cta(t->sm, run);
    sg_unlock();
    slot_add(t, run, index);
}

/* Ends a launch that has run for longer than the card lets any run; as a driver does
 * on a card that also draws a desktop. */
static void
limit_time(const struct sm_thread *t, struct sg_run *run)
{
    uint64_t limit = t->sm->dev->time_limit_ns;

    if (!limit || gp_now_ns() - run->first_ns < limit)
        return;
    sg_lock();
    run->late = run->late || !run->cancel;
    run_set_cancel(run);
    sg_unlock();
}

/* One turn of the current block; true when all resident blocks are stalled. */
static bool
run_turn(struct sm_thread *t, bool *ret_used_up)
{
    struct resident *slot = &t->slots[t->turn];
    struct sg_run *run = slot->run;
    enum sg_cta_state state;

    limit_time(t, run);
    state = sg_cta_run(slot->cta, TURN);
    *ret_used_up = state == SG_CTA_YIELD;
    slot->stalled = state == SG_CTA_STALLED;
    switch (state) {
    case SG_CTA_YIELD:
    case SG_CTA_STALLED:
        t->turn = (t->turn + 1) % t->n_slots;
        break;
    case SG_CTA_DONE:
    case SG_CTA_CANCELLED:
    case SG_CTA_FAULT:
        slot_drop(t, t->turn);
        ctas_ended(t->sm, run, 1, state == SG_CTA_FAULT);
        return false;
    }
    for (unsigned i = 0; i < t->n_slots; i++)
        if (!t->slots[i].stalled)
            return false;
    return true;
}

static void *
sm_main(void *arg)
{
    static const struct timespec stall = {0, STALL_NS};
    struct sm_thread *t = arg;
    bool stalled, used_up;

    for (;;) {
        if (!t->n_slots) {
            wait_for_work(t);
            continue;
        }
        admit_more(t, false, false);
        token_take(t);
        stalled = run_turn(t, &used_up);
        if (t->n_slots && (stalled || used_up)) {
            unsigned before = t->n_slots;

            admit_more(t, stalled, used_up);
            if (stalled && t->n_slots == before) {
                token_give(t);
                clock_nanosleep(CLOCK_MONOTONIC, 0, &stall, NULL);
            }
        }
        if (t->token)
            token_share(t);
    }
    return NULL;
}

/* ------------------------------------------------------------------ submission */

static int
start_threads(struct sg_sm *sm)
{
    while (sm->n_threads < sm->dev->sms) {
        struct sm_thread *t = calloc(1, sizeof(*t));

        if (!t)
            break;
        t->sm = sm;
        t->smid = sm->n_threads;
        if (sg_thread_start(sm_main, t) < 0) {
            free(t);
            break;
        }
        sm->n_threads++;
    }
    return sm->n_threads == sm->dev->sms ? 0 : -EAGAIN;
}

void
sg_sm_submit(struct sg_work *work)
{
    struct sg_run *run = container_of(work, struct sg_run, work);
    struct sg_sm *sm = run->dev->sm;

    /* Without all threads some blocks could not be resident for ever. */
    if (sm->n_threads < sm->dev->sms && start_threads(sm) < 0) {
        sg_work_finish(work, CUDA_ERROR_OPERATING_SYSTEM);
        return;
    }
    run_queue(sm, run);
}

/* Ends one launch of @ctx of which nothing runs; false: there is none. */
static bool
cancel_one_idle(struct sg_sm *sm, struct sg_ctx *ctx)
{
    for (struct sg_run *run = sm->runs; run; run = run->next) {
        if (run->work.ctx != ctx || run->n_active)
            continue;
        run_check_done(sm, run);
        return true;
    }
    return false;
}

void
sg_sm_cancel(struct sg_ctx *ctx)
{
    struct sg_sm *sm = ctx->dev->sm;

    for (struct sg_run *run = sm->busy; run; run = run->next)
        if (run->work.ctx == ctx)
            run_set_cancel(run);
    for (struct sg_run *run = sm->runs; run; run = run->next)
        if (run->work.ctx == ctx)
            run_set_cancel(run);
    while (cancel_one_idle(sm, ctx))
        ;
}
