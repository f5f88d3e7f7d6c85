/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What generated stubs and the generated dispatch do together: each kind of parameter
 * goes to the driver and comes back as the description says.
 */
#include "ut.h"

#include "cuda_api.h"
#include "gen_loop.h"
#include "stub_call.h"
#include "stub_trace.h"
#include "wire_api.h"
#include "wrk_args.h"
#include "wrk_struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJ(n) ((void *)(uintptr_t)(0x1000 + (n)*16))

static int
fresh(void **state)
{
    gen_loop_reset();
    return 0;
}

/* ---- handles ------------------------------------------------------------------------
 */

static struct {
    unsigned int flags;
    CUstream stream;
    CUmemoryPool pool;
    unsigned calls;
} seen;

static CUresult
drv_stream_create(CUstream *phStream, unsigned int Flags)
{
    seen.flags = Flags;
    *phStream = OBJ(1);
    return CUDA_SUCCESS;
}

static CUresult
drv_stream_one(CUstream hStream)
{
    seen.stream = hStream;
    seen.calls++;
    return CUDA_SUCCESS;
}

static CUresult
drv_stream_create_fails(CUstream *phStream, unsigned int Flags)
{
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void
created_handle_reaches_the_drivers_object(void **state)
{
    CUstream s = NULL;

    loop.drv.cuStreamCreate = drv_stream_create;
    loop.drv.cuStreamQuery = drv_stream_one;
    assert_int_equal(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(loop.flags & WIRE_F_REPLY, 0);
    assert_int_equal(seen.flags, CU_STREAM_NON_BLOCKING);
    assert_true(wire_handle_is((uintptr_t)s, WIRE_KIND_STREAM));
    assert_int_equal(cuStreamQuery(s), CUDA_SUCCESS);
    assert_ptr_equal(seen.stream, OBJ(1));
}

static CUresult
drv_pool_one(CUmemoryPool pool)
{
    seen.pool = pool;
    seen.calls++;
    return CUDA_SUCCESS;
}

static void
destroyed_handle_is_the_drivers_object_once(void **state)
{
    CUmemoryPool pool =
        (CUmemoryPool)(uintptr_t)gen_loop_handle(WIRE_KIND_MEMPOOL, OBJ(4));

    loop.drv.cuMemPoolDestroy = drv_pool_one;
    seen.calls = 0;
    assert_int_equal(cuMemPoolDestroy(pool), CUDA_SUCCESS);
    assert_ptr_equal(seen.pool, OBJ(4));
    assert_int_equal(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(seen.calls, 1);
}

static void
destroyed_handle_is_refused_without_a_frame(void **state)
{
    CUstream s = NULL;
    uint64_t frames;

    loop.drv.cuStreamCreate = drv_stream_create;
    loop.drv.cuStreamDestroy_v2 = drv_stream_one;
    assert_int_equal(cuStreamCreate(&s, 0), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy_v2(s), CUDA_SUCCESS);
    frames = loop.frames;
    assert_int_equal(cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord((CUevent)s, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(loop.frames, frames);
}

static void
unknown_flags_of_a_call_without_answer_are_refused_at_once(void **state)
{
    CUstream s = NULL;

    loop.drv.cuStreamCreate = drv_stream_create;
    assert_int_equal(cuStreamCreate(&s, 0x40), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(loop.frames, 0);
}

static void
failed_creation_leaves_an_unknown_handle_at_the_worker(void **state)
{
    CUstream s = NULL;
    int priority = 7;

    loop.drv.cuStreamCreate = drv_stream_create_fails;
    assert_int_equal(cuStreamCreate(&s, 0), CUDA_SUCCESS);
    assert_int_equal(loop.deferred, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuStreamGetPriority(s, &priority), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(priority, 7);
}

static void
missing_driver_function_is_not_supported(void **state)
{
    CUstream s = (CUstream)(uintptr_t)gen_loop_handle(WIRE_KIND_STREAM, OBJ(3));
    int priority = 0;

    assert_int_equal(cuStreamGetPriority(s, &priority), CUDA_ERROR_NOT_SUPPORTED);
}

static void
per_thread_name_uses_the_threads_stream(void **state)
{
    loop.drv.cuStreamQuery = drv_stream_one;
    assert_int_equal(cuStreamQuery(NULL), CUDA_SUCCESS);
    assert_ptr_equal(seen.stream, NULL);
    assert_int_equal(cuStreamQuery_ptsz(NULL), CUDA_SUCCESS);
    assert_true(loop.per_thread);
    assert_ptr_equal(seen.stream, (void *)0x7777);
}

static CUresult
drv_memset_async(CUdeviceptr dst, unsigned char uc, size_t n, CUstream hStream)
{
    seen.flags = uc;
    seen.stream = hStream;
    return dst == 0x10000 && n == 24 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void
per_thread_fill_becomes_a_fill_in_stream_order(void **state)
{
    loop.drv.cuMemsetD8Async = drv_memset_async;
    assert_int_equal(cuMemsetD8_v2_ptds(0x10000, 9, 24), CUDA_SUCCESS);
    assert_int_equal(loop.deferred, CUDA_SUCCESS);
    assert_int_equal(seen.flags, 9);
    assert_ptr_equal(seen.stream, (void *)0x7777);
}

/* ---- graphs: arrays of handles that the driver made
 * ------------------------------------- */

static CUresult
drv_get_nodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    if (!nodes) {
        *numNodes = 3;
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *numNodes; i++)
        nodes[i] = i < 3 ? OBJ(20 + i) : NULL;
    *numNodes = *numNodes < 3 ? *numNodes : 3;
    return CUDA_SUCCESS;
}

static CUgraphNode enabled;

static CUresult
drv_set_enabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    assert_ptr_equal(hGraphExec, OBJ(8));
    assert_int_equal(isEnabled, 1);
    enabled = hNode;
    return CUDA_SUCCESS;
}

static void
nodes_that_the_driver_made_get_names_that_work(void **state)
{
    CUgraph g = (CUgraph)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPH, OBJ(2));
    CUgraphExec exec =
        (CUgraphExec)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPHEXEC, OBJ(8));
    CUgraphNode nodes[5] = {0};
    size_t n = 0;

    loop.drv.cuGraphGetNodes = drv_get_nodes;
    loop.drv.cuGraphNodeSetEnabled = drv_set_enabled;
    assert_int_equal(cuGraphGetNodes(g, NULL, &n), CUDA_SUCCESS);
    assert_int_equal(n, 3);
    n = 5;
    assert_int_equal(cuGraphGetNodes(g, nodes, &n), CUDA_SUCCESS);
    assert_int_equal(n, 3);
    assert_ptr_equal(nodes[3], NULL);
    assert_int_equal(cuGraphNodeSetEnabled(exec, nodes[1], 1), CUDA_SUCCESS);
    assert_ptr_equal(enabled, OBJ(21));
}

static struct {
    CUgraphNode from[4], to[4];
    unsigned char port;
    size_t n;
    bool edges;
} deps;

static CUresult
drv_add_deps(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
             const CUgraphEdgeData *edgeData, size_t n)
{
    deps.n = n;
    deps.edges = edgeData != NULL;
    if (n) {
        memcpy(deps.from, from, n * sizeof(*from));
        memcpy(deps.to, to, n * sizeof(*to));
    }
    deps.port = edgeData ? edgeData[n - 1].to_port : 0;
    return CUDA_SUCCESS;
}

static void
arrays_of_handles_are_translated_and_may_be_absent(void **state)
{
    CUgraph g = (CUgraph)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPH, OBJ(2));
    CUgraphEdgeData edges[2] = {{.to_port = 1}, {.to_port = 5}};
    CUgraphNode from[2], to[2];

    for (int i = 0; i < 2; i++) {
        from[i] =
            (CUgraphNode)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPHNODE, OBJ(30 + i));
        to[i] =
            (CUgraphNode)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPHNODE, OBJ(40 + i));
    }
    loop.drv.cuGraphAddDependencies_v2 = drv_add_deps;
    assert_int_equal(cuGraphAddDependencies_v2(g, from, to, edges, 2), CUDA_SUCCESS);
    assert_int_equal(deps.n, 2);
    assert_ptr_equal(deps.from[1], OBJ(31));
    assert_ptr_equal(deps.to[0], OBJ(40));
    assert_int_equal(deps.port, 5);
    assert_int_equal(cuGraphAddDependencies_v2(g, from, to, NULL, 2), CUDA_SUCCESS);
    assert_false(deps.edges);
    assert_int_equal(cuGraphAddDependencies_v2(g, NULL, NULL, NULL, 0), CUDA_SUCCESS);
    assert_int_equal(deps.n, 0);
}

static void
array_without_a_pointer_or_past_its_cap_makes_no_frame(void **state)
{
    CUgraph g = (CUgraph)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPH, OBJ(2));
    CUgraphNode *many = calloc(5000, sizeof(*many));

    assert_non_null(many);
    assert_int_equal(cuGraphAddDependencies_v2(g, NULL, many, NULL, 2),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddDependencies_v2(g, many, many, NULL, 5000),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(loop.unsupported, 1);
    assert_int_equal(loop.frames, 0);
    free(many);
}

static void
stale_handle_inside_an_array_is_the_callers_error(void **state)
{
    CUgraph g = (CUgraph)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPH, OBJ(2));
    CUgraphNode node =
        (CUgraphNode)(uintptr_t)wire_handle_make(WIRE_KIND_GRAPHNODE, 3, 99);

    loop.drv.cuGraphAddDependencies_v2 = drv_add_deps;
    deps.n = 77;
    assert_int_equal(cuGraphAddDependencies_v2(g, &node, &node, NULL, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(deps.n, 77);
}

/* ---- structures
 * ----------------------------------------------------------------------- */

static CUDA_RESOURCE_DESC drv_res;
static bool drv_view;

static CUresult
drv_tex_create(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
               const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *view)
{
    drv_res = *pResDesc;
    drv_view = view != NULL;
    *pTexObject = 0xabcdef;
    return pTexDesc->maxAnisotropy == 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void
handle_inside_a_union_is_translated_by_its_tag(void **state)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_RESOURCE_VIEW_DESC view = {0};
    CUDA_TEXTURE_DESC tex = {.maxAnisotropy = 4};
    CUtexObject t = 0;

    loop.drv.cuTexObjectCreate = drv_tex_create;
    res.res.array.hArray =
        (CUarray)(uintptr_t)gen_loop_handle(WIRE_KIND_ARRAY, OBJ(50));
    assert_int_equal(cuTexObjectCreate(&t, &res, &tex, NULL), CUDA_SUCCESS);
    assert_true(t == 0xabcdef);
    assert_ptr_equal(drv_res.res.array.hArray, OBJ(50));
    assert_false(drv_view);
    res.resType = CU_RESOURCE_TYPE_LINEAR;
    res.res.linear.devPtr = 0x123400;
    assert_int_equal(cuTexObjectCreate(&t, &res, &tex, &view), CUDA_SUCCESS);
    assert_true(drv_res.res.linear.devPtr == 0x123400);
    assert_true(drv_view);
    assert_int_equal(cuTexObjectCreate(&t, NULL, &tex, NULL), CUDA_ERROR_INVALID_VALUE);
}

static CUlaunchAttribute drv_attrs[2];

static CUresult
drv_clusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
    if (func != OBJ(5) || config->numAttrs != 2 || config->hStream != OBJ(6))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(drv_attrs, config->attrs, sizeof(drv_attrs));
    *numClusters = (int)config->gridDimX;
    return CUDA_SUCCESS;
}

static void
array_behind_a_structure_goes_along(void **state)
{
    CUfunction f = (CUfunction)(uintptr_t)gen_loop_handle(WIRE_KIND_FUNC, OBJ(5));
    CUlaunchAttribute attrs[2] = {{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
                                  {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT}};
    CUlaunchConfig config = {.gridDimX = 12, .attrs = attrs, .numAttrs = 2};
    int n = 0;

    config.hStream = (CUstream)(uintptr_t)gen_loop_handle(WIRE_KIND_STREAM, OBJ(6));
    attrs[0].value.clusterDim.y = 3;
    attrs[1].value.programmaticEvent.event =
        (CUevent)(uintptr_t)gen_loop_handle(WIRE_KIND_EVENT, OBJ(7));
    loop.drv.cuOccupancyMaxActiveClusters = drv_clusters;
    assert_int_equal(cuOccupancyMaxActiveClusters(&n, f, &config), CUDA_SUCCESS);
    assert_int_equal(n, 12);
    assert_int_equal(drv_attrs[0].value.clusterDim.y, 3);
    assert_ptr_equal(drv_attrs[1].value.programmaticEvent.event, OBJ(7));
    config.numAttrs = 100;
    assert_int_equal(cuOccupancyMaxActiveClusters(&n, f, &config),
                     CUDA_ERROR_NOT_SUPPORTED);
}

static CUresult
drv_update(CUgraphExec exec, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
    if (exec != OBJ(8))
        return CUDA_ERROR_INVALID_VALUE;
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    info->errorNode = OBJ(9);
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/* Its part in the worker is written by hand: this is what of it is not about host
 * functions. */
CUresult
h_cuGraphExecUpdate_v2(struct wrk *w, const struct wire_args_cuGraphExecUpdate_v2 *a,
                       struct wrk_reply *rep)
{
    struct wire_cuGraphExecUpdate_v2_rep *body = rep->body;
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r = WRK_CALL(w, cuGraphExecUpdate_v2, a->hGraphExec, a->hGraph, &info);

    wrk_fix_out_CUgraphExecUpdateResultInfo_v1(w, &info);
    memcpy(body->resultInfo, &info, sizeof(info));
    rep->on_error = true;
    return r;
}

static void
outputs_of_a_failed_call_arrive_where_they_are_promised(void **state)
{
    CUgraph g = (CUgraph)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPH, OBJ(2));
    CUgraphExec exec =
        (CUgraphExec)(uintptr_t)gen_loop_handle(WIRE_KIND_GRAPHEXEC, OBJ(8));
    CUgraphExecUpdateResultInfo info = {0};

    loop.drv.cuGraphExecUpdate_v2 = drv_update;
    assert_int_equal(cuGraphExecUpdate_v2(exec, g, &info),
                     CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    assert_true(wire_handle_is((uintptr_t)info.errorNode, WIRE_KIND_GRAPHNODE));
    assert_ptr_equal(info.errorFromNode, NULL);
}

/* ---- values, texts, devices
 * --------------------------------------------------------------- */

static uint64_t pool_value;

/* The worker's are written by hand. */
CUresult
h_cuMemPoolSetAttribute(struct wrk *w, const struct wire_args_cuMemPoolSetAttribute *a,
                        struct wrk_reply *rep)
{
    pool_value = a->value;
    return CUDA_SUCCESS;
}

CUresult
h_cuMemPoolGetAttribute(struct wrk *w, const struct wire_args_cuMemPoolGetAttribute *a,
                        struct wrk_reply *rep)
{
    struct wire_cuMemPoolGetAttribute_rep *body = rep->body;

    *(uint32_t *)&body->value = 1;
    return CUDA_SUCCESS;
}

static void
attribute_value_has_the_size_its_number_says(void **state)
{
    CUmemoryPool pool =
        (CUmemoryPool)(uintptr_t)gen_loop_handle(WIRE_KIND_MEMPOOL, OBJ(1));
    uint64_t wide = UINT64_C(0x123456789a);
    struct {
        int value, after;
    } narrow = {7, 0x5a5a5a5a};

    assert_int_equal(
        cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wide), 0);
    assert_true(pool_value == wide);
    assert_int_equal(
        cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &narrow),
        0);
    assert_true(pool_value == 7);
    assert_int_equal(
        cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &narrow),
        0);
    assert_int_equal(narrow.value, 1);
    assert_int_equal(narrow.after, 0x5a5a5a5a);
    assert_int_equal(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, &wide),
                     CUDA_ERROR_INVALID_VALUE);
}

