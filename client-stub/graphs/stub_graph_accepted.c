/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_graph_accepted.h. */
#include "stub_graph_accepted.h"

#include "gp_lock.h"
#include "stub_accepted.h"
#include "stub_gen.h"
#include "stub_graph.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_tls.h"
#include "wire_format.h"

#include <string.h>

/* One accepted call per place, which the node's handle chooses.  Two nodes with the
 * same place replace each other's entry, so programs that change them in turn wait for
 * an answer each time. */
#define PLACES 512u

static struct gp_lock lock;
static struct stub_graph_accepted places[PLACES]; /* under lock; exec 0: none */

void
stub_graph_accepted_init(struct stub_graph_accepted *call, CUgraphExec exec,
                         CUgraphNode node, const void *params)
{
    memset(call, 0, sizeof(*call)); /* compared as bytes */
    call->exec = (uintptr_t)exec;
    call->node = (uintptr_t)node;
    memcpy(&call->params, params, sizeof(call->params));
    call->ctx = stub_tls.ctx_index;
    call->since = stub_accepted_since();
}

static struct stub_graph_accepted *
place_of(const struct stub_graph_accepted *call)
{
    return &places[wire_handle_index(call->node) % PLACES];
}

bool
stub_graph_accepted_known(const struct stub_graph_accepted *call)
{
    bool known;

    if (stub_links_n != 1 || !stub_handle_ok(WIRE_KIND_GRAPHEXEC, call->exec) ||
        !stub_handle_ok(WIRE_KIND_GRAPHNODE, call->node))
        return false;
    gp_lock_take(&lock);
    known = memcmp(place_of(call), call, sizeof(*call)) == 0;
    gp_lock_release(&lock);
    return known;
}

void
stub_graph_accepted_note(const struct stub_graph_accepted *call)
{
    gp_lock_take(&lock);
    *place_of(call) = *call;
    gp_lock_release(&lock);
}

/* ---- calls that change what is accepted --------------------------------------- */

static CUresult
changed(CUresult r)
{
    stub_accepted_forget();
    return r;
}

CUresult
stub_impl_cuGraphDestroy(CUgraph hGraph)
{
    return changed(stub_gen_cuGraphDestroy(hGraph));
}

CUresult
stub_impl_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    return changed(stub_gen_cuGraphExecDestroy(hGraphExec));
}

CUresult
stub_impl_cuGraphDestroyNode(CUgraphNode hNode)
{
    CUresult r = changed(stub_gen_cuGraphDestroyNode(hNode));

    if (r == CUDA_SUCCESS)
        stub_graph_forget((uintptr_t)hNode);
    return r;
}

CUresult
stub_impl_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    return changed(stub_gen_cuGraphKernelNodeCopyAttributes(dst, src));
}

CUresult
stub_impl_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                            CUgraphNode *hErrorNode_out,
                            CUgraphExecUpdateResult *updateResult_out)
{
    return changed(stub_gen_cuGraphExecUpdate(hGraphExec, hGraph, hErrorNode_out,
                                              updateResult_out));
}

CUresult
stub_impl_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                               CUgraphExecUpdateResultInfo *resultInfo)
{
    return changed(stub_gen_cuGraphExecUpdate_v2(hGraphExec, hGraph, resultInfo));
}
