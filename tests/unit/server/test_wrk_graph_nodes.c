/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that come ahead of the call that names them: one call gets all of them, and
 * whatever a client sends, they are bounded.
 */
#include "ut.h"

#include "gp_base.h"
#include "wire_format.h"
#include "wrk.h"
#include "wrk_graph_nodes.h"

#include <string.h>

enum {
    PART = 4096,
    DEAD = 666, /* an id that no node has */
};

static uint64_t ids[PART], others[PART];
static CUgraphEdgeData data[PART];
static CUgraphNode none[WIRE_GRAPH_AHEAD];

/* Instead of the worker's table: the node of an id is at its address. */
CUresult
wrk_handle_get(struct wrk *w, unsigned kind, uint64_t id, void **ret)
{
    assert_int_equal(kind, WIRE_KIND_GRAPHNODE);
    *ret = id == DEAD ? NULL : (void *)(uintptr_t)id;
    return id == DEAD ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int
fill(void **state)
{
    for (unsigned i = 0; i < PART; i++) {
        ids[i] = 1000 + i;
        others[i] = 9000 + i;
        data[i].from_port = (unsigned char)i;
    }
    return wrk_graph_nodes_add(0, &(struct wrk_graph_part){0}) != CUDA_SUCCESS;
}

static struct wrk_graph_part
heads(uint32_t n)
{
    return (struct wrk_graph_part){.from = ids, .n = n};
}

static struct wrk_graph_part
edges(uint32_t n)
{
    return (struct wrk_graph_part){ids, others, data, n, n, n};
}

/* How many nodes a call that names nodes ahead is made with. */
static size_t
taken(void)
{
    struct wrk_graph_nodes nodes;
    size_t n;

    assert_int_equal(
        wrk_graph_nodes_take(NULL, &nodes, none, NULL, NULL, WIRE_GRAPH_AHEAD),
        CUDA_SUCCESS);
    n = nodes.n;
    wrk_graph_nodes_fini(&nodes);
    return n;
}

static void
all_parts_come_to_one_call(void **state)
{
    struct wrk_graph_part part = edges(PART), last = edges(10);
    struct wrk_graph_nodes nodes;

    assert_int_equal(wrk_graph_nodes_add(0, &part), CUDA_SUCCESS);
    assert_int_equal(wrk_graph_nodes_add(PART, &last), CUDA_SUCCESS);
    assert_int_equal(
        wrk_graph_nodes_take(NULL, &nodes, none, none, data, WIRE_GRAPH_AHEAD),
        CUDA_SUCCESS);
    assert_int_equal(nodes.n, PART + 10);
    for (unsigned i = 0; i < PART + 10; i++) {
        assert_int_equal((uintptr_t)nodes.from[i], ids[i % PART]);
        assert_int_equal((uintptr_t)nodes.to[i], others[i % PART]);
        assert_int_equal(nodes.data[i].from_port, data[i % PART].from_port);
    }
    wrk_graph_nodes_fini(&nodes);
    assert_int_equal(taken(), WIRE_GRAPH_AHEAD); /* the call's own */
}

static void
calls_that_name_nodes_get_those(void **state)
{
    CUgraphNode own[3] = {(CUgraphNode)ids, (CUgraphNode)others, NULL};
    struct wrk_graph_part part = heads(PART);
    struct wrk_graph_nodes nodes;

    assert_int_equal(wrk_graph_nodes_add(0, &part), CUDA_SUCCESS);
    for (size_t n = 0; n <= 3; n++) {
        assert_int_equal(wrk_graph_nodes_take(NULL, &nodes, own, NULL, NULL, n),
                         CUDA_SUCCESS);
        assert_ptr_equal(nodes.from, own);
        assert_int_equal(nodes.n, n);
        wrk_graph_nodes_fini(&nodes);
    }
    assert_int_equal(wrk_graph_nodes_take(NULL, &nodes, none, NULL, NULL, 1),
                     CUDA_SUCCESS);
    assert_int_equal(nodes.n, 1);
    wrk_graph_nodes_fini(&nodes);
    assert_int_equal(taken(), PART);
}

static void
dead_nodes_are_not_found(void **state)
{
    struct wrk_graph_part part = heads(PART);
    struct wrk_graph_nodes nodes;

    ids[PART - 1] = DEAD;
    assert_int_equal(wrk_graph_nodes_add(0, &part), CUDA_SUCCESS);
    assert_int_equal(
        wrk_graph_nodes_take(NULL, &nodes, none, NULL, NULL, WIRE_GRAPH_AHEAD),
        CUDA_ERROR_INVALID_VALUE);
    wrk_graph_nodes_fini(&nodes);
    assert_int_equal(taken(), WIRE_GRAPH_AHEAD);
}

/* Nothing is left behind a part that does not fit. */
static void
parts_that_do_not_fit_are_refused(void **state)
{
    struct wrk_graph_part part = heads(PART),
                          odd[] = {
                              {ids, others, NULL, PART, PART - 1, 0},
                              {ids, NULL, data, PART, 0, 1},
                              {ids, others, NULL, PART, PART, 0},
                              {ids, NULL, data, PART, 0, PART},
                          };
    struct wrk_graph_nodes nodes;

    assert_int_equal(wrk_graph_nodes_add(1, &part), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
        assert_int_equal(wrk_graph_nodes_add(0, &part), CUDA_SUCCESS);
        assert_int_equal(wrk_graph_nodes_add(PART, &odd[i]), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(taken(), WIRE_GRAPH_AHEAD);
    }
    assert_int_equal(wrk_graph_nodes_add(0, &odd[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wrk_graph_nodes_add(0, &part), CUDA_SUCCESS);
    assert_int_equal(wrk_graph_nodes_add(PART - 1, &part), CUDA_ERROR_INVALID_VALUE);
    /* Heads alone do not make edges, nor edges a list of heads. */
    assert_int_equal(wrk_graph_nodes_add(0, &part), CUDA_SUCCESS);
    assert_int_equal(
        wrk_graph_nodes_take(NULL, &nodes, none, none, NULL, WIRE_GRAPH_AHEAD),
        CUDA_ERROR_INVALID_VALUE);
    wrk_graph_nodes_fini(&nodes);
}

static void
there_are_no_more_than_the_limit(void **state)
{
    struct wrk_graph_part part = edges(PART), one = edges(1);

    for (uint64_t n = 0; n < WIRE_GRAPH_NODES_MAX; n += PART)
        assert_int_equal(wrk_graph_nodes_add(n, &part), CUDA_SUCCESS);
    assert_int_equal(wrk_graph_nodes_add(WIRE_GRAPH_NODES_MAX, &one),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(taken(), WIRE_GRAPH_AHEAD);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_parts_come_to_one_call, fill),
        cmocka_unit_test_setup(calls_that_name_nodes_get_those, fill),
        cmocka_unit_test_setup(dead_nodes_are_not_found, fill),
        cmocka_unit_test_setup(parts_that_do_not_fit_are_refused, fill),
        cmocka_unit_test_setup(there_are_no_more_than_the_limit, fill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
