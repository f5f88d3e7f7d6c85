/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_ops.h.  What the forms give follows the descriptions of the PTX ISA. */
#include "rk_ops.h"

#include "rk_ops_float.h"
#include "rk_ops_table.h"

#include <stdlib.h>

typedef __int128 wide;

static uint64_t
low(unsigned bits, wide v)
{
    return bits == 64 ? (uint64_t)v : (uint64_t)v & ((UINT64_C(1) << bits) - 1);
}

static wide
extend(unsigned bits, bool is_signed, uint64_t v)
{
    if (!is_signed)
        return (wide)low(bits, (wide)v);
    return (wide)((int64_t)(v << (64 - bits)) >> (64 - bits));
}

static wide
value(const struct rk_op *op, uint64_t v)
{
    return extend(op->bits, op->is_signed, v);
}

static wide
clamp(unsigned bits, bool is_signed, wide v)
{
    wide max = ((wide)1 << (bits - is_signed)) - 1, min = is_signed ? -max - 1 : 0;

    return v > max ? max : v < min ? min : v;
}

#define REF(name) static uint64_t does_##name(const struct rk_op *op, const uint64_t *x)
#define A value(op, x[0])
#define B value(op, x[1])
#define C value(op, x[2])

/* ---- integers ----------------------------------------------------------------------
 */

REF(add)
{
    wide v = A + B;

    return (uint64_t)(op->sat ? clamp(op->bits, op->is_signed, v) : v);
}

REF(sub)
{
    wide v = A - B;

    return (uint64_t)(op->sat ? clamp(op->bits, op->is_signed, v) : v);
}

static wide
product(const struct rk_op *op, const uint64_t *x)
{
    return op->is_signed ? A * B : (wide)((unsigned __int128)A * (unsigned __int128)B);
}

/* mode 'l', 'h', 'w': the low half, the high half, all of it; with an addend or not */
REF(mul)
{
    wide v = product(op, x);

    if (op->mode == 'h')
        v = op->is_signed ? v >> op->bits : (wide)((unsigned __int128)v >> op->bits);
    return (uint64_t)v;
}

REF(mad)
{
    wide v = (wide)does_mul(op, x);

    if (op->mode == 'w')
        return (uint64_t)v + x[2];
    if (op->sat)
        return (uint64_t)clamp(32, true, extend(32, true, (uint64_t)v) + C);
    return (uint64_t)(v + C);
}

static wide
product24(const struct rk_op *op, const uint64_t *x)
{
    return extend(24, op->is_signed, x[0]) * extend(24, op->is_signed, x[1]);
}

REF(mul24)
{
    return (uint64_t)(product24(op, x) >> (op->mode == 'h' ? 16 : 0));
}

REF(mad24)
{
    return does_mul24(op, x) + x[2];
}

REF(sad)
{
    return (uint64_t)(C + (A < B ? B - A : A - B));
}

REF(div)
{
    return (uint64_t)(A / B);
}

REF(rem)
{
    return (uint64_t)(A % B);
}

REF(abs)
{
    return (uint64_t)(A < 0 ? -A : A);
}

REF(neg)
{
    return (uint64_t)-A;
}

REF(min)
{
    return (uint64_t)(A < B ? A : B);
}

REF(max)
{
    return (uint64_t)(A > B ? A : B);
}

/* Lanes of op->bits in 32 bits: mode '+', '-', '<', '>'. */
REF(packed)
{
    uint64_t v = 0;

    for (unsigned at = 0; at < 32; at += op->bits) {
        wide a = value(op, x[0] >> at), b = value(op, x[1] >> at);
        wide one = op->mode == '+'   ? a + b
                   : op->mode == '-' ? a - b
                   : op->mode == '<' ? (a < b ? a : b)
                                     : (a > b ? a : b);
        if (op->sat)
            one = clamp(op->bits, op->is_signed, one);
        v |= low(op->bits, one) << at;
    }
    return v;
}

