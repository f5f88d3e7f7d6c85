/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a graph holds ends with it, in the worker's table and at the client: nodes, and
 * graphs inside them as deep as they are nested.
 */
#include "ut.h"

#include "drv.h"
#include "wire_format.h"
#include "wrk_graph_end.h"
#include "wrk_object.h"
#include "wrk_reply.h"
#include "wrk_state.h"

#include <string.h>
#include <sys/resource.h>

enum {
    MANY = 3000, /* more than one message holds */
};

/* Objects of the driver: a graph has nodes in a row, a node may hold a graph. */
struct graph {
    unsigned first, n;
};

static struct graph outer, child, inside;
static char nodes[MANY]; /* a node is one of these bytes */
static CUgraphNodeType types[MANY];

static CUgraphNode
node_at(unsigned i)
{
    return (CUgraphNode)(void *)&nodes[i];
}

static CUresult
get_nodes(CUgraph handle, CUgraphNode *to, size_t *n)
{
    const struct graph *graph = (const void *)handle;

    for (unsigned i = 0; to && i < graph->n; i++)
        to[i] = node_at(graph->first + i);
    *n = graph->n;
    return CUDA_SUCCESS;
}

static CUresult
get_type(CUgraphNode node, CUgraphNodeType *type)
{
    *type = types[(const char *)(const void *)node - nodes];
    return CUDA_SUCCESS;
}

static CUresult
get_child(CUgraphNode node, CUgraph *graph)
{
    (void)node;
    *graph = (CUgraph)(void *)&child;
    return CUDA_SUCCESS;
}

static const struct drv drv = {.cuGraphGetNodes = get_nodes,
                               .cuGraphNodeGetType = get_type,
                               .cuGraphChildGraphNodeGetGraph = get_child};
static struct wrk worker = {.drv = &drv};

void
wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id)
{
    wrk_handles_del(&w->handles, kind, id);
}

static uint64_t told[2 * MANY];
static unsigned n_told, messages;

void
wrk_unsolicited(struct wrk *w, enum wire_event what, const void *body, uint32_t size,
                const void *more, uint32_t more_size)
{
    struct wire_event_graph_ended event;

    (void)w;
    assert_int_equal(what, WIRE_EVENT_GRAPH_ENDED);
    assert_int_equal(size, sizeof(event));
    memcpy(&event, body, sizeof(event));
    assert_int_equal(more_size, event.n_ids * sizeof(*told));
    assert_true(sizeof(struct wire_rep) + size + more_size <= WIRE_FRAME_MAX);
    assert_true(n_told + event.n_ids <= ARRAY_SIZE(told));
    memcpy(told + n_told, more, more_size);
    n_told += event.n_ids;
    messages++;
}

/* The client's id of @obj, with this index. */
static uint64_t
named(enum wire_kind kind, uint32_t index, void *obj)
{
    uint64_t id = wire_handle_make(kind, 0, index);

    assert_int_equal(wrk_handles_put(&worker.handles, kind, id, obj), 0);
    return id;
}

static uint64_t
named_by_us(enum wire_kind kind, void *obj)
{
    uint64_t id;

    assert_int_equal(wrk_handles_name(&worker.handles, kind, obj, &id), 0);
    return id;
}

static bool
is_told(uint64_t id)
{
    for (unsigned i = 0; i < n_told; i++)
        if (told[i] == id)
            return true;
    return false;
}

/* It is in the table no longer, and the client knows. */
static void
assert_ended(uint64_t id)
{
    assert_null(wrk_handles_find(&worker.handles, wire_handle_kind(id), id));
    assert_true(is_told(id));
}

static int
begin(void **state)
{
    (void)state;
    memset(types, 0, sizeof(types));
    for (unsigned i = 0; i < MANY; i++)
        types[i] = CU_GRAPH_NODE_TYPE_EMPTY;
    outer = child = inside = (struct graph){0};
    n_told = messages = 0;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wrk_handles_fini(&worker.handles);
    return 0;
}

static void
destroy(uint64_t graph_id, CUresult r)
{
    struct wrk_graph_end ending;

    wrk_graph_end_begin(&worker, &ending, (CUgraph)(void *)&outer, graph_id);
    if (r == CUDA_SUCCESS)
        wrk_handles_del(&worker.handles, WIRE_KIND_GRAPH, graph_id);
    wrk_graph_end_done(&worker, &ending, r);
}

