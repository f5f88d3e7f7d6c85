/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores of a whole warp: the fast paths.
 *
 * Included by exec_interp_body.h alone, compiled once per build of it.  By half warps:
 * all addresses consecutive, all equal, or a gather; each checked against the range in
 * the operation's cache slot.  Whatever does not fit goes lane by lane through
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
           (uint32_t)_mm512_movepi32_mask(_mm512_load_si512((const void *)(t + 16)))
               << 16;
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

/* How the addresses of half a warp lie. */
enum half_shape { HALF_ANY, HALF_SEQ, HALF_EQ };

LANE enum half_shape
half_shape64(const uint64_t *a, uint64_t size)
{
#if defined(__AVX512F__)
    const __m512i step = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i v0 = _mm512_loadu_si512((const void *)a);
    const __m512i v1 = _mm512_loadu_si512((const void *)(a + 8));
    const __m512i first = _mm512_set1_epi64((long long)a[0]);
    const __m512i s0 = _mm512_slli_epi64(step, __builtin_ctzll(size));
    const __m512i s1 = _mm512_add_epi64(s0, _mm512_set1_epi64((long long)(8 * size)));
    if (!(_mm512_cmpneq_epi64_mask(v0, _mm512_add_epi64(first, s0)) |
          _mm512_cmpneq_epi64_mask(v1, _mm512_add_epi64(first, s1))))
        return HALF_SEQ;
    if (!(_mm512_cmpneq_epi64_mask(v0, first) | _mm512_cmpneq_epi64_mask(v1, first)))
        return HALF_EQ;
    return HALF_ANY;
#elif defined(__AVX2__)
    const __m256i first = _mm256_set1_epi64x((long long)a[0]);
    const long long z = (long long)size;
    __m256i step = _mm256_setr_epi64x(0, z, 2 * z, 3 * z);
    __m256i seq = _mm256_set1_epi64x(-1), eq = seq;
    for (int k = 0; k < HALF; k += 4) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(a + k));
        seq =
            _mm256_and_si256(seq, _mm256_cmpeq_epi64(v, _mm256_add_epi64(first, step)));
        eq = _mm256_and_si256(eq, _mm256_cmpeq_epi64(v, first));
        step = _mm256_add_epi64(step, _mm256_set1_epi64x(4 * z));
    }
    if (_mm256_movemask_epi8(seq) == -1)
        return HALF_SEQ;
    return _mm256_movemask_epi8(eq) == -1 ? HALF_EQ : HALF_ANY;
#else
    uint64_t seq = 0, eq = 0;
    for (int j = 0; j < HALF; j++) {
        seq |= (a[j] - a[0]) ^ ((uint64_t)j * size);
        eq |= a[j] ^ a[0];
    }
    return seq == 0 ? HALF_SEQ : eq == 0 ? HALF_EQ : HALF_ANY;
#endif
}

