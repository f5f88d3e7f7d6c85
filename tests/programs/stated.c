/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is stated of batches of operations on memory, cooperative launches, memory
 * domains, block sizes, clones of graphs, and captures in a context that has failed.
 */
#include "parts.h"

#include <stdbool.h>

#define BAD CUDA_ERROR_INVALID_VALUE

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry nothing()\n"
                          "{\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry stop()\n"
                          "{\n"
                          "    trap;\n"
                          "    ret;\n"
                          "}\n";

static CUdevice dev;
static CUcontext ctx;
static CUstream stream;
static CUfunction nothing, stop;

static int
begin(void)
{
    CUmodule module;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, dev));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&nothing, module, "nothing"));
    TRY(cuModuleGetFunction(&stop, module, "stop"));
    return 0;
}

/* ---- batches ----------------------------------------------------------------------
 */

#define MOST 255 /* fewer than 256 */

static CUstreamBatchMemOpParams ops[1000];

static int
operations_of_a_batch(void)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.paramArray = ops};
    unsigned words[MOST];
    CUgraphNode node;
    CUdeviceptr mem;
    CUgraph graph;

    if (begin())
        return 1;
    TRY(cuMemAlloc_v2(&mem, 1000 * sizeof(*words)));
    TRY(cuMemsetD32_v2(mem, 0, 1000));
    for (unsigned i = 0; i < 1000; i++) {
        ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[i].writeValue.address = mem + i * sizeof(*words);
        ops[i].writeValue.value = i + 1;
    }
    TRY(cuStreamBatchMemOp_v2(stream, MOST, ops, 0));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(words, mem, sizeof(words)));
    SAME(words[0], 1);
    SAME(words[MOST - 1], MOST);
    CODE(cuStreamBatchMemOp_v2(stream, 0, ops, 0), BAD);
    CODE(settled(cuStreamBatchMemOp_v2(stream, 256, ops, 0)), BAD);
    CODE(cuStreamBatchMemOp_v2(stream, 257, ops, 0), BAD);
    CODE(cuStreamBatchMemOp_v2(stream, 1000, ops, 0), BAD);
    CODE(cuStreamBatchMemOp_v2(stream, 1000, NULL, 0), BAD);
    TRY(cuGraphCreate(&graph, 0));
    params.ctx = ctx;
    params.count = MOST;
    TRY(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    for (unsigned i = 256; i < 260; i++) {
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                 .memOp = {ctx, i, ops, 0}};

        params.count = i;
        CODE(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params), BAD);
        CODE(cuGraphBatchMemOpNodeSetParams(node, &params), BAD);
        CODE(cuGraphAddNode(&node, graph, NULL, 0, &any), BAD);
    }
    TRY(cuGraphDestroy(graph));
    TRY(cuMemFree_v2(mem));
    return 0;
}

/* ---- launches ---------------------------------------------------------------------
 */

static int
cooperative_launches(void)
{
    CUDA_LAUNCH_PARAMS p = {.gridDimX = 1,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = 1,
                            .blockDimY = 1,
                            .blockDimZ = 1};
    CUDA_LAUNCH_PARAMS two[2];
    unsigned int *const shape[] = {
        &two[1].gridDimX,  &two[1].gridDimY,  &two[1].gridDimZ,      &two[1].blockDimX,
        &two[1].blockDimY, &two[1].blockDimZ, &two[1].sharedMemBytes};

    if (begin())
        return 1;
    p.function = nothing;
    p.hStream = stream;
    for (unsigned flags = 0; flags < 4; flags++) {
        TRY(cuLaunchCooperativeKernelMultiDevice(&p, 1, flags));
        TRY(cuStreamSynchronize(stream));
    }
    CODE(cuLaunchCooperativeKernelMultiDevice(&p, 1, 4), BAD);
    CODE(cuLaunchCooperativeKernelMultiDevice(&p, 1, 0x80000001), BAD);
    CODE(cuLaunchCooperativeKernelMultiDevice(&p, 0, 0), BAD);
    CODE(cuLaunchCooperativeKernelMultiDevice(NULL, 1, 0), BAD);
    two[0] = two[1] = p;
    for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
        (*shape[i])++; /* all launches have one shape */
        CODE(cuLaunchCooperativeKernelMultiDevice(two, 2, 0), BAD);
        (*shape[i])--;
    }
    for (size_t i = 0; i < 3; i++) { /* in no default stream */
        static const CUstream none[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

        p.hStream = none[i];
        CODE(cuLaunchCooperativeKernelMultiDevice(&p, 1, 0), CUDA_ERROR_INVALID_HANDLE);
    }
    return 0;
}

