/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of graphs within the card.  Those from and to memory of the client are staged:
 * h_graph_hostmem.c.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_box.h"

CUresult
h_cuGraphAddMemcpyNode(struct wrk *w, const struct wire_args_cuGraphAddMemcpyNode *a,
                       struct wrk_reply *rep)
{
    CUDA_MEMCPY3D box = *a->copyParams;
    CUgraphNode node = NULL;
    CUresult r = wrk_box_on_card(&box);

    (void)rep;
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuGraphAddMemcpyNode, &node, a->hGraph, a->dependencies,
                     a->numDependencies, &box, a->ctx);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GRAPHNODE, a->phGraphNode_id, node);
    return r;
}

CUresult
h_cuGraphMemcpyNodeSetParams(struct wrk *w,
                             const struct wire_args_cuGraphMemcpyNodeSetParams *a,
                             struct wrk_reply *rep)
{
    CUDA_MEMCPY3D box = *a->nodeParams;
    CUresult r = wrk_box_on_card(&box);

    (void)rep;
    return r == CUDA_SUCCESS ? WRK_CALL(w, cuGraphMemcpyNodeSetParams, a->hNode, &box)
                             : r;
}

CUresult
h_cuGraphExecMemcpyNodeSetParams(
    struct wrk *w, const struct wire_args_cuGraphExecMemcpyNodeSetParams *a,
    struct wrk_reply *rep)
{
    CUDA_MEMCPY3D box = *a->copyParams;
    CUresult r = wrk_box_on_card(&box);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    return WRK_CALL(w, cuGraphExecMemcpyNodeSetParams, a->hGraphExec, a->hNode, &box,
                    a->ctx);
}
