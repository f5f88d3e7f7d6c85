/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph host memory: memory of the worker in place of the client's, for memcpy nodes of
 * graphs.
 *
 * For the driver such a node is a child graph of two nodes: a host function, and a copy
 * between this memory and the GPU.  The host function makes the client fill the memory
 * before the copy, or fetch from it afterwards.  A user object ties the memory to the
 * graph and to everything that is made from it; when the last of them is gone the
 * driver calls its destructor on a thread of its own, which frees the memory.  Any
 * thread.
 */
#ifndef WRK_GRAPH_HOSTMEM_H
#define WRK_GRAPH_HOSTMEM_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Bytes of all stages of a client: what it could otherwise make us hold without end. */
#define WRK_STAGES_MAX (UINT64_C(1) << 30)

/* The graph for @copy, whose sides in host memory are the client's; the caller's to
 * destroy.  @token: what the client moves bytes by; @end: what it forgets that by. */
CUresult wrk_graph_hostmem_graph(struct wrk *w, const CUDA_MEMCPY3D *copy,
                                 CUcontext ctx, uint64_t token, uint64_t end,
                                 CUgraph *ret_graph);
/* Before that is destroyed: the driver refused a node of it.  The client forgets the
 * copy by the call's result, and is sent no message about its end. */
void wrk_graph_hostmem_refused(uint64_t token);
/* Gives @node, one that stands for a copy, another copy of the same direction. */
CUresult wrk_graph_hostmem_replace(struct wrk *w, CUgraphNode node,
                                   const CUDA_MEMCPY3D *copy, uint64_t token,
                                   uint64_t end);
/* Whether @node stands for a copy; what the client calls it. */
bool wrk_graph_hostmem_of(struct wrk *w, CUgraphNode node, CUDA_MEMCPY3D *ret_copy);

/* The client's side.  False: no such stage, or not so many bytes. */
bool wrk_graph_hostmem_write(uint64_t token, uint64_t offset, const void *from,
                             uint64_t n);
/* The same, but nothing is written unless the host function of that @ticket runs. */
bool wrk_graph_hostmem_fill(struct wrk *w, uint64_t ticket, uint64_t token,
                            uint64_t offset, const void *from, uint64_t n);
bool wrk_graph_hostmem_read(uint64_t token, uint64_t offset, void *to, uint64_t n);

#endif