LANE enum half_shape
half_shape32(const uint32_t *a, uint32_t size)
{
#if defined(__AVX512F__)
    const __m512i step =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i v = _mm512_loadu_si512((const void *)a);
    const __m512i first = _mm512_set1_epi32((int)a[0]);
    const __m512i s = _mm512_slli_epi32(step, (unsigned)__builtin_ctz(size));
    if (!_mm512_cmpneq_epi32_mask(v, _mm512_add_epi32(first, s)))
        return HALF_SEQ;
    return _mm512_cmpneq_epi32_mask(v, first) ? HALF_ANY : HALF_EQ;
#elif defined(__AVX2__)
    const __m256i first = _mm256_set1_epi32((int)a[0]);
    const int z = (int)size;
    const __m256i s0 =
        _mm256_setr_epi32(0, z, 2 * z, 3 * z, 4 * z, 5 * z, 6 * z, 7 * z);
    const __m256i s1 = _mm256_add_epi32(s0, _mm256_set1_epi32(8 * z));
    const __m256i v0 = _mm256_loadu_si256((const __m256i *)(const void *)a);
    const __m256i v1 = _mm256_loadu_si256((const __m256i *)(const void *)(a + 8));
    if (_mm256_movemask_epi8(_mm256_and_si256(
            _mm256_cmpeq_epi32(v0, _mm256_add_epi32(first, s0)),
            _mm256_cmpeq_epi32(v1, _mm256_add_epi32(first, s1)))) == -1)
        return HALF_SEQ;
    return _mm256_movemask_epi8(_mm256_and_si256(_mm256_cmpeq_epi32(v0, first),
                                                 _mm256_cmpeq_epi32(v1, first))) == -1
               ? HALF_EQ
               : HALF_ANY;
#else
    uint32_t seq = 0, eq = 0;
    for (int j = 0; j < HALF; j++) {
        seq |= (a[j] - a[0]) ^ ((uint32_t)j * size);
        eq |= a[j] ^ a[0];
    }
    return seq == 0 ? HALF_SEQ : eq == 0 ? HALF_EQ : HALF_ANY;
#endif
}

/* Every one of a half's addresses within [lo, lo + len) and aligned. */
LANE bool
half_within64(const uint64_t *a, uint64_t imm, uint64_t lo, uint64_t len, uint64_t size,
              uint64_t align)
{
    if (len < size)
        return false;
#if defined(__AVX512F__)
    const __m512i off = _mm512_set1_epi64((long long)imm);
    const __m512i v0 = _mm512_add_epi64(_mm512_loadu_si512((const void *)a), off);
    const __m512i v1 = _mm512_add_epi64(_mm512_loadu_si512((const void *)(a + 8)), off);
    const __m512i base = _mm512_set1_epi64((long long)lo);
    const __m512i room = _mm512_set1_epi64((long long)(len - size));
    const __m512i low = _mm512_set1_epi64((long long)align);
    return !(_mm512_cmpgt_epu64_mask(_mm512_sub_epi64(v0, base), room) |
             _mm512_cmpgt_epu64_mask(_mm512_sub_epi64(v1, base), room) |
             _mm512_test_epi64_mask(v0, low) | _mm512_test_epi64_mask(v1, low));
#else
    uint64_t bad = 0, low = 0;
    for (int j = 0; j < HALF; j++) {
        bad |= a[j] + imm - lo > len - size;
        low |= a[j] + imm;
    }
    return !bad && !(low & align);
#endif
}

