/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch constants: what a kernel computes from its parameters, the block's shape and
 * the thread's number alone is the same for every CTA of a launch.
 *
 * Such operations move before the kernel's body, behind them a READY; a warp object
 * runs them with the first CTA that it serves for a launch, and later ones start at the
 * body. Their results live in registers that nothing else is given.  Only what cannot
 * fault, wait or be seen from outside moves, so that it does no harm where the body
 * would have gone around it.  Under the program's lock, before registers are allocated;
 * functions that are called are left alone.
 */
#include "gp_err.h"
#include "sg_ir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Results that stay cost room in the first-level cache: 128 bytes each a warp, twice
 * that for 64 bits.  Code that a launch may never need is run once a warp. */
#define HOIST_MAX_SLOTS 32
#define HOIST_MAX_OPS 256

struct hoist {
    struct sg_ir_func *f;
    uint32_t *defs;   /* by register: how often written */
    int32_t *alias;   /* by register: the one that it is a copy of, or itself */
    uint8_t *known;   /* by register: constant in a launch */
    uint8_t *moves;   /* by operation */
    uint32_t n_moves; /* of them all */
};

static bool
launch_sreg(unsigned n)
{
    return n <= SG_SREG_NTID_Z || (n >= SG_SREG_NCTAID_X && n <= SG_SREG_NWARPID);
}

bool
sg_ir_is_pure(const struct sg_ir *ir)
{
    switch (ir->code) {
    case SG_OP_SREG_W:
        return launch_sreg(ir->n);
    case SG_OP_MOV_W:
    case SG_OP_MOV_D:
    case SG_OP_LOP3:
    case SG_OP_FN:
    case SG_OP_LDP_U8:
    case SG_OP_LDP_S8:
    case SG_OP_LDP_U16:
    case SG_OP_LDP_S16:
    case SG_OP_LDP_32:
    case SG_OP_LDP_64:
        return true;
    default:
        return ir->code >= SG_OP_FIRST_ALU;
    }
}

static bool
is_copy(const struct sg_ir *ir)
{
    return ir->code == SG_OP_MOV_W || ir->code == SG_OP_MOV_D;
}

static void
count_defs(struct hoist *h)
{
    struct sg_operands o;

    for (uint32_t i = 0; i < h->f->n_code; i++) {
        sg_ir_operands(&h->f->code[i], &o);
        for (unsigned k = 0; k < o.n_writes; k++)
            h->defs[o.writes[k]]++;
    }
}

static bool
op_may_move(const struct hoist *h, const struct sg_ir *ir)
{
    struct sg_operands o;

    if (ir->guard != SG_NOREG || ir->n_list || ir->d == SG_NOREG || ir->e != SG_NOREG ||
        h->defs[ir->d] != 1 || !sg_ir_is_pure(ir))
        return false;
    sg_ir_operands(ir, &o);
    for (unsigned k = 0; k < o.n_reads; k++)
        if (!h->known[o.reads[k]])
            return false;
    return true;
}

/* The same in all lanes, if its operands are. */
static bool
op_is_uniform(const struct hoist *h, const struct sg_ir *ir)
{
    struct sg_operands o;

    if (ir->code == SG_OP_SREG_W)
        return ir->n > SG_SREG_TID_Z && ir->n != SG_SREG_LANEID;
    sg_ir_operands(ir, &o);
    for (unsigned k = 0; k < o.n_reads; k++)
        if (!h->f->vregs[o.reads[k]].uniform)
            return false;
    return true;
}

/* Choose among the first @limit candidates; returns how many there were. */
static uint32_t
choose(struct hoist *h, uint32_t limit)
{
    struct sg_ir_func *f = h->f;
    uint32_t n = 0;

    for (uint32_t v = 0; v < f->n_vregs; v++) {
        h->alias[v] = (int32_t)v;
        h->known[v] = f->vregs[v].uniform = f->vregs[v].konst >= 0;
    }
    for (uint32_t i = 0; i < f->n_code; i++) {
        const struct sg_ir *ir = &f->code[i];
        h->moves[i] = n < limit && op_may_move(h, ir);
        if (!h->moves[i])
            continue;
        n++;
        h->known[ir->d] = 1;
        f->vregs[ir->d].uniform = op_is_uniform(h, ir);
        if (is_copy(ir))
            h->alias[ir->d] = h->alias[ir->a];
    }
    return n;
}

