/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector loads and stores of a whole warp: 8 or 16 bytes for each lane, in one access.
 *
 * Included by exec_vector_v2.c, _v3.c and _v4.c alone, compiled for those levels as the
 * interpreter is.  Files of their own, because what the compiler inlines into the
 * interpreter's function depends on how much else is in its file.  First the host
 * addresses of all lanes are found, and so is every fault; then the bytes move.  No
 * other thread ever sees a part of one lane's access, because a card keeps it whole too
 * and programs publish { status, value } with it.
 *
 * The lanes' registers are rows, and memory holds a lane's elements side by side, so
 * four lanes of four elements are transposed at a time.
 */
#include "exec_lanes_mem.h"
#include "exec_level.h"
#include "exec_quad.h"
#include "sg_cta.h"

/* Where the lanes' accesses are in the host's memory.  All lanes of one shape are in
 * global or shared memory and aligned here as well; then only VEC_ANY (and VEC_LANES)
 * fills @p. */
enum vec_shape {
    VEC_LANES, /* those of the mask, each by itself */
    VEC_ANY,   /* all 32 */
    VEC_SEQ,   /* all 32, side by side */
    VEC_EQ     /* all 32 at one address */
};

struct vec_at {
    enum vec_shape shape;
    bool swap; /* sg_quad_load() and sg_quad_store() need it */
    char *first;
    void *p[SG_LANES];
};

LANE enum vec_shape
vec_shape(enum half_shape low, enum half_shape high, uint64_t apart, uint32_t size)
{
    return low == HALF_SEQ && high == HALF_SEQ && apart == (uint64_t)HALF * size
               ? VEC_SEQ
           : low == HALF_EQ && high == HALF_EQ && apart == 0 ? VEC_EQ
                                                             : VEC_ANY;
}

/* Lane by lane; words the faults. */
static bool
vec_resolve(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint64_t addr, unsigned lane, uint32_t size, enum sg_mem_space space,
            enum sg_access access, struct vec_at *at)
{
    at->p[lane] = sg_mem_resolve(cta, warp, lane, addr, size, op->x, space, access);
    at->swap &= !sg_range_is_read_only(cta->tlb[SG_TLB_ANY].flags);
    return at->p[lane] != NULL;
}

/* The same for lanes of which most are in the range of the first one. */
static bool
vec_lanes(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          const uint64_t *a, uint32_t m, uint32_t size, enum sg_mem_space space,
          enum sg_access access, struct vec_at *at)
{
    const uint64_t imm = (uint64_t)op->imm, first = a[__builtin_ctz(m)] + imm;
    const struct sg_window w =
        lanes_window(cta, warp, &cta->tlb[op->n], first, space, access);

    at->swap = sg_quad_by_swap && !sg_range_is_read_only(cta->tlb[op->n].flags);
    SG_FOR_LANES(i, m)
    {
        at->p[i] = sg_window_at(&w, i, a[i] + imm, size, op->x);
        if (unlikely(!at->p[i]) &&
            !vec_resolve(cta, warp, op, a[i] + imm, i, size, space, access, at))
            return false;
    }
    return true;
}

static bool
vec_global(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           const uint64_t *a, uint32_t m, uint32_t size, enum sg_mem_space space,
           enum sg_access access, struct vec_at *at)
{
    struct sg_tlb *t = &cta->tlb[op->n];
    const uint64_t imm = (uint64_t)op->imm;

    at->shape = VEC_LANES;
    if (m == UINT32_MAX &&
        (tlb_covers(t, a[0] + imm, size) || sg_mem_fill(cta, t, a[0] + imm)) &&
        (access == SG_ACCESS_READ || !(t->flags & SG_RANGE_READ_ONLY) ||
         sg_mem_fill_store(cta, t, a[0] + imm)) &&
        half_within64(a, imm, t->lo, t->len, size, op->x) &&
        half_within64(a + HALF, imm, t->lo, t->len, size, op->x)) {
        at->shape = vec_shape(half_shape64(a, size), half_shape64(a + HALF, size),
                              a[HALF] - a[0], size);
        at->swap = sg_quad_by_swap && !sg_range_is_read_only(t->flags);
        at->first = (char *)(uintptr_t)(a[0] + imm);
        for (int i = 0; at->shape == VEC_ANY && i < SG_LANES; i++)
            at->p[i] = (void *)(uintptr_t)(a[i] + imm);
        return true;
    }
    return vec_lanes(cta, warp, op, a, m, size, space, access, at);
}

