/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands.  One general grammar for all instructions: which operands an
 * instruction may have is the instruction table's business.
 *
 * Operands under construction lie on the stack p->opds; a group ({}, (), p|q,
 * an instruction) takes its part off the stack into the arena when complete.
 */
#include "ptx_parse.h"

#include <string.h>

static struct ptx_opd *
push(struct ptx_parser *p, enum ptx_opd_kind kind)
{
    struct ptx_opd *opd = ptx_vec_push(&p->opds, sizeof(*opd));

    if (opd) {
        opd->kind = (uint8_t)kind;
        opd->reg = PTX_REG_NONE;
        opd->line = p->lex.tok_line;
    }
    return opd;
}

static struct ptx_opd *
top(struct ptx_parser *p)
{
    return (struct ptx_opd *)p->opds.data + p->opds.n - 1;
}

int
ptx_opds_take(struct ptx_parser *p, uint32_t from, bool keep,
              const struct ptx_opd **ret, uint32_t *ret_n)
{
    uint32_t n = p->opds.n - from;
    struct ptx_opd *opds;

    *ret = NULL;
    *ret_n = n;
    p->opds.n = from;
    if (!n)
        return 0;
    opds = (struct ptx_opd *)p->opds.data + from;
    opds = ptx_arena_copy(p->arena, opds, n * sizeof(*opds));
    if (!opds)
        return ptx_no_memory(p);
    for (uint32_t i = 0; i < n; i++) {
        int r = opds[i].kind == PTX_OPD_SYM ? ptx_scope_defer(p, &opds[i], keep) : 0;

        if (r < 0)
            return r;
    }
    *ret = opds;
    return 0;
}

/* Replace what was pushed since @from by one operand that holds it. */
static int
group(struct ptx_parser *p, enum ptx_opd_kind kind, uint32_t from, bool keep)
{
    const struct ptx_opd *sub;
    struct ptx_opd *opd;
    uint32_t n;
    int r;

    r = ptx_opds_take(p, from, keep, &sub, &n);
    if (r < 0)
        return r;
    opd = push(p, kind);
    if (!opd)
        return ptx_no_memory(p);
    opd->sub = sub;
    opd->n = n;
    return 0;
}

static bool
is_unknown_op(unsigned op)
{
    return op >= PTX_W_COUNT;
}

/* `{a, b}` or `(a, b)` behind the opening one. */
static int
parse_group(struct ptx_parser *p, unsigned op, enum ptx_opd_kind kind, int close)
{
    uint32_t from = p->opds.n;
    int r = 0;

    if (p->lex.tok != (enum ptx_tok)close) {
        do {
            if (p->opds.n - from >= PTX_MAX_VECTOR)
                return ptx_too_big(p, "more than %d elements", PTX_MAX_VECTOR);
            r = ptx_parse_operand(p, op);
        } while (r == 0 && ptx_accept(p, ','));
    }
    if (r == 0)
        r = ptx_expect(p, close);
    return r < 0 ? r : group(p, kind, from, is_unknown_op(op));
}

static int
parse_const(struct ptx_parser *p)
{
    struct ptx_opd *opd;
    struct ptx_val v;
    int r;

    r = ptx_parse_expr(p, PTX_PREC_ALL, &v);
    if (r < 0)
        return r;
    opd = push(p, v.kind);
    if (!opd)
        return ptx_no_memory(p);
    opd->imm = v.bits;
    opd->flags = v.is_unsigned ? PTX_OPF_UNSIGNED : 0;
    return 0;
}

static bool
is_register(const struct ptx_binding *b)
{
    return b && b->kind == PTX_BIND_REG;
}

/* .x .y .b0 .h1 as a number; 0: it is none of them. */
static unsigned
simple_comp(const struct ptx_name *name)
{
    switch (name->word) {
    case PTX_W_x:
    case PTX_W_r:
        return PTX_COMP_X;
    case PTX_W_y:
    case PTX_W_g:
        return PTX_COMP_Y;
    case PTX_W_z:
    case PTX_W_b:
        return PTX_COMP_Z;
    case PTX_W_w:
    case PTX_W_a:
        return PTX_COMP_W;
    case PTX_W_b0:
        return PTX_COMP_B0;
    case PTX_W_b1:
        return PTX_COMP_B1;
    case PTX_W_b2:
        return PTX_COMP_B2;
    case PTX_W_b3:
        return PTX_COMP_B3;
    case PTX_W_h0:
        return PTX_COMP_H0;
    case PTX_W_h1:
        return PTX_COMP_H1;
    default:
        return PTX_COMP_NONE;
    }
}