/* The carry of the low word goes into the high one: a + b, c. */
REF(add_carry)
{
    unsigned __int128 sum = (unsigned __int128)x[0] + x[1];

    return x[2] + (uint64_t)(sum >> op->bits) + x[2];
}

REF(sub_borrow)
{
    return x[2] - (x[1] + (x[0] < x[1]));
}

/* The flag behind a subtraction is the carry of a + ~b + 1. */
REF(add_no_borrow)
{
    return x[2] + x[2] + (x[0] >= x[1]);
}

REF(sub_no_carry)
{
    unsigned __int128 sum = (unsigned __int128)x[0] + x[1];

    return x[2] - x[1] - 1 + (uint64_t)(sum >> op->bits);
}

REF(mad_carry)
{
    unsigned __int128 p = (unsigned __int128)x[0] * x[1];
    unsigned __int128 sum = (unsigned __int128)low(op->bits, (wide)p) + x[2];

    return (uint64_t)(p >> op->bits) + x[2] + (uint64_t)(sum >> op->bits);
}

/* ---- bits --------------------------------------------------------------------------
 */

/* mode '&', '|', '^', '~'; 'c': cnot */
REF(logic)
{
    switch (op->mode) {
    case '&':
        return x[0] & x[1];
    case '|':
        return x[0] | x[1];
    case '^':
        return x[0] ^ x[1];
    case '~':
        return ~x[0];
    default:
        return x[0] == 0;
    }
}

REF(lop3)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 32; i++) {
        unsigned at =
            (unsigned)((x[0] >> i & 1) << 2 | (x[1] >> i & 1) << 1 | (x[2] >> i & 1));
        v |= (x[3] >> at & 1) << i;
    }
    return v;
}

REF(shl)
{
    return x[1] >= op->bits ? 0 : x[0] << x[1];
}

REF(shr)
{
    uint64_t n = x[1] >= op->bits ? op->bits : x[1];

    return (uint64_t)(A >> n);
}

/* mode 'l' or 'r'; sat: clamp */
REF(shf)
{
    unsigned n = op->sat ? (x[2] > 32 ? 32 : (unsigned)x[2]) : x[2] & 31;
    uint64_t both = x[1] << 32 | x[0];

    return op->mode == 'l' ? (n == 32 ? x[0] : both << n >> 32)
                           : (n == 32 ? x[1] : both >> n);
}

/* A byte for 32 bits.  The ISA restricts it to one for 64, too, but a card takes all.
 */
static uint64_t
field(const struct rk_op *op, uint64_t v)
{
    return op->bits == 32 ? v & 255 : v;
}

REF(bfe)
{
    uint64_t pos = field(op, x[1]), len = field(op, x[2]), msb = op->bits - 1u;
    uint64_t last = pos + len - 1 > msb ? msb : pos + len - 1;
    bool sign = op->is_signed && len && (x[0] >> last & 1);
    uint64_t v = 0;

    for (unsigned i = 0; i <= msb; i++)
        v |= (uint64_t)(i < len && pos + i <= msb ? x[0] >> (pos + i) & 1 : sign) << i;
    return v;
}

REF(bfi)
{
    uint64_t pos = field(op, x[2]), len = field(op, x[3]), msb = op->bits - 1u;
    uint64_t v = x[1];

    for (uint64_t i = 0; i < len && pos + i <= msb; i++)
        v = (v & ~(UINT64_C(1) << (pos + i))) | (x[0] >> i & 1) << (pos + i);
    return v;
}

/* sat: .shiftamt */
REF(bfind)
{
    wide a = A < 0 ? ~A : A;

    for (unsigned i = op->bits; i-- > 0;)
        if (a >> i & 1)
            return op->sat ? op->bits - 1u - i : i;
    return UINT32_MAX;
}

REF(brev)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < op->bits; i++)
        v |= (x[0] >> i & 1) << (op->bits - 1u - i);
    return v;
}

