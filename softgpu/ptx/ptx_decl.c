/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations: registers and variables of every state space.
 */
#include "ptx_parse.h"

#include <stdio.h>
#include <string.h>

bool
ptx_word_space(unsigned word, uint8_t *ret)
{
    switch (word) {
    case PTX_W_reg:
        *ret = PTX_SPACE_REG;
        return true;
    case PTX_W_const:
        *ret = PTX_SPACE_CONST;
        return true;
    case PTX_W_global:
        *ret = PTX_SPACE_GLOBAL;
        return true;
    case PTX_W_local:
        *ret = PTX_SPACE_LOCAL;
        return true;
    case PTX_W_param:
        *ret = PTX_SPACE_PARAM;
        return true;
    case PTX_W_shared:
        *ret = PTX_SPACE_SHARED;
        return true;
    case PTX_W_tex:
        *ret = PTX_SPACE_TEX;
        return true;
    default:
        return false;
    }
}

bool
ptx_word_linkage(unsigned word, uint8_t *ret)
{
    switch (word) {
    case PTX_W_visible:
        *ret = PTX_LINK_VISIBLE;
        return true;
    case PTX_W_extern:
        *ret = PTX_LINK_EXTERN;
        return true;
    case PTX_W_weak:
        *ret = PTX_LINK_WEAK;
        return true;
    case PTX_W_common:
        *ret = PTX_LINK_COMMON;
        return true;
    default:
        return false;
    }
}

static int
parse_align(struct ptx_parser *p, struct ptx_decl *decl)
{
    uint64_t align;
    int r;

    r = ptx_parse_uint(p, PTX_PREC_ALL, PTX_MAX_ALIGN, "alignment", &align);
    if (r < 0)
        return r;
    if (align == 0 || (align & (align - 1)))
        return ptx_fail(p, "alignment %u is not a power of two", (unsigned)align);
    if (decl->is_ptr)
        decl->ptr_align = (uint32_t)align;
    else
        decl->align = (uint32_t)align;
    return 0;
}

/* `(.managed)`, `(.unified(id, id))` and what else may come: names with
 * arguments.  Only .managed changes anything for us. */
static int
parse_attribute(struct ptx_parser *p, struct ptx_decl *decl)
{
    int r = ptx_expect(p, '(');

    for (unsigned open = 1; r == 0 && open; ptx_lex_next(&p->lex)) {
        if (p->lex.tok == '(')
            open++;
        else if (p->lex.tok == ')')
            open--;
        else if (ptx_at_dot(p, PTX_W_managed))
            decl->managed = true;
        else if (p->lex.tok == PTX_TOK_END || p->lex.tok == PTX_TOK_BAD ||
                 p->lex.tok == ';')
            r = ptx_expected(p, "')' after .attribute");
    }
    return r;
}

static int
set_space(struct ptx_parser *p, struct ptx_decl *decl, uint8_t space)
{
    uint64_t bank;
    int r;

    if (decl->is_ptr) {
        decl->ptr_space = space;
        return 0;
    }
    if (decl->has_space)
        return ptx_fail(p, "second state space in one declaration");
    decl->has_space = true;
    decl->space = space;
    if (space == PTX_SPACE_CONST && ptx_accept(p, '[')) {
        /* .const[2]: the banks of PTX 2; one bank for us */
        r = ptx_parse_uint(p, PTX_PREC_ALL, 10, "constant bank", &bank);
        return r < 0 ? r : ptx_expect(p, ']');
    }
    return 0;
}

static int
set_type(struct ptx_parser *p, struct ptx_decl *decl, unsigned word)
{
    if (decl->type)
        return ptx_fail(p, "second type in one declaration");
    if (ptx_type_size(word) == 0)
        return ptx_fail(p, "'.%s' is no type of a variable", ptx_names_word_text(word));
    decl->type = (uint16_t)word;
    return 0;
}

/* The current token is a directive inside a declaration. */
static int
parse_decl_word(struct ptx_parser *p, struct ptx_decl *decl)
{
    unsigned word = p->lex.name->word;
    uint32_t line = p->lex.tok_line, col = p->lex.tok_col;
    const struct ptx_sym *sym = &p->lex.name->sym;
    uint8_t space;

    ptx_lex_next(&p->lex);
    if (ptx_word_is_type(word))
        return set_type(p, decl, word);
    if (ptx_word_space(word, &space))
        return set_space(p, decl, space);
    switch (word) {
    case PTX_W_align:
        return parse_align(p, decl);
    case PTX_W_v2:
    case PTX_W_v4:
    case PTX_W_v8:
        decl->vec = word == PTX_W_v2 ? 2 : word == PTX_W_v4 ? 4 : 8;
        return 0;
    case PTX_W_ptr:
        decl->is_ptr = true;
        decl->ptr_space = PTX_SPACE_REG;
        return 0;
    case PTX_W_attribute:
        return parse_attribute(p, decl);
    default:
        if (ptx_word_linkage(word, &decl->linkage))
            return 0;
        return ptx_fail_at(p, line, col, -EINVAL, "unexpected '.%.*s' in a declaration",
                           gp_min((int)sym->len, 200), sym->name);
    }
}

