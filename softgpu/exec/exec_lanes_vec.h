/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector loads and stores of a whole warp: 8 or 16 bytes for each lane, in one access.
 *
 * Included by exec_interp_body.h alone, compiled once per build of it.  First the host
 * addresses of all lanes are found, and so is every fault; then the bytes move.  No
 * other thread ever sees a part of one lane's access, because a card keeps it whole too
 * and programs publish { status, value } with it.
 *
 * The lanes' registers are rows, and memory holds a lane's elements side by side, so
 * four lanes of four elements are transposed at a time.
 */
#ifndef EXEC_LANES_VEC_H
#define EXEC_LANES_VEC_H

#include "exec_lanes_mem.h"
#include "exec_quad.h"

/* Where each lane's access is in the host's memory. */
struct vec_at {
    void *p[SG_LANES];
    bool whole; /* all 32 lanes, global or shared memory: aligned here as well */
    bool same;  /* and all of one address */
    bool swap;  /* sg_quad_load() and sg_quad_store() need it */
};

static bool
vec_same(void *const *p)
{
    uintptr_t differ = 0;

    if (p[0] != p[1] || p[0] != p[SG_LANES - 1])
        return false;
    for (int i = 0; i < SG_LANES; i++)
        differ |= (uintptr_t)p[i] ^ (uintptr_t)p[0];
    return differ == 0;
}

/* Lane by lane; words the faults. */
static bool
vec_resolve(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
            uint64_t addr, unsigned lane, uint32_t size, enum sg_mem_space space,
            enum sg_access access, struct vec_at *at)
{
    at->p[lane] = sg_mem_resolve(cta, warp, lane, addr, size, op->x, space, access);
    at->swap = sg_quad_by_swap && !(cta->tlb[SG_TLB_ANY].flags & SG_RANGE_READ_ONLY);
    return at->p[lane] != NULL;
}

static bool
vec_global(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
           const uint64_t *a, uint32_t m, uint32_t size, enum sg_mem_space space,
           enum sg_access access, struct vec_at *at)
{
    struct sg_tlb *t = &cta->tlb[op->n];
    const uint64_t imm = (uint64_t)op->imm;

    at->whole = m == UINT32_MAX &&
                (tlb_covers(t, a[0] + imm, size) || sg_mem_fill(cta, t, a[0] + imm)) &&
                !(access == SG_ACCESS_WRITE && (t->flags & SG_RANGE_READ_ONLY)) &&
                half_within64(a, imm, t->lo, t->len, size, op->x) &&
                half_within64(a + HALF, imm, t->lo, t->len, size, op->x);
    at->same = false;
    if (likely(at->whole)) {
        for (int i = 0; i < SG_LANES; i++)
            at->p[i] = (void *)(uintptr_t)(a[i] + imm);
        at->swap = sg_quad_by_swap && !(t->flags & SG_RANGE_READ_ONLY);
        at->same = vec_same(at->p);
        return true;
    }
    SG_FOR_LANES(i, m)
    if (!vec_resolve(cta, warp, op, a[i] + imm, i, size, space, access, at))
        return false;
    return true;
}

/* A CTA runs on one thread, so shared memory needs no compare-and-swap. */
#define DEF_VEC_SHARED(AT)                                                             \
    static bool vec_shared_##AT(                                                       \
        struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, const AT *a, \
        uint32_t m, uint32_t size, enum sg_access access, struct vec_at *at)           \
    {                                                                                  \
        const AT imm = (AT)op->imm;                                                    \
        const uint64_t bytes = cta->shared_bytes;                                      \
        at->whole = m == UINT32_MAX && HALF_WITHIN_##AT(a, imm, bytes, size, op->x) && \
                    HALF_WITHIN_##AT((a + HALF), imm, bytes, size, op->x);             \
        at->same = false;                                                              \
        if (likely(at->whole)) {                                                       \
            for (int i = 0; i < SG_LANES; i++)                                         \
                at->p[i] = cta->shared + (AT)(a[i] + imm);                             \
            at->swap = false;                                                          \
            at->same = vec_same(at->p);                                                \
            return true;                                                               \
        }                                                                              \
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

static void
vec_load_4x32(const struct vec_at *at, char *wb, const uint32_t *list, uint32_t m)
{
    uint32_t *d[4];

    for (int k = 0; k < 4; k++)
        d[k] = (uint32_t *)__builtin_assume_aligned(wb + list[k], 64);
    if (at->same) {
        const sg_quad v = sg_quad_load(at->p[0], at->swap);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < SG_LANES; i++)
                d[k][i] = v[k];
        return;
    }
    for (int i = 0; at->whole && i < SG_LANES; i += 4) {
        sg_quad q[4];
        for (int k = 0; k < 4; k++)
            q[k] = sg_quad_load(at->p[i + k], at->swap);
        vec_transpose(q);
        for (int k = 0; k < 4; k++)
            *(sg_quad *)(void *)(d[k] + i) = q[k];
    }
    SG_FOR_LANES(i, at->whole ? 0 : m)
    {
        const sg_quad v = vec_get(at->p[i], 16, at->swap);
        for (int k = 0; k < 4; k++)
            d[k][i] = v[k];
    }
}