REF(clz)
{
    unsigned n = 0;

    while (n < op->bits && !(x[0] >> (op->bits - 1u - n) & 1))
        n++;
    return n;
}

REF(popc)
{
    unsigned n = 0;

    for (unsigned i = 0; i < op->bits; i++)
        n += x[0] >> i & 1;
    return n;
}

/* sat: clamp */
REF(bmsk)
{
    uint32_t a1 = x[0] & 31, b1 = x[1] & 31, sum = a1 + b1;
    uint32_t mask0 = UINT32_MAX << a1, mask1;
    bool over = sum >= 32;

    if (op->sat && x[0] >= 32) {
        over = true;
        mask0 = 0;
    }
    over |= op->sat && x[1] >= 32;
    mask1 = over ? 0 : b1 == 0 ? UINT32_MAX : UINT32_MAX << sum;
    return mask0 & ~mask1;
}

REF(szext)
{
    uint32_t b1 = x[1] & 31;
    bool too_large = op->sat && x[1] >= 32;
    uint32_t mask = too_large ? 0 : UINT32_MAX << b1;
    bool sign = op->is_signed && b1 && !too_large && (x[0] >> (b1 - 1) & 1);

    return ((uint32_t)x[0] & ~mask) | (sign ? mask : 0);
}

/* The bytes that each selection takes, the most significant first. */
static const uint8_t prmt_bytes[6][4][4] = {
    {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}, /* f4e */
    {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}, /* b4e */
    {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, /* rc8 */
    {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}, /* ecl */
    {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}, /* ecr */
    {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}, /* rc16 */
};

REF(prmt)
{
    uint64_t both = x[1] << 32 | x[0], v = 0;

    for (unsigned i = 0; i < 4; i++) {
        unsigned select =
            op->mode < 0 ? x[2] >> (4 * i) & 15 : prmt_bytes[op->mode][x[2] & 3][3 - i];
        uint64_t byte = both >> (8 * (select & 7)) & 255;
        if (select & 8)
            byte = byte & 128 ? 255 : 0;
        v |= byte << (8 * i);
    }
    return v;
}

/* mode: 4: dp4a; 'l', 'h': dp2a of those bytes of b */
REF(dp)
{
    unsigned n = op->mode == 4 ? 4 : 2, a_bits = 32 / n;
    wide sum = extend(32, op->is_signed || op->from_signed, x[2]);

    for (unsigned i = 0; i < n; i++)
        sum +=
            extend(a_bits, op->is_signed, x[0] >> (a_bits * i)) *
            extend(8, op->from_signed, x[1] >> (8 * (i + (op->mode == 'h' ? 2 : 0))));
    return (uint64_t)sum;
}

/* ---- moves, selections, comparisons ------------------------------------------------
 */

REF(mov)
{
    return x[0];
}

REF(pack)
{
    return x[0] | x[1] << op->bits;
}

REF(high)
{
    return x[0] >> op->bits;
}

REF(selp)
{
    return x[2] ? x[0] : x[1];
}

REF(slct)
{
    return (int32_t)x[2] >= 0 ? x[0] : x[1];
}

/* What a comparison gives, with its predicate. */
static bool
combined(const struct rk_op *op, bool holds, uint64_t p)
{
    switch (op->combine) {
    case '&':
        return holds && p;
    case '|':
        return holds || p;
    case '^':
        return holds != (p != 0);
    default:
        return holds;
    }
}

static bool
relation(const struct rk_op *op, const uint64_t *x)
{
    static const char *const wants[] = {"0", "-+", "-", "-0", "+", "0+"};
    char order = A < B ? '-' : A > B ? '+' : '0';
    const char *want = wants[op->mode];

    return want[0] == order || (want[0] && want[1] == order);
}

REF(setp)
{
    return combined(op, relation(op, x), x[2]);
}

/* nan: the result is a float */
REF(set)
{
    bool holds = combined(op, relation(op, x), x[2]);

    return !holds ? 0 : op->nan ? 0x3f800000 : UINT32_MAX;
}

/* Between integers; the result's class may be wider than its type. */
REF(cvt)
{
    wide v = extend(op->from_bits, op->from_signed, x[0]);

    if (op->sat)
        v = clamp(op->bits, op->is_signed, v);
    return (uint64_t)extend(op->bits, op->is_signed, (uint64_t)v);
}

/* ---- the table ---------------------------------------------------------------------
 */

static struct rk_op table[4000];
static unsigned n_ops, n_families, firsts[400];

void
rk_family(void)
{
    firsts[n_families++] = n_ops;
}

struct rk_op *
rk_add(const char *sig, rk_ref *ref, const char *name, ...)
{
    struct rk_op *op = &table[n_ops];
    va_list list;

    if (n_ops + 1 >= sizeof(table) / sizeof(table[0]) || n_families >= 399)
        abort();
    n_ops++;
    va_start(list, name);
    vsnprintf(op->name, sizeof(op->name), name, list);
    va_end(list);
    snprintf(op->sig, sizeof(op->sig), "%s", sig);
    op->ref = ref;
    op->family = n_families - 1;
    firsts[n_families] = n_ops;
    return op;
}

struct type {
    const char *name;
    uint8_t bits;
    bool is_signed;
    char class;
};

static const struct type ints[] = {
    {"u32", 32, false, 'W'}, {"s32", 32, true, 'W'},  {"u64", 64, false, 'D'},
    {"s64", 64, true, 'D'},  {"u16", 16, false, 'H'}, {"s16", 16, true, 'H'},
};

static struct rk_op *
add_typed(const struct type *t, const char *sources, rk_ref *ref, const char *words)
{
    char sig[RK_MAX_SOURCES + 2] = {t->class};
    struct rk_op *op;

    for (unsigned i = 0; sources[i]; i++)
        sig[i + 1] = sources[i] == '=' ? t->class : sources[i];
    op = rk_add(sig, ref, "%s.%s", words, t->name);
    op->bits = t->bits;
    op->is_signed = t->is_signed;
    return op;
}

/* One family: the same for every type of @from to @to in ints[]. */
static void
add_all(const char *words, const char *sources, rk_ref *ref, int mode, int n)
{
    rk_family();
    for (int i = 0; i < n; i++)
        add_typed(&ints[i], sources, ref, words)->mode = mode;
}

static void
add_products(void)
{
    add_all("mul.lo", "==", does_mul, 'l', 6);
    add_all("mul.hi", "==", does_mul, 'h', 6);
    add_all("mad.lo", "===", does_mad, 'l', 6);
    add_all("mad.hi", "===", does_mad, 'h', 6);
    rk_family();
    for (int i = 0; i < 6; i++) {
        const struct type *t = &ints[i];
        bool narrow = t->bits == 16;
        struct rk_op *op;

        if (t->bits == 64)
            continue;
        op = rk_add(narrow ? "WHH" : "DWW", does_mul, "mul.wide.%s", t->name);
        op->bits = t->bits, op->is_signed = t->is_signed, op->mode = 'w';
        op = rk_add(narrow ? "WHHW" : "DWWD", does_mad, "mad.wide.%s", t->name);
        op->bits = t->bits, op->is_signed = t->is_signed, op->mode = 'w';
    }
    add_typed(&ints[1], "===", does_mad, "mad.hi.sat")->sat = true;
    table[n_ops - 1].mode = 'h';
    add_all("mul24.lo", "==", does_mul24, 'l', 2);
    add_all("mul24.hi", "==", does_mul24, 'h', 2);
    add_all("mad24.lo", "===", does_mad24, 'l', 2);
    add_all("mad24.hi", "===", does_mad24, 'h', 2);
}

static void
add_carries(void)
{
    static const struct {
        const char *name, *form32, *form64;
        rk_ref *ref;
    } rows[] = {
        {"add.cc", "add.cc.u32 %t0, %a, %b; addc.u32 %d, %c, %c;",
         "add.cc.u64 %u0, %a, %b; addc.u64 %d, %c, %c;", does_add_carry},
        {"sub.cc", "sub.cc.u32 %t0, %a, %b; subc.u32 %d, %c, %b;",
         "sub.cc.u64 %u0, %a, %b; subc.u64 %d, %c, %b;", does_sub_borrow},
        {"sub.cc, addc", "sub.cc.u32 %t0, %a, %b; addc.u32 %d, %c, %c;",
         "sub.cc.u64 %u0, %a, %b; addc.u64 %d, %c, %c;", does_add_no_borrow},
        {"add.cc, subc", "add.cc.u32 %t0, %a, %b; subc.u32 %d, %c, %b;",
         "add.cc.u64 %u0, %a, %b; subc.u64 %d, %c, %b;", does_sub_no_carry},
        {"mad.cc", "mad.lo.cc.u32 %t0, %a, %b, %c; madc.hi.u32 %d, %a, %b, %c;",
         "mad.lo.cc.u64 %u0, %a, %b, %c; madc.hi.u64 %d, %a, %b, %c;", does_mad_carry},
    };

    rk_family();
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        add_typed(&ints[0], "===", rows[i].ref, rows[i].name)->form = rows[i].form32;
        add_typed(&ints[2], "===", rows[i].ref, rows[i].name)->form = rows[i].form64;
    }
}