static CUresult
drv_logs(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
    strncpy(buffer, "node 3 cannot", *size);
    return CUDA_SUCCESS;
}

static void
text_is_cut_to_the_callers_room_and_ended(void **state)
{
    char log[32], small[6];
    size_t size = sizeof(log);

    loop.drv.cuLogsDumpToMemory = drv_logs;
    assert_int_equal(cuLogsDumpToMemory(NULL, log, &size, 0), CUDA_SUCCESS);
    assert_string_equal(log, "node 3 cannot");
    size = sizeof(small);
    assert_int_equal(cuLogsDumpToMemory(NULL, small, &size, 0), CUDA_SUCCESS);
    assert_string_equal(small, "node ");
}

static CUresult
drv_func_name(const char **name, CUfunction hfunc)
{
    *name = hfunc == OBJ(5) ? "kernel_five" : NULL;
    return CUDA_SUCCESS;
}

static void
name_outlives_its_answer(void **state)
{
    CUfunction f = (CUfunction)(uintptr_t)gen_loop_handle(WIRE_KIND_FUNC, OBJ(5));
    const char *name = NULL;

    loop.drv.cuFuncGetName = drv_func_name;
    assert_int_equal(cuFuncGetName(&name, f), CUDA_SUCCESS);
    assert_string_equal(name, "kernel_five");
}

