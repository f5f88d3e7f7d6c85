/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names mean: nested scopes, registers of ranges, labels used before they
 * are seen.
 *
 * A name has three chains of bindings, innermost first: values (registers,
 * variables, functions), ranges (it is the prefix of %r<100>) and labels.  A
 * scope keeps the list of the bindings it made and undoes them when it closes.
 * Depth 0 is the module; its bindings stay while the module is parsed.
 */
#include "ptx_parse.h"

static struct ptx_binding **
chain_of(struct ptx_name *name, enum ptx_bind_kind kind)
{
    switch (kind) {
    case PTX_BIND_RANGE:
        return &name->ranges;
    case PTX_BIND_LABEL:
        return &name->label;
    default:
        return &name->bind;
    }
}

/* Where a binding at @depth belongs in its chain: the innermost place, but for
 * a function whose parameters' scope is already open and for a range's
 * register. */
static struct ptx_binding **
place_of(struct ptx_name *name, enum ptx_bind_kind kind, unsigned depth)
{
    struct ptx_binding **place = chain_of(name, kind);

    while (*place && (*place)->depth > depth)
        place = &(*place)->outer;
    return place;
}

static struct ptx_binding *
bind_at(struct ptx_parser *p, struct ptx_name *name, enum ptx_bind_kind kind,
        unsigned depth)
{
    struct ptx_binding **place = place_of(name, kind, depth);
    struct ptx_binding *b;

    b = ptx_arena_alloc(depth ? &p->scratch : p->arena, sizeof(*b));
    if (!b)
        return NULL;
    b->name = name;
    b->kind = (uint8_t)kind;
    b->depth = (uint8_t)depth;
    b->outer = *place;
    *place = b;
    b->in_scope = p->scopes[depth].bindings;
    p->scopes[depth].bindings = b;
    return b;
}

static struct ptx_binding *
bind_new(struct ptx_parser *p, struct ptx_name *name, enum ptx_bind_kind kind, int *r)
{
    const struct ptx_binding *old = *place_of(name, kind, p->depth);
    struct ptx_binding *b;

    if (old && old->depth == p->depth) {
        *r = ptx_fail(p, "'%.*s' is already declared in this scope",
                      gp_min((int)name->sym.len, 200), name->sym.name);
        return NULL;
    }
    b = bind_at(p, name, kind, p->depth);
    *r = b ? 0 : ptx_no_memory(p);
    return b;
}

int
ptx_scope_bind_var(struct ptx_parser *p, struct ptx_name *name, struct ptx_var *var)
{
    int r;
    struct ptx_binding *b = bind_new(p, name, PTX_BIND_VAR, &r);

    if (b)
        b->var = var;
    return r;
}

int
ptx_scope_bind_func(struct ptx_parser *p, struct ptx_name *name, struct ptx_func *func)
{
    int r;
    struct ptx_binding *b = bind_new(p, name, PTX_BIND_FUNC, &r);

    if (b)
        b->func = func;
    return r;
}

int
ptx_scope_bind_label(struct ptx_parser *p, struct ptx_name *name,
                     struct ptx_label *label)
{
    int r;
    struct ptx_binding *b = bind_new(p, name, PTX_BIND_LABEL, &r);

    if (b)
        b->label = label;
    return r;
}

static int
reg_new(struct ptx_parser *p, const struct ptx_sym *name, uint32_t num,
        const struct ptx_binding *like, uint32_t *ret)
{
    struct ptx_reg *reg;

    if (p->regs.n >= PTX_MAX_REGS)
        return ptx_too_big(p, "more than %u registers in one function", PTX_MAX_REGS);
    reg = ptx_vec_push(&p->regs, sizeof(*reg));
    if (!reg)
        return ptx_no_memory(p);
    *reg = (struct ptx_reg){.name = name,
                            .num = num,
                            .type = like->type,
                            .vec = like->vec,
                            .depth = like->depth};
    *ret = p->regs.n - 1;
    return 0;
}

int
ptx_scope_bind_reg(struct ptx_parser *p, struct ptx_name *name, unsigned type,
                   unsigned vec, uint32_t *ret_reg)
{
    int r;
    struct ptx_binding *b = bind_new(p, name, PTX_BIND_REG, &r);

    if (!b)
        return r;
    b->type = (uint16_t)type;
    b->vec = (uint8_t)vec;
    r = reg_new(p, &name->sym, PTX_REG_SINGLE, b, &b->reg);
    if (r == 0 && ret_reg)
        *ret_reg = b->reg;
    return r;
}

int
ptx_scope_bind_range(struct ptx_parser *p, struct ptx_name *prefix, unsigned type,
                     unsigned vec, uint32_t count)
{
    char last = prefix->sym.name[prefix->sym.len - 1];
    int r;
    struct ptx_binding *b = bind_new(p, prefix, PTX_BIND_RANGE, &r);

    if (!b)
        return r;
    b->type = (uint16_t)type;
    b->vec = (uint8_t)vec;
    b->count = count;
    if (last >= '0' && last <= '9')
        p->ranges_with_digits = true;
    return 0;
}

