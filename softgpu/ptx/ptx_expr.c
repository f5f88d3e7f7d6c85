/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant expressions: C's operators on 64-bit integers, arithmetic on
 * decimal floats.
 *
 * Precedence climbing: one level of C recursion per level of nesting, which
 * PTX_MAX_NEST bounds.  Overflow wraps, as the language says of its 64-bit
 * constants; a division by zero is an error.
 */
#include "ptx_parse.h"

#include <string.h>

static double
as_double(const struct ptx_val *v)
{
    double d;

    memcpy(&d, &v->bits, sizeof(d));
    return d;
}

static struct ptx_val
from_double(double d)
{
    struct ptx_val v = {.kind = PTX_OPD_F64};

    memcpy(&v.bits, &d, sizeof(d));
    return v;
}

static struct ptx_val
from_int(uint64_t bits, bool is_unsigned)
{
    return (struct ptx_val){PTX_OPD_INT, is_unsigned, bits};
}

/* Levels of C, higher binds tighter; 0: no binary operator. */
static int
binary_prec(enum ptx_tok tok)
{
    switch ((int)tok) {
    case '*':
    case '/':
    case '%':
        return PTX_PREC_PRODUCT;
    case '+':
    case '-':
        return PTX_PREC_SUM;
    case PTX_TOK_SHL:
    case PTX_TOK_SHR:
        return PTX_PREC_SHIFT;
    case '<':
    case '>':
    case PTX_TOK_LE:
    case PTX_TOK_GE:
        return 7;
    case PTX_TOK_EQ:
    case PTX_TOK_NE:
        return 6;
    case '&':
        return 5;
    case '^':
        return 4;
    case '|':
        return 3;
    case PTX_TOK_AND:
        return 2;
    case PTX_TOK_OR:
        return 1;
    default:
        return 0;
    }
}

static uint64_t
shift_right(uint64_t a, uint64_t n, bool is_unsigned)
{
    if (is_unsigned)
        return n > 63 ? 0 : a >> n;
    return (uint64_t)((int64_t)a >> (n > 63 ? 63 : n));
}

static int
divide(struct ptx_parser *p, bool want_rest, struct ptx_val *a, const struct ptx_val *b)
{
    int64_t x = (int64_t)a->bits, y = (int64_t)b->bits;

    if (b->bits == 0)
        return ptx_fail(p, "division by zero in a constant");
    if (a->is_unsigned)
        a->bits = want_rest ? a->bits % b->bits : a->bits / b->bits;
    else if (y == -1) /* INT64_MIN / -1 traps on x86 */
        a->bits = want_rest ? 0 : 0 - a->bits;
    else
        a->bits = (uint64_t)(want_rest ? x % y : x / y);
    return 0;
}

static bool
less(const struct ptx_val *a, const struct ptx_val *b, bool is_unsigned)
{
    return is_unsigned ? a->bits < b->bits : (int64_t)a->bits < (int64_t)b->bits;
}

/* a = a op b; shifts keep the left side's signedness. */
static int
int_binary(struct ptx_parser *p, enum ptx_tok op, struct ptx_val *a,
           const struct ptx_val *b)
{
    bool uns = a->is_unsigned || b->is_unsigned;
    struct ptx_val l = *a;

    if (op == PTX_TOK_SHL || op == PTX_TOK_SHR)
        uns = a->is_unsigned;
    a->is_unsigned = uns;
    switch ((int)op) {
    case '*':
        a->bits = l.bits * b->bits;
        return 0;
    case '/':
    case '%':
        return divide(p, op == '%', a, b);
    case '+':
        a->bits = l.bits + b->bits;
        return 0;
    case '-':
        a->bits = l.bits - b->bits;
        return 0;
    case '&':
        a->bits = l.bits & b->bits;
        return 0;
    case '^':
        a->bits = l.bits ^ b->bits;
        return 0;
    case '|':
        a->bits = l.bits | b->bits;
        return 0;
    case PTX_TOK_SHL:
        a->bits = b->bits > 63 ? 0 : l.bits << b->bits;
        return 0;
    case PTX_TOK_SHR:
        a->bits = shift_right(l.bits, b->bits, uns);
        return 0;
    case '<':
        a->bits = less(&l, b, uns);
        break;
    case '>':
        a->bits = less(b, &l, uns);
        break;
    case PTX_TOK_LE:
        a->bits = !less(b, &l, uns);
        break;
    case PTX_TOK_GE:
        a->bits = !less(&l, b, uns);
        break;
    case PTX_TOK_EQ:
        a->bits = l.bits == b->bits;
        break;
    case PTX_TOK_NE:
        a->bits = l.bits != b->bits;
        break;
    case PTX_TOK_AND:
        a->bits = l.bits && b->bits;
        break;
    default:
        a->bits = l.bits || b->bits;
        break;
    }
    a->is_unsigned = false;
    return 0;
}

