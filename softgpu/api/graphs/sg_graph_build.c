/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the caller's structures to node data.
 */
#include "sg_graph_build.h"

#include "sg_capture.h"
#include "sg_copy.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_graph.h"
#include "sg_graph_cond.h"
#include "sg_graph_mem.h"
#include "sg_handle.h"
#include "sg_hostfn.h"
#include "sg_launch.h"
#include "sg_module.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static CUresult
pick_ctx(CUcontext handle, struct sg_ctx **ret_ctx)
{
    if (!handle)
        return sg_ctx_current(ret_ctx);
    *ret_ctx = SG_OBJ(sg_ctx, SG_KIND_CTX, handle);
    return *ret_ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
sg_build_kernel(const CUDA_KERNEL_NODE_PARAMS *p, const struct sg_node_data *old,
                struct sg_node_data *data)
{
    struct sg_func *func;
    CUfunction f;
    struct sg_ctx *ctx;
    CUresult rc = p ? pick_ctx(p->ctx, &ctx) : CUDA_ERROR_INVALID_VALUE;

    if (rc != CUDA_SUCCESS)
        return rc;
    /* A launch takes a kernel for a function; a node has a place for each. */
    if (p->func && sg_handle_kind((uintptr_t)p->func) == SG_KIND_KERNEL)
        return CUDA_ERROR_INVALID_HANDLE;
    f = p->func ? p->func : (CUfunction)p->kern;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_KERNEL;
    data->ctx = ctx->handle;
    data->kernel.req = (struct sg_launch_req){
        .func = f,
        .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
        .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
        .shared = p->sharedMemBytes,
    };
    data->kernel.hints.domain_map = sg_dev_domain_map(ctx->dev);
    if (old) {
        data->kernel.hints = old->kernel.hints;
        data->kernel.req.cooperative = old->kernel.req.cooperative;
        memcpy(data->kernel.req.cluster, old->kernel.req.cluster,
               sizeof(data->kernel.req.cluster));
        data->kernel.req.priority = old->kernel.req.priority;
        data->kernel.req.has_priority = old->kernel.req.has_priority;
    }
    rc = sg_launch_check(ctx, &data->kernel.req, ctx->sms.n, &func);
    if (rc == CUDA_SUCCESS)
        rc = sg_params_copy(func->kernel, p->kernelParams, p->extra,
                            &data->kernel.params);
    return rc;
}

CUresult
sg_build_copy(const CUDA_MEMCPY3D *p, CUcontext hctx, struct sg_node_data *data)
{
    struct sg_ctx *ctx;
    struct sg_box box;
    CUresult rc = p ? pick_ctx(hctx, &ctx) : CUDA_ERROR_INVALID_VALUE;

    if (rc == CUDA_SUCCESS)
        rc = sg_copy_resolve(p, true, &box);
    if (rc != CUDA_SUCCESS)
        return rc;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_MEMCPY;
    data->ctx = ctx->handle;
    data->copy = *p;
    return CUDA_SUCCESS;
}

CUresult
sg_build_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext hctx,
              struct sg_node_data *data)
{
    struct sg_ctx *ctx;
    CUresult rc = p ? pick_ctx(hctx, &ctx) : CUDA_ERROR_INVALID_VALUE;

    if (rc == CUDA_SUCCESS)
        rc = sg_fill_check(p, true);
    if (rc != CUDA_SUCCESS)
        return rc;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_MEMSET;
    data->ctx = ctx->handle;
    data->set = *p;
    return CUDA_SUCCESS;
}

CUresult
sg_build_host(const CUDA_HOST_NODE_PARAMS *p, struct sg_node_data *data)
{
    if (!p || !p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_HOST;
    data->host.fn = p->fn;
    data->host.arg = p->userData;
    return CUDA_SUCCESS;
}

CUresult
sg_build_child(CUgraph handle, struct sg_node_data *data)
{
    struct sg_graph *graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, handle);
    CUresult rc;

    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_graph_is_clonable(graph))
        return CUDA_ERROR_NOT_SUPPORTED; /* as documented */
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_GRAPH;
    rc = sg_graph_clone(graph, &data->child);
    if (rc == CUDA_SUCCESS)
        sg_graph_renumber(data->child);
    return rc;
}

/* The graph itself becomes the child: memory and conditional nodes may come along. */
static CUresult
build_moved_child(CUgraph handle, struct sg_node_data *data)
{
    struct sg_graph *graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, handle);

    if (!graph || graph->child || sg_capture_uses(graph))
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_GRAPH;
    data->child = sg_graph_ref(graph);
    return CUDA_SUCCESS;
}

CUresult
sg_build_event(CUevent handle, CUgraphNodeType type, struct sg_node_data *data)
{
    struct sg_event *event = SG_OBJ(sg_event, SG_KIND_EVENT, handle);

    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(*data));
    data->type = type;
    data->ctx = event->ctx->handle;
    data->event = event->handle;
    return CUDA_SUCCESS;
}

CUresult
sg_build_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct sg_node_data *data)
{
    struct sg_ctx *ctx;
    CUresult rc = p ? pick_ctx(p->ctx, &ctx) : CUDA_ERROR_INVALID_VALUE;

    if (rc == CUDA_SUCCESS)
        rc = sg_memops_check(p->count, p->paramArray);
    if (rc != CUDA_SUCCESS)
        return rc;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    data->ctx = ctx->handle;
    data->memops.n = p->count;
    data->memops.flags = p->flags;
    data->memops.ops = malloc(p->count * sizeof(*p->paramArray));
    if (!data->memops.ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(data->memops.ops, p->paramArray, p->count * sizeof(*p->paramArray));
    return CUDA_SUCCESS;
}

CUresult
sg_build_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct sg_node_data *data)
{
    if (!p || !p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sg_dev_get(p->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    data->alloc.props = p->poolProps;
    data->alloc.size = p->bytesize;
    return CUDA_SUCCESS;
}

CUresult
sg_build_free(CUdeviceptr dptr, struct sg_node_data *data)
{
    if (!sg_graph_mem_find(dptr)) /* not of an allocation node */
        return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof(*data));
    data->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    data->free_ptr = dptr;
    return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS
sg_build_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *v1)
{
    CUDA_KERNEL_NODE_PARAMS p = {0};

    if (v1)
        memcpy(&p, v1, sizeof(*v1)); /* the newer one has more at the end */
    return p;
}

/* One structure for all kinds (cuGraphAddNode and its kin). */
CUresult
sg_build_any(const CUgraphNodeParams *p, const struct sg_node_data *old,
             struct sg_node_data *data)
{
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_BATCH_MEM_OP_NODE_PARAMS ops;

    switch ((int)p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        static_assert(sizeof(kernel) == sizeof(p->kernel), "v2 and v3 are the same");
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return sg_build_kernel(&kernel, old, data);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sg_build_copy(&p->memcpy.copyParams, p->memcpy.copyCtx, data);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &p->memset, sizeof(set));
        return sg_build_fill(&set, p->memset.ctx, data);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sg_build_host(&(CUDA_HOST_NODE_PARAMS){p->host.fn, p->host.userData},
                             data);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
                   ? build_moved_child(p->graph.graph, data)
                   : sg_build_child(p->graph.graph, data);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sg_build_event(p->eventRecord.event, p->type, data);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sg_build_event(p->eventWait.event, p->type, data);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        memcpy(&ops, &p->memOp, sizeof(ops));
        return sg_build_memops(&ops, data);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return sg_build_alloc((const CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc, data);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return sg_build_free(p->free.dptr, data);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return sg_cond_build(&p->conditional, data);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