/* Registers written before the body and read in it; the slots they take. */
static uint32_t
mark_kept(struct hoist *h)
{
    struct sg_ir_func *f = h->f;
    struct sg_operands o;
    uint32_t slots = 0;

    for (uint32_t v = 0; v < f->n_vregs; v++)
        f->vregs[v].kept = false;
    for (uint32_t i = 0; i < f->n_code; i++) {
        if (h->moves[i])
            continue;
        sg_ir_operands(&f->code[i], &o);
        for (unsigned k = 0; k < o.n_reads; k++) {
            int32_t v = h->alias[o.reads[k]];
            if (h->known[v] && f->vregs[v].konst < 0)
                f->vregs[v].kept = true;
        }
    }
    for (uint32_t v = 0; v < f->n_vregs; v++)
        if (f->vregs[v].kept)
            slots += f->vregs[v].cls == SG_D ? 2 : f->vregs[v].cls == SG_W;
    return slots;
}

static void
rename_reads(const struct hoist *h, struct sg_ir *ir)
{
    int32_t *const src[] = {&ir->a, &ir->b, &ir->c, &ir->f, &ir->guard};

    for (unsigned k = 0; k < 5; k++)
        if (*src[k] != SG_NOREG)
            *src[k] = h->alias[*src[k]];
    for (unsigned k = ir->n_list_dst; k < ir->n_list; k++)
        ir->list[k] = h->alias[ir->list[k]];
}

static struct sg_ir
plain_op(unsigned code, const struct sg_ir *near)
{
    return (struct sg_ir){.code = (uint16_t)code,
                          .guard = SG_NOREG,
                          .d = SG_NOREG,
                          .e = SG_NOREG,
                          .a = SG_NOREG,
                          .b = SG_NOREG,
                          .c = SG_NOREG,
                          .f = SG_NOREG,
                          .line = near->line};
}

/* A load from shared memory at an address of which the launch fixes how it lies. */
static bool
load_has_shape(const struct hoist *h, const struct sg_ir *ir)
{
    return (ir->code == SG_OP_LDS_32 || ir->code == SG_OP_LDT_32) &&
           h->f->vregs[ir->a].kept;
}

/* SHAPE operations for the first such addresses; their loads ask for them. */
static uint32_t
note_shapes(struct hoist *h, struct sg_ir *code)
{
    struct sg_ir_func *f = h->f;
    uint32_t n = 0, k;

    for (uint32_t i = 0; i < f->n_code; i++) {
        struct sg_ir *ir = &f->code[i];
        if (h->moves[i] || !load_has_shape(h, ir))
            continue;
        for (k = 0; k < n && code[k].a != ir->a; k++)
            ;
        if (k == SG_N_SHAPES)
            continue;
        if (k == n) {
            code[n] =
                plain_op(ir->code == SG_OP_LDT_32 ? SG_OP_SHAPE_D : SG_OP_SHAPE_W, ir);
            code[n].a = ir->a;
            code[n++].n = (uint16_t)k;
        }
        ir->code = ir->code == SG_OP_LDT_32 ? SG_OP_LDTX_32 : SG_OP_LDSX_32;
        ir->n = (uint16_t)k;
    }
    return n;
}

static int
reorder(struct hoist *h)
{
    struct sg_ir_func *f = h->f;
    struct sg_ir *code = calloc(f->n_code + SG_N_SHAPES + 1u, sizeof(*code));
    uint32_t n = 0;

    if (!code)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n_code; i++) {
        rename_reads(h, &f->code[i]);
        if (h->moves[i] && !is_copy(&f->code[i]))
            code[n++] = f->code[i];
    }
    n += note_shapes(h, code + n);
    code[n] = plain_op(SG_OP_READY, &f->code[0]);
    f->n_first = ++n;
    for (uint32_t i = 0; i < f->n_code; i++)
        if (!h->moves[i])
            code[n++] = f->code[i];
    free(f->code);
    f->code = code;
    f->n_code = n;
    f->cap_code = n;
    return 0;
}

static int
hoist_run(struct hoist *h)
{
    uint32_t n;

    count_defs(h);
    n = choose(h, HOIST_MAX_OPS);
    while (n && mark_kept(h) > HOIST_MAX_SLOTS)
        n = choose(h, n - (n + 7) / 8);
    return n ? reorder(h) : 0;
}

int
sg_ir_hoist(struct sg_ir_func *func, struct gp_err *err)
{
    struct hoist h = {.f = func};
    size_t vregs = func->n_vregs + 1u;
    int r = -ENOMEM;

    h.defs = calloc(vregs, sizeof(*h.defs));
    h.alias = calloc(vregs, sizeof(*h.alias));
    h.known = calloc(vregs, 1);
    h.moves = calloc(func->n_code + 1u, 1);
    if (h.defs && h.alias && h.known && h.moves)
        r = hoist_run(&h);
    free(h.defs);
    free(h.alias);
    free(h.known);
    free(h.moves);
    return r < 0 ? gp_err_set(err, r, "launch constants: out of memory") : 0;
}