static void
add_integers(void)
{
    add_all("add", "==", does_add, 0, 6);
    add_typed(&ints[1], "==", does_add, "add.sat")->sat = true;
    add_all("sub", "==", does_sub, 0, 6);
    add_typed(&ints[1], "==", does_sub, "sub.sat")->sat = true;
    add_products();
    add_carries();
    add_all("sad", "===", does_sad, 0, 6);
    add_all("div", "==", does_div, 0, 6);
    add_all("rem", "==", does_rem, 0, 6);
    for (unsigned i = n_ops - 12; i < n_ops; i++)
        table[i].nonzero = true;
    add_all("min", "==", does_min, 0, 6);
    add_all("max", "==", does_max, 0, 6);
    rk_family();
    for (int i = 1; i < 6; i += 2) {
        add_typed(&ints[i], "=", does_abs, "abs");
        add_typed(&ints[i], "=", does_neg, "neg");
    }
    rk_family();
    for (int s = 0; s < 2; s++) {
        static const struct {
            const char *name;
            int mode;
        } rows[] = {{"add", '+'}, {"min", '<'}, {"max", '>'}};
        for (unsigned i = 0; i < 3; i++) {
            struct rk_op *op =
                rk_add("WWW", does_packed, "%s.%c16x2", rows[i].name, s ? 's' : 'u');
            op->bits = 16, op->is_signed = s, op->mode = rows[i].mode;
        }
    }
}

