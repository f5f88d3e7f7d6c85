/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: a kernel's statements, thread by thread in the order of their numbers,
 * each statement for all threads that are at it.  What a statement does is the PTX
 * ISA's description of the instruction; how threads interleave makes no difference.
 */
#include "rk_kernel.h"
#include "sg_ref.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BLOCK 128

struct thread {
    uint64_t r[RK_N_CLASSES][RK_MAX_REGS];
    uint8_t local[RK_LOCAL_BYTES];
    bool gone;
};

struct eval {
    const struct rk_kernel *k;
    struct rk_memory *m;
    unsigned cta;
    struct thread *t; /* the block's */
    uint8_t shared[RK_OWN_BYTES * MAX_BLOCK];
    uint64_t cells[RK_CELLS];
};

/* Which threads of the block are at a statement. */
struct set {
    bool in[MAX_BLOCK];
};

static uint64_t mask_of(enum rk_class class)
{
    return class == RK_D   ? UINT64_MAX
           : class == RK_W ? UINT32_MAX
           : class == RK_H ? UINT16_MAX
                           : 1;
}

static void
put(struct thread *t, enum rk_class class, unsigned reg, uint64_t v)
{
    t->r[class][reg] = v & mask_of(class);
}

static uint64_t
get(const struct thread *t, const struct rk_src *s)
{
    return s->constant ? s->value : t->r[s->class][s->reg];
}

static bool
guard_holds(const struct thread *t, const struct rk_stmt *s)
{
    return s->guard < 0 || (t->r[RK_P][s->guard] != 0) != s->guard_not;
}

static void
eval_alu(struct thread *t, const struct rk_stmt *s)
{
    uint64_t x[RK_MAX_SOURCES] = {0};

    for (unsigned i = 0; s->op->sig[i + 1]; i++)
        x[i] = get(t, &s->src[i]);
    put(t, s->class, s->regs[0], rk_op_eval(s->op, x));
}

static uint8_t *
own(struct eval *e, struct thread *t, unsigned tid, const struct rk_mem *mem)
{
    unsigned block = e->k->block;

    if (mem->space == RK_LOCAL)
        return t->local + mem->off;
    if (mem->space == RK_SHARED)
        return e->shared + rk_mem_offset(mem, tid, block);
    return e->m->own + rk_mem_offset(mem, e->cta * block + tid, e->k->grid * block);
}

static void
eval_load(struct eval *e, struct thread *t, unsigned tid, const struct rk_stmt *s)
{
    const uint8_t *p = own(e, t, tid, &s->mem);
    unsigned up = 64 - 8 * s->mem.size;

    for (unsigned i = 0; i < s->mem.n; i++) {
        uint64_t v = 0;
        memcpy(&v, p + i * s->mem.size, s->mem.size);
        if (s->mem.letter == 's')
            v = (uint64_t)((int64_t)(v << up) >> up);
        put(t, s->class, s->regs[i], v);
    }
}

static void
eval_store(struct eval *e, struct thread *t, unsigned tid, const struct rk_stmt *s)
{
    uint8_t *p = own(e, t, tid, &s->mem);

    for (unsigned i = 0; i < s->mem.n; i++)
        memcpy(p + i * s->mem.size, &t->r[s->class][s->regs[i]], s->mem.size);
}

/* atom.add.f32 flushes subnormal numbers in global memory, and not in shared memory. */
static uint64_t
float_sum(uint64_t a, uint64_t b, bool ftz)
{
    const struct ref_fmt *fmt = &ref_f32;
    uint64_t v;

    if (ftz) {
        a = ref_flush(fmt, a);
        b = ref_flush(fmt, b);
    }
    v = ref_pack(fmt, ref_add(ref_unpack(fmt, a), ref_unpack(fmt, b), REF_RN), REF_RN);
    return ftz ? ref_flush(fmt, v) : v;
}

