/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions: signatures, performance directives, prototypes, and the hand-over
 * of a parsed body to the syntax tree.
 */
#include "ptx_parse.h"

#include <string.h>

static int
is_sink(const struct ptx_name *name)
{
    return name->sym.len == 1 && *name->sym.name == '_';
}

/* One parameter; bound in the current scope unless it belongs to a prototype. */
static int
parse_param(struct ptx_parser *p, bool bind, struct ptx_var **ret)
{
    struct ptx_decl decl = {0};
    struct ptx_name *name;
    struct ptx_var *var;
    int r;

    r = ptx_parse_decl(p, &decl);
    if (r < 0)
        return r;
    if (decl.space != PTX_SPACE_PARAM && decl.space != PTX_SPACE_REG)
        return ptx_fail(p, "a parameter is in .param or .reg space");
    name = p->lex.name;
    r = ptx_parse_declarator(p, &decl, &var);
    if (r < 0)
        return r;
    *ret = var;
    if (is_sink(name))
        var->name = NULL;
    else if (bind && decl.space == PTX_SPACE_REG)
        return ptx_scope_bind_reg(p, name, decl.type, decl.vec, &var->reg);
    else if (bind)
        return ptx_scope_bind_var(p, name, var);
    return 0;
}

/* `(a, b)`, at the parenthesis. */
static int
parse_params(struct ptx_parser *p, bool bind, const struct ptx_var *const **ret,
             uint32_t *ret_n)
{
    struct ptx_vec list = {0};
    int r = ptx_expect(p, '(');

    while (r == 0 && p->lex.tok != ')') {
        struct ptx_var **slot = ptx_vec_push(&list, sizeof(*slot));

        if (!slot)
            r = ptx_no_memory(p);
        else if (list.n > PTX_MAX_PARAMS)
            r = ptx_too_big(p, "more than %d parameters", PTX_MAX_PARAMS);
        else
            r = parse_param(p, bind, slot);
        if (r == 0)
            (*slot)->id = list.n - 1;
        if (r == 0 && !ptx_accept(p, ','))
            break;
    }
    if (r == 0)
        r = ptx_expect(p, ')');
    if (r == 0) {
        *ret = ptx_arena_copy(p->arena, list.data, list.n * sizeof(struct ptx_var *));
        *ret_n = list.n;
        r = *ret ? 0 : ptx_no_memory(p);
    }
    ptx_vec_fini(&list);
    return r;
}

/* Offsets in the parameter block: each at its own alignment, in order. */
static int
layout_params(struct ptx_parser *p, struct ptx_func *func)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < func->n_params; i++) {
        struct ptx_var *var = (struct ptx_var *)(uintptr_t)func->params[i];

        at = GP_ALIGN_UP(at, (uint64_t)var->align);
        var->offset = at;
        if (!gp_add_ok(at, var->size, &at) || at > UINT32_MAX / 2)
            return ptx_too_big(p, "parameters are larger than 2 GiB");
    }
    if (func->is_entry && at > PTX_MAX_PARAM_BYTES)
        return ptx_too_big(p, "kernel parameters take %llu bytes, the limit is %d",
                           (unsigned long long)at, PTX_MAX_PARAM_BYTES);
    func->param_bytes = (uint32_t)at;
    return 0;
}

/* Up to three numbers; those left out are 1. */
static int
parse_dims3(struct ptx_parser *p, uint32_t dims[3])
{
    uint64_t value;
    unsigned i = 0;
    int r;

    dims[0] = dims[1] = dims[2] = 1;
    do {
        if (i == 3)
            return ptx_fail(p, "more than three dimensions");
        r = ptx_parse_uint(p, PTX_PREC_ALL, INT32_MAX, "size", &value);
        if (r < 0)
            return r;
        dims[i++] = (uint32_t)value;
    } while (ptx_accept(p, ','));
    return 0;
}

static int
parse_number(struct ptx_parser *p, uint32_t *ret)
{
    uint64_t value;
    int r = ptx_parse_uint(p, PTX_PREC_ALL, UINT32_MAX, "value", &value);

    if (r == 0 && ret)
        *ret = (uint32_t)value;
    return r;
}