static void
add_logic(void)
{
    static const struct type bits[] = {{"b32", 32, false, 'W'},
                                       {"b64", 64, false, 'D'},
                                       {"b16", 16, false, 'H'},
                                       {"pred", 1, false, 'P'}};
    static const struct {
        const char *name, *sources;
        int mode;
    } rows[] = {{"and", "==", '&'},
                {"or", "==", '|'},
                {"xor", "==", '^'},
                {"not", "=", '~'},
                {"cnot", "=", 'c'}};

    for (unsigned k = 0; k < 5; k++) {
        rk_family();
        for (unsigned i = 0; i < (k == 4 ? 3u : 4u); i++)
            add_typed(&bits[i], rows[k].sources, does_logic, rows[k].name)->mode =
                rows[k].mode;
    }
    rk_family();
    rk_add("WWWW8", does_lop3, "lop3.b32");
    rk_family();
    for (unsigned i = 0; i < 3; i++)
        add_typed(&bits[i], "=W", does_shl, "shl");
    rk_family();
    for (unsigned i = 0; i < 6; i++)
        add_typed(&ints[i], "=W", does_shr, "shr");
    rk_family();
    for (int i = 0; i < 4; i++) {
        struct rk_op *op = rk_add("WWWW", does_shf, "shf.%c.%s.b32", i & 1 ? 'l' : 'r',
                                  i & 2 ? "clamp" : "wrap");
        op->mode = i & 1 ? 'l' : 'r', op->sat = i & 2;
    }
    rk_family();
    for (unsigned i = 0; i < 2; i++) {
        struct rk_op *op;
        add_typed(&bits[i], "=", does_brev, "brev");
        op = rk_add(i ? "WD" : "WW", does_clz, "clz.%s", bits[i].name);
        op->bits = bits[i].bits;
        op = rk_add(i ? "WD" : "WW", does_popc, "popc.%s", bits[i].name);
        op->bits = bits[i].bits;
    }
}

