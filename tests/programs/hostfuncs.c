/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program in stream order: those that a graph captured run at each of
 * its launches, and calls that give memory back while one is pending return.
 *
 * Knows CUDA and nothing of gpupool.
 */
#include "parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define LAUNCHES 50
#define SIZE ((size_t)1 << 20)
#define CHAR(c) ((void *)(intptr_t)(c))

static CUcontext ctx;
static CUstream stream;

static char order[256];
static atomic_uint n_order;

static void
note(char what)
{
    order[atomic_fetch_add(&n_order, 1) % sizeof(order)] = what;
}

static void
say(void *what)
{
    note((char)(intptr_t)what);
}

static void
say_as_callback(CUstream of, CUresult status, void *what)
{
    (void)of;
    note(status == CUDA_SUCCESS ? (char)(intptr_t)what : '!');
}

/* A graph that says "ab". */
static int
capture_ab(CUgraph *ret)
{
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    TRY(cuLaunchHostFunc(stream, say, CHAR('a')));
    TRY(cuLaunchHostFunc(stream, say, CHAR('b')));
    TRY(cuStreamEndCapture(stream, ret));
    return 0;
}

static int
launches_say(CUgraphExec exec, unsigned times, const char *what)
{
    size_t len = strlen(what);

    atomic_store(&n_order, 0);
    for (unsigned i = 0; i < times; i++)
        TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    SAME(n_order, times * len);
    for (unsigned i = 0; i < times * len; i++)
        SAME(order[i], what[i % len]);
    return 0;
}

static int
captured_functions_run_at_each_launch(void)
{
    CUgraphExec exec;
    CUgraph graph;

    if (capture_ab(&graph))
        return 1;
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    if (launches_say(exec, LAUNCHES, "ab"))
        return 1;
    TRY(cuGraphDestroy(graph));
    if (launches_say(exec, LAUNCHES, "ab"))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

static int
clones_and_children_run_them_too(void)
{
    CUgraph graph, clone, parent;
    CUgraphExec exec, whole;
    CUgraphNode first, second;

    if (capture_ab(&graph))
        return 1;
    TRY(cuGraphClone(&clone, graph));
    TRY(cuGraphCreate(&parent, 0));
    TRY(cuGraphAddChildGraphNode(&first, parent, NULL, 0, graph));
    TRY(cuGraphAddChildGraphNode(&second, parent, &first, 1, clone));
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphInstantiateWithFlags(&exec, clone, 0));
    TRY(cuGraphDestroy(clone));
    TRY(cuGraphInstantiateWithFlags(&whole, parent, 0));
    TRY(cuGraphDestroy(parent));
    if (launches_say(exec, 3, "ab") || launches_say(whole, 3, "abab"))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphExecDestroy(whole));
    return 0;
}

static int
updates_bring_their_functions_along(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraph graph, other;
    CUgraphExec exec;

    if (capture_ab(&graph))
        return 1;
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    TRY(cuLaunchHostFunc(stream, say, CHAR('c')));
    TRY(cuLaunchHostFunc(stream, say, CHAR('d')));
    TRY(cuStreamEndCapture(stream, &other));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphDestroy(graph));
    if (launches_say(exec, 2, "ab"))
        return 1;
    TRY(cuGraphExecUpdate_v2(exec, other, &info));
    TRY(cuGraphDestroy(other));
    if (launches_say(exec, 20, "cd"))
        return 1;
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void
pass_the_gate(void *arg)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    say(arg);
}

static int
graphs_destroyed_while_they_run_end_first(void)
{
    CUgraphExec exec;
    CUgraph graph;

    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    TRY(cuLaunchHostFunc(stream, pass_the_gate, CHAR('a')));
    TRY(cuLaunchHostFunc(stream, say, CHAR('b')));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    atomic_store(&n_order, 0);
    pthread_mutex_lock(&gate);
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    pthread_mutex_unlock(&gate);
    TRY(cuStreamSynchronize(stream));
    SAME(n_order, 2);
    SAME(order[0] == 'a' && order[1] == 'b', 1);
    return 0;
}

/* More than may be registered at a time. */
static int
graphs_that_are_gone_leave_no_functions(void)
{
    CUgraph graph;

    for (unsigned i = 0; i < 700; i++) {
        TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        for (unsigned k = 0; k < 100; k++)
            TRY(cuLaunchHostFunc(stream, say, CHAR('x')));
        TRY(cuStreamEndCapture(stream, &graph));
        TRY(cuGraphDestroy(graph));
    }
    return 0;
}

