/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that the client mints. */
#include "ut.h"

#include "stub_call.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_tls.h"
#include "stub_unsolicited.h"
#include "wire_format.h"

#include <pthread.h>
#include <string.h>

static void
minted_handles_are_shaped_for_the_wire(void **state)
{
    uint64_t h = stub_handle_new(WIRE_KIND_EVENT);

    assert_true(wire_handle_is(h, WIRE_KIND_EVENT));
    assert_true(wire_handle_index(h) < WIRE_INDEX_SERVER);
    assert_true(stub_handle_ok(WIRE_KIND_EVENT, h));
    assert_false(stub_handle_ok(WIRE_KIND_STREAM, h));
    assert_false(stub_handle_ok(WIRE_KIND_EVENT, h | 1));
}

static void
deleted_handle_is_unknown_and_its_index_comes_back_with_another_generation(void **state)
{
    uint64_t first = stub_handle_new(WIRE_KIND_GRAPH), h = 0;
    int i;

    stub_handle_del(WIRE_KIND_GRAPH, first);
    assert_false(stub_handle_ok(WIRE_KIND_GRAPH, first));
    for (i = 0; i < 100000; i++) {
        h = stub_handle_new(WIRE_KIND_GRAPH);
        assert_int_not_equal(h, first);
        stub_handle_del(WIRE_KIND_GRAPH, h);
        if (wire_handle_index(h) == wire_handle_index(first))
            break;
    }
    assert_int_equal(wire_handle_index(h), wire_handle_index(first));
    assert_int_not_equal(wire_handle_gen(h), wire_handle_gen(first));
}

static void
deleting_twice_changes_nothing(void **state)
{
    uint64_t a = stub_handle_new(WIRE_KIND_ARRAY), b = stub_handle_new(WIRE_KIND_ARRAY);

    stub_handle_del(WIRE_KIND_ARRAY, a);
    stub_handle_del(WIRE_KIND_ARRAY, a);
    assert_true(stub_handle_ok(WIRE_KIND_ARRAY, b));
    assert_false(stub_handle_ok(WIRE_KIND_ARRAY, a));
}

static int dropped;

static void
count_drop(void *data)
{
    dropped += *(int *)data;
}

static void
data_of_a_deleted_handle_is_dropped_once(void **state)
{
    uint64_t h = stub_handle_new(WIRE_KIND_LINK);
    int value = 5;

    stub_handle_on_del(WIRE_KIND_LINK, count_drop);
    stub_handle_set_data(WIRE_KIND_LINK, h, &value);
    assert_ptr_equal(stub_handle_data(WIRE_KIND_LINK, h), &value);
    stub_handle_del(WIRE_KIND_LINK, h);
    stub_handle_del(WIRE_KIND_LINK, h);
    assert_int_equal(dropped, 5);
    assert_null(stub_handle_data(WIRE_KIND_LINK, h));
}

static void
handles_of_a_context_are_deleted_together(void **state)
{
    uint32_t current = stub_tls.ctx_index;
    uint64_t mine, other, event;

    stub_tls.ctx_index = 77;
    mine = stub_handle_new(WIRE_KIND_STREAM);
    event = stub_handle_new(WIRE_KIND_EVENT);
    stub_tls.ctx_index = 78;
    other = stub_handle_new(WIRE_KIND_STREAM);
    stub_tls.ctx_index = current;
    stub_handle_del_of_ctx(WIRE_KIND_STREAM, 77);
    assert_false(stub_handle_ok(WIRE_KIND_STREAM, mine));
    assert_true(stub_handle_ok(WIRE_KIND_STREAM, other));
    assert_true(stub_handle_ok(WIRE_KIND_EVENT, event));
    stub_handle_del(WIRE_KIND_STREAM, other);
    stub_handle_del(WIRE_KIND_EVENT, event);
}

static void
handles_of_the_worker_pass_by_shape(void **state)
{
    uint64_t h = wire_handle_make(WIRE_KIND_GRAPHNODE, 0, WIRE_INDEX_SERVER + 7);

    assert_true(stub_handle_ok(WIRE_KIND_GRAPHNODE, h));
    assert_null(stub_handle_data(WIRE_KIND_GRAPHNODE, h));
}

/* One table for all servers: an index is used once, and a handle of one server's object
 * is no handle of another's. */
