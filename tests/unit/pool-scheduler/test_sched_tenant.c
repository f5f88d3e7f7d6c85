/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tenants have spent, which is shown after their last session as well.
 */
#include "ut.h"

#include "sched_tenant.h"

#include <stdio.h>

static const struct sched_tenant *
first_gone(const struct sched_tenants *set)
{
    return container_of(gp_tree_first(&set->gone), struct sched_tenant, by_name);
}

/* A session of @owner that launches @n kernels and ends. */
static void
use_and_leave(struct sched_tenants *set, const char *owner, uint64_t n)
{
    struct sched_tenant *tenant = sched_tenant_ref(set, owner);

    assert_non_null(tenant);
    tenant->spent.launches += n;
    sched_tenant_unref(set, tenant);
}

static void
counters_go_on_with_the_next_session(void **state)
{
    struct sched_tenants set = {.rules = NULL};
    struct sched_tenant *tenant;

    (void)state;
    use_and_leave(&set, "ada", 5);
    assert_int_equal(set.by_name.count, 0);
    assert_int_equal(set.gone.count, 1);
    assert_string_equal(first_gone(&set)->name, "ada");
    assert_int_equal(first_gone(&set)->spent.launches, 5);
    tenant = sched_tenant_ref(&set, "ada");
    assert_int_equal(set.gone.count, 0);
    assert_int_equal(tenant->spent.launches, 5);
    assert_int_equal(tenant->refs, 1);
    assert_int_equal(tenant->used.core, 0);
    sched_tenant_unref(&set, tenant);
    use_and_leave(&set, "bob", 0); /* nothing to remember */
    assert_int_equal(set.gone.count, 1);
    sched_tenants_fini(&set);
}

/* An owner is what a client says. */
static void
lines_of_tenants_are_bounded_and_the_first_to_go_is_forgotten(void **state)
{
    struct sched_tenants set = {.rules = NULL};
    struct sched_tenant *ada;
    char name[32];

    (void)state;
    use_and_leave(&set, "ada", 7);
    for (unsigned i = 0; i < 3 * SCHED_TENANTS_APART; i++) {
        snprintf(name, sizeof(name), "u%u", i);
        use_and_leave(&set, name, 1);
        assert_in_range(set.n_apart + set.gone.count, 1, SCHED_TENANTS_APART);
    }
    ada = sched_tenant_ref(&set, "ada");
    assert_int_equal(ada->spent.launches, 0);
    assert_true(ada->apart);
    sched_tenant_unref(&set, ada);
    sched_tenants_fini(&set);
}

static void
what_others_have_spent_never_becomes_less(void **state)
{
    static struct sched_tenant *held[SCHED_TENANTS_APART];
    struct sched_tenants set = {.rules = NULL};
    char name[32];

    (void)state;
    for (unsigned i = 0; i < SCHED_TENANTS_APART; i++) {
        snprintf(name, sizeof(name), "u%u", i);
        held[i] = sched_tenant_ref(&set, name);
        assert_true(held[i]->apart);
    }
    use_and_leave(&set, "ada", 3);
    use_and_leave(&set, "bob", 4);
    assert_int_equal(set.gone.count, 0);
    assert_int_equal(set.others_spent.launches, 7);
    for (unsigned i = 0; i < SCHED_TENANTS_APART; i++)
        sched_tenant_unref(&set, held[i]);
    sched_tenants_fini(&set);
}

/* Two lines of one name would be one too many for Prometheus. */
static void
who_is_called_like_the_sum_is_a_part_of_it(void **state)
{
    struct sched_tenants set = {.rules = NULL};
    struct sched_tenant *tenant = sched_tenant_ref(&set, SCHED_TENANTS_REST);

    (void)state;
    assert_false(tenant->apart);
    assert_int_equal(set.n_apart, 0);
    sched_tenant_unref(&set, tenant);
    sched_tenants_fini(&set);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_go_on_with_the_next_session),
        cmocka_unit_test(lines_of_tenants_are_bounded_and_the_first_to_go_is_forgotten),
        cmocka_unit_test(who_is_called_like_the_sum_is_a_part_of_it),
        cmocka_unit_test(what_others_have_spent_never_becomes_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
