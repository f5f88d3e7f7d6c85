/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What generated encoders and decoders share: variable parts of a frame's body.
 *
 * A body is a fixed struct followed by its variable parts in the order of the
 * description, each aligned to WIRE_ALIGN.  Decoding checks every count against
 * its cap and against the bytes that are there, so that what comes out can be
 * read without another look.  Pure functions, any thread.
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include "wire_format.h"

#include <stddef.h>
#include <string.h>

/* The largest body that fits into a frame; both headers are as long. */
#define WIRE_BODY_MAX (WIRE_FRAME_MAX - (uint32_t)sizeof(struct wire_req))

/* @n rounded up to WIRE_ALIGN, for lengths that may be far too large for a frame but
 * not for a sum of a few of them. */
static inline uint64_t
wire_align64(uint64_t n)
{
    return (n + (WIRE_ALIGN - 1)) & ~(uint64_t)(WIRE_ALIGN - 1);
}

/* Bytes of @count elements, or more than any body when they pass their cap. */
static inline uint64_t
wire_part_size(uint64_t count, size_t elem, uint64_t max)
{
    return count > max ? (uint64_t)WIRE_FRAME_MAX : wire_align64(count * elem);
}

/* The next part of a body that is being read: @count elements at *at. */
static inline bool
wire_part_open(const void *body, size_t size, uint64_t *at, uint64_t count, size_t elem,
               uint64_t max, const void **ret)
{
    uint64_t need;

    *ret = NULL;
    if (count > max)
        return false;
    need = wire_align64(count * elem);
    if (need > size - *at)
        return false;
    if (count)
        *ret = (const char *)body + *at;
    *at += need;
    return true;
}

/* The next part of a body that is being written; its last word is cleared, so that
 * padding carries nothing. */
static inline void *
wire_part_room(void *body, uint64_t *at, uint64_t count, size_t elem)
{
    uint64_t need = wire_align64(count * elem);
    char *part = (char *)body + *at;

    if (!need)
        return NULL;
    memset(part + need - WIRE_ALIGN, 0, WIRE_ALIGN);
    *at += need;
    return part;
}

/* Is a part of @len bytes a string, or absent? */
static inline bool
wire_string_ok(const char *s, uint64_t len)
{
    return len == 0 || (s && s[len - 1] == '\0' && strlen(s) == len - 1);
}

#endif
