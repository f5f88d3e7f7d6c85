/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores of a whole warp: the fast paths.
 *
 * Included by exec_interp.c alone, compiled once per build of it.  By half warps: all
 * addresses consecutive, all equal, or a gather; each checked against the range in the
 * operation's cache slot.  Whatever does not fit goes lane by lane through
 * sg_mem_resolve(), which also words the faults.  A half's addresses are dead once the
 * half is loaded, because the result may overwrite them.
 */
#ifndef EXEC_LANES_MEM_H
#define EXEC_LANES_MEM_H

#include "exec_lane.h"
#include "sg_cta.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HALF 16

LANE uint32_t
lanes_signs(const int32_t *t)
{
#if defined(__AVX512DQ__)
    return (uint32_t)_mm512_movepi32_mask(_mm512_load_si512((const void *)t)) |
           (uint32_t)_mm512_movepi32_mask(_mm512_load_si512((const void *)(t + 16))) << 16;
#elif defined(__AVX2__)
    uint32_t r = 0;
    for (int k = 0; k < 4; k++)
        r |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(
                 _mm256_load_si256((const __m256i *)(const void *)(t + 8 * k))))
             << (8 * k);
    return r;
#elif defined(__SSE2__)
    uint32_t r = 0;
    for (int k = 0; k < 8; k++)
        r |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(
                 _mm_load_si128((const __m128i *)(const void *)(t + 4 * k))))
             << (4 * k);
    return r;
#else
    uint32_t r = 0;
    for (int i = 0; i < SG_LANES; i++)
        r |= (uint32_t)(t[i] < 0) << i;
    return r;
#endif
}

LANE bool
tlb_covers(const struct sg_tlb *t, uint64_t addr, uint64_t size)
{
    return t->len >= size && addr - t->lo <= t->len - size;
}

/* Every one of a half's addresses within the range and aligned. */
LANE bool
half_in_range(const struct sg_tlb *t, const uint64_t *a, uint64_t imm, uint64_t size,
              uint64_t align)
{
    const uint64_t lo = t->lo - imm, room = t->len - size;
    uint64_t bad = 0, low = 0;

    if (t->len < size)
        return false;
    for (int j = 0; j < HALF; j++) {
        bad |= a[j] - lo > room;
        low |= a[j] + imm;
    }
    return !bad && !(low & align);
}

LANE bool
half_fits(const uint64_t *a, uint64_t imm, uint64_t limit, uint64_t size, uint64_t align)
{
    struct sg_tlb t = {.lo = 0, .len = limit};

    return half_in_range(&t, a, imm, size, align);
}

LANE void
half_gather32(uint32_t *d, const uint64_t *a, uint64_t imm)
{
#if defined(__AVX512F__)
    const __m512i off = _mm512_set1_epi64((long long)imm);
    for (int k = 0; k < HALF; k += 8) {
        __m512i p = _mm512_add_epi64(_mm512_loadu_si512((const void *)(a + k)), off);
        __m256i v = _mm512_i64gather_epi32(p, NULL, 1);
        _mm256_storeu_si256((__m256i *)(void *)(d + k), v);
    }
#else
    for (int j = 0; j < HALF; j++)
        d[j] = *(const uint32_t *)(uintptr_t)(a[j] + imm);
#endif
}

/* One element, by type; the result is what a 32- or 64-bit register holds. */
#define ELEM(T, p) (*(const T *)(const void *)(p))

#define SLOW_LD(T, OT, SPACE, ADDR)                                                      \
    warp->frags[0].pc = (uint32_t)(op - ops);                                            \
    SG_FOR_LANES (i, rest) {                                                             \
        const void *p = sg_mem_resolve(cta, warp, i, (uint64_t)(ADDR), sizeof(T),        \
                                       op->x, SPACE, SG_ACCESS_READ);                    \
        if (!p)                                                                          \
            return false;                                                                \
        d[i] = (OT)ELEM(T, p);                                                           \
    }                                                                                    \
    return true;