/* .b3210, .h10: selectors of SIMD video instructions. */
static bool
select_comp(const struct ptx_name *name, struct ptx_opd *opd)
{
    const char *text = name->sym.name;
    uint32_t n = name->sym.len - 1;

    if ((*text != 'b' && *text != 'h') || n < 2 || n > 4)
        return false;
    opd->imm = 0;
    for (uint32_t i = 1; i <= n; i++) {
        if (text[i] < '0' || text[i] > '7')
            return false;
        opd->imm = opd->imm << 4 | (uint64_t)(text[i] - '0');
    }
    opd->n = n;
    opd->comp = PTX_COMP_SELECT;
    if (*text == 'h')
        opd->flags |= PTX_OPF_UNSIGNED;
    return true;
}

/* A component behind a register, if there is one. */
static int
parse_comp(struct ptx_parser *p)
{
    struct ptx_opd *opd = top(p);

    if (p->lex.tok != PTX_TOK_DOT)
        return 0;
    opd->comp = (uint8_t)simple_comp(p->lex.name);
    if (!opd->comp && !select_comp(p->lex.name, opd))
        return ptx_expected(p, "a component like .x");
    ptx_lex_next(&p->lex);
    return 0;
}

/* A vector register without a component is all of them, in order. */
static int
spread_vector(struct ptx_parser *p, unsigned op)
{
    uint32_t from = p->opds.n - 1, reg = top(p)->reg;
    unsigned vec = ((const struct ptx_reg *)p->regs.data)[reg].vec;

    if (vec == 1 || top(p)->comp)
        return 0;
    p->opds.n = from;
    for (unsigned i = 0; i < vec; i++) {
        struct ptx_opd *opd = push(p, PTX_OPD_REG);

        if (!opd)
            return ptx_no_memory(p);
        opd->reg = reg;
        opd->comp = (uint8_t)(PTX_COMP_X + i);
    }
    return group(p, PTX_OPD_VEC, from, is_unknown_op(op));
}

static int
push_reg(struct ptx_parser *p, unsigned op, uint32_t reg)
{
    struct ptx_opd *opd = push(p, PTX_OPD_REG);
    int r;

    if (!opd)
        return ptx_no_memory(p);
    opd->reg = reg;
    ptx_lex_next(&p->lex);
    r = parse_comp(p);
    return r < 0 ? r : spread_vector(p, op);
}

/* Is the name a special register?  %envreg7 and its like are found by their
 * prefix, which ptx_scope_lookup() has split off. */
static bool
find_sreg(const struct ptx_name *name, uint32_t *ret_sreg, uint64_t *ret_index)
{
    unsigned prefix = name->prefix ? name->prefix->sreg : 0;

    *ret_index = 0;
    if (name->sreg) {
        *ret_sreg = name->sreg - 1u;
        *ret_index = *ret_sreg == PTX_SREG_pm_64 ? name->num : 0;
        return true;
    }
    if (prefix != PTX_SREG_envreg + 1 && prefix != PTX_SREG_pm + 1 &&
        prefix != PTX_SREG_reserved_smem_offset + 1)
        return false;
    *ret_sreg = prefix - 1u;
    *ret_index = name->num;
    return true;
}

static int
push_sreg(struct ptx_parser *p, uint32_t sreg, uint64_t index)
{
    struct ptx_opd *opd = push(p, PTX_OPD_SREG);
    int r;

    if (!opd)
        return ptx_no_memory(p);
    opd->reg = sreg;
    opd->imm = index;
    ptx_lex_next(&p->lex);
    r = parse_comp(p);
    if (r == 0 && top(p)->comp > PTX_COMP_W)
        return ptx_fail(p, "special registers have components .x to .w");
    return r;
}

/* A name that nothing is bound to yet: a label further down, we hope. */
static int
push_sym(struct ptx_parser *p)
{
    struct ptx_opd *opd = push(p, PTX_OPD_SYM);

    if (!opd)
        return ptx_no_memory(p);
    opd->sym = &p->lex.name->sym;
    opd->imm = p->lex.tok_col;
    ptx_lex_next(&p->lex);
    return 0;
}

