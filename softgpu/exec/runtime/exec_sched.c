/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments of a warp: splitting, merging, choosing; calls, returns, exits, barriers.
 *
 * Policy (measured against the alternatives; a plain lowest-PC rule and a
 * post-dominator stack both hang on an intra-warp spin lock): the deepest call level
 * first, in it the lowest pc; after SG_FAIR_BACK_EDGES back edges the longest waiting
 * fragment runs for as many, whatever its pc; fragments with equal pc, depth and frame
 * merge. Runs on the thread that runs the CTA.  The running fragment is frags[0].
 */
#include "sg_cta.h"
#include "sg_prog.h"

#include <string.h>

static bool
frag_same_place(const struct sg_frag *a, const struct sg_frag *b)
{
    return a->pc == b->pc && a->depth == b->depth && a->local == b->local &&
           memcmp(a->base, b->base, sizeof(a->base)) == 0;
}

static void
frag_remove(struct sg_warp *warp, uint32_t at)
{
    warp->frags[at] = warp->frags[--warp->n_frags];
}

static void
warp_merge(struct sg_warp *warp)
{
    for (uint32_t i = 0; i + 1 < warp->n_frags; i++) {
        struct sg_frag *a = &warp->frags[i];
        if (a->state == SG_FRAG_BAR)
            continue;
        for (uint32_t j = i + 1; j < warp->n_frags;) {
            struct sg_frag *b = &warp->frags[j];
            if (b->state == SG_FRAG_BAR || !frag_same_place(a, b)) {
                j++;
                continue;
            }
            a->mask |= b->mask;
            a->since = gp_min(a->since, b->since);
            a->state = SG_FRAG_RUN; /* a waiting one looks again: more lanes came */
            a->forced |= b->forced;
            frag_remove(warp, j);
        }
    }
}

/* Nobody can run and some wait for warp members: let those go whose members all wait,
 * wherever they wait.  Legal programs get here only when lanes meet at different
 * instructions with the same member mask. */
static void
warp_release_members(struct sg_warp *warp)
{
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < warp->n_frags; i++)
        if (warp->frags[i].state == SG_FRAG_SYNC)
            waiting |= warp->frags[i].mask;
    for (uint32_t i = 0; i < warp->n_frags; i++) {
        struct sg_frag *f = &warp->frags[i];
        if (f->state == SG_FRAG_SYNC && (f->need & warp->live & ~waiting) == 0) {
            f->state = SG_FRAG_RUN;
            f->forced = true;
        }
    }
}

static bool
frag_before(const struct sg_frag *a, const struct sg_frag *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->pc < b->pc;
}

static uint64_t
cta_random(struct sg_cta *cta)
{
    cta->rng ^= cta->rng << 13;
    cta->rng ^= cta->rng >> 7;
    cta->rng ^= cta->rng << 17;
    return cta->rng;
}

static int
warp_choose(struct sg_cta *cta, struct sg_warp *warp)
{
    uint32_t skip = cta->rng ? (uint32_t)(cta_random(cta) % SG_LANES) : 0;
    int best = -1;

    for (uint32_t i = 0; i < warp->n_frags; i++) {
        const struct sg_frag *f = &warp->frags[i],
                             *b = &warp->frags[best < 0 ? i : (uint32_t)best];
        if (f->state != SG_FRAG_RUN)
            continue;
        if (best < 0 || (cta->rng          ? i <= skip
                         : warp->want_fair ? f->since < b->since
                                           : frag_before(f, b)))
            best = (int)i;
    }
    return best;
}

/* Make the fragment that should run frags[0].  False: none can. */
bool
sg_warp_pick(struct sg_cta *cta, struct sg_warp *warp)
{
    struct sg_frag tmp;
    int best;

    if (warp->n_frags == 1 && warp->frags[0].state == SG_FRAG_RUN) {
        best = 0;
    } else {
        warp_merge(warp);
        best = warp_choose(cta, warp);
        if (best < 0) {
            warp_release_members(warp);
            warp_merge(warp);
            best = warp_choose(cta, warp);
        }
    }
    if (best < 0)
        return false;
    if (best > 0) {
        tmp = warp->frags[0];
        warp->frags[0] = warp->frags[best];
        warp->frags[best] = tmp;
    }
    warp->frags[0].fair = warp->want_fair || cta->rng;
    if (warp->want_fair || warp->edges == 0)
        warp->edges = SG_FAIR_BACK_EDGES;
    warp->want_fair = false;
    return true;
}