/* rk_atoms[] of rk_print.c, by number. */
static uint64_t
atom_result(const struct rk_stmt *s, uint64_t old, uint64_t b, uint64_t c)
{
    bool is_64 = s->mem.size == 8;
    int64_t so = is_64 ? (int64_t)old : (int32_t)old;
    int64_t sb = is_64 ? (int64_t)b : (int32_t)b;

    switch (s->mode) {
    case 0:
        return old + b;
    case 1:
        return old < b ? old : b;
    case 2:
        return old > b ? old : b;
    case 3:
        return (uint64_t)(so < sb ? so : sb);
    case 4:
        return (uint64_t)(so > sb ? so : sb);
    case 5:
        return old & b;
    case 6:
        return old | b;
    case 7:
        return old ^ b;
    case 8:
        return b;
    case 9:
        return old == b ? c : old;
    case 10:
        return old >= b ? 0 : old + 1;
    case 11:
        return old == 0 || old > b ? b : old - 1;
    default:
        return float_sum(old, b, s->mem.space == RK_GLOBAL);
    }
}

static void
eval_atom(struct eval *e, struct thread *t, unsigned tid, const struct rk_stmt *s)
{
    uint8_t *p = own(e, t, tid, &s->mem);
    uint64_t old = 0, new;

    memcpy(&old, p, s->mem.size);
    new = atom_result(s, old, get(t, &s->src[0]), get(t, &s->src[1]));
    memcpy(p, &new, s->mem.size);
    put(t, s->class, s->regs[0], old);
}

static void
eval_red(struct eval *e, struct thread *t, const struct rk_stmt *s)
{
    uint64_t *cell = s->mode ? &e->cells[s->n] : &e->m->cells[s->n];
    uint64_t v = get(t, &s->src[0]), old = *cell;

    switch (s->n) {
    case 0:
        *cell = (uint32_t)(old + v);
        break;
    case 1:
        *cell = (int32_t)v < (int32_t)old ? v : old;
        break;
    case 2:
        *cell = v > old ? v : old;
        break;
    case 3:
        *cell = old & v;
        break;
    case 4:
        *cell = old | v;
        break;
    case 5:
        *cell = old ^ v;
        break;
    case 6:
        *cell = old + v;
        break;
    case 7:
        *cell = (int64_t)v > (int64_t)old ? v : old;
        break;
    default:
        *cell = v < old ? v : old;
    }
}

/* ---- warps -------------------------------------------------------------------------
 */

struct warp {
    struct thread *t;
    uint32_t mask; /* of those that are here */
};

/* What lane @j of the source has, or @own where it is not here. */
static uint64_t
shuffled(const struct warp *w, const struct rk_stmt *s, unsigned lane)
{
    unsigned segment = s->segment, c = s->mode == RK_SHFL_UP ? 0 : 31, j = lane;
    unsigned most = (lane & segment) | (c & ~segment), least = lane & segment;
    bool in = true;

    switch (s->mode) {
    case RK_SHFL_LAST:
        j = 31;
        while (!(w->mask >> j & 1))
            j--;
        break;
    case RK_SHFL_BFLY:
        j = lane ^ s->n;
        in = w->mask >> j & 1;
        break;
    case RK_SHFL_UP:
        in = lane >= s->n && lane - s->n >= most;
        j = lane - s->n;
        break;
    case RK_SHFL_DOWN:
        j = lane + s->n;
        in = j <= most;
        break;
    default:
        j = least | (s->n & ~segment & 31);
        in = j <= most;
    }
    return get(&w->t[in ? j : lane], &s->src[0]);
}

static uint64_t
redux(const struct warp *w, const struct rk_stmt *s)
{
    uint64_t v = 0;
    bool first = true;

    for (unsigned i = 0; i < 32; i++) {
        uint64_t x = w->mask >> i & 1 ? get(&w->t[i], &s->src[0]) : 0;
        int32_t sx = (int32_t)x, sv = (int32_t)v;
        if (!(w->mask >> i & 1))
            continue;
        switch (s->n) {
        case 0:
        case 1:
            v = first ? x : v + x;
            break;
        case 2:
            v = first || x < v ? x : v;
            break;
        case 3:
            v = first || x > v ? x : v;
            break;
        case 4:
            v = first || sx < sv ? x : v;
            break;
        case 5:
            v = first || sx > sv ? x : v;
            break;
        case 6:
            v = first ? x : v & x;
            break;
        case 7:
            v = first ? x : v | x;
            break;
        default:
            v = first ? x : v ^ x;
        }
        v &= UINT32_MAX;
        first = false;
    }
    return v;
}