static void
push_base(struct ptx_opd *opd, const struct ptx_binding *b)
{
    switch (b->kind) {
    case PTX_BIND_REG:
        opd->base = PTX_OPD_REG;
        opd->reg = b->reg;
        break;
    case PTX_BIND_VAR:
        opd->base = PTX_OPD_VAR;
        opd->var = b->var;
        break;
    default:
        opd->base = PTX_OPD_FUNC;
        opd->func = b->func;
        break;
    }
}

/* The register behind `+` or in `[ ]`, which only a variable can have. */
static int
parse_index_reg(struct ptx_parser *p, uint64_t scale)
{
    struct ptx_opd *opd = top(p);
    struct ptx_binding *b;
    int r;

    r = ptx_scope_lookup(p, p->lex.name, &b);
    if (r < 0)
        return r;
    if (!is_register(b))
        return ptx_expected(p, "a register or a constant");
    if (opd->base != PTX_OPD_VAR || opd->reg != PTX_REG_NONE)
        return ptx_fail(p, "an address has one register");
    opd->reg = b->reg;
    opd->n = (uint32_t)scale;
    ptx_lex_next(&p->lex);
    return 0;
}

static bool
at_register_name(const struct ptx_parser *p)
{
    return p->lex.tok == PTX_TOK_NAME && !ptx_at_expr(p);
}

/* `[i]` behind a variable: elements, not bytes. */
static int
parse_subscript(struct ptx_parser *p)
{
    struct ptx_opd *opd = top(p);
    uint64_t unit = opd->var->elem_size;
    int64_t more = 0;
    struct ptx_val v;
    int r;

    ptx_lex_next(&p->lex);
    if (at_register_name(p)) {
        r = parse_index_reg(p, unit);
        if (r == 0)
            r = ptx_parse_addend(p, &more);
    } else {
        r = ptx_parse_expr(p, PTX_PREC_ALL, &v);
        if (r == 0 && v.kind != PTX_OPD_INT)
            return ptx_fail(p, "an index is an integer");
        more = r == 0 ? (int64_t)v.bits : 0;
    }
    if (r < 0)
        return r;
    top(p)->imm += (uint64_t)more * unit;
    return ptx_expect(p, ']');
}

/* `+ 8`, `- 8`, `+ %r1`, `[2]` behind the base of an address on top. */
static int
parse_offset(struct ptx_parser *p)
{
    struct ptx_lex peek;
    int64_t more;
    int r = 0;

    if (p->lex.tok == '[' && top(p)->base == PTX_OPD_VAR)
        r = parse_subscript(p);
    while (r == 0 && (p->lex.tok == '+' || p->lex.tok == '-')) {
        peek = p->lex;
        if (peek.tok == '+') {
            ptx_lex_next(&p->lex);
            if (at_register_name(p)) {
                r = parse_index_reg(p, 1);
                continue;
            }
            p->lex = peek;
        }
        r = ptx_parse_addend(p, &more);
        top(p)->imm += r == 0 ? (uint64_t)more : 0;
    }
    return r;
}

static int
address_base(struct ptx_parser *p)
{
    struct ptx_binding *b;
    struct ptx_val v;
    int r;

    if (at_register_name(p)) {
        r = ptx_scope_lookup(p, p->lex.name, &b);
        if (r < 0)
            return r;
        if (!b)
            return ptx_fail(p, "'%.*s' is not declared",
                            gp_min((int)p->lex.name->sym.len, 200),
                            p->lex.name->sym.name);
        push_base(top(p), b);
        ptx_lex_next(&p->lex);
        return parse_offset(p);
    }
    r = ptx_parse_expr(p, PTX_PREC_ALL, &v);
    if (r == 0 && v.kind != PTX_OPD_INT)
        return ptx_fail(p, "an address is an integer");
    top(p)->base = PTX_OPD_INT;
    top(p)->imm = r == 0 ? v.bits : 0;
    return r;
}

/* `[...]`, behind the bracket. */
static int
parse_address(struct ptx_parser *p, unsigned op)
{
    uint32_t from = p->opds.n;
    struct ptx_opd *opd = push(p, PTX_OPD_ADDR);
    int r;

    if (!opd)
        return ptx_no_memory(p);
    opd->n = 1;
    r = address_base(p);
    while (r == 0 && ptx_accept(p, ',')) {
        if (p->opds.n - from >= PTX_MAX_VECTOR)
            return ptx_too_big(p, "more than %d elements", PTX_MAX_VECTOR);
        r = ptx_parse_operand(p, op);
    }
    if (r == 0)
        r = ptx_expect(p, ']');
    if (r == 0 && p->opds.n - from > 1)
        r = group(p, PTX_OPD_TEXADDR, from, is_unknown_op(op));
    if (r == 0 && ptx_at_dot(p, PTX_W_unified)) {
        top(p)->flags |= PTX_OPF_UNIFIED;
        ptx_lex_next(&p->lex);
    }
    return r;
}

