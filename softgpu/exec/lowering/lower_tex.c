/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering textures and surfaces: tex, tld4, txq, suq, istypep, suld, sust, sured.
 */
#include "gp_err.h"
#include "insn_tex.h"
#include "lower.h"
#include "sg_prog.h"
#include "sg_tex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    bool samples = lo_has(insn, PTX_W_2dms) || lo_has(insn, PTX_W_a2dms);

    *ret_layered = lo_has(insn, PTX_W_a1d) || lo_has(insn, PTX_W_a2d) ||
                   lo_has(insn, PTX_W_acube) || lo_has(insn, PTX_W_a2dms);
    *ret_coords = lo_has(insn, PTX_W_1d) || lo_has(insn, PTX_W_a1d)              ? 1
                  : lo_has(insn, PTX_W_2d) || lo_has(insn, PTX_W_a2d) || samples ? 2
                                                                                 : 3;
}

/* What the initialiser of a sampler says, as op.imm has it; later fields come first in
 * the list. */
static uint64_t
sampler_bits(const struct ptx_var *var)
{
    static const struct {
        const char *word;
        enum sg_tex_address mode;
    } modes[] = {
        {"wrap", SG_TEX_WRAP},
        {"mirror", SG_TEX_MIRROR},
        {"clamp_ogl", SG_TEX_CLAMP},
        {"clamp_to_edge", SG_TEX_CLAMP},
        {"clamp_to_border", SG_TEX_BORDER},
    };
    uint64_t bits = TEX_SAMPLER;

    for (unsigned axis = 0; axis < 3; axis++)
        bits |= (uint64_t)SG_TEX_CLAMP << (TEX_SAMPLER_ADDRESS_SHIFT + 2 * axis);
    for (const struct ptx_field *f = var->fields; f; f = f->next) {
        const char *name = f->name->name, *word = f->word ? f->word->name : "";
        unsigned axis = (unsigned)(name[f->name->len - 1] - '0');
        if (strncmp(name, "filter_mode", 11) == 0 && strncmp(word, "linear", 6) == 0)
            bits |= TEX_SAMPLER_LINEAR;
        if (strncmp(name, "force_unnormalized", 18) == 0 && f->number)
            bits |= TEX_SAMPLER_TEXELS;
        if (strncmp(name, "addr_mode_", 10) != 0 || axis > 2)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
            if (f->word && f->word->len == strlen(modes[i].word) &&
                memcmp(word, modes[i].word, f->word->len) == 0) {
                bits &= ~(3ull << (TEX_SAMPLER_ADDRESS_SHIFT + 2 * axis));
                bits |= (uint64_t)modes[i].mode
                        << (TEX_SAMPLER_ADDRESS_SHIFT + 2 * axis);
            }
    }
    return bits;
}

/* [texture, {..}] or [texture, sampler, {..}]; returns the coordinates.  The sampler is
 * a variable of the module or, by its handle, the one of a texture. */
static const struct ptx_opd *
texture_operand(struct lower *l, const struct ptx_opd *where, uint64_t *ret_sampler,
                int32_t *ret_other)
{
    const struct ptx_opd *s;

    *ret_sampler = 0;
    *ret_other = SG_NOREG;
    if (where->n == 2)
        return &where->sub[1];
    s = &where->sub[1];
    if (s->kind == PTX_OPD_VAR && s->var->type == PTX_W_samplerref)
        *ret_sampler = sampler_bits(s->var);
    else
        *ret_other = lo_src(l, s, PTX_W_b64);
    return &where->sub[2];
}

/* Textures of several samples have the sample's number among their coordinates.  None
 * of ours has more than one: it is left out. */
static void
texture_coords(struct lower *l, struct list *list, const struct ptx_insn *insn,
               const struct ptx_opd *coords, const struct tex_form *f)
{
    struct ptx_opd without[3], v = {.kind = PTX_OPD_VEC, .sub = without};
    uint32_t sample = f->layered ? 1 : 0;

    if (!lo_has(insn, PTX_W_2dms) && !lo_has(insn, PTX_W_a2dms)) {
        list_sources(l, list, coords, f->coords + f->layered);
        return;
    }
    if (coords->kind != PTX_OPD_VEC || coords->n != 4) {
        lo_fail(l, -EINVAL, "tex: four coordinates, one is the sample");
        return;
    }
    for (uint32_t i = 0; i < coords->n; i++)
        if (i != sample)
            without[v.n++] = coords->sub[i];
    list_sources(l, list, &v, f->coords + f->layered);
}

/* Where the four values go: registers as they are, or two of two halves each. */
static void
texture_results(struct lower *l, const struct ptx_opd *dst, bool halves,
                struct list *list)
{
    for (int c = 0; c < 4; c++)
        list_add(l, list,
                 halves ? lo_temp(l, SG_W) : lo_dst(l, &dst->sub[c], PTX_W_b32));
    list->n_dst = list->n;
}

