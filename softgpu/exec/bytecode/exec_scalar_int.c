/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar integer operations; see exec_scalar.h.
 *
 * Division by zero gives all ones and the dividend as remainder, as cards do; nothing
 * here traps.
 */
#include "exec_scalar.h"

#include "exec_lane.h"
#include "gp_base.h"

#define F1(name) uint64_t sg_fn_##name(uint64_t a, uint64_t b, uint64_t c)
#define UNUSED1 (void)b, (void)c
#define UNUSED2 (void)c
typedef __int128 s128;
typedef unsigned __int128 u128;

#define S32(x) ((int32_t)(uint32_t)(x))
#define S16(x) ((int16_t)(uint16_t)(x))
#define U32(x) ((uint32_t)(x))

static uint32_t
clamp_s32(int64_t v)
{
    return (uint32_t)(int32_t)(v > INT32_MAX   ? INT32_MAX
                               : v < INT32_MIN ? INT32_MIN
                                               : v);
}

#define BIN(name, expr)                                                                \
    F1(name)                                                                           \
    {                                                                                  \
        UNUSED2;                                                                       \
        return (expr);                                                                 \
    }
#define TRI(name, expr)                                                                \
    F1(name)                                                                           \
    {                                                                                  \
        return (expr);                                                                 \
    }
#define UNI(name, expr)                                                                \
    F1(name)                                                                           \
    {                                                                                  \
        UNUSED1;                                                                       \
        return (expr);                                                                 \
    }

BIN(add_sat_s32, clamp_s32((int64_t)S32(a) + S32(b)))
BIN(sub_sat_s32, clamp_s32((int64_t)S32(a) - S32(b)))
BIN(add_u16x2, ((a + b) & 0xffff) | (U32((a >> 16) + (b >> 16)) << 16))
BIN(mul_hi_u16, ((a & 0xffff) * (b & 0xffff)) >> 16)
BIN(mul_hi_s16, (U32(S16(a) * S16(b)) >> 16))
BIN(mul_wide_s16, U32(S16(a) * S16(b)))
TRI(mad_wide_s16, U32(S16(a) * S16(b)) + U32(c))
TRI(mad_hi_sat_s32, clamp_s32((((int64_t)S32(a) * S32(b)) >> 32) + S32(c)))
TRI(mad_hi_u16, (sg_fn_mul_hi_u16(a, b, 0) + c) & 0xffff)
TRI(mad_hi_s16, (sg_fn_mul_hi_s16(a, b, 0) + c) & 0xffff)

#define U24(x) ((uint64_t)((x)&0xffffff))
#define S24(x) ((int64_t)(S32((x) << 8) >> 8))
BIN(mul24_hi_u32, U32((U24(a) * U24(b)) >> 16))
BIN(mul24_hi_s32, U32((S24(a) * S24(b)) >> 16))
TRI(mad24_lo_s32, U32(S24(a) * S24(b)) + U32(c))
TRI(mad24_hi_u32, U32((U24(a) * U24(b)) >> 16) + U32(c))
TRI(mad24_hi_s32, U32((S24(a) * S24(b)) >> 16) + U32(c))
TRI(mad24_hi_sat_s32, clamp_s32((int64_t)S32((S24(a) * S24(b)) >> 16) + S32(c)))

TRI(sad_u64, c + (a < b ? b - a : a - b))
TRI(sad_s64, c + ((int64_t)a < (int64_t)b ? b - a : a - b))
TRI(sad_u16, (c + (a < b ? b - a : a - b)) & 0xffff)
TRI(sad_s16, (c + (S16(a) < S16(b) ? b - a : a - b)) & 0xffff)

BIN(div_u64, b ? a / b : UINT64_MAX)
BIN(rem_u64, b ? a % b : a)
BIN(div_u16, (b & 0xffff) ? (a & 0xffff) / (b & 0xffff) : 0xffff)
BIN(rem_u16, (b & 0xffff) ? (a & 0xffff) % (b & 0xffff) : a)
BIN(div_s64, b == 0             ? UINT64_MAX
             : (int64_t)b == -1 ? 0 - a
                                : (uint64_t)((int64_t)a / (int64_t)b))