static uint64_t
warp_value(const struct warp *w, const struct rk_stmt *s, unsigned lane, bool *ret_all)
{
    uint64_t mine = get(&w->t[lane], &s->src[0]);
    uint32_t same = 0, set = 0;

    for (unsigned i = 0; i < 32; i++) {
        if (!(w->mask >> i & 1))
            continue;
        same |= (uint32_t)(get(&w->t[i], &s->src[0]) == mine) << i;
        set |= (uint32_t)(get(&w->t[i], &s->src[0]) != 0) << i;
    }
    *ret_all = same == w->mask;
    switch (s->mode) {
    case RK_VOTE_ALL:
        return set == w->mask;
    case RK_VOTE_ANY:
        return set != 0;
    case RK_VOTE_UNI:
        return set == 0 || set == w->mask;
    case RK_BALLOT:
        return set;
    case RK_MATCH_ANY:
    case RK_MATCH_ANY_64:
        return same;
    case RK_MATCH_ALL:
        return same == w->mask ? w->mask : 0;
    case RK_REDUX:
        return redux(w, s);
    default:
        return shuffled(w, s, lane);
    }
}

static void
eval_warps(struct eval *e, const struct rk_stmt *s, const struct set *set)
{
    for (unsigned first = 0; first < e->k->block; first += 32) {
        struct warp w = {&e->t[first], 0};
        uint64_t v[32];
        bool all[32];

        for (unsigned i = 0; i < 32 && first + i < e->k->block; i++)
            w.mask |= (uint32_t)(set->in[first + i] && !w.t[i].gone) << i;
        for (unsigned i = 0; i < 32; i++)
            if (w.mask >> i & 1)
                v[i] = warp_value(&w, s, i, &all[i]);
        for (unsigned i = 0; i < 32; i++) {
            if (!(w.mask >> i & 1))
                continue;
            put(&w.t[i], s->class, s->regs[0], v[i]);
            if (s->mode == RK_MATCH_ALL)
                put(&w.t[i], RK_P, s->regs[1], all[i]);
        }
    }
}

/* ---- blocks ------------------------------------------------------------------------
 */

static void
eval_exchange(struct eval *e, const struct rk_stmt *s)
{
    struct rk_mem mem = {.space = RK_SHARED, .region = RK_COL4, .off = 3};
    unsigned block = e->k->block;

    for (unsigned i = 0; i < block; i++)
        if (!e->t[i].gone)
            memcpy(own(e, &e->t[i], i, &mem), &e->t[i].r[RK_W][s->src[0].reg], 4);
    for (unsigned i = 0; i < block; i++) {
        uint32_t v;
        memcpy(&v, own(e, &e->t[i], (i + s->n) % block, &mem), 4);
        if (!e->t[i].gone)
            put(&e->t[i], RK_W, s->regs[0], v);
    }
}

static void
eval_bar_red(struct eval *e, const struct rk_stmt *s)
{
    unsigned n = 0, set = 0;

    for (unsigned i = 0; i < e->k->block; i++) {
        if (e->t[i].gone)
            continue;
        n++;
        set += get(&e->t[i], &s->src[0]) != 0;
    }
    for (unsigned i = 0; i < e->k->block; i++)
        if (!e->t[i].gone)
            put(&e->t[i], s->class, s->regs[0],
                s->mode == 0   ? set
                : s->mode == 1 ? set == n
                               : set > 0);
}

/* ---- statements --------------------------------------------------------------------
 */

static void eval_list(struct eval *e, const struct rk_list *list,
                      const struct set *set);