static void
nodes_end_with_their_graph_and_no_others(void **state)
{
    static uint64_t ids[MANY];
    uint64_t graph = named(WIRE_KIND_GRAPH, 1, &outer);

    (void)state;
    outer = (struct graph){0, MANY - 1};
    for (unsigned i = 0; i < MANY; i++)
        ids[i] = i % 2 ? named(WIRE_KIND_GRAPHNODE, i + 1, node_at(i))
                       : named_by_us(WIRE_KIND_GRAPHNODE, node_at(i));
    destroy(graph, CUDA_SUCCESS);
    for (unsigned i = 0; i < MANY - 1; i++)
        assert_ended(ids[i]);
    assert_non_null(
        wrk_handles_find(&worker.handles, WIRE_KIND_GRAPHNODE, ids[MANY - 1]));
    assert_int_equal(n_told, MANY - 1);
    assert_true(messages > 1);
    assert_false(is_told(graph)); /* the client has destroyed that one itself */
}

static void
a_graph_that_the_driver_keeps_keeps_its_nodes(void **state)
{
    uint64_t graph = named(WIRE_KIND_GRAPH, 1, &outer);
    uint64_t node = named(WIRE_KIND_GRAPHNODE, 1, node_at(0));

    (void)state;
    outer = (struct graph){0, 1};
    destroy(graph, CUDA_ERROR_INVALID_VALUE);
    assert_non_null(wrk_handles_find(&worker.handles, WIRE_KIND_GRAPHNODE, node));
    assert_int_equal(messages, 0);
}

static void
what_is_in_nodes_ends_too(void **state)
{
    uint64_t graph = named(WIRE_KIND_GRAPH, 1, &outer);
    uint64_t ids[] = {
        named(WIRE_KIND_GRAPHNODE, 1, node_at(0)),
        named(WIRE_KIND_GRAPHNODE, 2, node_at(10)),
        named_by_us(WIRE_KIND_GRAPH, &child),
        named_by_us(WIRE_KIND_GRAPH, &inside),
        named(WIRE_KIND_GRAPHNODE, 3, node_at(20)),
    };

    (void)state;
    outer = (struct graph){0, 1};
    child = (struct graph){10, 1};
    inside = (struct graph){20, 1};
    types[0] = CU_GRAPH_NODE_TYPE_GRAPH;
    types[10] = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    wrk_graph_end_body(&worker, ids[3], ids[1]);
    destroy(graph, CUDA_SUCCESS);
    for (unsigned i = 0; i < ARRAY_SIZE(ids); i++)
        assert_ended(ids[i]);
}

static void
what_is_in_a_node_ends_with_it(void **state)
{
    struct wrk_graph_end ending;
    uint64_t node = named(WIRE_KIND_GRAPHNODE, 1, node_at(0));
    uint64_t inner = named(WIRE_KIND_GRAPHNODE, 2, node_at(10));
    uint64_t graph = named_by_us(WIRE_KIND_GRAPH, &child);

    (void)state;
    child = (struct graph){10, 1};
    types[0] = CU_GRAPH_NODE_TYPE_GRAPH;
    wrk_graph_end_node(&worker, &ending, node);
    wrk_graph_end_done(&worker, &ending, CUDA_SUCCESS);
    assert_ended(inner);
    assert_ended(graph);
    assert_false(is_told(node));
}

static void
ids_of_a_graph_that_was_at_its_address_end(void **state)
{
    uint64_t captured = named_by_us(WIRE_KIND_GRAPH, &outer);
    uint64_t graph = named(WIRE_KIND_GRAPH, 1, &outer);

    (void)state;
    destroy(graph, CUDA_SUCCESS);
    assert_ended(captured);
    assert_int_equal(n_told, 1);
}

/* The number of a conditional node is the client's: in its own body, too. */
static void
a_body_in_itself_ends_once(void **state)
{
    uint64_t body = named_by_us(WIRE_KIND_GRAPH, &outer);
    uint64_t node = named(WIRE_KIND_GRAPHNODE, 1, node_at(0));

    (void)state;
    outer = (struct graph){0, 1};
    types[0] = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    wrk_graph_end_body(&worker, body, node);
#ifndef GP_SANITIZED /* what would go on for ever takes no more than this */
    setrlimit(RLIMIT_AS, &(struct rlimit){512u << 20, RLIM_INFINITY});
#endif
    destroy(body, CUDA_SUCCESS);
    assert_ended(node);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_end_with_their_graph_and_no_others, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_graph_that_the_driver_keeps_keeps_its_nodes,
                                        begin, end),
        cmocka_unit_test_setup_teardown(what_is_in_nodes_ends_too, begin, end),
        cmocka_unit_test_setup_teardown(what_is_in_a_node_ends_with_it, begin, end),
        cmocka_unit_test_setup_teardown(ids_of_a_graph_that_was_at_its_address_end,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_body_in_itself_ends_once, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