static int
float_binary(struct ptx_parser *p, enum ptx_tok op, struct ptx_val *a,
             const struct ptx_val *b)
{
    double x = as_double(a), y = as_double(b);

    switch ((int)op) {
    case '*':
        *a = from_double(x * y);
        return 0;
    case '/':
        *a = from_double(x / y);
        return 0;
    case '+':
        *a = from_double(x + y);
        return 0;
    case '-':
        *a = from_double(x - y);
        return 0;
    case '<':
        *a = from_int(x < y, false);
        return 0;
    case '>':
        *a = from_int(x > y, false);
        return 0;
    case PTX_TOK_LE:
        *a = from_int(x <= y, false);
        return 0;
    case PTX_TOK_GE:
        *a = from_int(x >= y, false);
        return 0;
    case PTX_TOK_EQ:
        *a = from_int(x == y, false);
        return 0;
    case PTX_TOK_NE:
        *a = from_int(x != y, false);
        return 0;
    default:
        return ptx_fail(p, "operator does not apply to floating-point constants");
    }
}

static void
promote(struct ptx_val *v)
{
    if (v->kind == PTX_OPD_INT)
        *v = from_double(v->is_unsigned ? (double)v->bits : (double)(int64_t)v->bits);
}

static int
apply_binary(struct ptx_parser *p, enum ptx_tok op, struct ptx_val *a,
             struct ptx_val *b)
{
    if (a->kind == PTX_OPD_F32 || b->kind == PTX_OPD_F32)
        return ptx_fail(p, "a 0f literal cannot be part of an expression");
    if (a->kind == PTX_OPD_INT && b->kind == PTX_OPD_INT)
        return int_binary(p, op, a, b);
    promote(a);
    promote(b);
    return float_binary(p, op, a, b);
}

static int
apply_unary(struct ptx_parser *p, int op, struct ptx_val *v)
{
    static const uint64_t sign_f64 = UINT64_C(1) << 63, sign_f32 = UINT64_C(1) << 31;

    if (op == '+')
        return 0;
    if (v->kind == PTX_OPD_INT) {
        v->bits = op == '-' ? 0 - v->bits : op == '~' ? ~v->bits : !v->bits;
        if (op == '!')
            v->is_unsigned = false;
        return 0;
    }
    if (op != '-')
        return ptx_fail(p, "operator does not apply to floating-point constants");
    v->bits ^= v->kind == PTX_OPD_F64 ? sign_f64 : sign_f32;
    return 0;
}

static int parse_binary(struct ptx_parser *p, int min, struct ptx_val *ret);

/* `(expr)`, and the casts (.s64) and (.u64). */
static int
parse_paren(struct ptx_parser *p, struct ptx_val *ret)
{
    int cast = ptx_at_dot(p, PTX_W_s64) ? 1 : ptx_at_dot(p, PTX_W_u64) ? 2 : 0;
    int r;

    if (!cast) {
        r = ptx_parse_expr(p, PTX_PREC_ALL, ret);
        return r < 0 ? r : ptx_expect(p, ')');
    }
    ptx_lex_next(&p->lex);
    r = ptx_expect(p, ')');
    if (r == 0)
        r = parse_binary(p, PTX_PREC_PRODUCT + 1, ret);
    if (r == 0 && ret->kind != PTX_OPD_INT)
        return ptx_fail(p, "a cast applies to integer constants");
    ret->is_unsigned = cast == 2;
    return r;
}

static int
parse_primary(struct ptx_parser *p, struct ptx_val *ret)
{
    switch ((int)p->lex.tok) {
    case PTX_TOK_INT:
        *ret = from_int(p->lex.bits, p->lex.is_unsigned);
        break;
    case PTX_TOK_F32:
        *ret = (struct ptx_val){PTX_OPD_F32, false, p->lex.bits};
        break;
    case PTX_TOK_F64:
        *ret = (struct ptx_val){PTX_OPD_F64, false, p->lex.bits};
        break;
    case '(':
        ptx_lex_next(&p->lex);
        return parse_paren(p, ret);
    case PTX_TOK_NAME:
        if (strcmp(p->lex.name->sym.name, "WARP_SZ") == 0) {
            *ret = from_int(32, false);
            break;
        }
        /* fall through */
    default:
        return ptx_expected(p, "a constant");
    }
    ptx_lex_next(&p->lex);
    return 0;
}