static void
add_fields(void)
{
    rk_family();
    for (unsigned i = 0; i < 4; i++)
        add_typed(&ints[i], "=WW", does_bfe, "bfe");
    rk_family();
    rk_add("WWWWW", does_bfi, "bfi.b32")->bits = 32;
    rk_add("DDDWW", does_bfi, "bfi.b64")->bits = 64;
    rk_family();
    for (unsigned i = 0; i < 8; i++) {
        const struct type *t = &ints[i & 3];
        struct rk_op *op = rk_add(t->class == 'W' ? "WW" : "WD", does_bfind,
                                  "bfind%s.%s", i & 4 ? ".shiftamt" : "", t->name);
        op->bits = t->bits, op->is_signed = t->is_signed, op->sat = i & 4;
    }
    rk_family();
    for (int clamped = 0; clamped < 2; clamped++) {
        const char *word = clamped ? "clamp" : "wrap";
        rk_add("WWW", does_bmsk, "bmsk.%s.b32", word)->sat = clamped;
        for (int s = 0; s < 2; s++) {
            struct rk_op *op =
                rk_add("WWW", does_szext, "szext.%s.%c32", word, s ? 's' : 'u');
            op->sat = clamped, op->is_signed = s;
        }
    }
    rk_family();
    rk_add("WWWW", does_prmt, "prmt.b32")->mode = -1;
    for (int i = 0; i < 6; i++) {
        static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
        rk_add("WWWW", does_prmt, "prmt.b32.%s", modes[i])->mode = i;
    }
    rk_family();
    for (int i = 0; i < 12; i++) {
        static const char *const names[] = {"dp4a", "dp2a.lo", "dp2a.hi"};
        struct rk_op *op = rk_add("WWWW", does_dp, "%s.%c32.%c32", names[i / 4],
                                  i & 1 ? 's' : 'u', i & 2 ? 's' : 'u');
        op->is_signed = i & 1, op->from_signed = i & 2;
        op->mode = i < 4 ? 4 : i < 8 ? 'l' : 'h';
    }
}

static void
add_moves(void)
{
    static const char *const movs[] = {"WW", "DD", "HH", "PP"};
    struct rk_op *op;

    rk_family();
    for (unsigned i = 0; i < 4; i++)
        rk_add(movs[i], does_mov, "mov.%s",
               i == 3   ? "pred"
               : i == 2 ? "b16"
               : i      ? "b64"
                        : "b32");
    rk_family();
    op = rk_add("DWW", does_pack, "mov.b64");
    op->form = "mov.b64 %d, {%a, %b};", op->bits = 32;
    op = rk_add("WHH", does_pack, "mov.b32");
    op->form = "mov.b32 %d, {%a, %b};", op->bits = 16;
    op = rk_add("WD", does_high, "mov.b64");
    op->form = "mov.b64 {%t0, %d}, %a;", op->bits = 32;
    op = rk_add("HW", does_high, "mov.b32");
    op->form = "mov.b32 {%h0, %d}, %a;", op->bits = 16;
    rk_add("WD", does_mov, "mov.b64")->form = "mov.b64 {%d, %t0}, %a;";
    rk_family();
    rk_add("WWWP", does_selp, "selp.b32");
    rk_add("DDDP", does_selp, "selp.b64");
    rk_add("HHHP", does_selp, "selp.b16");
    rk_family();
    rk_add("WWWW", does_slct, "slct.u32.s32");
    rk_add("DDDW", does_slct, "slct.u64.s32");
}

