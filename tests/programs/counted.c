/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When memory that has several owners begins and ends to count: physical memory with
 * references and mappings, memory that graphs allocate.  Looks at cuMemGetInfo after
 * every step; the session must have nothing else in it.
 */
#include "prog.h"

#define BYTES ((size_t)2 << 20)

static CUdevice the_device;
static size_t at_first;
static int failures;

static size_t
free_now(void)
{
    size_t available, total;

    CU(cuMemGetInfo(&available, &total));
    return available;
}

/* So much must be counted now. */
static void
counted(size_t bytes, const char *when)
{
    size_t got = at_first - free_now();

    if (got == bytes)
        return;
    printf("%s: %zu bytes are counted, not %zu\n", when, got, bytes);
    failures++;
}

/* Three references and a mapping, let go of in an order in which each is the last of
 * its kind once. */
static void
physical(void)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device}};
    CUmemGenericAllocationHandle first, second, third;
    CUdeviceptr at;

    CU(cuMemCreate(&first, BYTES, &prop, 0));
    counted(BYTES, "created");
    CU(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    CU(cuMemMap(at, BYTES, 0, first, 0));
    counted(BYTES, "mapped");
    CU(cuMemRetainAllocationHandle(&second, (void *)(uintptr_t)at));
    counted(BYTES, "retained");
    CU(cuMemRelease(second));
    CU(cuMemRelease(first));
    counted(BYTES, "only mapped");
    CU(cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)at));
    counted(BYTES, "retained again");
    CU(cuMemUnmap(at, BYTES));
    counted(BYTES, "only retained");
    CU(cuMemMap(at, BYTES, 0, third, 0));
    CU(cuMemRelease(third));
    CU(cuMemUnmap(at, BYTES));
    counted(0, "let go of");
    CU(cuMemAddressFree(at, BYTES));
}

static CUdeviceptr
add_alloc(CUgraph graph, CUgraphNode *ret_node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS node = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, the_device}},
        .bytesize = BYTES};

    CU(cuGraphAddMemAllocNode(ret_node, graph, NULL, 0, &node));
    return node.dptr;
}

static CUgraphExec
executable(CUgraph graph)
{
    CUgraphExec exec;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void
run(CUgraphExec exec)
{
    CU(cuGraphLaunch(exec, NULL));
    CU(cuCtxSynchronize());
}

/* What a graph allocates and frees counts while it can be launched. */
static void
graph_alone(void)
{
    CUgraphNode alloc, freed;
    CUgraphExec exec;
    CUgraph graph;
    CUdeviceptr at;

    CU(cuGraphCreate(&graph, 0));
    at = add_alloc(graph, &alloc);
    CU(cuGraphAddMemFreeNode(&freed, graph, &alloc, 1, at));
    counted(0, "a node of a graph that cannot be launched");
    exec = executable(graph);
    counted(BYTES, "graph made executable");
    run(exec);
    run(exec);
    counted(BYTES, "graph launched twice");
    CU(cuGraphDestroy(graph));
    counted(BYTES, "graph destroyed, its executable not");
    CU(cuGraphExecDestroy(exec));
    counted(0, "executable graph destroyed");
}

/* What it leaves allocated counts until it is freed, by a call or by another graph. */
static void
graph_leaves(void (*let_go)(CUdeviceptr at), const char *how)
{
    CUgraphNode alloc;
    CUgraphExec exec;
    CUgraph graph;
    CUdeviceptr at;

    CU(cuGraphCreate(&graph, 0));
    at = add_alloc(graph, &alloc);
    exec = executable(graph);
    run(exec);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    counted(BYTES, "what a graph left allocated");
    let_go(at);
    counted(0, how);
}

static void
by_call(CUdeviceptr at)
{
    CU(cuMemFree(at));
}

static void
in_order(CUdeviceptr at)
{
    CU(cuMemFreeAsync(at, NULL));
    CU(cuCtxSynchronize());
}

static void
by_graph(CUdeviceptr at)
{
    CUgraphNode freed;
    CUgraphExec exec;
    CUgraph graph;

    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddMemFreeNode(&freed, graph, NULL, 0, at));
    exec = executable(graph);
    counted(BYTES, "freed by a graph that was not launched");
    run(exec);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
}

int
main(void)
{
    CUcontext context;

    CU(cuInit(0));
    CU(cuDeviceGet(&the_device, 0));
    CU(cuCtxCreate(&context, 0, the_device));
    at_first = free_now();
    physical();
    graph_alone();
    graph_leaves(by_call, "freed by a call");
    graph_leaves(in_order, "freed in a stream's order");
    graph_leaves(by_graph, "freed by another graph");
    CU(cuCtxDestroy(context));
    return failures != 0;
}