static CUresult
drv_stream_device(CUstream hStream, CUdevice *device)
{
    *device = 6;
    return CUDA_SUCCESS;
}

static CUresult
drv_p2p(int *value, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst)
{
    *value = 100 * src + 10 * dst + (int)attrib;
    return CUDA_SUCCESS;
}

static void
devices_are_renumbered_both_ways(void **state)
{
    CUdevice dev = -1;
    int value = 0;

    loop.drv.cuStreamGetDevice = drv_stream_device;
    loop.drv.cuDeviceGetP2PAttribute = drv_p2p;
    assert_int_equal(cuStreamGetDevice(NULL, &dev), CUDA_SUCCESS);
    assert_int_equal(dev, 1);
    assert_int_equal(cuDeviceGetP2PAttribute(&value, 2, 0, 3), CUDA_SUCCESS);
    assert_int_equal(value, 742);
}

static CUresult
drv_granularity(size_t *granularity, const CUmemAllocationProp *prop,
                CUmemAllocationGranularity_flags option)
{
    *granularity = (size_t)prop->location.id;
    return prop->win32HandleMetaData ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void
devices_inside_structures_are_renumbered_by_their_tag(void **state)
{
    CUmemAllocationProp prop = {.win32HandleMetaData = OBJ(1)};
    size_t granularity = 0;

    loop.drv.cuMemGetAllocationGranularity = drv_granularity;
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 2};
    assert_int_equal(cuMemGetAllocationGranularity(&granularity, &prop, 0),
                     CUDA_SUCCESS);
    assert_int_equal(granularity, 5);
    assert_int_equal(prop.location.id, 2);
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, 2};
    assert_int_equal(cuMemGetAllocationGranularity(&granularity, &prop, 0),
                     CUDA_SUCCESS);
    assert_int_equal(granularity, 2);
}