BIN(rem_s64, b == 0 ? a : (int64_t)b == -1 ? 0 : (uint64_t)((int64_t)a % (int64_t)b))
BIN(div_s16, (b & 0xffff) == 0 ? 0xffff : U32(S16(a) / S16(b)) & 0xffff)
BIN(rem_s16, (b & 0xffff) == 0 ? a : U32(S16(a) % S16(b)) & 0xffff)

static int32_t
relu(int32_t v)
{
    return v < 0 ? 0 : v;
}
BIN(min_relu_s32, U32(relu(S32(a) < S32(b) ? S32(a) : S32(b))))
BIN(max_relu_s32, U32(relu(S32(a) > S32(b) ? S32(a) : S32(b))))

#define PAIR(name, type, expr)                                                         \
    F1(name)                                                                           \
    {                                                                                  \
        uint32_t r = 0;                                                                \
        UNUSED2;                                                                       \
        for (int k = 0; k < 32; k += 16) {                                             \
            type x = (type)(a >> k), y = (type)(b >> k);                               \
            r |= (uint32_t)(uint16_t)(expr) << k;                                      \
        }                                                                              \
        return r;                                                                      \
    }
PAIR(min_u16x2, uint16_t, x < y ? x : y)
PAIR(max_u16x2, uint16_t, x > y ? x : y)
PAIR(min_s16x2, int16_t, x < y ? x : y)
PAIR(max_s16x2, int16_t, x > y ? x : y)
PAIR(min_relu_s16x2, int16_t, relu(x < y ? x : y))
PAIR(max_relu_s16x2, int16_t, relu(x > y ? x : y))

/* Lanes of 8 and 16 bits whose result is clamped or cut; @bits of each. */
static int64_t
lane_at(uint64_t v, int at, int bits, bool sgn)
{
    uint64_t x = v << (64 - bits - at);

    return sgn ? (int64_t)x >> (64 - bits) : (int64_t)(x >> (64 - bits));
}

static int64_t
lane_clamp(int64_t v, int bits, bool sgn)
{
    int64_t top = (INT64_C(1) << (bits - sgn)) - 1, low = sgn ? -top - 1 : 0;

    return v > top ? top : v < low ? low : v;
}

#define LANES(name, bits, sgn, expr)                                                   \
    F1(name)                                                                           \
    {                                                                                  \
        uint64_t r = 0;                                                                \
        (void)c;                                                                       \
        for (int at = 0; at < 32; at += (bits)) {                                      \
            int64_t x = lane_at(a, at, bits, sgn), y = lane_at(b, at, bits, sgn);      \
            (void)y;                                                                   \
            r |= ((uint64_t)(expr) & ((UINT64_C(1) << (bits)) - 1)) << at;             \
        }                                                                              \
        return r;                                                                      \
    }
LANES(add_u8x4, 8, false, x + y)
LANES(sub_u8x4, 8, false, x - y)
LANES(sub_u16x2, 16, false, x - y)
LANES(add_sat_u8x4, 8, false, lane_clamp(x + y, 8, false))
LANES(add_sat_s8x4, 8, true, lane_clamp(x + y, 8, true))
LANES(add_sat_u16x2, 16, false, lane_clamp(x + y, 16, false))
LANES(add_sat_s16x2, 16, true, lane_clamp(x + y, 16, true))
LANES(add_sat_u32, 32, false, lane_clamp(x + y, 32, false))
LANES(sub_sat_u8x4, 8, false, lane_clamp(x - y, 8, false))
LANES(sub_sat_s8x4, 8, true, lane_clamp(x - y, 8, true))
LANES(sub_sat_u16x2, 16, false, lane_clamp(x - y, 16, false))
LANES(sub_sat_s16x2, 16, true, lane_clamp(x - y, 16, true))
LANES(sub_sat_u32, 32, false, lane_clamp(x - y, 32, false))
LANES(min_u8x4, 8, false, x < y ? x : y)
LANES(max_u8x4, 8, false, x > y ? x : y)
LANES(min_s8x4, 8, true, x < y ? x : y)
LANES(max_s8x4, 8, true, x > y ? x : y)
LANES(neg_s8x4, 8, true, -x)
LANES(neg_s16x2, 16, true, -x)

