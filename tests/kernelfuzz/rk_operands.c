/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_operands.h. */
#include "rk_operands.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define ROWS 8192
#define MOST_SPECIALS 256
/* So many of each source are combined where there are three. */
#define FIRST 16

struct values {
    uint64_t v[MOST_SPECIALS];
    unsigned n;
};

struct format {
    unsigned bits, mant; /* mant: bits of the mantissa that are stored */
};

static uint64_t
next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

char
rk_kind_class(char kind)
{
    return strchr("dl12345678", kind) ? 'D'
           : strchr("hbsx", kind)     ? 'H'
           : kind == 'p'              ? 'P'
                                      : 'W';
}

unsigned
rk_kind_lane_bits(char kind)
{
    return strchr("dl4", kind) ? 64 : strchr("hbgcs12", kind) ? 16 : 32;
}

static struct format
format_of(char kind)
{
    switch (kind) {
    case 'd':
    case '4':
        return (struct format){64, 52};
    case 'h':
    case 'g':
    case '1':
        return (struct format){16, 10};
    case 'b':
    case 'c':
    case '2':
        return (struct format){16, 7};
    case '6':
        return (struct format){8, 3};
    case '7':
        return (struct format){8, 2};
    default:
        return (struct format){32, 23};
    }
}

/* ---- lists -------------------------------------------------------------------------
 */

static void
add(struct values *list, uint64_t v)
{
    for (unsigned i = 0; i < list->n; i++)
        if (list->v[i] == v)
            return;
    if (list->n < MOST_SPECIALS)
        list->v[list->n++] = v;
}

/* 2^e */
static uint64_t
power(const struct format *f, int e)
{
    int bias = (1 << (f->bits - f->mant - 2)) - 1;

    if (e + bias < 1 || e + bias > 2 * bias)
        e = 0;
    return (uint64_t)(e + bias) << f->mant;
}

static void
add_floats(struct values *list, const struct format *f)
{
    uint64_t sign = UINT64_C(1) << (f->bits - 1), one = power(f, 0);
    uint64_t inf = (sign - 1) >> f->mant << f->mant, quiet = UINT64_C(1)
                                                             << (f->mant - 1);
    uint64_t least = UINT64_C(1) << f->mant; /* the least normal number */
    const uint64_t first[] = {0,
                              sign,
                              one,
                              one | sign,
                              inf,
                              inf | sign,
                              inf | quiet | 5,
                              inf | quiet | 1 | sign,
                              inf | 3,
                              1,
                              (least - 1) | sign,
                              least,
                              inf - 1,
                              (inf - 1) | sign,
                              one | quiet,
                              one + 1,
                              inf | 1 | sign,
                              sign - 1,
                              2 * sign - 1,
                              1 | sign,
                              least - 1,
                              least | sign,
                              least + 1,
                              one - 1,
                              power(f, -1),
                              power(f, -1) - 1,
                              power(f, 1) | quiet >> 1, /* 2.5 */
                              power(f, 1) | quiet,      /* 3 */
                              power(f, 1) | quiet | sign,
                              one | quiet | sign,
                              power(f, -1) | sign,
                              (one - 1) | sign,
                              power(f, (int)f->mant) | 1,
                              power(f, (int)f->mant - 1) | 1,
                              power(f, (int)f->mant - 1) | 3 | sign,
                              2,
                              quiet,
                              quiet | 1 | sign};

    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        add(list, first[i] & (2 * sign - 1));
}

/* Around the ends of the integers' ranges, and of narrower floats. */
static void
add_edges(struct values *list, const struct format *f)
{
    static const int ends[] = {4,   7,   8,   15,  16,  31,  32,   63,   64,   -8,
                               -9,  -14, -15, -24, -25, -26, -126, -127, -149, -150,
                               126, 127, 128, 10,  11,  23,  24,   14,   1022, -1022};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        uint64_t v = power(f, ends[i]), sign = UINT64_C(1) << (f->bits - 1);
        add(list, v);
        add(list, v - 1);
        add(list, v + 1);
        add(list, v | sign);
        add(list, (v + 1) | sign);
        add(list, (v - 1) | sign);
    }
}

