/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's handle table against a plain model of it. */
#include "ut.h"

#include "wrk_handle.h"

#include <errno.h>
#include <stdlib.h>

#define OBJ(n) ((void *)(uintptr_t)(0x1000 + 16 * (uintptr_t)(n)))

static uint64_t
id(unsigned kind, unsigned gen, uint32_t index)
{
    return wire_handle_make((enum wire_kind)kind, gen, index);
}

static void
put_finds_and_del_forgets(void **state)
{
    struct wrk_handles t = {0};
    uint64_t a = id(WIRE_KIND_STREAM, 3, 7);

    (void)state;
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_STREAM, a, OBJ(1)), 0);
    assert_ptr_equal(wrk_handles_find(&t, WIRE_KIND_STREAM, a)->obj, OBJ(1));
    assert_int_equal(wrk_handles_id_of(&t, WIRE_KIND_STREAM, OBJ(1)), a);
    assert_ptr_equal(wrk_handles_del(&t, WIRE_KIND_STREAM, a), OBJ(1));
    assert_null(wrk_handles_find(&t, WIRE_KIND_STREAM, a));
    assert_null(wrk_handles_del(&t, WIRE_KIND_STREAM, a));
    assert_int_equal(wrk_handles_id_of(&t, WIRE_KIND_STREAM, OBJ(1)), 0);
    wrk_handles_fini(&t);
}

static void
stale_foreign_and_malformed_ids_find_nothing(void **state)
{
    struct wrk_handles t = {0};
    uint64_t good = id(WIRE_KIND_EVENT, 1, 5);

    (void)state;
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_EVENT, good, OBJ(1)), 0);
    assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, id(WIRE_KIND_EVENT, 2, 5)));
    assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, id(WIRE_KIND_EVENT, 1, 6)));
    assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, id(WIRE_KIND_STREAM, 1, 5)));
    assert_null(wrk_handles_find(&t, WIRE_KIND_STREAM, good));
    for (unsigned bit = 0; bit < 64; bit++)
        assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, good ^ UINT64_C(1) << bit));
    assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, 0));
    assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, UINT64_MAX));
    wrk_handles_fini(&t);
}

static void
same_id_twice_is_refused_but_a_new_generation_replaces(void **state)
{
    struct wrk_handles t = {0};
    uint64_t old = id(WIRE_KIND_FUNC, 1, 9);
    uint64_t young = id(WIRE_KIND_FUNC, 2, 9);

    (void)state;
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_FUNC, old, OBJ(1)), 0);
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_FUNC, old, OBJ(2)), -EEXIST);
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_FUNC, young, OBJ(2)), 0);
    assert_null(wrk_handles_find(&t, WIRE_KIND_FUNC, old));
    assert_ptr_equal(wrk_handles_find(&t, WIRE_KIND_FUNC, young)->obj, OBJ(2));
    assert_int_equal(wrk_handles_id_of(&t, WIRE_KIND_FUNC, OBJ(1)), 0);
    wrk_handles_fini(&t);
}

static void
bad_ids_are_refused(void **state)
{
    struct wrk_handles t = {0};

    (void)state;
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_STREAM, 0, OBJ(1)), -EINVAL);
    assert_int_equal(
        wrk_handles_put(&t, WIRE_KIND_STREAM, id(WIRE_KIND_EVENT, 0, 1), OBJ(1)),
        -EINVAL);
    assert_int_equal(
        wrk_handles_put(&t, WIRE_KIND_STREAM, id(WIRE_KIND_STREAM, 0, 1), NULL),
        -EINVAL);
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_STREAM,
                                     id(WIRE_KIND_STREAM, 0, WRK_HANDLE_MAX), OBJ(1)),
                     -E2BIG);
    wrk_handles_fini(&t);
}