static void
texture_finish(struct lower *l, const struct ptx_opd *dst,
               const struct ptx_opd *present, bool halves, const int32_t v[4])
{
    struct sg_ir *ir;
    int32_t p;

    for (int k = 0; halves && k < 2; k++) {
        int32_t h[2];
        for (int i = 0; i < 2; i++)
            h[i] = lo_call_fn(
                l, SG_FN_f64_f16_rn, SG_NOREG,
                lo_op(l, SG_OP_CVT_F64_F32, SG_NOREG, v[2 * k + i], SG_NOREG, SG_NOREG),
                SG_NOREG, SG_NOREG);
        lo_op(l, SG_OP_PACK32, lo_dst(l, &dst->sub[k], PTX_W_b32), h[0], h[1],
              SG_NOREG);
    }
    if (!present)
        return;
    p = lo_dst_pred(l, present); /* all of every texture is there */
    ir = lo_emit(l, SG_OP_PSET);
    ir->d = p;
    ir->n = 1;
}

static int
gather_of(const struct ptx_insn *insn)
{
    if (insn->op != PTX_W_tld4)
        return -1;
    return lo_has(insn, PTX_W_r)   ? 0
           : lo_has(insn, PTX_W_g) ? 1
           : lo_has(insn, PTX_W_b) ? 2
                                   : 3;
}

/* Behind the address: level or derivatives, then offsets.  A depth to compare with can
 * only end the kernel, when it gets there. */
static void
texture_more(struct lower *l, const struct ptx_insn *insn, struct tex_form *f,
             struct list *list, int32_t handle)
{
    struct sg_ir *ir;
    unsigned at = 2, need = f->lod == TEX_GRAD ? 2 : f->lod == TEX_LEVEL ? 1 : 0;

    if (insn->n_opds < at + need) {
        lo_fail(l, -EINVAL, "tex: no level of detail");
        return;
    }
    for (unsigned i = 0; i < need; i++)
        list_sources(l, list, &insn->opds[at++], f->lod == TEX_GRAD ? f->coords : 1);
    if (at < insn->n_opds && insn->opds[at].kind == PTX_OPD_VEC) {
        f->offset = true;
        list_sources(l, list, &insn->opds[at++], f->coords);
    }
    if (at == insn->n_opds || l->failed)
        return;
    ir = lo_emit(l, SG_OP_NO_SUCH);
    ir->a = handle;
    ir->n = NO_SUCH_DEPTH;
}

void
lower_texture(struct lower *l, const struct ptx_insn *insn)
{
    bool halves = lo_type(insn, 0) == PTX_W_f16x2;
    const struct ptx_opd *dst = &insn->opds[0], *where = &insn->opds[1],
                         *present = NULL;
    struct tex_form f = {.gather = gather_of(insn)};
    const struct ptx_opd *coords;
    struct list list = {0};
    uint64_t sampler;
    struct sg_ir *ir;
    int32_t handle, other;

    if (insn->n_opds >= 2 && dst->kind == PTX_OPD_PAIR) {
        present = &dst->sub[1];
        dst = &dst->sub[0];
    }
    if (insn->n_opds < 2 || dst->kind != PTX_OPD_VEC || dst->n != (halves ? 2 : 4) ||
        where->kind != PTX_OPD_TEXADDR || (where->n != 2 && where->n != 3)) {
        lo_fail(l, -ENOSYS, "this texture form is not carried");
        return;
    }
    geometry(insn, &f.coords, &f.layered);
    f.float_result = halves || lo_type(insn, 0) == PTX_W_f32;
    f.float_coords = lo_type(insn, 1) == PTX_W_f32;
    f.lod = lo_has(insn, PTX_W_level)  ? TEX_LEVEL
            : lo_has(insn, PTX_W_grad) ? TEX_GRAD
                                       : TEX_BASE;
    handle = handle_of(l, &where->sub[0]);
    coords = texture_operand(l, where, &sampler, &other);
    texture_results(l, dst, halves, &list);
    texture_coords(l, &list, insn, coords, &f);
    texture_more(l, insn, &f, &list, handle);
    ir = list_emit(l, SG_OP_TEX, &list);
    if (!ir)
        return;
    ir->a = handle;
    ir->b = other;
    ir->x = tex_pack(&f);
    ir->imm = (int64_t)sampler;
    texture_finish(l, dst, present, halves, list.v);
}

static uint8_t
query_of(const struct ptx_insn *insn)
{
    static const struct {
        unsigned word;
        uint8_t what;
    } queries[] = {
        {PTX_W_width, TXQ_WIDTH},
        {PTX_W_height, TXQ_HEIGHT},
        {PTX_W_depth, TXQ_DEPTH},
        {PTX_W_array_size, TXQ_ARRAY},
        {PTX_W_num_mipmap_levels, TXQ_LEVELS},
        {PTX_W_channel_data_type, TXQ_FORMAT},
        {PTX_W_channel_order, TXQ_CHANNELS},
        {PTX_W_num_samples, TXQ_SAMPLES},
        {PTX_W_force_unnormalized_coords, TXQ_FORCE_TEXELS},
        {PTX_W_filter_mode, TXQ_FILTER},
        {PTX_W_addr_mode_0, TXQ_ADDRESS_0},
        {PTX_W_addr_mode_1, TXQ_ADDRESS_1},
        {PTX_W_addr_mode_2, TXQ_ADDRESS_2},
        {PTX_W_memory_layout, TXQ_LAYOUT},
    };

    for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
        if (lo_has(insn, queries[i].word))
            return queries[i].what;
    return TXQ_NORMALIZED;
}

