/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph host memory: copies in graphs that read or write memory of this process.
 *
 * The server cannot reach that memory when the graph runs.  So such a node consists of
 * a copy from or to stand-in memory at the worker, and a host function of the stub,
 * which sends what the copy reads, or fetches what it wrote, at every launch.  The
 * state of a node here is freed when the server reports that nothing made from it
 * exists any more.  Any thread.
 */
#ifndef STUB_GRAPH_HOSTMEM_H
#define STUB_GRAPH_HOSTMEM_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Captures begun and not ended; see stub_capture.c. */
extern _Atomic uint32_t stub_captures;

/* True if @stream is being captured and @copy reads or writes memory of this
 * process.  @r: the error of the query. */
bool stub_graph_hostmem_captures(CUstream stream, bool per_thread,
                                 const CUDA_MEMCPY3D *copy, CUresult *r);
CUresult stub_graph_hostmem_capture(CUstream stream, bool per_thread,
                                    const CUDA_MEMCPY3D *copy);

CUresult stub_graph_hostmem_add(CUgraphNode *node, CUgraph graph,
                                const CUgraphNode *deps, size_t n_deps,
                                const CUDA_MEMCPY3D *copy, CUcontext ctx);
/* @exec may be NULL: the node itself. */
CUresult stub_graph_hostmem_set(CUgraphExec exec, CUgraphNode node,
                                const CUDA_MEMCPY3D *copy, CUcontext ctx);

/* Nodes of this process that write its memory. */
extern _Atomic uint32_t stub_graph_hostmem_writers;

/* True if one of them writes to [addr, addr + n), so that a copy from there waits for
 * the work before it in its stream: the bytes are sent when the copy is asked for. */
bool stub_graph_hostmem_writes_slow(uint64_t addr, uint64_t n);

static inline bool
stub_graph_hostmem_writes(uint64_t addr, uint64_t n)
{
    return __builtin_expect(atomic_load_explicit(&stub_graph_hostmem_writers,
                                                 memory_order_relaxed) != 0,
                            false) &&
           stub_graph_hostmem_writes_slow(addr, n);
}

/* For linear copies. */
CUDA_MEMCPY3D stub_graph_hostmem_linear(CUdeviceptr dst, bool dst_host, CUdeviceptr src,
                                        bool src_host, size_t n);

#endif
