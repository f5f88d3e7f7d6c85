/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface operations of a warp, lane by lane; sampling is in sg_tex.c.
 */
#include "insn_tex.h"

#include "exec_lane.h"
#include "exec_scalar.h"
#include "sg_cta.h"
#include "sg_tex.h"
#include "sg_written.h"

#include <math.h>
#include <string.h>

/* Sampling goes by coordinates that are inside: the whole of it has to be live. */
static bool
tex_is_mapped(struct sg_cta *cta, const struct sg_tex *tex, bool write)
{
    struct sg_tlb *t = &cta->tlb[SG_TLB_TEX];

    if (tex->len > t->len || tex->lo - t->lo > t->len - tex->len) {
        if (!sg_mem_fill(cta, t, tex->lo) || tex->len > t->len ||
            tex->lo - t->lo > t->len - tex->len)
            return false;
    }
    if (write && (t->flags & SG_RANGE_WATCHED))
        sg_written_mark(tex->lo, tex->len);
    return !write || !sg_range_is_read_only(t->flags);
}

static const struct sg_tex *
lane_tex(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
         unsigned lane)
{
    uint64_t handle = sg_reg_d(warp, op->a)[lane];
    const struct sg_tex *tex = sg_tex_find(handle);

    if (!tex) {
        sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, handle,
                     "texture or surface handle is not alive");
        return NULL;
    }
    if (!tex_is_mapped(cta, tex, op->code == SG_OP_SUST || op->code == SG_OP_SURED)) {
        sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, tex->lo,
                     "memory of a texture or surface is not there");
        return NULL;
    }
    return tex;
}

/* Level of detail from the derivatives of the coordinates. */
static float
grad_lod(const struct sg_tex *tex, const float *grad, unsigned n)
{
    float best = 0;

    for (int side = 0; side < 2; side++) {
        float len = 0;
        for (unsigned k = 0; k < n; k++) {
            uint32_t size = k == 0   ? tex->level[0].width
                            : k == 1 ? tex->level[0].height
                                     : tex->level[0].depth;
            float d =
                grad[(unsigned)side * n + k] * (tex->normalized ? (float)size : 1.0f);
            len += d * d;
        }
        best = fmaxf(best, len);
    }
    return best > 0 ? 0.5f * log2f(best) : 0;
}

/* The texture as the module's sampler reads it. */
static void
apply_sampler(struct sg_tex *tex, uint64_t sampler)
{
    tex->linear = sampler & TEX_SAMPLER_LINEAR;
    tex->normalized = tex->normalized && !(sampler & TEX_SAMPLER_TEXELS);
    tex->seamless = false;
    for (int k = 0; k < 3; k++)
        tex->address[k] =
            (enum sg_tex_address)(sampler >> (TEX_SAMPLER_ADDRESS_SHIFT + 2 * k) & 3);
}

/* The texture as the sampler of another one reads it. */
static enum sg_stop
borrow_sampler(struct sg_cta *cta, struct sg_warp *warp, unsigned lane, uint64_t handle,
               struct sg_tex *tex)
{
    const struct sg_tex *other = sg_tex_find(handle);

    if (!other || other->surface)
        return sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, handle,
                            "sampler handle is not alive");
    tex->linear = other->linear;
    tex->mip_linear = other->mip_linear;
    tex->normalized = other->normalized;
    tex->seamless = tex->cube && other->seamless;
    memcpy(tex->address, other->address, sizeof(tex->address));
    memcpy(tex->border, other->border, sizeof(tex->border));
    tex->lod_bias = other->lod_bias;
    tex->lod_min = other->lod_min;
    tex->lod_max = other->lod_max;
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_no_such(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    unsigned lane = (unsigned)__builtin_ctz(m);

    return sg_fault_set(
        cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, sg_reg_d(warp, op->a)[lane],
        op->n == NO_SUCH_DEPTH ? "a depth is compared with a texture that has none"
                               : "the address belongs to no multicast object");
}

