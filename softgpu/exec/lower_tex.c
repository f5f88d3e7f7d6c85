/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering textures and surfaces: tex, tld4, txq, suq, suld.b, sust.b.
 */
#include "exec_tex.h"
#include "gp_err.h"
#include "lower.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_LIST 24

struct list {
    int32_t v[MAX_LIST];
    unsigned n, n_dst, n_wide; /* wide: the first n_wide are 64 bits */
    bool wide;
};

static void
list_add(struct lower *l, struct list *list, int32_t v)
{
    if (list->n == MAX_LIST)
        lo_fail(l, -EINVAL, "too many operands");
    else
        list->v[list->n++] = v;
}

/* Elements of { } or the one register, as sources of 32 bits. */
static void
list_sources(struct lower *l, struct list *list, const struct ptx_opd *o, unsigned max)
{
    const struct ptx_opd *e = o->kind == PTX_OPD_VEC ? o->sub : o;
    uint32_t n = o->kind == PTX_OPD_VEC ? o->n : 1;

    if (n < max)
        lo_fail(l, -EINVAL, "too few coordinates");
    for (uint32_t i = 0; i < n && i < max && !l->failed; i++)
        list_add(l, list, lo_src(l, &e[i], PTX_W_b32));
}

static struct sg_ir *
list_emit(struct lower *l, enum sg_opcode code, const struct list *list)
{
    struct sg_ir *ir;
    int32_t *copy;

    if (l->failed)
        return NULL;
    copy = malloc((list->n + 1u) * sizeof(*copy));
    if (!copy) {
        lo_fail(l, -ENOMEM, "out of memory");
        return NULL;
    }
    for (unsigned i = 0; i < list->n; i++)
        copy[i] = list->v[i];
    ir = lo_emit(l, code);
    ir->list = copy;
    ir->n_list = (uint8_t)list->n;
    ir->n_list_dst = (uint8_t)list->n_dst;
    ir->wide_first = list->wide ? (uint8_t)(list->n_wide) : 0;
    return ir;
}

/* The handle: a register's value, or what a reference is bound to. */
static int32_t
handle_of(struct lower *l, const struct ptx_opd *addr)
{
    struct ptx_opd reg = {.kind = PTX_OPD_REG, .reg = addr->reg};
    int32_t index;

    if (addr->kind == PTX_OPD_ADDR && addr->base == PTX_OPD_VAR) {
        if (addr->var->space == PTX_SPACE_PARAM && addr->var->func == l->func &&
            l->is_kernel) {
            struct lo_addr at;
            int32_t d = lo_temp(l, SG_D);
            if (lo_address(l, addr, PTX_W_param, 8, &at))
                lo_load(l, &at, PTX_W_b64, d, 0);
            return d;
        }
        index = sg_prog_texref_index(l->prog, addr->var);
        if (index < 0)
            lo_fail(l, -EINVAL, "%s is no texture or surface",
                    addr->var->name ? addr->var->name->name : "_");
        return lo_const_ref(l, SG_D, SG_CONST_TEXREF, (uint32_t)gp_max(index, 0), 0);
    }
    if (addr->kind == PTX_OPD_ADDR && addr->base == PTX_OPD_REG)
        return lo_src(l, &reg, PTX_W_b64);
    lo_fail(l, -ENOSYS, "this texture operand is not carried");
    return lo_const(l, SG_D, 0);
}

static void
geometry(const struct ptx_insn *insn, unsigned *ret_coords, bool *ret_layered)
{
    *ret_layered =
        lo_has(insn, PTX_W_a1d) || lo_has(insn, PTX_W_a2d) || lo_has(insn, PTX_W_acube);
    *ret_coords = lo_has(insn, PTX_W_1d) || lo_has(insn, PTX_W_a1d)   ? 1
                  : lo_has(insn, PTX_W_2d) || lo_has(insn, PTX_W_a2d) ? 2
                                                                      : 3;
}

