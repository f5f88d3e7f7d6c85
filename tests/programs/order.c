/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belongs to a thread (current contexts, default streams, capture modes), and what
 * runs in which order: streams that block each other, host functions, destructors.
 */
#include "parts.h"
#include "strict.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static CUcontext ctx;
static bool strict;

/* Run @fn on a thread of its own; its value. */
static int
elsewhere(int (*fn)(void))
{
    pthread_t thread;
    void *result;

    if (pthread_create(&thread, NULL, (void *(*)(void *))(uintptr_t)fn, NULL) ||
        pthread_join(thread, &result))
        return 1;
    return (int)(intptr_t)result;
}

/* ---- contexts ----------------------------------------------------------------------
 */

static int
begins_without_context(void)
{
    CUcontext now = (CUcontext)1, other;
    CUdeviceptr mem;

    TRY(cuCtxGetCurrent(&now));
    CODE(now != NULL, 0);
    CODE(cuMemAlloc_v2(&mem, 64), CUDA_ERROR_INVALID_CONTEXT);
    CODE(cuCtxPopCurrent_v2(&now), CUDA_ERROR_INVALID_CONTEXT);
    TRY(cuCtxCreate_v2(&other, 0, 0));
    TRY(cuCtxPushCurrent_v2(ctx));
    TRY(cuMemAlloc_v2(&mem, 64));
    TRY(cuMemFree_v2(mem));
    TRY(cuCtxPopCurrent_v2(&now));
    CODE(now != ctx, 0);
    TRY(cuCtxGetCurrent(&now));
    CODE(now != other, 0);
    TRY(cuCtxDestroy_v2(other));
    TRY(cuCtxGetCurrent(&now));
    CODE(now != NULL, 0);
    return 0;
}

static int
contexts(void)
{
    CUcontext now;

    if (elsewhere(begins_without_context))
        return 1;
    TRY(cuCtxGetCurrent(&now));
    CODE(now != ctx, 0);
    if (strict)
        CODE(cuCtxDestroy_v2((CUcontext)(uintptr_t)0x410000ff0000),
             CUDA_ERROR_INVALID_CONTEXT);
    return 0;
}

/* ---- streams that wait for each other -----------------------------------------------
 */

struct gate {
    sem_t open;
};

static void
gate_wait(void *arg)
{
    struct gate *gate = arg;

    sem_wait(&gate->open);
}