enum sg_stop
sg_op_tex(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          uint32_t m)
{
    const struct tex_form f = tex_unpack(op->x);
    const uint32_t *list = cta->unit->lists + op->f, *src = list + 4;

    SG_FOR_LANES(i, m)
    {
        const struct sg_tex *tex = lane_tex(cta, warp, op, i);
        struct sg_tex_query q = {.by_texel = !f.float_coords,
                                 .gather = f.gather,
                                 .want_float = f.float_result};
        const uint32_t *in = src;
        struct sg_tex own;
        float grad[6] = {0};
        uint32_t out[4];
        if (!tex)
            return SG_STOP_FAULT;
        if (f.layered)
            q.layer = (int32_t)sg_reg_w(warp, *in++)[i];
        for (unsigned k = 0; k < f.coords; k++) {
            uint32_t v = sg_reg_w(warp, *in++)[i];
            q.coord[k] = lane_float(v);
            q.texel[k] = (int32_t)v;
        }
        if (f.lod == TEX_LEVEL) {
            uint32_t v = sg_reg_w(warp, *in++)[i];
            q.lod = f.float_coords ? lane_float(v) : (float)(int32_t)v;
        } else if (f.lod == TEX_GRAD) {
            for (unsigned k = 0; k < 2 * f.coords; k++)
                grad[k] = lane_float(sg_reg_w(warp, *in++)[i]);
            q.lod = grad_lod(tex, grad, f.coords);
        }
        for (unsigned k = 0; f.offset && k < f.coords; k++)
            q.offset[k] = (int32_t)sg_reg_w(warp, *in++)[i];
        if (op->imm || op->b != SG_OFF_NONE) {
            own = *tex;
            tex = &own;
        }
        if (op->imm)
            apply_sampler(&own, (uint64_t)op->imm);
        else if (op->b != SG_OFF_NONE &&
                 borrow_sampler(cta, warp, i, sg_reg_d(warp, op->b)[i], &own) !=
                     SG_STOP_NONE)
            return SG_STOP_FAULT;
        sg_tex_sample(tex, &q, out);
        for (int c = 0; c < 4; c++)
            sg_reg_w(warp, list[c])[i] = out[c];
    }
    return SG_STOP_NONE;
}

static uint32_t
query(const struct sg_tex *tex, unsigned what, uint32_t level)
{
    static const uint8_t formats[] = {1, 2, 3, 8, 9, 10, 16, 32};
    const struct sg_tex_level *l = &tex->level[gp_min(level, tex->n_levels - 1)];

    switch (what) {
    case TXQ_WIDTH:
        return l->width;
    case TXQ_HEIGHT:
        return tex->dims > 1 ? l->height : 0;
    case TXQ_DEPTH:
        return tex->dims > 2 && !tex->layered ? l->depth : 0;
    case TXQ_ARRAY:
        return tex->layered ? l->depth : 0;
    case TXQ_LEVELS:
        return tex->n_levels;
    case TXQ_FORMAT:
        return formats[tex->format];
    case TXQ_CHANNELS:
        return tex->channels;
    case TXQ_SAMPLES:
        return 1;
    case TXQ_FILTER:
        return tex->linear;
    case TXQ_ADDRESS_0:
    case TXQ_ADDRESS_1:
    case TXQ_ADDRESS_2:
        return tex->address[what - TXQ_ADDRESS_0];
    case TXQ_FORCE_TEXELS: /* a sampler of the module may; a texture's own says no */
    case TXQ_LAYOUT:       /* surfaces are of arrays */
        return 0;
    case TXQ_IS_TEXTURE:
        return !tex->surface;
    case TXQ_IS_SURFACE:
        return tex->surface;
    default:
        return tex->normalized;
    }
}

enum sg_stop
sg_op_txq(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
          uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        uint32_t level = op->b == SG_OFF_NONE ? 0 : sg_reg_w(warp, op->b)[i];
        const struct sg_tex *tex = op->n < TXQ_IS_TEXTURE
                                       ? lane_tex(cta, warp, op, i)
                                       : sg_tex_find(sg_reg_d(warp, op->a)[i]);
        if (!tex && op->n < TXQ_IS_TEXTURE)
            return SG_STOP_FAULT;
        sg_reg_w(warp, op->d)[i] = tex ? query(tex, op->n, level) : 0;
    }
    return SG_STOP_NONE;
}

static unsigned
format_bytes(const struct sg_tex *tex)
{
    static const uint8_t bytes[] = {1, 2, 4, 1, 2, 4, 2, 4};

    return bytes[tex->format];
}

/* The bytes that a surface access of one lane means; *ret NULL: outside, ignored. */
static enum sg_stop
surf_place(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           unsigned lane, const uint32_t *src, const struct sg_tex **ret_tex,
           uint8_t **ret)
{
    struct surf_form f = surf_unpack(op->x);
    const struct sg_tex *tex = lane_tex(cta, warp, op, lane);
    int64_t c[3] = {0}, layer = 0, size[3], bytes;
    const struct sg_tex_level *l;
    bool inside = true;

    *ret = NULL;
    if (!tex)
        return SG_STOP_FAULT;
    if (!tex->surface)
        return sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, 0,
                            "surface access through a texture");
    *ret_tex = tex;
    l = &tex->level[0];
    bytes = (int64_t)tex->channels * format_bytes(tex);
    size[0] = (int64_t)l->width * bytes;
    size[1] = l->height;
    size[2] = l->depth;
    if (f.layered)
        layer = (int32_t)sg_reg_w(warp, *src++)[lane];
    for (unsigned k = 0; k < f.coords; k++)
        c[k] = (int32_t)sg_reg_w(warp, *src++)[lane];
    if (f.layered)
        c[2] = layer;
    if (f.formatted) {
        c[0] *= bytes;
        f.bytes = (unsigned)bytes;
        f.elem = format_bytes(tex);
    }
    for (int k = 0; k < 3; k++) {
        int64_t last = size[k] - (k == 0 ? (int64_t)f.bytes : 1);
        if (c[k] >= 0 && c[k] <= last)
            continue;
        if (k == 0 && last > 0) /* the last aligned place for the whole of it */
            last -= last % (int64_t)f.bytes;
        if (f.mode == SURF_CLAMP && last >= 0)
            c[k] = c[k] < 0 ? 0 : last;
        else
            inside = false;
    }
    if (!inside && f.mode == SURF_TRAP)
        return sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, (uint64_t)c[0],
                            "surface access outside the surface");
    if (inside && c[0] % (int64_t)f.elem)
        return sg_fault_set(cta, warp, lane, SG_FAULT_MISALIGNED, (uint64_t)c[0],
                            "surface access is misaligned");
    if (inside)
        *ret = (uint8_t *)(uintptr_t)(l->base + (uint64_t)c[2] * l->slice +
                                      (uint64_t)c[1] * l->pitch + (uint64_t)c[0]);
    return SG_STOP_NONE;
}