void
lower_texture(struct lower *l, const struct ptx_insn *insn)
{
    bool tld4 = insn->op == PTX_W_tld4;
    const struct ptx_opd *dst = &insn->opds[0], *where = &insn->opds[1];
    struct tex_form f = {.gather = -1};
    struct list list = {0};
    struct sg_ir *ir;
    int32_t handle;

    if (insn->n_opds < 2 || dst->kind != PTX_OPD_VEC || dst->n != 4 ||
        where->kind != PTX_OPD_TEXADDR || where->n != 2) {
        lo_fail(l, -ENOSYS, "this texture form is not carried");
        return;
    }
    geometry(insn, &f.coords, &f.layered);
    f.float_result = lo_type(insn, 0) == PTX_W_f32;
    f.float_coords = lo_type(insn, 1) == PTX_W_f32;
    if (tld4)
        f.gather = lo_has(insn, PTX_W_r)   ? 0
                   : lo_has(insn, PTX_W_g) ? 1
                   : lo_has(insn, PTX_W_b) ? 2
                                           : 3;
    f.lod = lo_has(insn, PTX_W_level)  ? TEX_LEVEL
            : lo_has(insn, PTX_W_grad) ? TEX_GRAD
                                       : TEX_BASE;
    handle = handle_of(l, &where->sub[0]);
    for (int c = 0; c < 4; c++)
        list_add(l, &list, lo_dst(l, &dst->sub[c], PTX_W_b32));
    list.n_dst = list.n;
    list_sources(l, &list, &where->sub[1], f.coords + f.layered);
    if (f.lod != TEX_BASE && insn->n_opds < (f.lod == TEX_GRAD ? 4u : 3u))
        lo_fail(l, -EINVAL, "tex: no level of detail");
    else if (f.lod == TEX_LEVEL)
        list_sources(l, &list, &insn->opds[2], 1);
    else if (f.lod == TEX_GRAD) {
        list_sources(l, &list, &insn->opds[2], f.coords);
        list_sources(l, &list, &insn->opds[3], f.coords);
    }
    ir = list_emit(l, SG_OP_TEX, &list);
    if (!ir)
        return;
    ir->a = handle;
    ir->x = tex_pack(&f);
}

void
lower_txq(struct lower *l, const struct ptx_insn *insn)
{
    int32_t a, d;
    struct sg_ir *ir;

    if (insn->n_opds != 2) {
        lo_fail(l, -ENOSYS, "this query is not carried");
        return;
    }
    a = handle_of(l, &insn->opds[1]);
    d = lo_dst(l, &insn->opds[0], PTX_W_b32);
    ir = lo_emit(l, SG_OP_TXQ);
    ir->a = a;
    ir->d = d;
    ir->n = lo_has(insn, PTX_W_width)               ? TXQ_WIDTH
            : lo_has(insn, PTX_W_height)            ? TXQ_HEIGHT
            : lo_has(insn, PTX_W_depth)             ? TXQ_DEPTH
            : lo_has(insn, PTX_W_array_size)        ? TXQ_ARRAY
            : lo_has(insn, PTX_W_num_mipmap_levels) ? TXQ_LEVELS
                                                    : TXQ_NORMALIZED;
}

void
lower_surface(struct lower *l, const struct ptx_insn *insn)
{
    bool store = insn->op == PTX_W_sust;
    const struct ptx_opd *data = &insn->opds[store ? 1 : 0];
    const struct ptx_opd *where = &insn->opds[store ? 0 : 1];
    const struct ptx_opd *e = data->kind == PTX_OPD_VEC ? data->sub : data;
    unsigned type = lo_type(insn, 0), n = data->kind == PTX_OPD_VEC ? data->n : 1;
    struct surf_form f = {.elem = ptx_type_size(type)};
    struct list list = {.wide = f.elem == 8};
    struct sg_ir *ir;
    int32_t handle;

    if (insn->n_opds != 2 || n > 4 || where->kind != PTX_OPD_TEXADDR || where->n != 2) {
        lo_fail(l, -ENOSYS, "this surface form is not carried");
        return;
    }
    geometry(insn, &f.coords, &f.layered);
    f.bytes = f.elem * n;
    f.mode = lo_has(insn, PTX_W_clamp)  ? SURF_CLAMP
             : lo_has(insn, PTX_W_zero) ? SURF_ZERO
                                        : SURF_TRAP;
    handle = handle_of(l, &where->sub[0]);
    for (unsigned i = 0; i < n; i++)
        list_add(l, &list, store ? lo_src(l, &e[i], type) : lo_dst(l, &e[i], type));
    list.n_dst = store ? 0 : list.n;
    list.n_wide = list.n;
    list_sources(l, &list, &where->sub[1], f.coords + f.layered);
    ir = list_emit(l, store ? SG_OP_SUST : SG_OP_SULD, &list);
    if (!ir)
        return;
    ir->a = handle;
    ir->x = surf_pack(&f);
}