/* The pc at which the running fragment must stop to let others merge or go first. */
uint32_t
sg_warp_limit(const struct sg_warp *warp)
{
    const struct sg_frag *run = &warp->frags[0];
    uint32_t limit = UINT32_MAX;

    if (run->fair)
        return limit;
    for (uint32_t i = 1; i < warp->n_frags; i++) {
        const struct sg_frag *f = &warp->frags[i];
        if (f->state == SG_FRAG_RUN && f->depth == run->depth && f->pc < limit)
            limit = f->pc;
    }
    return limit;
}

/* The lanes of @mask leave the running fragment for @pc. */
void
sg_warp_split(struct sg_cta *cta, struct sg_warp *warp, uint32_t mask, uint32_t pc)
{
    struct sg_frag *run = &warp->frags[0], other = *run;

    run->mask &= ~mask;
    other.mask = mask;
    other.pc = pc;
    other.fair = false;
    other.since = ++cta->seq;
    for (uint32_t i = 1; i < warp->n_frags; i++) {
        struct sg_frag *f = &warp->frags[i];
        if (f->state == SG_FRAG_RUN && frag_same_place(f, &other)) {
            f->mask |= mask;
            return;
        }
    }
    warp->frags[warp->n_frags++] = other;
}

static bool
others_can_run(const struct sg_warp *warp)
{
    for (uint32_t i = 1; i < warp->n_frags; i++)
        if (warp->frags[i].state == SG_FRAG_RUN)
            return true;
    return false;
}

/* After SG_FAIR_BACK_EDGES back edges: cancel, budgets, fairness. */
enum sg_stop
sg_warp_poll(struct sg_cta *cta, struct sg_warp *warp, uint32_t *turns)
{
    struct sg_frag *run = &warp->frags[0];

    warp->edges = SG_FAIR_BACK_EDGES;
    if (sg_cancelled(cta))
        return SG_STOP_CANCEL;
    if (unlikely(__atomic_load_n(cta->generation, __ATOMIC_ACQUIRE) !=
                 cta->reader.seen))
        sg_mem_forget(cta);
    run->since = ++cta->seq;
    warp->want_fair = warp->n_frags > 1 && !run->fair;
    if (cta->executed >= cta->limit)
        return SG_STOP_BUDGET;
    if (--*turns == 0 || (warp->polled && !others_can_run(warp))) {
        /* a loop around a volatile load or a failing exchange: as good as asleep */
        warp->yielded = warp->polled;
        warp->polled = false;
        return SG_STOP_YIELD;
    }
    return warp->n_frags > 1 ? SG_STOP_PICK : SG_STOP_NONE;
}

/* nanosleep and failed waits: everybody else first. */
enum sg_stop
sg_op_yield(struct sg_cta *cta, struct sg_warp *warp)
{
    struct sg_frag *run = &warp->frags[0];
    bool others = false;

    run->pc++;
    run->since = ++cta->seq;
    run->slept = true;
    for (uint32_t i = 1; i < warp->n_frags; i++)
        others |= warp->frags[i].state == SG_FRAG_RUN && !warp->frags[i].slept;
    warp->want_fair = warp->n_frags > 1;
    if (sg_cancelled(cta))
        return SG_STOP_CANCEL;
    if (others)
        return SG_STOP_PICK;
    for (uint32_t i = 0; i < warp->n_frags; i++)
        warp->frags[i].slept = false;
    warp->yielded = true;
    return SG_STOP_YIELD;
}