static void
add_integers(struct values *list, unsigned bits)
{
    uint64_t top = UINT64_C(1) << (bits - 1), all = top | (top - 1);
    const uint64_t first[] = {0,
                              1,
                              all,
                              top,
                              top - 1,
                              2,
                              all - 1,
                              top + 1,
                              31,
                              32,
                              33,
                              8,
                              255,
                              256,
                              UINT64_C(0x0123456789abcdef),
                              UINT64_C(0xfedcba9876543210),
                              3,
                              7,
                              15,
                              16,
                              17,
                              63,
                              64,
                              65,
                              127,
                              128,
                              0x7fff,
                              0x8000,
                              0xffff,
                              0x10000,
                              0x00ff00ff,
                              0x80808080,
                              0x7f7f7f7f,
                              0x80008000,
                              0x7fff7fff,
                              0x80007fff,
                              0x800000,
                              0x7fffff,
                              0xffffff,
                              0x1000000,
                              0xff800000,
                              0x7fffffff,
                              0x80000000,
                              0xffffffff,
                              UINT64_C(0x100000000),
                              UINT64_C(0x7fffffff80000000),
                              UINT64_C(0xffffffff00000000),
                              top >> 1,
                              top >> 1 | top,
                              UINT64_C(0xaaaaaaaaaaaaaaaa),
                              UINT64_C(0x5555555555555555),
                              9,
                              24,
                              48};

    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        add(list, first[i] & all);
}

/* Pairs of the halves' edges: every one in either half. */
static void
add_pairs(struct values *list, const struct format *f)
{
    struct values halves = {.n = 0};

    add_floats(&halves, f);
    for (unsigned i = 0; i < halves.n; i++)
        add(list, halves.v[i] << 16 | halves.v[(i * 7 + 3) % halves.n]);
    for (unsigned i = 0; i < halves.n; i++)
        add(list, halves.v[(i * 5 + 1) % halves.n] << 16 | halves.v[i]);
}

static void
list_kind(char kind, struct values *list)
{
    struct format f = format_of(kind);

    list->n = 0;
    switch (kind) {
    case 's':
    case 'x':
        add_integers(list, 16);
        break;
    case 'i':
        add_integers(list, 32);
        break;
    case 'l':
        add_integers(list, 64);
        break;
    case 'p':
        add(list, 0);
        add(list, 1);
        break;
    case 'm':
        for (unsigned i = 0; i < 32; i++)
            add(list, i);
        break;
    case 'n':
        for (unsigned i = 0; i < 67; i++)
            add(list, (uint32_t)((int)i - 33));
        break;
    case 'g':
    case 'c':
        add_pairs(list, &f);
        break;
    default:
        add_floats(list, &f);
    }
}

/* ---- noise -------------------------------------------------------------------------
 */

/* Exponents near that of one, few bits in the mantissa, or anything. */
static uint64_t
random_float(const struct format *f, uint64_t *state)
{
    uint64_t r = next(state), v = next(state), sign = UINT64_C(1) << (f->bits - 1);
    uint64_t mant = (UINT64_C(1) << f->mant) - 1;
    int span = (r >> 8 & 3) == 0 ? 3 : (r >> 8 & 3) == 1 ? 20 : 70;

    if ((r & 7) < 2)
        return v & (2 * sign - 1);
    if (r & 8)
        v &= ~(mant >> (r >> 16 & 31));
    return (v & (sign | mant)) |
           power(f, (int)((r >> 32) % (unsigned)(2 * span)) - span);
}

static uint64_t
random_integer(unsigned bits, uint64_t *state)
{
    uint64_t r = next(state), v = next(state), all = UINT64_MAX >> (64 - bits);

    if (r & 1)
        return v & all;
    v >>= 64 - bits + (r >> 8) % bits;
    return (r & 2 ? ~v : v) & all;
}

