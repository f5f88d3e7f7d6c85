/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree is walked by halves; leaves of eight whole kibibytes and more are hashed
 * eight at a time, one in each lane of a vector, with whatever vectors the processor
 * has: gigabytes a second, where one at a time would be slower than a fast network.
 */
#include "gp_blake3.h"

#include "gp_cpu.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read as they lie in memory"
#endif

#define BLOCK 64
#define CHUNK 1024
#define CHUNK_BLOCKS (CHUNK / BLOCK)
#define LANES 8
/* Chunks of one vectored subtree: parents are then mostly vectored as well. */
#define BATCH 64

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* Which message word each round takes at each place: the first row permuted again
 * and again. */
static const uint8_t schedule[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

#define ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))

/* The quarter round, for one lane or eight: words or vectors. */
#define MIX(v, a, b, c, d, x, y)                                                       \
    do {                                                                               \
        v[a] = v[a] + v[b] + (x);                                                      \
        v[d] = ROTATE((v[d] ^ v[a]), 16);                                              \
        v[c] = v[c] + v[d];                                                            \
        v[b] = ROTATE((v[b] ^ v[c]), 12);                                              \
        v[a] = v[a] + v[b] + (y);                                                      \
        v[d] = ROTATE((v[d] ^ v[a]), 8);                                               \
        v[c] = v[c] + v[d];                                                            \
        v[b] = ROTATE((v[b] ^ v[c]), 7);                                               \
    } while (0)

#define ROUND(v, m, s)                                                                 \
    do {                                                                               \
        MIX(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);                                         \
        MIX(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);                                         \
        MIX(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);                                        \
        MIX(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);                                        \
        MIX(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);                                        \
        MIX(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);                                      \
        MIX(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);                                       \
        MIX(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);                                       \
    } while (0)

/* ---- one at a time ----------------------------------------------------------------
 */

/* At the root 16 words come out, else 8: @h has room for both. */
static void
compress(uint32_t h[16], const uint8_t *block, uint32_t len, uint64_t counter,
         uint32_t flags)
{
    uint32_t m[16];
    uint32_t v[16] = {h[0],
                      h[1],
                      h[2],
                      h[3],
                      h[4],
                      h[5],
                      h[6],
                      h[7],
                      iv[0],
                      iv[1],
                      iv[2],
                      iv[3],
                      (uint32_t)counter,
                      (uint32_t)(counter >> 32),
                      len,
                      flags};

    memcpy(m, block, sizeof(m));
    for (unsigned r = 0; r < ARRAY_SIZE(schedule); r++)
        ROUND(v, m, schedule[r]);
    for (unsigned i = 0; i < 8; i++) {
        h[i + 8] = v[i + 8] ^ h[i];
        h[i] = v[i] ^ v[i + 8];
    }
}

/* Values below the root have 32 bytes, the root's 64. */
static size_t
value_size(uint32_t flags)
{
    return flags & ROOT ? GP_BLAKE3_WIDE : GP_BLAKE3_SIZE;
}

/* At most CHUNK bytes: a leaf. */
static void
leaf(const uint8_t *in, size_t len, uint64_t counter, uint32_t flags, uint8_t *cv)
{
    uint32_t h[16];
    uint32_t start = CHUNK_START;
    uint8_t last[BLOCK] = {0};

    memcpy(h, iv, sizeof(iv));
    while (len > BLOCK) {
        compress(h, in, BLOCK, counter, start);
        start = 0;
        in += BLOCK;
        len -= BLOCK;
    }
    if (len)
        memcpy(last, in, len);
    compress(h, last, (uint32_t)len, counter, start | CHUNK_END | flags);
    memcpy(cv, h, value_size(flags));
}

static void
parent(const uint8_t *two, uint32_t flags, uint8_t *cv)
{
    uint32_t h[16];

    memcpy(h, iv, sizeof(iv));
    compress(h, two, BLOCK, 0, PARENT | flags);
    memcpy(cv, h, value_size(flags));
}

/* ---- eight at a time --------------------------------------------------------------
 */

typedef uint32_t lanes __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))
/* Vectors live in registers only where every index is a constant.  With a sanitizer
 * they need not: unrolled and checked, this file alone takes the compiler minutes. */