static CUresult
drv_elapsed(float *ms, CUevent a, CUevent b)
{
    *ms = a == OBJ(1) && b == OBJ(2) ? 2.25f : 0;
    return CUDA_SUCCESS;
}

static void
older_form_answers_like_the_newer_one(void **state)
{
    CUevent a = (CUevent)(uintptr_t)gen_loop_handle(WIRE_KIND_EVENT, OBJ(1));
    CUevent b = (CUevent)(uintptr_t)gen_loop_handle(WIRE_KIND_EVENT, OBJ(2));
    float ms = 0;

    loop.drv.cuEventElapsedTime_v2 = drv_elapsed;
    assert_int_equal(cuEventElapsedTime(&ms, a, b), CUDA_SUCCESS);
    assert_true(ms == 2.25f);
}

static CUresult
drv_range(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    *base = dptr;
    *size = dptr == 0x1000 ? 64 : (size_t)1 << 33;
    return CUDA_SUCCESS;
}

static void
old_32_bit_form_refuses_what_it_cannot_hold(void **state)
{
    CUdeviceptr_v1 base = 0;
    unsigned int size = 0;

    loop.drv.cuMemGetAddressRange_v2 = drv_range;
    assert_int_equal(cuMemGetAddressRange(&base, &size, 0x1000), CUDA_SUCCESS);
    assert_int_equal(base, 0x1000);
    assert_int_equal(size, 64);
    assert_int_equal(cuMemGetAddressRange(&base, &size, 0x2000),
                     CUDA_ERROR_INVALID_VALUE);
}