enum sg_stop
sg_warp_sleep_on(struct sg_cta *cta, struct sg_warp *warp, const uint64_t *word)
{
    enum sg_stop stop = sg_op_yield(cta, warp);

    if (stop == SG_STOP_YIELD && !others_can_run(warp)) {
        warp->asleep_on = word;
        warp->asleep_phase = *word & SG_MBAR_PHASE;
        warp->missed_turns = 0;
    }
    return stop;
}

/* ------------------------------------------------------------------ barriers */

static void
barrier_release(struct sg_cta *cta, uint32_t id)
{
    struct sg_barrier *bar = &cta->bars[id];

    for (uint32_t w = 0; w < cta->n_warps; w++) {
        struct sg_warp *warp = cta->warps[w];
        for (uint32_t i = 0; i < warp->n_frags; i++) {
            struct sg_frag *f = &warp->frags[i];
            if (f->state != SG_FRAG_BAR || f->bar != id)
                continue;
            f->state = SG_FRAG_RUN;
            f->since = ++cta->seq;
            if (f->bar_dst_d != SG_OFF_NONE) {
                uint32_t *d = (uint32_t *)(void *)(warp->area[SG_W] + f->base[SG_W] +
                                                   f->bar_dst_d);
                SG_FOR_LANES(lane, f->mask)
                d[lane] = bar->count;
            }
            if (f->bar_dst_p != SG_OFF_NONE) {
                uint32_t *p = (uint32_t *)(void *)(warp->area[SG_P] + f->base[SG_P] +
                                                   f->bar_dst_p);
                bool r = f->bar_or ? bar->count > 0 : bar->count == bar->arrived;
                *p = (*p & ~f->mask) | (r ? f->mask : 0);
            }
        }
    }
    memset(bar, 0, sizeof(*bar));
}

/* Threads that a barrier waits for: all that live, or the count it was given.  Exited
 * threads count as arrived. */
static bool
barrier_complete(const struct sg_cta *cta, const struct sg_barrier *bar)
{
    uint32_t want = cta->live_threads;

    if (bar->expected && bar->expected < want)
        want = bar->expected;
    return bar->in_use && bar->arrived >= want;
}

static void
barriers_check(struct sg_cta *cta)
{
    for (uint32_t left = cta->bars_used, id; left; left &= left - 1)
        if (id = (uint32_t)__builtin_ctz(left), barrier_complete(cta, &cta->bars[id]))
            barrier_release(cta, id);
}

enum sg_stop
sg_op_bar(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          uint32_t m)
{
    struct sg_frag *run = &warp->frags[0];
    uint32_t lane = (uint32_t)__builtin_ctz(m);
    uint32_t id = sg_reg_w(warp, op->a)[lane];
    uint32_t count = op->b == SG_OFF_NONE ? 0 : sg_reg_w(warp, op->b)[lane];
    struct sg_barrier *bar;

    if (id >= SG_N_BARRIERS)
        return sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_INSTRUCTION, id,
                            "barrier number out of range");
    bar = &cta->bars[id];
    cta->bars_used |= 1u << id;
    bar->in_use = true;
    bar->expected = count;
    bar->arrived += (uint32_t)__builtin_popcount(m);
    if (op->c != SG_OFF_NONE) {
        uint32_t p = *sg_reg_p(warp, op->c);
        bar->count += (uint32_t)__builtin_popcount((op->x ? ~p : p) & m);
    }
    run->bar_dst_d = op->code == SG_OP_BAR_RED_POPC ? op->d : SG_OFF_NONE;
    run->bar_dst_p = op->code == SG_OP_BAR ? op->d : SG_OFF_NONE;
    run->bar_or = op->n == SG_BAR_RED_OR;
    run->pc++;
    if (op->n != SG_BAR_ARRIVE) {
        run->state = SG_FRAG_BAR;
        run->bar = (uint8_t)id;
    }
    if (barrier_complete(cta, bar))
        barrier_release(cta, id);
    return SG_STOP_PICK;
}

/* ------------------------------------------------------- exit, calls, returns */

