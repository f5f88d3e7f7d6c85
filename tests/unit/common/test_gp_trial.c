/* SPDX-License-Identifier: Apache-2.0 */
/* Two ways, of which the faster one is to be found by taking both in turns. */
#include "ut.h"

#include "gp_trial.h"

#include <string.h>

#define SIZE 1000000u
#define A_TRIAL (4u * GP_TRIAL_TURNS)

/* What a byte takes with each way, and how many uses in ten take four times that. */
struct world {
    float cost[2];
    unsigned disturbed;
    uint32_t random;
};

static unsigned
random_below(struct world *world, unsigned n)
{
    world->random = world->random * 1664525u + 1013904223u;
    return (world->random >> 16) % n;
}

/* One use; its way.  *ret_changed: it ended a trial that changed the way. */
static unsigned
use(struct gp_trial *trial, struct world *world, uint64_t size, bool *ret_changed)
{
    unsigned way = gp_trial_way(trial, size);
    float ns = world->cost[way] * (float)size, cost[2];

    if (random_below(world, 10) < world->disturbed)
        ns *= 4;
    *ret_changed = gp_trial_took(trial, size, (uint64_t)ns, cost);
    if (*ret_changed)
        assert_true(cost[1] < cost[0]);
    return way;
}

/* Of @n uses, how many went way 1. */
static unsigned
uses(struct gp_trial *trial, struct world *world, unsigned n, uint64_t size)
{
    unsigned ones = 0;
    bool changed;

    for (unsigned i = 0; i < n; i++)
        ones += use(trial, world, size, &changed);
    return ones;
}

static void
faster_way_is_found_and_kept(void **state)
{
    struct world world = {.cost = {0.30f, 0.24f}};
    struct gp_trial trial = {0};

    (void)state;
    assert_int_equal(uses(&trial, &world, GP_TRIAL_FIRST, SIZE), 0);
    assert_true(gp_trial_is_due(&trial));
    assert_int_equal(uses(&trial, &world, A_TRIAL, SIZE), A_TRIAL / 2);
    assert_int_equal(trial.best, 1);
    assert_int_equal(uses(&trial, &world, GP_TRIAL_AGAIN, SIZE), GP_TRIAL_AGAIN);
    /* and again, which tells the same */
    assert_int_equal(uses(&trial, &world, A_TRIAL, SIZE), A_TRIAL / 2);
    assert_int_equal(trial.best, 1);
}

static void
way_in_use_stays_where_nothing_is_won(void **state)
{
    static const float others[] = {0.30f, 0.295f, 0.40f};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        struct world world = {.cost = {0.30f, others[i]}};
        struct gp_trial trial = {0};

        uses(&trial, &world, GP_TRIAL_FIRST + A_TRIAL, SIZE);
        assert_false(gp_trial_is_due(&trial));
        assert_int_equal(trial.turn, 0);
        assert_int_equal(trial.best, 0);
    }
}

/* The world turns, as it does when two programs move to one core. */
static void
change_is_followed(void **state)
{
    struct world world = {.cost = {0.30f, 0.24f}};
    struct gp_trial trial = {0};

    (void)state;
    uses(&trial, &world, GP_TRIAL_FIRST + A_TRIAL, SIZE);
    assert_int_equal(trial.best, 1);
    world.cost[1] = 0.45f;
    uses(&trial, &world, GP_TRIAL_AGAIN + A_TRIAL, SIZE);
    assert_int_equal(trial.best, 0);
}

/* A quarter of the uses are interrupted: of seven turns four have to be, for a median
 * to be wrong. */
static void
disturbed_uses_do_not_decide(void **state)
{
    unsigned right = 0;

    (void)state;
    for (uint32_t seed = 1; seed <= 100; seed++) {
        struct world world = {{0.30f, 0.24f}, 2, seed * 7919u};
        struct gp_trial trial = {0};

        uses(&trial, &world, GP_TRIAL_FIRST + A_TRIAL, SIZE);
        right += trial.best == 1;
    }
    assert_in_range(right, 90, 100);
}

/* Long and short uses take turns, and only the long ones, with which the trial began,
 * are compared: with the short ones way 1 would seem the better one. */
static void
sizes_are_not_mixed(void **state)
{
    struct gp_trial trial = {0};
    struct world world = {.cost = {0.30f, 0.30f}};
    bool changed;

    (void)state;
    for (unsigned i = 0; i < 2 * (GP_TRIAL_FIRST + 2 * A_TRIAL); i++) {
        uint64_t size = i % 2 ? SIZE : 64 * SIZE;

        world.cost[1] = size == SIZE ? 0.1f : 0.30f;
        world.cost[0] = size == SIZE ? 0.2f : 0.30f;
        use(&trial, &world, size, &changed);
        assert_false(changed);
    }
    assert_int_equal(trial.best, 0);
}

static void
trial_without_uses_is_given_up(void **state)
{
    struct world world = {.cost = {0.30f, 0.24f}};
    struct gp_trial trial = {0};
    unsigned ones;

    (void)state;
    uses(&trial, &world, GP_TRIAL_FIRST + 3, SIZE);
    assert_int_not_equal(trial.turn, 0);
    ones = uses(&trial, &world, 500, 8 * SIZE);
    assert_in_range(ones, 0, 100);
    assert_int_equal(trial.turn, 0);
    assert_int_equal(trial.best, 0);
}

static void
trial_is_put_off(void **state)
{
    struct world world = {.cost = {0.30f, 0.24f}};
    struct gp_trial trial = {0};

    (void)state;
    uses(&trial, &world, GP_TRIAL_FIRST, SIZE);
    assert_true(gp_trial_is_due(&trial));
    gp_trial_put_off(&trial);
    assert_false(gp_trial_is_due(&trial));
    assert_int_equal(uses(&trial, &world, GP_TRIAL_AGAIN, SIZE), 0);
    assert_true(gp_trial_is_due(&trial));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_way_is_found_and_kept),
        cmocka_unit_test(way_in_use_stays_where_nothing_is_won),
        cmocka_unit_test(change_is_followed),
        cmocka_unit_test(disturbed_uses_do_not_decide),
        cmocka_unit_test(sizes_are_not_mixed),
        cmocka_unit_test(trial_without_uses_is_given_up),
        cmocka_unit_test(trial_is_put_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