static void
handles_tell_their_server(void **state)
{
    uint64_t a = stub_handle_new_on(0, WIRE_KIND_EVENT);
    uint64_t b = stub_handle_new_on(5, WIRE_KIND_EVENT);

    assert_int_equal(wire_handle_link(a), 0);
    assert_int_equal(wire_handle_link(b), 5);
    assert_int_not_equal(wire_handle_index(a), wire_handle_index(b));
    assert_true(stub_handle_ok(WIRE_KIND_EVENT, b));
    assert_false(stub_handle_ok(WIRE_KIND_EVENT, b ^ 1));
    assert_false(stub_handle_ok(WIRE_KIND_EVENT, a | 5));
    stub_handle_del(WIRE_KIND_EVENT, b);
    assert_false(stub_handle_ok(WIRE_KIND_EVENT, b));
    stub_handle_del(WIRE_KIND_EVENT, a);
}

static void
table_ends_at_the_workers_cap(void **state)
{
    uint32_t n = 0;

    while (stub_handle_new(WIRE_KIND_MIPMAP))
        n++;
    assert_int_equal(n, STUB_HANDLE_MAX - 1);
    stub_handle_del(WIRE_KIND_MIPMAP, wire_handle_make(WIRE_KIND_MIPMAP, 0, 77));
    assert_int_equal(wire_handle_index(stub_handle_new(WIRE_KIND_MIPMAP)), 77);
    assert_int_equal(stub_handle_new(WIRE_KIND_MIPMAP), 0);
}

#define THREADS 4
#define ROUNDS 20000

static void *
mint_and_delete(void *arg)
{
    uint64_t *last = arg, kept[8] = {0};

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t *at = &kept[i % 8];

        if (*at)
            stub_handle_del(WIRE_KIND_STREAM, *at);
        *at = stub_handle_new(WIRE_KIND_STREAM);
        if (!stub_handle_ok(WIRE_KIND_STREAM, *at))
            return NULL;
    }
    memcpy(last, kept, sizeof(kept));
    return last;
}

static void
handles_that_ended_with_a_graph_are_free_again(void **state)
{
    struct {
        struct wire_rep head;
        struct wire_event_graph_ended event;
        uint64_t ids[4];
    } message = {.head = {.size = sizeof(message), .call = WIRE_EVENT_GRAPH_ENDED},
                 .event = {.n_ids = 4}};
    uint64_t stays = stub_handle_new(WIRE_KIND_GRAPHNODE);
    uint64_t stream = stub_handle_new(WIRE_KIND_STREAM);

    message.ids[0] = stub_handle_new(WIRE_KIND_GRAPHNODE);
    message.ids[1] = stub_handle_new(WIRE_KIND_GRAPH);
    message.ids[2] = wire_handle_make(WIRE_KIND_GRAPHNODE, 0, WIRE_INDEX_SERVER + 7);
    message.ids[3] = stream; /* a stream is in no graph */
    assert_null(stub_unsolicited_take(&stub_links[0], &message.head));
    assert_false(stub_handle_ok(WIRE_KIND_GRAPHNODE, message.ids[0]));
    assert_false(stub_handle_ok(WIRE_KIND_GRAPH, message.ids[1]));
    assert_true(stub_handle_ok(WIRE_KIND_GRAPHNODE, stays));
    assert_true(stub_handle_ok(WIRE_KIND_STREAM, stream));
    message.event.n_ids = 5;
    assert_non_null(stub_unsolicited_take(&stub_links[0], &message.head));
    message.head.size = sizeof(message.head) + 4;
    assert_non_null(stub_unsolicited_take(&stub_links[0], &message.head));
}

static void
threads_never_share_a_live_handle(void **state)
{
    pthread_t threads[THREADS];
    uint64_t last[THREADS][8];
    void *ok;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mint_and_delete, last[i]),
                         0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &ok);
        assert_non_null(ok);
    }
    for (int i = 0; i < THREADS * 8; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(last[i / 8][i % 8], last[j / 8][j % 8]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minted_handles_are_shaped_for_the_wire),
        cmocka_unit_test(
            deleted_handle_is_unknown_and_its_index_comes_back_with_another_generation),
        cmocka_unit_test(deleting_twice_changes_nothing),
        cmocka_unit_test(data_of_a_deleted_handle_is_dropped_once),
        cmocka_unit_test(handles_of_a_context_are_deleted_together),
        cmocka_unit_test(handles_of_the_worker_pass_by_shape),
        cmocka_unit_test(handles_tell_their_server),
        cmocka_unit_test(handles_that_ended_with_a_graph_are_free_again),
        cmocka_unit_test(table_ends_at_the_workers_cap),
        cmocka_unit_test(threads_never_share_a_live_handle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
