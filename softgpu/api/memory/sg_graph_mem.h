/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of graph allocation nodes: addresses for the life of the nodes, bytes
 * while a launch uses them.
 *
 * The bytes come when a launch is asked for and go with the last give-back, a free
 * node or cuMemFree*; in between they may be named by any call.  Every node that
 * names the addresses holds a reference, and so do the bytes.  Lock held for all
 * functions; giving the last use back may drop it for a moment.
 */
#ifndef SG_GRAPH_MEM_H
#define SG_GRAPH_MEM_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;
struct sg_dev;
struct sg_graph_mem;
struct sg_work;

CUresult sg_graph_mem_new(struct sg_dev *dev, uint64_t size,
                          struct sg_graph_mem **ret_mem);
struct sg_graph_mem *sg_graph_mem_ref(struct sg_graph_mem *mem); /* NULL passes */
void sg_graph_mem_unref(struct sg_graph_mem *mem);               /* NULL is a no-op */

uint64_t sg_graph_mem_base(const struct sg_graph_mem *mem);
/* Whose addresses begin at @base, or NULL. */
struct sg_graph_mem *sg_graph_mem_find(uint64_t base);
/* All bytes belong to one allocation node, whether they are there now or not. */
bool sg_graph_mem_plans(uint64_t addr, uint64_t len);

/* The bytes are being freed by a call that dropped the lock for a moment: neither may
 * they be used nor can new ones be taken.  sg_wake_all() tells the end of it. */
bool sg_graph_mem_is_leaving(const struct sg_graph_mem *mem);

/* One launch begins to use it, which must not be leaving.  CUDA_ERROR_INVALID_VALUE: an
 * earlier one still does and nothing on its way will end that, unless @again allows to
 * go on with the same bytes; *ret_taken says whether a use was added. */
CUresult sg_graph_mem_take(struct sg_graph_mem *mem, bool again, bool *ret_taken);
void sg_graph_mem_give(struct sg_graph_mem *mem);
/* An operation that gives a use back.  CUDA_ERROR_INVALID_VALUE: none is left. */
CUresult sg_graph_mem_give_work(struct sg_ctx *ctx, struct sg_graph_mem *mem,
                                struct sg_work **ret_work);
#endif
