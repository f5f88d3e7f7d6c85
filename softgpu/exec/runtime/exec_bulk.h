/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lane's bulk operation, what exec_bulk.c and exec_tensor.c share.
 *
 * Registers, 64 bits each, in the list: to, from, bytes, mbarrier, mask of members or
 * of bytes; a tensor operation has the map in place of the global side, and coordinates
 * and im2col's offsets behind.  Lives for one operation.
 */
#ifndef EXEC_BULK_H
#define EXEC_BULK_H

#include "sg_cta.h"

struct sg_bulk {
    struct sg_cta *cta;
    struct sg_warp *warp;
    const struct sg_insn *op;
    unsigned lane;
    uint64_t arg[SG_BULK_ARGS];
};

void sg_bulk_open(struct sg_bulk *b, struct sg_cta *cta, struct sg_warp *warp,
                  const struct sg_insn *op, unsigned lane);
/* As sg_mem_resolve(), for this lane. */
void *sg_bulk_resolve(const struct sg_bulk *b, uint64_t addr, uint32_t size,
                      uint32_t align, enum sg_mem_space space, enum sg_access access);
/* Bytes into shared memory, in one CTA or in all of the mask. */
bool sg_bulk_deliver(const struct sg_bulk *b, uint64_t to, const void *data,
                     uint32_t n);
/* Tell the mbarrier, if there is one, or the one in each CTA of the mask. */
bool sg_bulk_done(const struct sg_bulk *b, uint64_t bytes);

#endif