static void
eval_if(struct eval *e, const struct rk_stmt *s, const struct set *set)
{
    struct set way[2];

    for (unsigned i = 0; i < e->k->block; i++) {
        bool holds = set->in[i] && guard_holds(&e->t[i], s);
        way[0].in[i] = holds;
        way[1].in[i] = set->in[i] && !holds;
    }
    eval_list(e, &s->sub[0], &way[0]);
    eval_list(e, &s->sub[1], &way[1]);
}

static void
eval_switch(struct eval *e, const struct rk_stmt *s, const struct set *set)
{
    struct set way[RK_MAX_WAYS];

    for (unsigned w = 0; w < RK_MAX_WAYS; w++)
        for (unsigned i = 0; i < e->k->block; i++)
            way[w].in[i] = set->in[i] && (get(&e->t[i], &s->src[0]) & 3) == w;
    for (unsigned w = 0; w < RK_MAX_WAYS; w++)
        eval_list(e, &s->sub[w], &way[w]);
}

static void
eval_loop(struct eval *e, const struct rk_stmt *s, const struct set *set)
{
    uint64_t n[MAX_BLOCK];
    struct set here = *set;

    for (unsigned i = 0; i < e->k->block; i++)
        n[i] = s->n ? s->n : get(&e->t[i], &s->src[0]) & 3;
    for (uint64_t round = 0;; round++) {
        bool any = false;
        for (unsigned i = 0; i < e->k->block; i++) {
            here.in[i] = here.in[i] && round < n[i];
            any |= here.in[i];
        }
        if (!any)
            return;
        eval_list(e, &s->sub[0], &here);
    }
}

/* A function's registers begin as functions of its arguments; rk_print.c does the same
 * in its prologue. */
static void
eval_call(struct eval *e, const struct rk_stmt *s, const struct set *set)
{
    struct thread *outer = e->t, *inner = calloc(MAX_BLOCK, sizeof(*inner));

    if (!inner)
        abort();
    for (unsigned i = 0; i < e->k->block; i++) {
        uint32_t a = (uint32_t)get(&outer[i], &s->src[0]);
        uint64_t b = get(&outer[i], &s->src[1]);
        for (unsigned r = 0; r < rk_n_regs[RK_W]; r++)
            inner[i].r[RK_W][r] = a ^ (uint32_t)(r * 0x9e3779b9u);
        for (unsigned r = 0; r < rk_n_regs[RK_D]; r++)
            inner[i].r[RK_D][r] = b + r * UINT64_C(0x9e3779b97f4a7c15);
        for (unsigned r = 0; r < rk_n_regs[RK_H]; r++)
            inner[i].r[RK_H][r] = inner[i].r[RK_W][r] & 0xffff;
        for (unsigned r = 0; r < rk_n_regs[RK_P]; r++)
            inner[i].r[RK_P][r] = inner[i].r[RK_W][r] >> r & 1;
        inner[i].gone = outer[i].gone;
    }
    e->t = inner;
    eval_list(e, &e->k->functions[s->n], set);
    e->t = outer;
    for (unsigned i = 0; i < e->k->block; i++)
        if (set->in[i] && !outer[i].gone)
            put(&outer[i], RK_D, s->regs[0], inner[i].r[RK_D][0] + inner[i].r[RK_W][0]);
    free(inner);
}

static void
eval_thread(struct eval *e, unsigned tid, const struct rk_stmt *s)
{
    struct thread *t = &e->t[tid];

    switch (s->kind) {
    case RK_ALU:
        eval_alu(t, s);
        break;
    case RK_LOAD:
        eval_load(e, t, tid, s);
        break;
    case RK_STORE:
        eval_store(e, t, tid, s);
        break;
    case RK_GATHER: {
        uint64_t at = get(t, &s->src[0]) & (RK_TABLE - 1);
        put(t, RK_W, s->regs[0], s->mode == 3 ? e->k->table[at] : e->m->table[at]);
        break;
    }
    case RK_ATOM:
        eval_atom(e, t, tid, s);
        break;
    case RK_RED:
        eval_red(e, t, s);
        break;
    default:
        t->gone = true;
    }
}