static CUresult
launched(CUlaunchAttributeID id, const CUlaunchAttributeValue *value)
{
    CUlaunchAttribute attr = {.id = id, .value = *value};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attr,
                             .numAttrs = 1};

    return settled(cuLaunchKernelEx(&config, nothing, NULL, NULL));
}

/* A stream, a node and a launch say the same about @value. */
static int
domains_are(CUgraphNode node, CUlaunchAttributeID id,
            const CUlaunchAttributeValue *value, CUresult expected)
{
    CODE(cuStreamSetAttribute(stream, id, value), expected);
    CODE(cuGraphKernelNodeSetAttribute(node, id, value), expected);
    CODE(launched(id, value), expected);
    return 0;
}

static int
domains_that_the_card_has(void)
{
    const CUlaunchAttributeID map = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
                              domain = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUlaunchAttributeValue value = {0};
    CUgraphNode node;
    CUgraph graph;
    int count;

    if (begin())
        return 1;
    TRY(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, dev));
    printf("  %d domains\n", count);
    p.func = nothing;
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p));
    TRY(cuStreamGetAttribute(stream, map, &value));
    SAME(value.memSyncDomainMap.default_, 0);
    SAME(value.memSyncDomainMap.remote, count > 1);
    SAME(domains_are(node, map, &value, CUDA_SUCCESS), 0);
    TRY(cuGraphKernelNodeGetAttribute(node, map, &value));
    SAME(value.memSyncDomainMap.remote, count > 1);
    value.memSyncDomainMap.default_ = (unsigned char)(count - 1);
    value.memSyncDomainMap.remote = 0;
    SAME(domains_are(node, map, &value, CUDA_SUCCESS), 0);
    value.memSyncDomainMap.default_ = (unsigned char)count;
    SAME(domains_are(node, map, &value, BAD), 0);
    value.memSyncDomainMap.default_ = 0;
    value.memSyncDomainMap.remote = (unsigned char)count;
    SAME(domains_are(node, map, &value, BAD), 0);
    value.memSyncDomainMap.remote = 255;
    SAME(domains_are(node, map, &value, BAD), 0);
    memset(&value, 0, sizeof(value));
    TRY(cuStreamGetAttribute(stream, map, &value)); /* as it was set last */
    SAME(value.memSyncDomainMap.default_, count - 1);
    SAME(value.memSyncDomainMap.remote, 0);
    memset(&value, 0, sizeof(value));
    value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE; /* of any card */
    SAME(domains_are(node, domain, &value, CUDA_SUCCESS), 0);
    value.memSyncDomain = (CUlaunchMemSyncDomain)2;
    SAME(domains_are(node, domain, &value, BAD), 0);
    TRY(cuGraphDestroy(graph));
    return 0;
}

/* ---- clones of graphs --------------------------------------------------------------
 */