static int
default_streams(void)
{
    CUstream blocking, free_one;
    struct gate gate;
    CUevent event;

    sem_init(&gate.open, 0, 0);
    TRY(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    TRY(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cuLaunchHostFunc(blocking, gate_wait, &gate));
    /* The legacy stream waits for blocking streams, and they for it. */
    TRY(cuEventRecord(event, CU_STREAM_LEGACY));
    CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    CODE(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    TRY(cuStreamQuery(free_one));
    sem_post(&gate.open);
    TRY(cuEventSynchronize(event));
    TRY(cuStreamQuery(blocking));
    /* The legacy stream is not held up by one that does not block. */
    TRY(cuLaunchHostFunc(free_one, gate_wait, &gate));
    TRY(cuEventRecord(event, CU_STREAM_LEGACY));
    TRY(cuEventSynchronize(event));
    CODE(cuStreamQuery(free_one), CUDA_ERROR_NOT_READY);
    sem_post(&gate.open);
    TRY(cuStreamSynchronize(free_one));
    TRY(cuEventDestroy_v2(event));
    TRY(cuStreamDestroy_v2(blocking));
    TRY(cuStreamDestroy_v2(free_one));
    sem_destroy(&gate.open);
    return 0;
}

static int
own_stream_is_idle(void)
{
    CUdeviceptr mem;

    TRY(cuCtxSetCurrent(ctx));
    TRY(cuMemAlloc_v2(&mem, 64));
    TRY(cuMemsetD8Async(mem, 3, 64, CU_STREAM_PER_THREAD));
    TRY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    TRY(cuStreamQuery_ptsz(NULL));
    TRY(cuMemFreeAsync(mem, CU_STREAM_PER_THREAD) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                                  : cuMemFree_v2(mem));
    return 0;
}

static int
threads_have_streams_of_their_own(void)
{
    struct gate gate;

    sem_init(&gate.open, 0, 0);
    TRY(cuLaunchHostFunc(CU_STREAM_PER_THREAD, gate_wait, &gate));
    CODE(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    CODE(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
    if (elsewhere(own_stream_is_idle)) {
        sem_post(&gate.open);
        return 1;
    }
    CODE(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    sem_post(&gate.open);
    TRY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    TRY(cuStreamQuery(CU_STREAM_PER_THREAD));
    sem_destroy(&gate.open);
    return 0;
}

/* ---- host functions
 * ------------------------------------------------------------------ */

static struct {
    pthread_t thread;
    unsigned int n;
    int order[8];
    CUresult status;
    CUstream stream;
} seen;

static void
note(void *arg)
{
    seen.thread = pthread_self();
    seen.order[seen.n++ % 8] = (int)(intptr_t)arg;
}

static void
called_back(CUstream stream, CUresult status, void *arg)
{
    seen.stream = stream;
    seen.status = status;
    note(arg);
}

static int
host_functions(void)
{
    CUstream stream;
    CUdeviceptr mem;
    unsigned char byte = 0;

    memset(&seen, 0, sizeof(seen));
    TRY(cuMemAlloc_v2(&mem, 1 << 20));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemsetD8Async(mem, 0x21, 1 << 20, stream));
    TRY(cuLaunchHostFunc(stream, note, (void *)1));
    TRY(cuStreamAddCallback(stream, called_back, (void *)2, 0));
    TRY(cuLaunchHostFunc(stream, note, (void *)3));
    TRY(cuMemcpyDtoHAsync_v2(&byte, mem, 1, stream));
    TRY(cuStreamSynchronize(stream));
    SAME(seen.n, 3);
    SAME(seen.order[0] * 100 + seen.order[1] * 10 + seen.order[2], 123);
    SAME(seen.status, CUDA_SUCCESS);
    CODE(seen.stream != stream, 0);
    CODE(pthread_equal(seen.thread, pthread_self()), 0);
    SAME(byte, 0x21);
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuMemFree_v2(mem));
    return 0;
}

static sem_t destroyed;

static void
destroy(void *arg)
{
    note(arg);
    sem_post(&destroyed);
}

static int
destructors(void)
{
    CUuserObject object;
    CUgraph graph;

    memset(&seen, 0, sizeof(seen));
    sem_init(&destroyed, 0, 0);
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuUserObjectCreate(&object, (void *)9, destroy, 1,
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    TRY(cuCtxSynchronize());
    SAME(seen.n, 0);
    TRY(cuGraphDestroy(graph));
    sem_wait(&destroyed);
    SAME(seen.n, 1);
    SAME(seen.order[0], 9);
    CODE(pthread_equal(seen.thread, pthread_self()), 0);
    sem_destroy(&destroyed);
    return 0;
}

/* ---- capture
 * -------------------------------------------------------------------------- */

static CUresult while_captured;

static int
allocate_elsewhere(void)
{
    CUdeviceptr mem = 0;

    TRY(cuCtxSetCurrent(ctx));
    while_captured = cuMemAlloc_v2(&mem, 64);
    if (while_captured == CUDA_SUCCESS)
        TRY(cuMemFree_v2(mem));
    return 0;
}

static int
mode_elsewhere(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    TRY(cuThreadExchangeStreamCaptureMode(&mode));
    SAME(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* every thread begins with it */
    return 0;
}

/* What an allocation of this thread and one of another give while @mode captures. */
static int
capture(CUstreamCaptureMode mode, CUresult here, CUresult there)
{
    CUstreamCaptureStatus status;
    CUstream stream;
    CUgraph graph = NULL;
    CUdeviceptr mem = 0;
    CUresult mine, end;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamBeginCapture_v2(stream, mode));
    TRY(cuStreamIsCapturing(stream, &status));
    SAME(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CODE(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end = cuStreamEndCapture(stream, &graph);
    CODE(end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    TRY(cuStreamBeginCapture_v2(stream, mode));
    if (elsewhere(allocate_elsewhere))
        return 1;
    SAME(while_captured, there);
    mine = cuMemAlloc_v2(&mem, 64);
    end = cuStreamEndCapture(stream, &graph);
    SAME(mine, here);
    printf("end of the capture: %d\n", (int)end);
    if (mem)
        TRY(cuMemFree_v2(mem));
    if (end == CUDA_SUCCESS)
        TRY(cuGraphDestroy(graph));
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

static int
capture_modes(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

    TRY(cuThreadExchangeStreamCaptureMode(&mode));
    SAME(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (elsewhere(mode_elsewhere))
        return 1;
    TRY(cuThreadExchangeStreamCaptureMode(&mode));
    SAME(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    return 0;
}

static int
captures_and_other_threads(void)
{
    if (capture(CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))
        return 1;
    if (capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_SUCCESS))
        return 1;
    return capture(CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS);
}

/* What allocators do that grow while their own thread captures. */
static int
relaxed_for_a_moment(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr mem, more;
    CUstream stream;
    CUgraph graph;
    size_t nodes = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&mem, 64));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TRY(cuMemsetD8Async(mem, 1, 64, stream));
    TRY(cuThreadExchangeStreamCaptureMode(&mode));
    TRY(cuMemAlloc_v2(&more, 1 << 20));
    TRY(cuThreadExchangeStreamCaptureMode(&mode));
    TRY(cuMemsetD8Async(more, 2, 64, stream));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphGetNodes(graph, NULL, &nodes));
    SAME(nodes, 2);
    TRY(cuGraphDestroy(graph));
    TRY(cuMemFree_v2(mem));
    TRY(cuMemFree_v2(more));
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

/* What leaves a capture as it is, and what ends it. */
static int
streams_of_a_capture(void)
{
    CUstreamCaptureStatus status;
    CUstream stream, other;
    CUdeviceptr mem;
    CUevent event;
    CUgraph graph;
    size_t nodes = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    TRY(cuMemAlloc_v2(&mem, 64));
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int matched = 1; matched >= 0; matched--) {
        TRY(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CODE(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        TRY(cuEventRecord(event, stream));
        TRY(cuStreamWaitEvent(other, event, 0));
        TRY(cuMemsetD8Async(mem, 1, 64, other));
        TRY(cuEventRecord(event, other));
        TRY(cuStreamWaitEvent(stream, event, 0));
        if (!matched) {
            CODE(cuStreamEndCapture(other, &graph),
                 CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
            CODE(cuStreamEndCapture(stream, &graph),
                 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            SAME(graph == NULL, 1);
        }
        TRY(cuStreamDestroy_v2(other));
        if (matched) {
            TRY(cuStreamEndCapture(stream, &graph));
            TRY(cuGraphGetNodes(graph, NULL, &nodes));
            SAME(nodes, 1);
            TRY(cuGraphDestroy(graph));
        }
    }
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                    CU_STREAM_CAPTURE_MODE_GLOBAL));
    TRY(cuMemsetD8Async(mem, 2, 64, stream));
    TRY(cuStreamEndCapture(stream, NULL)); /* the graph is ours already */
    TRY(cuGraphGetNodes(graph, NULL, &nodes));
    SAME(nodes, 1);
    TRY(cuGraphDestroy(graph));
    CODE(cuStreamEndCapture(stream, NULL), CUDA_ERROR_ILLEGAL_STATE);
    TRY(cuEventDestroy_v2(event));
    TRY(cuMemFree_v2(mem));
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

/* The edges that a captured node gets: what the capture was told, and no other. */
static int
edges_of_a_capture(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry nothing() { ret; }\n";
    static const CUgraphEdgeData early = {
        .from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
        .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    CUgraphEdgeData edges[8], ordinary = {0};
    const CUgraphEdgeData *now = NULL;
    CUgraphNode first, from[8], to[8];
    const CUgraphNode *deps;
    CUstreamCaptureStatus status;
    size_t n = 8;
    CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1};
    CUmodule module;
    CUstream stream;
    CUgraph graph, same;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&params.func, module, "nothing"));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &params));
    TRY(cuStreamBeginCaptureToGraph(stream, graph, &first, &early, 1,
                                    CU_STREAM_CAPTURE_MODE_GLOBAL));
    CODE(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &same, &deps, &n),
         CUDA_ERROR_LOSSY_QUERY);
    TRY(cuStreamGetCaptureInfo_v3(stream, &status, NULL, &same, &deps, &now, &n));
    SAME(n, 1);
    SAME(memcmp(&now[0], &early, sizeof(early)), 0);
    TRY(cuLaunchKernel(params.func, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    TRY(cuStreamGetCaptureInfo_v3(stream, &status, NULL, &same, &deps, &now, &n));
    SAME(n, 1);
    from[0] = deps[0];
    TRY(cuStreamUpdateCaptureDependencies_v2(stream, from, &early, 1,
                                             CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    from[0] = first;
    TRY(cuStreamUpdateCaptureDependencies_v2(stream, from, &ordinary, 1,
                                             CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    TRY(cuLaunchKernel(params.func, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    TRY(cuStreamEndCapture(stream, &same));
    n = 8;
    TRY(cuGraphGetEdges_v2(graph, from, to, edges, &n));
    SAME(n, 3);
    for (size_t i = 0; i < n; i++)
        printf("edge from the %s: type %d, port %d\n",
               from[i] == first ? "first" : "second", edges[i].type,
               edges[i].from_port);
    TRY(cuGraphDestroy(graph));
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuModuleUnload(module));
    return 0;
}

/* ---- launches in a row
 * ---------------------------------------------------------------
 */

/* Writes @value behind those that are there. */
static const char append_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry append(.param .u64 list, .param .u32 value)\n"
    "{\n"
    "    .reg .u64 %list, %at;\n"
    "    .reg .u32 %n, %value;\n"
    "    ld.param.u64 %list, [list];\n"
    "    ld.param.u32 %value, [value];\n"
    "    ld.global.u32 %n, [%list];\n"
    "    mul.wide.u32 %at, %n, 4;\n"
    "    add.u64 %at, %at, %list;\n"
    "    st.global.u32 [%at+4], %value;\n"
    "    add.u32 %n, %n, 1;\n"
    "    st.global.u32 [%list], %n;\n"
    "    ret;\n"
    "}\n";

#define IN_A_ROW 100u

static CUresult
append(CUfunction function, CUdeviceptr list, unsigned value, unsigned shared)
{
    void *params[] = {&list, &value};

    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, shared, NULL, params, NULL);
}

static int
list_is(CUdeviceptr list, unsigned n)
{
    unsigned got[4 * IN_A_ROW];

    TRY(cuMemcpyDtoH_v2(got, list, sizeof(got)));
    SAME(got[0], n);
    for (unsigned i = 0; i < n; i++)
        SAME(got[1 + i], i);
    return 0;
}

static int
launches_in_a_row(void)
{
    CUresult first = CUDA_SUCCESS;
    CUfunction function;
    CUdeviceptr list;
    CUmodule module;

    TRY(cuMemAlloc_v2(&list, 4 * IN_A_ROW * sizeof(unsigned)));
    TRY(cuMemsetD8_v2(list, 0, 4 * IN_A_ROW * sizeof(unsigned)));
    TRY(cuModuleLoadData(&module, append_ptx));
    TRY(cuModuleGetFunction(&function, module, "append"));
    for (unsigned i = 0; i < IN_A_ROW; i++)
        TRY(append(function, list, i, 0));
    if (list_is(list, IN_A_ROW))
        return 1;
    /* Each differs from its neighbour by more than a parameter. */
    for (unsigned i = IN_A_ROW; i < 2 * IN_A_ROW; i++)
        TRY(append(function, list, i, i % 2 * 16));
    if (list_is(list, 2 * IN_A_ROW))
        return 1;
    /* What fails is heard of once, and what is behind it is done. */
    for (unsigned i = 0; i < IN_A_ROW; i++) {
        CUresult r = append(function, list, 0, 1u << 30);

        first = first == CUDA_SUCCESS ? r : first;
    }
    for (unsigned i = 2 * IN_A_ROW; i < 3 * IN_A_ROW; i++)
        TRY(append(function, list, i, 0));
    CODE(settled(first), CUDA_ERROR_INVALID_VALUE);
    if (list_is(list, 3 * IN_A_ROW))
        return 1;
    /* The function that was launched last is another module's next time. */
    TRY(cuModuleUnload(module));
    if (strict)
        CODE(append(function, list, 0, 0), CUDA_ERROR_INVALID_HANDLE);
    TRY(cuModuleLoadData(&module, append_ptx));
    TRY(cuModuleGetFunction(&function, module, "append"));
    TRY(append(function, list, 3 * IN_A_ROW, 0));
    if (list_is(list, 3 * IN_A_ROW + 1))
        return 1;
    TRY(cuModuleUnload(module));
    TRY(cuMemFree_v2(list));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"contexts are a thread's", contexts},
        {"default streams", default_streams},
        {"threads have streams of their own", threads_have_streams_of_their_own},
        {"host functions", host_functions},
        {"destructors", destructors},
        {"capture modes are a thread's", capture_modes},
        {"captures and other threads", captures_and_other_threads},
        {"relaxed for a moment", relaxed_for_a_moment},
        {"streams of a capture", streams_of_a_capture},
        {"edges of a capture", edges_of_a_capture},
        {"launches in a row", launches_in_a_row},
    };

    strict = strict_asked(argc, argv);
    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS)
        return 1;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