static int
callbacks_of_a_stream_come_in_order(void)
{
    atomic_store(&n_order, 0);
    for (unsigned i = 0; i < 100; i++) {
        TRY(cuStreamAddCallback(stream, say_as_callback, CHAR('a'), 0));
        TRY(cuLaunchHostFunc(stream, say, CHAR('b')));
    }
    TRY(cuStreamSynchronize(stream));
    SAME(n_order, 200);
    for (unsigned i = 0; i < 200; i++)
        SAME(order[i], "ab"[i % 2]);
    return 0;
}

/* The function ends by itself: a driver may wait for it inside the call, which then
 * must be able to have it run. */
static int
memory_is_given_back_while_functions_are_pending(void)
{
    uint8_t *mine = aligned_alloc(4096, SIZE), *theirs;
    CUdeviceptr device;

    TRY(cuMemAlloc_v2(&device, SIZE));
    for (unsigned i = 0; i < 10; i++) {
        atomic_store(&n_order, 0);
        TRY(cuMemHostRegister_v2(mine, SIZE, 0));
        TRY(cuMemHostAlloc((void **)&theirs, SIZE, 0));
        TRY(cuMemcpyHtoDAsync_v2(device, theirs, SIZE, stream));
        TRY(cuLaunchHostFunc(stream, say, CHAR('a')));
        TRY(cuMemcpyDtoHAsync_v2(mine, device, SIZE, stream));
        for (unsigned k = 0; k < 100; k++)
            TRY(cuLaunchHostFunc(stream, say, CHAR('b')));
        TRY(cuMemFreeHost(theirs));
        TRY(cuMemHostUnregister(mine));
        TRY(cuStreamSynchronize(stream));
        SAME(n_order, 101);
    }
    TRY(cuMemFree_v2(device));
    free(mine);
    return 0;
}

static void
take_a_while(void *arg)
{
    usleep(2000);
    atomic_store((atomic_uint *)arg, 1);
}

/* A driver may free when the function has run: the capture that began meanwhile, which
 * forbids frees, began after the call. */
static int
frees_that_wait_disturb_no_capture(void)
{
    CUstream captured;
    CUdeviceptr device;
    atomic_uint over;
    CUgraph graph;

    TRY(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 20; i++) {
        TRY(cuMemAlloc_v2(&device, SIZE));
        atomic_store(&over, 0);
        TRY(cuLaunchHostFunc(stream, take_a_while, &over));
        TRY(cuMemFree_v2(device));
        TRY(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
        while (!atomic_load(&over))
            usleep(100);
        for (unsigned k = 0; k < 100; k++)
            TRY(cuLaunchHostFunc(captured, say, CHAR('a')));
        TRY(cuStreamEndCapture(captured, &graph));
        SAME(graph != NULL, 1);
        TRY(cuGraphDestroy(graph));
    }
    TRY(cuStreamDestroy_v2(captured));
    return 0;
}

/* A destroyed stream cannot be named any more; its work goes on, and waits for the
 * context and frees of memory still include it.  While they wait the function runs. */
static int
work_of_destroyed_streams_is_awaited(void)
{
    for (unsigned flags = 0; flags < 2; flags++) {
        for (unsigned way = 0; way < 3; way++) {
            CUdeviceptr device;
            CUstream gone;
            atomic_uint over = 0;

            TRY(cuMemAlloc_v2(&device, 4096));
            TRY(cuStreamCreate(&gone, flags));
            TRY(cuLaunchHostFunc(gone, take_a_while, &over));
            TRY(cuStreamDestroy_v2(gone));
            if (way == 0)
                TRY(cuMemFree_v2(device));
            if (way == 2 && flags == CU_STREAM_DEFAULT) /* the default stream waits */
                TRY(cuStreamSynchronize(NULL));
            else
                TRY(cuCtxSynchronize());
            SAME(atomic_load(&over), 1);
            if (way != 0)
                TRY(cuMemFree_v2(device));
        }
    }
    return 0;
}

/* A function that ends when the program lets it, which it does from another thread
 * while a call waits, or does not wait, for the function. */
static atomic_uint held, let_go;

static void
hold(void *arg)
{
    (void)arg;
    atomic_store(&held, 1);
    while (!atomic_load(&let_go))
        usleep(100);
    atomic_store(&held, 2);
}

/* The program's other thread: makes calls of its own, in a context of its own, and lets
 * the function go when all of them have been answered. */
static CUcontext others;
static CUstream others_stream;

static void *
call_and_let_go(void *arg)
{
    CUdeviceptr device;
    char byte = 7, back = 0;
    bool ok = true;

    (void)arg;
    ok = ok && cuCtxSetCurrent(others) == CUDA_SUCCESS;
    usleep(20000); /* let the call that is looked at begin */
    for (unsigned i = 0; ok && i < 50; i++) {
        ok = ok && cuMemAlloc_v2(&device, 4096) == CUDA_SUCCESS;
        ok =
            ok && cuMemcpyHtoDAsync_v2(device, &byte, 1, others_stream) == CUDA_SUCCESS;
        ok =
            ok && cuMemcpyDtoHAsync_v2(&back, device, 1, others_stream) == CUDA_SUCCESS;
        ok = ok && cuStreamSynchronize(others_stream) == CUDA_SUCCESS && back == byte;
    }
    atomic_store(&let_go, 1);
    return ok ? NULL : arg;
}

/* Have @end called in a context @in while a function is pending there. */
static int
others_go_on_during(CUresult (*end)(void *what), void *what, CUstream in)
{
    void *failed = NULL;
    pthread_t thread;

    atomic_store(&held, 0);
    atomic_store(&let_go, 0);
    TRY(cuLaunchHostFunc(in, hold, NULL));
    while (!atomic_load(&held))
        usleep(100);
    SAME(pthread_create(&thread, NULL, call_and_let_go, &failed), 0);
    TRY(end(what));
    pthread_join(thread, &failed);
    SAME(failed == NULL, 1);
    while (atomic_load(&held) != 2)
        usleep(100);
    return 0;
}

static CUresult
end_context(void *what)
{
    return cuCtxDestroy_v2(what);
}

static CUresult
end_memory(void *what)
{
    return cuMemFree_v2((uintptr_t)what);
}

static CUresult
end_texture(void *what)
{
    return cuTexObjectDestroy((uintptr_t)what);
}

static CUresult
end_mapping(void *what)
{
    return cuMemUnmap((uintptr_t)what, 2 << 20);
}

static CUresult
end_pool_memory(void *what)
{
    return cuMemPoolTrimTo(what, 0);
}

static CUresult
end_graph_memory(void *what)
{
    return cuDeviceGraphMemTrim((CUdevice)(intptr_t)what);
}

static CUresult
end_primary(void *what)
{
    return cuDevicePrimaryCtxReset_v2((CUdevice)(intptr_t)what);
}

static int
make_mapping(CUdeviceptr *ret)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle piece;

    TRY(cuMemCreate(&piece, 2 << 20, &prop, 0));
    TRY(cuMemAddressReserve(ret, 2 << 20, 0, 0, 0));
    TRY(cuMemMap(*ret, 2 << 20, 0, piece, 0));
    TRY(cuMemRelease(piece));
    return 0;
}

