/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of many nodes on the software GPU: whatever is done to each node or edge costs
 * about the same in a graph of ten times as many.
 *
 * What is compared is processor time of the calling thread, which other load on the
 * machine hardly changes.  Work per node that grows with the graph would be a hundred
 * times as long for ten times the nodes, and fifty are tolerated.
 */
#include "ut_sgapi.h"

#include "gp_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SMALL = 2000,
    LARGE = 10 * SMALL,
};

/* How many times as long it may take. */
#define TIMES ((uint64_t)50)
/* What the small graph is taken to need at least: a pause of the thread is not mistaken
 * for more. */
#define LEAST_US ((uint64_t)400)

struct shape {
    const char *name;
    size_t (*edges)(size_t n);
};

static struct ut_sg sg;
static CUdeviceptr buf;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode node[LARGE], from[4 * LARGE], to[4 * LARGE], list[LARGE];
static CUgraphNode head[4 * LARGE], tail[4 * LARGE];

static int
open_card(void **state)
{
    ut_sg_open(&sg, 0);
    ok(cuMemAlloc_v2(&buf, 256));
    return 0;
}

static int
close_card(void **state)
{
    ut_sg_close(&sg);
    return 0;
}

static uint64_t
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- shapes ---- */

static size_t
chain(size_t n)
{
    memcpy(from, node, (n - 1) * sizeof(*node));
    memcpy(to, node + 1, (n - 1) * sizeof(*node));
    return n - 1;
}

static size_t
fan_out(size_t n)
{
    for (size_t i = 1; i < n; i++)
        from[i - 1] = node[0];
    memcpy(to, node + 1, (n - 1) * sizeof(*node));
    return n - 1;
}

static size_t
fan_in(size_t n)
{
    memcpy(from, node, (n - 1) * sizeof(*node));
    for (size_t i = 0; i < n - 1; i++)
        to[i] = node[n - 1];
    return n - 1;
}

/* Each node of a layer of four comes after all of the layer before. */
static size_t
layers(size_t n)
{
    size_t n_edges = 0;

    for (size_t i = 4; i < n; i++)
        for (size_t k = 0; k < 4; k++) {
            from[n_edges] = node[(i / 4 - 1) * 4 + k];
            to[n_edges++] = node[i];
        }
    return n_edges;
}

/* ---- what is done to them ---- */

static CUDA_MEMSET_NODE_PARAMS
fill_buf(void)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = buf, .elementSize = 4, .width = 1, .height = 1, .value = 1};
}

static void
add_nodes(size_t n, size_t n_edges)
{
    CUDA_MEMSET_NODE_PARAMS p = fill_buf();

    ok(cuGraphCreate(&graph, 0));
    for (size_t i = 0; i < n; i++)
        ok(cuGraphAddMemsetNode(&node[i], graph, NULL, 0, &p, sg.ctx));
}

static void
add_edges(size_t n, size_t n_edges)
{
    ok(cuGraphAddDependencies(graph, from, to, n_edges));
}

static void
remove_edges(size_t n, size_t n_edges)
{
    for (size_t i = 0; i < n_edges; i++)
        ok(cuGraphRemoveDependencies(graph, &from[i], &to[i], 1));
}

static void
add_edges_one_by_one(size_t n, size_t n_edges)
{
    for (size_t i = 0; i < n_edges; i++)
        ok(cuGraphAddDependencies(graph, &from[i], &to[i], 1));
}

static void
ask_for_neighbours(size_t n, size_t n_edges)
{
    CUgraphNode near[4];
    size_t room;

    for (size_t i = 0; i < n; i++) {
        room = 4;
        ok(cuGraphNodeGetDependencies(node[i], near, &room));
        room = 4;
        ok(cuGraphNodeGetDependentNodes(node[i], near, &room));
    }
}

static void
ask_for_lists(size_t n, size_t n_edges)
{
    size_t room = n;

    ok(cuGraphGetNodes(graph, list, &room));
    assert_int_equal(room, n);
    room = n_edges;
    ok(cuGraphGetEdges(graph, head, tail, &room));
    assert_int_equal(room, n_edges);
}

static void
find_in_clone(size_t n, size_t n_edges)
{
    CUgraph clone;

    ok(cuGraphClone(&clone, graph));
    for (size_t i = 0; i < n; i++)
        ok(cuGraphNodeFindInClone(&list[i], node[i], clone));
    ok(cuGraphDestroy(clone));
}

static void
join_all(size_t n, size_t n_edges)
{
    CUgraphNode join;

    ok(cuGraphAddEmptyNode(&join, graph, node, n));
    ok(cuGraphDestroyNode(join));
}

static void
launch(size_t n, size_t n_edges)
{
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphLaunch(exec, NULL));
    ok(cuCtxSynchronize());
}

static void
change_instance(size_t n, size_t n_edges)
{
    CUDA_MEMSET_NODE_PARAMS p = fill_buf();
    CUgraphExecUpdateResultInfo info;

    for (size_t i = 0; i < n; i++) {
        ok(cuGraphExecMemsetNodeSetParams(exec, node[i], &p, sg.ctx));
        ok(cuGraphNodeSetEnabled(exec, node[i], i & 1));
    }
    ok(cuGraphExecUpdate_v2(exec, graph, &info));
    ok(cuGraphExecDestroy(exec));
}

