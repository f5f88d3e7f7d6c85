/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk copies: cp.async.bulk and cp.async.bulk.tensor, which are done when they are
 * issued; the bytes are then completed on their mbarrier.
 *
 * Registers of both, 64 bits each, in the list: to, from, bytes, mbarrier, member mask;
 * a tensor copy has the map in place of the global side, and coordinates behind.
 */
#include "sg_cta.h"

#include "sg_tmap.h"

#include <string.h>

enum { TO, FROM, BYTES, MBAR, MASK, COORDS };

struct bulk {
    struct sg_cta *cta;
    struct sg_warp *warp;
    const struct sg_op *op;
    unsigned lane;
    uint64_t arg[COORDS];
};

static void
bulk_open(struct bulk *b, struct sg_cta *cta, struct sg_warp *warp,
          const struct sg_op *op, unsigned lane)
{
    const uint32_t *list = cta->unit->lists + op->f;

    *b = (struct bulk){cta, warp, op, lane, {0}};
    for (int k = 0; k < COORDS; k++)
        b->arg[k] = sg_reg_d(warp, list[k])[lane];
}

static void *
resolve(const struct bulk *b, uint64_t addr, uint32_t size, uint32_t align,
        enum sg_mem_space space, enum sg_access access)
{
    return sg_mem_resolve(b->cta, b->warp, b->lane, addr, size, align, space, access);
}

/* The same place of shared memory in the member of this rank. */
static uint64_t
in_member(uint64_t addr, uint32_t rank)
{
    return (addr & (SG_WIN_SIZE - 1)) | (uint64_t)(rank + 1) << SG_CLUSTER_SHIFT;
}

static bool
complete(const struct bulk *b, uint64_t mbar, uint64_t bytes)
{
    uint64_t *word = resolve(b, mbar, 8, 7, SG_MEM_SHARED, SG_ACCESS_WRITE);

    if (word)
        sg_mbar_complete(word, bytes);
    return word != NULL;
}

/* Bytes into shared memory, in one CTA or in all of the mask. */
static bool
deliver(const struct bulk *b, uint64_t to, const void *data, uint32_t n)
{
    bool multi = b->op->n & SG_BULK_MULTICAST;

    for (uint32_t rank = 0; rank < (multi ? SG_MAX_CLUSTER : 1); rank++) {
        void *p;
        if (multi && !(b->arg[MASK] >> rank & 1))
            continue;
        p = resolve(b, multi ? in_member(to, rank) : to, n, 0, SG_MEM_SHARED,
                    SG_ACCESS_WRITE);
        if (!p)
            return false;
        memmove(p, data, n);
    }
    return true;
}

/* Tell the mbarrier, or the one in each CTA of the mask. */
static bool
deliver_done(const struct bulk *b, uint64_t bytes)
{
    if (!(b->op->n & SG_BULK_MBAR))
        return true;
    if (!(b->op->n & SG_BULK_MULTICAST))
        return complete(b, b->arg[MBAR], bytes);
    for (uint32_t rank = 0; rank < SG_MAX_CLUSTER; rank++)
        if ((b->arg[MASK] >> rank & 1) &&
            !complete(b, in_member(b->arg[MBAR], rank), bytes))
            return false;
    return true;
}

static bool
copy_lane(const struct bulk *b)
{
    enum sg_mem_space from =
        b->op->n & SG_BULK_FROM_SHARED ? SG_MEM_SHARED : SG_MEM_GLOBAL;
    bool down = b->op->n & SG_BULK_TO_GLOBAL;
    uint64_t bytes = b->arg[BYTES];
    const void *src;
    void *dst;

    if (bytes % 16 || bytes > SG_WIN_SIZE) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_MISALIGNED, bytes,
                     "bulk copy of a size that is no multiple of 16");
        return false;
    }
    if (bytes == 0)
        return deliver_done(b, 0);
    src = resolve(b, b->arg[FROM], (uint32_t)bytes, 15, from, SG_ACCESS_READ);
    if (!src)
        return false;
    if (down) {
        dst =
            resolve(b, b->arg[TO], (uint32_t)bytes, 15, SG_MEM_GLOBAL, SG_ACCESS_WRITE);
        if (dst)
            memmove(dst, src, bytes);
        return dst != NULL;
    }
    if (b->arg[TO] & 15) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_MISALIGNED, b->arg[TO],
                     "bulk copy to an address that is no multiple of 16");
        return false;
    }
    return deliver(b, b->arg[TO], src, (uint32_t)bytes) && deliver_done(b, bytes);
}

enum sg_stop
sg_op_bulk(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op, uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        struct bulk b;
        bulk_open(&b, cta, warp, op, i);
        if (!copy_lane(&b))
            return SG_STOP_FAULT;
    }
    return SG_STOP_NONE;
}

/* ------------------------------------------------------------------------ tensors */

struct walk {
    struct sg_tmap map;
    unsigned element;             /* bytes */
    uint32_t count[SG_TMAP_DIMS]; /* elements of the box, by dimension */
    int64_t first[SG_TMAP_DIMS];  /* coordinates of its corner */
    uint64_t smem;
};

