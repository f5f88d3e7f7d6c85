/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of an executable graph is given a new function more often than any table of
 * them has places (65,536 in a worker), while a launch of it waits: only functions that
 * a launch has taken are kept for it.
 *
 * Knows CUDA and nothing of gpupool.
 */
#include "parts.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define TIMES 70000u

static CUcontext ctx;
static CUstream stream;

/* What the functions were called with, added up. */
static _Atomic uint64_t sum;
static _Atomic int go;

static void
add(void *what)
{
    atomic_fetch_add(&sum, (uintptr_t)what);
}

static void
wait_for_go(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&go))
        usleep(100);
}

static int
functions_that_no_launch_has_taken_go_at_once(void)
{
    CUDA_HOST_NODE_PARAMS params = {.fn = add};
    uint64_t sums = 0;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuLaunchHostFunc(stream, wait_for_go, NULL));
    for (unsigned i = 1; i <= TIMES; i++) {
        params.userData = (void *)(uintptr_t)i;
        TRY(cuGraphExecHostNodeSetParams(exec, node, &params));
        if (i % 10000 == 0) {
            TRY(cuGraphLaunch(exec, stream));
            sums += i;
        }
    }
    atomic_store(&go, 1);
    TRY(cuStreamSynchronize(stream));
    SAME(sum, sums);
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

static const struct part parts[] = {
    {"functions that no launch has taken go at once",
     functions_that_no_launch_has_taken_go_at_once},
};

int
main(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