static void
eval_stmt(struct eval *e, const struct rk_stmt *s, const struct set *set)
{
    switch (s->kind) {
    case RK_WARP:
        eval_warps(e, s, set);
        break;
    case RK_EXCHANGE:
        eval_exchange(e, s);
        break;
    case RK_BAR_RED:
        eval_bar_red(e, s);
        break;
    case RK_IF:
        eval_if(e, s, set);
        break;
    case RK_LOOP:
        eval_loop(e, s, set);
        break;
    case RK_SWITCH:
        eval_switch(e, s, set);
        break;
    case RK_CALL:
        eval_call(e, s, set);
        break;
    default:
        for (unsigned i = 0; i < e->k->block; i++)
            if (set->in[i] && !e->t[i].gone && guard_holds(&e->t[i], s))
                eval_thread(e, i, s);
    }
}

static void
eval_list(struct eval *e, const struct rk_list *list, const struct set *set)
{
    for (unsigned i = 0; i < list->n; i++)
        if (!list->v[i].off)
            eval_stmt(e, &list->v[i], set);
}

/* ---- a block, from its prologue to its results -------------------------------------
 */

static void
start_thread(struct eval *e, unsigned tid)
{
    unsigned number = e->cta * e->k->block + tid;
    const uint64_t *in = e->m->in + (size_t)number * RK_IN_WORDS;
    struct thread *t = &e->t[tid];

    for (unsigned r = 0; r < rk_n_regs[RK_W]; r++)
        t->r[RK_W][r] = (uint32_t)in[r];
    for (unsigned r = 0; r < rk_n_regs[RK_D]; r++)
        t->r[RK_D][r] = in[rk_n_regs[RK_W] + r];
    /* What a launch knows by itself: the passes treat it otherwise. */
    t->r[RK_W][0] = (uint32_t)(tid * 3 + e->k->param_word);
    t->r[RK_W][1] = number;
    t->r[RK_D][0] = e->k->param_long;
    for (unsigned r = 0; r < rk_n_regs[RK_H]; r++)
        t->r[RK_H][r] = t->r[RK_W][r + 2] & 0xffff;
    for (unsigned r = 0; r < rk_n_regs[RK_P]; r++)
        t->r[RK_P][r] = t->r[RK_W][r + 2] >> r & 1;
}

static void
store_results(struct eval *e, unsigned tid)
{
    uint64_t *out = e->m->out + (size_t)(e->cta * e->k->block + tid) * RK_OUT_WORDS;
    struct thread *t = &e->t[tid];
    unsigned at = 0;

    if (t->gone)
        return;
    for (unsigned c = 0; c < RK_N_CLASSES; c++)
        for (unsigned r = 0; r < rk_n_regs[c]; r++)
            out[at++] = t->r[c][r];
    if (rk_kernel_has_shared(e->k)) {
        for (unsigned i = 0; i < RK_OWN_BYTES / 8; i++)
            memcpy(&out[RK_OUT_OWN + i],
                   e->shared + ((size_t)i * e->k->block + tid) * 8, 8);
        memcpy(&out[RK_OUT_CELLS], e->cells, sizeof(e->cells));
    }
    memcpy(&out[RK_OUT_LOCAL], t->local, sizeof(t->local));
}

void
rk_eval(const struct rk_kernel *k, struct rk_memory *m)
{
    struct eval *e = calloc(1, sizeof(*e));
    struct set all = {{false}};

    if (!e)
        abort();
    for (unsigned i = 0; i < k->block; i++)
        all.in[i] = true;
    for (unsigned cta = 0; cta < k->grid; cta++) {
        memset(e, 0, sizeof(*e));
        e->k = k;
        e->m = m;
        e->cta = cta;
        e->t = calloc(MAX_BLOCK, sizeof(*e->t));
        if (!e->t)
            abort();
        for (unsigned i = 0; i < RK_CELLS; i++)
            e->cells[i] = rk_cells[i].start;
        for (unsigned i = 0; i < k->block; i++)
            start_thread(e, i);
        eval_list(e, &k->body, &all);
        for (unsigned i = 0; i < k->block; i++)
            store_results(e, i);
        free(e->t);
    }
    free(e);
}
