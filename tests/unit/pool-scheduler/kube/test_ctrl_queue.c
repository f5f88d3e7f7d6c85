/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's queue. */
#include "ut.h"

#include "ctrl_queue.h"
#include "gp_time.h"

#include <stdio.h>

static void
a_name_is_queued_once_and_in_order(void **state)
{
    struct ctrl_queue q;
    struct ctrl_item *item;

    assert_int_equal(ctrl_queue_init(&q), 0);
    ctrl_queue_add(&q, "a");
    ctrl_queue_add(&q, "b");
    ctrl_queue_add(&q, "a");
    item = ctrl_queue_take(&q, 1);
    assert_string_equal(item->name, "a");
    ctrl_queue_add(&q, "a"); /* while it is looked at: once more, afterwards */
    ctrl_queue_done(&q, item);
    item = ctrl_queue_take(&q, 1);
    assert_string_equal(item->name, "b");
    ctrl_queue_done(&q, item);
    item = ctrl_queue_take(&q, 1);
    assert_string_equal(item->name, "a");
    ctrl_queue_done(&q, item);
    assert_null(ctrl_queue_take(&q, 1));
    assert_int_equal(ctrl_queue_due(&q), UINT64_MAX);
    ctrl_queue_fini(&q);
}

static void
what_failed_comes_back_later_and_later(void **state)
{
    struct ctrl_queue q;
    struct ctrl_item *item;
    uint64_t now = 1000, pause = 0;

    assert_int_equal(ctrl_queue_init(&q), 0);
    ctrl_queue_add(&q, "a");
    for (int i = 0; i < 4; i++) {
        item = ctrl_queue_take(&q, now);
        assert_non_null(item);
        ctrl_queue_again(&q, item, now);
        assert_null(ctrl_queue_take(&q, now));
        assert_true(ctrl_queue_due(&q) - now > pause);
        pause = ctrl_queue_due(&q) - now;
        now = ctrl_queue_due(&q);
    }
    ctrl_queue_add(&q, "a"); /* something changed: at once */
    assert_int_equal(ctrl_queue_due(&q), 0);
    item = ctrl_queue_take(&q, now - pause);
    assert_non_null(item);
    ctrl_queue_done(&q, item);
    ctrl_queue_fini(&q);
}

static void
the_earlier_of_two_times_counts(void **state)
{
    struct ctrl_queue q;
    struct ctrl_item *item;

    assert_int_equal(ctrl_queue_init(&q), 0);
    ctrl_queue_add_at(&q, "a", 1000);
    ctrl_queue_add_at(&q, "a", 50);
    assert_int_equal(ctrl_queue_due(&q), 50);
    ctrl_queue_add_at(&q, "a", 2000);
    assert_int_equal(ctrl_queue_due(&q), 50);
    item = ctrl_queue_take(&q, 60);
    assert_non_null(item);
    ctrl_queue_done(&q, item);
    ctrl_queue_fini(&q);
}

static struct ctrl_item *
take_done(struct ctrl_queue *q, uint64_t now, char name[64])
{
    struct ctrl_item *item = ctrl_queue_take(q, now);

    snprintf(name, 64, "%s", item ? item->name : "");
    if (item)
        ctrl_queue_done(q, item);
    return item;
}

/* A tenant has thousands of claims that wait; what another one makes is looked at with
 * the next one of them. */
static void
namespaces_take_turns(void **state)
{
    static const char *const order[] = {"c:many/0", "c:few/a", "g:many-x", "cards",
                                        "c:many/1", "p:few/a", "c:many/2", "c:many/3"};
    struct ctrl_queue q;
    char name[64];

    assert_int_equal(ctrl_queue_init(&q), 0);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "c:many/%u", i);
        ctrl_queue_add(&q, name);
    }
    ctrl_queue_add(&q, "c:few/a");
    ctrl_queue_add(&q, "g:many-x");
    ctrl_queue_add(&q, "p:few/a");
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[0]);
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[1]);
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[2]);
    ctrl_queue_add(&q, "cards"); /* its turn is behind those that wait */
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[4]);
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[5]);
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[3]);
    assert_non_null(take_done(&q, 1, name));
    assert_string_equal(name, order[6]);
    ctrl_queue_clear(&q);
    assert_null(ctrl_queue_take(&q, UINT64_MAX));
    ctrl_queue_fini(&q);
}

static void
what_is_due_comes_in_the_order_of_its_times(void **state)
{
    enum { N = 2000 };
    struct ctrl_queue q;
    uint64_t last = 0;
    char name[64];

    assert_int_equal(ctrl_queue_init(&q), 0);
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "c:many/%u", i);
        ctrl_queue_add_at(&q, name, 1 + i * 7919ull % 1000);
    }
    for (unsigned i = 0; i < N; i += 3) { /* earlier, or now */
        snprintf(name, sizeof(name), "c:many/%u", i);
        ctrl_queue_add_at(&q, name, 1 + i % 50);
        snprintf(name, sizeof(name), "c:many/%u", i + 1);
        ctrl_queue_add(&q, name);
    }
    for (unsigned i = 1; i < N; i += 3) {
        char wanted[64];

        snprintf(wanted, sizeof(wanted), "c:many/%u", i);
        assert_non_null(take_done(&q, 0, name));
        assert_string_equal(name, wanted);
    }
    while (ctrl_queue_due(&q) != UINT64_MAX) {
        uint64_t due = ctrl_queue_due(&q);

        assert_true(due >= last);
        assert_null(ctrl_queue_take(&q, due - 1));
        last = due;
        while (take_done(&q, due, name))
            ;
    }
    assert_int_equal(json_object_size(q.by_name), 0);
    ctrl_queue_fini(&q);
}

/* A change of the pool has all that wait looked at, each of which waits for the next
 * time that its words may be written: as many steps for each, however many there are.
 */
static void
very_many_that_wait_are_looked_at_in_little_time(void **state)
{
    enum { N = 200000 };
    struct ctrl_queue q;
    char name[64];

    assert_int_equal(ctrl_queue_init(&q), 0);
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "c:many/%u", i);
        ctrl_queue_add_at(&q, name, 1000 + i);
    }
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "c:many/%u", i);
        ctrl_queue_add(&q, name);
    }
    for (unsigned i = 0; i < N; i++) {
        struct ctrl_item *item = ctrl_queue_take(&q, 10);

        assert_non_null(item);
        ctrl_queue_add_at(&q, item->name, 1000 + i);
        ctrl_queue_done(&q, item);
    }
    assert_null(ctrl_queue_take(&q, 10));
    ctrl_queue_fini(&q);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_queued_once_and_in_order),
        cmocka_unit_test(the_earlier_of_two_times_counts),
        cmocka_unit_test(what_failed_comes_back_later_and_later),
        cmocka_unit_test(namespaces_take_turns),
        cmocka_unit_test(what_is_due_comes_in_the_order_of_its_times),
        cmocka_unit_test(very_many_that_wait_are_looked_at_in_little_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
