/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function bodies: blocks, labels, instructions.  Blocks are walked with a
 * depth counter, not by recursion.
 */
#include "ptx_parse.h"

#include <string.h>

static bool
is_opcode(unsigned word)
{
    return (word >= PTX_W_abs && word <= PTX_W_xor) || word == PTX_W_tex;
}

/* ---- labels ---- */

static int
label_new(struct ptx_parser *p, struct ptx_name *name, struct ptx_label **ret)
{
    struct ptx_label *label = ptx_arena_alloc(p->arena, sizeof(*label));
    struct ptx_label **slot;

    if (!label)
        return ptx_no_memory(p);
    slot = ptx_vec_push(&p->labels, sizeof(*slot));
    if (!slot)
        return ptx_no_memory(p);
    *slot = label;
    label->name = &name->sym;
    label->id = p->labels.n - 1;
    label->at = p->insns.n;
    label->line = p->lex.tok_line;
    *ret = label;
    return ptx_scope_bind_label(p, name, label);
}

/* Names of a table, each pushed as an operand. */
static int
parse_names(struct ptx_parser *p, unsigned op)
{
    int r;

    do {
        if (p->lex.tok != PTX_TOK_NAME)
            return ptx_expected(p, "a name");
        r = ptx_parse_operand(p, op);
    } while (r == 0 && ptx_accept(p, ','));
    return r < 0 ? r : ptx_expect(p, ';');
}

/* The labels of a table are further down more often than not: keep them as
 * operands until the body has ended (finish_tables() of ptx_func.c). */
static int
parse_branchtargets(struct ptx_parser *p, struct ptx_label *label)
{
    uint32_t from = p->opds.n;
    const struct ptx_opd *opds;
    struct ptx_table *table;
    uint32_t n;
    int r;

    label->kind = PTX_LABEL_BRANCHES;
    r = parse_names(p, PTX_W_bra);
    if (r == 0)
        r = ptx_opds_take(p, from, false, &opds, &n);
    if (r < 0)
        return r;
    table = ptx_vec_push(&p->tables, sizeof(*table));
    if (!table)
        return ptx_no_memory(p);
    *table = (struct ptx_table){.label = label, .opds = opds, .n = n};
    return 0;
}

static int
parse_calltargets(struct ptx_parser *p, struct ptx_label *label)
{
    uint32_t from = p->opds.n, n;
    const struct ptx_func **funcs;
    const struct ptx_opd *opds;
    int r;

    label->kind = PTX_LABEL_CALLS;
    r = parse_names(p, PTX_W_call);
    if (r < 0)
        return r;
    opds = (const struct ptx_opd *)p->opds.data + from;
    n = p->opds.n - from;
    funcs = ptx_arena_alloc(p->arena, n * sizeof(*funcs));
    if (!funcs)
        return ptx_no_memory(p);
    for (uint32_t i = 0; i < n; i++) {
        if (opds[i].kind != PTX_OPD_FUNC)
            return ptx_fail(p, "a call target is not a function");
        funcs[i] = opds[i].func;
    }
    p->opds.n = from;
    label->funcs = funcs;
    label->n = n;
    return 0;
}

/* Behind `name:`. */
static int
parse_label(struct ptx_parser *p, struct ptx_name *name)
{
    struct ptx_label *label = NULL;
    struct ptx_func *proto = NULL;
    int r;

    r = label_new(p, name, &label);
    if (r < 0 || p->lex.tok != PTX_TOK_DOT)
        return r;
    switch (p->lex.name->word) {
    case PTX_W_branchtargets:
        ptx_lex_next(&p->lex);
        return parse_branchtargets(p, label);
    case PTX_W_calltargets:
        ptx_lex_next(&p->lex);
        return parse_calltargets(p, label);
    case PTX_W_callprototype:
        ptx_lex_next(&p->lex);
        label->kind = PTX_LABEL_PROTOTYPE;
        r = ptx_parse_prototype(p, &proto);
        label->proto = r == 0 ? proto : NULL;
        return r;
    default:
        return 0;
    }
}

/* ---- instructions ---- */

static int
parse_mods(struct ptx_parser *p, struct ptx_insn *insn)
{
    uint16_t mods[PTX_MAX_MODIFIERS];
    unsigned n = 0;

    for (; p->lex.tok == PTX_TOK_DOT; ptx_lex_next(&p->lex)) {
        unsigned word = ptx_names_word(p->names, p->lex.name);

        if (!word)
            return ptx_too_big(p, "more than %d unknown words", PTX_MAX_WORDS);
        if (n == PTX_MAX_MODIFIERS)
            return ptx_too_big(p, "more than %d modifiers", PTX_MAX_MODIFIERS);
        mods[n++] = (uint16_t)word;
    }
    insn->n_mods = (uint8_t)n;
    if (!n)
        return 0;
    insn->mods = ptx_arena_copy(p->arena, mods, n * sizeof(mods[0]));
    return insn->mods ? 0 : ptx_no_memory(p);
}