static void
unknown_object_gets_a_server_id_that_finds_it_again(void **state)
{
    struct wrk_handles t = {0};
    uint64_t client = id(WIRE_KIND_GRAPHNODE, 0, 1);
    uint64_t first, again, second;

    (void)state;
    assert_int_equal(wrk_handles_put(&t, WIRE_KIND_GRAPHNODE, client, OBJ(1)), 0);
    assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(1), &first), 0);
    assert_int_equal(first, client);
    assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(2), &first), 0);
    assert_true(wire_handle_index(first) >= WIRE_INDEX_SERVER);
    assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(2), &again), 0);
    assert_int_equal(again, first);
    assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(3), &second), 0);
    assert_int_not_equal(second, first);
    assert_ptr_equal(wrk_handles_find(&t, WIRE_KIND_GRAPHNODE, first)->obj, OBJ(2));
    wrk_handles_fini(&t);
}

/* Many puts and dels in random order, always equal to an array of what should be. */
static void
table_equals_a_model_under_random_use(void **state)
{
    enum { N = 3000, STEPS = 60000 };
    struct wrk_handles t = {0};
    unsigned *gens = calloc(N, sizeof(*gens));
    void **objs = calloc(N, sizeof(*objs));
    uintptr_t next = 1;

    (void)state;
    srand(5);
    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t i = 1 + (uint32_t)rand() % (N - 1);
        uint64_t now = id(WIRE_KIND_EVENT, gens[i], i);

        if (objs[i]) {
            assert_int_equal(wrk_handles_id_of(&t, WIRE_KIND_EVENT, objs[i]), now);
            assert_ptr_equal(wrk_handles_del(&t, WIRE_KIND_EVENT, now), objs[i]);
            objs[i] = NULL;
            gens[i] = (gens[i] + 1) & 0xff;
        } else {
            assert_null(wrk_handles_find(&t, WIRE_KIND_EVENT, now));
            objs[i] = OBJ(next++);
            assert_int_equal(wrk_handles_put(&t, WIRE_KIND_EVENT, now, objs[i]), 0);
        }
    }
    for (uint32_t i = 1; i < N; i++) {
        struct wrk_handle_slot *slot =
            wrk_handles_find(&t, WIRE_KIND_EVENT, id(WIRE_KIND_EVENT, gens[i], i));

        assert_ptr_equal(slot ? slot->obj : NULL, objs[i]);
    }
    free(objs);
    free(gens);
    wrk_handles_fini(&t);
}

static void
what_was_named_and_ended_costs_no_memory(void **state)
{
    struct wrk_handles t = {0};
    uint64_t alive[100], last = 0, now = 0;

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(i), &alive[i]),
                         0);
    for (uint32_t i = 0; i < 50000; i++) {
        assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(1000), &now), 0);
        assert_int_not_equal(now, last);
        assert_null(wrk_handles_find(&t, WIRE_KIND_GRAPHNODE, last));
        assert_ptr_equal(wrk_handles_del(&t, WIRE_KIND_GRAPHNODE, now), OBJ(1000));
        last = now;
    }
    assert_true(t.server[WIRE_KIND_GRAPHNODE].cap <= 4096);
    for (uint32_t i = 0; i < 100; i++)
        assert_ptr_equal(wrk_handles_find(&t, WIRE_KIND_GRAPHNODE, alive[i])->obj,
                         OBJ(i));
    wrk_handles_fini(&t);
}

static void
as_many_as_there_is_room_for_are_named(void **state)
{
    struct wrk_handles t = {0};
    uint64_t name;

    (void)state;
    for (uint32_t i = 0; i < WRK_HANDLE_MAX; i++)
        assert_int_equal(wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(i), &name), 0);
    assert_int_equal(
        wrk_handles_name(&t, WIRE_KIND_GRAPHNODE, OBJ(WRK_HANDLE_MAX), &name), -E2BIG);
    wrk_handles_fini(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_finds_and_del_forgets),
        cmocka_unit_test(stale_foreign_and_malformed_ids_find_nothing),
        cmocka_unit_test(same_id_twice_is_refused_but_a_new_generation_replaces),
        cmocka_unit_test(bad_ids_are_refused),
        cmocka_unit_test(unknown_object_gets_a_server_id_that_finds_it_again),
        cmocka_unit_test(what_was_named_and_ended_costs_no_memory),
        cmocka_unit_test(as_many_as_there_is_room_for_are_named),
        cmocka_unit_test(table_equals_a_model_under_random_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