static int
nodes_of_clones(void)
{
    CUgraph graph, clone, second, of_clone, other;
    CUgraphNode first, last, late, in_clone, in_second, found;

    if (begin())
        return 1;
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    TRY(cuGraphAddEmptyNode(&last, graph, &first, 1));
    TRY(cuGraphClone(&clone, graph));
    TRY(cuGraphClone(&second, graph));
    TRY(cuGraphClone(&of_clone, clone));
    TRY(cuGraphNodeFindInClone(&in_clone, first, clone));
    TRY(cuGraphNodeFindInClone(&in_second, first, second));
    SAME(in_clone != first && in_second != first && in_clone != in_second, 1);
    TRY(cuGraphNodeFindInClone(&found, in_clone, of_clone));
    SAME(found != in_clone && found != first, 1);
    CODE(cuGraphNodeFindInClone(&found, first, of_clone), BAD);  /* of a clone */
    CODE(cuGraphNodeFindInClone(&found, in_clone, graph), BAD);  /* the original */
    CODE(cuGraphNodeFindInClone(&found, in_clone, second), BAD); /* a sibling */
    CODE(cuGraphNodeFindInClone(&found, in_clone, clone), BAD);  /* itself */
    CODE(cuGraphNodeFindInClone(&found, first, graph), BAD);
    TRY(cuGraphAddEmptyNode(&late, graph, NULL, 0));
    CODE(cuGraphNodeFindInClone(&found, late, clone), BAD); /* it was not there */
    TRY(cuGraphNodeFindInClone(&found, last, clone));
    TRY(cuGraphDestroyNode(found));
    CODE(cuGraphNodeFindInClone(&found, last, clone), BAD); /* it is gone */
    TRY(cuGraphNodeFindInClone(&found, last, second));
    TRY(cuGraphCreate(&other, 0));
    CODE(cuGraphNodeFindInClone(&found, first, other), BAD);
    TRY(cuGraphDestroy(clone));
    CODE(cuGraphNodeFindInClone(&found, first, of_clone), BAD);
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphDestroy(second));
    TRY(cuGraphDestroy(of_clone));
    TRY(cuGraphDestroy(other));
    return 0;
}

/* The graphs within a clone are clones of those within the original. */
static int
nodes_of_children_of_clones(void)
{
    CUgraph child, graph, clone, inside, inside_clone;
    CUgraphNode node, found, parent;
    size_t n = 1;

    if (begin())
        return 1;
    TRY(cuGraphCreate(&child, 0));
    TRY(cuGraphAddEmptyNode(&node, child, NULL, 0));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddChildGraphNode(&parent, graph, NULL, 0, child));
    TRY(cuGraphChildGraphNodeGetGraph(parent, &inside));
    TRY(cuGraphClone(&clone, graph));
    TRY(cuGraphNodeFindInClone(&parent, parent, clone));
    TRY(cuGraphChildGraphNodeGetGraph(parent, &inside_clone));
    TRY(cuGraphGetNodes(inside, &node, &n));
    TRY(cuGraphNodeFindInClone(&found, node, inside_clone));
    TRY(cuGraphDestroy(clone));
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphDestroy(child));
    return 0;
}

