/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory that both ends have pages for: what one end has changed since both
 * last agreed, in lines of 64 bytes, down to the byte.
 *
 * Each end keeps a copy, its shadow, of what was last agreed on.  Host and card go on
 * using the memory meanwhile, so aligned words of 8 bytes are read and written as
 * one: a flag or a counter is never seen half changed, and a word that both change in
 * different bytes keeps both changes.  No state, any thread; the caller's lock covers
 * the shadow.
 */
#ifndef WIRE_LINES_H
#define WIRE_LINES_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_LINE 64u

/* On the wire, little-endian. */
struct wire_line {
    uint64_t at;      /* address of its first byte, a multiple of WIRE_LINE */
    uint64_t mask;    /* bit i: byte i has changed */
    uint64_t word[8]; /* the bytes that have; others may be anything */
};
static_assert(sizeof(struct wire_line) == 80, "layout on the wire");

/* As many as go into one frame: gp_lines_up and gp_lines_down. */
#define WIRE_LINES_MAX 768u

/* Memory at one end. */
struct wire_lines {
    uint8_t *mem;    /* its first byte, which is congruent to @at modulo WIRE_LINE */
    uint8_t *shadow; /* @size bytes */
    uint64_t at;     /* the address that both ends know it by */
    uint64_t size;
};

/* What has changed in mem from byte *@pos on, looking at no more than @look bytes, as
 * at most @max lines; it is agreed on then.  *@pos is where to go on, size at the end.
 */
size_t wire_lines_take(const struct wire_lines *l, uint64_t *pos, uint64_t look,
                       struct wire_line *lines, size_t max);

/* The other end has changed these bytes; parts of a line outside of the memory are left
 * out.  With @yield a byte that has changed here meanwhile stays as it is, and is a
 * change to tell. */
void wire_lines_put(const struct wire_lines *l, const struct wire_line *line,
                    bool yield);

#endif