int
ptx_parse_decl(struct ptx_parser *p, struct ptx_decl *decl)
{
    while (p->lex.tok == PTX_TOK_DOT) {
        int r = parse_decl_word(p, decl);

        if (r < 0)
            return r;
    }
    if (!decl->has_space)
        return ptx_expected(p, "a state space");
    if (!decl->type)
        return ptx_expected(p, "a type");
    if (decl->type == PTX_W_pred && decl->space != PTX_SPACE_REG)
        return ptx_fail(p, ".pred exists only in registers");
    if (!decl->vec)
        decl->vec = 1;
    return 0;
}

static int
parse_dims(struct ptx_parser *p, struct ptx_var *var)
{
    while (ptx_accept(p, '[')) {
        uint64_t dim = 0;
        int r;

        if (var->n_dims == PTX_MAX_DIMS)
            return ptx_too_big(p, "more than %d array dimensions", PTX_MAX_DIMS);
        if (p->lex.tok != ']') {
            r = ptx_parse_uint(p, PTX_PREC_ALL, PTX_MAX_VAR_BYTES, "array size", &dim);
            if (r < 0)
                return r;
        } else if (var->n_dims) {
            return ptx_fail(p, "only the first dimension may be left out");
        }
        r = ptx_expect(p, ']');
        if (r < 0)
            return r;
        var->dims[var->n_dims++] = dim;
        if (!gp_mul_ok(var->size, dim, &var->size) || var->size > PTX_MAX_VAR_BYTES)
            return ptx_too_big(p, "variable '%.*s' is larger than 2^40 bytes",
                               gp_min((int)var->name->len, 200), var->name->name);
    }
    return 0;
}

int
ptx_parse_declarator(struct ptx_parser *p, const struct ptx_decl *decl,
                     struct ptx_var **ret)
{
    struct ptx_var *var;
    int r;

    if (p->lex.tok != PTX_TOK_NAME)
        return ptx_expected(p, "a name");
    var = ptx_arena_alloc(p->arena, sizeof(*var));
    if (!var)
        return ptx_no_memory(p);
    var->name = &p->lex.name->sym;
    var->space = decl->space;
    var->linkage = decl->linkage;
    var->vec = decl->vec;
    var->type = decl->type;
    var->managed = decl->managed;
    var->is_ptr = decl->is_ptr;
    var->ptr_space = decl->ptr_space;
    var->ptr_align = decl->ptr_align;
    var->line = p->lex.tok_line;
    var->reg = PTX_REG_NONE;
    var->elem_size = (uint64_t)ptx_type_size(decl->type) * decl->vec;
    var->size = var->elem_size;
    var->align = decl->align ? decl->align : (uint32_t)var->elem_size;
    var->func = p->func;
    ptx_lex_next(&p->lex);
    r = parse_dims(p, var);
    if (r == 0)
        *ret = var;
    return r;
}

/* `%r<100>`, `a`: one item of a register declaration. */
static int
parse_reg(struct ptx_parser *p, const struct ptx_decl *decl)
{
    struct ptx_name *name = p->lex.name;
    uint64_t count;
    int r;

    if (p->lex.tok != PTX_TOK_NAME)
        return ptx_expected(p, "a register name");
    ptx_lex_next(&p->lex);
    if (!ptx_accept(p, '<'))
        return ptx_scope_bind_reg(p, name, decl->type, decl->vec, NULL);
    r = ptx_parse_uint(p, PTX_PREC_SHIFT, PTX_MAX_REGS, "number of registers", &count);
    if (r == 0)
        r = ptx_expect(p, '>');
    if (r == 0)
        r = ptx_scope_bind_range(p, name, decl->type, decl->vec, (uint32_t)count);
    return r;
}

static bool
same_shape(const struct ptx_var *a, const struct ptx_var *b)
{
    return a->space == b->space && a->type == b->type && a->vec == b->vec &&
           (a->size == b->size || a->size == 0 || b->size == 0);
}

