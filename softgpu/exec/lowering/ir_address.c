/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address forms: `base + index * scale` in the memory operation itself.
 *
 * Where the base is a launch constant that all lanes share, the operation looks at 32
 * indexes instead of 32 addresses, and the multiplication and the addition before it
 * have no use any more.  What has none and cannot be seen is dropped.  Looks at single
 * basic blocks only.  Under the program's lock, between ir_hoist.c and the allocation.
 */
#include "gp_err.h"
#include "sg_ir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How far back the parts of an address may lie. */
#define FORM_WINDOW 64

#define DEF_NONE UINT32_MAX
#define DEF_MANY (UINT32_MAX - 1)

struct forms {
    struct sg_ir_func *f;
    uint32_t *def;   /* by register: the one operation that writes it */
    uint32_t *reads; /* by register: how often read */
    bool *dead;      /* by operation */
};

static void
count(struct forms *fo)
{
    struct sg_operands o;

    for (uint32_t v = 0; v < fo->f->n_vregs; v++)
        fo->def[v] = DEF_NONE;
    memset(fo->reads, 0, fo->f->n_vregs * sizeof(*fo->reads));
    for (uint32_t i = 0; i < fo->f->n_code; i++) {
        sg_ir_operands(&fo->f->code[i], &o);
        for (unsigned k = 0; k < o.n_writes; k++)
            fo->def[o.writes[k]] = fo->def[o.writes[k]] == DEF_NONE ? i : DEF_MANY;
        for (unsigned k = 0; k < o.n_reads; k++)
            fo->reads[o.reads[k]]++;
    }
}

/* The operation that writes @v, if it is the only one, between @start and @at, and
 * writes all lanes. */
static const struct sg_ir *
def_in_block(const struct forms *fo, int32_t v, uint32_t start, uint32_t at)
{
    uint32_t d = v == SG_NOREG ? DEF_NONE : fo->def[v];

    if (d >= DEF_MANY || d < start || d >= at || at - d > FORM_WINDOW ||
        fo->f->code[d].guard != SG_NOREG)
        return NULL;
    return &fo->f->code[d];
}

static bool
written_between(const struct forms *fo, int32_t v, const struct sg_ir *from,
                uint32_t to)
{
    struct sg_operands o;

    for (const struct sg_ir *ir = from + 1; ir < &fo->f->code[to]; ir++) {
        sg_ir_operands(ir, &o);
        for (unsigned k = 0; k < o.n_writes; k++)
            if (o.writes[k] == v)
                return true;
    }
    return false;
}

/* A factor that is known when the unit is built; 0: none. */
static uint32_t
scale_of(const struct forms *fo, int32_t v)
{
    const struct sg_vreg *reg = &fo->f->vregs[v];
    const struct sg_const *c;

    if (reg->konst < 0)
        return 0;
    c = &fo->f->consts[reg->konst];
    return c->kind == SG_CONST_VALUE && c->value < SG_INDEX_SIGNED ? (uint32_t)c->value
                                                                   : 0;
}

static bool
base_is_shared(const struct forms *fo, int32_t v)
{
    return fo->f->vregs[v].uniform &&
           (fo->f->vregs[v].kept || fo->f->vregs[v].konst >= 0);
}

struct form {
    int32_t base, index;
    uint32_t scale;
};

/* @mul is index * scale, or that plus a base. */
static bool
match_product(const struct forms *fo, const struct sg_ir *mul, int32_t base,
              uint32_t at, struct form *ret)
{
    bool is_signed = mul->code == SG_OP_MULW_S32 || mul->code == SG_OP_MADW_S32;

    ret->base = base;
    ret->index = mul->a;
    ret->scale = scale_of(fo, mul->b);
    if (!ret->scale) {
        ret->index = mul->b;
        ret->scale = scale_of(fo, mul->a);
    }
    if (!ret->scale || !base_is_shared(fo, base) ||
        written_between(fo, ret->index, mul, at))
        return false;
    ret->scale |= is_signed ? SG_INDEX_SIGNED : 0;
    return true;
}

static bool
match_form(const struct forms *fo, int32_t addr, uint32_t start, uint32_t at,
           struct form *ret)
{
    const struct sg_ir *sum = def_in_block(fo, addr, start, at);

    if (!sum)
        return false;
    if (sum->code == SG_OP_MADW_S32 || sum->code == SG_OP_MADW_U32)
        return match_product(fo, sum, sum->c, at, ret);
    if (sum->code != SG_OP_ADD_U64)
        return false;
    for (int k = 0; k < 2; k++) {
        const struct sg_ir *mul = def_in_block(fo, k ? sum->a : sum->b, start, at);
        if (mul && (mul->code == SG_OP_MULW_S32 || mul->code == SG_OP_MULW_U32) &&
            match_product(fo, mul, k ? sum->b : sum->a, at, ret))
            return true;
    }
    return false;
}

static void
index_accesses(struct forms *fo)
{
    uint32_t start = 0;

    for (uint32_t i = 0; i < fo->f->n_code; i++) {
        struct sg_ir *ir = &fo->f->code[i];
        bool load = ir->code == SG_OP_LDG_32 || ir->code == SG_OP_LDG_64;
        struct form form;
        if (ir->code == SG_OP_JOIN || i == fo->f->n_first)
            start = i;
        if ((!load && ir->code != SG_OP_STG_32 && ir->code != SG_OP_STG_64) ||
            !match_form(fo, ir->a, start, i, &form))
            continue;
        fo->reads[ir->a]--;
        fo->reads[form.base]++;
        fo->reads[form.index]++;
        ir->code = ir->code == SG_OP_LDG_32   ? SG_OP_LDGI_32
                   : ir->code == SG_OP_LDG_64 ? SG_OP_LDGI_64
                   : ir->code == SG_OP_STG_32 ? SG_OP_STGI_32
                                              : SG_OP_STGI_64;
        if (!load)
            ir->c = ir->b;
        ir->a = form.index;
        ir->b = form.base;
        ir->y = form.scale;
    }
}

static void
drop_unused(struct forms *fo)
{
    struct sg_ir_func *f = fo->f;
    struct sg_operands o;
    uint32_t n = 0, first = 0;

    for (uint32_t i = f->n_code; i-- > 0;) {
        const struct sg_ir *ir = &f->code[i];
        if (!sg_ir_is_pure(ir) || ir->d == SG_NOREG || ir->e != SG_NOREG ||
            ir->n_list || fo->reads[ir->d])
            continue;
        fo->dead[i] = true;
        sg_ir_operands(ir, &o);
        for (unsigned k = 0; k < o.n_reads; k++)
            fo->reads[o.reads[k]]--;
    }
    for (uint32_t i = 0; i < f->n_code; i++) {
        if (fo->dead[i])
            continue;
        first += i < f->n_first;
        f->code[n++] = f->code[i];
    }
    f->n_code = n;
    f->n_first = first;
}

int
sg_ir_addresses(struct sg_ir_func *func, struct gp_err *err)
{
    CLEANUP_FREE uint32_t *def = calloc(func->n_vregs + 1u, sizeof(*def));
    CLEANUP_FREE uint32_t *reads = calloc(func->n_vregs + 1u, sizeof(*reads));
    CLEANUP_FREE bool *dead = calloc(func->n_code + 1u, sizeof(*dead));
    struct forms fo = {func, def, reads, dead};

    if (!def || !reads || !dead)
        return gp_err_set(err, -ENOMEM, "address forms: out of memory");
    count(&fo);
    index_accesses(&fo);
    drop_unused(&fo);
    return 0;
}
