/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations across the lanes of a warp: shuffles, votes, matches, reductions.
 *
 * Included by exec_warp_v2.c, _v3.c and _v4.c alone, compiled for those levels as the
 * interpreter is.  Each waits until every living lane of its member mask has come
 * (exec_sched.c), then runs as one operation.  Different lanes may name different
 * member masks, as tiles of cooperative groups do; mostly all name the same.  Inactive
 * source lanes are read as what they last held.
 */
#include "exec_lane.h"
#include "exec_level.h"
#include "exec_scalar.h"
#include "sg_cta.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Whether the lanes @m all name the same members, which then are @ret_group. */
LANE bool
one_group(const uint32_t *members, uint32_t m, uint32_t *ret_group)
{
    uint32_t all = 0, common = UINT32_MAX;

    if (likely(m == UINT32_MAX)) {
        for (int i = 0; i < SG_LANES; i++) {
            all |= members[i];
            common &= members[i];
        }
    } else {
        SG_FOR_LANES(i, m)
        {
            all |= members[i];
            common &= members[i];
        }
    }
    *ret_group = common & m;
    return all == common;
}

/* sg_op_gather_members(), of which there is nothing to do where all are here. */
LANE enum sg_stop
gather(struct sg_cta *cta, struct sg_warp *warp, const uint32_t *members, uint32_t *m)
{
    uint32_t group;

    if (likely(*m == UINT32_MAX && one_group(members, *m, &group) && group == *m &&
               !warp->frags[0].forced))
        return SG_STOP_NONE;
    return sg_op_gather_members(cta, warp, members, m);
}

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

/* What the lanes @m get; the others' stay. */
static void
word_write(uint32_t *d, const uint32_t *value, uint32_t m)
{
    if (likely(m == UINT32_MAX)) {
        memcpy(d, value, SG_LANES * sizeof(*d));
        return;
    }
    SG_FOR_LANES(i, m)
    d[i] = value[i];
}

LANE void
permute(uint32_t *value, const uint32_t *a, const int32_t *from)
{
#if defined(__AVX512F__)
    const __m512i low = _mm512_loadu_si512(a), high = _mm512_loadu_si512(a + 16);

    for (int h = 0; h < SG_LANES; h += 16)
        _mm512_storeu_si512(value + h, _mm512_permutex2var_epi32(
                                           low, _mm512_loadu_si512(from + h), high));
#else
    for (int i = 0; i < SG_LANES; i++)
        value[i] = a[from[i]];
#endif
}

/* Lane @i reads lane J if IN, which is a condition on J; otherwise its own. */
#define SHFL_SOURCES(J, IN)                                                            \
    for (int32_t i = 0; i < SG_LANES; i++) {                                           \
        const int32_t by = (int32_t)(b[i] & 31), segment = (int32_t)(c[i] >> 8 & 31);  \
        const int32_t max = (i & segment) | ((int32_t)(c[i] & 31) & ~segment);         \
        const int32_t j = (J);                                                         \
        (void)by, (void)max;                                                           \
        in[i] = (IN);                                                                  \
        from[i] = in[i] ? j & 31 : i;                                                  \
    }

static uint32_t
shfl_sources(enum sg_shfl mode, const uint32_t *b, const uint32_t *c, int32_t *from)
{
    int32_t in[SG_LANES];
    uint32_t mask = 0;

    switch (mode) {
    case SG_SHFL_UP:
        SHFL_SOURCES(i - by, j >= max)
        break;
    case SG_SHFL_DOWN:
        SHFL_SOURCES(i + by, j <= max)
        break;
    case SG_SHFL_BFLY:
        SHFL_SOURCES(i ^ by, j <= max)
        break;
    default:
        SHFL_SOURCES((i & segment) | (by & ~segment), j <= max)
        break;
    }
    for (int i = 0; i < SG_LANES; i++)
        mask |= (uint32_t)in[i] << i;
    return mask;
}