#define SLOW_ST(T, SPACE, ADDR)                                                          \
    warp->frags[0].pc = (uint32_t)(op - ops);                                            \
    SG_FOR_LANES (i, rest) {                                                             \
        T *p = sg_mem_resolve(cta, warp, i, (uint64_t)(ADDR), sizeof(T), op->x, SPACE,   \
                              SG_ACCESS_WRITE);                                          \
        if (!p)                                                                          \
            return false;                                                                \
        *p = (T)v[i];                                                                    \
    }                                                                                    \
    return true;

/* Global and generic loads.  OT is the signed or unsigned register element. */
#define DEF_LD_GLOBAL(NAME, T, OT, RT, SPACE, GATHER)                                    \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                    \
                            const struct sg_op *op, const uint64_t *a, RT *d,            \
                            uint32_t m, const struct sg_op *ops)                         \
    {                                                                                    \
        struct sg_tlb *t = &cta->tlb[op->n];                                             \
        const uint64_t imm = (uint64_t)op->imm;                                          \
        uint32_t rest = m;                                                               \
        if (m != UINT32_MAX)                                                             \
            goto slow;                                                                   \
        for (int h = 0; h < SG_LANES; h += HALF) {                                       \
            const uint64_t *ah = a + h, a0 = ah[0];                                      \
            RT *dh = d + h;                                                              \
            uint64_t seq = 0, eq = 0;                                                    \
            for (int j = 0; j < HALF; j++) {                                             \
                seq |= (ah[j] - a0) ^ ((uint64_t)j * sizeof(T));                         \
                eq |= ah[j] ^ a0;                                                        \
            }                                                                            \
            if (unlikely(!tlb_covers(t, a0 + imm, sizeof(T))) &&                         \
                !sg_mem_fill(cta, t, a0 + imm))                                          \
                goto slow;                                                               \
            if (seq == 0 && tlb_covers(t, a0 + imm, HALF * sizeof(T)) &&                 \
                !((a0 + imm) & op->x)) {                                                 \
                const T *src = (const T *)(uintptr_t)(a0 + imm);                         \
                IVDEP for (int j = 0; j < HALF; j++) dh[j] = (RT)(OT)src[j];             \
            } else if (eq == 0 && !((a0 + imm) & op->x)) {                               \
                const RT val = (RT)(OT)ELEM(T, (uintptr_t)(a0 + imm));                   \
                IVDEP for (int j = 0; j < HALF; j++) dh[j] = val;                        \
            } else if (half_in_range(t, ah, imm, sizeof(T), op->x)) {                    \
                GATHER;                                                                  \
            } else {                                                                     \
                goto slow;                                                               \
            }                                                                            \
            rest = UINT32_MAX << HALF;                                                   \
        }                                                                                \
        return true;                                                                     \
slow:                                                                                    \
        SLOW_LD(T, OT, SPACE, a[i] + imm)                                                \
    }

#define GATHER_ANY(T, OT)                                                                \
    for (int j = 0; j < HALF; j++)                                                       \
        dh[j] = (__typeof__(*dh))(OT)ELEM(T, (uintptr_t)(ah[j] + imm))
#define GATHER_32 half_gather32(dh, ah, imm)