/* A CTA runs on one thread, so shared memory needs no compare-and-swap. */
#define DEF_VEC_SHARED(AT)                                                             \
    static bool vec_shared_##AT(struct sg_cta *cta, struct sg_warp *warp,              \
                                const struct sg_insn *op, const AT *a, uint32_t m,     \
                                uint32_t size, enum sg_access access,                  \
                                struct vec_at *at)                                     \
    {                                                                                  \
        const AT imm = (AT)op->imm;                                                    \
        const uint64_t bytes = cta->shared_bytes;                                      \
        at->shape = VEC_LANES;                                                         \
        if (m == UINT32_MAX && HALF_WITHIN_##AT(a, imm, bytes, size, op->x) &&         \
            HALF_WITHIN_##AT((a + HALF), imm, bytes, size, op->x)) {                   \
            at->shape =                                                                \
                vec_shape(HALF_SHAPE_##AT(a, size), HALF_SHAPE_##AT((a + HALF), size), \
                          (AT)(a[HALF] - a[0]), size);                                 \
            at->swap = false;                                                          \
            at->first = (char *)cta->shared + (AT)(a[0] + imm);                        \
            for (int i = 0; at->shape == VEC_ANY && i < SG_LANES; i++)                 \
                at->p[i] = cta->shared + (AT)(a[i] + imm);                             \
            return true;                                                               \
        }                                                                              \
        at->swap = sg_quad_by_swap;                                                    \
        SG_FOR_LANES(i, m)                                                             \
        if (!vec_resolve(cta, warp, op, (AT)(a[i] + imm), i, size, SG_MEM_SHARED,      \
                         access, at))                                                  \
            return false;                                                              \
        return true;                                                                   \
    }
DEF_VEC_SHARED(uint32_t)
DEF_VEC_SHARED(uint64_t)
#undef DEF_VEC_SHARED

/* One lane's bytes.  Parameters and local memory, which nobody else sees, may have any
 * address here. */
LANE sg_quad
vec_get(const void *p, uint32_t size, bool swap)
{
    sg_quad v = {0};

    if (size == 8 && !((uintptr_t)p & 7)) {
        uint64_t d = *(const volatile uint64_t *)p;
        return (sg_quad){(uint32_t)d, (uint32_t)(d >> 32)};
    }
    if (size == 16 && !((uintptr_t)p & 15))
        return sg_quad_load(p, swap);
    memcpy(&v, p, size);
    return v;
}

LANE void
vec_put(void *p, sg_quad v, uint32_t size, bool swap)
{
    if (size == 8 && !((uintptr_t)p & 7))
        *(volatile uint64_t *)p = v[0] | (uint64_t)v[1] << 32;
    else if (size == 16 && !((uintptr_t)p & 15))
        sg_quad_store(p, v, swap);
    else
        memcpy(p, &v, size);
}