/* What the initialiser of a module's sampler says. */
static uint32_t
sampler_query(const struct ptx_var *var, uint8_t what)
{
    uint64_t bits = sampler_bits(var);

    switch (what) {
    case TXQ_FORCE_TEXELS:
        return !!(bits & TEX_SAMPLER_TEXELS);
    case TXQ_FILTER:
        return !!(bits & TEX_SAMPLER_LINEAR);
    case TXQ_ADDRESS_0:
    case TXQ_ADDRESS_1:
    case TXQ_ADDRESS_2:
        return (uint32_t)(bits >>
                          (TEX_SAMPLER_ADDRESS_SHIFT + 2 * (what - TXQ_ADDRESS_0))) &
               3;
    default:
        return 0;
    }
}

void
lower_txq(struct lower *l, const struct ptx_insn *insn)
{
    bool level = lo_has(insn, PTX_W_level);
    int32_t a, b = SG_NOREG, d;
    struct sg_ir *ir;

    if (insn->n_opds != (level ? 3u : 2u)) {
        lo_fail(l, -ENOSYS, "this query is not carried");
        return;
    }
    if (insn->opds[1].kind == PTX_OPD_ADDR && insn->opds[1].base == PTX_OPD_VAR &&
        insn->opds[1].var->type == PTX_W_samplerref) {
        a = lo_const(l, SG_W, sampler_query(insn->opds[1].var, query_of(insn)));
        lo_op(l, SG_OP_MOV_W, lo_dst(l, &insn->opds[0], PTX_W_b32), a, SG_NOREG,
              SG_NOREG);
        return;
    }
    a = handle_of(l, &insn->opds[1]);
    if (level)
        b = lo_src(l, &insn->opds[2], PTX_W_b32);
    d = lo_dst(l, &insn->opds[0], PTX_W_b32);
    ir = lo_emit(l, SG_OP_TXQ);
    ir->a = a;
    ir->b = b;
    ir->d = d;
    ir->n = query_of(insn);
}

/* istypep p, handle: nothing is a sampler by its number. */
void
lower_istypep(struct lower *l, const struct ptx_insn *insn)
{
    int32_t a, v;
    struct sg_ir *ir;

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "istypep: operands");
        return;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b64);
    v = lo_temp(l, SG_W);
    ir = lo_emit(l, SG_OP_TXQ);
    ir->a = a;
    ir->d = v;
    ir->n = lo_type(insn, 0) == PTX_W_surfref ? TXQ_IS_SURFACE : TXQ_IS_TEXTURE;
    if (lo_type(insn, 0) == PTX_W_samplerref)
        v = lo_const(l, SG_W, 0);
    lo_op(l, SG_OP_SETP_NE_W, lo_dst_pred(l, &insn->opds[0]), v, lo_const(l, SG_W, 0),
          SG_NOREG);
}

static int
sured_kind(struct lower *l, const struct ptx_insn *insn, unsigned type)
{
    int kind = lo_atom_kind(insn, type);

    if (kind == 255)
        lo_fail(l, -ENOSYS, "this surface reduction is not carried");
    return kind;
}

void
lower_surface(struct lower *l, const struct ptx_insn *insn)
{
    bool load = insn->op == PTX_W_suld, sured = insn->op == PTX_W_sured;
    const struct ptx_opd *data = &insn->opds[load ? 0 : 1];
    const struct ptx_opd *where = &insn->opds[load ? 1 : 0];
    const struct ptx_opd *e = data->kind == PTX_OPD_VEC ? data->sub : data;
    unsigned type = lo_type(insn, 0), n = data->kind == PTX_OPD_VEC ? data->n : 1;
    struct surf_form f = {.elem = ptx_type_size(type),
                          .formatted = lo_has(insn, PTX_W_p)};
    struct list list = {.wide = f.elem == 8};
    struct sg_ir *ir;
    int32_t handle;

    if (insn->n_opds != 2 || n > 4 || (sured && n != 1) ||
        where->kind != PTX_OPD_TEXADDR || where->n != 2) {
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
        list_add(l, &list, load ? lo_dst(l, &e[i], type) : lo_src(l, &e[i], type));
    list.n_dst = load ? list.n : 0;
    list.n_wide = list.n;
    list_sources(l, &list, &where->sub[1], f.coords + f.layered);
    ir = list_emit(l, sured ? SG_OP_SURED : load ? SG_OP_SULD : SG_OP_SUST, &list);
    if (!ir)
        return;
    ir->a = handle;
    ir->x = surf_pack(&f);
    if (sured)
        ir->imm = sured_kind(l, insn, type) |
                  sured_kind(l, insn, f.formatted ? PTX_W_s32 : type) << 8;
}
