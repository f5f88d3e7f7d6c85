/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of the software GPU: made by hand, captured, changed, launched.
 */
#include "ut_sgapi.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ut_sg sg;
static CUdeviceptr buf; /* 64 words */

static int
open_card(void **state)
{
    ut_sg_open(&sg, 0);
    ok(cuMemAlloc_v2(&buf, 256));
    ok(cuMemsetD32_v2(buf, 0, 64));
    return 0;
}

static int
close_card(void **state)
{
    ut_sg_close(&sg);
    return 0;
}

static unsigned
word(unsigned i)
{
    unsigned v = 0;

    ok(cuMemcpyDtoH_v2(&v, buf + 4 * i, 4));
    return v;
}

static CUDA_KERNEL_NODE_PARAMS
kernel(CUfunction fn, void **args)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = fn,
        .gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 1,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = args,
    };
}

static void
count_up(void *arg)
{
    ++*(atomic_int *)arg;
}

static void
nodes_run_in_the_order_of_their_edges(void **state)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode set, add, add2, host, copy, list[8], from[8], to[8];
    CUDA_MEMSET_NODE_PARAMS fill = {buf, 0, 40, 4, 1, 1};
    CUDA_HOST_NODE_PARAMS hp;
    CUDA_KERNEL_NODE_PARAMS kp;
    CUDA_MEMCPY3D cp = {0};
    atomic_int calls = 0;
    CUgraphNodeType type;
    unsigned one = 1, *pinned;
    CUdeviceptr p = buf;
    void *args[] = {&p, &one};
    size_t n;

    ok(cuMemHostAlloc((void **)&pinned, 4, 0));
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, sg.ctx));
    kp = kernel(sg.add_one, args);
    ok(cuGraphAddKernelNode_v2(&add, graph, &set, 1, &kp));
    ok(cuGraphAddKernelNode_v2(&add2, graph, &add, 1, &kp));
    hp.fn = count_up;
    hp.userData = &calls;
    ok(cuGraphAddHostNode(&host, graph, &add2, 1, &hp));
    cp.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    cp.srcDevice = buf;
    cp.dstMemoryType = CU_MEMORYTYPE_HOST;
    cp.dstHost = pinned;
    cp.WidthInBytes = 4;
    cp.Height = cp.Depth = 1;
    ok(cuGraphAddMemcpyNode(&copy, graph, &host, 1, &cp, sg.ctx));
    p = 0; /* the node has its own copy of the arguments */

    ok(cuGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, 5);
    n = 8;
    ok(cuGraphGetRootNodes(graph, list, &n));
    assert_int_equal(n, 1);
    assert_ptr_equal(list[0], set);
    n = 8;
    ok(cuGraphGetEdges(graph, from, to, &n));
    assert_int_equal(n, 4);
    ok(cuGraphNodeGetType(host, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_HOST);

    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    for (int i = 1; i <= 3; i++) {
        ok(cuGraphLaunch(exec, 0));
        ok(cuCtxSynchronize());
        assert_int_equal(*pinned, 42);
        assert_int_equal(calls, i);
    }
    ok(cuGraphExecDestroy(exec));
    fails(cuGraphLaunch(exec, 0), CUDA_ERROR_INVALID_VALUE);
}

