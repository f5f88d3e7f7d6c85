/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations across the lanes of a warp: shuffles, votes, matches, reductions.
 *
 * Each waits until every living lane of its member mask has come (exec_sched.c), then
 * runs as one operation.  Different lanes may name different member masks, as tiles of
 * cooperative groups do.  Inactive source lanes are read as what they last held.
 */
#include "exec_lane.h"
#include "exec_scalar.h"
#include "sg_cta.h"

/* When lanes were left behind the caller must reload what it knows of the fragment. */
static enum sg_stop
members_done(struct sg_warp *warp, uint32_t before, uint32_t now)
{
    if (likely(before == now))
        return SG_STOP_NONE;
    warp->frags[0].pc++;
    return SG_STOP_PICK;
}

static void
pred_write(struct sg_warp *warp, uint32_t off, uint32_t value, uint32_t m)
{
    uint32_t *p;

    if (off == SG_OFF_NONE)
        return;
    p = sg_reg_p(warp, off);
    *p = (*p & ~m) | (value & m);
}

/* The lane that @lane reads, and whether it lies inside its segment. */
static uint32_t
shfl_source(enum sg_shfl mode, uint32_t lane, uint32_t b, uint32_t c, bool *ret_in)
{
    uint32_t clamp = c & 31, segment = c >> 8 & 31;
    uint32_t max = (lane & segment) | (clamp & ~segment);
    uint32_t min = lane & segment;
    int32_t j;

    b &= 31;
    switch (mode) {
    case SG_SHFL_UP:
        j = (int32_t)lane - (int32_t)b;
        *ret_in = j >= (int32_t)max;
        break;
    case SG_SHFL_DOWN:
        j = (int32_t)(lane + b);
        *ret_in = j <= (int32_t)max;
        break;
    case SG_SHFL_BFLY:
        j = (int32_t)(lane ^ b);
        *ret_in = j <= (int32_t)max;
        break;
    default:
        j = (int32_t)(min | (b & ~segment));
        *ret_in = j <= (int32_t)max;
        break;
    }
    return *ret_in ? (uint32_t)j & 31 : lane;
}

enum sg_stop
sg_op_shfl(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    const uint32_t *b = sg_reg_w(warp, op->b), *c = sg_reg_w(warp, op->c);
    uint32_t before = m, value[SG_LANES], in = 0;
    const uint32_t *a;
    uint32_t *d;

    if (op->f != SG_OFF_NONE) {
        enum sg_stop stop = sg_op_gather_members(cta, warp, sg_reg_w(warp, op->f), &m);
        if (stop != SG_STOP_NONE)
            return stop;
    }
    a = sg_reg_w(warp, op->a);
    SG_FOR_LANES(i, m)
    {
        bool ok;
        value[i] = a[shfl_source(op->n, i, b[i], c[i], &ok)];
        in |= (uint32_t)ok << i;
    }
    d = sg_reg_w(warp, op->d);
    SG_FOR_LANES(i, m)
    d[i] = value[i];
    pred_write(warp, op->e, in, m);
    return members_done(warp, before, m);
}

enum sg_stop
sg_op_vote(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    const uint32_t *members = op->c == SG_OFF_NONE ? NULL : sg_reg_w(warp, op->c);
    uint32_t before = m, p, result = 0;

    if (members) {
        enum sg_stop stop = sg_op_gather_members(cta, warp, members, &m);
        if (stop != SG_STOP_NONE)
            return stop;
    }
    p = *sg_reg_p(warp, op->b);
    p = (op->x ? ~p : p) & m;
    if (op->code == SG_OP_BALLOT) {
        uint32_t *d = sg_reg_w(warp, op->d);
        SG_FOR_LANES(i, m)
        d[i] = p & (members ? members[i] : UINT32_MAX);
        return members_done(warp, before, m);
    }
    SG_FOR_LANES(i, m)
    {
        uint32_t all = m & (members ? members[i] : UINT32_MAX), set = p & all;
        bool r = op->n == SG_VOTE_ALL   ? set == all
                 : op->n == SG_VOTE_ANY ? set != 0
                                        : set == 0 || set == all;
        result |= (uint32_t)r << i;
    }
    pred_write(warp, op->d, result, m);
    return members_done(warp, before, m);
}