static uint64_t
random_kind(char kind, uint64_t *state)
{
    struct format f = format_of(kind);

    switch (kind) {
    case 's':
    case 'x':
        return random_integer(16, state);
    case 'i':
        return random_integer(32, state);
    case 'l':
        return random_integer(64, state);
    case 'p':
        return next(state) & 1;
    case 'm':
        return next(state) & 31;
    case 'n':
        return (uint32_t)((int)(next(state) % 67) - 33);
    case 'g':
    case 'c':
        return random_float(&f, state) | random_float(&f, state) << 16;
    default:
        return random_float(&f, state);
    }
}

/* A lane of a matrix: warps take small integers, numbers near one, edges or anything in
 * turns, because sums of the first are exact. */
static uint64_t
lane_of_matrix(char kind, unsigned warp, uint64_t *state)
{
    struct format f = format_of(kind);
    struct values list = {.n = 0};
    uint64_t r = next(state), sign = UINT64_C(1) << (f.bits - 1);
    uint64_t small[5] = {0, power(&f, 0), power(&f, 1),
                         power(&f, 1) | UINT64_C(1) << (f.mant - 1), power(&f, 2)};

    switch (warp & 3) {
    case 0:
        return small[r % 5] | (r & 256 ? sign : 0);
    case 1:
        return (r & (sign | ((UINT64_C(1) << f.mant) - 1))) |
               power(&f, (int)(r >> 60 & 3) - 2);
    case 2:
        if (f.bits == 8)
            return r & 255;
        add_floats(&list, &f);
        return r >> 32 & 7 ? small[r % 5] : list.v[r % list.n];
    default:
        return random_float(&f, state);
    }
}

static uint64_t
word_of_matrix(char kind, unsigned warp, uint64_t *state)
{
    struct format f = format_of(kind);
    uint64_t v = 0;

    if (kind == '5')
        return next(state) & (warp & 1 ? UINT64_MAX : UINT64_C(0x0303030303030303));
    for (unsigned at = 0; at < 64; at += f.bits)
        v |= lane_of_matrix(kind, warp, state) << at;
    return v;
}

/* ---- rows --------------------------------------------------------------------------
 */

unsigned
rk_operands_rows(const char *kinds)
{
    bool half = strlen(kinds) == 1 && rk_kind_class(kinds[0]) == 'H';

    return half ? RK_MAX_ROWS : ROWS;
}

/* Sources @n of row @r out of the lists' products, or noise behind them. */
static void
fill_row(const char *kinds, unsigned n, const struct values *lists, unsigned r,
         uint64_t *state, uint64_t *row)
{
    unsigned at = r, limit = n == 1 ? MOST_SPECIALS : n == 2 ? 64 : FIRST;

    for (unsigned i = 0; i < n; i++) {
        unsigned most = lists[i].n < limit ? lists[i].n : limit;
        row[i] = lists[i].v[at % most];
        at /= most;
    }
    if (at == 0 && n <= 3)
        return;
    for (unsigned i = 0; i < n; i++)
        row[i] = next(state) & 3 ? random_kind(kinds[i], state)
                                 : lists[i].v[next(state) % lists[i].n];
}

void
rk_operands_fill(const char *kinds, unsigned rows, uint64_t *in)
{
    unsigned n = (unsigned)strlen(kinds);
    struct values lists[RK_ROW_WORDS];
    uint64_t state = 1;

    memset(in, 0, sizeof(*in) * RK_ROW_WORDS * rows);
    for (unsigned i = 0; i < n; i++) {
        struct format f = format_of(kinds[i]);
        list_kind(kinds[i], &lists[i]);
        if (n == 1 && strchr("fd", kinds[i]))
            add_edges(&lists[i], &f);
    }
    for (unsigned r = 0; r < rows; r++) {
        uint64_t *row = in + (size_t)r * RK_ROW_WORDS;
        if (rows == RK_MAX_ROWS)
            row[0] = r;
        else if (n && kinds[0] >= '1' && kinds[0] <= '8')
            for (unsigned i = 0; i < n; i++)
                row[i] = word_of_matrix(kinds[i], r / 32, &state);
        else
            fill_row(kinds, n, lists, r, &state, row);
    }
}
