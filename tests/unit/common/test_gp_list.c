/* SPDX-License-Identifier: Apache-2.0 */
/* gp_list.h: objects that come and leave in any order. */
#include "ut.h"

#include "gp_list.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N 200

struct item {
    struct item *next, **at;
    unsigned born;
};

static struct item items[N];

/* Newest first, and each knows where the pointer to it is. */
static unsigned
checked(struct item **list)
{
    struct item **at = list;
    unsigned n = 0;

    for (struct item *e = *list; e; e = e->next) {
        assert_ptr_equal(e->at, at);
        if (e->next)
            assert_true(e->born > e->next->born);
        at = &e->next;
        n++;
    }
    return n;
}

static void
objects_come_and_leave_in_any_order(void **state)
{
    struct item *list = NULL;
    unsigned born = 0, n = 0;

    srand(1);
    memset(items, 0, sizeof(items));
    for (int step = 0; step < 20000; step++) {
        struct item *e = &items[rand() % N];

        if (e->at) {
            GP_LIST_DROP(e);
            n--;
        } else {
            e->born = ++born;
            GP_LIST_ADD(&list, e);
            n++;
        }
        assert_int_equal(checked(&list), n);
    }
    for (int i = 0; i < N; i++)
        GP_LIST_DROP(&items[i]);
    assert_null(list);
}

static void
object_that_is_in_no_list_may_leave(void **state)
{
    struct item e = {0}, *list = NULL;

    GP_LIST_DROP(&e);
    GP_LIST_ADD(&list, &e);
    GP_LIST_DROP(&e);
    GP_LIST_DROP(&e);
    assert_null(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_come_and_leave_in_any_order),
        cmocka_unit_test(object_that_is_in_no_list_may_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