/* A 32-bit value as a channel of the surface keeps it: integers are clamped. */
static uint32_t
channel_value(const struct sg_tex *tex, uint32_t v)
{
    int32_t i = (int32_t)v;

    switch (tex->format) {
    case SG_TEX_U8:
        return v > 0xff ? 0xff : v;
    case SG_TEX_U16:
        return v > 0xffff ? 0xffff : v;
    case SG_TEX_S8:
        return (uint32_t)(i > INT8_MAX ? INT8_MAX : i < INT8_MIN ? INT8_MIN : i);
    case SG_TEX_S16:
        return (uint32_t)(i > INT16_MAX ? INT16_MAX : i < INT16_MIN ? INT16_MIN : i);
    case SG_TEX_F16:
        return sg_f64_to_f16((double)lane_float(v));
    default:
        return v;
    }
}

/* sust.p: one 32-bit value for each channel, as many as there are. */
static void
store_formatted(const struct sg_warp *warp, const struct sg_tex *tex,
                const uint32_t *list, unsigned n, unsigned lane, uint8_t *p)
{
    unsigned size = format_bytes(tex);

    for (unsigned k = 0; k < n && k < tex->channels; k++) {
        uint32_t v = channel_value(tex, sg_reg_w(warp, list[k])[lane]);
        memcpy(p + (size_t)k * size, &v, size);
    }
}

enum sg_stop
sg_op_surf(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    const struct surf_form f = surf_unpack(op->x);
    const uint32_t *list = cta->unit->lists + op->f;
    unsigned n = f.bytes / f.elem;
    bool store = op->code == SG_OP_SUST;

    SG_FOR_LANES(i, m)
    {
        const struct sg_tex *tex;
        uint8_t *p;
        enum sg_stop stop = surf_place(cta, warp, op, i, list + n, &tex, &p);
        if (stop != SG_STOP_NONE)
            return stop;
        if (f.formatted) {
            if (p)
                store_formatted(warp, tex, list, n, i, p);
            continue;
        }
        for (unsigned k = 0; k < n; k++) {
            uint64_t v = 0;
            if (store && f.elem == 8)
                v = sg_reg_d(warp, list[k])[i];
            else if (store)
                v = sg_reg_w(warp, list[k])[i];
            if (store && p)
                memcpy(p + (size_t)k * f.elem, &v, f.elem);
            if (store)
                continue;
            if (p)
                memcpy(&v, p + (size_t)k * f.elem, f.elem);
            if (f.elem == 8)
                sg_reg_d(warp, list[k])[i] = v;
            else
                sg_reg_w(warp, list[k])[i] = (uint32_t)v;
        }
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_sured(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const struct surf_form f = surf_unpack(op->x);
    const uint32_t *list = cta->unit->lists + op->f;

    SG_FOR_LANES(i, m)
    {
        const struct sg_tex *tex;
        unsigned kind = (unsigned)op->imm & 0xff;
        uint64_t v =
            f.elem == 8 ? sg_reg_d(warp, list[0])[i] : sg_reg_w(warp, list[0])[i];
        uint8_t *p;
        enum sg_stop stop = surf_place(cta, warp, op, i, list + 1, &tex, &p);
        if (stop != SG_STOP_NONE)
            return stop;
        if (f.formatted && (format_bytes(tex) != 4 || tex->format == SG_TEX_F32))
            return sg_fault_set(cta, warp, i, SG_FAULT_ILLEGAL_INSTRUCTION, 0,
                                "sured.p of a surface that is not of 32-bit integers");
        if (f.formatted && tex->format == SG_TEX_S32)
            kind = (unsigned)op->imm >> 8;
        if (p)
            sg_atom_do((enum sg_atom)kind, f.elem, p, v, 0);
    }
    return SG_STOP_NONE;
}