/* Four lanes of four elements each become four elements of four lanes each. */
LANE void
vec_transpose(sg_quad q[4])
{
    const sg_quad a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
    const sg_quad b = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    const sg_quad c = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
    const sg_quad d = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);

    q[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    q[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    q[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    q[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* One lane of a warp of which all are at work. */
LANE void *
vec_lane(const struct vec_at *at, int i, uint32_t size)
{
    return at->shape == VEC_SEQ ? at->first + (uint32_t)i * size : at->p[i];
}

#define VEC_ROW(T, base, k) ((T *)__builtin_assume_aligned((base) + list[k], 64))

static void
vec_load_4x32(const struct vec_at *at, char *wb, const uint32_t *list, uint32_t m)
{
    uint32_t *const d[4] = {VEC_ROW(uint32_t, wb, 0), VEC_ROW(uint32_t, wb, 1),
                            VEC_ROW(uint32_t, wb, 2), VEC_ROW(uint32_t, wb, 3)};

    if (at->shape == VEC_EQ) {
        const sg_quad v = sg_quad_load(at->first, at->swap);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < SG_LANES; i++)
                d[k][i] = v[k];
        return;
    }
    for (int i = 0; at->shape != VEC_LANES && i < SG_LANES; i += 4) {
        sg_quad q[4];
        for (int k = 0; k < 4; k++)
            q[k] = sg_quad_load(vec_lane(at, i + k, 16), at->swap);
        vec_transpose(q);
        for (int k = 0; k < 4; k++)
            *(sg_quad *)(void *)(d[k] + i) = q[k];
    }
    SG_FOR_LANES(i, at->shape == VEC_LANES ? m : 0)
    {
        const sg_quad v = vec_get(at->p[i], 16, at->swap);
        for (int k = 0; k < 4; k++)
            d[k][i] = v[k];
    }
}

static void
vec_store_4x32(const struct vec_at *at, char *wb, const uint32_t *list, uint32_t m)
{
    const uint32_t *const v[4] = {VEC_ROW(uint32_t, wb, 0), VEC_ROW(uint32_t, wb, 1),
                                  VEC_ROW(uint32_t, wb, 2), VEC_ROW(uint32_t, wb, 3)};

    if (at->shape == VEC_EQ) { /* the last lane's */
        sg_quad_store(at->first, (sg_quad){v[0][31], v[1][31], v[2][31], v[3][31]},
                      at->swap);
        return;
    }
    for (int i = 0; at->shape != VEC_LANES && i < SG_LANES; i += 4) {
        sg_quad q[4];
        for (int k = 0; k < 4; k++)
            q[k] = *(const sg_quad *)(const void *)(v[k] + i);
        vec_transpose(q);
        for (int k = 0; k < 4; k++)
            sg_quad_store(vec_lane(at, i + k, 16), q[k], at->swap);
    }
    SG_FOR_LANES(i, at->shape == VEC_LANES ? m : 0)
    vec_put(at->p[i], (sg_quad){v[0][i], v[1][i], v[2][i], v[3][i]}, 16, at->swap);
}

/* Two neighbours of 8 bytes: each is whole, not the two. */
typedef uint32_t vec_two __attribute__((vector_size(16), aligned(8), may_alias));

static void
vec_load_2x32(const struct vec_at *at, char *wb, const uint32_t *list, uint32_t m)
{
    uint32_t *const d[2] = {VEC_ROW(uint32_t, wb, 0), VEC_ROW(uint32_t, wb, 1)};
    uint64_t t[SG_LANES] __attribute__((aligned(64)));

    if (at->shape == VEC_SEQ) {
        for (int i = 0; i < SG_LANES; i += 4) {
            const volatile vec_two *p = (void *)(at->first + i * 8);
            const sg_quad lo = (sg_quad)p[0], hi = (sg_quad)p[1];
            *(sg_quad *)(void *)(d[0] + i) =
                __builtin_shufflevector(lo, hi, 0, 2, 4, 6);
            *(sg_quad *)(void *)(d[1] + i) =
                __builtin_shufflevector(lo, hi, 1, 3, 5, 7);
        }
    } else if (at->shape == VEC_EQ) {
        const uint64_t v = *(const volatile uint64_t *)(void *)at->first;
        for (int i = 0; i < SG_LANES; i++) {
            d[0][i] = (uint32_t)v;
            d[1][i] = (uint32_t)(v >> 32);
        }
    } else if (at->shape == VEC_ANY) {
        for (int i = 0; i < SG_LANES; i++)
            t[i] = *(const volatile uint64_t *)at->p[i];
        for (int i = 0; i < SG_LANES; i++) {
            d[0][i] = (uint32_t)t[i];
            d[1][i] = (uint32_t)(t[i] >> 32);
        }
    } else {
        SG_FOR_LANES(i, m)
        {
            const sg_quad v = vec_get(at->p[i], 8, false);
            d[0][i] = v[0];
            d[1][i] = v[1];
        }
    }
}

static void
vec_store_2x32(const struct vec_at *at, char *wb, const uint32_t *list, uint32_t m)
{
    const uint32_t *const v[2] = {VEC_ROW(uint32_t, wb, 0), VEC_ROW(uint32_t, wb, 1)};

    if (at->shape == VEC_SEQ) {
        for (int i = 0; i < SG_LANES; i += 4) {
            volatile vec_two *p = (void *)(at->first + i * 8);
            const sg_quad a = *(const sg_quad *)(const void *)(v[0] + i);
            const sg_quad b = *(const sg_quad *)(const void *)(v[1] + i);
            p[0] = (vec_two)__builtin_shufflevector(a, b, 0, 4, 1, 5);
            p[1] = (vec_two)__builtin_shufflevector(a, b, 2, 6, 3, 7);
        }
    } else if (at->shape == VEC_LANES) {
        SG_FOR_LANES(i, m)
        vec_put(at->p[i], (sg_quad){v[0][i], v[1][i]}, 8, false);
    } else {
        for (int i = at->shape == VEC_EQ ? SG_LANES - 1 : 0; i < SG_LANES; i++)
            *(volatile uint64_t *)(at->shape == VEC_EQ ? at->first : at->p[i]) =
                v[0][i] | (uint64_t)v[1][i] << 32;
    }
}

static void
vec_load_2x64(const struct vec_at *at, char *db, const uint32_t *list, uint32_t m)
{
    uint64_t *const d[2] = {VEC_ROW(uint64_t, db, 0), VEC_ROW(uint64_t, db, 1)};

    if (at->shape == VEC_EQ) {
        const sg_pair v = (sg_pair)sg_quad_load(at->first, at->swap);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < SG_LANES; i++)
                d[k][i] = v[k];
        return;
    }
    for (int i = 0; at->shape != VEC_LANES && i < SG_LANES; i += 2) {
        const sg_pair a = (sg_pair)sg_quad_load(vec_lane(at, i, 16), at->swap);
        const sg_pair b = (sg_pair)sg_quad_load(vec_lane(at, i + 1, 16), at->swap);
        *(sg_pair *)(void *)(d[0] + i) = __builtin_shufflevector(a, b, 0, 2);
        *(sg_pair *)(void *)(d[1] + i) = __builtin_shufflevector(a, b, 1, 3);
    }
    SG_FOR_LANES(i, at->shape == VEC_LANES ? m : 0)
    {
        const sg_pair v = (sg_pair)vec_get(at->p[i], 16, at->swap);
        d[0][i] = v[0];
        d[1][i] = v[1];
    }
}

static void
vec_store_2x64(const struct vec_at *at, char *db, const uint32_t *list, uint32_t m)
{
    const uint64_t *const v[2] = {VEC_ROW(uint64_t, db, 0), VEC_ROW(uint64_t, db, 1)};

    if (at->shape == VEC_EQ) {
        sg_quad_store(at->first, (sg_quad)(sg_pair){v[0][31], v[1][31]}, at->swap);
        return;
    }
    for (int i = 0; at->shape != VEC_LANES && i < SG_LANES; i += 2) {
        const sg_pair a = *(const sg_pair *)(const void *)(v[0] + i);
        const sg_pair b = *(const sg_pair *)(const void *)(v[1] + i);
        sg_quad_store(vec_lane(at, i, 16), (sg_quad)__builtin_shufflevector(a, b, 0, 2),
                      at->swap);
        sg_quad_store(vec_lane(at, i + 1, 16),
                      (sg_quad)__builtin_shufflevector(a, b, 1, 3), at->swap);
    }
    SG_FOR_LANES(i, at->shape == VEC_LANES ? m : 0)
    vec_put(at->p[i], (sg_quad)(sg_pair){v[0][i], v[1][i]}, 16, at->swap);
}

#define VEC_FIND_G(size, access)                                                       \
    vec_global(cta, warp, op, sg_reg_d(warp, op->a), m, size, SG_MEM_GLOBAL, access,   \
               &at)
#define VEC_FIND_A(size, access)                                                       \
    vec_global(cta, warp, op, sg_reg_d(warp, op->a), m, size, SG_MEM_GENERIC, access,  \
               &at)
#define VEC_FIND_S(size, access)                                                       \
    vec_shared_uint32_t(cta, warp, op, sg_reg_w(warp, op->a), m, size, access, &at)
#define VEC_FIND_T(size, access)                                                       \
    vec_shared_uint64_t(cta, warp, op, sg_reg_d(warp, op->a), m, size, access, &at)
#define VEC_CASE(name, find, size, access, fn, reg)                                    \
    case SG_OP_##name:                                                                 \
        if (unlikely(!find(size, access)))                                             \
            return SG_STOP_FAULT;                                                      \
        fn(&at, (char *)reg(warp, 0), list, m);                                        \
        return SG_STOP_NONE;
#define VEC_CASES(sp)                                                                  \
    VEC_CASE(LD##sp##_2X32, VEC_FIND_##sp, 8, SG_ACCESS_READ, vec_load_2x32, sg_reg_w) \
    VEC_CASE(LD##sp##_4X32, VEC_FIND_##sp, 16, SG_ACCESS_READ, vec_load_4x32,          \
             sg_reg_w)                                                                 \
    VEC_CASE(LD##sp##_2X64, VEC_FIND_##sp, 16, SG_ACCESS_READ, vec_load_2x64,          \
             sg_reg_d)                                                                 \
    VEC_CASE(ST##sp##_2X32, VEC_FIND_##sp, 8, SG_ACCESS_WRITE, vec_store_2x32,         \
             sg_reg_w)                                                                 \
    VEC_CASE(ST##sp##_4X32, VEC_FIND_##sp, 16, SG_ACCESS_WRITE, vec_store_4x32,        \
             sg_reg_w)                                                                 \
    VEC_CASE(ST##sp##_2X64, VEC_FIND_##sp, 16, SG_ACCESS_WRITE, vec_store_2x64,        \
             sg_reg_d)

enum sg_stop
CAT(sg_vector_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                        const struct sg_insn *op, uint32_t m)
{
    const uint32_t *list = cta->unit->lists + op->f;
    struct vec_at at;

    switch (op->code) {
        VEC_CASES(G)
        VEC_CASES(A)
        VEC_CASES(S)
        VEC_CASES(T)
    default:
        return SG_STOP_FAULT;
    }
}
