/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_drv_shims.h"

#include "drv.h"
#include "gp_base.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_governor.h"
#include "wrk_graph_nodes.h"
#include "wrk_hostfn_due.h"
#include "wrk_kernels.h"
#include "wrk_opaque.h"
#include "wrk_seal.h"
#include "wrk_wait.h"

#include <string.h>

/* The driver as it was found, and whose it is; set once. */
WRK_SEALED static struct wrk_sealed_drv found;
static struct wrk *me; /* drivers' functions have no argument for it */

/* ---- charged ---- */

static CUresult
copy_dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, n);
    r = found.drv.cuMemcpyDtoDAsync_v2(dst, src, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
copy_peer_async(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, n);
    r = found.drv.cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d8_async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, n);
    r = found.drv.cuMemsetD8Async(dst, value, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d16_async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, n * 2);
    r = found.drv.cuMemsetD16Async(dst, value, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d32_async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, n * 4);
    r = found.drv.cuMemsetD32Async(dst, value, n, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_2d8_async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
              size_t height, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, width * height);
    r = found.drv.cuMemsetD2D8Async(dst, pitch, value, width, height, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_2d16_async(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
               size_t height, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, width * height * 2);
    r = found.drv.cuMemsetD2D16Async(dst, pitch, value, width, height, stream);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_2d32_async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
               size_t height, CUstream stream)
{
    struct wrk_charge c;
    CUresult r;

    wrk_governor_acquire_copy(me, &c, stream, width * height * 4);
    r = found.drv.cuMemsetD2D32Async(dst, pitch, value, width, height, stream);
    wrk_governor_launched(me, &c);
    return r;
}

/* ---- in stream ---- */

/* While a capture may forbid them, it is the driver that refuses the forms without a
 * stream. */
static CUresult
copy_dtod(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return unlikely(!wrk_capture_allows(me)) ? found.drv.cuMemcpyDtoD_v2(dst, src, n)
                                             : copy_dtod_async(dst, src, n, NULL);
}

/* Its order with the work of both contexts is the driver's own; it does not wait for
 * the copy, either.  Where it would stand behind a host function, it goes in the order
 * of the default stream only: in front of the function, the client moves managed memory
 * in streams of these contexts, and those moves would wait for the copy. */
static CUresult
copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
          size_t n)
{
    struct wrk_charge c;
    CUresult r;

    if (unlikely(!wrk_capture_allows(me)))
        return found.drv.cuMemcpyPeer(dst, dst_ctx, src, src_ctx, n);
    if (wrk_hostfn_due(me))
        return copy_peer_async(dst, dst_ctx, src, src_ctx, n, NULL);
    wrk_governor_acquire_copy(me, &c, NULL, n);
    r = found.drv.cuMemcpyPeer(dst, dst_ctx, src, src_ctx, n);
    wrk_governor_launched(me, &c);
    return r;
}

static CUresult
set_d8(CUdeviceptr dst, unsigned char value, size_t n)
{
    return set_d8_async(dst, value, n, NULL);
}

static CUresult
set_d16(CUdeviceptr dst, unsigned short value, size_t n)
{
    return set_d16_async(dst, value, n, NULL);
}

static CUresult
set_d32(CUdeviceptr dst, unsigned int value, size_t n)
{
    return set_d32_async(dst, value, n, NULL);
}

static CUresult
set_2d8(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return set_2d8_async(dst, pitch, value, width, height, NULL);
}

static CUresult
set_2d16(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
         size_t height)
{
    return set_2d16_async(dst, pitch, value, width, height, NULL);
}

static CUresult
set_2d32(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height)
{
    return set_2d32_async(dst, pitch, value, width, height, NULL);
}

/* ---- capture ---- */

static CUresult
begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    struct wrk_capture c;

    wrk_wait_captures(me);
    wrk_governor_idle(me); /* launches of before are marked before */
    wrk_capture_begin(me, stream, &c);
    return wrk_capture_begun(me, &c, found.drv.cuStreamBeginCapture_v2(stream, mode));
}