/* %x12 may be number 2 of %x1<..>: try every split, deepest range wins. */
static struct ptx_binding *
range_by_splits(struct ptx_parser *p, const struct ptx_name *name, uint32_t *ret_num)
{
    const char *text = name->sym.name;
    struct ptx_binding *best = NULL;
    uint64_t num = 0, unit = 1;

    for (size_t at = name->sym.len; at > 1 && name->sym.len - at < 9; unit *= 10) {
        struct ptx_binding *range;
        struct ptx_name *prefix;

        at--;
        if (text[at] < '0' || text[at] > '9')
            break;
        num += unit * (uint64_t)(text[at] - '0');
        if (text[at] == '0' && name->sym.len - at > 1)
            continue;
        prefix = ptx_names_find(p->names, text, at);
        range = prefix ? prefix->ranges : NULL;
        while (range && num >= range->count)
            range = range->outer;
        if (range && (!best || range->depth > best->depth)) {
            best = range;
            *ret_num = (uint32_t)num;
        }
    }
    return best;
}

static struct ptx_binding *
range_of(struct ptx_parser *p, const struct ptx_name *name, uint32_t *ret_num)
{
    struct ptx_binding *range;

    if (unlikely(p->ranges_with_digits))
        return range_by_splits(p, name, ret_num);
    if (!name->prefix)
        return NULL;
    *ret_num = name->num;
    /* an inner, shorter range hides only the numbers it has */
    for (range = name->prefix->ranges; range && name->num >= range->count;)
        range = range->outer;
    return range;
}

/* The first use of a register of a range makes it, in the range's scope. */
static int
bind_range_reg(struct ptx_parser *p, struct ptx_name *name,
               const struct ptx_binding *range, uint32_t num, struct ptx_binding **ret)
{
    struct ptx_binding *b = bind_at(p, name, PTX_BIND_REG, range->depth);

    if (!b)
        return ptx_no_memory(p);
    b->type = range->type;
    b->vec = range->vec;
    *ret = b;
    return reg_new(p, &range->name->sym, num, b, &b->reg);
}

int
ptx_scope_lookup(struct ptx_parser *p, struct ptx_name *name, struct ptx_binding **ret)
{
    struct ptx_binding *range;
    uint32_t num = 0;

    if (unlikely(!name->split) && !ptx_names_split(p->names, name))
        return ptx_no_memory(p);
    *ret = name->bind;
    range = range_of(p, name, &num);
    if (range && (!name->bind || name->bind->depth < range->depth))
        return bind_range_reg(p, name, range, num, ret);
    return 0;
}

int
ptx_scope_defer(struct ptx_parser *p, struct ptx_opd *opd, bool keep)
{
    struct ptx_pending *pend = ptx_arena_alloc(&p->scratch, sizeof(*pend));

    if (!pend)
        return ptx_no_memory(p);
    pend->opd = opd;
    pend->keep = keep;
    pend->next = p->scopes[p->depth].pending;
    p->scopes[p->depth].pending = pend;
    return 0;
}

int
ptx_scope_open(struct ptx_parser *p)
{
    if (p->depth >= PTX_MAX_NEST)
        return ptx_too_big(p, "blocks nested deeper than %u", PTX_MAX_NEST);
    p->depth++;
    p->scopes[p->depth] = (struct ptx_scope){0};
    return 0;
}

/* The body has ended and nobody declared it. */
static int
undeclared(struct ptx_parser *p, const struct ptx_opd *opd)
{
    return ptx_fail_at(p, opd->line, (uint32_t)opd->imm, -EINVAL,
                       "'%.*s' is not declared", gp_min((int)opd->sym->len, 200),
                       opd->sym->name);
}

static int
pending_resolve(struct ptx_parser *p, struct ptx_scope *scope)
{
    const struct ptx_opd *first_bad = NULL;
    struct ptx_pending *pend = scope->pending, *next;

    for (; pend; pend = next) {
        struct ptx_opd *opd = pend->opd;
        struct ptx_name *name = (struct ptx_name *)(uintptr_t)opd->sym;
        struct ptx_binding *b = name->label;

        next = pend->next;
        if (b && b->depth == p->depth) {
            opd->kind = PTX_OPD_LABEL;
            opd->imm = 0;
            opd->label = b->label;
        } else if (p->depth > 1) {
            pend->next = scope[-1].pending;
            scope[-1].pending = pend;
        } else if (!pend->keep && (!first_bad || opd->line < first_bad->line)) {
            first_bad = opd;
        }
    }
    return first_bad ? undeclared(p, first_bad) : 0;
}

int
ptx_scope_close(struct ptx_parser *p)
{
    struct ptx_scope *scope = &p->scopes[p->depth];
    int r = pending_resolve(p, scope);

    for (struct ptx_binding *b = scope->bindings; b; b = b->in_scope)
        *chain_of(b->name, b->kind) = b->outer;
    p->depth--;
    return r;
}
