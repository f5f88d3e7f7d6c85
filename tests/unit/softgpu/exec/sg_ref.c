/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_ref.h"

typedef unsigned __int128 u128;

const struct ref_fmt ref_f16 = {16, 11, -14, 15, 0x7fff};
const struct ref_fmt ref_bf16 = {16, 8, -126, 127, 0x7fff};
const struct ref_fmt ref_f32 = {32, 24, -126, 127, 0x7fffffff};
const struct ref_fmt ref_f64 = {64, 53, -1022, 1023, 0x7fffffffffffffff};

static int
length_of(u128 m)
{
    int n = 0;

    for (; m; m >>= 1)
        n++;
    return n;
}

static uint64_t
mantissa_mask(const struct ref_fmt *fmt)
{
    return (UINT64_C(1) << (fmt->precision - 1)) - 1;
}

static uint64_t
exponent_field(const struct ref_fmt *fmt, uint64_t bits)
{
    uint64_t mask = (UINT64_C(1) << (fmt->bits - fmt->precision)) - 1;

    return bits >> (fmt->precision - 1) & mask;
}

static uint64_t
infinity(const struct ref_fmt *fmt)
{
    return (uint64_t)(2 * fmt->emax + 1) << (fmt->precision - 1);
}

static uint64_t
sign_bit(const struct ref_fmt *fmt)
{
    return UINT64_C(1) << (fmt->bits - 1);
}

struct ref_num
ref_unpack(const struct ref_fmt *fmt, uint64_t bits)
{
    uint64_t field = exponent_field(fmt, bits), man = bits & mantissa_mask(fmt);
    struct ref_num num = {.class = REF_FINITE, .neg = bits & sign_bit(fmt)};

    if (field == (uint64_t)(2 * fmt->emax + 1)) {
        num.class = man ? REF_NAN : REF_INF;
    } else if (field == 0) {
        num.class = man ? REF_FINITE : REF_ZERO;
        num.m = man;
        num.e = fmt->emin - (fmt->precision - 1);
    } else {
        num.m = man | (mantissa_mask(fmt) + 1);
        num.e = (int)field - fmt->emax - (fmt->precision - 1);
    }
    return num;
}

/* Does a value between q and q+1 go up?  @half: below, at, above the middle. */
static bool
goes_up(uint64_t q, int half, bool inexact, bool neg, enum ref_round round)
{
    switch (round) {
    case REF_RN:
        return half > 0 || (half == 0 && (q & 1));
    case REF_RNA:
        return half >= 0;
    case REF_RM:
        return inexact && neg;
    case REF_RP:
        return inexact && !neg;
    default:
        return false;
    }
}

/* m * 2^-shift (plus sticky) rounded to an integer.  m has at most 127 bits. */
static u128
round_shift(u128 m, bool sticky, int shift, bool neg, enum ref_round round)
{
    u128 q, rest, middle;
    bool inexact;
    int half;

    if (shift <= 0)
        return m << -shift; /* the caller sees to it that sticky is clear */
    if (shift > 127) {      /* less than half of one */
        sticky |= m != 0;
        m = 0;
        shift = 127;
    }
    q = m >> shift;
    rest = m & (((u128)1 << shift) - 1);
    middle = (u128)1 << (shift - 1);
    inexact = rest || sticky;
    half = rest > middle || (rest == middle && sticky) ? 1 : rest == middle ? 0 : -1;
    return q + goes_up((uint64_t)q, half, inexact, neg, round);
}

static uint64_t
overflow(const struct ref_fmt *fmt, bool neg, enum ref_round round)
{
    bool to_max =
        round == REF_RZ || (round == REF_RM && !neg) || (round == REF_RP && neg);

    return infinity(fmt) - to_max;
}

uint64_t
ref_pack(const struct ref_fmt *fmt, struct ref_num num, enum ref_round round)
{
    uint64_t sign = num.neg ? sign_bit(fmt) : 0, q;
    int top, lsb;

    if (num.class == REF_NAN)
        return fmt->nan;
    if (num.class == REF_INF)
        return sign | infinity(fmt);
    if (num.class == REF_ZERO)
        return sign;
    top = num.e + length_of(num.m) - 1;
    lsb = (top < fmt->emin ? fmt->emin : top) - (fmt->precision - 1);
    q = (uint64_t)round_shift(num.m, num.sticky, lsb - num.e, num.neg, round);
    if (q == UINT64_C(1) << fmt->precision) { /* rounded up to the next power */
        q >>= 1;
        lsb++;
    }
    if (lsb + fmt->precision - 1 > fmt->emax)
        return sign | overflow(fmt, num.neg, round);
    if (q <= mantissa_mask(fmt))
        return sign | q; /* subnormal or zero */
    return sign |
           (uint64_t)(lsb + fmt->precision - 1 + fmt->emax) << (fmt->precision - 1) |
           (q & mantissa_mask(fmt));
}