static void
members_look_again(struct sg_warp *warp)
{
    for (uint32_t i = 0; i < warp->n_frags; i++)
        if (warp->frags[i].state == SG_FRAG_SYNC)
            warp->frags[i].state = SG_FRAG_RUN;
}

enum sg_stop
sg_op_exit(struct sg_cta *cta, struct sg_warp *warp, uint32_t m)
{
    warp->live &= ~m;
    cta->live_threads -= (uint32_t)__builtin_popcount(m);
    sg_cluster_exit(cta, warp, m);
    if (warp->n_frags == 1) { /* nobody of the warp is left */
        warp->n_frags = 0;
        barriers_check(cta);
        return SG_STOP_DONE;
    }
    frag_remove(warp, 0);
    members_look_again(warp);
    barriers_check(cta);
    return SG_STOP_PICK;
}

enum sg_stop
sg_op_brx(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          uint32_t m)
{
    const uint32_t *index = sg_reg_w(warp, op->a);
    uint32_t pc = warp->frags[0].pc, left = m;

    while (left) {
        uint32_t lane = (uint32_t)__builtin_ctz(left), same = 0, to;
        if (index[lane] >= op->n)
            return sg_fault_set(cta, warp, lane, SG_FAULT_INVALID_PC, index[lane],
                                "brx.idx: index behind the table");
        SG_FOR_LANES(i, left)
        same |= (uint32_t)(index[i] == index[lane]) << i;
        to = cta->unit->tables[op->x + index[lane]];
        left &= ~same;
        if (left)
            sg_warp_split(cta, warp, same, to);
        else
            warp->frags[0].pc = to;
    }
    if (warp->frags[0].pc <= pc && warp->edges > 1)
        warp->edges--;
    return SG_STOP_PICK;
}

static int
warp_grow(struct sg_warp *warp, enum sg_class cls, uint32_t need)
{
    uint32_t cap = gp_max(need, warp->cap[cls] * 2);
    char *area;

    if (need > SG_MAX_FRAME_BYTES)
        return -1;
    cap = gp_min(cap, SG_MAX_FRAME_BYTES);
    area = aligned_alloc(64, GP_ALIGN_UP(cap, 64));
    if (!area)
        return -1;
    memcpy(area, warp->area[cls], warp->cap[cls]);
    free(warp->area[cls]);
    warp->area[cls] = area;
    warp->cap[cls] = cap;
    return 0;
}

static int
warp_grow_depth(struct sg_warp *warp, uint32_t depth)
{
    uint32_t cap = gp_max(warp->cap_depth * 2, 8u);
    struct sg_calls *calls;

    if (depth < warp->cap_depth)
        return 0;
    if (depth >= SG_MAX_CALL_DEPTH)
        return -1;
    calls = reallocarray(warp->calls, cap, sizeof(*calls));
    if (!calls)
        return -1;
    warp->calls = calls;
    warp->cap_depth = cap;
    return 0;
}

/* Local memory that alloca took from its end, at most, of these lanes. */
static uint32_t
most_taken(const struct sg_warp *warp, uint32_t m)
{
    uint32_t most = 0;

    if (!warp->takes)
        return 0;
    SG_FOR_LANES(i, m)
    most = gp_max(most, warp->taken[i]);
    return most;
}

/* The lanes of @m call, and will go on at @ret. */
static void
calls_enter(struct sg_calls *calls, const struct sg_ret *ret, const uint32_t *taken,
            uint32_t m)
{
    const uint8_t leader = (uint8_t)__builtin_ctz(m);

    calls->rets[leader] = *ret;
    if (likely(m == UINT32_MAX)) {
        memset(calls->leader, leader, sizeof(calls->leader));
        memcpy(calls->taken, taken, sizeof(calls->taken));
        return;
    }
    SG_FOR_LANES(i, m)
    {
        calls->leader[i] = leader;
        calls->taken[i] = taken[i];
    }
}

/* The lanes of @m come back.  Where a leader does, and others of its call do not, one
 * of them leads: a leader that calls again writes in its place. */