/* The current token is a directive between signature and body. */
static int
parse_attr(struct ptx_parser *p, struct ptx_func *func)
{
    unsigned word = p->lex.name->word;

    ptx_lex_next(&p->lex);
    switch (word) {
    case PTX_W_maxntid:
        return parse_dims3(p, func->maxntid);
    case PTX_W_reqntid:
        return parse_dims3(p, func->reqntid);
    case PTX_W_reqnctapercluster:
        return parse_dims3(p, func->reqnctapercluster);
    case PTX_W_minnctapersm:
        return parse_number(p, &func->minnctapersm);
    case PTX_W_maxnctapersm:
        return parse_number(p, &func->maxnctapersm);
    case PTX_W_maxnreg:
        return parse_number(p, &func->maxnreg);
    case PTX_W_maxclusterrank:
        return parse_number(p, &func->maxclusterrank);
    case PTX_W_abi_preserve:
    case PTX_W_abi_preserve_control:
        return parse_number(p, NULL);
    case PTX_W_noreturn:
        func->noreturn = true;
        return 0;
    case PTX_W_explicitcluster:
        func->explicit_cluster = true;
        return 0;
    case PTX_W_blocksareclusters:
        return 0;
    default:
        break;
    }
    /* Hints of later versions: a name and perhaps numbers. */
    while (p->lex.tok == PTX_TOK_INT || p->lex.tok == ',')
        ptx_lex_next(&p->lex);
    return 0;
}

static int
parse_attrs(struct ptx_parser *p, struct ptx_func *func)
{
    int r = 0;

    while (r == 0 && p->lex.tok == PTX_TOK_DOT) {
        r = ptx_parse_debug(p);
        if (r == 0)
            r = parse_attr(p, func);
        else
            r = gp_min(r, 0);
    }
    return r;
}

/* `(rets) name (params) attributes` into @func; *ret_name for binding it. */
static int
parse_signature(struct ptx_parser *p, struct ptx_func *func, bool bind,
                struct ptx_name **ret_name)
{
    int r = 0;

    if (p->lex.tok == '(' && !func->is_entry)
        r = parse_params(p, bind, &func->rets, &func->n_rets);
    if (r < 0)
        return r;
    if (p->lex.tok != PTX_TOK_NAME)
        return ptx_expected(p, "a function name");
    *ret_name = p->lex.name;
    func->name = is_sink(p->lex.name) ? NULL : &p->lex.name->sym;
    func->line = p->lex.tok_line;
    ptx_lex_next(&p->lex);
    if (p->lex.tok == '(')
        r = parse_params(p, bind, &func->params, &func->n_params);
    if (r == 0)
        r = layout_params(p, func);
    return r < 0 ? r : parse_attrs(p, func);
}

int
ptx_parse_prototype(struct ptx_parser *p, struct ptx_func **ret)
{
    struct ptx_func *func = ptx_arena_alloc(p->arena, sizeof(*func));
    struct ptx_name *name;
    int r;

    if (!func)
        return ptx_no_memory(p);
    r = parse_signature(p, func, false, &name);
    if (r == 0)
        r = ptx_expect(p, ';');
    if (r == 0)
        *ret = func;
    return r;
}

static void
own_params(const struct ptx_var *const *list, uint32_t n, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < n; i++)
        ((struct ptx_var *)(uintptr_t)list[i])->func = func;
}

static bool
same_list(const struct ptx_var *const *a, const struct ptx_var *const *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (a[i]->size != b[i]->size && a[i]->size && b[i]->size)
            return false;
    }
    return true;
}

static bool
same_signature(const struct ptx_func *a, const struct ptx_func *b)
{
    return a->is_entry == b->is_entry && a->n_params == b->n_params &&
           a->n_rets == b->n_rets && same_list(a->params, b->params, a->n_params) &&
           same_list(a->rets, b->rets, a->n_rets);
}

/* The function was declared before: the object stays, the definition's words
 * replace the declaration's. */
static int
merge_func(struct ptx_parser *p, struct ptx_func *old, struct ptx_func *func,
           struct ptx_func **ret)
{
    uint32_t id = old->id;

    if (!same_signature(old, func))
        return ptx_fail_at(p, func->line, 1, -EINVAL,
                           "'%s' was declared with other parameters in line %u",
                           func->name->name, old->line);
    *ret = old;
    if (old->has_body && func->has_body)
        return ptx_fail_at(p, func->line, 1, -EINVAL,
                           "'%s' was already defined in line %u", func->name->name,
                           old->line);
    if (old->has_body)
        return 0;
    *old = *func;
    old->id = id;
    own_params(old->params, old->n_params, old);
    own_params(old->rets, old->n_rets, old);
    return 0;
}