bool
ref_is_nan(const struct ref_fmt *fmt, uint64_t bits)
{
    return (bits & (sign_bit(fmt) - 1)) > infinity(fmt);
}

bool
ref_is_subnormal(const struct ref_fmt *fmt, uint64_t bits)
{
    return exponent_field(fmt, bits) == 0 && (bits & mantissa_mask(fmt));
}

uint64_t
ref_flush(const struct ref_fmt *fmt, uint64_t bits)
{
    return ref_is_subnormal(fmt, bits) ? bits & sign_bit(fmt) : bits;
}

uint64_t
ref_narrow_nan(const struct ref_fmt *fmt, uint64_t bits)
{
    int mant = fmt->precision - 1;
    uint64_t payload = (bits & mantissa_mask(&ref_f64)) >> (52 - mant);
    uint64_t inf = (sign_bit(fmt) - 1) & ~mantissa_mask(fmt);

    return bits >> 63 << (fmt->bits - 1) | inf | UINT64_C(1) << (mant - 1) | payload;
}

uint64_t
ref_saturate(const struct ref_fmt *fmt, uint64_t bits)
{
    uint64_t one = (uint64_t)fmt->emax << (fmt->precision - 1);

    if (ref_is_nan(fmt, bits) || (bits & sign_bit(fmt)))
        return 0;
    return bits > one ? one : bits;
}

static struct ref_num
special(enum ref_class class, bool neg)
{
    return (struct ref_num){.class = class, .neg = neg};
}

struct ref_num
ref_neg(struct ref_num a)
{
    a.neg = !a.neg;
    return a;
}

/* Shift left until bit 125 is the highest: room for one carry. */
static void
normalize(struct ref_num *a)
{
    int shift = 126 - length_of(a->m);

    a->m <<= shift;
    a->e -= shift;
}

static void
shift_right_sticky(struct ref_num *a, int n)
{
    if (n > 127) {
        a->sticky |= a->m != 0;
        a->m = 0;
    } else if (n > 0) {
        a->sticky |= (a->m & (((u128)1 << n) - 1)) != 0;
        a->m >>= n;
    }
    a->e += n;
}

/* Both finite, not zero. */
static struct ref_num
add_finite(struct ref_num a, struct ref_num b, enum ref_round round)
{
    normalize(&a);
    normalize(&b);
    if (a.e < b.e || (a.e == b.e && a.m < b.m)) {
        struct ref_num t = a;

        a = b;
        b = t;
    }
    shift_right_sticky(&b, a.e - b.e);
    a.sticky |= b.sticky;
    if (a.neg == b.neg)
        a.m += b.m;
    else
        a.m -= b.m + (b.sticky ? 1 : 0); /* what is missing is in sticky */
    if (!a.m && !a.sticky)
        return special(REF_ZERO, round == REF_RM);
    return a;
}

struct ref_num
ref_add(struct ref_num a, struct ref_num b, enum ref_round round)
{
    if (a.class == REF_NAN || b.class == REF_NAN)
        return special(REF_NAN, false);
    if (a.class == REF_INF && b.class == REF_INF && a.neg != b.neg)
        return special(REF_NAN, false);
    if (a.class == REF_INF || b.class == REF_INF)
        return a.class == REF_INF ? a : b;
    if (a.class == REF_ZERO && b.class == REF_ZERO)
        return special(REF_ZERO, a.neg == b.neg ? a.neg : round == REF_RM);
    if (a.class == REF_ZERO || b.class == REF_ZERO)
        return a.class == REF_ZERO ? b : a;
    return add_finite(a, b, round);
}