static CUresult
drv_split(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
          CUdevResource *remaining, unsigned int useFlags, unsigned int minCount)
{
    if (!result) {
        *nbGroups = 4;
        return CUDA_SUCCESS;
    }
    for (unsigned int i = 0; i < *nbGroups; i++)
        result[i].sm.smCount = input->sm.smCount / 4 + i;
    if (remaining)
        remaining->sm.smCount = minCount;
    return CUDA_SUCCESS;
}

static void
array_of_structures_comes_back(void **state)
{
    CUdevResource in = {.type = CU_DEV_RESOURCE_TYPE_SM}, out[3], rest;
    unsigned int n = 0;

    in.sm.smCount = 40;
    loop.drv.cuDevSmResourceSplitByCount = drv_split;
    assert_int_equal(cuDevSmResourceSplitByCount(NULL, &n, &in, NULL, 0, 5),
                     CUDA_SUCCESS);
    assert_int_equal(n, 4);
    n = 3;
    assert_int_equal(cuDevSmResourceSplitByCount(out, &n, &in, &rest, 0, 5),
                     CUDA_SUCCESS);
    assert_int_equal(out[2].sm.smCount, 12);
    assert_int_equal(rest.sm.smCount, 5);
}

/* ---- hostile frames and traces
 * --------------------------------------------------------------- */

