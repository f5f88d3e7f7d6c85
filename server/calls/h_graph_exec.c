/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: made, launched, destroyed.  The memory that their nodes will
 * allocate is the session's from the first to the last (wrk_graphmem.h).
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_governor.h"
#include "wrk_graphmem.h"
#include "wrk_hostfn_due.h"
#include "wrk_hostfn_graph.h"
#include "wrk_struct.h"

#include <string.h>

/* The cap of the description. */
#define LOG_MAX 16384u

/* What an executable graph holds besides the driver's own. */
struct making {
    CUgraph graph;
    struct wrk_graphmem *mem;
    struct wrk_hostfn_exec *hosts;
};

/* CUDA_ERROR_OUT_OF_MEMORY: more than the session has. */
static CUresult
exec_begin(struct wrk *w, struct making *m, CUgraph graph)
{
    CUresult r = wrk_graphmem_take(w, graph, &m->mem);

    m->graph = graph;
    m->hosts = r == CUDA_SUCCESS ? wrk_hostfn_exec_begin(w, graph) : NULL;
    return r;
}

/* The driver has answered: the graph is executable, or its memory is given back. */
static CUresult
exec_commit(struct wrk *w, const struct making *m, CUresult r, uint64_t id,
            CUgraphExec exec)
{
    wrk_graphmem_commit(w, m->mem, r == CUDA_SUCCESS ? exec : NULL);
    wrk_hostfn_exec_end(w, m->hosts, m->graph, r == CUDA_SUCCESS ? exec : NULL);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_GRAPHEXEC, id, exec);
    return r;
}

CUresult
h_cuGraphInstantiateWithFlags(struct wrk *w,
                              const struct wire_args_cuGraphInstantiateWithFlags *a,
                              struct wrk_reply *rep)
{
    struct making making;
    CUgraphExec exec = NULL;
    CUresult r = exec_begin(w, &making, a->hGraph);

    (void)rep;
    if (r != CUDA_SUCCESS)
        return r;
    r = WRK_CALL(w, cuGraphInstantiateWithFlags, &exec, a->hGraph, a->flags);
    return exec_commit(w, &making, r, a->phGraphExec_id, exec);
}

CUresult
h_cuGraphInstantiateWithParams(struct wrk *w,
                               const struct wire_args_cuGraphInstantiateWithParams *a,
                               struct wrk_reply *rep)
{
    struct wire_cuGraphInstantiateWithParams_rep *body = rep->body;
    CUDA_GRAPH_INSTANTIATE_PARAMS *params = a->instantiateParams;
    struct making making;
    CUgraphExec exec = NULL;
    CUresult r = exec_begin(w, &making, a->hGraph);

    if (r == CUDA_SUCCESS) {
        r = WRK_CALL(w, cuGraphInstantiateWithParams, &exec, a->hGraph, params);
        r = exec_commit(w, &making, r, a->phGraphExec_id, exec);
    }
    wrk_fix_out_CUDA_GRAPH_INSTANTIATE_PARAMS(w, params);
    memcpy(body->instantiateParams, params, sizeof(*params));
    rep->on_error = true;
    return r;
}

CUresult
h_cuGraphInstantiate_v2(struct wrk *w, const struct wire_args_cuGraphInstantiate_v2 *a,
                        struct wrk_reply *rep)
{
    struct wire_cuGraphInstantiate_v2_rep fixed = {0};
    struct wire_cuGraphInstantiate_v2_rep_room room;
    uint32_t log_size = (uint32_t)gp_min((uint64_t)a->bufferSize, (uint64_t)LOG_MAX);
    CLEANUP_FREE char *log = calloc(1, log_size + 1);
    struct making making;
    CUgraphNode culprit = NULL;
    CUgraphExec exec = NULL;
    CUresult r = log ? exec_begin(w, &making, a->hGraph) : CUDA_ERROR_OUT_OF_MEMORY;
    void *body;