struct ref_num
ref_mul(struct ref_num a, struct ref_num b)
{
    bool neg = a.neg != b.neg;

    if (a.class == REF_NAN || b.class == REF_NAN)
        return special(REF_NAN, false);
    if (a.class == REF_INF || b.class == REF_INF)
        return a.class == REF_ZERO || b.class == REF_ZERO ? special(REF_NAN, false)
                                                          : special(REF_INF, neg);
    if (a.class == REF_ZERO || b.class == REF_ZERO)
        return special(REF_ZERO, neg);
    return (struct ref_num){REF_FINITE, neg, false, a.e + b.e, a.m * b.m};
}

struct ref_num
ref_div(struct ref_num a, struct ref_num b)
{
    struct ref_num q = {REF_FINITE, a.neg != b.neg, false, 0, 0};
    int shift;

    if (a.class == REF_NAN || b.class == REF_NAN ||
        (a.class == b.class && (a.class == REF_INF || a.class == REF_ZERO)))
        return special(REF_NAN, false);
    if (a.class == REF_INF || b.class == REF_ZERO)
        return special(REF_INF, q.neg);
    if (a.class == REF_ZERO || b.class == REF_INF)
        return special(REF_ZERO, q.neg);
    shift = 126 - length_of(a.m);
    q.m = (a.m << shift) / b.m; /* at least 73 bits */
    q.sticky = (a.m << shift) % b.m != 0;
    q.e = a.e - shift - b.e;
    return q;
}

struct ref_num
ref_sqrt(struct ref_num a)
{
    struct ref_num root = {REF_FINITE, false, false, 0, 0};
    int shift;

    if (a.class == REF_NAN || (a.neg && a.class != REF_ZERO))
        return special(REF_NAN, false);
    if (a.class != REF_FINITE)
        return a;
    shift = 126 - length_of(a.m);
    shift -= (a.e - shift) & 1;
    a.m <<= shift;
    a.e -= shift;
    for (u128 bit = (u128)1 << 63; bit; bit >>= 1) {
        if ((root.m + bit) * (root.m + bit) <= a.m)
            root.m += bit;
    }
    root.sticky = root.m * root.m != a.m;
    root.e = a.e / 2;
    return root;
}

struct ref_num
ref_from_uint(uint64_t value)
{
    return value ? (struct ref_num){REF_FINITE, false, false, 0, value}
                 : special(REF_ZERO, false);
}

struct ref_num
ref_from_int(int64_t value)
{
    struct ref_num num =
        ref_from_uint(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);

    num.neg = value < 0;
    return num;
}

/* |a| against |b|, neither NaN. */
static int
compare_magnitude(struct ref_num a, struct ref_num b)
{
    int rank_a = a.class == REF_ZERO ? 0 : a.class == REF_INF ? 2 : 1;
    int rank_b = b.class == REF_ZERO ? 0 : b.class == REF_INF ? 2 : 1;

    if (rank_a != rank_b || rank_a != 1)
        return (rank_a > rank_b) - (rank_a < rank_b);
    normalize(&a);
    normalize(&b);
    if (a.e != b.e)
        return a.e > b.e ? 1 : -1;
    return (a.m > b.m) - (a.m < b.m);
}

int
ref_compare(struct ref_num a, struct ref_num b)
{
    if (a.class == REF_NAN || b.class == REF_NAN)
        return 2;
    if (a.class == REF_ZERO && b.class == REF_ZERO)
        return 0;
    if (a.neg != b.neg)
        return a.neg ? -1 : 1;
    return a.neg ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

struct ref_num
ref_integral(struct ref_num a, enum ref_round round)
{
    if (a.class != REF_FINITE || a.e >= 0)
        return a;
    a.m = round_shift(a.m, a.sticky, -a.e, a.neg, round);
    a.e = 0;
    a.sticky = false;
    if (!a.m)
        a.class = REF_ZERO;
    return a;
}

uint64_t
ref_to_int(struct ref_num a, int bits, bool is_signed, enum ref_round round)
{
    u128 max = ((u128)1 << (bits - is_signed)) - 1, min = is_signed ? max + 1 : 0, m;
    bool huge;

    if (a.class == REF_NAN)
        return UINT64_C(1) << (bits - 1);
    if (a.class == REF_ZERO)
        return 0;
    a = ref_integral(a, round);
    huge = a.class == REF_INF || (a.e > 0 && length_of(a.m) + a.e > 127);
    m = a.class == REF_ZERO ? 0 : huge ? ~(u128)0 : a.m << (a.e > 0 ? a.e : 0);
    if (a.neg)
        return 0 - (uint64_t)(m > min ? min : m);
    return (uint64_t)(m > max ? max : m);
}
