/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores of a whole warp whose addresses are known to have a form: shared
 * memory at a launch constant (ir_hoist.c), global memory at base + index * scale
 * (ir_address.c).  What does not fit goes through exec_lanes_mem.h.
 *
 * Included by exec_interp_body.h alone, compiled once per build of it.
 */
#ifndef EXEC_LANES_FORM_H
#define EXEC_LANES_FORM_H

#include "exec_lanes_mem.h"

/* A sum of products that stays in vector registers from one multiply-add to the next.
 * What is stored has the one NaN; what is carried on need not, since a NaN stays one.
 */
#if defined(__AVX512F__)
typedef __m512 sum_part;
#define SUM_WIDTH 16
#define sum_part_load(p) _mm512_load_ps(p)
#define sum_part_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
LANE void
sum_part_store(float *d, sum_part v)
{
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff));

    _mm512_store_ps(
        d, _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v, nan));
}
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256 sum_part;
#define SUM_WIDTH 8
#define sum_part_load(p) _mm256_load_ps(p)
#define sum_part_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
LANE void
sum_part_store(float *d, sum_part v)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));

    _mm256_store_ps(d, _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
#else
typedef float sum_part;
#define SUM_WIDTH 1
#define sum_part_load(p) (*(p))
#define sum_part_fma(a, b, c) lane_fma32(a, b, c)
LANE void
sum_part_store(float *d, sum_part v)
{
    *d = lane_nan32(v);
}
#endif

#define SUM_PARTS (SG_LANES / SUM_WIDTH)

LANE void
sum_load(sum_part *sum, const float *c)
{
    for (int i = 0; i < SUM_PARTS; i++)
        sum[i] = sum_part_load(c + i * SUM_WIDTH);
}

LANE void
sum_step(sum_part *sum, float *d, const float *a, const float *b)
{
    for (int i = 0; i < SUM_PARTS; i++)
        sum[i] = sum_part_fma(sum_part_load(a + i * SUM_WIDTH),
                              sum_part_load(b + i * SUM_WIDTH), sum[i]);
    for (int i = 0; i < SUM_PARTS; i++)
        sum_part_store(d + i * SUM_WIDTH, sum[i]);
}

/* Shared memory at addresses whose shape is known. */
#define DEF_SHAPED(AT)                                                                 \
    LANE bool shape_fits_##AT(const struct sg_cta *cta, const struct sg_shape *s,      \
                              const struct sg_insn *op)                                \
    {                                                                                  \
        const AT lo = (AT)s->min + (AT)op->imm, hi = (AT)s->max + (AT)op->imm;         \
                                                                                       \
        return s->min <= s->max && lo <= hi && cta->shared_bytes >= 4 &&               \
               hi <= cta->shared_bytes - 4 &&                                          \
               !(((uint32_t)s->low | (uint32_t)op->imm) & op->x);                      \
    }                                                                                  \
    LANE void shape_load_##AT(const struct sg_cta *cta, const struct sg_shape *s,      \
                              const struct sg_insn *op, const AT *a, uint32_t *d)      \
    {                                                                                  \
        const AT imm = (AT)op->imm;                                                    \
        for (int h = 0; h < 2; h++, a += HALF, d += HALF) {                            \
            const uint8_t *from = cta->shared + (AT)((AT)s->first[h] + imm);           \
            if (s->stride[h] == 4) {                                                   \
                memcpy(d, from, HALF * 4);                                             \
            } else if (s->stride[h] == 0) {                                            \
                const uint32_t val = ELEM(uint32_t, from);                             \
                HALF_FILL(uint32_t, d, val);                                           \
            } else {                                                                   \
                for (int j = 0; j < HALF; j++)                                         \
                    d[j] = ELEM(uint32_t, cta->shared + (AT)(a[j] + imm));             \
            }                                                                          \
        }                                                                              \
    }

/* Global memory at base + index * scale + imm, base the same in all lanes. */
LANE bool
index_runs(const uint32_t *idx, uint32_t scale)
{
    const uint32_t last = scale & SG_INDEX_SIGNED ? INT32_MAX - SG_LANES : -SG_LANES;

    return half_shape32(idx, 1) == HALF_SEQ &&
           half_shape32(idx + HALF, 1) == HALF_SEQ && idx[HALF] == idx[0] + HALF &&
           (idx[0] < last || (scale & SG_INDEX_SIGNED && (int32_t)idx[0] < 0));
}