static void
add_comparisons(void)
{
    static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    static const struct {
        const char *word;
        int combine;
    } with[] = {{"", 0}, {".and", '&'}, {".or", '|'}, {".xor", '^'}};

    for (int kind = 0; kind < 3; kind++) {
        rk_family();
        for (int i = 0; i < 6 * 6 * 4; i++) {
            const struct type *t = &ints[i % 6];
            int rel = i / 6 % 6, w = i / 36;
            char sig[RK_MAX_SOURCES + 2] = {kind ? 'W' : 'P', t->class, t->class,
                                            w ? 'P' : 0};
            struct rk_op *op = rk_add(sig, kind ? does_set : does_setp, "%s.%s%s%s.%s",
                                      kind ? "set" : "setp", names[rel], with[w].word,
                                      kind == 0   ? ""
                                      : kind == 1 ? ".u32"
                                                  : ".f32",
                                      t->name);
            op->bits = t->bits, op->is_signed = t->is_signed;
            op->mode = rel, op->combine = with[w].combine, op->nan = kind == 2;
        }
    }
}

static void
add_conversions(void)
{
    static const struct type types[] = {
        {"u8", 8, false, 'H'},   {"s8", 8, true, 'H'},    {"u16", 16, false, 'H'},
        {"s16", 16, true, 'H'},  {"u32", 32, false, 'W'}, {"s32", 32, true, 'W'},
        {"u64", 64, false, 'D'}, {"s64", 64, true, 'D'}};

    rk_family();
    for (int i = 0; i < 8 * 8 * 4; i++) {
        const struct type *to = &types[i % 8], *from = &types[i / 8 % 8];
        bool sat = i & 64, into_word = i & 128;
        bool all_fit = to->bits - to->is_signed >= from->bits - from->is_signed &&
                       (to->is_signed || !from->is_signed);
        char sig[3] = {into_word ? 'W' : to->class, from->class, 0};
        struct rk_op *op;

        if ((sat && all_fit) || (into_word && to->bits >= 32))
            continue;
        op = rk_add(sig, does_cvt, "cvt%s.%s.%s", sat ? ".sat" : "", to->name,
                    from->name);
        op->bits = to->bits, op->is_signed = to->is_signed, op->sat = sat;
        op->from_bits = from->bits, op->from_signed = from->is_signed;
    }
}

void
rk_ops_init(void)
{
    if (n_ops)
        return;
    add_integers();
    add_logic();
    add_fields();
    add_moves();
    add_comparisons();
    add_conversions();
    rk_ops_add_floats();
}

unsigned
rk_ops_families(void)
{
    return n_families;
}

const struct rk_op *
rk_ops_family(unsigned family, unsigned *ret_n)
{
    *ret_n = firsts[family + 1] - firsts[family];
    return &table[firsts[family]];
}

unsigned
rk_class_bits(char class)
{
    return class == 'D' ? 64 : class == 'W' ? 32 : class == 'H' ? 16 : 1;
}

uint64_t
rk_op_eval(const struct rk_op *op, const uint64_t *x)
{
    uint64_t in[RK_MAX_SOURCES], v;
    unsigned bits = rk_class_bits(op->sig[0]);

    for (unsigned i = 0; i < RK_MAX_SOURCES; i++)
        in[i] = x[i];
    if (op->nonzero)
        in[1] |= 1;
    v = low(bits, (wide)op->ref(op, in));
    return op->any_nan ? rk_one_nan(bits, v) : v;
}