static int
make_texture(CUdeviceptr device, CUtexObject *ret)
{
    CUDA_RESOURCE_DESC of = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUDA_TEXTURE_DESC how = {.flags = 0};

    of.res.linear.devPtr = device;
    of.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    of.res.linear.numChannels = 1;
    of.res.linear.sizeInBytes = 4096;
    TRY(cuTexObjectCreate(ret, &of, &how, NULL));
    return 0;
}

/* Whatever ends while a function is pending, other threads of the program make calls,
 * and the function ends only after them. */
static int
endings_hold_no_other_thread(void)
{
    CUdeviceptr device, mapped;
    CUtexObject texture;
    CUmemoryPool pool;
    CUcontext doomed;
    CUstream in;

    TRY(cuCtxCreate_v2(&others, 0, 0));
    TRY(cuStreamCreate(&others_stream, CU_STREAM_NON_BLOCKING));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuMemAlloc_v2(&device, 4096));
    if (make_texture(device, &texture) || make_mapping(&mapped) ||
        others_go_on_during(end_texture, (void *)(uintptr_t)texture, stream) ||
        others_go_on_during(end_memory, (void *)(uintptr_t)device, stream) ||
        others_go_on_during(end_mapping, (void *)(uintptr_t)mapped, stream))
        return 1;
    TRY(cuDeviceGetDefaultMemPool(&pool, 0));
    if (others_go_on_during(end_pool_memory, pool, stream) ||
        others_go_on_during(end_graph_memory, NULL, stream))
        return 1;
    TRY(cuCtxCreate_v2(&doomed, 0, 0));
    TRY(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
    if (others_go_on_during(end_context, doomed, in))
        return 1;
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamSynchronize(stream));
    if (others_go_on_during(end_primary, NULL, stream)) /* the last: @stream ends */
        return 1;
    TRY(cuCtxDestroy_v2(others));
    return 0;
}

/* More frees than may wait: some of them wait for the card. */
#define FREES 20000