#define DEF_ST_GLOBAL(NAME, T, RT, SPACE)                                                \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                    \
                            const struct sg_op *op, const uint64_t *a, const RT *v,      \
                            uint32_t m, const struct sg_op *ops)                         \
    {                                                                                    \
        struct sg_tlb *t = &cta->tlb[op->n];                                             \
        const uint64_t imm = (uint64_t)op->imm;                                          \
        uint32_t rest = m;                                                               \
        if (m != UINT32_MAX)                                                             \
            goto slow;                                                                   \
        for (int h = 0; h < SG_LANES; h += HALF) {                                       \
            const uint64_t *ah = a + h, a0 = ah[0];                                      \
            const RT *vh = v + h;                                                        \
            uint64_t seq = 0;                                                            \
            for (int j = 0; j < HALF; j++)                                               \
                seq |= (ah[j] - a0) ^ ((uint64_t)j * sizeof(T));                         \
            if (unlikely(!tlb_covers(t, a0 + imm, sizeof(T))) &&                         \
                !sg_mem_fill(cta, t, a0 + imm))                                          \
                goto slow;                                                               \
            if (unlikely(t->flags & SG_RANGE_READ_ONLY))                                 \
                goto slow;                                                               \
            if (seq == 0 && tlb_covers(t, a0 + imm, HALF * sizeof(T)) &&                 \
                !((a0 + imm) & op->x)) {                                                 \
                T *dst = (T *)(uintptr_t)(a0 + imm);                                     \
                IVDEP for (int j = 0; j < HALF; j++) dst[j] = (T)vh[j];                  \
            } else if (half_in_range(t, ah, imm, sizeof(T), op->x)) {                    \
                for (int j = 0; j < HALF; j++)                                           \
                    *(T *)(uintptr_t)(ah[j] + imm) = (T)vh[j];                           \
            } else {                                                                     \
                goto slow;                                                               \
            }                                                                            \
            rest = UINT32_MAX << HALF;                                                   \
        }                                                                                \
        return true;                                                                     \
slow:                                                                                    \
        SLOW_ST(T, SPACE, a[i] + imm)                                                    \
    }

/* Shared memory: offsets into the CTA's block.  AT is the address register's type;
 * 32-bit addresses wrap like 32-bit addresses. */
#define DEF_LD_SHARED(NAME, T, OT, RT, AT)                                               \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                    \
                            const struct sg_op *op, const AT *a, RT *d, uint32_t m,      \
                            const struct sg_op *ops)                                     \
    {                                                                                    \
        const AT imm = (AT)op->imm;                                                      \
        const uint8_t *base = cta->shared;                                               \
        uint32_t rest = m;                                                               \
        if (m != UINT32_MAX || cta->shared_bytes < sizeof(T))                            \
            goto slow;                                                                   \
        const AT room = (AT)(cta->shared_bytes - sizeof(T));                             \
        for (int h = 0; h < SG_LANES; h += HALF) {                                       \
            const AT *ah = a + h, a0 = ah[0], first = (AT)(a0 + imm);                    \
            RT *dh = d + h;                                                              \
            AT seq = 0, eq = 0, bad = 0, low = 0;                                        \
            for (int j = 0; j < HALF; j++) {                                             \
                seq |= (AT)(ah[j] - a0) ^ (AT)(j * (int)sizeof(T));                      \
                eq |= ah[j] ^ a0;                                                        \
                bad |= (AT)(ah[j] + imm) > room;                                         \
                low |= (AT)(ah[j] + imm);                                                \
            }                                                                            \
            if (unlikely(bad | (low & op->x)))                                           \
                goto slow;                                                               \
            if (seq == 0) {                                                              \
                const T *src = (const T *)(const void *)(base + first);                  \
                IVDEP for (int j = 0; j < HALF; j++) dh[j] = (RT)(OT)src[j];             \
            } else if (eq == 0) {                                                        \
                const RT val = (RT)(OT)ELEM(T, base + first);                            \
                IVDEP for (int j = 0; j < HALF; j++) dh[j] = val;                        \
            } else {                                                                     \
                for (int j = 0; j < HALF; j++)                                           \
                    dh[j] = (RT)(OT)ELEM(T, base + (AT)(ah[j] + imm));                   \
            }                                                                            \
            rest = UINT32_MAX << HALF;                                                   \
        }                                                                                \
        return true;                                                                     \
slow:                                                                                    \
        SLOW_LD(T, OT, SG_MEM_SHARED, (AT)(a[i] + imm))                                  \
    }