/* Where shared memory keeps what would lie at @at: chunks of 16 bytes change places
 * within 32, 64 or 128 bytes, by bits of the address further up. */
static uint64_t
swizzled(const struct walk *w, uint64_t at)
{
    static const uint8_t bits[] = {0, 1, 2, 3};
    unsigned n = w->map.swizzle < 4 ? bits[w->map.swizzle] : 0;

    return at ^ ((at >> 7 & ((1u << n) - 1)) << 4);
}

static bool
walk_open(const struct bulk *b, uint64_t map_at, struct walk *w)
{
    const uint32_t *coords = b->cta->unit->lists + b->op->f + COORDS;
    const void *raw = resolve(b, map_at, 128, 63, SG_MEM_GENERIC, SG_ACCESS_READ);
    const char *why = NULL;

    if (!raw)
        return false;
    if (!sg_tmap_open(raw, &w->map))
        why = "the tensor map is none";
    else if (w->map.mode != SG_TMAP_TILED || w->map.interleave || w->map.swizzle > 3 ||
             sg_tmap_is_packed(w->map.type))
        why = "im2col, interleaved and packed tensor maps are not carried";
    else if (w->map.rank != (b->op->x & 7))
        why = "the tensor map has another rank";
    if (why) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_ILLEGAL_INSTRUCTION, map_at,
                     why);
        return false;
    }
    w->element = sg_tmap_element(w->map.type);
    for (unsigned i = 0; i < SG_TMAP_DIMS; i++) {
        bool used = i < w->map.rank;
        w->count[i] = used ? (w->map.box[i] + w->map.step[i] - 1u) / w->map.step[i] : 1;
        w->first[i] = used ? (int32_t)sg_reg_d(b->warp, coords[i])[b->lane] : 0;
    }
    return true;
}

/* The address of an element in global memory; false: outside the tensor. */
static bool
tensor_at(const struct walk *w, const uint32_t at[SG_TMAP_DIMS], uint64_t *ret)
{
    *ret = w->map.base;
    for (unsigned i = 0; i < w->map.rank; i++) {
        int64_t c = w->first[i] + (int64_t)at[i] * w->map.step[i];
        if (c < 0 || c > w->map.last[i])
            return false;
        *ret += (uint64_t)c * (i ? w->map.stride[i - 1] : w->element);
    }
    return true;
}

static void
fill_outside(const struct walk *w, void *to)
{
    /* CU_TENSOR_MAP_DATA_TYPE_FLOAT16 .. TFLOAT32_FTZ */
    static const uint16_t half_nan = 0x7fff;
    static const uint32_t nan = 0x7fffffff;
    static const uint64_t wide_nan = 0x7fffffffffffffff;

    memset(to, 0, w->element);
    if (w->map.nan_fill)
        memcpy(to,
               w->element == 2   ? (const void *)&half_nan
               : w->element == 4 ? (const void *)&nan
                                 : (const void *)&wide_nan,
               w->element);
}

/* Element number @n of the box, the innermost dimension first. */
static void
box_place(const struct walk *w, uint64_t n, uint32_t at[SG_TMAP_DIMS])
{
    for (unsigned i = 0; i < SG_TMAP_DIMS; i++) {
        at[i] = (uint32_t)(n % w->count[i]);
        n /= w->count[i];
    }
}

static bool
tensor_lane(const struct bulk *b)
{
    bool down = b->op->n & SG_BULK_TO_GLOBAL;
    uint64_t smem = b->arg[down ? FROM : TO], total = 1, where;
    struct walk w;

    if (!walk_open(b, b->arg[down ? TO : FROM], &w))
        return false;
    for (unsigned i = 0; i < SG_TMAP_DIMS; i++)
        total *= w.count[i];
    if (total * w.element > SG_WIN_SIZE || (smem & 127)) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_MISALIGNED, smem,
                     "tensor copy: shared memory wants 128-byte addresses");
        return false;
    }
    for (uint64_t n = 0; n < total; n++) {
        uint64_t in = swizzled(&w, smem + n * w.element), buf;
        uint32_t at[SG_TMAP_DIMS];
        void *p = NULL;
        bool inside;
        box_place(&w, n, at);
        inside = tensor_at(&w, at, &where);
        if (inside && !(p = resolve(b, where, w.element, 0, SG_MEM_GLOBAL,
                                    down ? SG_ACCESS_WRITE : SG_ACCESS_READ)))
            return false;
        if (down) {
            const void *s = resolve(b, in, w.element, 0, SG_MEM_SHARED, SG_ACCESS_READ);
            if (!s)
                return false;
            if (inside)
                memcpy(p, s, w.element);
            continue;
        }
        if (inside)
            memcpy(&buf, p, w.element);
        else
            fill_outside(&w, &buf);
        if (!deliver(b, in, &buf, w.element))
            return false;
    }
    return down || deliver_done(b, total * w.element);
}

enum sg_stop
sg_op_bulk_tensor(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
                  uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        struct bulk b;
        bulk_open(&b, cta, warp, op, i);
        if (!tensor_lane(&b))
            return SG_STOP_FAULT;
    }
    return SG_STOP_NONE;
}