enum sg_stop
CAT(sg_shfl_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                      const struct sg_insn *op, uint32_t m)
{
    const uint32_t *b = sg_reg_w(warp, op->b), *c = sg_reg_w(warp, op->c), *a;
    uint32_t before = m, value[SG_LANES], in;
    int32_t from[SG_LANES];

    if (op->f != SG_OFF_NONE) {
        enum sg_stop stop = gather(cta, warp, sg_reg_w(warp, op->f), &m);
        if (stop != SG_STOP_NONE)
            return stop;
    }
    a = sg_reg_w(warp, op->a);
    in = shfl_sources(op->n, b, c, from);
    permute(value, a, from);
    word_write(sg_reg_w(warp, op->d), value, m);
    pred_write(warp, op->e, in, m);
    return members_done(warp, before, m);
}

/* Of the lanes @all those in @set have said yes. */
LANE bool
voted(unsigned what, uint32_t set, uint32_t all)
{
    return what == SG_VOTE_ALL   ? set == all
           : what == SG_VOTE_ANY ? set != 0
                                 : set == 0 || set == all;
}

enum sg_stop
CAT(sg_vote_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                      const struct sg_insn *op, uint32_t m)
{
    const uint32_t *members = op->c == SG_OFF_NONE ? NULL : sg_reg_w(warp, op->c);
    uint32_t before = m, p, result = 0, group;
    bool same;

    if (members) {
        enum sg_stop stop = gather(cta, warp, members, &m);
        if (stop != SG_STOP_NONE)
            return stop;
    }
    p = *sg_reg_p(warp, op->b);
    p = (op->x ? ~p : p) & m;
    group = m;
    same = !members || one_group(members, m, &group);
    if (op->code == SG_OP_BALLOT) {
        uint32_t value[SG_LANES];
        for (int i = 0; i < SG_LANES; i++)
            value[i] = p & (members ? members[i] : UINT32_MAX);
        word_write(sg_reg_w(warp, op->d), value, m);
        return members_done(warp, before, m);
    }
    if (likely(same))
        result = voted(op->n, p & group, group) ? UINT32_MAX : 0;
    SG_FOR_LANES(i, same ? 0 : m)
    result |= (uint32_t)voted(op->n, p & members[i], m & members[i]) << i;
    pred_write(warp, op->d, result, m);
    return members_done(warp, before, m);
}

/* The lanes that have what lane @i has. */
LANE uint32_t
lanes_like_w(const uint32_t *w, unsigned i)
{
    uint32_t same = 0;

#if defined(__AVX512F__)
    const __m512i v = _mm512_set1_epi32((int)w[i]);

    for (int h = 0; h < SG_LANES; h += 16)
        same |= (uint32_t)_mm512_cmpeq_epi32_mask(v, _mm512_loadu_si512(w + h)) << h;
#elif defined(__AVX2__)
    const __m256i v = _mm256_set1_epi32((int)w[i]);

    for (int h = 0; h < SG_LANES; h += 8) {
        const __m256i eq =
            _mm256_cmpeq_epi32(v, _mm256_loadu_si256((const __m256i *)(w + h)));
        same |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(eq)) << h;
    }
#else
    for (unsigned k = 0; k < SG_LANES; k++)
        same |= (uint32_t)(w[k] == w[i]) << k;
#endif
    return same;
}

LANE uint32_t
lanes_like_d(const uint64_t *d, unsigned i)
{
    uint32_t same = 0;

#if defined(__AVX512F__)
    const __m512i v = _mm512_set1_epi64((long long)d[i]);

    for (int h = 0; h < SG_LANES; h += 8)
        same |= (uint32_t)_mm512_cmpeq_epi64_mask(v, _mm512_loadu_si512(d + h)) << h;
#else
    for (unsigned k = 0; k < SG_LANES; k++)
        same |= (uint32_t)(d[k] == d[i]) << k;
#endif
    return same;
}

