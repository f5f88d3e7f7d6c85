/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters that are read through a register.
 *
 * Compilers put the address of a `__grid_constant__` parameter into a register and load
 * from there, by ld.param or, after cvta.param, by a generic ld.  Where that address is
 * known when the unit is built, the load is one of a parameter, which is a launch
 * constant.  Under the program's lock, before ir_hoist.c.
 */
#include "gp_err.h"
#include "ptx_ast.h"
#include "sg_ir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct params {
    struct sg_ir_func *f;
    uint64_t window;   /* where a generic address finds the first parameter */
    uint32_t *defs;    /* by register: how often written */
    uint64_t *address; /* by register: its value, or 0: not known */
};

static void
count_defs(struct params *p)
{
    struct sg_operands o;

    for (uint32_t i = 0; i < p->f->n_code; i++) {
        sg_ir_operands(&p->f->code[i], &o);
        for (unsigned k = 0; k < o.n_writes; k++)
            p->defs[o.writes[k]]++;
    }
}

static void
take_constants(struct params *p)
{
    for (uint32_t v = 0; v < p->f->n_vregs; v++) {
        int32_t konst = p->f->vregs[v].konst;
        if (konst >= 0 && p->f->vregs[v].cls == SG_D &&
            p->f->consts[konst].kind == SG_CONST_VALUE)
            p->address[v] = p->f->consts[konst].value;
    }
}

/* What is written once is a copy of an address, or an address and an offset. */
static void
take_copies(struct params *p)
{
    for (uint32_t i = 0; i < p->f->n_code; i++) {
        const struct sg_ir *ir = &p->f->code[i];
        if (ir->guard != SG_NOREG || ir->d == SG_NOREG || p->defs[ir->d] != 1)
            continue;
        if (ir->code == SG_OP_MOV_D)
            p->address[ir->d] = p->address[ir->a];
        else if (ir->code == SG_OP_ADD_U64 && p->address[ir->a] && p->address[ir->b])
            p->address[ir->d] = p->address[ir->a] + p->address[ir->b];
    }
}

/* Where among the parameters @ir reads its @size bytes; false: elsewhere, or nobody
 * knows. */
static bool
place_of(const struct params *p, const struct sg_ir *ir, uint64_t size, uint64_t *ret)
{
    uint64_t bytes = p->f->ast->param_bytes, address = p->address[ir->a];
    uint64_t at = address + (uint64_t)ir->imm - p->window;

    if (!address || size > bytes || at > bytes - size || (at & ir->x))
        return false;
    *ret = at;
    return true;
}

static uint64_t
list_bytes(const struct sg_ir *ir)
{
    return ir->code == SG_OP_LDA_2X32                                 ? 8
           : ir->code == SG_OP_LDA_4X32 || ir->code == SG_OP_LDA_2X64 ? 16
                                                                      : 0;
}

static uint64_t
scalar_bytes(const struct sg_ir *ir)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 8};

    return ir->code >= SG_OP_LDA_U8 && ir->code <= SG_OP_LDA_64
               ? bytes[ir->code - SG_OP_LDA_U8]
               : 0;
}

/* One element of a list, or all there is. */
static struct sg_ir
load_of(const struct sg_ir *ir, unsigned code, int32_t d, uint64_t at)
{
    struct sg_ir load = *ir;

    load.code = (uint16_t)code;
    load.d = d;
    load.a = SG_NOREG;
    load.imm = (int64_t)at;
    load.list = NULL;
    load.n_list = load.n_list_dst = 0;
    load.wide_list = false;
    return load;
}

/* To @to, which has room; how many operations those are. */
static uint32_t
rewrite(const struct params *p, struct sg_ir *ir, struct sg_ir *to)
{
    unsigned code = ir->wide_list ? SG_OP_LDP_64 : SG_OP_LDP_32;
    uint64_t at, size = scalar_bytes(ir), each = ir->wide_list ? 8 : 4;

    if (size && place_of(p, ir, size, &at)) {
        to[0] = load_of(ir, SG_OP_LDP_U8 + (ir->code - SG_OP_LDA_U8), ir->d, at);
        return 1;
    }
    size = list_bytes(ir);
    if (!size || !place_of(p, ir, size, &at)) {
        to[0] = *ir;
        return 1;
    }
    for (unsigned i = 0; i < ir->n_list; i++)
        to[i] = load_of(ir, code, ir->list[i], at + i * each);
    free(TAKE_PTR(ir->list));
    return ir->n_list;
}

static int
rewrite_all(const struct params *p)
{
    struct sg_ir_func *f = p->f;
    uint32_t most = 0, n = 0;
    struct sg_ir *code;

    for (uint32_t i = 0; i < f->n_code; i++)
        most += list_bytes(&f->code[i]) ? f->code[i].n_list : 1u;
    code = calloc(most + 1u, sizeof(*code));
    if (!code)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n_code; i++)
        n += rewrite(p, &f->code[i], code + n);
    free(f->code);
    f->code = code;
    f->n_code = n;
    f->cap_code = most;
    return 0;
}

int
sg_ir_params(struct sg_ir_func *func, uint64_t window, struct gp_err *err)
{
    CLEANUP_FREE uint32_t *defs = calloc(func->n_vregs + 1u, sizeof(*defs));
    CLEANUP_FREE uint64_t *address = calloc(func->n_vregs + 1u, sizeof(*address));
    struct params p = {func, window, defs, address};

    if (!defs || !address)
        return gp_err_set(err, -ENOMEM, "parameters: out of memory");
    count_defs(&p);
    take_constants(&p);
    take_copies(&p);
    if (rewrite_all(&p) < 0)
        return gp_err_set(err, -ENOMEM, "parameters: out of memory");
    return 0;
}
