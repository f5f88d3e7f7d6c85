/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk copies, reductions and fills, which are done when they are issued; the bytes are
 * then completed on their mbarrier.  Tensors are in exec_tensor.c.
 */
#include "exec_bulk.h"

#include <string.h>

#define TO SG_BULK_ARG_TO
#define FROM SG_BULK_ARG_FROM
#define BYTES SG_BULK_ARG_BYTES
#define MBAR SG_BULK_ARG_MBAR
#define MASK SG_BULK_ARG_MASK

void
sg_bulk_open(struct sg_bulk *b, struct sg_cta *cta, struct sg_warp *warp,
             const struct sg_insn *op, unsigned lane)
{
    const uint32_t *list = cta->unit->lists + op->f;

    *b = (struct sg_bulk){cta, warp, op, lane, {0}};
    for (int k = 0; k < SG_BULK_ARGS; k++)
        b->arg[k] = sg_reg_d(warp, list[k])[lane];
}

void *
sg_bulk_resolve(const struct sg_bulk *b, uint64_t addr, uint32_t size, uint32_t align,
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
complete(const struct sg_bulk *b, uint64_t mbar, uint64_t bytes)
{
    uint64_t *word = sg_bulk_resolve(b, mbar, 8, 7, SG_MEM_SHARED, SG_ACCESS_WRITE);

    if (word)
        sg_mbar_complete(word, bytes);
    return word != NULL;
}

/* Bytes into shared memory, in one CTA or in all of the mask. */
bool
sg_bulk_deliver(const struct sg_bulk *b, uint64_t to, const void *data, uint32_t n)
{
    bool multi = b->op->n & SG_BULK_MULTICAST;

    for (uint32_t rank = 0; rank < (multi ? SG_MAX_CLUSTER : 1); rank++) {
        void *p;
        if (multi && !(b->arg[MASK] >> rank & 1))
            continue;
        p = sg_bulk_resolve(b, multi ? in_member(to, rank) : to, n, 0, SG_MEM_SHARED,
                            SG_ACCESS_WRITE);
        if (!p)
            return false;
        memmove(p, data, n);
    }
    return true;
}

/* Tell the mbarrier, or the one in each CTA of the mask. */
bool
sg_bulk_done(const struct sg_bulk *b, uint64_t bytes)
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
zero_lane(const struct sg_bulk *b)
{
    uint64_t bytes = b->arg[BYTES];
    void *p;

    if (bytes % 8 || bytes > SG_WIN_SIZE) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_MISALIGNED, bytes,
                     "st.bulk of a size that is no multiple of 8");
        return false;
    }
    if (b->op->n & SG_BULK_MBAR) { /* an answer of zeros: nothing was cancelled */
        static const uint8_t zeros[16];
        return sg_bulk_deliver(b, b->arg[TO], zeros, 16) && sg_bulk_done(b, 16);
    }
    if (bytes == 0)
        return true;
    p = sg_bulk_resolve(b, b->arg[TO], (uint32_t)bytes, 7,
                        b->op->x ? SG_MEM_SHARED : SG_MEM_GENERIC, SG_ACCESS_WRITE);
    if (p)
        memset(p, 0, bytes);
    return p != NULL;
}

/* Element by element, each atomic. */
static void
reduce(const struct sg_bulk *b, uint8_t *dst, const uint8_t *src, uint64_t bytes)
{
    uint32_t size = (uint32_t)b->op->imm >> 8 & 15;

    for (uint64_t at = 0; at + size <= bytes; at += size) {
        uint64_t v = 0;
        memcpy(&v, src + at, size);
        sg_atom_do((enum sg_atom)(b->op->imm & 0xff), size, dst + at, v, 0);
    }
}

static void
copy_masked(const struct sg_bulk *b, uint8_t *dst, const uint8_t *src, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at++)
        if (b->arg[MASK] >> at % 16 & 1)
            dst[at] = src[at];
}

static bool
copy_lane(const struct sg_bulk *b)
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
        return sg_bulk_done(b, 0);
    src = sg_bulk_resolve(b, b->arg[FROM], (uint32_t)bytes, 15, from, SG_ACCESS_READ);
    if (!src)
        return false;
    if (down) {
        dst = sg_bulk_resolve(b, b->arg[TO], (uint32_t)bytes, 15, SG_MEM_GLOBAL,
                              SG_ACCESS_WRITE);
        if (dst && (b->op->n & SG_BULK_REDUCE))
            reduce(b, dst, src, bytes);
        else if (dst && (b->op->n & SG_BULK_BYTES))
            copy_masked(b, dst, src, bytes);
        else if (dst)
            memmove(dst, src, bytes);
        return dst != NULL;
    }
    if (b->arg[TO] & 15) {
        sg_fault_set(b->cta, b->warp, b->lane, SG_FAULT_MISALIGNED, b->arg[TO],
                     "bulk copy to an address that is no multiple of 16");
        return false;
    }
    if (b->op->n & SG_BULK_REDUCE) {
        dst = sg_bulk_resolve(b, b->arg[TO], (uint32_t)bytes, 15, SG_MEM_SHARED,
                              SG_ACCESS_WRITE);
        if (dst)
            reduce(b, dst, src, bytes);
        return dst && sg_bulk_done(b, bytes);
    }
    return sg_bulk_deliver(b, b->arg[TO], src, (uint32_t)bytes) &&
           sg_bulk_done(b, bytes);
}

enum sg_stop
sg_op_bulk(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    SG_FOR_LANES(i, m)
    {
        struct sg_bulk b;
        sg_bulk_open(&b, cta, warp, op, i);
        if (!(op->n & SG_BULK_ZERO ? zero_lane(&b) : copy_lane(&b)))
            return SG_STOP_FAULT;
    }
    return SG_STOP_NONE;
}