LANE bool
half_within32(const uint32_t *a, uint32_t imm, uint64_t len, uint32_t size,
              uint32_t align)
{
    if (len < size)
        return false;
#if defined(__AVX512F__)
    const __m512i v = _mm512_add_epi32(_mm512_loadu_si512((const void *)a),
                                       _mm512_set1_epi32((int)imm));
    return !(_mm512_cmpgt_epu32_mask(v, _mm512_set1_epi32((int)(len - size))) |
             _mm512_test_epi32_mask(v, _mm512_set1_epi32((int)align)));
#else
    uint32_t bad = 0, low = 0;
    for (int j = 0; j < HALF; j++) {
        bad |= a[j] + imm > (uint32_t)(len - size);
        low |= a[j] + imm;
    }
    return !bad && !(low & align);
#endif
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

/* The register elements of half a warp, consecutive in memory or all the same. */
#define HALF_COPY(RT, OT, T, dh, src)                                                  \
    do {                                                                               \
        if (sizeof(T) == sizeof(RT)) {                                                 \
            memcpy(dh, src, HALF * sizeof(T));                                         \
        } else {                                                                       \
            T tmp_[HALF];                                                              \
            memcpy(tmp_, src, sizeof(tmp_));                                           \
            for (int j = 0; j < HALF; j++)                                             \
                dh[j] = (RT)(OT)tmp_[j];                                               \
        }                                                                              \
    } while (0)
#define HALF_STORE(T, RT, dst, vh)                                                     \
    do {                                                                               \
        if (sizeof(T) == sizeof(RT)) {                                                 \
            memcpy(dst, vh, HALF * sizeof(T));                                         \
        } else {                                                                       \
            T tmp_[HALF];                                                              \
            for (int j = 0; j < HALF; j++)                                             \
                tmp_[j] = (T)vh[j];                                                    \
            memcpy(dst, tmp_, sizeof(tmp_));                                           \
        }                                                                              \
    } while (0)
#define HALF_FILL(RT, dh, val)                                                         \
    do {                                                                               \
        typedef RT vec_                                                                \
            __attribute__((vector_size(64), aligned(sizeof(RT)), may_alias));          \
        for (unsigned j = 0; j < HALF * sizeof(RT) / 64; j++)                          \
            ((vec_ *)(void *)(dh))[j] = (vec_){0} + (val);                             \
    } while (0)

/* One element, by type; the result is what a 32- or 64-bit register holds. */
#define ELEM(T, p) (*(const T *)(const void *)(p))

/* The memory that holds the address @first, and perhaps those of the other lanes. */
LANE struct sg_window
lanes_window(struct sg_cta *cta, const struct sg_warp *warp, struct sg_tlb *t,
             uint64_t first, enum sg_mem_space space, enum sg_access access)
{
    if (space == SG_MEM_GENERIC && sg_mem_is_window(first))
        return sg_mem_window(cta, warp, first, access);
    if (!tlb_covers(t, first, 1))
        sg_mem_fill(cta, t, first);
    if (access == SG_ACCESS_WRITE && t->flags & SG_RANGE_READ_ONLY)
        return (struct sg_window){0};
    return (struct sg_window){t->lo, t->len, 0, (uint8_t *)(uintptr_t)t->lo};
}

/* The lanes @M, one by one: most of them are in the window @W, and what is not, or is
 * wrong, is looked for and named by sg_mem_resolve(). */
#define LANES_LD(T, OT, SPACE, M, W, ADDR)                                             \
    {                                                                                  \
        const struct sg_window w = W;                                                  \
        warp->frags[0].pc = (uint32_t)(op - ops);                                      \
        SG_FOR_LANES(i, M)                                                             \
        {                                                                              \
            const uint64_t addr = (ADDR);                                              \
            const void *p = sg_window_at(&w, i, addr, sizeof(T), op->x);               \
            if (unlikely(!p))                                                          \
                p = sg_mem_resolve(cta, warp, i, addr, sizeof(T), op->x, SPACE,        \
                                   SG_ACCESS_READ);                                    \
            if (unlikely(!p))                                                          \
                return false;                                                          \
            d[i] = (OT)ELEM(T, p);                                                     \
        }                                                                              \
        return true;                                                                   \
    }

#define LANES_ST(T, SPACE, M, W, ADDR)                                                 \
    {                                                                                  \
        const struct sg_window w = W;                                                  \
        warp->frags[0].pc = (uint32_t)(op - ops);                                      \
        SG_FOR_LANES(i, M)                                                             \
        {                                                                              \
            const uint64_t addr = (ADDR);                                              \
            T *p = (void *)sg_window_at(&w, i, addr, sizeof(T), op->x);                \
            if (unlikely(!p))                                                          \
                p = sg_mem_resolve(cta, warp, i, addr, sizeof(T), op->x, SPACE,        \
                                   SG_ACCESS_WRITE);                                   \
            if (unlikely(!p))                                                          \
                return false;                                                          \
            *p = (T)v[i];                                                              \
        }                                                                              \
        return true;                                                                   \
    }

/* Are all lanes' addresses in @w? */
LANE bool
window_has(const struct sg_window *w, const uint64_t *a, uint64_t imm, uint64_t size,
           uint64_t align)
{
    return half_within64(a, imm, w->lo, w->len, size, align) &&
           half_within64(a + HALF, imm, w->lo, w->len, size, align);
}

/* The same for addresses that are registers of 64 bits; with all lanes and no fault
 * there is nothing to look at one by one. */
#define WINDOW_LD(T, OT, RT, SPACE, M, W)                                              \
    {                                                                                  \
        const struct sg_window all = W;                                                \
        if ((M) == UINT32_MAX && window_has(&all, a, imm, sizeof(T), op->x)) {         \
            const uint8_t *p = all.base + (imm - all.lo);                              \
            for (int i = 0; i < SG_LANES; i++, p += all.stride)                        \
                d[i] = (RT)(OT)ELEM(T, p + a[i]);                                      \
            return true;                                                               \
        }                                                                              \
        LANES_LD(T, OT, SPACE, M, all, a[i] + imm)                                     \
    }

#define WINDOW_ST(T, SPACE, M, W)                                                      \
    {                                                                                  \
        const struct sg_window all = W;                                                \
        if ((M) == UINT32_MAX && window_has(&all, a, imm, sizeof(T), op->x)) {         \
            uint8_t *p = all.base + (imm - all.lo);                                    \
            for (int i = 0; i < SG_LANES; i++, p += all.stride)                        \
                *(T *)(void *)(p + a[i]) = (T)v[i];                                    \
            return true;                                                               \
        }                                                                              \
        LANES_ST(T, SPACE, M, all, a[i] + imm)                                         \
    }

/* That of the first lane which is left. */
#define FIRST_WINDOW(SPACE, ACCESS)                                                    \
    lanes_window(cta, warp, t, a[__builtin_ctz(rest)] + imm, SPACE, SG_ACCESS_##ACCESS)

/* Global and generic loads; out of line is what is not global, or not all there.  OT is
 * the signed or unsigned register element. */
#define DEF_LD_GLOBAL(NAME, T, OT, RT, SPACE, GATHER)                                  \
    static __attribute__((noinline)) bool NAME##_rest(                                 \
        struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,            \
        const uint64_t *a, RT *d, uint32_t rest, const struct sg_insn *ops)            \
    {                                                                                  \
        struct sg_tlb *t = &cta->tlb[op->n];                                           \
        const uint64_t imm = (uint64_t)op->imm;                                        \
        WINDOW_LD(T, OT, RT, SPACE, rest, FIRST_WINDOW(SPACE, READ))                   \
    }                                                                                  \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                  \
                            const struct sg_insn *op, const uint64_t *a, RT *d,        \
                            uint32_t m, const struct sg_insn *ops)                     \
    {                                                                                  \
        struct sg_tlb *t = &cta->tlb[op->n];                                           \
        const uint64_t imm = (uint64_t)op->imm;                                        \
        uint32_t rest = m;                                                             \
        if (m != UINT32_MAX || (SPACE == SG_MEM_GENERIC && sg_mem_is_window(a[0])))    \
            goto slow;                                                                 \
        for (int h = 0; h < SG_LANES; h += HALF) {                                     \
            const uint64_t *ah = a + h, a0 = ah[0];                                    \
            RT *dh = d + h;                                                            \
            const enum half_shape shape = half_shape64(ah, sizeof(T));                 \
            if (unlikely(!tlb_covers(t, a0 + imm, sizeof(T))) &&                       \
                !sg_mem_fill(cta, t, a0 + imm))                                        \
                goto slow;                                                             \
            if (shape == HALF_SEQ && tlb_covers(t, a0 + imm, HALF * sizeof(T)) &&      \
                !((a0 + imm) & op->x)) {                                               \
                HALF_COPY(RT, OT, T, dh, (const void *)(uintptr_t)(a0 + imm));         \
            } else if (shape == HALF_EQ && !((a0 + imm) & op->x)) {                    \
                const RT val = (RT)(OT)ELEM(T, (uintptr_t)(a0 + imm));                 \
                HALF_FILL(RT, dh, val);                                                \
            } else if (half_within64(ah, imm, t->lo, t->len, sizeof(T), op->x)) {      \
                GATHER;                                                                \
            } else {                                                                   \
                goto slow;                                                             \
            }                                                                          \
            rest = UINT32_MAX << HALF;                                                 \
        }                                                                              \
        return true;                                                                   \
    slow:                                                                              \
        return NAME##_rest(cta, warp, op, a, d, rest, ops);                            \
    }