static void
calls_leave(struct sg_calls *calls, uint32_t m)
{
    while (m) {
        const uint32_t leader = calls->leader[__builtin_ctz(m)];
        struct sg_ret *ret = &calls->rets[leader];
        const uint32_t gone = ret->mask & m;

        m &= ~gone;
        ret->mask &= ~gone;
        if (ret->mask && (gone >> leader & 1)) {
            const uint8_t next = (uint8_t)__builtin_ctz(ret->mask);
            calls->rets[next] = *ret;
            SG_FOR_LANES(i, ret->mask)
            calls->leader[i] = next;
        }
    }
}

/* Those lanes of @m that go on where the first of them does. */
static uint32_t
calls_together(const struct sg_calls *calls, uint32_t m)
{
    const struct sg_ret *to = &calls->rets[calls->leader[__builtin_ctz(m)]];
    uint32_t same = m & to->mask;

    for (uint32_t rest = m & ~same, group; rest; rest &= ~group) {
        const struct sg_ret *r = &calls->rets[calls->leader[__builtin_ctz(rest)]];
        group = rest & r->mask;
        if (memcmp(r, to, offsetof(struct sg_ret, mask)) == 0)
            same |= group;
    }
    return same;
}

enum sg_stop
sg_op_call(struct sg_cta *cta, struct sg_warp *warp, uint32_t func, uint32_t m)
{
    const struct sg_unit_func *callee = &cta->unit->funcs[func];
    struct sg_frag *run = &warp->frags[0];
    const struct sg_unit_func *caller = &cta->unit->funcs[run->func];
    struct sg_ret ret = {run->pc + 1, {0}, run->local, run->func, m};
    uint64_t local = (uint64_t)run->local + caller->local_bytes;
    uint32_t lane = (uint32_t)__builtin_ctz(m);

    memcpy(ret.base, run->base, sizeof(ret.base));
    if (warp_grow_depth(warp, run->depth) < 0 ||
        local + callee->local_bytes + callee->out_bytes + most_taken(warp, m) >
            cta->local_stride)
        return sg_fault_set(cta, warp, lane, SG_FAULT_HW_STACK, local,
                            "call: the thread's stack is used up");
    for (int c = 0; c < SG_N_CLASSES; c++) {
        run->base[c] += caller->frame.bytes[c];
        if (run->base[c] + callee->frame.bytes[c] > warp->cap[c] &&
            warp_grow(warp, c, run->base[c] + callee->frame.bytes[c]) < 0)
            return sg_fault_set(cta, warp, lane, SG_FAULT_HW_STACK, 0,
                                "call: registers are used up");
    }
    calls_enter(&warp->calls[run->depth], &ret, warp->taken, m);
    run->depth++;
    run->local = (uint32_t)local;
    run->func = func;
    run->pc = callee->entry;
    sg_warp_fill_consts(cta, warp, callee, run->base, m);
    return SG_STOP_PICK;
}

enum sg_stop
sg_op_calli(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const uint64_t *addr = sg_reg_d(warp, op->a);
    uint32_t lane = (uint32_t)__builtin_ctz(m), same = 0;
    uint64_t id = (addr[lane] - SG_WIN_CODE) / 16 - 1;
    const struct sg_unit *unit = cta->unit;

    if (addr[lane] < SG_WIN_CODE + 16 || addr[lane] % 16 || id >= unit->n_func_ids ||
        unit->func_by_id[id] < 0)
        return sg_fault_set(cta, warp, lane, SG_FAULT_INVALID_PC, addr[lane],
                            "call: no function at this address");
    SG_FOR_LANES(i, m)
    same |= (uint32_t)(addr[i] == addr[lane]) << i;
    if (same != m) /* the others come back to this operation */
        sg_warp_split(cta, warp, m & ~same, warp->frags[0].pc);
    return sg_op_call(cta, warp, (uint32_t)unit->func_by_id[id], same);
}

