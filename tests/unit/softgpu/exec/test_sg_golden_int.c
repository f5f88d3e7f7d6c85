/* SPDX-License-Identifier: Apache-2.0 */
/* Integer instructions against plain C. */
#include "ut_builds.h"
#include "ut_golden.h"

#define REF(name)                                                                      \
    static uint64_t ref_##name(const struct golden_arg *arg, uint64_t a, uint64_t b,   \
                               uint64_t c)

typedef unsigned __int128 u128;
typedef __int128 s128;

static uint64_t
low(uint64_t v, int bits)
{
    return bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static int64_t
extend(uint64_t v, int bits)
{
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* The value as the instruction's type sees it. */
static s128
value(const struct golden_arg *arg, uint64_t v)
{
    return arg->is_signed ? (s128)extend(v, arg->bits) : (s128)low(v, arg->bits);
}

static s128
clamp(s128 v, s128 lo, s128 hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

REF(add)
{
    return a + b;
}
REF(sub)
{
    return a - b;
}
REF(mul)
{
    return a * b;
}
REF(mad)
{
    return a * b + c;
}
REF(mul_hi)
{
    return (uint64_t)((value(arg, a) * value(arg, b)) >> arg->bits);
}
REF(mul_wide)
{
    return (uint64_t)(value(arg, a) * value(arg, b));
}
REF(mad_wide)
{
    return (uint64_t)(value(arg, a) * value(arg, b)) + c;
}
/* What is added is a constant, of the result's width. */
REF(mad_wide_constant)
{
    return ref_mad_wide(arg, a, b, 0xb0babe9c);
}
REF(neg)
{
    return 0 - a;
}
REF(and)
{
    return a & b;
}
REF(or)
{
    return a | b;
}
REF(xor)
{
    return a ^ b;
}
REF(not )
{
    return ~a;
}
REF(cnot)
{
    return low(a, arg->bits) == 0;
}

/* the product of two u64 does not fit s128: do it in u128 */
REF(mul_hi_u64)
{
    return (uint64_t)((u128)a * b >> 64);
}
REF(mad_hi_u64)
{
    return ref_mul_hi_u64(arg, a, b, c) + c;
}
REF(mad_hi)
{
    return ref_mul_hi(arg, a, b, c) + c;
}

REF(mad_hi_sat)
{
    s128 sum = (s128)extend(ref_mul_hi(arg, a, b, c), 32) + extend(c, 32);

    return (uint64_t)clamp(sum, INT32_MIN, INT32_MAX);
}

REF(add_sat)
{
    return (uint64_t)clamp(value(arg, a) + value(arg, b), INT32_MIN, INT32_MAX);
}

REF(sub_sat)
{
    return (uint64_t)clamp(value(arg, a) - value(arg, b), INT32_MIN, INT32_MAX);
}

/* 24 x 24 bits: .lo is bits 31..0 of the 48, .hi bits 47..16 */
static s128
product24(const struct golden_arg *arg, uint64_t a, uint64_t b)
{
    if (arg->is_signed)
        return (s128)extend(a, 24) * extend(b, 24);
    return (s128)(low(a, 24) * low(b, 24));
}

REF(mul24_lo)
{
    return (uint64_t)product24(arg, a, b);
}
REF(mul24_hi)
{
    return (uint64_t)(product24(arg, a, b) >> 16);
}
REF(mad24_lo)
{
    return ref_mul24_lo(arg, a, b, c) + c;
}
REF(mad24_hi)
{
    return ref_mul24_hi(arg, a, b, c) + c;
}

REF(mad24_hi_sat)
{
    s128 sum = (s128)extend(ref_mul24_hi(arg, a, b, c), 32) + extend(c, 32);

    return (uint64_t)clamp(sum, INT32_MIN, INT32_MAX);
}

REF(sad)
{
    s128 d = value(arg, a) - value(arg, b);

    return (uint64_t)(d < 0 ? -d : d) + c;
}

/* by zero: all ones */
REF(div)
{
    return low(b, arg->bits) ? (uint64_t)(value(arg, a) / value(arg, b)) : UINT64_MAX;
}

/* by zero: the dividend */
REF(rem)
{
    return low(b, arg->bits) ? (uint64_t)(value(arg, a) % value(arg, b)) : a;
}

REF(abs)
{
    return value(arg, a) < 0 ? 0 - a : a;
}
REF(min)
{
    return value(arg, a) < value(arg, b) ? a : b;
}
REF(max)
{
    return value(arg, a) > value(arg, b) ? a : b;
}

REF(relu_min)
{
    return (uint64_t)clamp(extend(ref_min(arg, a, b, c), 32), 0, INT32_MAX);
}

REF(relu_max)
{
    return (uint64_t)clamp(extend(ref_max(arg, a, b, c), 32), 0, INT32_MAX);
}

/* a 16-bit reference on both halves */
static uint64_t
both(golden_ref *ref, const struct golden_arg *arg, uint64_t a, uint64_t b, uint64_t c)
{
    return low(ref(arg, a & 0xffff, b & 0xffff, c & 0xffff), 16) |
           low(ref(arg, a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff), 16)
               << 16;
}

REF(add_x2)
{
    return both(ref_add, arg, a, b, c);
}
REF(min_x2)
{
    return both(ref_min, arg, a, b, c);
}
REF(max_x2)
{
    return both(ref_max, arg, a, b, c);
}

/* shift amounts are 32 bits and clamp */
REF(shl)
{
    return low(b, 32) >= (uint64_t)arg->bits ? 0 : a << low(b, 32);
}

REF(shr)
{
    uint64_t n = low(b, 32);

    if (!arg->is_signed)
        return n >= (uint64_t)arg->bits ? 0 : low(a, arg->bits) >> n;
    return (uint64_t)(extend(a, arg->bits) >> (n > 63 ? 63 : n));
}

static uint64_t
pair(uint64_t lo, uint64_t hi)
{
    return low(lo, 32) | hi << 32;
}

REF(shf_l_wrap)
{
    return (pair(a, b) << (c & 31)) >> 32;
}
REF(shf_l_clamp)
{
    return (uint64_t)((u128)pair(a, b) << (low(c, 32) > 32 ? 32 : c) >> 32);
}
REF(shf_r_wrap)
{
    return pair(a, b) >> (c & 31);
}
REF(shf_r_clamp)
{
    return pair(a, b) >> (low(c, 32) > 32 ? 32 : low(c, 32));
}

/* Bit by bit, as the language's description does.  It restricts positions and lengths
 * to a byte; a card takes no more of them for 32 bits, and the whole register for 64.
 */
static int64_t
field(const struct golden_arg *arg, uint64_t v)
{
    return (int64_t)low(v, arg->bits == 32 ? 8 : 32);
}

REF(bfe)
{
    int64_t msb = arg->bits - 1, pos = field(arg, b), len = field(arg, c), last;
    uint64_t out = 0, sign;

    last = pos + len - 1 < msb ? pos + len - 1 : msb;
    sign = !arg->is_signed || len == 0 ? 0 : a >> last & 1;
    for (int i = 0; i <= msb; i++)
        out |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
    return out;
}

/* insert the low bits of a into b at 7, 9 bits */
REF(bfi_7_9)
{
    return (b & ~(UINT64_C(0x1ff) << 7)) | (a & 0x1ff) << 7;
}

/* insert %a into %b, position %c, length 11 */
REF(bfi)
{
    int64_t msb = arg->bits - 1, pos = field(arg, c);
    uint64_t out = b;

    for (int i = 0; i < 11 && pos + i <= msb; i++)
        out = (out & ~(UINT64_C(1) << (pos + i))) | (a >> i & 1) << (pos + i);
    return out;
}

REF(bfind)
{
    uint64_t v = low(a, arg->bits);

    if (arg->is_signed && value(arg, a) < 0)
        v = low(~v, arg->bits);
    for (int i = arg->bits - 1; i >= 0; i--) {
        if (v >> i & 1)
            return (uint64_t)i;
    }
    return UINT32_MAX;
}

REF(bfind_shift)
{
    uint64_t at = ref_bfind(arg, a, b, c);

    return at == UINT32_MAX ? at : (uint64_t)arg->bits - 1 - at;
}

REF(brev)
{
    uint64_t out = 0;

    for (int i = 0; i < arg->bits; i++)
        out |= (a >> i & 1) << (arg->bits - 1 - i);
    return out;
}

REF(clz)
{
    uint64_t n = 0;

    for (int i = arg->bits - 1; i >= 0 && !(a >> i & 1); i--)
        n++;
    return n;
}

REF(popc)
{
    uint64_t n = 0;

    for (int i = 0; i < arg->bits; i++)
        n += a >> i & 1;
    return n;
}

static uint64_t
mask_from(uint64_t pos, uint64_t len)
{
    uint64_t out = 0;

    for (uint64_t i = pos; i < 32 && i - pos < len; i++)
        out |= UINT64_C(1) << i;
    return out;
}

REF(bmsk_clamp)
{
    return mask_from(low(a, 32), low(b, 32));
}
REF(bmsk_wrap)
{
    return mask_from(a & 31, b & 31);
}

static uint64_t
extend_at(const struct golden_arg *arg, uint64_t a, uint64_t n)
{
    uint64_t kept = n >= 32 ? low(a, 32) : low(a, 32) & ((UINT64_C(1) << n) - 1);
    bool sign = arg->is_signed && n > 0 && n <= 32 && (a >> (n - 1) & 1);

    return sign && n < 32 ? kept | (UINT32_MAX << n) : kept;
}

REF(szext_clamp)
{
    return extend_at(arg, a, low(b, 32) > 32 ? 32 : low(b, 32));
}
REF(szext_wrap)
{
    return extend_at(arg, a, b & 31);
}

static uint64_t
byte_of(uint64_t a, uint64_t b, unsigned sel)
{
    uint64_t v = pair(a, b) >> 8 * (sel & 7) & 0xff;

    return sel & 8 ? (v & 0x80 ? 0xff : 0) : v;
}

static uint64_t
four_bytes(uint64_t a, uint64_t b, const unsigned sel[4])
{
    uint64_t out = 0;

    for (int i = 0; i < 4; i++)
        out |= byte_of(a, b, sel[i]) << 8 * i;
    return out;
}

REF(prmt)
{
    unsigned sel[4];

    for (int i = 0; i < 4; i++)
        sel[i] = (unsigned)(c >> 4 * i & 15);
    return four_bytes(a, b, sel);
}

REF(prmt_f4e)
{
    unsigned n = (unsigned)c & 3, sel[4] = {n, n + 1, n + 2, n + 3};

    return four_bytes(a, b, sel);
}

REF(prmt_b4e)
{
    unsigned n = (unsigned)c & 3, sel[4] = {n, (n + 7) & 7, (n + 6) & 7, (n + 5) & 7};

    return four_bytes(a, b, sel);
}

REF(prmt_rc8)
{
    unsigned n = (unsigned)c & 3, sel[4] = {n, n, n, n};

    return four_bytes(a, b, sel);
}

REF(prmt_ecl)
{
    unsigned n = (unsigned)c & 3, sel[4];

    for (unsigned i = 0; i < 4; i++)
        sel[i] = i > n ? i : n;
    return four_bytes(a, b, sel);
}

REF(prmt_ecr)
{
    unsigned n = (unsigned)c & 3, sel[4];

    for (unsigned i = 0; i < 4; i++)
        sel[i] = i < n ? i : n;
    return four_bytes(a, b, sel);
}

REF(prmt_rc16)
{
    unsigned n = 2 * ((unsigned)c & 1), sel[4] = {n, n + 1, n, n + 1};

    return four_bytes(a, b, sel);
}

static int64_t
lane(uint64_t v, int index, int bits, bool is_signed)
{
    v = low(v >> index * bits, bits);
    return is_signed ? extend(v, bits) : (int64_t)v;
}

/* round: bit 0 = %b signed, bit 1 = .hi of dp2a */
REF(dp4a)
{
    for (int i = 0; i < 4; i++)
        c += (uint64_t)(lane(a, i, 8, arg->is_signed) * lane(b, i, 8, arg->round & 1));
    return c;
}

REF(dp2a)
{
    int first = arg->round & 2 ? 2 : 0;

    for (int i = 0; i < 2; i++)
        c += (uint64_t)(lane(a, i, 16, arg->is_signed) *
                        lane(b, first + i, 8, arg->round & 1));
    return c;
}

/* lop3 with table 0xe8: majority; 0x96: parity */
REF(majority)
{
    return (a & b) | (a & c) | (b & c);
}
REF(parity)
{
    return a ^ b ^ c;
}
REF(select_bits)
{
    return (a & b) | (~a & c);
}

/* carries: the second word of a sum, a difference, a product */
REF(carry)
{
    return (low(a, 32) + low(b, 32)) >> 32;
}
REF(borrow)
{
    return low(a, 32) < low(b, 32) ? UINT32_MAX : 0;
}
REF(carry64)
{
    return (uint64_t)(((u128)a + b) >> 64);
}
/* Chains that mix additions and subtractions: CC.CF is the carry of a + ~b + 1. */
REF(not_borrow)
{
    return low(a, arg->bits) >= low(b, arg->bits);
}
REF(not_borrow_of_two)
{
    return (low(c, 32) << 32 | low(a, 32)) >= (low(a, 32) << 32 | low(b, 32));
}
REF(not_carry)
{
    return (u128)low(a, arg->bits) + low(b, arg->bits) > low(UINT64_MAX, arg->bits)
               ? 0
               : UINT64_MAX;
}
REF(not_borrow_after_carry)
{
    return low(a, 32) + (UINT32_MAX - low(c, 32)) + ((low(a, 32) + low(b, 32)) >> 32) >
           UINT32_MAX;
}
REF(mad_after_borrow)
{
    return a * b + c + (low(a, 32) >= low(b, 32));
}
REF(high_of_mad)
{
    return (uint64_t)(((u128)low(a, 32) * low(b, 32) + low(c, 32)) >> 32);
}

#define U(n)                                                                           \
    {                                                                                  \
        .bits = n                                                                      \
    }
#define S(n)                                                                           \
    {                                                                                  \
        .bits = n, .is_signed = true                                                   \
    }
#define W32 {32, 32, 32}, 32
#define W64 {64, 64, 64}, 64
#define W16 {16, 16, 16}, 16
#define WIDE {32, 32, 64}, 64
#define WIDE16 {16, 16, 32}, 32
#define SHIFT64 {64, 32, 32}, 64
#define SHIFT16 {16, 32, 32}, 16
#define COUNT64 {64, 64, 64}, 32

static void
sums_and_products(void **state)
{
    static const struct golden list[] = {
        {"add.u32 %d, %a, %b;", W32, ref_add, U(32)},
        {"add.s64 %d, %a, %b;", W64, ref_add, S(64)},
        {"add.u16 %d, %a, %b;", W16, ref_add, U(16)},
        {"add.sat.s32 %d, %a, %b;", W32, ref_add_sat, S(32)},
        {"sub.s32 %d, %a, %b;", W32, ref_sub, S(32)},
        {"sub.u64 %d, %a, %b;", W64, ref_sub, U(64)},
        {"sub.s16 %d, %a, %b;", W16, ref_sub, S(16)},
        {"sub.sat.s32 %d, %a, %b;", W32, ref_sub_sat, S(32)},
        {"mul.lo.u32 %d, %a, %b;", W32, ref_mul, U(32)},
        {"mul.lo.s64 %d, %a, %b;", W64, ref_mul, S(64)},
        {"mul.lo.s16 %d, %a, %b;", W16, ref_mul, S(16)},
        {"mul.hi.u32 %d, %a, %b;", W32, ref_mul_hi, U(32)},
        {"mul.hi.s32 %d, %a, %b;", W32, ref_mul_hi, S(32)},
        {"mul.hi.u64 %d, %a, %b;", W64, ref_mul_hi_u64, U(64)},
        {"mul.hi.s64 %d, %a, %b;", W64, ref_mul_hi, S(64)},
        {"mul.hi.u16 %d, %a, %b;", W16, ref_mul_hi, U(16)},
        {"mul.hi.s16 %d, %a, %b;", W16, ref_mul_hi, S(16)},
        {"mul.wide.u32 %d, %a, %b;", WIDE, ref_mul_wide, U(32)},
        {"mul.wide.s32 %d, %a, %b;", WIDE, ref_mul_wide, S(32)},
        {"mul.wide.u16 %d, %a, %b;", WIDE16, ref_mul_wide, U(16)},
        {"mul.wide.s16 %d, %a, %b;", WIDE16, ref_mul_wide, S(16)},
        {"mad.lo.s32 %d, %a, %b, %c;", W32, ref_mad, S(32)},
        {"mad.lo.u64 %d, %a, %b, %c;", W64, ref_mad, U(64)},
        {"mad.lo.u16 %d, %a, %b, %c;", W16, ref_mad, U(16)},
        {"mad.hi.u32 %d, %a, %b, %c;", W32, ref_mad_hi, U(32)},
        {"mad.hi.s32 %d, %a, %b, %c;", W32, ref_mad_hi, S(32)},
        {"mad.hi.u64 %d, %a, %b, %c;", W64, ref_mad_hi_u64, U(64)},
        {"mad.hi.s64 %d, %a, %b, %c;", W64, ref_mad_hi, S(64)},
        {"mad.hi.s16 %d, %a, %b, %c;", W16, ref_mad_hi, S(16)},
        {"mad.hi.sat.s32 %d, %a, %b, %c;", W32, ref_mad_hi_sat, S(32)},
        {"mad.wide.u32 %d, %a, %b, %c;", WIDE, ref_mad_wide, U(32)},
        {"mad.wide.s32 %d, %a, %b, %c;", WIDE, ref_mad_wide, S(32)},
        {"mad.wide.s16 %d, %a, %b, %c;", WIDE16, ref_mad_wide, S(16)},
        {"mad.wide.u16 %d, %a, %b, %c;", WIDE16, ref_mad_wide, U(16)},
        {"mad.wide.u16 %d, %a, %b, 0xb0babe9c;", WIDE16, ref_mad_wide_constant, U(16)},
        {"mad.wide.s16 %d, %a, %b, 0xb0babe9c;", WIDE16, ref_mad_wide_constant, S(16)},
        {"mul24.lo.u32 %d, %a, %b;", W32, ref_mul24_lo, U(32)},
        {"mul24.lo.s32 %d, %a, %b;", W32, ref_mul24_lo, S(32)},
        {"mul24.hi.u32 %d, %a, %b;", W32, ref_mul24_hi, U(32)},
        {"mul24.hi.s32 %d, %a, %b;", W32, ref_mul24_hi, S(32)},
        {"mad24.lo.s32 %d, %a, %b, %c;", W32, ref_mad24_lo, S(32)},
        {"mad24.hi.u32 %d, %a, %b, %c;", W32, ref_mad24_hi, U(32)},
        {"mad24.hi.s32 %d, %a, %b, %c;", W32, ref_mad24_hi, S(32)},
        {"mad24.hi.sat.s32 %d, %a, %b, %c;", W32, ref_mad24_hi_sat, S(32)},
        {"sad.u32 %d, %a, %b, %c;", W32, ref_sad, U(32)},
        {"sad.s32 %d, %a, %b, %c;", W32, ref_sad, S(32)},
        {"sad.s64 %d, %a, %b, %c;", W64, ref_sad, S(64)},
        {"sad.u16 %d, %a, %b, %c;", W16, ref_sad, U(16)},
        {"sad.s16 %d, %a, %b, %c;", W16, ref_sad, S(16)},
        {"add.cc.u32 %t0, %a, %b; addc.u32 %d, 0, 0;", W32, ref_carry, U(32)},
        {"add.cc.u64 %d, %a, %b; addc.u64 %d, 0, 0;", W64, ref_carry64, U(64)},
        {"sub.cc.u32 %t0, %a, %b; subc.u32 %d, 0, 0;", W32, ref_borrow, U(32)},
        {"sub.cc.u32 %t0, %a, %b; addc.u32 %d, 0, 0;", W32, ref_not_borrow, U(32)},
        {"sub.cc.u64 %d, %a, %b; addc.u64 %d, 0, 0;", W64, ref_not_borrow, U(64)},
        {"sub.cc.u32 %t0, %a, %b; subc.cc.u32 %t0, %c, %a; addc.u32 %d, 0, 0;", W32,
         ref_not_borrow_of_two, U(32)},
        {"add.cc.u32 %t0, %a, %b; subc.u32 %d, 0, 0;", W32, ref_not_carry, U(32)},
        {"add.cc.u64 %d, %a, %b; subc.u64 %d, 0, 0;", W64, ref_not_carry, U(64)},
        {"add.cc.u32 %t0, %a, %b; subc.cc.u32 %t0, %a, %c; addc.u32 %d, 0, 0;", W32,
         ref_not_borrow_after_carry, U(32)},
        {"sub.cc.u32 %t0, %a, %b; madc.lo.u32 %d, %a, %b, %c;", W32,
         ref_mad_after_borrow, U(32)},
        {"mad.lo.cc.u32 %t0, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", W32,
         ref_high_of_mad, U(32)},
    };

    GOLDEN_RUN(list);
}

static void
quotients_and_order(void **state)
{
    static const struct golden list[] = {
        {"div.u32 %d, %a, %b;", W32, ref_div, U(32)},
        {"div.s32 %d, %a, %b;", W32, ref_div, S(32)},
        {"div.u64 %d, %a, %b;", W64, ref_div, U(64)},
        {"div.s64 %d, %a, %b;", W64, ref_div, S(64)},
        {"div.u16 %d, %a, %b;", W16, ref_div, U(16)},
        {"div.s16 %d, %a, %b;", W16, ref_div, S(16)},
        {"rem.u32 %d, %a, %b;", W32, ref_rem, U(32)},
        {"rem.s32 %d, %a, %b;", W32, ref_rem, S(32)},
        {"rem.u64 %d, %a, %b;", W64, ref_rem, U(64)},
        {"rem.s64 %d, %a, %b;", W64, ref_rem, S(64)},
        {"rem.u16 %d, %a, %b;", W16, ref_rem, U(16)},
        {"rem.s16 %d, %a, %b;", W16, ref_rem, S(16)},
        {"abs.s32 %d, %a;", W32, ref_abs, S(32)},
        {"abs.s64 %d, %a;", W64, ref_abs, S(64)},
        {"abs.s16 %d, %a;", W16, ref_abs, S(16)},
        {"neg.s32 %d, %a;", W32, ref_neg, S(32)},
        {"neg.s64 %d, %a;", W64, ref_neg, S(64)},
        {"neg.s16 %d, %a;", W16, ref_neg, S(16)},
        {"min.u32 %d, %a, %b;", W32, ref_min, U(32)},
        {"min.s32 %d, %a, %b;", W32, ref_min, S(32)},
        {"min.u64 %d, %a, %b;", W64, ref_min, U(64)},
        {"min.s64 %d, %a, %b;", W64, ref_min, S(64)},
        {"min.u16 %d, %a, %b;", W16, ref_min, U(16)},
        {"min.s16 %d, %a, %b;", W16, ref_min, S(16)},
        {"max.u32 %d, %a, %b;", W32, ref_max, U(32)},
        {"max.s32 %d, %a, %b;", W32, ref_max, S(32)},
        {"max.u64 %d, %a, %b;", W64, ref_max, U(64)},
        {"max.s64 %d, %a, %b;", W64, ref_max, S(64)},
        {"max.u16 %d, %a, %b;", W16, ref_max, U(16)},
        {"max.s16 %d, %a, %b;", W16, ref_max, S(16)},
        {"min.relu.s32 %d, %a, %b;", W32, ref_relu_min, S(32)},
        {"max.relu.s32 %d, %a, %b;", W32, ref_relu_max, S(32)},
        {"add.u16x2 %d, %a, %b;", W32, ref_add_x2, U(16)},
        {"min.s16x2 %d, %a, %b;", W32, ref_min_x2, S(16)},
        {"min.u16x2 %d, %a, %b;", W32, ref_min_x2, U(16)},
        {"max.s16x2 %d, %a, %b;", W32, ref_max_x2, S(16)},
        {"max.u16x2 %d, %a, %b;", W32, ref_max_x2, U(16)},
    };

    GOLDEN_RUN(list);
}

static void
bits_and_shifts(void **state)
{
    static const struct golden list[] = {
        {"and.b32 %d, %a, %b;", W32, ref_and, U(32)},
        {"and.b16 %d, %a, %b;", W16, ref_and, U(16)},
        {"or.b64 %d, %a, %b;", W64, ref_or, U(64)},
        {"xor.b32 %d, %a, %b;", W32, ref_xor, U(32)},
        {"xor.b16 %d, %a, %b;", W16, ref_xor, U(16)},
        {"not.b32 %d, %a;", W32, ref_not, U(32)},
        {"not.b64 %d, %a;", W64, ref_not, U(64)},
        {"not.b16 %d, %a;", W16, ref_not, U(16)},
        {"cnot.b32 %d, %a;", W32, ref_cnot, U(32)},
        {"cnot.b64 %d, %a;", W64, ref_cnot, U(64)},
        {"cnot.b16 %d, %a;", W16, ref_cnot, U(16)},
        {"lop3.b32 %d, %a, %b, %c, 0xe8;", W32, ref_majority, U(32)},
        {"lop3.b32 %d, %a, %b, %c, 0x96;", W32, ref_parity, U(32)},
        {"lop3.b32 %d, %a, %b, %c, 0xca;", W32, ref_select_bits, U(32)},
        {"shl.b32 %d, %a, %b;", W32, ref_shl, U(32)},
        {"shl.b64 %d, %a, %b;", SHIFT64, ref_shl, U(64)},
        {"shl.b16 %d, %a, %b;", SHIFT16, ref_shl, U(16)},
        {"shr.u32 %d, %a, %b;", W32, ref_shr, U(32)},
        {"shr.s32 %d, %a, %b;", W32, ref_shr, S(32)},
        {"shr.b32 %d, %a, %b;", W32, ref_shr, U(32)},
        {"shr.u64 %d, %a, %b;", SHIFT64, ref_shr, U(64)},
        {"shr.s64 %d, %a, %b;", SHIFT64, ref_shr, S(64)},
        {"shr.u16 %d, %a, %b;", SHIFT16, ref_shr, U(16)},
        {"shr.s16 %d, %a, %b;", SHIFT16, ref_shr, S(16)},
        {"shf.l.wrap.b32 %d, %a, %b, %c;", W32, ref_shf_l_wrap, U(32)},
        {"shf.l.clamp.b32 %d, %a, %b, %c;", W32, ref_shf_l_clamp, U(32)},
        {"shf.r.wrap.b32 %d, %a, %b, %c;", W32, ref_shf_r_wrap, U(32)},
        {"shf.r.clamp.b32 %d, %a, %b, %c;", W32, ref_shf_r_clamp, U(32)},
        {"brev.b32 %d, %a;", W32, ref_brev, U(32)},
        {"brev.b64 %d, %a;", W64, ref_brev, U(64)},
        {"clz.b32 %d, %a;", W32, ref_clz, U(32)},
        {"clz.b64 %d, %a;", COUNT64, ref_clz, U(64)},
        {"popc.b32 %d, %a;", W32, ref_popc, U(32)},
        {"popc.b64 %d, %a;", COUNT64, ref_popc, U(64)},
        {"bfind.u32 %d, %a;", W32, ref_bfind, U(32)},
        {"bfind.s32 %d, %a;", W32, ref_bfind, S(32)},
        {"bfind.u64 %d, %a;", COUNT64, ref_bfind, U(64)},
        {"bfind.s64 %d, %a;", COUNT64, ref_bfind, S(64)},
        {"bfind.shiftamt.u32 %d, %a;", W32, ref_bfind_shift, U(32)},
        {"bfind.shiftamt.s32 %d, %a;", W32, ref_bfind_shift, S(32)},
        {"bfind.shiftamt.s64 %d, %a;", COUNT64, ref_bfind_shift, S(64)},
        {"bmsk.clamp.b32 %d, %a, %b;", W32, ref_bmsk_clamp, U(32)},
        {"bmsk.wrap.b32 %d, %a, %b;", W32, ref_bmsk_wrap, U(32)},
        {"szext.clamp.u32 %d, %a, %b;", W32, ref_szext_clamp, U(32)},
        {"szext.clamp.s32 %d, %a, %b;", W32, ref_szext_clamp, S(32)},
        {"szext.wrap.u32 %d, %a, %b;", W32, ref_szext_wrap, U(32)},
        {"szext.wrap.s32 %d, %a, %b;", W32, ref_szext_wrap, S(32)},
    };

    GOLDEN_RUN(list);
}

static void
fields_and_bytes(void **state)
{
    static const struct golden list[] = {
        {"bfe.u32 %d, %a, %b, %c;", W32, ref_bfe, U(32)},
        {"bfe.s32 %d, %a, %b, %c;", W32, ref_bfe, S(32)},
        {"bfe.u64 %d, %a, %b, %c;", {64, 32, 32}, 64, ref_bfe, U(64)},
        {"bfe.s64 %d, %a, %b, %c;", {64, 32, 32}, 64, ref_bfe, S(64)},
        {"bfi.b32 %d, %a, %b, 7, 9;", W32, ref_bfi_7_9, U(32)},
        {"bfi.b64 %d, %a, %b, 7, 9;", W64, ref_bfi_7_9, U(64)},
        {"bfi.b32 %d, %a, %b, %c, 11;", W32, ref_bfi, U(32)},
        {"bfi.b64 %d, %a, %b, %c, 11;", {64, 64, 32}, 64, ref_bfi, U(64)},
        {"prmt.b32 %d, %a, %b, %c;", W32, ref_prmt, U(32)},
        {"prmt.b32.f4e %d, %a, %b, %c;", W32, ref_prmt_f4e, U(32)},
        {"prmt.b32.b4e %d, %a, %b, %c;", W32, ref_prmt_b4e, U(32)},
        {"prmt.b32.rc8 %d, %a, %b, %c;", W32, ref_prmt_rc8, U(32)},
        {"prmt.b32.ecl %d, %a, %b, %c;", W32, ref_prmt_ecl, U(32)},
        {"prmt.b32.ecr %d, %a, %b, %c;", W32, ref_prmt_ecr, U(32)},
        {"prmt.b32.rc16 %d, %a, %b, %c;", W32, ref_prmt_rc16, U(32)},
        {"dp4a.u32.u32 %d, %a, %b, %c;", W32, ref_dp4a, {.round = 0}},
        {"dp4a.u32.s32 %d, %a, %b, %c;", W32, ref_dp4a, {.round = 1}},
        {"dp4a.s32.u32 %d, %a, %b, %c;", W32, ref_dp4a, {.is_signed = true}},
        {"dp4a.s32.s32 %d, %a, %b, %c;",
         W32,
         ref_dp4a,
         {.is_signed = true, .round = 1}},
        {"dp2a.lo.u32.u32 %d, %a, %b, %c;", W32, ref_dp2a, {.round = 0}},
        {"dp2a.lo.s32.s32 %d, %a, %b, %c;",
         W32,
         ref_dp2a,
         {.is_signed = true, .round = 1}},
        {"dp2a.hi.u32.s32 %d, %a, %b, %c;", W32, ref_dp2a, {.round = 3}},
        {"dp2a.hi.s32.u32 %d, %a, %b, %c;",
         W32,
         ref_dp2a,
         {.is_signed = true, .round = 2}},
    };

    GOLDEN_RUN(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products),
        cmocka_unit_test(quotients_and_order),
        cmocka_unit_test(bits_and_shifts),
        cmocka_unit_test(fields_and_bytes),
        cmocka_unit_test(ut_builds_lower_agree),
        cmocka_unit_test(ut_builds_machine_code_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
