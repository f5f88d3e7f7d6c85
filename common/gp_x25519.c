/* SPDX-License-Identifier: Apache-2.0 */
/* The Montgomery ladder of RFC 7748, section 5, on five limbs of 51 bits. */
#include "gp_x25519.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define LIMB_BITS 51
#define LIMB_MASK ((UINT64_C(1) << LIMB_BITS) - 1)
#define A24 121665 /* (486662 - 2) / 4 */

__extension__ typedef unsigned __int128 wide;

/* A number modulo 2^255 - 19; limbs may be a little above 51 bits. */
struct fe {
    uint64_t v[5];
};

static uint64_t
load64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void
store64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* The highest bit does not count. */
static struct fe
fe_load(const uint8_t bytes[GP_X25519_SIZE])
{
    uint64_t a = load64(bytes), b = load64(bytes + 8), c = load64(bytes + 16),
             d = load64(bytes + 24);

    return (struct fe){{a & LIMB_MASK, (a >> 51 | b << 13) & LIMB_MASK,
                        (b >> 38 | c << 26) & LIMB_MASK,
                        (c >> 25 | d << 39) & LIMB_MASK, d >> 12 & LIMB_MASK}};
}

static struct fe
fe_carry(struct fe a)
{
    for (int i = 0; i < 4; i++) {
        a.v[i + 1] += a.v[i] >> LIMB_BITS;
        a.v[i] &= LIMB_MASK;
    }
    a.v[0] += 19 * (a.v[4] >> LIMB_BITS);
    a.v[4] &= LIMB_MASK;
    return a;
}

/* The one form below 2^255 - 19. */
static void
fe_store(struct fe a, uint8_t ret[GP_X25519_SIZE])
{
    uint64_t over;

    a = fe_carry(fe_carry(a));
    over = (a.v[0] + 19) >> LIMB_BITS; /* 1 at the end: a is 2^255 - 19 or more */
    for (int i = 1; i < 5; i++)
        over = (a.v[i] + over) >> LIMB_BITS;
    a.v[0] += 19 * over;
    for (int i = 0; i < 4; i++) {
        a.v[i + 1] += a.v[i] >> LIMB_BITS;
        a.v[i] &= LIMB_MASK;
    }
    a.v[4] &= LIMB_MASK;
    store64(ret, a.v[0] | a.v[1] << 51);
    store64(ret + 8, a.v[1] >> 13 | a.v[2] << 38);
    store64(ret + 16, a.v[2] >> 26 | a.v[3] << 25);
    store64(ret + 24, a.v[3] >> 39 | a.v[4] << 12);
}

static struct fe
fe_add(struct fe a, struct fe b)
{
    for (int i = 0; i < 5; i++)
        a.v[i] += b.v[i];
    return a;
}

/* @b is a product: its limbs are below those of 2 * (2^255 - 19). */
static struct fe
fe_sub(struct fe a, struct fe b)
{
    a.v[0] += 2 * (LIMB_MASK - 18) - b.v[0];
    for (int i = 1; i < 5; i++)
        a.v[i] += 2 * LIMB_MASK - b.v[i];
    return a;
}

static inline struct fe
fe_reduce(wide t0, wide t1, wide t2, wide t3, wide t4)
{
    struct fe r;
    uint64_t over;

    t1 += (uint64_t)(t0 >> LIMB_BITS);
    t2 += (uint64_t)(t1 >> LIMB_BITS);
    t3 += (uint64_t)(t2 >> LIMB_BITS);
    t4 += (uint64_t)(t3 >> LIMB_BITS);
    over = ((uint64_t)t0 & LIMB_MASK) + 19 * (uint64_t)(t4 >> LIMB_BITS);
    r.v[0] = over & LIMB_MASK;
    r.v[1] = ((uint64_t)t1 & LIMB_MASK) + (over >> LIMB_BITS);
    r.v[2] = (uint64_t)t2 & LIMB_MASK;
    r.v[3] = (uint64_t)t3 & LIMB_MASK;
    r.v[4] = (uint64_t)t4 & LIMB_MASK;
    return r;
}

/* What goes beyond the fifth limb comes back 19-fold.  Written out: a compiler keeps
 * the limbs of a loop in memory, which takes several times as long. */
static inline struct fe
fe_mul(struct fe x, struct fe y)
{
    const uint64_t *a = x.v, *b = y.v;
    uint64_t b1 = 19 * b[1], b2 = 19 * b[2], b3 = 19 * b[3], b4 = 19 * b[4];

    return fe_reduce((wide)a[0] * b[0] + (wide)a[1] * b4 + (wide)a[2] * b3 +
                         (wide)a[3] * b2 + (wide)a[4] * b1,
                     (wide)a[0] * b[1] + (wide)a[1] * b[0] + (wide)a[2] * b4 +
                         (wide)a[3] * b3 + (wide)a[4] * b2,
                     (wide)a[0] * b[2] + (wide)a[1] * b[1] + (wide)a[2] * b[0] +
                         (wide)a[3] * b4 + (wide)a[4] * b3,
                     (wide)a[0] * b[3] + (wide)a[1] * b[2] + (wide)a[2] * b[1] +
                         (wide)a[3] * b[0] + (wide)a[4] * b4,
                     (wide)a[0] * b[4] + (wide)a[1] * b[3] + (wide)a[2] * b[2] +
                         (wide)a[3] * b[1] + (wide)a[4] * b[0]);
}