enum sg_stop
sg_op_ret(struct sg_cta *cta, struct sg_warp *warp, uint32_t m)
{
    struct sg_frag *run = &warp->frags[0];
    struct sg_calls *calls;

    if (run->depth == 0)
        return sg_op_exit(cta, warp, m);
    calls = &warp->calls[run->depth - 1];
    if (warp->takes)
        SG_FOR_LANES(i, m)
    warp->taken[i] = calls->taken[i];
    while (m) {
        const uint32_t same = calls_together(calls, m);
        const struct sg_ret to = calls->rets[calls->leader[__builtin_ctz(m)]];
        struct sg_frag *f = run;

        m &= ~same;
        if (m) {
            f = &warp->frags[warp->n_frags++];
            *f = *run;
            run->mask &= ~same;
        }
        calls_leave(calls, same);
        f->mask = same;
        f->pc = to.pc;
        f->depth--;
        f->local = to.local;
        f->func = to.func;
        memcpy(f->base, to.base, sizeof(f->base));
    }
    return SG_STOP_PICK;
}

/* --------------------------------------------------------------- warp members */

/* Whether all living members of lane @i have come, and name the same members: lanes
 * that are here with another mask are on their way through a loop again, or have come
 * early. */
static bool
group_is_here(const uint32_t *members, uint32_t live, uint32_t here, unsigned i)
{
    uint32_t group = members[i] & live;

    if (group & ~here)
        return false;
    SG_FOR_LANES(j, group)
    {
        if ((members[j] & live) != group)
            return false;
    }
    return true;
}

enum sg_stop
sg_op_gather_members(struct sg_cta *cta, struct sg_warp *warp, const uint32_t *members,
                     uint32_t *m)
{
    struct sg_frag *run = &warp->frags[0];
    uint32_t ready = 0, need = 0, all = 0, common = UINT32_MAX;

    if (run->forced) {
        run->forced = false;
        return SG_STOP_NONE;
    }
    if (likely(*m == UINT32_MAX)) {
        for (int i = 0; i < SG_LANES; i++) {
            all |= members[i];
            common &= members[i];
        }
    } else {
        SG_FOR_LANES(i, *m)
        {
            all |= members[i];
            common &= members[i];
        }
    }
    if (likely(all == common && (all & warp->live & ~*m) == 0))
        return SG_STOP_NONE;
    SG_FOR_LANES(i, *m)
    {
        if (group_is_here(members, warp->live, *m, i))
            ready |= 1u << i;
        else
            need |= members[i];
    }
    if (ready == *m)
        return SG_STOP_NONE;
    if (ready) {
        struct sg_frag *wait = &warp->frags[warp->n_frags++];
        *wait = *run;
        wait->mask = *m & ~ready;
        wait->state = SG_FRAG_SYNC;
        wait->need = need;
        run->mask = *m = ready;
        return SG_STOP_NONE;
    }
    run->state = SG_FRAG_SYNC;
    run->need = need;
    return SG_STOP_PICK;
}

/* ------------------------------------------------------------------ constants */

#define DEF_FILL(name, T)                                                              \
    static void name(T *d, T v, uint32_t m, bool all)                                  \
    {                                                                                  \
        if (all) {                                                                     \
            for (int i = 0; i < SG_LANES; i++)                                         \
                d[i] = v;                                                              \
            return;                                                                    \
        }                                                                              \
        SG_FOR_LANES(i, m)                                                             \
        d[i] = v;                                                                      \
    }
DEF_FILL(fill_w, uint32_t)
DEF_FILL(fill_d, uint64_t)

void
sg_warp_fill_consts(struct sg_cta *cta, struct sg_warp *warp,
                    const struct sg_unit_func *func, const uint32_t *base, uint32_t m)
{
    const bool all = m == warp->live;

    for (uint32_t k = 0; k < func->n_consts; k++) {
        const struct sg_const *c = &func->consts[k];
        char *at = warp->area[c->cls] + base[c->cls] + c->off;
        const uint64_t v = sg_inst_const(cta->inst, c);
        if (c->cls == SG_W)
            fill_w((uint32_t *)(void *)at, (uint32_t)v, m, all);
        else
            fill_d((uint64_t *)(void *)at, v, m, all);
    }
}