/* The call that ends it says so, and none behind that. */
static int
what_a_capture_refused_ends_with_it(void)
{
    CUgraph graph = NULL;
    CUstream blocking;
    CUdeviceptr word;

    if (begin())
        return 1;
    TRY(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    TRY(cuMemAlloc_v2(&word, 8));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CODE(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    (void)cuMemsetD32Async(word, 1, 1, stream); /* may say so, or its capture may */
    CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    SAME(graph == NULL, 1);
    TRY(cuStreamSynchronize(stream));
    TRY(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    (void)cuMemsetD32Async(word, 1, 1, NULL);
    CODE(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    TRY(cuCtxSynchronize());
    TRY(cuMemFree_v2(word));
    return 0;
}

/* A call that was refused is reported by itself, or by the capture that is begun behind
 * it: that one is not begun then. */
static int
capture_behind_a_refused_call(void)
{
    CUstreamCaptureStatus status;
    CUdeviceptr mem;
    CUgraph graph;
    CUresult r;

    if (begin())
        return 1;
    TRY(cuMemAlloc_v2(&mem, 4));
    for (unsigned i = 0; i < 256; i++) {
        ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[i].writeValue.address = mem;
    }
    r = cuStreamBatchMemOp_v2(stream, 256, ops, 0);
    if (r == CUDA_SUCCESS)
        r = cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    SAME(r, BAD);
    TRY(cuStreamIsCapturing(stream, &status));
    SAME(status, CU_STREAM_CAPTURE_STATUS_NONE);
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphDestroy(graph));
    return 0;
}

/* ---- captures in a context that has failed ------------------------------------------
 */

static int
capture_after_a_trap(void)
{
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;

    if (begin())
        return 1;
    TRY(cuLaunchKernel(stop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    CODE(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
    CODE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
         CUDA_ERROR_LAUNCH_FAILED);
    CODE(cuStreamIsCapturing(stream, &status), CUDA_ERROR_LAUNCH_FAILED);
    CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_LAUNCH_FAILED);
    SAME(graph == NULL, 1);
    return 0;
}

/* The trap is known to the card alone. */
static int
capture_right_after_a_trap(void)
{
    CUresult r;

    if (begin())
        return 1;
    TRY(cuLaunchKernel(stop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    do {
        r = cuStreamQuery(stream);
    } while (r == CUDA_ERROR_NOT_READY);
    SAME(r, CUDA_ERROR_LAUNCH_FAILED);
    CODE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
         CUDA_ERROR_LAUNCH_FAILED);
    return 0;
}

/* A trap that nothing has asked about yet. */
static int
capture_while_a_trap_is_unknown(void)
{
    if (begin())
        return 1;
    TRY(cuLaunchKernel(stop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    usleep(300000);
    CODE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
         CUDA_ERROR_LAUNCH_FAILED);
    return 0;
}

/* ---- block sizes ------------------------------------------------------------------
 */

static size_t
shared_of_block(int threads)
{
    return (size_t)threads * 64;
}

/* The size that keeps most threads resident, by the other call's answers. */
static int
best_of(CUoccupancyB2DSize b2d, size_t shared)
{
    int grid = -1, block = -1, sms, n;

    TRY(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
    TRY(cuOccupancyMaxPotentialBlockSize(&grid, &block, nothing, b2d, shared, 0));
    n = 0;
    if (block)
        TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, block,
                                                        b2d ? b2d(block) : shared));
    SAME(grid, n * sms);
    for (int size = 32; size <= 1024; size += 32) {
        int other;

        TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&other, nothing, size,
                                                        b2d ? b2d(size) : shared));
        SAME(other * size <= n * block, 1);
    }
    return 0;
}

static int
best_block_sizes(void)
{
    CUfunction_attribute carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                         most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    static const size_t shared[] = {0, 4000, 20000, 40000};

    if (begin())
        return 1;
    for (int percent = 0; percent <= 100; percent += 50) {
        TRY(cuFuncSetAttribute(nothing, carveout, percent));
        for (int i = 0; i < 4; i++)
            if (best_of(NULL, shared[i]))
                return 1;
        if (best_of(shared_of_block, 0))
            return 1;
    }
    TRY(cuFuncSetAttribute(nothing, most, 16384)); /* 256 threads of the last */
    return best_of(shared_of_block, 0) || best_of(NULL, 20000);
}

int
main(void)
{
    static const struct part parts[] = {
        {"operations of a batch", operations_of_a_batch},
        {"cooperative launches", cooperative_launches},
        {"domains", domains_that_the_card_has},
        {"best block sizes", best_block_sizes},
        {"nodes of clones", nodes_of_clones},
        {"nodes of children of clones", nodes_of_children_of_clones},
        {"what a capture refused", what_a_capture_refused_ends_with_it},
        {"a capture behind a refused call", capture_behind_a_refused_call},
        {"a capture after a trap", capture_after_a_trap},
        {"a capture right after a trap", capture_right_after_a_trap},
        {"a capture while a trap is unknown", capture_while_a_trap_is_unknown},
    };

    return parts_run_apart(parts, sizeof(parts) / sizeof(parts[0]));
}