enum sg_stop
CAT(sg_match_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                       const struct sg_insn *op, uint32_t m)
{
    const uint32_t *members = sg_reg_w(warp, op->b);
    uint32_t before = m, left, result[SG_LANES], pred = 0, group_of_all;
    const bool wide = op->code != SG_OP_MATCH_W;
    bool one;
    enum sg_stop stop = gather(cta, warp, members, &m);

    if (stop != SG_STOP_NONE)
        return stop;
    one = one_group(members, m, &group_of_all);
    for (left = m; left;) {
        const unsigned i = (unsigned)__builtin_ctz(left);
        const uint32_t group = m & members[i];
        uint32_t same = group & (wide ? lanes_like_d(sg_reg_d(warp, op->a), i)
                                      : lanes_like_w(sg_reg_w(warp, op->a), i));
        uint32_t alike = 1u << i;

        /* Those of them who name the same members get the same. */
        if (likely(one))
            alike = same & left;
        SG_FOR_LANES(k, one ? 0 : same & left)
        alike |= (uint32_t)(members[k] == members[i]) << k;
        if (op->n) {
            pred |= same == group ? alike : 0;
            same = same == group ? group : 0;
        }
        SG_FOR_LANES(k, alike)
        result[k] = same;
        left &= ~alike;
    }
    word_write(sg_reg_w(warp, op->d), result, m);
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

#define REDUX_LOOP(T, expr)                                                            \
    do {                                                                               \
        T x = (T)a[0];                                                                 \
        for (int i = 1; i < SG_LANES; i++) {                                           \
            const T y = (T)a[i];                                                       \
            x = (expr);                                                                \
        }                                                                              \
        return (uint32_t)x;                                                            \
    } while (0)

/* Over all lanes, of integers. */
static uint32_t
redux_all(unsigned what, const uint32_t *a)
{
    switch (what) {
    case SG_ATOM_ADD:
        REDUX_LOOP(uint32_t, x + y);
    case SG_ATOM_MIN_U:
        REDUX_LOOP(uint32_t, x < y ? x : y);
    case SG_ATOM_MAX_U:
        REDUX_LOOP(uint32_t, x > y ? x : y);
    case SG_ATOM_MIN_S:
        REDUX_LOOP(int32_t, x < y ? x : y);
    case SG_ATOM_MAX_S:
        REDUX_LOOP(int32_t, x > y ? x : y);
    case SG_ATOM_AND:
        REDUX_LOOP(uint32_t, x & y);
    case SG_ATOM_OR:
        REDUX_LOOP(uint32_t, x | y);
    default:
        REDUX_LOOP(uint32_t, x ^ y);
    }
}

/* Over the lanes of @group; of none it is @own. */
static uint32_t
redux_of(unsigned what, const uint32_t *a, uint32_t group, uint32_t own)
{
    uint32_t r = own;
    bool first = true;

    SG_FOR_LANES(j, group)
    {
        bool alone = first && !(what & SG_REDUX_FLOAT);
        r = alone ? a[j] : redux_step(what, first ? a[j] : r, a[j]);
        first = false;
    }
    return r;
}

enum sg_stop
CAT(sg_redux_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                       const struct sg_insn *op, uint32_t m)
{
    const uint32_t *members = sg_reg_w(warp, op->b), *a;
    uint32_t before = m, result[SG_LANES], group = 0, r = 0;
    enum sg_stop stop = gather(cta, warp, members, &m);

    if (stop != SG_STOP_NONE)
        return stop;
    a = sg_reg_w(warp, op->a);
    if (likely(m == UINT32_MAX && !(op->n & SG_REDUX_FLOAT) &&
               one_group(members, m, &group) && group == m)) {
        uint32_t *d = sg_reg_w(warp, op->d);
        r = redux_all(op->n, a);
        for (int i = 0; i < SG_LANES; i++)
            d[i] = r;
        return members_done(warp, before, m);
    }
    group = 0;
    SG_FOR_LANES(i, m)
    {
        if (!group || (m & members[i]) != group) {
            group = m & members[i];
            r = redux_of(op->n, a, group, a[i]);
        }
        result[i] = r;
    }
    word_write(sg_reg_w(warp, op->d), result, m);
    return members_done(warp, before, m);
}

enum sg_stop
CAT(sg_elect_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                       const struct sg_insn *op, uint32_t m)
{
    const uint32_t *members = sg_reg_w(warp, op->a);
    uint32_t before = m, chosen = 0;
    enum sg_stop stop = gather(cta, warp, members, &m);

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
CAT(sg_bar_warp_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                          const struct sg_insn *op, uint32_t m)
{
    uint32_t before = m;
    enum sg_stop stop = gather(cta, warp, sg_reg_w(warp, op->a), &m);

    return stop != SG_STOP_NONE ? stop : members_done(warp, before, m);
}