/* ------------------------------------------------------------ shifts and fields */

static uint64_t
funnel(uint64_t lo, uint64_t hi)
{
    return (uint64_t)U32(hi) << 32 | U32(lo);
}
BIN(shr_s16, U32(S16(a) >> (U32(b) > 15 ? 15 : b)) & 0xffff)

/* Position and length are all of the register for 64 bits, as on a card: the ISA
 * restricts them to 255.  A field that reaches over the top is filled with the sign,
 * which is the field's or, cut off, the value's. */
static uint64_t
bfe_signed(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t pos = U32(b), v = pos < 64 ? a >> pos : 0;
    uint64_t len = U32(c), last = gp_min(pos + len - 1, UINT64_C(63));

    if (len == 0)
        return 0;
    v &= len >= 64 ? UINT64_MAX : (1ull << len) - 1;
    if (a >> last & 1) {
        uint64_t have = pos < 64 ? last - pos + 1 : 0;
        v |= have >= 64 ? 0 : UINT64_MAX << have;
    }
    return v;
}
TRI(bfe_s64, bfe_signed(a, b, c))

static uint32_t
find_top(uint64_t v)
{
    return v ? 63u - (uint32_t)__builtin_clzll(v) : UINT32_MAX;
}
static uint32_t
shift_of(uint32_t at, uint32_t width)
{
    return at == UINT32_MAX ? at : width - 1 - at;
}
#define MAG32(a) (S32(a) < 0 ? ~U32(a) : U32(a))
#define MAG64(a) ((int64_t)(a) < 0 ? ~(a) : (a))
UNI(bfind_sh_s32, shift_of(find_top(MAG32(a)), 32))
UNI(bfind_sh_u64, shift_of(find_top(a), 64))
UNI(bfind_sh_s64, shift_of(find_top(MAG64(a)), 64))

static uint32_t
bmsk(uint32_t pos, uint32_t len)
{
    uint64_t ones;

    if (pos > 31)
        return 0;
    ones = len > 31 ? UINT32_MAX : (1u << len) - 1;
    return (uint32_t)(ones << pos);
}
BIN(bmsk_wrap, bmsk(U32(a) & 31, U32(b) & 31))

static uint32_t
szext(uint32_t v, uint32_t n, bool sgn)
{
    if (n == 0)
        return 0;
    if (n > 31)
        return v;
    if (sgn && (v >> (n - 1) & 1))
        return v | UINT32_MAX << n;
    return v & ~(UINT32_MAX << n);
}
BIN(szext_clamp_u32, szext(U32(a), U32(b), false))
BIN(szext_clamp_s32, szext(U32(a), U32(b), true))
BIN(szext_wrap_u32, szext(U32(a), U32(b) & 31, false))
BIN(szext_wrap_s32, szext(U32(a), U32(b) & 31, true))

/* ----------------------------------------------------------------- permutations */

static uint32_t
pick_bytes(uint64_t v, const uint8_t sel[4])
{
    uint32_t r = 0;

    for (int k = 0; k < 4; k++) {
        uint32_t byte = v >> (8 * (sel[k] & 7)) & 0xff;
        if (sel[k] & 8)
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * k);
    }
    return r;
}

#define PRMT(name, s0, s1, s2, s3)                                                     \
    F1(name)                                                                           \
    {                                                                                  \
        int n = (int)(c & 3);                                                          \
        const uint8_t sel[4] = {(uint8_t)(s0), (uint8_t)(s1), (uint8_t)(s2),           \
                                (uint8_t)(s3)};                                        \
        return pick_bytes(funnel(a, b), sel);                                          \
    }