#define GATHER_ANY(T, OT)                                                              \
    for (int j = 0; j < HALF; j++)                                                     \
    dh[j] = (__typeof__(*dh))(OT)ELEM(T, (uintptr_t)(ah[j] + imm))
#define GATHER_32 half_gather32(dh, ah, imm)

#define DEF_ST_GLOBAL(NAME, T, RT, SPACE)                                              \
    static __attribute__((noinline)) bool NAME##_rest(                                 \
        struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,            \
        const uint64_t *a, const RT *v, uint32_t rest, const struct sg_insn *ops)      \
    {                                                                                  \
        struct sg_tlb *t = &cta->tlb[op->n];                                           \
        const uint64_t imm = (uint64_t)op->imm;                                        \
        WINDOW_ST(T, SPACE, rest, FIRST_WINDOW(SPACE, WRITE))                          \
    }                                                                                  \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                  \
                            const struct sg_insn *op, const uint64_t *a, const RT *v,  \
                            uint32_t m, const struct sg_insn *ops)                     \
    {                                                                                  \
        struct sg_tlb *t = &cta->tlb[op->n];                                           \
        const uint64_t imm = (uint64_t)op->imm;                                        \
        uint32_t rest = m;                                                             \
        if (m != UINT32_MAX || (SPACE == SG_MEM_GENERIC && sg_mem_is_window(a[0])))    \
            goto slow;                                                                 \
        for (int h = 0; h < SG_LANES; h += HALF) {                                     \
            const uint64_t *ah = a + h, a0 = ah[0];                                    \
            const RT *vh = v + h;                                                      \
            const enum half_shape shape = half_shape64(ah, sizeof(T));                 \
            if (unlikely(!tlb_covers(t, a0 + imm, sizeof(T))) &&                       \
                !sg_mem_fill(cta, t, a0 + imm))                                        \
                goto slow;                                                             \
            if (unlikely(t->flags & SG_RANGE_READ_ONLY) &&                             \
                !sg_mem_fill_store(cta, t, a0 + imm))                                  \
                goto slow;                                                             \
            if (shape == HALF_SEQ && tlb_covers(t, a0 + imm, HALF * sizeof(T)) &&      \
                !((a0 + imm) & op->x)) {                                               \
                HALF_STORE(T, RT, (void *)(uintptr_t)(a0 + imm), vh);                  \
            } else if (half_within64(ah, imm, t->lo, t->len, sizeof(T), op->x)) {      \
                for (int j = 0; j < HALF; j++)                                         \
                    *(T *)(uintptr_t)(ah[j] + imm) = (T)vh[j];                         \
            } else {                                                                   \
                goto slow;                                                             \
            }                                                                          \
            rest = UINT32_MAX << HALF;                                                 \
        }                                                                              \
        return true;                                                                   \
    slow:                                                                              \
        return NAME##_rest(cta, warp, op, a, v, rest, ops);                            \
    }

