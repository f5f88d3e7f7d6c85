/* SPDX-License-Identifier: Apache-2.0 */
/* Token buckets per peer. */
#include "ut.h"

#include "gp_rate.h"
#include "gp_time.h"

#define PER_S 20u
#define BURST (PER_S * GP_RATE_BURST_S)
#define START (1000 * GP_NS_PER_S)

static unsigned
taken(struct gp_rate *rate, uint64_t who, uint64_t now, unsigned tries)
{
    unsigned n = 0;

    for (unsigned i = 0; i < tries; i++)
        n += gp_rate_take(rate, who, now) == 0;
    return n;
}

static void
burst_then_rate(void **state)
{
    struct gp_rate rate;

    (void)state;
    assert_int_equal(gp_rate_init(&rate, PER_S), 0);
    assert_int_equal(taken(&rate, 7, START, 10 * BURST), BURST);
    assert_int_equal(rate.refused, 9 * BURST);
    assert_int_equal(taken(&rate, 7, START + GP_NS_PER_S, BURST), PER_S);
    assert_int_equal(taken(&rate, 7, START + 1000 * GP_NS_PER_S, 2 * BURST), BURST);
    gp_rate_fini(&rate);
}

static void
refusal_says_when_and_is_right(void **state)
{
    struct gp_rate rate;
    uint64_t wait;

    (void)state;
    assert_int_equal(gp_rate_init(&rate, PER_S), 0);
    taken(&rate, 7, START, BURST);
    wait = gp_rate_take(&rate, 7, START);
    assert_int_equal(wait, GP_NS_PER_S / PER_S);
    assert_int_equal(gp_rate_ms(wait), 51);
    assert_int_not_equal(gp_rate_take(&rate, 7, START + wait - 1), 0);
    assert_int_equal(gp_rate_take(&rate, 7, START + wait), 0);
    gp_rate_fini(&rate);
}

static void
waiting_costs_nothing(void **state)
{
    struct gp_rate rate;

    (void)state;
    assert_int_equal(gp_rate_init(&rate, PER_S), 0);
    for (unsigned i = 0; i < 2 * BURST; i++)
        assert_int_equal(gp_rate_wait(&rate, 7, START), 0);
    assert_int_equal(taken(&rate, 7, START, 2 * BURST), BURST);
    assert_int_not_equal(gp_rate_wait(&rate, 7, START), 0);
    gp_rate_fini(&rate);
}

static void
flood_of_one_leaves_the_others_theirs(void **state)
{
    struct gp_rate rate;

    (void)state;
    assert_int_equal(gp_rate_init(&rate, PER_S), 0);
    taken(&rate, 7, START, 100 * BURST);
    for (uint64_t who = 8; who < 1000; who++)
        assert_int_equal(taken(&rate, who, START, 2), 2);
    assert_int_not_equal(gp_rate_take(&rate, 7, START), 0);
    gp_rate_fini(&rate);
}

/* More addresses than there are buckets, each of them a flood. */
static void
crowd_of_addresses_makes_nobody_else_pay(void **state)
{
    struct gp_rate rate;

    (void)state;
    assert_int_equal(gp_rate_init(&rate, PER_S), 0);
    for (uint64_t who = 1; who <= 4 * GP_RATE_BUCKETS; who++)
        taken(&rate, who * 0x9e3779b97f4a7c15, START, 2 * BURST);
    for (uint64_t who = 1; who < 1000; who++)
        assert_int_equal(gp_rate_take(&rate, who * 0xc2b2ae3d27d4eb4f, START), 0);
    gp_rate_fini(&rate);
}

static void
no_limit_takes_everything(void **state)
{
    struct gp_rate rate;

    (void)state;
    assert_int_equal(gp_rate_init(&rate, 0), 0);
    assert_int_equal(taken(&rate, 7, START, 100000), 100000);
    gp_rate_fini(&rate);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(burst_then_rate),
        cmocka_unit_test(refusal_says_when_and_is_right),
        cmocka_unit_test(waiting_costs_nothing),
        cmocka_unit_test(flood_of_one_leaves_the_others_theirs),
        cmocka_unit_test(crowd_of_addresses_makes_nobody_else_pay),
        cmocka_unit_test(no_limit_takes_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