static void
cycles_and_nodes_of_other_graphs_are_refused(void **state)
{
    CUgraph a, b;
    CUgraphNode n1, n2, other;
    CUgraphExec exec;

    ok(cuGraphCreate(&a, 0));
    ok(cuGraphCreate(&b, 0));
    ok(cuGraphAddEmptyNode(&n1, a, NULL, 0));
    ok(cuGraphAddEmptyNode(&n2, a, &n1, 1));
    ok(cuGraphAddEmptyNode(&other, b, NULL, 0));
    fails(cuGraphAddEmptyNode(&n2, a, &other, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddDependencies(a, &n1, &n1, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddDependencies(a, &n1, &other, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddDependencies(a, &n1, &n2, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphAddDependencies(a, &n2, &n1, 1));
    fails(cuGraphInstantiateWithFlags(&exec, a, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphRemoveDependencies(a, &n2, &n1, 1));
    ok(cuGraphInstantiateWithFlags(&exec, a, 0));
    ok(cuGraphDestroyNode(n1));
    fails(cuGraphDestroyNode(n1), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphDestroy(a));
    fails(cuGraphDestroy(a), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphDestroy(b));
    ok(cuGraphExecDestroy(exec));
}

static void
captured_work_runs_at_launch(void **state)
{
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUgraphExec exec;
    CUstream s;
    size_t n;

    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(cuMemsetD32Async(buf, 5, 1, s));
    for (int i = 0; i < 10; i++)
        ok(ut_sg_run(sg.add_one, 1, 1, s, buf, 1));
    ok(cuMemcpyDtoDAsync_v2(buf + 4, buf, 4, s));
    ok(cuStreamEndCapture(s, &graph));
    assert_int_equal(word(0), 0); /* nothing has run */
    ok(cuGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, 12);
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, s));
    ok(cuGraphLaunch(exec, s));
    ok(cuStreamSynchronize(s));
    assert_int_equal(word(1), 15);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuStreamDestroy_v2(s));
}

static void
streams_join_a_capture_through_events(void **state)
{
    CUstream a, b;
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[8];
    size_t n, deps;

    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(ut_sg_run(sg.store, 1, 1, a, buf, 3));
    ok(cuEventRecord(fork, a));
    ok(cuStreamWaitEvent(b, fork, 0));
    ok(ut_sg_run(sg.add_one, 1, 1, b, buf, 1));
    ok(ut_sg_run(sg.store, 1, 1, a, buf + 4, 9));
    ok(cuEventRecord(join, b));
    ok(cuStreamWaitEvent(a, join, 0));
    ok(ut_sg_run(sg.add_one, 1, 1, a, buf, 2));
    ok(cuStreamEndCapture(a, &graph));
    n = 8;
    ok(cuGraphGetNodes(graph, nodes, &n));
    assert_int_equal(n, 4);
    ok(cuGraphNodeGetDependencies(nodes[3], NULL, &deps));
    assert_int_equal(deps, 2);
    ok(cuStreamQuery(b)); /* an ordinary stream again */
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, a));
    ok(cuStreamSynchronize(a));
    assert_int_equal(word(0), 5);
    assert_int_equal(word(1), 9);
}

