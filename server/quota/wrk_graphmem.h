/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of executable graphs, counted against the session.
 *
 * A node that allocates has only an address until its graph is made executable.  From
 * then on the session pays for what all such nodes of the graph ask for, because a
 * launch can come at any time and a driver keeps the memory between launches.  It pays
 * until the executable graph is destroyed; for memory that a launch left allocated,
 * until that is freed, by a call or by a node of another graph.
 *
 * One record per executable graph that has such nodes.  Any thread; the reader's but
 * for wrk_graphmem_freed().  Not here: memory that a pool gives outside of a graph.
 */
#ifndef WRK_GRAPHMEM_H
#define WRK_GRAPHMEM_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_graphmem;

/* Whether a node may ask for so much at all: before it is made. */
CUresult wrk_graphmem_node(struct wrk *w, const CUmemPoolProps *props, uint64_t bytes);

/* Count what executing @graph needs, before the driver makes it executable.  NULL in
 * *ret: it needs no memory.  CUDA_ERROR_OUT_OF_MEMORY: more than the session has. */
CUresult wrk_graphmem_take(struct wrk *w, CUgraph graph, struct wrk_graphmem **ret);

/* The driver has, or (@exec NULL) has not; takes over @m, which may be NULL. */
void wrk_graphmem_commit(struct wrk *w, struct wrk_graphmem *m, CUgraphExec exec);

/* After a launch of @exec: what its nodes freed is given back, and what they allocated
 * and left counts from now on.  After the end of @exec.  Any thread. */
void wrk_graphmem_launched(struct wrk *w, CUgraphExec exec);
void wrk_graphmem_destroyed(struct wrk *w, CUgraphExec exec);

/* A call of the client freed that address. */
void wrk_graphmem_freed(CUdeviceptr ptr);

#endif