static void
vec_store_4x32(const struct vec_at *at, const char *wb, const uint32_t *list,
               uint32_t m)
{
    const uint32_t *v[4];

    for (int k = 0; k < 4; k++)
        v[k] = (const uint32_t *)__builtin_assume_aligned(wb + list[k], 64);
    for (int i = 0; at->whole && i < SG_LANES; i += 4) {
        sg_quad q[4];
        for (int k = 0; k < 4; k++)
            q[k] = *(const sg_quad *)(const void *)(v[k] + i);
        vec_transpose(q);
        for (int k = 0; k < 4; k++)
            sg_quad_store(at->p[i + k], q[k], at->swap);
    }
    SG_FOR_LANES(i, at->whole ? 0 : m)
    vec_put(at->p[i], (sg_quad){v[0][i], v[1][i], v[2][i], v[3][i]}, 16, at->swap);
}

static void
vec_load_2x32(const struct vec_at *at, char *wb, const uint32_t *list, uint32_t m)
{
    uint32_t *d0 = (uint32_t *)__builtin_assume_aligned(wb + list[0], 64);
    uint32_t *d1 = (uint32_t *)__builtin_assume_aligned(wb + list[1], 64);
    uint64_t t[SG_LANES] __attribute__((aligned(64)));

    if (!at->whole) {
        SG_FOR_LANES(i, m)
        {
            const sg_quad v = vec_get(at->p[i], 8, false);
            d0[i] = v[0];
            d1[i] = v[1];
        }
        return;
    }
    for (int i = 0; i < SG_LANES; i++)
        t[i] = *(const volatile uint64_t *)at->p[i];
    for (int i = 0; i < SG_LANES; i++) {
        d0[i] = (uint32_t)t[i];
        d1[i] = (uint32_t)(t[i] >> 32);
    }
}

static void
vec_store_2x32(const struct vec_at *at, const char *wb, const uint32_t *list,
               uint32_t m)
{
    const uint32_t *v0 = (const uint32_t *)__builtin_assume_aligned(wb + list[0], 64);
    const uint32_t *v1 = (const uint32_t *)__builtin_assume_aligned(wb + list[1], 64);
    uint64_t t[SG_LANES] __attribute__((aligned(64)));

    for (int i = 0; i < SG_LANES; i++)
        t[i] = v0[i] | (uint64_t)v1[i] << 32;
    if (!at->whole) {
        SG_FOR_LANES(i, m)
        vec_put(at->p[i], (sg_quad){v0[i], v1[i]}, 8, false);
        return;
    }
    for (int i = 0; i < SG_LANES; i++)
        *(volatile uint64_t *)at->p[i] = t[i];
}

static void
vec_load_2x64(const struct vec_at *at, char *db, const uint32_t *list, uint32_t m)
{
    uint64_t *d0 = (uint64_t *)__builtin_assume_aligned(db + list[0], 64);
    uint64_t *d1 = (uint64_t *)__builtin_assume_aligned(db + list[1], 64);

    SG_FOR_LANES(i, m)
    {
        const sg_pair v = (sg_pair)(at->whole ? sg_quad_load(at->p[i], at->swap)
                                              : vec_get(at->p[i], 16, at->swap));
        d0[i] = v[0];
        d1[i] = v[1];
    }
}

static void
vec_store_2x64(const struct vec_at *at, const char *db, const uint32_t *list,
               uint32_t m)
{
    const uint64_t *v0 = (const uint64_t *)__builtin_assume_aligned(db + list[0], 64);
    const uint64_t *v1 = (const uint64_t *)__builtin_assume_aligned(db + list[1], 64);

    SG_FOR_LANES(i, m)
    {
        const sg_quad v = (sg_quad)(sg_pair){v0[i], v1[i]};
        if (at->whole)
            sg_quad_store(at->p[i], v, at->swap);
        else
            vec_put(at->p[i], v, 16, at->swap);
    }
}

#endif
