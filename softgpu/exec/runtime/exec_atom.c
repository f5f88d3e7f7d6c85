/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic operations on memory: atom and red of one element for each lane.
 *
 * Lanes are done in their order.  Memory of the block is its thread's alone (a cluster
 * runs on one thread, too), so nothing there is atomic for the host.  In global memory
 * each lane's operation is one of the host's; where all lanes have the same address,
 * they are one together, because nobody can tell that from lanes which follow each
 * other at once.
 */
#include "exec_lane.h"
#include "exec_scalar.h"
#include "sg_cta.h"

/* Integers, of which @S are those with a sign. */
#define INTEGER_CASES(S)                                                               \
    case SG_ATOM_ADD:                                                                  \
        return old + b;                                                                \
    case SG_ATOM_MIN_U:                                                                \
        return old < b ? old : b;                                                      \
    case SG_ATOM_MAX_U:                                                                \
        return old > b ? old : b;                                                      \
    case SG_ATOM_MIN_S:                                                                \
        return (S)old < (S)b ? old : b;                                                \
    case SG_ATOM_MAX_S:                                                                \
        return (S)old > (S)b ? old : b;                                                \
    case SG_ATOM_INC:                                                                  \
        return old >= b ? 0 : old + 1;                                                 \
    case SG_ATOM_DEC:                                                                  \
        return old == 0 || old > b ? b : old - 1;                                      \
    case SG_ATOM_AND:                                                                  \
        return old & b;                                                                \
    case SG_ATOM_OR:                                                                   \
        return old | b;                                                                \
    case SG_ATOM_XOR:                                                                  \
        return old ^ b;                                                                \
    case SG_ATOM_EXCH:                                                                 \
        return b;                                                                      \
    case SG_ATOM_CAS:                                                                  \
        return old == b ? c : old;

/* The value that replaces @old. */
static uint32_t
atom_next32(enum sg_atom what, uint32_t old, uint32_t b, uint32_t c)
{
    switch (what) {
        INTEGER_CASES(int32_t)
    case SG_ATOM_ADD_F32:
        return lane_bits32(lane_nan32(lane_float(old) + lane_float(b)));
    case SG_ATOM_ADD_F32_FTZ:
        return lane_bits32(
            lane_ftz(lane_nan32(lane_ftz(lane_float(old)) + lane_ftz(lane_float(b)))));
    default:
        return (uint32_t)sg_atom_half(what, old, b);
    }
}

static uint64_t
atom_next64(enum sg_atom what, uint64_t old, uint64_t b, uint64_t c)
{
    switch (what) {
        INTEGER_CASES(int64_t)
    case SG_ATOM_ADD_F64:
        return lane_bits64(lane_double(old) + lane_double(b));
    case SG_ATOM_ADD_F64_RAW:
        if (lane_double(b) != lane_double(b))
            return b;
        if (lane_double(old) != lane_double(old))
            return old;
        return lane_bits64(lane_double(old) + lane_double(b));
    default:
        return old;
    }
}

#define ATOM_RMW(T, next)                                                              \
    do {                                                                               \
        T cur = __atomic_load_n((T *)p, __ATOMIC_RELAXED), to;                         \
        do                                                                             \
            to = (T)(next);                                                            \
        while (!__atomic_compare_exchange_n((T *)p, &cur, to, true, __ATOMIC_SEQ_CST,  \
                                            __ATOMIC_RELAXED));                        \
        old = cur;                                                                     \
    } while (0)

uint64_t
sg_atom_do(enum sg_atom what, uint32_t size, void *p, uint64_t b, uint64_t c)
{
    uint64_t old;

    if (size == 8) {
        if (what == SG_ATOM_ADD)
            return __atomic_fetch_add((uint64_t *)p, b, __ATOMIC_SEQ_CST);
        ATOM_RMW(uint64_t, atom_next64(what, cur, b, c));
    } else if (size == 2) {
        ATOM_RMW(uint16_t, atom_next32(what, cur, (uint32_t)b, (uint32_t)c));
    } else {
        if (what == SG_ATOM_ADD)
            return __atomic_fetch_add((uint32_t *)p, (uint32_t)b, __ATOMIC_SEQ_CST);
        ATOM_RMW(uint32_t, atom_next32(what, cur, (uint32_t)b, (uint32_t)c));
    }
    return old;
}

/* atom.add.f32 flushes subnormal numbers in global memory and keeps them in shared
 * memory, as the PTX ISA says of it.  In global memory, atom.add.f64 keeps a NaN as it
 * is, as on a card. */
static enum sg_atom
atom_in_global(enum sg_atom what)
{
    return what == SG_ATOM_ADD_F32   ? SG_ATOM_ADD_F32_FTZ
           : what == SG_ATOM_ADD_F64 ? SG_ATOM_ADD_F64_RAW
                                     : what;
}

static bool
is_global(unsigned space, uint64_t addr)
{
    return space == SG_MEM_GLOBAL ||
           (space == SG_MEM_GENERIC && !sg_mem_is_window(addr));
}

/* Where the lanes' elements are. */
struct places {
    void *p[SG_LANES];
    bool inside; /* all in the window of the first */
    bool same;   /* all at one place */
};

static bool
find(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
     const struct sg_window *w, uint32_t size, uint32_t m, struct places *at)
{
    const uint32_t low = size - 1, more = op->x >> SG_ATOM_ALIGN_SHIFT;
    const uint32_t align = more > low ? more : low;
    const unsigned space = op->x & ((1u << SG_ATOM_ALIGN_SHIFT) - 1);
    const uint64_t *a = sg_reg_d(warp, op->a);
    const uint32_t first = (uint32_t)__builtin_ctz(m);

    at->inside = at->same = true;
    SG_FOR_LANES(i, m)
    {
        const uint64_t addr = a[i] + (uint64_t)op->imm;
        at->p[i] = sg_window_at(w, i, addr, size, align);
        if (unlikely(!at->p[i])) {
            at->inside = false;
            at->p[i] =
                sg_mem_resolve(cta, warp, i, addr, size, align, space, SG_ACCESS_WRITE);
            if (!at->p[i])
                return false;
        }
        at->same &= at->p[i] == at->p[first];
    }
    return true;
}