LANE uint64_t
index_address(uint64_t base, uint32_t index, uint32_t scale)
{
    if (scale & SG_INDEX_SIGNED)
        return base + (uint64_t)((int64_t)(int32_t)index *
                                 (int64_t)(scale & ~SG_INDEX_SIGNED));
    return base + (uint64_t)index * scale;
}

LANE void
index_addresses(uint64_t *a, const uint64_t *base, const uint32_t *idx, uint32_t scale)
{
    for (int i = 0; i < SG_LANES; i++)
        a[i] = index_address(base[i], idx[i], scale);
}

#define DEF_INDEXED(BITS, T)                                                           \
    static __attribute__((noinline)) bool lanes_ldGI_any_##BITS(                       \
        struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,            \
        const uint32_t *idx, const uint64_t *base, T *d, uint32_t m,                   \
        const struct sg_insn *ops)                                                     \
    {                                                                                  \
        uint64_t a[SG_LANES] __attribute__((aligned(64)));                             \
        index_addresses(a, base, idx, op->f);                                          \
        return lanes_ldG_##BITS(cta, warp, op, a, d, m, ops);                          \
    }                                                                                  \
    static __attribute__((noinline)) bool lanes_stGI_any_##BITS(                       \
        struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,            \
        const uint32_t *idx, const uint64_t *base, const T *v, uint32_t m,             \
        const struct sg_insn *ops)                                                     \
    {                                                                                  \
        uint64_t a[SG_LANES] __attribute__((aligned(64)));                             \
        index_addresses(a, base, idx, op->f);                                          \
        return lanes_stG_##BITS(cta, warp, op, a, v, m, ops);                          \
    }                                                                                  \
    /* The one range of memory for 32 consecutive elements, or NULL. */                \
    LANE T *index_range_##BITS(const struct sg_cta *cta, const struct sg_insn *op,     \
                               const uint32_t *idx, const uint64_t *base, uint32_t m)  \
    {                                                                                  \
        const uint64_t at = index_address(base[0], idx[0], op->f) + (uint64_t)op->imm; \
        const struct sg_tlb *t = &cta->tlb[op->n];                                     \
        if (m != UINT32_MAX || (op->f & ~SG_INDEX_SIGNED) != sizeof(T) ||              \
            (at & op->x) || !tlb_covers(t, at, SG_LANES * sizeof(T)) ||                \
            !index_runs(idx, op->f))                                                   \
            return NULL;                                                               \
        return (T *)(uintptr_t)at;                                                     \
    }                                                                                  \
    LANE bool lanes_ldGI_##BITS(struct sg_cta *cta, struct sg_warp *warp,              \
                                const struct sg_insn *op, const uint32_t *idx,         \
                                const uint64_t *base, T *d, uint32_t m,                \
                                const struct sg_insn *ops)                             \
    {                                                                                  \
        const T *from = index_range_##BITS(cta, op, idx, base, m);                     \
        if (unlikely(!from))                                                           \
            return lanes_ldGI_any_##BITS(cta, warp, op, idx, base, d, m, ops);         \
        memcpy(d, from, SG_LANES * sizeof(T));                                         \
        return true;                                                                   \
    }                                                                                  \
    LANE bool lanes_stGI_##BITS(struct sg_cta *cta, struct sg_warp *warp,              \
                                const struct sg_insn *op, const uint32_t *idx,         \
                                const uint64_t *base, const T *v, uint32_t m,          \
                                const struct sg_insn *ops)                             \
    {                                                                                  \
        T *to = index_range_##BITS(cta, op, idx, base, m);                             \
        if (unlikely(!to || cta->tlb[op->n].flags & SG_RANGE_READ_ONLY))               \
            return lanes_stGI_any_##BITS(cta, warp, op, idx, base, v, m, ops);         \
        memcpy(to, v, SG_LANES * sizeof(T));                                           \
        return true;                                                                   \
    }

DEF_SHAPED(uint32_t)
DEF_SHAPED(uint64_t)
DEF_INDEXED(32, uint32_t)
DEF_INDEXED(64, uint64_t)

#endif