/* fe_mul(x, x) by 15 products instead of 25. */
static inline struct fe
fe_square(struct fe x)
{
    const uint64_t *a = x.v;
    uint64_t a0 = 2 * a[0], a1 = 2 * a[1], a3 = 19 * a[3], a4 = 19 * a[4];

    return fe_reduce((wide)a[0] * a[0] + (wide)a1 * a4 + (wide)(2 * a[2]) * a3,
                     (wide)a0 * a[1] + (wide)(2 * a[2]) * a4 + (wide)a[3] * a3,
                     (wide)a0 * a[2] + (wide)a[1] * a[1] + (wide)(2 * a[3]) * a4,
                     (wide)a0 * a[3] + (wide)a1 * a[2] + (wide)a[4] * a4,
                     (wide)a0 * a[4] + (wide)a1 * a[3] + (wide)a[2] * a[2]);
}

static inline struct fe
fe_mul_small(struct fe a, uint64_t n)
{
    return fe_reduce((wide)a.v[0] * n, (wide)a.v[1] * n, (wide)a.v[2] * n,
                     (wide)a.v[3] * n, (wide)a.v[4] * n);
}

/* a^(2^n). */
static struct fe
fe_squares(struct fe a, unsigned n)
{
    while (n--)
        a = fe_square(a);
    return a;
}

/* a^(2^255 - 21), which is 1 / a.  onesN is a^(2^N - 1), whose exponent has N bits set:
 * made of two shorter ones, one of them moved up. */
static struct fe
fe_invert(struct fe a)
{
    struct fe a2 = fe_square(a);
    struct fe a9 = fe_mul(a, fe_squares(a2, 2)), a11 = fe_mul(a2, a9);
    struct fe ones5 = fe_mul(a9, fe_square(a11));
    struct fe ones10 = fe_mul(fe_squares(ones5, 5), ones5);
    struct fe ones20 = fe_mul(fe_squares(ones10, 10), ones10);
    struct fe ones40 = fe_mul(fe_squares(ones20, 20), ones20);
    struct fe ones50 = fe_mul(fe_squares(ones40, 10), ones10);
    struct fe ones100 = fe_mul(fe_squares(ones50, 50), ones50);
    struct fe ones200 = fe_mul(fe_squares(ones100, 100), ones100);
    struct fe ones250 = fe_mul(fe_squares(ones200, 50), ones50);

    return fe_mul(fe_squares(ones250, 5), a11);
}

static void
fe_swap(struct fe *a, struct fe *b, uint64_t yes)
{
    uint64_t mask = 0 - yes;

    for (int i = 0; i < 5; i++) {
        uint64_t x = mask & (a->v[i] ^ b->v[i]);

        a->v[i] ^= x;
        b->v[i] ^= x;
    }
}

struct ladder {
    struct fe x1, x2, z2, x3, z3;
};

static void
ladder_step(struct ladder *l)
{
    struct fe a = fe_add(l->x2, l->z2), b = fe_sub(l->x2, l->z2);
    struct fe da = fe_mul(fe_sub(l->x3, l->z3), a);
    struct fe cb = fe_mul(fe_add(l->x3, l->z3), b);
    struct fe aa = fe_square(a), bb = fe_square(b), e = fe_sub(aa, bb);
    struct fe sum = fe_add(da, cb), difference = fe_sub(da, cb);

    l->x3 = fe_square(sum);
    l->z3 = fe_mul(l->x1, fe_square(difference));
    l->x2 = fe_mul(aa, bb);
    l->z2 = fe_mul(e, fe_add(aa, fe_mul_small(e, A24)));
}

static void
multiply(const uint8_t secret[GP_X25519_SIZE], const uint8_t point[GP_X25519_SIZE],
         uint8_t ret[GP_X25519_SIZE])
{
    struct fe x = fe_load(point);
    struct ladder l = {x, {{1}}, {{0}}, x, {{1}}};
    uint8_t k[GP_X25519_SIZE];
    uint64_t swapped = 0;

    memcpy(k, secret, sizeof(k));
    k[0] &= 248;
    k[31] = (uint8_t)((k[31] & 127) | 64);
    for (int i = 254; i >= 0; i--) {
        uint64_t bit = k[i / 8] >> (i % 8) & 1;

        fe_swap(&l.x2, &l.x3, swapped ^ bit);
        fe_swap(&l.z2, &l.z3, swapped ^ bit);
        swapped = bit;
        ladder_step(&l);
    }
    fe_swap(&l.x2, &l.x3, swapped);
    fe_swap(&l.z2, &l.z3, swapped);
    fe_store(fe_mul(l.x2, fe_invert(l.z2)), ret);
    explicit_bzero(k, sizeof(k));
    explicit_bzero(&l, sizeof(l));
}

int
gp_x25519(const uint8_t secret[GP_X25519_SIZE], const uint8_t other[GP_X25519_SIZE],
          uint8_t ret_shared[GP_X25519_SIZE])
{
    uint8_t any = 0;

    multiply(secret, other, ret_shared);
    for (int i = 0; i < GP_X25519_SIZE; i++)
        any |= ret_shared[i];
    return any ? 0 : -EBADMSG;
}

void
gp_x25519_public(const uint8_t secret[GP_X25519_SIZE],
                 uint8_t ret_public[GP_X25519_SIZE])
{
    static const uint8_t base[GP_X25519_SIZE] = {9};

    multiply(secret, base, ret_public);
}

int
gp_x25519_new(uint8_t ret_secret[GP_X25519_SIZE])
{
    return getrandom(ret_secret, GP_X25519_SIZE, 0) == GP_X25519_SIZE ? 0 : -EIO;
}