    if (r == CUDA_SUCCESS) {
        r = WRK_CALL(w, cuGraphInstantiate_v2, &exec, a->hGraph, &culprit,
                     log_size ? log : NULL, log_size);
        r = exec_commit(w, &making, r, a->phGraphExec_id, exec);
    }
    fixed.phErrorNode = wrk_handle_name(w, WIRE_KIND_GRAPHNODE, culprit);
    fixed.logBuffer_n = log ? log_size : 0;
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_cuGraphInstantiate_v2_rep_size(&fixed));
    if (!body)
        return r;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuGraphInstantiate_v2_rep_place(&room, body);
    if (room.logBuffer)
        memcpy(room.logBuffer, log, log_size);
    wrk_reply_send(w, rep->req, r);
    return r;
}

CUresult
h_cuGraphExecDestroy(struct wrk *w, const struct wire_args_cuGraphExecDestroy *a,
                     struct wrk_reply *rep)
{
    struct wrk_hostfn_exec *hosts = wrk_hostfn_exec_leave(w, a->hGraphExec);
    CUresult r = WRK_CALL(w, cuGraphExecDestroy, a->hGraphExec);

    (void)rep;
    wrk_hostfn_exec_left(w, hosts, r);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_handle_del(w, WIRE_KIND_GRAPHEXEC, a->hGraphExec_id);
    wrk_graphmem_destroyed(w, a->hGraphExec);
    return r;
}

CUresult
h_cuGraphLaunch(struct wrk *w, const struct wire_args_cuGraphLaunch *a,
                struct wrk_reply *rep)
{
    struct wrk_charge charge;
    CUresult r;

    (void)rep;
    wrk_hostfn_exec_launch(w, a->hGraph, a->hStream);
    wrk_governor_acquire(w, a->hStream, wrk_governor_key(a->hGraph, NULL, NULL),
                         &charge);
    r = WRK_CALL(w, cuGraphLaunch, a->hGraph, a->hStream);
    wrk_governor_launched(w, &charge);
    if (r == CUDA_SUCCESS) {
        wrk_graphmem_launched(w, a->hGraph);
        wrk_hostfn_due_launched(w, a->hStream);
    }
    return r;
}

/* --- updates ---------------------------------------------------------------------- */

/* The functions of @exec, before and after. */
struct updating {
    CUgraphExec exec;
    CUgraph graph;
    struct wrk_hostfn_exec *before, *after;
};

static void
update_begin(struct wrk *w, struct updating *u, CUgraphExec exec, CUgraph graph)
{
    *u = (struct updating){.exec = exec, .graph = graph};
    u->before = wrk_hostfn_exec_leave(w, exec);
    u->after = wrk_hostfn_exec_begin(w, graph);
}

static void
update_end(struct wrk *w, const struct updating *u, CUresult r)
{
    wrk_hostfn_exec_left(w, u->before, r);
    wrk_hostfn_exec_end(w, u->after, u->graph, r == CUDA_SUCCESS ? u->exec : NULL);
}

CUresult
h_cuGraphExecUpdate(struct wrk *w, const struct wire_args_cuGraphExecUpdate *a,
                    struct wrk_reply *rep)
{
    struct wire_cuGraphExecUpdate_rep *body = rep->body;
    CUgraphExecUpdateResult result = 0;
    CUgraphNode culprit = NULL;
    struct updating u;
    CUresult r;

    update_begin(w, &u, a->hGraphExec, a->hGraph);
    r = WRK_CALL(w, cuGraphExecUpdate, a->hGraphExec, a->hGraph, &culprit, &result);
    update_end(w, &u, r);
    body->hErrorNode_out = wrk_handle_name(w, WIRE_KIND_GRAPHNODE, culprit);
    body->updateResult_out = (uint32_t)result;
    rep->on_error = true;
    return r;
}

CUresult
h_cuGraphExecUpdate_v2(struct wrk *w, const struct wire_args_cuGraphExecUpdate_v2 *a,
                       struct wrk_reply *rep)
{
    struct wire_cuGraphExecUpdate_v2_rep *body = rep->body;
    CUgraphExecUpdateResultInfo info = {0};
    struct updating u;
    CUresult r;

    update_begin(w, &u, a->hGraphExec, a->hGraph);
    r = WRK_CALL(w, cuGraphExecUpdate_v2, a->hGraphExec, a->hGraph, &info);
    update_end(w, &u, r);
    wrk_fix_out_CUgraphExecUpdateResultInfo_v1(w, &info);
    memcpy(body->resultInfo, &info, sizeof(info));
    rep->on_error = true;
    return r;
}