static void
destroy_nodes(size_t n, size_t n_edges)
{
    for (size_t i = 0; i < n; i++)
        ok(cuGraphDestroyNode(node[i]));
    ok(cuGraphDestroy(graph));
}

static const struct step {
    const char *name;
    void (*run)(size_t n, size_t n_edges);
} steps[] = {
    {"adding nodes", add_nodes},
    {"adding edges", add_edges},
    {"removing edges", remove_edges},
    {"adding edges one by one", add_edges_one_by_one},
    {"neighbours", ask_for_neighbours},
    {"lists", ask_for_lists},
    {"a clone", find_in_clone},
    {"a node behind all", join_all},
    {"a launch", launch},
    {"changes of the instance", change_instance},
    {"destroying nodes", destroy_nodes},
};

/* The edges are those of @shape, as soon as there are nodes. */
static void
time_steps(const struct shape *shape, size_t n, uint64_t *us)
{
    size_t n_edges = 0;

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        uint64_t since = now_us();

        steps[i].run(n, n_edges);
        us[i] = now_us() - since;
        if (!i)
            n_edges = shape->edges(n);
    }
}

static void
large_graphs_cost_about_the_same_per_node(void **state)
{
    const struct shape *shape = *state;
    uint64_t small[ARRAY_SIZE(steps)], large[ARRAY_SIZE(steps)];

    time_steps(shape, SMALL, small);
    time_steps(shape, LARGE, large);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        if (large[i] > TIMES * gp_max(small[i], LEAST_US))
            fail_msg("%s, %s: %u us for %d nodes, %u us for %d", shape->name,
                     steps[i].name, (unsigned)small[i], SMALL, (unsigned)large[i],
                     LARGE);
}

/* Nodes that allocate, in a chain, and nodes that free all of it behind the last. */
static uint64_t
time_memory(size_t n)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = 1, .location = {1, 0}},
                                    .bytesize = 512};
    CUdeviceptr *addr = calloc(n, sizeof(*addr));
    uint64_t since = now_us();

    assert_non_null(addr);
    ok(cuGraphCreate(&graph, 0));
    for (size_t i = 0; i < n; i++) {
        ok(cuGraphAddMemAllocNode(&node[i], graph, i ? &node[i - 1] : NULL, i > 0, &p));
        addr[i] = p.dptr;
    }
    for (size_t i = 0; i < n; i++)
        ok(cuGraphAddMemFreeNode(&list[i], graph, &node[n - 1], 1, addr[i]));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    free(addr);
    return now_us() - since;
}

static void
nodes_of_memory_cost_about_the_same_in_large_graphs(void **state)
{
    uint64_t small = time_memory(SMALL), large = time_memory(LARGE);

    if (large > TIMES * gp_max(small, LEAST_US))
        fail_msg("%u us for %d nodes, %u us for %d", (unsigned)small, SMALL,
                 (unsigned)large, LARGE);
}

/* A node that is captured behind @n nodes, half of which were named before. */
static uint64_t
time_capture(size_t n)
{
    CUstream stream;
    uint64_t since;
    size_t room = n;

    ok(cuGraphCreate(&graph, 0));
    for (size_t i = 0; i < n; i++)
        ok(cuGraphAddEmptyNode(&node[i], graph, NULL, 0));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCaptureToGraph(stream, graph, node, NULL, n / 2,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
    since = now_us();
    ok(cuStreamUpdateCaptureDependencies(stream, node, n,
                                         CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    ok(cuMemsetD32Async(buf, 1, 1, stream));
    ok(cuStreamEndCapture(stream, &graph));
    since = now_us() - since;
    ok(cuGraphGetEdges(graph, from, to, &room));
    assert_int_equal(room, n);
    assert_memory_equal(from, node, n * sizeof(*node));
    ok(cuGraphDestroy(graph));
    ok(cuStreamDestroy_v2(stream));
    return since;
}

static void
captures_behind_many_nodes_cost_about_the_same_per_node(void **state)
{
    uint64_t small = time_capture(SMALL), large = time_capture(LARGE);

    if (large > TIMES * gp_max(small, LEAST_US))
        fail_msg("%u us for %d nodes, %u us for %d", (unsigned)small, SMALL,
                 (unsigned)large, LARGE);
}

int
main(void)
{
    static struct shape chains = {"a chain", chain}, fans_out = {"a fan out", fan_out};
    static struct shape fans_in = {"a fan in", fan_in}, layered = {"layers", layers};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(
            large_graphs_cost_about_the_same_per_node, open_card, close_card, &chains),
        cmocka_unit_test_prestate_setup_teardown(
            large_graphs_cost_about_the_same_per_node, open_card, close_card,
            &fans_out),
        cmocka_unit_test_prestate_setup_teardown(
            large_graphs_cost_about_the_same_per_node, open_card, close_card, &fans_in),
        cmocka_unit_test_prestate_setup_teardown(
            large_graphs_cost_about_the_same_per_node, open_card, close_card, &layered),
        cmocka_unit_test_setup_teardown(
            nodes_of_memory_cost_about_the_same_in_large_graphs, open_card, close_card),
        cmocka_unit_test_setup_teardown(
            captures_behind_many_nodes_cost_about_the_same_per_node, open_card,
            close_card),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