static int
parse_operands(struct ptx_parser *p, struct ptx_insn *insn)
{
    uint32_t n;
    int r = 0;

    if (p->lex.tok != ';') {
        do {
            if (p->opds.n >= PTX_MAX_OPERANDS)
                return ptx_too_big(p, "more than %d operands", PTX_MAX_OPERANDS);
            r = ptx_parse_operand(p, insn->op);
        } while (r == 0 && ptx_accept(p, ','));
    }
    if (r == 0 && p->lex.tok != ';')
        r = ptx_expected(p, "',' or ';'");
    if (r == 0)
        r = ptx_opds_take(p, 0, !is_opcode(insn->op), &insn->opds, &n);
    if (r < 0)
        return r;
    insn->n_opds = (uint8_t)n;
    ptx_lex_next(&p->lex);
    return 0;
}

/* An instruction from the future with operands from the future: keep its name,
 * so that only the function that holds it is lost. */
static int
skip_operands(struct ptx_parser *p, struct ptx_insn *insn)
{
    while (p->lex.tok != ';') {
        if (p->lex.tok == PTX_TOK_END || p->lex.tok == PTX_TOK_BAD)
            return ptx_expected(p, "';'");
        ptx_lex_next(&p->lex);
    }
    ptx_lex_next(&p->lex);
    p->opds.n = 0;
    p->nest = 0;
    insn->opds = NULL;
    insn->n_opds = 0;
    insn->flags |= PTX_INSN_OPAQUE;
    if (p->err)
        *p->err = (struct gp_err){0};
    return 0;
}

/* Modifiers and operands behind the name @op_name. */
static int
parse_insn(struct ptx_parser *p, struct ptx_name *op_name, struct ptx_insn *insn)
{
    struct ptx_insn *slot;
    unsigned op = ptx_names_word(p->names, op_name);
    int r;

    if (!op)
        return ptx_too_big(p, "more than %d unknown words", PTX_MAX_WORDS);
    insn->op = (uint16_t)op;
    r = parse_mods(p, insn);
    if (r == 0)
        r = parse_operands(p, insn);
    if (r == -EINVAL && !is_opcode(op))
        r = skip_operands(p, insn);
    if (r < 0)
        return r;
    slot = ptx_vec_push(&p->insns, sizeof(*slot));
    if (!slot)
        return ptx_no_memory(p);
    *slot = *insn;
    return 0;
}

/* `@%p` or `@!%p`, behind the @. */
static int
parse_guard(struct ptx_parser *p, struct ptx_insn *insn)
{
    struct ptx_binding *b;
    int r;

    if (ptx_accept(p, '!'))
        insn->flags |= PTX_INSN_NEG;
    if (p->lex.tok != PTX_TOK_NAME)
        return ptx_expected(p, "a predicate register");
    r = ptx_scope_lookup(p, p->lex.name, &b);
    if (r < 0)
        return r;
    if (!b || b->kind != PTX_BIND_REG || b->type != PTX_W_pred)
        return ptx_expected(p, "a predicate register");
    insn->flags |= PTX_INSN_GUARD;
    insn->guard = b->reg;
    ptx_lex_next(&p->lex);
    return 0;
}

static int
parse_guarded(struct ptx_parser *p)
{
    struct ptx_insn insn = {.line = p->lex.tok_line, .guard = PTX_REG_NONE};
    struct ptx_name *name;
    int r;

    ptx_lex_next(&p->lex);
    if (p->lex.tok == '@') { /* @@DWARF: old debug lines */
        ptx_lex_skip_line(&p->lex);
        return 0;
    }
    r = parse_guard(p, &insn);
    if (r < 0)
        return r;
    name = p->lex.name;
    if (p->lex.tok != PTX_TOK_NAME)
        return ptx_expected(p, "an instruction");
    ptx_lex_next(&p->lex);
    return parse_insn(p, name, &insn);
}

/* A label or an instruction: the name decides nothing, what follows does. */
static int
parse_named(struct ptx_parser *p)
{
    struct ptx_insn insn = {.line = p->lex.tok_line, .guard = PTX_REG_NONE};
    struct ptx_name *name = p->lex.name;

    ptx_lex_next(&p->lex);
    if (ptx_accept(p, ':'))
        return parse_label(p, name);
    return parse_insn(p, name, &insn);
}

static int
parse_directive(struct ptx_parser *p)
{
    uint8_t linkage = PTX_LINK_LOCAL, unused;
    int r = ptx_parse_debug(p);

    if (r)
        return gp_min(r, 0);
    if (ptx_word_linkage(p->lex.name->word, &linkage))
        ptx_lex_next(&p->lex);
    if (p->lex.tok != PTX_TOK_DOT || !ptx_word_space(p->lex.name->word, &unused))
        return ptx_expected(p, "a declaration or an instruction");
    return ptx_parse_var(p, linkage);
}

static int
parse_statement(struct ptx_parser *p)
{
    switch ((int)p->lex.tok) {
    case PTX_TOK_NAME:
        return parse_named(p);
    case '@':
        return parse_guarded(p);
    case PTX_TOK_DOT:
        return parse_directive(p);
    case '{':
        ptx_lex_next(&p->lex);
        return ptx_scope_open(p);
    case ';':
        ptx_lex_next(&p->lex);
        return 0;
    default:
        return ptx_expected(p, "an instruction, a label, a declaration or '}'");
    }
}

int
ptx_parse_body(struct ptx_parser *p)
{
    unsigned outer = p->depth - 1;
    int r = 0;

    while (r == 0 && p->depth > outer) {
        if (p->lex.tok == '}') {
            r = ptx_scope_close(p);
            if (r == 0)
                ptx_lex_next(&p->lex);
        } else {
            r = parse_statement(p);
        }
    }
    return r;
}