static void
misuse_ends_a_capture(void **state)
{
    CUstream a, b;
    CUevent e;
    CUgraph graph;
    CUdeviceptr p;

    ok(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&e, 0));
    fails(cuStreamBeginCapture_v2(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fails(cuStreamBeginCapture_v2(a, 0), CUDA_ERROR_ILLEGAL_STATE);
    fails(cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(cuMemAlloc_v2(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(ut_sg_run(sg.store, 1, 1, a, buf, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    ok(cuMemAlloc_v2(&p, 4));

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(ut_sg_run(sg.store, 1, 1, NULL, buf, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(ut_sg_run(sg.store, 1, 1, b, buf, 1));
    fails(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(ut_sg_run(sg.store, 1, 1, b, buf, 1));
    fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

    ok(cuEventRecord(e, b));
    ok(cuStreamSynchronize(b));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(cuStreamWaitEvent(a, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    ok(cuStreamDestroy_v2(a)); /* in the middle of it */
    ok(cuStreamSynchronize(b));
}

/* An event of a capture has no point in time; who asks for one ends the capture. */
static void
asking_for_a_captured_event_ends_its_capture(void **state)
{
    CUresult (*const asks[])(CUevent) = {cuEventQuery, cuEventSynchronize};
    CUstream s;
    CUevent e;
    CUgraph graph;

    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
        ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(ut_sg_run(sg.store, 1, 1, s, buf, 3));
        ok(cuEventRecord(e, s));
        fails(asks[i](e), CUDA_ERROR_CAPTURED_EVENT);
        fails(ut_sg_run(sg.store, 1, 1, s, buf, 3),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        fails(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_null(graph);
    }
    ok(cuEventDestroy_v2(e));
    ok(cuStreamDestroy_v2(s));
}

/* Its work stays in the graph, joined or not. */
static void
streams_of_a_capture_may_be_destroyed(void **state)
{
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUstream a, b;
    CUevent e;
    size_t n;

    for (int join = 1; join >= 0; join--) {
        ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        ok(cuEventCreate(&e, 0));
        ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ok(cuEventRecord(e, a));
        ok(cuStreamWaitEvent(b, e, 0));
        ok(ut_sg_run(sg.store, 1, 1, b, buf, 1));
        ok(cuEventRecord(e, b));
        if (join)
            ok(cuStreamWaitEvent(a, e, 0));
        ok(cuStreamDestroy_v2(b));
        ok(cuStreamIsCapturing(a, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        ok(ut_sg_run(sg.store, 1, 1, a, buf, 2));
        if (join) {
            ok(cuStreamEndCapture(a, &graph));
            ok(cuGraphGetNodes(graph, NULL, &n));
            assert_int_equal(n, 2);
            ok(cuGraphDestroy(graph));
        } else {
            fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        ok(cuEventDestroy_v2(e));
        ok(cuStreamDestroy_v2(a));
    }
}

/* A stream that is gone can still be joined by an event recorded in it. */
static void
a_destroyed_stream_is_joined_by_its_event(void **state)
{
    CUgraph graph;
    CUstream a, b;
    CUevent e;

    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&e, 0));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(ut_sg_run(sg.store, 1, 1, b, buf, 1));
    ok(cuEventRecord(e, b));
    ok(cuStreamDestroy_v2(b));
    ok(cuStreamWaitEvent(a, e, 0));
    ok(cuStreamEndCapture(a, &graph));
    ok(cuGraphDestroy(graph));
    ok(cuEventDestroy_v2(e));
    ok(cuStreamDestroy_v2(a));
}

static void
asking_leaves_a_capture_as_it_is(void **state)
{
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUstream a;

    ok(cuStreamCreate(&a, CU_STREAM_DEFAULT));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fails(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    fails(cuStreamIsCapturing(CU_STREAM_LEGACY, &status),
          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    fails(cuStreamGetCaptureInfo_v2(CU_STREAM_LEGACY, &status, NULL, NULL, NULL, NULL),
          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ok(cuStreamIsCapturing(a, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(cuStreamEndCapture(a, &graph));
    ok(cuGraphDestroy(graph));
    ok(cuStreamDestroy_v2(a));
}

static CUevent recorded;

static CUresult
wait_for(CUstream stream)
{
    return cuStreamWaitEvent(stream, recorded, 0);
}

static CUresult
record(CUstream stream)
{
    return cuEventRecord(recorded, stream);
}

/* It stands for every blocking stream, so a question about it is one about them. */
static void
the_legacy_stream_is_not_used_beside_a_captured_blocking_one(void **state)
{
    static CUresult (*const uses[])(CUstream stream) = {
        cuStreamQuery, cuStreamSynchronize, record, wait_for};
    CUstream blocking, other;
    CUgraph graph;

    ok(cuEventCreate(&recorded, 0));
    ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        ok(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(uses[i](other));
        fails(uses[i](NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        fails(cuStreamEndCapture(blocking, &graph),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        ok(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(uses[i](NULL));
        ok(cuStreamEndCapture(other, &graph));
        ok(cuGraphDestroy(graph));
    }
    ok(cuStreamDestroy_v2(other));
    ok(cuStreamDestroy_v2(blocking));
    ok(cuEventDestroy_v2(recorded));
}

/* Who captures to a graph has it already. */
static void
a_capture_may_end_without_asking_for_the_graph(void **state)
{
    CUstreamCaptureStatus status;
    CUgraph graph, seen;
    CUstream a;
    size_t n;

    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuGraphCreate(&graph, 0));
    ok(cuStreamBeginCaptureToGraph(a, graph, NULL, NULL, 0,
                                   CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(ut_sg_run(sg.store, 1, 1, a, buf, 1));
    ok(cuStreamEndCapture(a, NULL));
    ok(cuGraphGetNodes(graph, NULL, &n));
    assert_int_equal(n, 1);
    ok(cuGraphDestroy(graph));

    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(ut_sg_run(sg.store, 1, 1, a, buf, 1));
    ok(cuStreamEndCapture(a, NULL)); /* nobody can name it: it is gone */
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(ut_sg_run(sg.store, 1, 1, a, buf, 1));
    ok(cuStreamGetCaptureInfo_v2(a, &status, NULL, &seen, NULL, NULL));
    ok(cuStreamEndCapture(a, NULL));
    ok(cuGraphGetNodes(seen, NULL, &n));
    assert_int_equal(n, 1);
    ok(cuGraphDestroy(seen));
    fails(cuStreamEndCapture(a, NULL), CUDA_ERROR_ILLEGAL_STATE);
    ok(cuStreamDestroy_v2(a));
}

static void
pictures_of_graphs_name_kernels(void **state)
{
    char path[] = "/tmp/sgapi-dot-XXXXXX", text[1024] = "";
    const char *name;
    int fd = mkstemp(path);
    char label[64];
    CUgraph graph;
    CUstream a;

    assert_true(fd >= 0);
    ok(cuFuncGetName(&name, sg.store));
    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(ut_sg_run(sg.store, 1, 1, a, buf, 1));
    ok(cuMemsetD8Async(buf, 0, 4, a));
    ok(cuStreamEndCapture(a, &graph));
    ok(cuGraphDebugDotPrint(graph, path, 0));
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    snprintf(label, sizeof(label), "[label=\"0\\nKERNEL\\n%s\"]", name);
    assert_non_null(strstr(text, label));
    assert_non_null(strstr(text, "[label=\"1\\nMEMSET\"]"));
    close(fd);
    unlink(path);
    ok(cuGraphDestroy(graph));
    ok(cuStreamDestroy_v2(a));
}

static void
instances_can_be_changed(void **state)
{
    CUgraph graph, same, other;
    CUgraphExec exec;
    CUgraphNode node, found;
    CUDA_KERNEL_NODE_PARAMS kp, got;
    CUgraphExecUpdateResultInfo info;
    unsigned value = 1, enabled;
    CUdeviceptr p = buf;
    void *args[] = {&p, &value};

    ok(cuGraphCreate(&graph, 0));
    kp = kernel(sg.store, args);
    ok(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kp));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    value = 2;
    ok(cuGraphExecKernelNodeSetParams_v2(exec, node, &kp));
    ok(cuGraphLaunch(exec, 0));
    assert_int_equal(word(0), 2);
    ok(cuGraphKernelNodeGetParams_v2(node, &got)); /* the graph is as it was */
    assert_int_equal(*(unsigned *)got.kernelParams[1], 1);
    assert_ptr_equal(got.func, sg.store);

    ok(cuGraphNodeSetEnabled(exec, node, 0));
    ok(cuMemsetD32_v2(buf, 77, 1));
    ok(cuGraphLaunch(exec, 0));
    assert_int_equal(word(0), 77);
    ok(cuGraphNodeGetEnabled(exec, node, &enabled));
    assert_int_equal(enabled, 0);
    ok(cuGraphNodeSetEnabled(exec, node, 1));

    ok(cuGraphClone(&same, graph));
    ok(cuGraphNodeFindInClone(&found, node, same));
    value = 3;
    ok(cuGraphKernelNodeSetParams_v2(found, &kp));
    ok(cuGraphExecUpdate_v2(exec, same, &info));
    ok(cuGraphLaunch(exec, 0));
    assert_int_equal(word(0), 3);

    ok(cuGraphCreate(&other, 0));
    ok(cuGraphAddEmptyNode(&found, other, NULL, 0));
    fails(cuGraphExecUpdate_v2(exec, other, &info),
          CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    ok(cuGraphDestroy(other));
    ok(cuGraphDestroy(same));
    ok(cuGraphDestroy(graph));
    ok(cuGraphExecDestroy(exec));
}

/* A unified address is of the kind of its memory, and a copy with such addresses the
 * same as one whose kinds were said. */
static void
unified_copies_are_updated_by_others_of_the_same_memory(void **state)
{
    static uint32_t host[2] = {6, 7};
    CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = &host[1],
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = buf,
                        .WidthInBytes = 4,
                        .Height = 1,
                        .Depth = 1};
    CUDA_MEMCPY3D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = buf,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = &host[0],
                          .WidthInBytes = 4,
                          .Height = 1,
                          .Depth = 1};
    CUgraph captured, typed, other;
    CUgraphExecUpdateResultInfo info;
    CUgraphExec exec;
    CUgraphNode node;
    CUstream stream;
    CUcontext ctx;

    ok(cuCtxGetCurrent(&ctx));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemcpyAsync(buf, (uintptr_t)&host[0], 4, stream));
    ok(cuStreamEndCapture(stream, &captured));
    ok(cuGraphInstantiateWithFlags(&exec, captured, 0));
    ok(cuGraphCreate(&typed, 0));
    ok(cuGraphAddMemcpyNode(&node, typed, NULL, 0, &up, ctx));
    ok(cuGraphExecUpdate_v2(exec, typed, &info));
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(word(0), 7);

    ok(cuGraphCreate(&other, 0));
    ok(cuGraphAddMemcpyNode(&node, other, NULL, 0, &down, ctx));
    fails(cuGraphExecUpdate_v2(exec, other, &info),
          CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    ok(cuGraphDestroy(other));
    ok(cuGraphDestroy(typed));
    ok(cuGraphDestroy(captured));
    ok(cuGraphExecDestroy(exec));
    ok(cuStreamDestroy_v2(stream));
}

static void
child_graphs_events_and_memory_nodes_work(void **state)
{
    CUgraph child, graph;
    CUgraphExec exec;
    CUgraphNode in_child, alloc, inner, rec, release;
    CUDA_MEM_ALLOC_NODE_PARAMS ap = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 4096,
    };
    CUDA_KERNEL_NODE_PARAMS kp;
    CUevent event;
    unsigned value = 1;
    CUdeviceptr p = buf;
    void *args[] = {&p, &value};
    size_t before, after, total;

    ok(cuEventCreate(&event, 0));
    ok(cuGraphCreate(&child, 0));
    kp = kernel(sg.add_one, args);
    ok(cuGraphAddKernelNode_v2(&in_child, child, NULL, 0, &kp));
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &ap));
    assert_int_not_equal(ap.dptr, 0);
    p = ap.dptr;
    ok(cuGraphAddKernelNode_v2(&inner, graph, &alloc, 1, &kp));
    ok(cuGraphAddChildGraphNode(&inner, graph, &inner, 1, child));
    ok(cuGraphAddEventRecordNode(&rec, graph, &inner, 1, event));
    ok(cuGraphAddMemFreeNode(&release, graph, &rec, 1, ap.dptr));
    ok(cuMemGetInfo_v2(&before, &total));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        ok(cuGraphLaunch(exec, 0));
    ok(cuEventSynchronize(event));
    ok(cuCtxSynchronize());
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    assert_int_equal(word(0), 3);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuGraphDestroy(child));
}

/* A free that runs drops the lock while it hides the pages, and the next launch may
 * come just then: the bytes are still booked and no longer to be had. */
static void
memory_of_a_graph_is_freed_and_taken_again_at_once(void **state)
{
    CUDA_MEM_ALLOC_NODE_PARAMS ap = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = 4 << 20,
    };
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 1, .elementSize = 1, .height = 1};
    CUgraphNode alloc, node;
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;

    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &ap));
    fill.dst = ap.dptr;
    fill.width = 4096;
    ok(cuGraphAddMemsetNode(&node, graph, &alloc, 1, &fill, sg.ctx));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 0; i < 3000; i++) {
        ok(cuGraphLaunch(exec, s));
        ok(cuMemFreeAsync(ap.dptr, s));
        for (volatile unsigned spin = 0; spin < i % 61 * 200; spin++)
            ; /* the launch comes at every moment of the free */
    }
    ok(cuStreamSynchronize(s));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuStreamDestroy_v2(s));
}

static void
a_fault_in_a_graph_sticks(void **state)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstream s;

    if (ut_sg_apart(__func__))
        return;
    ok(cuStreamCreate(&s, 0));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(ut_sg_run(sg.trap, 1, 1, s, 0, 0));
    ok(ut_sg_run(sg.store, 1, 1, s, buf, 1));
    ok(cuStreamEndCapture(s, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, s));
    fails(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
    fails(cuGraphLaunch(exec, s), CUDA_ERROR_LAUNCH_FAILED);
}

static void
user_objects_live_as_long_as_graphs(void **state)
{
    atomic_int gone = 0;
    CUuserObject obj;
    CUgraph graph, clone;

    ok(cuUserObjectCreate(&obj, &gone, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphRetainUserObject(graph, obj, 1, CU_GRAPH_USER_OBJECT_MOVE));
    ok(cuGraphClone(&clone, graph));
    ok(cuGraphDestroy(graph));
    assert_int_equal(gone, 0);
    ok(cuGraphDestroy(clone));
    while (!gone) /* the destructor runs on another thread */
        ;
    fails(cuUserObjectRelease(obj, 1), CUDA_ERROR_INVALID_VALUE);
}

static void
long_chains_do_not_use_the_stack(void **state)
{
    enum { N = 20000 };
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode last;

    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddEmptyNode(&last, graph, NULL, 0));
    for (int i = 0; i < N; i++)
        ok(cuGraphAddEmptyNode(&last, graph, &last, 1));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, 0));
    ok(cuCtxSynchronize());
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
    const struct CMUnitTest tests[] = {
        T(nodes_run_in_the_order_of_their_edges),
        T(cycles_and_nodes_of_other_graphs_are_refused),
        T(captured_work_runs_at_launch),
        T(streams_join_a_capture_through_events),
        T(misuse_ends_a_capture),
        T(asking_for_a_captured_event_ends_its_capture),
        T(streams_of_a_capture_may_be_destroyed),
        T(a_destroyed_stream_is_joined_by_its_event),
        T(asking_leaves_a_capture_as_it_is),
        T(the_legacy_stream_is_not_used_beside_a_captured_blocking_one),
        T(pictures_of_graphs_name_kernels),
        T(a_capture_may_end_without_asking_for_the_graph),
        T(instances_can_be_changed),
        T(unified_copies_are_updated_by_others_of_the_same_memory),
        T(child_graphs_events_and_memory_nodes_work),
        T(memory_of_a_graph_is_freed_and_taken_again_at_once),
        T(a_fault_in_a_graph_sticks),
        T(user_objects_live_as_long_as_graphs),
        T(long_chains_do_not_use_the_stack),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
