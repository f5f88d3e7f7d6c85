/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_scan.h"

#include "gp_copy.h"
#include "gp_cpu.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define BLOCK ((size_t)256)
#define VECTOR ((size_t)32)

typedef uint32_t words __attribute__((vector_size(32)));

/* The same for what is short, or has such a word. */
static size_t
scan_plain(const uint8_t *p, size_t from, size_t to, uint32_t least, uint32_t span)
{
    uint32_t word;

    for (; from + sizeof(word) <= to; from += sizeof(word)) {
        memcpy(&word, p + from, sizeof(word));
        if (word - least <= span)
            return from;
    }
    return SIZE_MAX;
}

INLINE bool
any_of(const words *found)
{
    uint64_t parts[4];

    memcpy(parts, found, sizeof(parts));
    return (parts[0] | parts[1] | parts[2] | parts[3]) != 0;
}

INLINE bool
block_has_one(const uint8_t *p, uint32_t least, uint32_t span)
{
    words found = {0}, some;

#pragma GCC unroll 8
    for (size_t i = 0; i < BLOCK; i += VECTOR) {
        memcpy(&some, p + i, sizeof(some));
        found |= (words)(some - least <= (words){0} + span);
    }
    return any_of(&found);
}

/* The offset of the first whole block with such a word, or behind the last one. */
INLINE size_t
blocks(const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    size_t at = 0;

    while (at + BLOCK <= n && !block_has_one(p + at, least, span))
        at += BLOCK;
    return at;
}

static size_t
blocks_any(const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    return blocks(p, n, least, span);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static size_t
blocks_avx2(const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    return blocks(p, n, least, span);
}
#else
#define blocks_avx2 blocks_any
#endif

/* Copy whole blocks.  Has one of them such a word? */
INLINE bool
copy_blocks(uint8_t *to, const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    words found = {0}, some;

    for (size_t at = 0; at < n; at += BLOCK) {
#pragma GCC unroll 8
        for (size_t i = 0; i < BLOCK; i += VECTOR) {
            memcpy(&some, p + at + i, sizeof(some));
            memcpy(to + at + i, &some, sizeof(some));
            found |= (words)(some - least <= (words){0} + span);
        }
    }
    return any_of(&found);
}

static bool
copy_blocks_any(uint8_t *to, const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    return copy_blocks(to, p, n, least, span);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool
copy_blocks_avx2(uint8_t *to, const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    return copy_blocks(to, p, n, least, span);
}
#else
#define copy_blocks_avx2 copy_blocks_any
#endif

static bool
copy_plain(uint8_t *to, const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    gp_copy(to, p, n);
    return scan_plain(p, 0, n, least, span) != SIZE_MAX;
}

/* Vectors are stored to whole lines, where that keeps the words where they are. */
bool
gp_scan_copy(void *to, const void *bytes, size_t n, uint32_t least, uint32_t span)
{
    size_t before = -(uintptr_t)to % VECTOR, whole;
    const uint8_t *p = bytes;
    uint8_t *q = to;
    bool found;

    if (before % sizeof(uint32_t) || n < before + BLOCK)
        before = 0;
    whole = (n - before) / BLOCK * BLOCK;
    found = copy_plain(q, p, before, least, span);
    p += before;
    q += before;
    if (whole)
        found |= gp_cpu_vectors() >= GP_VECTORS_AVX2
                     ? copy_blocks_avx2(q, p, whole, least, span)
                     : copy_blocks_any(q, p, whole, least, span);
    found |= copy_plain(q + whole, p + whole, n - before - whole, least, span);
    return found;
}

size_t
gp_scan_words(const void *bytes, size_t n, uint32_t least, uint32_t span)
{
    const uint8_t *p = bytes;
    size_t at = 0;

    if (n >= BLOCK)
        at = gp_cpu_vectors() >= GP_VECTORS_AVX2 ? blocks_avx2(p, n, least, span)
                                                 : blocks_any(p, n, least, span);
    at = scan_plain(p, at, n, least, span);
    return at == SIZE_MAX ? n : at;
}