/* A variable's or function's name outside brackets: its address, plus a
 * constant; with a register index it is an address after all. */
static int
push_symbol(struct ptx_parser *p, const struct ptx_binding *b)
{
    struct ptx_opd *opd = push(p, PTX_OPD_ADDR);
    int r;

    if (!opd)
        return ptx_no_memory(p);
    opd->n = 1;
    push_base(opd, b);
    ptx_lex_next(&p->lex);
    r = parse_offset(p);
    opd = top(p);
    if (r == 0 && opd->reg == PTX_REG_NONE) {
        opd->kind = opd->base;
        opd->base = PTX_OPD_NONE;
        opd->n = 0;
    }
    return r;
}

static int
parse_named(struct ptx_parser *p, unsigned op)
{
    struct ptx_name *name = p->lex.name;
    struct ptx_binding *b;
    uint64_t index;
    uint32_t sreg;
    int r;

    if (name->sym.len == 1 && *name->sym.name == '_') {
        if (!push(p, PTX_OPD_SINK))
            return ptx_no_memory(p);
        ptx_lex_next(&p->lex);
        return 0;
    }
    if (op == PTX_W_bra)
        return push_sym(p);
    r = ptx_scope_lookup(p, name, &b);
    if (r < 0)
        return r;
    if (is_register(b))
        return push_reg(p, op, b->reg);
    if (b)
        return push_symbol(p, b);
    if (find_sreg(name, &sreg, &index))
        return push_sreg(p, sreg, index);
    return push_sym(p);
}

/* `p|q`, at the bar: the first half is on top. */
static int
parse_pair(struct ptx_parser *p, unsigned op)
{
    uint32_t from = p->opds.n - 1;
    int r;

    ptx_lex_next(&p->lex);
    if (p->lex.tok != PTX_TOK_NAME)
        return ptx_expected(p, "a register after '|'");
    r = parse_named(p, op);
    return r < 0 ? r : group(p, PTX_OPD_PAIR, from, is_unknown_op(op));
}

/* `!%p` and `-%r`; anything else behind the sign is a constant. */
static int
parse_signed(struct ptx_parser *p, unsigned op)
{
    struct ptx_lex start = p->lex;
    unsigned flag = p->lex.tok == '!' ? PTX_OPF_NOT : PTX_OPF_NEG;
    int r;

    ptx_lex_next(&p->lex);
    if (!at_register_name(p)) {
        p->lex = start;
        return parse_const(p);
    }
    r = parse_named(p, op);
    if (r == 0 && top(p)->kind != PTX_OPD_REG)
        return ptx_fail(p, "'%c' applies to registers and constants", start.tok);
    if (r == 0)
        top(p)->flags |= (uint8_t)flag;
    return r;
}

static int
parse_plain(struct ptx_parser *p, unsigned op)
{
    switch ((int)p->lex.tok) {
    case PTX_TOK_NAME:
        return ptx_at_expr(p) ? parse_const(p) : parse_named(p, op);
    case '[':
        ptx_lex_next(&p->lex);
        return parse_address(p, op);
    case '{':
        ptx_lex_next(&p->lex);
        return parse_group(p, op, PTX_OPD_VEC, '}');
    case '(':
        if (op != PTX_W_call)
            return parse_const(p);
        ptx_lex_next(&p->lex);
        return parse_group(p, op, PTX_OPD_LIST, ')');
    case '!':
    case '-':
        return parse_signed(p, op);
    default:
        return ptx_at_expr(p) ? parse_const(p) : ptx_expected(p, "an operand");
    }
}

int
ptx_parse_operand(struct ptx_parser *p, unsigned op)
{
    int r;

    if (++p->nest > PTX_MAX_NEST)
        return ptx_too_big(p, "operands nested deeper than %u", PTX_MAX_NEST);
    r = parse_plain(p, op);
    if (r == 0 && p->lex.tok == '|')
        r = parse_pair(p, op);
    p->nest--;
    return r;
}