enum sg_stop
sg_op_match(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const uint32_t *members = sg_reg_w(warp, op->b);
    uint32_t before = m, result[SG_LANES], pred = 0, *d;
    enum sg_stop stop = sg_op_gather_members(cta, warp, members, &m);

    if (stop != SG_STOP_NONE)
        return stop;
    SG_FOR_LANES(i, m)
    {
        uint32_t group = m & members[i], same = 0;
        SG_FOR_LANES(j, group)
        {
            bool eq = op->code == SG_OP_MATCH_W
                          ? sg_reg_w(warp, op->a)[j] == sg_reg_w(warp, op->a)[i]
                          : sg_reg_d(warp, op->a)[j] == sg_reg_d(warp, op->a)[i];
            same |= (uint32_t)eq << j;
        }
        if (op->n) {
            pred |= (uint32_t)(same == group) << i;
            same = same == group ? group : 0;
        }
        result[i] = same;
    }
    d = sg_reg_w(warp, op->d);
    SG_FOR_LANES(i, m)
    d[i] = result[i];
    pred_write(warp, op->e, pred, m);
    return members_done(warp, before, m);
}

static uint32_t
redux_float(unsigned what, uint32_t x, uint32_t y)
{
    sg_fn *fn = what & SG_REDUX_NAN
                    ? (what & SG_REDUX_MAX ? sg_fn_max_nan_f32 : sg_fn_min_nan_f32)
                    : (what & SG_REDUX_MAX ? sg_fn_max_f32 : sg_fn_min_f32);
    uint32_t mask = what & SG_REDUX_ABS ? 0x7fffffffu : UINT32_MAX;

    return (uint32_t)fn(x & mask, y & mask, 0);
}

static uint32_t
redux_step(unsigned what, uint32_t x, uint32_t y)
{
    if (what & SG_REDUX_FLOAT)
        return redux_float(what, x, y);
    switch (what) {
    case SG_ATOM_ADD:
        return x + y;
    case SG_ATOM_MIN_U:
        return x < y ? x : y;
    case SG_ATOM_MAX_U:
        return x > y ? x : y;
    case SG_ATOM_MIN_S:
        return (int32_t)x < (int32_t)y ? x : y;
    case SG_ATOM_MAX_S:
        return (int32_t)x > (int32_t)y ? x : y;
    case SG_ATOM_AND:
        return x & y;
    case SG_ATOM_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

enum sg_stop
sg_op_redux(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const uint32_t *members = sg_reg_w(warp, op->b), *a;
    uint32_t before = m, result[SG_LANES], *d;
    enum sg_stop stop = sg_op_gather_members(cta, warp, members, &m);

    if (stop != SG_STOP_NONE)
        return stop;
    a = sg_reg_w(warp, op->a);
    SG_FOR_LANES(i, m)
    {
        uint32_t group = m & members[i], r = a[i];
        bool first = true;
        SG_FOR_LANES(j, group)
        {
            bool alone = first && !(op->n & SG_REDUX_FLOAT);
            r = alone ? a[j] : redux_step(op->n, first ? a[j] : r, a[j]);
            first = false;
        }
        result[i] = r;
    }
    d = sg_reg_w(warp, op->d);
    SG_FOR_LANES(i, m)
    d[i] = result[i];
    return members_done(warp, before, m);
}

enum sg_stop
sg_op_elect(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const uint32_t *members = sg_reg_w(warp, op->a);
    uint32_t before = m, chosen = 0;
    enum sg_stop stop = sg_op_gather_members(cta, warp, members, &m);

    if (stop != SG_STOP_NONE)
        return stop;
    SG_FOR_LANES(i, m)
    {
        uint32_t leader = (uint32_t)__builtin_ctz(m & (members[i] | 1u << i));
        if (op->d != SG_OFF_NONE)
            sg_reg_w(warp, op->d)[i] = leader;
        chosen |= (uint32_t)(leader == i) << i;
    }
    pred_write(warp, op->e, chosen, m);
    return members_done(warp, before, m);
}

enum sg_stop
sg_op_bar_warp(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
               uint32_t m)
{
    uint32_t before = m;
    enum sg_stop stop = sg_op_gather_members(cta, warp, sg_reg_w(warp, op->a), &m);

    return stop != SG_STOP_NONE ? stop : members_done(warp, before, m);
}