PRMT(prmt_f4e, n, n + 1, n + 2, n + 3)
PRMT(prmt_b4e, n, (n + 7) & 7, (n + 6) & 7, (n + 5) & 7)
PRMT(prmt_rc8, n, n, n, n)
PRMT(prmt_ecl, n, n > 1 ? n : 1, n > 2 ? n : 2, 3)
PRMT(prmt_ecr, 0, n < 1 ? n : 1, n < 2 ? n : 2, n)
PRMT(prmt_rc16, (n & 1) * 2, (n & 1) * 2 + 1, (n & 1) * 2, (n & 1) * 2 + 1)

/* The offset-th set bit from base on, upwards or downwards. */
F1(fns)
{
    uint32_t mask = U32(a), base = U32(b);
    int32_t offset = S32(c), step = offset < 0 ? -1 : 1;
    int64_t left = offset < 0 ? -(int64_t)offset : offset;

    if (base > 31)
        return UINT32_MAX;
    if (offset == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}

/* ----------------------------------------------------------------- dot products */

static int64_t
part(uint64_t v, unsigned shift, unsigned bits, bool sgn)
{
    uint32_t x = (uint32_t)(v >> shift) & (bits == 8 ? 0xffu : 0xffffu);

    if (!sgn)
        return x;
    return bits == 8 ? (int8_t)x : (int16_t)x;
}

static uint32_t
dp2a(uint64_t a, uint64_t b, uint64_t c, bool sa, bool sb, unsigned base)
{
    int64_t sum = part(a, 0, 16, sa) * part(b, base, 8, sb) +
                  part(a, 16, 16, sa) * part(b, base + 8, 8, sb);

    return U32((uint64_t)sum + c);
}
TRI(dp2a_lo_uu, dp2a(a, b, c, false, false, 0))
TRI(dp2a_lo_us, dp2a(a, b, c, false, true, 0))
TRI(dp2a_lo_su, dp2a(a, b, c, true, false, 0))
TRI(dp2a_lo_ss, dp2a(a, b, c, true, true, 0))
TRI(dp2a_hi_uu, dp2a(a, b, c, false, false, 16))
TRI(dp2a_hi_us, dp2a(a, b, c, false, true, 16))
TRI(dp2a_hi_su, dp2a(a, b, c, true, false, 16))
TRI(dp2a_hi_ss, dp2a(a, b, c, true, true, 16))

/* ------------------------------------------------- saturating integer conversions */

#define SAT_S(name, lo, hi)                                                            \
    UNI(s64_sat_##name, (uint64_t)((int64_t)a < (lo)   ? (int64_t)(lo)                 \
                                   : (int64_t)a > (hi) ? (int64_t)(hi)                 \
                                                       : (int64_t)a))
#define SAT_U(name, hi) UNI(u64_sat_##name, a > (uint64_t)(hi) ? (uint64_t)(hi) : a)
SAT_S(s8, INT8_MIN, INT8_MAX)
SAT_S(u8, 0, UINT8_MAX)
SAT_S(s16, INT16_MIN, INT16_MAX)
SAT_S(u16, 0, UINT16_MAX)
SAT_S(s32, INT32_MIN, INT32_MAX)
SAT_S(u32, 0, UINT32_MAX)
SAT_S(u64, 0, INT64_MAX)
SAT_U(s8, INT8_MAX)
SAT_U(u8, UINT8_MAX)
SAT_U(s16, INT16_MAX)
SAT_U(u16, UINT16_MAX)
SAT_U(s32, INT32_MAX)
SAT_U(u32, UINT32_MAX)
SAT_U(s64, INT64_MAX)

const struct sg_fn_info sg_fns[SG_N_FNS] = {
#define FN(name, sig) [SG_FN_##name] = {#name, sg_fn_##name, sig},
#include "exec_fn.def"
#undef FN
};