#define HALF_SHAPE_uint32_t(a, size) half_shape32(a, size)
#define HALF_SHAPE_uint64_t(a, size) half_shape64(a, size)
#define HALF_WITHIN_uint32_t(a, imm, len, size, align)                                 \
    half_within32(a, imm, len, size, align)
#define HALF_WITHIN_uint64_t(a, imm, len, size, align)                                 \
    half_within64(a, imm, 0, len, size, align)

/* Shared memory: offsets into the CTA's block.  AT is the address register's type;
 * 32-bit addresses wrap like 32-bit addresses. */
#define DEF_LD_SHARED(NAME, T, OT, RT, AT)                                             \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                  \
                            const struct sg_insn *op, const AT *a, RT *d, uint32_t m,  \
                            const struct sg_insn *ops)                                 \
    {                                                                                  \
        const AT imm = (AT)op->imm;                                                    \
        const uint8_t *base = cta->shared;                                             \
        uint32_t rest = m;                                                             \
        if (m != UINT32_MAX || cta->shared_bytes < sizeof(T))                          \
            goto slow;                                                                 \
        const uint64_t bytes = cta->shared_bytes;                                      \
        for (int h = 0; h < SG_LANES; h += HALF) {                                     \
            const AT *ah = a + h, first = (AT)(ah[0] + imm);                           \
            RT *dh = d + h;                                                            \
            const enum half_shape shape = HALF_SHAPE_##AT(ah, sizeof(T));              \
            if (shape == HALF_SEQ && first <= bytes - sizeof(T) &&                     \
                HALF * sizeof(T) <= bytes - first && !(first & op->x)) {               \
                HALF_COPY(RT, OT, T, dh, base + first);                                \
            } else if (shape == HALF_EQ && first <= bytes - sizeof(T) &&               \
                       !(first & op->x)) {                                             \
                const RT val = (RT)(OT)ELEM(T, base + first);                          \
                HALF_FILL(RT, dh, val);                                                \
            } else if (unlikely(                                                       \
                           !HALF_WITHIN_##AT(ah, imm, bytes, sizeof(T), op->x))) {     \
                goto slow;                                                             \
            } else {                                                                   \
                for (int j = 0; j < HALF; j++)                                         \
                    dh[j] = (RT)(OT)ELEM(T, base + (AT)(ah[j] + imm));                 \
            }                                                                          \
            rest = UINT32_MAX << HALF;                                                 \
        }                                                                              \
        return true;                                                                   \
    slow:                                                                              \
        LANES_LD(T, OT, SG_MEM_SHARED, rest, sg_shared_window(cta), (AT)(a[i] + imm))  \
    }

#define DEF_ST_SHARED(NAME, T, RT, AT)                                                 \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                  \
                            const struct sg_insn *op, const AT *a, const RT *v,        \
                            uint32_t m, const struct sg_insn *ops)                     \
    {                                                                                  \
        const AT imm = (AT)op->imm;                                                    \
        uint8_t *base = cta->shared;                                                   \
        uint32_t rest = m;                                                             \
        if (m != UINT32_MAX || cta->shared_bytes < sizeof(T))                          \
            goto slow;                                                                 \
        const uint64_t bytes = cta->shared_bytes;                                      \
        for (int h = 0; h < SG_LANES; h += HALF) {                                     \
            const AT *ah = a + h, first = (AT)(ah[0] + imm);                           \
            const RT *vh = v + h;                                                      \
            const enum half_shape shape = HALF_SHAPE_##AT(ah, sizeof(T));              \
            if (shape == HALF_SEQ && first <= bytes - sizeof(T) &&                     \
                HALF * sizeof(T) <= bytes - first && !(first & op->x)) {               \
                HALF_STORE(T, RT, base + first, vh);                                   \
            } else if (unlikely(                                                       \
                           !HALF_WITHIN_##AT(ah, imm, bytes, sizeof(T), op->x))) {     \
                goto slow;                                                             \
            } else {                                                                   \
                for (int j = 0; j < HALF; j++)                                         \
                    *(T *)(void *)(base + (AT)(ah[j] + imm)) = (T)vh[j];               \
            }                                                                          \
            rest = UINT32_MAX << HALF;                                                 \
        }                                                                              \
        return true;                                                                   \
    slow:                                                                              \
        LANES_ST(T, SG_MEM_SHARED, rest, sg_shared_window(cta), (AT)(a[i] + imm))      \
    }

/* Local memory: an offset in each lane's own block. */
#define DEF_LD_LOCAL(NAME, T, OT, RT)                                                  \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                  \
                            const struct sg_insn *op, const uint64_t *a, RT *d,        \
                            uint32_t m, const struct sg_insn *ops)                     \
    {                                                                                  \
        const uint64_t imm = (uint64_t)op->imm;                                        \
        WINDOW_LD(T, OT, RT, SG_MEM_LOCAL, m, sg_local_window(cta, warp))              \
    }

