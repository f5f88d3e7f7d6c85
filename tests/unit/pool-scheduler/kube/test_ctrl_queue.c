/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's queue. */
#include "ut.h"

#include "ctrl_queue.h"
#include "gp_time.h"

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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_queued_once_and_in_order),
        cmocka_unit_test(the_earlier_of_two_times_counts),
        cmocka_unit_test(what_failed_comes_back_later_and_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