/* A second declaration of a module's variable: the definition wins, and the
 * object stays the one that others already point to. */
static int
redeclare_var(struct ptx_parser *p, struct ptx_var *old, const struct ptx_var *var,
              struct ptx_var **ret)
{
    uint32_t id = old->id;

    if (!same_shape(old, var))
        return ptx_fail_at(p, var->line, 1, -EINVAL,
                           "'%s' was declared differently in line %u", var->name->name,
                           old->line);
    if (var->linkage != PTX_LINK_EXTERN) {
        if (old->linkage != PTX_LINK_EXTERN && old->linkage != PTX_LINK_COMMON)
            return ptx_fail_at(p, var->line, 1, -EINVAL,
                               "'%s' was already defined in line %u", var->name->name,
                               old->line);
        *old = *var;
        old->id = id;
    }
    *ret = old;
    return 0;
}

/* Give the variable its place in the module or in the function. */
static int
add_var(struct ptx_parser *p, struct ptx_name *name, struct ptx_var **ret)
{
    struct ptx_vec *list = p->depth ? &p->func_vars : &p->vars;
    struct ptx_var **slot, *var = *ret;
    const struct ptx_binding *old = p->depth ? NULL : name->bind;

    if (old && old->kind == PTX_BIND_VAR)
        return redeclare_var(p, old->var, var, ret);
    slot = ptx_vec_push(list, sizeof(*slot));
    if (!slot)
        return ptx_no_memory(p);
    *slot = var;
    var->id = list->n - 1;
    return ptx_scope_bind_var(p, name, var);
}

enum {
    /* Variables of one declaration: arguments of a call, which are few. */
    MAX_VAR_RANGE = 1024,
    MAX_RANGE_NAME = 256,
};

/* `%P<4>` behind the name: %P0 to %P3, each like @proto.  GCC declares the
 * arguments of a call this way. */
static int
parse_var_range(struct ptx_parser *p, const struct ptx_name *base,
                const struct ptx_var *proto)
{
    char text[MAX_RANGE_NAME + 16];
    uint64_t count;
    int r;

    if (base->sym.len > MAX_RANGE_NAME)
        return ptx_fail(p, "a name for several variables is too long");
    r = ptx_parse_uint(p, PTX_PREC_SHIFT, MAX_VAR_RANGE, "number of variables", &count);
    if (r == 0)
        r = ptx_expect(p, '>');
    for (uint64_t i = 0; i < count && r == 0; i++) {
        struct ptx_var *var = ptx_arena_alloc(p->arena, sizeof(*var));
        struct ptx_name *name;
        int n;

        n = snprintf(text, sizeof(text), "%.*s%u", (int)base->sym.len, base->sym.name,
                     (unsigned)i);
        name = ptx_names_intern(p->names, text, (size_t)n);
        if (!var || !name)
            return ptx_no_memory(p);
        *var = *proto;
        var->name = &name->sym;
        r = add_var(p, name, &var);
    }
    return r;
}

/* `name dims = init`: one item of a variable declaration. */
static int
parse_one_var(struct ptx_parser *p, const struct ptx_decl *decl)
{
    struct ptx_name *name = p->lex.name;
    struct ptx_var *var;
    int r;

    r = ptx_parse_declarator(p, decl, &var);
    if (r == 0 && p->depth && ptx_accept(p, '<'))
        return parse_var_range(p, name, var);
    if (r == 0)
        r = add_var(p, name, &var);
    if (r < 0 || !ptx_accept(p, '='))
        return r;
    if (decl->space != PTX_SPACE_GLOBAL && decl->space != PTX_SPACE_CONST)
        return ptx_fail(p, "only .global and .const variables have initialisers");
    if (decl->linkage == PTX_LINK_EXTERN)
        return ptx_fail(p, "an .extern variable has no initialiser");
    return ptx_parse_init(p, var);
}

int
ptx_parse_var(struct ptx_parser *p, uint8_t linkage)
{
    struct ptx_decl decl = {.linkage = linkage};
    int r;

    r = ptx_parse_decl(p, &decl);
    if (r < 0)
        return r;
    if (!p->depth && (decl.space == PTX_SPACE_REG || decl.space == PTX_SPACE_PARAM))
        return ptx_fail(p, "registers and parameters belong to a function");
    do {
        r = decl.space == PTX_SPACE_REG ? parse_reg(p, &decl) : parse_one_var(p, &decl);
        if (r < 0)
            return r;
    } while (ptx_accept(p, ','));
    return ptx_expect(p, ';');
}