#define DEF_ST_SHARED(NAME, T, RT, AT)                                                   \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                    \
                            const struct sg_op *op, const AT *a, const RT *v,            \
                            uint32_t m, const struct sg_op *ops)                         \
    {                                                                                    \
        const AT imm = (AT)op->imm;                                                      \
        uint8_t *base = cta->shared;                                                     \
        uint32_t rest = m;                                                               \
        if (m != UINT32_MAX || cta->shared_bytes < sizeof(T))                            \
            goto slow;                                                                   \
        const AT room = (AT)(cta->shared_bytes - sizeof(T));                             \
        for (int h = 0; h < SG_LANES; h += HALF) {                                       \
            const AT *ah = a + h, a0 = ah[0], first = (AT)(a0 + imm);                    \
            const RT *vh = v + h;                                                        \
            AT seq = 0, bad = 0, low = 0;                                                \
            for (int j = 0; j < HALF; j++) {                                             \
                seq |= (AT)(ah[j] - a0) ^ (AT)(j * (int)sizeof(T));                      \
                bad |= (AT)(ah[j] + imm) > room;                                         \
                low |= (AT)(ah[j] + imm);                                                \
            }                                                                            \
            if (unlikely(bad | (low & op->x)))                                           \
                goto slow;                                                               \
            if (seq == 0) {                                                              \
                T *dst = (T *)(void *)(base + first);                                    \
                IVDEP for (int j = 0; j < HALF; j++) dst[j] = (T)vh[j];                  \
            } else {                                                                     \
                for (int j = 0; j < HALF; j++)                                           \
                    *(T *)(void *)(base + (AT)(ah[j] + imm)) = (T)vh[j];                 \
            }                                                                            \
            rest = UINT32_MAX << HALF;                                                   \
        }                                                                                \
        return true;                                                                     \
slow:                                                                                    \
        SLOW_ST(T, SG_MEM_SHARED, (AT)(a[i] + imm))                                      \
    }

/* Local memory: an offset in each lane's own block. */
#define DEF_LD_LOCAL(NAME, T, OT, RT)                                                    \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                    \
                            const struct sg_op *op, const uint64_t *a, RT *d,            \
                            uint32_t m, const struct sg_op *ops)                         \
    {                                                                                    \
        const uint64_t imm = (uint64_t)op->imm, stride = cta->local_stride;              \
        const uint8_t *base = cta->local + (uint64_t)warp->index * SG_LANES * stride;    \
        uint32_t rest = m;                                                               \
        if (stride < sizeof(T))                                                          \
            goto slow;                                                                   \
        SG_FOR_LANES (i, m) {                                                            \
            const uint64_t off = a[i] + imm;                                             \
            if (unlikely(off > stride - sizeof(T) || (off & op->x)))                     \
                goto slow;                                                               \
            d[i] = (RT)(OT)ELEM(T, base + i * stride + off);                             \
            rest &= ~(1u << i);                                                          \
        }                                                                                \
        return true;                                                                     \
slow:                                                                                    \
        SLOW_LD(T, OT, SG_MEM_LOCAL, a[i] + imm)                                         \
    }

#define DEF_ST_LOCAL(NAME, T, RT)                                                        \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                    \
                            const struct sg_op *op, const uint64_t *a, const RT *v,      \
                            uint32_t m, const struct sg_op *ops)                         \
    {                                                                                    \
        const uint64_t imm = (uint64_t)op->imm, stride = cta->local_stride;              \
        uint8_t *base = cta->local + (uint64_t)warp->index * SG_LANES * stride;          \
        uint32_t rest = m;                                                               \
        if (stride < sizeof(T))                                                          \
            goto slow;                                                                   \
        SG_FOR_LANES (i, m) {                                                            \
            const uint64_t off = a[i] + imm;                                             \
            if (unlikely(off > stride - sizeof(T) || (off & op->x)))                     \
                goto slow;                                                               \
            *(T *)(void *)(base + i * stride + off) = (T)v[i];                           \
        }                                                                                \
        return true;                                                                     \
slow:                                                                                    \
        SLOW_ST(T, SG_MEM_LOCAL, a[i] + imm)                                             \
    }

#define IVDEP _Pragma("GCC ivdep")

