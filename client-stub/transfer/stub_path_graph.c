/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path graph: an asynchronous copy that has to read or write the program's memory at
 * its turn, and must not wait for it, is launched as a graph of one node
 * (stub_graph_hostmem.h): the bytes go over the control connection when the stream has
 * got so far.
 *
 * Three round trips, so only copies take it whose turn matters (stub_turn.h).
 */
#include "cuda_api.h"
#include "stub_box.h"
#include "stub_ctx.h"
#include "stub_graph_hostmem.h"
#include "stub_path.h"
#include "stub_tls.h"

static CUresult
graph_launch(const struct stub_copy *copy, CUgraph graph)
{
    CUgraphExec exec;
    CUresult r = cuGraphInstantiateWithFlags(&exec, graph, 0);

    if (r != CUDA_SUCCESS)
        return r;
    r = copy->per_thread ? cuGraphLaunch_ptsz(exec, copy->stream)
                         : cuGraphLaunch(exec, copy->stream);
    cuGraphExecDestroy(exec);
    return r;
}

/* If it cannot be had as a graph, nothing has happened. */
static CUresult
graph_copy(const struct stub_copy *copy, const CUDA_MEMCPY3D *box)
{
    CUgraphNode node;
    CUgraph graph;
    CUresult r;

    if (!stub_tls.ctx || cuGraphCreate(&graph, 0) != CUDA_SUCCESS)
        return WIRE_RESULT_SEND_BYTES;
    r = stub_graph_hostmem_add(&node, graph, NULL, 0, box,
                               (CUcontext)(uintptr_t)stub_tls.ctx->handle);
    r = r == CUDA_SUCCESS ? graph_launch(copy, graph) : WIRE_RESULT_SEND_BYTES;
    cuGraphDestroy(graph);
    return r;
}

CUresult
stub_path_graph(struct stub_copy *copy)
{
    CUDA_MEMCPY3D box =
        stub_graph_hostmem_linear(copy->dst, copy->direction == STUB_D2H, copy->src,
                                  copy->direction == STUB_H2D, copy->n);

    return graph_copy(copy, &box);
}

CUresult
stub_path_graph_box(struct stub_copy *copy)
{
    return graph_copy(copy, copy->box->given);
}
