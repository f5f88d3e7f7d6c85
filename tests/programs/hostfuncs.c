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
#include <stdint.h>

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

static const struct part parts[] = {
    {"captured functions", captured_functions_run_at_each_launch},
    {"clones and children", clones_and_children_run_them_too},
    {"updates", updates_bring_their_functions_along},
    {"destroyed while running", graphs_destroyed_while_they_run_end_first},
    {"nothing left behind", graphs_that_are_gone_leave_no_functions},
    {"callbacks", callbacks_of_a_stream_come_in_order},
    {"memory given back", memory_is_given_back_while_functions_are_pending},
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