static int
parse_unary(struct ptx_parser *p, struct ptx_val *ret)
{
    char ops[PTX_MAX_NEST];
    unsigned n = 0;
    int r;

    while (p->lex.tok == '-' || p->lex.tok == '+' || p->lex.tok == '~' ||
           p->lex.tok == '!') {
        if (n == PTX_MAX_NEST)
            return ptx_too_big(p, "more than %u signs in front of a constant", n);
        ops[n++] = (char)p->lex.tok;
        ptx_lex_next(&p->lex);
    }
    r = parse_primary(p, ret);
    while (r == 0 && n)
        r = apply_unary(p, ops[--n], ret);
    return r;
}

static int
parse_binary(struct ptx_parser *p, int min, struct ptx_val *ret)
{
    int r, prec;

    if (++p->nest > PTX_MAX_NEST)
        return ptx_too_big(p, "constant nested deeper than %u", PTX_MAX_NEST);
    r = parse_unary(p, ret);
    while (r == 0 && (prec = binary_prec(p->lex.tok)) && prec >= min) {
        enum ptx_tok op = p->lex.tok;
        struct ptx_val right;

        ptx_lex_next(&p->lex);
        r = parse_binary(p, prec + 1, &right);
        if (r == 0)
            r = apply_binary(p, op, ret, &right);
    }
    p->nest--;
    return r;
}

/* Behind the `?` of a condition that has been read. */
static int
parse_choice(struct ptx_parser *p, struct ptx_val *ret)
{
    struct ptx_val yes, no;
    int r;

    if (ret->kind != PTX_OPD_INT)
        return ptx_fail(p, "a condition is an integer constant");
    r = ptx_parse_expr(p, PTX_PREC_ALL, &yes);
    if (r == 0)
        r = ptx_expect(p, ':');
    if (r == 0)
        r = ptx_parse_expr(p, PTX_PREC_ALL, &no);
    if (r == 0)
        *ret = ret->bits ? yes : no;
    return r;
}

bool
ptx_at_expr(const struct ptx_parser *p)
{
    switch ((int)p->lex.tok) {
    case PTX_TOK_INT:
    case PTX_TOK_F32:
    case PTX_TOK_F64:
    case '-':
    case '+':
    case '~':
    case '!':
    case '(':
        return true;
    case PTX_TOK_NAME:
        return strcmp(p->lex.name->sym.name, "WARP_SZ") == 0;
    default:
        return false;
    }
}

int
ptx_parse_expr(struct ptx_parser *p, enum ptx_prec prec, struct ptx_val *ret)
{
    int r;

    if (++p->nest > PTX_MAX_NEST)
        return ptx_too_big(p, "constant nested deeper than %u", PTX_MAX_NEST);
    r = parse_binary(p, prec ? (int)prec : 1, ret);
    if (r == 0 && prec == PTX_PREC_ALL && ptx_accept(p, '?'))
        r = parse_choice(p, ret);
    p->nest--;
    return r;
}

int
ptx_parse_uint(struct ptx_parser *p, enum ptx_prec prec, uint64_t max, const char *what,
               uint64_t *ret)
{
    uint32_t line = p->lex.tok_line, col = p->lex.tok_col;
    struct ptx_val v;
    int r;

    if (!ptx_at_expr(p))
        return ptx_expected(p, what);
    r = ptx_parse_expr(p, prec, &v);
    if (r < 0)
        return r;
    if (v.kind != PTX_OPD_INT)
        return ptx_fail_at(p, line, col, -EINVAL, "%s is an integer", what);
    if (!v.is_unsigned && (int64_t)v.bits < 0)
        return ptx_fail_at(p, line, col, -EINVAL, "%s is negative", what);
    if (v.bits > max)
        return ptx_fail_at(p, line, col, -E2BIG, "%s is %llu, the limit is %llu", what,
                           (unsigned long long)v.bits, (unsigned long long)max);
    *ret = v.bits;
    return 0;
}

int
ptx_parse_addend(struct ptx_parser *p, int64_t *ret)
{
    uint64_t sum = 0;

    while (p->lex.tok == '+' || p->lex.tok == '-') {
        bool minus = p->lex.tok == '-';
        struct ptx_val v;
        int r;

        ptx_lex_next(&p->lex);
        r = ptx_parse_expr(p, PTX_PREC_PRODUCT, &v);
        if (r < 0)
            return r;
        if (v.kind != PTX_OPD_INT)
            return ptx_fail(p, "an offset is an integer");
        sum = minus ? sum - v.bits : sum + v.bits;
    }
    *ret = (int64_t)sum;
    return 0;
}
