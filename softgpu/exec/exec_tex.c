/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface operations of a warp, lane by lane; sampling is in sg_tex.c.
 */
#include "exec_tex.h"

#include "exec_lane.h"
#include "exec_scalar.h"
#include "sg_cta.h"
#include "sg_tex.h"

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
    return !write || !(t->flags & SG_RANGE_READ_ONLY);
}

static const struct sg_tex *
lane_tex(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
         unsigned lane)
{
    uint64_t handle = sg_reg_d(warp, op->a)[lane];
    const struct sg_tex *tex = sg_tex_find(handle);

    if (!tex) {
        sg_fault_set(cta, warp, lane, SG_FAULT_ILLEGAL_ADDRESS, handle,
                     "texture or surface handle is not alive");
        return NULL;
    }
    if (!tex_is_mapped(cta, tex, op->code == SG_OP_SUST)) {
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

enum sg_stop
sg_op_tex(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, uint32_t m)
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
            q.lod = lane_float(sg_reg_w(warp, *in)[i]);
        } else if (f.lod == TEX_GRAD) {
            for (unsigned k = 0; k < 2 * f.coords; k++)
                grad[k] = lane_float(sg_reg_w(warp, *in++)[i]);
            q.lod = grad_lod(tex, grad, f.coords);
        }
        sg_tex_sample(tex, &q, out);
        for (int c = 0; c < 4; c++)
            sg_reg_w(warp, list[c])[i] = out[c];
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_txq(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        const struct sg_tex *tex = lane_tex(cta, warp, op, i);
        const struct sg_tex_level *l;
        uint32_t v;
        if (!tex)
            return SG_STOP_FAULT;
        l = &tex->level[0];
        switch (op->n) {
        case TXQ_WIDTH:
            v = l->width;
            break;
        case TXQ_HEIGHT:
            v = tex->dims > 1 ? l->height : 0;
            break;
        case TXQ_DEPTH:
            v = tex->dims > 2 && !tex->layered ? l->depth : 0;
            break;
        case TXQ_ARRAY:
            v = tex->layered ? l->depth : 0;
            break;
        case TXQ_LEVELS:
            v = tex->n_levels;
            break;
        default:
            v = tex->normalized;
            break;
        }
        sg_reg_w(warp, op->d)[i] = v;
    }
    return SG_STOP_NONE;
}

/* The bytes that a surface access of one lane means; *ret NULL: outside, ignored. */
static enum sg_stop
surf_place(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
           unsigned lane, const uint32_t *src, uint8_t **ret)
{
    const struct surf_form f = surf_unpack(op->x);
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
    l = &tex->level[0];
    bytes = (int64_t)tex->channels * (int64_t[]){1, 2, 4, 1, 2, 4, 2, 4}[tex->format];
    size[0] = (int64_t)l->width * bytes;
    size[1] = l->height;
    size[2] = l->depth;
    if (f.layered)
        layer = (int32_t)sg_reg_w(warp, *src++)[lane];
    for (unsigned k = 0; k < f.coords; k++)
        c[k] = (int32_t)sg_reg_w(warp, *src++)[lane];
    if (f.layered)
        c[2] = layer;
    for (int k = 0; k < 3; k++) {
        int64_t last = size[k] - (k == 0 ? (int64_t)f.bytes : 1);
        if (c[k] >= 0 && c[k] <= last)
            continue;
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

enum sg_stop
sg_op_surf(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, uint32_t m)
{
    const struct surf_form f = surf_unpack(op->x);
    const uint32_t *list = cta->unit->lists + op->f;
    unsigned n = f.bytes / f.elem;
    bool store = op->code == SG_OP_SUST;

    SG_FOR_LANES(i, m)
    {
        uint8_t *p;
        enum sg_stop stop = surf_place(cta, warp, op, i, list + n, &p);
        if (stop != SG_STOP_NONE)
            return stop;
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