#define DEF_GROUP_GLOBAL(sp, SPACE)                                                      \
    DEF_LD_GLOBAL(lanes_ld##sp##_u8, uint8_t, uint32_t, uint32_t, SPACE,                 \
                  GATHER_ANY(uint8_t, uint32_t))                                         \
    DEF_LD_GLOBAL(lanes_ld##sp##_s8, int8_t, int32_t, uint32_t, SPACE,                   \
                  GATHER_ANY(int8_t, int32_t))                                           \
    DEF_LD_GLOBAL(lanes_ld##sp##_u16, uint16_t, uint32_t, uint32_t, SPACE,               \
                  GATHER_ANY(uint16_t, uint32_t))                                        \
    DEF_LD_GLOBAL(lanes_ld##sp##_s16, int16_t, int32_t, uint32_t, SPACE,                 \
                  GATHER_ANY(int16_t, int32_t))                                          \
    DEF_LD_GLOBAL(lanes_ld##sp##_32, uint32_t, uint32_t, uint32_t, SPACE, GATHER_32)     \
    DEF_LD_GLOBAL(lanes_ld##sp##_64, uint64_t, uint64_t, uint64_t, SPACE,                \
                  GATHER_ANY(uint64_t, uint64_t))                                        \
    DEF_ST_GLOBAL(lanes_st##sp##_8, uint8_t, uint32_t, SPACE)                            \
    DEF_ST_GLOBAL(lanes_st##sp##_16, uint16_t, uint32_t, SPACE)                          \
    DEF_ST_GLOBAL(lanes_st##sp##_32, uint32_t, uint32_t, SPACE)                          \
    DEF_ST_GLOBAL(lanes_st##sp##_64, uint64_t, uint64_t, SPACE)

#define DEF_GROUP_SHARED(sp, AT)                                                         \
    DEF_LD_SHARED(lanes_ld##sp##_u8, uint8_t, uint32_t, uint32_t, AT)                    \
    DEF_LD_SHARED(lanes_ld##sp##_s8, int8_t, int32_t, uint32_t, AT)                      \
    DEF_LD_SHARED(lanes_ld##sp##_u16, uint16_t, uint32_t, uint32_t, AT)                  \
    DEF_LD_SHARED(lanes_ld##sp##_s16, int16_t, int32_t, uint32_t, AT)                    \
    DEF_LD_SHARED(lanes_ld##sp##_32, uint32_t, uint32_t, uint32_t, AT)                   \
    DEF_LD_SHARED(lanes_ld##sp##_64, uint64_t, uint64_t, uint64_t, AT)                   \
    DEF_ST_SHARED(lanes_st##sp##_8, uint8_t, uint32_t, AT)                               \
    DEF_ST_SHARED(lanes_st##sp##_16, uint16_t, uint32_t, AT)                             \
    DEF_ST_SHARED(lanes_st##sp##_32, uint32_t, uint32_t, AT)                             \
    DEF_ST_SHARED(lanes_st##sp##_64, uint64_t, uint64_t, AT)

DEF_GROUP_GLOBAL(G, SG_MEM_GLOBAL)
DEF_GROUP_GLOBAL(A, SG_MEM_GENERIC)
DEF_GROUP_SHARED(S, uint32_t)
DEF_GROUP_SHARED(T, uint64_t)
DEF_LD_LOCAL(lanes_ldL_u8, uint8_t, uint32_t, uint32_t)
DEF_LD_LOCAL(lanes_ldL_s8, int8_t, int32_t, uint32_t)
DEF_LD_LOCAL(lanes_ldL_u16, uint16_t, uint32_t, uint32_t)
DEF_LD_LOCAL(lanes_ldL_s16, int16_t, int32_t, uint32_t)
DEF_LD_LOCAL(lanes_ldL_32, uint32_t, uint32_t, uint32_t)
DEF_LD_LOCAL(lanes_ldL_64, uint64_t, uint64_t, uint64_t)
DEF_ST_LOCAL(lanes_stL_8, uint8_t, uint32_t)
DEF_ST_LOCAL(lanes_stL_16, uint16_t, uint32_t)
DEF_ST_LOCAL(lanes_stL_32, uint32_t, uint32_t)
DEF_ST_LOCAL(lanes_stL_64, uint64_t, uint64_t)

#endif
