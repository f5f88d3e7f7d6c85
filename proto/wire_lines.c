/* SPDX-License-Identifier: Apache-2.0 */
#include "wire_lines.h"

#include "gp_base.h"

#include <string.h>

#define PAGE 4096u

/* The other user of the memory is a card or another thread, without any lock: the
 * thread sanitizer would call that a race. */
#define SHARED __attribute__((no_sanitize("thread")))

/* The part of the word at offset @pos (which may begin before the memory) that lies in
 * it: bytes [first, end) of the word. */
struct part {
    uint64_t pos; /* offset of the first byte in the memory */
    unsigned first, end;
};

static struct part
part_of(const struct wire_lines *l, uint64_t word_at)
{
    uint64_t start = l->at > word_at ? l->at : word_at;
    uint64_t end = gp_min(l->at + l->size, word_at + 8);

    if (start >= end)
        return (struct part){0};
    return (struct part){start - l->at, (unsigned)(start - word_at),
                         (unsigned)(end - word_at)};
}

SHARED static uint64_t
word_load(const uint8_t *p, const struct part *part)
{
    uint64_t word = 0;

    if (part->end - part->first == 8)
        return __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED);
    for (unsigned i = part->first; i < part->end; i++)
        word |= (uint64_t)__atomic_load_n(p + (i - part->first), __ATOMIC_RELAXED)
                << 8 * i;
    return word;
}

static uint64_t
shadow_load(const uint8_t *p, const struct part *part)
{
    uint64_t word = 0;

    memcpy((uint8_t *)&word + part->first, p, part->end - part->first);
    return word;
}

/* One bit for each byte that is not 0. */
static unsigned
bytes_in(uint64_t x)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < 8; i++)
        bits |= (unsigned)((x >> 8 * i & 0xff) != 0) << i;
    return bits;
}

static uint64_t
bytes_out(unsigned bits)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < 8; i++)
        x |= (bits >> i & 1 ? UINT64_C(0xff) : 0) << 8 * i;
    return x;
}

/* The line at @at, if anything in it has changed. */
static bool
take_line(const struct wire_lines *l, uint64_t at, struct wire_line *line)
{
    line->at = at;
    line->mask = 0;
    for (unsigned w = 0; w < 8; w++) {
        struct part part = part_of(l, at + 8 * w);
        uint64_t now, was;

        line->word[w] = 0;
        if (part.first == part.end)
            continue;
        now = word_load(l->mem + part.pos, &part);
        was = shadow_load(l->shadow + part.pos, &part);
        if (now == was)
            continue;
        line->word[w] = now;
        line->mask |= (uint64_t)bytes_in(now ^ was) << 8 * w;
        memcpy(l->shadow + part.pos, (const uint8_t *)&now + part.first,
               part.end - part.first);
    }
    return line->mask != 0;
}

#ifdef __SANITIZE_THREAD__
/* The sanitizer looks into memcmp() whoever calls it. */
SHARED static bool
is_same(const uint8_t *a, const uint8_t *b, uint64_t n)
{
    while (n && *a == *b)
        a++, b++, n--;
    return n == 0;
}
#else
static bool
is_same(const uint8_t *a, const uint8_t *b, uint64_t n)
{
    return memcmp(a, b, n) == 0;
}
#endif

size_t
wire_lines_take(const struct wire_lines *l, uint64_t *pos, uint64_t look,
                struct wire_line *lines, size_t max)
{
    uint64_t end = gp_min(l->size, look > l->size - *pos ? l->size : *pos + look);
    size_t n = 0;

    while (*pos < end && n < max) {
        uint64_t at = l->at + *pos;
        uint64_t page = gp_min(PAGE - at % PAGE, l->size - *pos);
        uint64_t rest = gp_min(WIRE_LINE - at % WIRE_LINE, l->size - *pos);

        if (at % WIRE_LINE == 0 && is_same(l->mem + *pos, l->shadow + *pos, page)) {
            *pos += page;
            continue;
        }
        if (!is_same(l->mem + *pos, l->shadow + *pos, rest) &&
            take_line(l, at & ~(uint64_t)(WIRE_LINE - 1), &lines[n]))
            n++;
        *pos += rest;
    }
    return n;
}

/* Bytes of @bits in the word: theirs is @word. */
SHARED static void
put_word(uint8_t *mem, const uint8_t *shadow, const struct part *part, uint64_t word,
         uint64_t bits, bool yield)
{
    uint64_t *at = (uint64_t *)(void *)mem, was = shadow_load(shadow, part), old, take;

    if (part->end - part->first != 8) {
        for (unsigned i = part->first; i < part->end; i++) {
            uint8_t *byte = mem + (i - part->first);

            if (bits >> 8 * i & 0xff &&
                (!yield ||
                 __atomic_load_n(byte, __ATOMIC_RELAXED) == (uint8_t)(was >> 8 * i)))
                __atomic_store_n(byte, (uint8_t)(word >> 8 * i), __ATOMIC_RELAXED);
        }
        return;
    }
    old = __atomic_load_n(at, __ATOMIC_RELAXED);
    do {
        take = yield ? bits & ~bytes_out(bytes_in(old ^ was)) : bits;
    } while (!__atomic_compare_exchange_n(at, &old, (old & ~take) | (word & take),
                                          false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

void
wire_lines_put(const struct wire_lines *l, const struct wire_line *line, bool yield)
{
    for (unsigned w = 0; w < 8; w++) {
        struct part part = part_of(l, line->at + 8 * w);
        uint64_t bits = bytes_out(line->mask >> 8 * w & 0xff), agreed;

        if (part.first == part.end || !bits)
            continue;
        put_word(l->mem + part.pos, l->shadow + part.pos, &part, line->word[w], bits,
                 yield);
        agreed = shadow_load(l->shadow + part.pos, &part);
        agreed = (agreed & ~bits) | (line->word[w] & bits);
        memcpy(l->shadow + part.pos, (const uint8_t *)&agreed + part.first,
               part.end - part.first);
    }
}