static int
thousands_of_frees_wait_for_the_card(void)
{
    static CUdeviceptr devices[FREES];
    pthread_t thread;

    for (unsigned i = 0; i < FREES; i++)
        TRY(cuMemAlloc_v2(&devices[i], 256));
    TRY(cuCtxCreate_v2(&others, 0, 0));
    TRY(cuStreamCreate(&others_stream, CU_STREAM_NON_BLOCKING));
    TRY(cuCtxSetCurrent(ctx));
    atomic_store(&held, 0);
    atomic_store(&let_go, 0);
    TRY(cuLaunchHostFunc(stream, hold, NULL));
    while (!atomic_load(&held))
        usleep(100);
    SAME(pthread_create(&thread, NULL, call_and_let_go, NULL), 0);
    for (unsigned i = 0; i < FREES; i++)
        TRY(cuMemFree_v2(devices[i]));
    pthread_join(thread, NULL);
    TRY(cuCtxSynchronize());
    TRY(cuMemAlloc_v2(&devices[0], 256));
    TRY(cuMemFree_v2(devices[0]));
    TRY(cuCtxDestroy_v2(others));
    TRY(cuCtxSetCurrent(ctx));
    return 0;
}

/* A context whose frees wait, and one whose frees do not: what the second one hears
 * says nothing about the first.  This part is the first one, so it knows which of the
 * frees the client stub waits for: none has been made before. */
#define ROUNDS 17
#define POSTED 4096 /* by the client stub before it waits for one */

static atomic_uint freed;

/* Lets the function go when the frees are made, or wait for it. */
static void *
let_go_behind_the_frees(void *arg)
{
    unsigned before;

    do {
        before = atomic_load(&freed);
        usleep(300000);
    } while (atomic_load(&freed) != before);
    atomic_store(&let_go, 1);
    return arg;
}

static int
frees_of_a_busy_context_are_counted_apart(void)
{
    static CUdeviceptr busy[ROUNDS * POSTED], idle[ROUNDS];
    pthread_t thread;
    CUcontext quiet;

    for (unsigned i = 0; i < ROUNDS * POSTED; i++)
        TRY(cuMemAlloc_v2(&busy[i], 256));
    TRY(cuCtxCreate_v2(&quiet, 0, 0));
    for (unsigned i = 0; i < ROUNDS; i++)
        TRY(cuMemAlloc_v2(&idle[i], 256));
    TRY(cuCtxSetCurrent(ctx));
    atomic_store(&held, 0);
    atomic_store(&let_go, 0);
    TRY(cuLaunchHostFunc(stream, hold, NULL));
    while (!atomic_load(&held))
        usleep(100);
    atomic_store(&freed, 0);
    SAME(pthread_create(&thread, NULL, let_go_behind_the_frees, NULL), 0);
    for (unsigned i = 0; i < ROUNDS * POSTED; i++) {
        TRY(cuMemFree_v2(busy[i]));
        atomic_fetch_add(&freed, 1);
        if (i % POSTED == POSTED - 1) {
            TRY(cuCtxSetCurrent(quiet));
            TRY(cuMemFree_v2(idle[i / POSTED]));
            TRY(cuCtxSetCurrent(ctx));
        }
    }
    pthread_join(thread, NULL);
    TRY(cuCtxSynchronize());
    TRY(cuCtxDestroy_v2(quiet));
    TRY(cuCtxSetCurrent(ctx));
    return 0;
}

static unsigned char rows_from[4][16], rows_to[4][8];

static void
write_the_source(void *unused)
{
    (void)unused;
    memset(rows_from, 7, sizeof(rows_from));
}

/* Both sides are the program's own memory, and the source is written by a function in
 * front of the copy. */
static int
rectangles_on_the_host_keep_the_order(void)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = rows_from,
                          .srcPitch = sizeof(rows_from[0]),
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = rows_to,
                          .dstPitch = sizeof(rows_to[0]),
                          .WidthInBytes = sizeof(rows_to[0]),
                          .Height = 4};

    TRY(cuLaunchHostFunc(stream, write_the_source, NULL));
    TRY(cuMemcpy2DAsync_v2(&copy, stream));
    TRY(cuStreamSynchronize(stream));
    for (int i = 0; i < 4; i++)
        SAME(rows_to[i][i], 7);
    return 0;
}

static const struct part parts[] = {
    {"rectangles on the host", rectangles_on_the_host_keep_the_order},
    {"frees of two contexts", frees_of_a_busy_context_are_counted_apart},
    {"captured functions", captured_functions_run_at_each_launch},
    {"clones and children", clones_and_children_run_them_too},
    {"updates", updates_bring_their_functions_along},
    {"destroyed while running", graphs_destroyed_while_they_run_end_first},
    {"nothing left behind", graphs_that_are_gone_leave_no_functions},
    {"callbacks", callbacks_of_a_stream_come_in_order},
    {"memory given back", memory_is_given_back_while_functions_are_pending},
    {"destroyed streams", work_of_destroyed_streams_is_awaited},
    {"frees and captures", frees_that_wait_disturb_no_capture},
    {"thousands of frees", thousands_of_frees_wait_for_the_card},
    {"endings", endings_hold_no_other_thread},
};

int
main(void)
{
    CUdevice device;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, device));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