static void
frame_that_asks_for_too_much_is_refused_with_a_reason(void **state)
{
    struct wire_cuGraphGetNodes_req req = {.hGraph = 1, .numNodes = 8193};

    req.given = WIRE_GIVEN_cuGraphGetNodes_nodes;
    assert_false(gen_loop_frame(WIRE_CALL_cuGraphGetNodes, &req, sizeof(req)));
    assert_string_equal(loop.bad, "cuGraphGetNodes: nodes past its cap");
    assert_false(gen_loop_frame(WIRE_CALL_cuGraphGetNodes, &req, sizeof(req) - 8));
    assert_string_equal(loop.bad, "cuGraphGetNodes: malformed body");
    assert_false(gen_loop_frame(0x7fff, &req, sizeof(req)));
    assert_string_equal(loop.bad, "unknown call");
    assert_false(gen_loop_frame(WIRE_CALL_cuInit, NULL, 0));
    assert_string_equal(loop.bad, "unknown call");
}

static void
trace_names_arguments_values_and_result(void **state)
{
    CUstream s = NULL;
    char expected[200];

    loop.drv.cuStreamCreate = drv_stream_create;
    stub_tracing = stub_slow = true;
    assert_int_equal(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    snprintf(
        expected, sizeof(expected),
        "cuStreamCreate(phStream=[%p], Flags=CU_STREAM_NON_BLOCKING) = CUDA_SUCCESS",
        (void *)s);
    assert_string_equal(loop.line, expected);
    assert_int_equal(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(loop.line,
                        "cuStreamCreate(phStream=NULL, Flags=CU_STREAM_DEFAULT) "
                        "= CUDA_ERROR_INVALID_VALUE");
}

#define CASE(f) cmocka_unit_test_setup(f, fresh)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(created_handle_reaches_the_drivers_object),
        CASE(destroyed_handle_is_the_drivers_object_once),
        CASE(destroyed_handle_is_refused_without_a_frame),
        CASE(unknown_flags_of_a_call_without_answer_are_refused_at_once),
        CASE(failed_creation_leaves_an_unknown_handle_at_the_worker),
        CASE(missing_driver_function_is_not_supported),
        CASE(per_thread_name_uses_the_threads_stream),
        CASE(per_thread_fill_becomes_a_fill_in_stream_order),
        CASE(nodes_that_the_driver_made_get_names_that_work),
        CASE(arrays_of_handles_are_translated_and_may_be_absent),
        CASE(array_without_a_pointer_or_past_its_cap_makes_no_frame),
        CASE(stale_handle_inside_an_array_is_the_callers_error),
        CASE(handle_inside_a_union_is_translated_by_its_tag),
        CASE(array_behind_a_structure_goes_along),
        CASE(outputs_of_a_failed_call_arrive_where_they_are_promised),
        CASE(attribute_value_has_the_size_its_number_says),
        CASE(text_is_cut_to_the_callers_room_and_ended),
        CASE(name_outlives_its_answer),
        CASE(devices_are_renumbered_both_ways),
        CASE(devices_inside_structures_are_renumbered_by_their_tag),
        CASE(older_form_answers_like_the_newer_one),
        CASE(old_32_bit_form_refuses_what_it_cannot_hold),
        CASE(array_of_structures_comes_back),
        CASE(frame_that_asks_for_too_much_is_refused_with_a_reason),
        CASE(trace_names_arguments_values_and_result),
    };

    return cmocka_run_group_tests_name("gen_loop", tests, NULL, NULL);
}