/* Enter the function in the module; *ret is the object that stands for it. */
static int
add_func(struct ptx_parser *p, struct ptx_name *name, struct ptx_func *func,
         struct ptx_func **ret)
{
    struct ptx_binding *b;
    struct ptx_func **slot;
    unsigned depth = p->depth;
    int r;

    if (!func->name)
        return ptx_fail(p, "a function needs a name");
    for (b = name->bind; b && b->depth; b = b->outer)
        ;
    if (b && b->kind == PTX_BIND_FUNC)
        return merge_func(p, b->func, func, ret);
    slot = ptx_vec_push(&p->funcs, sizeof(*slot));
    if (!slot)
        return ptx_no_memory(p);
    *slot = func;
    func->id = p->funcs.n - 1;
    *ret = func;
    /* The scope of the parameters is open; the name belongs outside. */
    p->depth = 0;
    r = ptx_scope_bind_func(p, name, func);
    p->depth = depth;
    return r;
}

static int
finish_tables(struct ptx_parser *p)
{
    const struct ptx_table *tables = p->tables.data;

    for (uint32_t i = 0; i < p->tables.n; i++) {
        const struct ptx_label **labels;

        labels = ptx_arena_alloc(p->arena, tables[i].n * sizeof(*labels));
        if (!labels)
            return ptx_no_memory(p);
        for (uint32_t k = 0; k < tables[i].n; k++)
            labels[k] = tables[i].opds[k].label;
        tables[i].label->labels = labels;
        tables[i].label->n = tables[i].n;
    }
    return 0;
}

/* The collected lists become the function's. */
static int
finish_body(struct ptx_parser *p, struct ptx_func *func)
{
    struct ptx_arena *arena = p->arena;

    func->regs =
        ptx_arena_copy(arena, p->regs.data, p->regs.n * sizeof(struct ptx_reg));
    func->vars = ptx_arena_copy(arena, p->func_vars.data,
                                p->func_vars.n * sizeof(struct ptx_var *));
    func->insns =
        ptx_arena_copy(arena, p->insns.data, p->insns.n * sizeof(struct ptx_insn));
    func->labels =
        ptx_arena_copy(arena, p->labels.data, p->labels.n * sizeof(struct ptx_label *));
    func->locs =
        ptx_arena_copy(arena, p->locs.data, p->locs.n * sizeof(struct ptx_loc));
    if (!func->regs || !func->vars || !func->insns || !func->labels || !func->locs)
        return ptx_no_memory(p);
    func->n_locs = p->locs.n;
    func->n_regs = p->regs.n;
    func->n_vars = p->func_vars.n;
    func->n_insns = p->insns.n;
    func->n_labels = p->labels.n;
    return finish_tables(p);
}

static void
begin_func(struct ptx_parser *p, struct ptx_func *func)
{
    p->func = func;
    p->regs.n = p->func_vars.n = p->insns.n = p->labels.n = p->tables.n = p->locs.n = 0;
}

/* Signature and body or `;`, inside the scope of the parameters. */
static int
parse_rest(struct ptx_parser *p, struct ptx_func *func)
{
    struct ptx_name *name;
    struct ptx_func *known = NULL;
    int r;

    r = parse_signature(p, func, true, &name);
    if (r < 0)
        return r;
    if (p->lex.tok != ';' && p->lex.tok != '{')
        return ptx_expected(p, "'{' or ';'");
    func->has_body = p->lex.tok == '{';
    r = add_func(p, name, func, &known);
    if (r < 0)
        return r;
    ptx_lex_next(&p->lex);
    if (!func->has_body)
        return ptx_scope_close(p);
    p->func = known;
    r = ptx_parse_body(p); /* closes the scope */
    return r < 0 ? r : finish_body(p, known);
}

int
ptx_parse_func(struct ptx_parser *p, uint8_t linkage)
{
    struct ptx_func *func = ptx_arena_alloc(p->arena, sizeof(*func));
    int r;

    if (!func)
        return ptx_no_memory(p);
    func->is_entry = ptx_at_dot(p, PTX_W_entry);
    func->linkage = linkage;
    ptx_lex_next(&p->lex);
    while (ptx_at_dot(p, PTX_W_attribute)) { /* .attribute(.unified(..)) */
        while (p->lex.tok != ')' && p->lex.tok != PTX_TOK_END)
            ptx_lex_next(&p->lex);
        while (ptx_accept(p, ')'))
            ;
    }
    begin_func(p, func);
    r = ptx_scope_open(p);
    if (r == 0)
        r = parse_rest(p, func);
    ptx_arena_reset(&p->scratch);
    p->func = NULL;
    return r;
}
