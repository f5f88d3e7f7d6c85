/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_fatbin.h"

#include "gp_err.h"
#include "gp_image.h"

#include <errno.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

/* Bits of an entry's flags. */
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH 0x100000u
#define FLAG_FAMILY 0x200000u

/* Older toolkits wrote headers without the last fields; the unpacked size is
 * in the first 64 bytes. */
#define ENTRY_HEAD_MIN 48
#define ENTRY_HEAD_FULL 64

/* ---- entries ---- */

static uint16_t
get16(const uint8_t *at)
{
    uint16_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

static uint32_t
get32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

static uint64_t
get64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

/* @head has at least ENTRY_HEAD_MIN bytes, @head_len of them are the header,
 * @body behind it are the payload; both lie inside the image. */
static void
read_entry(const uint8_t *head, uint32_t head_len, uint64_t body,
           struct gp_fatbin_entry *ret)
{
    uint32_t packed = get32(head + 16);
    uint64_t flags = get64(head + 40);

    *ret = (struct gp_fatbin_entry){
        .kind = get16(head),
        .version_minor = get16(head + 24),
        .version_major = get16(head + 26),
        .sm = get32(head + 28),
        .flags = flags,
        .arch_specific = flags & FLAG_ARCH,
        .family_specific = flags & FLAG_FAMILY,
        .data = head + head_len,
        .len = packed ? gp_min((uint64_t)packed, body) : body,
        .raw_len = body,
    };
    if (flags & (FLAG_ZSTD | FLAG_LZ4)) {
        ret->packing = flags & FLAG_ZSTD ? GP_FATBIN_ZSTD : GP_FATBIN_LZ4;
        ret->raw_len = head_len >= ENTRY_HEAD_FULL ? get64(head + 56) : 0;
    } else {
        ret->len = body;
    }
}

int
gp_fatbin_next(const void *fatbin, size_t len, size_t *pos, struct gp_fatbin_entry *ret,
               struct gp_err *err)
{
    const uint8_t *data = fatbin;
    uint32_t head;
    uint64_t body;
    size_t left;

    if (*pos == 0) {
        if (len < 16 || get16(data + 6) > len)
            return gp_err_set(err, -EINVAL, "fat binary is shorter than its header");
        *pos = get16(data + 6);
    }
    left = len - *pos;
    if (left == 0)
        return 0;
    if (left < ENTRY_HEAD_MIN)
        return gp_err_set(err, -EINVAL, "fat binary ends inside an entry's header");
    head = get32(data + *pos + 4);
    body = get64(data + *pos + 8);
    if (head < ENTRY_HEAD_MIN || head > left || body > left - head)
        return gp_err_set(err, -EINVAL,
                          "entry at %zu of a fat binary reaches beyond its end", *pos);
    read_entry(data + *pos, head, body, ret);
    *pos += head + (size_t)body;
    return 1;
}

static const char *
packing_name(enum gp_fatbin_packing packing)
{
    return packing == GP_FATBIN_ZSTD  ? "zstd"
           : packing == GP_FATBIN_LZ4 ? "LZ4"
                                      : "plain";
}

/* Exactly entry->raw_len bytes to @to, or false. */
static bool
unpack_to(const struct gp_fatbin_entry *entry, char *to)
{
    size_t n;

    switch (entry->packing) {
    case GP_FATBIN_ZSTD:
        n = ZSTD_decompress(to, entry->raw_len, entry->data, entry->len);
        return !ZSTD_isError(n) && n == entry->raw_len;
    case GP_FATBIN_LZ4:
        return LZ4_decompress_safe((const char *)entry->data, to, (int)entry->len,
                                   (int)entry->raw_len) == (int)entry->raw_len;
    default:
        memcpy(to, entry->data, entry->raw_len);
        return true;
    }
}

int
gp_fatbin_unpack(const struct gp_fatbin_entry *entry, char **ret, size_t *ret_len,
                 struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;

    if (entry->raw_len > GP_IMAGE_MAX_PTX || entry->len > GP_IMAGE_MAX_PTX ||
        entry->raw_len / GP_FATBIN_MAX_RATIO > entry->len)
        return gp_err_set(
            err, -E2BIG, "entry of %llu bytes claims to unpack to %llu (%s)",
            (unsigned long long)entry->len, (unsigned long long)entry->raw_len,
            packing_name(entry->packing));
    text = malloc(entry->raw_len + 1);
    if (!text)
        return gp_err_set(err, -ENOMEM, "no memory for an image of %llu bytes",
                          (unsigned long long)entry->raw_len);
    if (!unpack_to(entry, text))
        return gp_err_set(err, -EINVAL, "broken %s data in a fat binary",
                          packing_name(entry->packing));
    text[entry->raw_len] = 0;
    *ret_len = entry->raw_len;
    *ret = TAKE_PTR(text);
    return 0;
}

/* ---- choosing ---- */

bool
gp_fatbin_fits(const struct gp_fatbin_entry *entry, unsigned sm)
{
    if (entry->kind != GP_FATBIN_PTX && entry->kind != GP_FATBIN_ELF)
        return false;
    if (entry->arch_specific)
        return entry->sm == sm;
    if (entry->family_specific || entry->kind == GP_FATBIN_ELF)
        return entry->sm / 10 == sm / 10 && entry->sm <= sm;
    return entry->sm <= sm;
}

bool
gp_fatbin_better(const struct gp_fatbin_entry *a, const struct gp_fatbin_entry *b)
{
    if (a->sm != b->sm)
        return a->sm > b->sm;
    return (b->arch_specific || b->family_specific) &&
           !(a->arch_specific || a->family_specific);
}