/* Operands and result of all lanes; NULL: it has none. */
struct rows {
    const void *b, *c;
    void *d;
};

static const uint64_t no_row[SG_LANES];

/* Memory that no other thread uses. */
#define DEF_ALONE(T, R, next)                                                          \
    static void alone_##T(enum sg_atom what, const struct places *at,                  \
                          const struct rows *r, uint32_t m)                            \
    {                                                                                  \
        const R *b = r->b, *c = r->c;                                                  \
        R *d = r->d, none[SG_LANES];                                                   \
        d = d ? d : none;                                                              \
        SG_FOR_LANES(i, m)                                                             \
        {                                                                              \
            T *p = at->p[i];                                                           \
            const T old = *p;                                                          \
            *p = what == SG_ATOM_ADD ? (T)(old + b[i])                                 \
                                     : (T)next(what, old, b[i], c[i]);                 \
            d[i] = old;                                                                \
        }                                                                              \
    }
DEF_ALONE(uint16_t, uint32_t, atom_next32)
DEF_ALONE(uint32_t, uint32_t, atom_next32)
DEF_ALONE(uint64_t, uint64_t, atom_next64)

/* One place that other threads may use: all lanes in one step. */
#define DEF_AT_ONCE(T, R, next)                                                        \
    static void at_once_##T(enum sg_atom what, T *p, const struct rows *r, uint32_t m) \
    {                                                                                  \
        const R *b = r->b, *c = r->c;                                                  \
        T cur = __atomic_load_n(p, __ATOMIC_RELAXED), v;                               \
        R *d = r->d, old[SG_LANES];                                                    \
        do {                                                                           \
            v = cur;                                                                   \
            SG_FOR_LANES(i, m)                                                         \
            {                                                                          \
                old[i] = v;                                                            \
                v = (T)next(what, v, b[i], c[i]);                                      \
            }                                                                          \
        } while (!__atomic_compare_exchange_n(p, &cur, v, true, __ATOMIC_SEQ_CST,      \
                                              __ATOMIC_RELAXED));                      \
        if (d)                                                                         \
            SG_FOR_LANES(i, m)                                                         \
        d[i] = old[i];                                                                 \
    }
DEF_AT_ONCE(uint16_t, uint32_t, atom_next32)
DEF_AT_ONCE(uint32_t, uint32_t, atom_next32)
DEF_AT_ONCE(uint64_t, uint64_t, atom_next64)

static void
one_by_one(enum sg_atom what, uint32_t size, const struct places *at,
           const struct rows *r, uint32_t m)
{
    const bool wide = size == 8;

    SG_FOR_LANES(i, m)
    {
        const uint64_t b =
            wide ? ((const uint64_t *)r->b)[i] : ((const uint32_t *)r->b)[i];
        const uint64_t c =
            wide ? ((const uint64_t *)r->c)[i] : ((const uint32_t *)r->c)[i];
        const uint64_t old = sg_atom_do(what, size, at->p[i], b, c);
        if (r->d && wide)
            ((uint64_t *)r->d)[i] = old;
        else if (r->d)
            ((uint32_t *)r->d)[i] = (uint32_t)old;
    }
}

static void *
row(const struct sg_warp *warp, bool wide, uint32_t off)
{
    return wide ? (void *)sg_reg_d(warp, off) : (void *)sg_reg_w(warp, off);
}

enum sg_stop
sg_op_atom(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    const unsigned space = op->x & ((1u << SG_ATOM_ALIGN_SHIFT) - 1);
    const uint32_t first = (uint32_t)__builtin_ctz(m);
    const uint64_t *a = sg_reg_d(warp, op->a), addr = a[first] + (uint64_t)op->imm;
    const uint32_t size = op->code == SG_OP_ATOM_D   ? 8
                          : op->code == SG_OP_ATOM_H ? 2
                                                     : 4;
    const struct sg_window w =
        sg_mem_window_of(cta, warp, space, addr, SG_ACCESS_WRITE);
    const bool wide = size == 8, global = is_global(space, addr);
    const struct rows r = {
        .b = row(warp, wide, op->b),
        .c = op->c == SG_OFF_NONE ? no_row : row(warp, wide, op->c),
        .d = op->d == SG_OFF_NONE ? NULL : row(warp, wide, op->d),
    };
    const enum sg_atom what = global ? atom_in_global(op->n) : op->n;
    struct places at;

    if (!find(cta, warp, op, &w, size, m, &at))
        return SG_STOP_FAULT;
    if (!at.inside) {
        SG_FOR_LANES(i, m)
        one_by_one(is_global(space, a[i] + (uint64_t)op->imm) ? atom_in_global(op->n)
                                                              : op->n,
                   size, &at, &r, 1u << i);
    } else if (!global) {
        (size == 8   ? alone_uint64_t
         : size == 4 ? alone_uint32_t
                     : alone_uint16_t)(what, &at, &r, m);
    } else if (!at.same || (m & (m - 1)) == 0) {
        one_by_one(what, size, &at, &r, m);
    } else if (wide) {
        at_once_uint64_t(what, at.p[first], &r, m);
    } else if (size == 4) {
        at_once_uint32_t(what, at.p[first], &r, m);
    } else {
        at_once_uint16_t(what, at.p[first], &r, m);
    }
    return SG_STOP_NONE;
}