#if defined(GP_SANITIZED)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Rows of eight words become columns. */
INLINE void
transpose(lanes r[8])
{
    lanes t[8];

    UNROLL
    for (unsigned i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL
    for (unsigned i = 0; i < 8; i += 4) {
        UNROLL
        for (unsigned j = 0; j < 2; j++) {
            lanes a = t[i + j], b = t[i + j + 2];

            r[i + 2 * j] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2 * j + 1] =
                __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        lanes a = r[i], b = r[i + 4];

        t[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    memcpy(r, t, sizeof(t));
}

/* The block at @in of each lane, the lanes @stride bytes apart. */
INLINE void
load(lanes m[16], const uint8_t *in, size_t stride)
{
    UNROLL
    for (unsigned i = 0; i < LANES; i++) {
        memcpy(&m[i], in + i * stride, sizeof(lanes));
        memcpy(&m[i + 8], in + i * stride + sizeof(lanes), sizeof(lanes));
    }
    transpose(m);
    transpose(m + 8);
}

/* gcc 12 loses sight of an array of vectors that its initialiser has filled. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

/* One block of each lane. */
INLINE void
compress8(lanes h[8], const lanes m[16], const lanes counter[2], uint32_t flags)
{
    const lanes zero = {0};
    lanes v[16] = {h[0],         h[1],         h[2],         h[3],
                   h[4],         h[5],         h[6],         h[7],
                   zero + iv[0], zero + iv[1], zero + iv[2], zero + iv[3],
                   counter[0],   counter[1],   zero + BLOCK, zero + flags};

    UNROLL
    for (unsigned r = 0; r < ARRAY_SIZE(schedule); r++)
        ROUND(v, m, schedule[r]);
    UNROLL
    for (unsigned i = 0; i < 8; i++)
        h[i] = v[i] ^ v[i + 8];
}

/* Eight inputs of @blocks blocks: chunks numbered from @number, or pairs of values
 * below a parent each.  All is read before anything is written. */
INLINE void
eight(const uint8_t *in, size_t stride, unsigned blocks, uint64_t number, uint8_t *cv)
{
    lanes h[8], m[16], counter[2] = {{0}, {0}};

    UNROLL
    for (unsigned i = 0; i < 8; i++)
        h[i] = (lanes){0} + iv[i];
    for (unsigned i = 0; i < LANES && blocks > 1; i++) {
        counter[0][i] = (uint32_t)(number + i);
        counter[1][i] = (uint32_t)((number + i) >> 32);
    }
    for (unsigned b = 0; b < blocks; b++) {
        uint32_t flags = blocks == 1 ? PARENT
                                     : (b == 0 ? CHUNK_START : 0) |
                                           (b == blocks - 1 ? CHUNK_END : 0);

        load(m, in + (size_t)b * BLOCK, stride);
        compress8(h, m, counter, flags);
    }
    transpose(h);
    memcpy(cv, h, sizeof(h));
}

/* @n chunks, a power of two from LANES to BATCH, to the value above all of them. */
INLINE void
batch(const uint8_t *in, unsigned n, uint64_t counter, uint8_t *cv)
{
    uint8_t cvs[BATCH * GP_BLAKE3_SIZE];

    for (unsigned i = 0; i < n; i += LANES)
        eight(in + (size_t)i * CHUNK, CHUNK, CHUNK_BLOCKS, counter + i,
              cvs + (size_t)i * GP_BLAKE3_SIZE);
    for (n /= 2; n >= LANES; n /= 2)
        for (unsigned i = 0; i < n; i += LANES)
            eight(cvs + (size_t)i * BLOCK, BLOCK, 1, 0,
                  cvs + (size_t)i * GP_BLAKE3_SIZE);
    for (; n >= 1; n /= 2)
        for (unsigned i = 0; i < n; i++)
            parent(cvs + (size_t)i * BLOCK, 0, cvs + (size_t)i * GP_BLAKE3_SIZE);
    memcpy(cv, cvs, GP_BLAKE3_SIZE);
}

static void
batch_any(const uint8_t *in, unsigned n, uint64_t counter, uint8_t *cv)
{
    batch(in, n, counter, cv);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
batch_avx2(const uint8_t *in, unsigned n, uint64_t counter, uint8_t *cv)
{
    batch(in, n, counter, cv);
}

__attribute__((target("avx512f,avx512vl"))) static void
batch_avx512(const uint8_t *in, unsigned n, uint64_t counter, uint8_t *cv)
{
    batch(in, n, counter, cv);
}
#endif

static void
batch_best(const uint8_t *in, unsigned n, uint64_t counter, uint8_t *cv)
{
    switch (gp_cpu_vectors()) {
#if defined(__x86_64__)
    case GP_VECTORS_AVX512:
        batch_avx512(in, n, counter, cv);
        return;
    case GP_VECTORS_AVX2:
        batch_avx2(in, n, counter, cv);
        return;
#endif
    default:
        batch_any(in, n, counter, cv);
    }
}

/* ---- the tree ---------------------------------------------------------------------
 */

/* Of more than one chunk, what belongs below the left child: the most chunks that are
 * a power of two and leave something for the right one. */
static size_t
left_part(size_t len)
{
    return (size_t)CHUNK << (63 - __builtin_clzll((len - 1) / CHUNK));
}

static void
subtree(const uint8_t *in, size_t len, uint64_t counter, uint32_t flags, uint8_t *cv)
{
    uint8_t two[BLOCK];
    size_t left;

    if (len <= CHUNK) {
        leaf(in, len, counter, flags, cv);
        return;
    }
    if (!flags && len >= LANES * CHUNK && len <= BATCH * CHUNK && !(len & (len - 1))) {
        batch_best(in, (unsigned)(len / CHUNK), counter, cv);
        return;
    }
    left = left_part(len);
    subtree(in, left, counter, 0, two);
    subtree(in + left, len - left, counter + left / CHUNK, 0, two + GP_BLAKE3_SIZE);
    parent(two, flags, cv);
}

void
gp_blake3_wide(const void *data, size_t len, uint8_t ret[GP_BLAKE3_WIDE])
{
    subtree(data, len, 0, ROOT, ret);
}

void
gp_blake3(const void *data, size_t len, uint8_t ret[GP_BLAKE3_SIZE])
{
    uint8_t wide[GP_BLAKE3_WIDE];

    gp_blake3_wide(data, len, wide);
    memcpy(ret, wide, GP_BLAKE3_SIZE);
}