#define DEF_ST_LOCAL(NAME, T, RT)                                                      \
    static inline bool NAME(struct sg_cta *cta, struct sg_warp *warp,                  \
                            const struct sg_insn *op, const uint64_t *a, const RT *v,  \
                            uint32_t m, const struct sg_insn *ops)                     \
    {                                                                                  \
        const uint64_t imm = (uint64_t)op->imm;                                        \
        WINDOW_ST(T, SG_MEM_LOCAL, m, sg_local_window(cta, warp))                      \
    }

#define IVDEP _Pragma("GCC ivdep") /* for the loops of exec_interp_body.h */

#define DEF_GROUP_GLOBAL(sp, SPACE)                                                    \
    DEF_LD_GLOBAL(lanes_ld##sp##_u8, uint8_t, uint32_t, uint32_t, SPACE,               \
                  GATHER_ANY(uint8_t, uint32_t))                                       \
    DEF_LD_GLOBAL(lanes_ld##sp##_s8, int8_t, int32_t, uint32_t, SPACE,                 \
                  GATHER_ANY(int8_t, int32_t))                                         \
    DEF_LD_GLOBAL(lanes_ld##sp##_u16, uint16_t, uint32_t, uint32_t, SPACE,             \
                  GATHER_ANY(uint16_t, uint32_t))                                      \
    DEF_LD_GLOBAL(lanes_ld##sp##_s16, int16_t, int32_t, uint32_t, SPACE,               \
                  GATHER_ANY(int16_t, int32_t))                                        \
    DEF_LD_GLOBAL(lanes_ld##sp##_32, uint32_t, uint32_t, uint32_t, SPACE, GATHER_32)   \
    DEF_LD_GLOBAL(lanes_ld##sp##_64, uint64_t, uint64_t, uint64_t, SPACE,              \
                  GATHER_ANY(uint64_t, uint64_t))                                      \
    DEF_ST_GLOBAL(lanes_st##sp##_8, uint8_t, uint32_t, SPACE)                          \
    DEF_ST_GLOBAL(lanes_st##sp##_16, uint16_t, uint32_t, SPACE)                        \
    DEF_ST_GLOBAL(lanes_st##sp##_32, uint32_t, uint32_t, SPACE)                        \
    DEF_ST_GLOBAL(lanes_st##sp##_64, uint64_t, uint64_t, SPACE)

#define DEF_GROUP_SHARED(sp, AT)                                                       \
    DEF_LD_SHARED(lanes_ld##sp##_u8, uint8_t, uint32_t, uint32_t, AT)                  \
    DEF_LD_SHARED(lanes_ld##sp##_s8, int8_t, int32_t, uint32_t, AT)                    \
    DEF_LD_SHARED(lanes_ld##sp##_u16, uint16_t, uint32_t, uint32_t, AT)                \
    DEF_LD_SHARED(lanes_ld##sp##_s16, int16_t, int32_t, uint32_t, AT)                  \
    DEF_LD_SHARED(lanes_ld##sp##_32, uint32_t, uint32_t, uint32_t, AT)                 \
    DEF_LD_SHARED(lanes_ld##sp##_64, uint64_t, uint64_t, uint64_t, AT)                 \
    DEF_ST_SHARED(lanes_st##sp##_8, uint8_t, uint32_t, AT)                             \
    DEF_ST_SHARED(lanes_st##sp##_16, uint16_t, uint32_t, AT)                           \
    DEF_ST_SHARED(lanes_st##sp##_32, uint32_t, uint32_t, AT)                           \
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
