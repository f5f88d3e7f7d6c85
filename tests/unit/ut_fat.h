/* SPDX-License-Identifier: Apache-2.0 */
/* Fat binaries made by a test, entry by entry. */
#ifndef UT_FAT_H
#define UT_FAT_H

#include "ut.h"

#include "gp_fatbin.h"

#include <lz4.h>
#include <string.h>
#include <zstd.h>

#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH 0x100000u
#define FLAG_FAMILY 0x200000u

/* A fat binary under construction. */
struct fat {
    uint8_t data[20000];
    size_t len;
};

static inline void
put(struct fat *fat, const void *bytes, size_t n)
{
    assert_true(fat->len + n <= sizeof(fat->data));
    memcpy(fat->data + fat->len, bytes, n);
    fat->len += n;
}

static inline void
fat_begin(struct fat *fat)
{
    static const uint8_t head[16] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0};

    fat->len = 0;
    put(fat, head, sizeof(head));
}

static inline void
fat_end(struct fat *fat)
{
    uint64_t body = fat->len - 16;

    memcpy(fat->data + 8, &body, sizeof(body));
}

static inline void
fat_entry(struct fat *fat, unsigned kind, unsigned sm, unsigned flags,
          const void *packed, size_t n, size_t raw)
{
    uint8_t head[64] = {0}, zero[8] = {0};
    size_t padded = (n + 7) & ~(size_t)7;
    uint32_t fields[] = {[0] = kind | 0x101u << 16,
                         [1] = 64,
                         [2] = (uint32_t)padded,
                         [4] = flags & (FLAG_LZ4 | FLAG_ZSTD) ? (uint32_t)n : 0,
                         [6] = 9u << 16,
                         [7] = sm,
                         [10] = flags | 0x11,
                         [14] = (uint32_t)raw};

    memcpy(head, fields, sizeof(fields));
    put(fat, head, sizeof(head));
    put(fat, packed, n);
    put(fat, zero, padded - n);
}

/* An entry of @n bytes, packed as @flags say. */
static inline void
fat_add(struct fat *fat, unsigned kind, unsigned sm, unsigned flags, const void *bytes,
        size_t n)
{
    char packed[4096];
    size_t len = n;

    assert_true(n <= sizeof(packed) / 2);
    memcpy(packed, bytes, n);
    if (flags & FLAG_ZSTD)
        len = ZSTD_compress(packed, sizeof(packed), bytes, n, 3);
    else if (flags & FLAG_LZ4)
        len = (size_t)LZ4_compress_default(bytes, packed, (int)n, sizeof(packed));
    fat_entry(fat, kind, sm, flags, packed, len, n);
}

#endif