static CUresult
begin_capture_to(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                 const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode)
{
    struct wrk_graph_nodes nodes;
    struct wrk_capture c;
    CUresult r = wrk_graph_nodes_take(me, &nodes, dependencies, NULL, edges, n);

    if (r == CUDA_SUCCESS) {
        wrk_wait_captures(me);
        wrk_governor_idle(me); /* launches of before are marked before */
        wrk_capture_begin(me, stream, &c);
        r = wrk_capture_begun(
            me, &c,
            found.drv.cuStreamBeginCaptureToGraph(stream, graph, nodes.from, nodes.data,
                                                  nodes.n, mode));
    }
    wrk_graph_nodes_fini(&nodes);
    return r;
}

/* A capture that ends with an error is over as well, unless the call was wrong. */
static CUresult
end_capture(CUstream stream, CUgraph *graph)
{
    bool was = wrk_capturing(me, stream) != CUDA_SUCCESS;
    CUresult r = found.drv.cuStreamEndCapture(stream, graph);

    if (was && wrk_capturing(me, stream) == CUDA_SUCCESS)
        wrk_capture_ended(me, stream);
    if (r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        wrk_capture_told_invalid(me);
    return r;
}

/* ---- nodes ahead ---- */

/* A call of @params, made with the nodes @n that it names or that came ahead of it. */
#define WITH_NODES(shim, params, to, data, ...)                                        \
    static CUresult shim params                                                        \
    {                                                                                  \
        struct wrk_graph_nodes n;                                                      \
        CUresult r = wrk_graph_nodes_take(me, &n, deps, to, data, n_deps);             \
                                                                                       \
        if (r == CUDA_SUCCESS)                                                         \
            r = found.drv.__VA_ARGS__;                                                 \
        wrk_graph_nodes_fini(&n);                                                      \
        return r;                                                                      \
    }

#define NEW_NODE                                                                       \
    CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps

WITH_NODES(add_batch_node, (NEW_NODE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p), NULL,
           NULL, cuGraphAddBatchMemOpNode(node, graph, n.from, n.n, p))
WITH_NODES(add_child_node, (NEW_NODE, CUgraph child), NULL, NULL,
           cuGraphAddChildGraphNode(node, graph, n.from, n.n, child))
WITH_NODES(add_empty_node, (NEW_NODE), NULL, NULL,
           cuGraphAddEmptyNode(node, graph, n.from, n.n))
WITH_NODES(add_record_node, (NEW_NODE, CUevent event), NULL, NULL,
           cuGraphAddEventRecordNode(node, graph, n.from, n.n, event))
WITH_NODES(add_wait_node, (NEW_NODE, CUevent event), NULL, NULL,
           cuGraphAddEventWaitNode(node, graph, n.from, n.n, event))
WITH_NODES(add_host_node, (NEW_NODE, const CUDA_HOST_NODE_PARAMS *p), NULL, NULL,
           cuGraphAddHostNode(node, graph, n.from, n.n, p))
WITH_NODES(add_kernel_node, (NEW_NODE, const CUDA_KERNEL_NODE_PARAMS *p), NULL, NULL,
           cuGraphAddKernelNode_v2(node, graph, n.from, n.n, p))
WITH_NODES(add_alloc_node, (NEW_NODE, CUDA_MEM_ALLOC_NODE_PARAMS *p), NULL, NULL,
           cuGraphAddMemAllocNode(node, graph, n.from, n.n, p))
WITH_NODES(add_free_node, (NEW_NODE, CUdeviceptr dptr), NULL, NULL,
           cuGraphAddMemFreeNode(node, graph, n.from, n.n, dptr))
WITH_NODES(add_copy_node, (NEW_NODE, const CUDA_MEMCPY3D *p, CUcontext ctx), NULL, NULL,
           cuGraphAddMemcpyNode(node, graph, n.from, n.n, p, ctx))
WITH_NODES(add_fill_node, (NEW_NODE, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx),
           NULL, NULL, cuGraphAddMemsetNode(node, graph, n.from, n.n, p, ctx))
WITH_NODES(add_node,
           (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps,
            const CUgraphEdgeData *data, size_t n_deps, CUgraphNodeParams *p),
           NULL, data, cuGraphAddNode_v2(node, graph, n.from, n.data, n.n, p))

WITH_NODES(add_edges,
           (CUgraph graph, const CUgraphNode *deps, const CUgraphNode *to,
            size_t n_deps),
           to, NULL, cuGraphAddDependencies(graph, n.from, n.to, n.n))
WITH_NODES(add_edges_v2,
           (CUgraph graph, const CUgraphNode *deps, const CUgraphNode *to,
            const CUgraphEdgeData *data, size_t n_deps),
           to, data, cuGraphAddDependencies_v2(graph, n.from, n.to, n.data, n.n))
WITH_NODES(remove_edges,
           (CUgraph graph, const CUgraphNode *deps, const CUgraphNode *to,
            size_t n_deps),
           to, NULL, cuGraphRemoveDependencies(graph, n.from, n.to, n.n))
WITH_NODES(remove_edges_v2,
           (CUgraph graph, const CUgraphNode *deps, const CUgraphNode *to,
            const CUgraphEdgeData *data, size_t n_deps),
           to, data, cuGraphRemoveDependencies_v2(graph, n.from, n.to, n.data, n.n))
WITH_NODES(set_capture,
           (CUstream stream, CUgraphNode *deps, size_t n_deps, unsigned flags), NULL,
           NULL,
           cuStreamUpdateCaptureDependencies(stream, (CUgraphNode *)(uintptr_t)n.from,
                                             n.n, flags))
WITH_NODES(set_capture_v2,
           (CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *data,
            size_t n_deps, unsigned flags),
           NULL, data,
           cuStreamUpdateCaptureDependencies_v2(stream,
                                                (CUgraphNode *)(uintptr_t)n.from,
                                                n.data, n.n, flags))

/* ---- opaque ---- */

static CUresult
device_resource(CUdevice device, CUdevResource *res, CUdevResourceType type)
{
    CUresult r = found.drv.cuDeviceGetDevResource(device, res, type);

    return r == CUDA_SUCCESS ? wrk_opaque_hide(res, 1) : r;
}

static CUresult
context_resource(CUcontext ctx, CUdevResource *res, CUdevResourceType type)
{
    CUresult r = found.drv.cuCtxGetDevResource(ctx, res, type);

    return r == CUDA_SUCCESS ? wrk_opaque_hide(res, 1) : r;
}

static CUresult
green_resource(CUgreenCtx green, CUdevResource *res, CUdevResourceType type)
{
    CUresult r = found.drv.cuGreenCtxGetDevResource(green, res, type);

    return r == CUDA_SUCCESS ? wrk_opaque_hide(res, 1) : r;
}

/* Flags that nobody knows are wrong whatever the resource is. */
#define SPLIT_FLAGS                                                                    \
    ((unsigned)(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |                      \
                CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE))

static CUresult
split_resource(CUdevResource *results, unsigned *n, const CUdevResource *of_client,
               CUdevResource *rest, unsigned flags, unsigned min_count)
{
    unsigned room = *n;
    CUdevResource input;
    CUresult r;

    if (flags & ~SPLIT_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    r = wrk_opaque_show(of_client, 1, &input);
    if (r == CUDA_SUCCESS)
        r = found.drv.cuDevSmResourceSplitByCount(results, n, &input, rest, flags,
                                                  min_count);
    if (r == CUDA_SUCCESS && results)
        r = wrk_opaque_hide(results, gp_min(*n, room));
    if (r == CUDA_SUCCESS && rest)
        r = wrk_opaque_hide(rest, 1);
    return r;
}

/* As many as a frame may hold, and a card be cut into. */
#define RESOURCES_MAX 64

static CUresult
describe_resources(CUdevResourceDesc *desc, CUdevResource *of_client, unsigned n)
{
    CUdevResource own[RESOURCES_MAX];
    CUresult r = n <= ARRAY_SIZE(own) ? wrk_opaque_show(of_client, n, own)
                                      : CUDA_ERROR_INVALID_VALUE;

    return r == CUDA_SUCCESS ? found.drv.cuDevResourceGenerateDesc(desc, own, n) : r;
}

static CUresult
create_texture(CUtexObject *ret, const CUDA_RESOURCE_DESC *resource,
               const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
    CUresult r = found.drv.cuTexObjectCreate(ret, resource, texture, view);

    if (r != CUDA_SUCCESS)
        return r;
    r = wrk_opaque_enter(WRK_OPAQUE_TEXTURE, *ret, me->ctx_index);
    if (r != CUDA_SUCCESS)
        found.drv.cuTexObjectDestroy(*ret);
    return r;
}

static CUresult
create_surface(CUsurfObject *ret, const CUDA_RESOURCE_DESC *resource)
{
    CUresult r = found.drv.cuSurfObjectCreate(ret, resource);

    if (r != CUDA_SUCCESS)
        return r;
    r = wrk_opaque_enter(WRK_OPAQUE_SURFACE, *ret, me->ctx_index);
    if (r != CUDA_SUCCESS)
        found.drv.cuSurfObjectDestroy(*ret);
    return r;
}

static CUresult
texture_resource(CUDA_RESOURCE_DESC *ret, CUtexObject texture)
{
    CUresult r = wrk_opaque_find(WRK_OPAQUE_TEXTURE, texture);

    return r == CUDA_SUCCESS ? found.drv.cuTexObjectGetResourceDesc(ret, texture) : r;
}

static CUresult
texture_desc(CUDA_TEXTURE_DESC *ret, CUtexObject texture)
{
    CUresult r = wrk_opaque_find(WRK_OPAQUE_TEXTURE, texture);

    return r == CUDA_SUCCESS ? found.drv.cuTexObjectGetTextureDesc(ret, texture) : r;
}

static CUresult
texture_view(CUDA_RESOURCE_VIEW_DESC *ret, CUtexObject texture)
{
    CUresult r = wrk_opaque_find(WRK_OPAQUE_TEXTURE, texture);

    return r == CUDA_SUCCESS ? found.drv.cuTexObjectGetResourceViewDesc(ret, texture)
                             : r;
}

static CUresult
surface_resource(CUDA_RESOURCE_DESC *ret, CUsurfObject surface)
{
    CUresult r = wrk_opaque_find(WRK_OPAQUE_SURFACE, surface);

    return r == CUDA_SUCCESS ? found.drv.cuSurfObjectGetResourceDesc(ret, surface) : r;
}

/* ---- missing ---- */

static CUresult
count_functions(unsigned *count, CUmodule module)
{
    return wrk_kernels_functions(me, module, NULL, 0, count);
}

static CUresult
enumerate_functions(CUfunction *functions, unsigned n, CUmodule module)
{
    unsigned have;

    memset(functions, 0, n * sizeof(CUfunction));
    return wrk_kernels_functions(me, module, functions, n, &have);
}

/* ---- the list ---- */

/* Entry of the table; the driver function that must exist (or with "missing" must not);
 * the shim.  The forms without a stream call the charged ones above, so they are
 * charged too. */
/* clang-format off */
#define SHIMS(present, missing) \
    /* charged */ \
    present(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2, copy_dtod_async) \
    present(cuMemcpyPeerAsync, cuMemcpyPeerAsync, copy_peer_async) \
    present(cuMemsetD8Async, cuMemsetD8Async, set_d8_async) \
    present(cuMemsetD16Async, cuMemsetD16Async, set_d16_async) \
    present(cuMemsetD32Async, cuMemsetD32Async, set_d32_async) \
    present(cuMemsetD2D8Async, cuMemsetD2D8Async, set_2d8_async) \
    present(cuMemsetD2D16Async, cuMemsetD2D16Async, set_2d16_async) \
    present(cuMemsetD2D32Async, cuMemsetD2D32Async, set_2d32_async) \
    /* in stream */ \
    present(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, copy_dtod) \
    present(cuMemcpyPeer, cuMemcpyPeerAsync, copy_peer) \
    present(cuMemsetD8_v2, cuMemsetD8Async, set_d8) \
    present(cuMemsetD16_v2, cuMemsetD16Async, set_d16) \
    present(cuMemsetD32_v2, cuMemsetD32Async, set_d32) \
    present(cuMemsetD2D8_v2, cuMemsetD2D8Async, set_2d8) \
    present(cuMemsetD2D16_v2, cuMemsetD2D16Async, set_2d16) \
    present(cuMemsetD2D32_v2, cuMemsetD2D32Async, set_2d32) \
    /* capture */ \
    present(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2, begin_capture) \
    present(cuStreamEndCapture, cuStreamEndCapture, end_capture) \
    present(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, \
            begin_capture_to) \
    /* nodes ahead */ \
    present(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, add_batch_node) \
    present(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, add_child_node) \
    present(cuGraphAddEmptyNode, cuGraphAddEmptyNode, add_empty_node) \
    present(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, add_record_node) \
    present(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, add_wait_node) \
    present(cuGraphAddHostNode, cuGraphAddHostNode, add_host_node) \
    present(cuGraphAddKernelNode_v2, cuGraphAddKernelNode_v2, add_kernel_node) \
    present(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, add_alloc_node) \
    present(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, add_free_node) \
    present(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, add_copy_node) \
    present(cuGraphAddMemsetNode, cuGraphAddMemsetNode, add_fill_node) \
    present(cuGraphAddNode_v2, cuGraphAddNode_v2, add_node) \
    present(cuGraphAddDependencies, cuGraphAddDependencies, add_edges) \
    present(cuGraphAddDependencies_v2, cuGraphAddDependencies_v2, add_edges_v2) \
    present(cuGraphRemoveDependencies, cuGraphRemoveDependencies, remove_edges) \
    present(cuGraphRemoveDependencies_v2, cuGraphRemoveDependencies_v2, \
            remove_edges_v2) \
    present(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, \
            set_capture) \
    present(cuStreamUpdateCaptureDependencies_v2, \
            cuStreamUpdateCaptureDependencies_v2, set_capture_v2) \
    /* opaque */ \
    present(cuDeviceGetDevResource, cuDeviceGetDevResource, device_resource) \
    present(cuCtxGetDevResource, cuCtxGetDevResource, context_resource) \
    present(cuGreenCtxGetDevResource, cuGreenCtxGetDevResource, green_resource) \
    present(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount, split_resource) \
    present(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc, describe_resources) \
    present(cuTexObjectCreate, cuTexObjectCreate, create_texture) \
    present(cuSurfObjectCreate, cuSurfObjectCreate, create_surface) \
    present(cuTexObjectGetResourceDesc, cuTexObjectGetResourceDesc, texture_resource) \
    present(cuTexObjectGetTextureDesc, cuTexObjectGetTextureDesc, texture_desc) \
    present(cuTexObjectGetResourceViewDesc, cuTexObjectGetResourceViewDesc, \
            texture_view) \
    present(cuSurfObjectGetResourceDesc, cuSurfObjectGetResourceDesc, \
            surface_resource) \
    /* missing */ \
    missing(cuModuleGetFunctionCount, cuFuncGetParamInfo, count_functions) \
    missing(cuModuleEnumerateFunctions, cuFuncGetParamInfo, enumerate_functions)
/* clang-format on */

#define ENTER_IF_PRESENT(entry, own, fn)                                               \
    if (found.drv.own)                                                                 \
        drv->entry = (fn);
#define ENTER_IF_MISSING(entry, own, fn)                                               \
    if (!found.drv.own)                                                                \
        drv->entry = (fn);

void
wrk_drv_shims_enter(struct wrk *w, struct drv *drv)
{
    found.drv = *drv;
    me = w;
    SHIMS(ENTER_IF_PRESENT, ENTER_IF_MISSING)
}
