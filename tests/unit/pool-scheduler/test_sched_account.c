/* SPDX-License-Identifier: Apache-2.0 */
/* Accounting on a set in memory: what is held is integrated exactly, whoever enters it
 * how often, and owners that clients make up cost a bounded amount. */
#include "ut.h"

#include "gp_time.h"
#include "sched_account.h"
#include "sched_account_age.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define S GP_NS_PER_S

static struct sched_accounts set;

static int
setup(void **state)
{
    (void)state;
    sched_accounts_init(&set);
    set.on = true;
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    sched_accounts_fini(&set);
    assert_int_equal(set.rows.count, 0);
    return 0;
}

static struct sched_account *
row_of(const char *owner)
{
    uint64_t key[2];

    sched_account_key(set.today, owner, key);
    return sched_account_find(&set, key);
}

/* The same time, entered in one piece and in a thousand that are no whole milliseconds.
 */
static void
sums_are_exact_however_often_they_are_entered(void **state)
{
    struct sched_holding one = {
        .held = {50, 2 * GIB, 1}, .since_ns = 5 * S, .opened = 1};
    struct sched_holding many = one;
    const struct sched_account *a, *b;

    (void)state;
    sched_account_enter(&set, &one, "ada", "lab", 15 * S);
    for (uint64_t i = 1; i <= 1000; i++)
        sched_account_enter(&set, &many, "bob", "lab",
                            5 * S + i * 10 * S / 1000 + (i < 1000) * (i % 7) * 99999);
    a = row_of("ada");
    b = row_of("bob");
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->sums.core_ms, 50 * 10000);
    assert_int_equal(a->sums.memory_mib_ms, 2048 * 10000);
    assert_int_equal(a->sums.slice_ms, 10000);
    assert_int_equal(a->sums.sessions, 1);
    assert_memory_equal(&a->sums, &b->sums, sizeof(a->sums));
    assert_string_equal(a->tenant, "lab");
    assert_int_equal(one.opened, 0);
}

/* A scheduler that follows enters nothing, and does not when it leads then either. */
static void
time_of_another_leader_is_not_entered(void **state)
{
    struct sched_holding h = {.held = {100, GIB, 1}, .since_ns = 0, .opened = 1};

    (void)state;
    set.on = false;
    sched_account_enter(&set, &h, "ada", "lab", 100 * S);
    assert_null(row_of("ada"));
    set.on = true;
    sched_account_enter(&set, &h, "ada", "lab", 101 * S);
    assert_int_equal(row_of("ada")->sums.core_ms, 100 * 1000);
}

static void
changed_rows_wait_in_the_order_of_their_change(void **state)
{
    struct sched_holding h = {.opened = 1};
    struct sched_account *row;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "o%u", i);
        h.opened = 1;
        sched_account_enter(&set, &h, name, name, (1 + i) * S);
    }
    h.opened = 1;
    sched_account_enter(&set, &h, "o0", "o0", 9 * S); /* it waits since its first */
    sched_account_clean(&set, row_of("o3"));
    sched_account_drop(&set, row_of("o4"));
    row = set.dirty;
    for (unsigned i = 0; i < 3; i++, row = row->dirty_next) {
        snprintf(name, sizeof(name), "o%u", i);
        assert_string_equal(row->owner, name);
        assert_int_equal(row->dirty_ns, (1 + i) * S);
    }
    assert_null(row);
    while (set.dirty)
        sched_account_clean(&set, set.dirty);
    assert_ptr_equal(set.dirty_end, &set.dirty);
}

static void
keys_name_their_row_and_nothing_else(void **state)
{
    char text[SCHED_ACCOUNT_KEY_TEXT];
    uint64_t key[2];
    static const char *const bad[] = {"", "2026", "20261123/", "20261123/xyz",
                                      "20261123/0123456789abcdef01234567x"};
    struct sched_account *row = sched_account_get(&set, 20261123, "ada@host");

    (void)state;
    assert_ptr_equal(sched_account_get(&set, 20261123, "ada@host"), row);
    assert_ptr_not_equal(sched_account_get(&set, 20261124, "ada@host"), row);
    sched_account_format_key(row, text);
    assert_true(sched_account_parse_key(text, key));
    assert_ptr_equal(sched_account_find(&set, key), row);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(sched_account_parse_key(bad[i], key));
}

static void
days_are_of_utc_and_go_back(void **state)
{
    (void)state;
    assert_int_equal(sched_account_day(0, 0), 19700101);
    assert_int_equal(sched_account_day(1798761599, 0), 20261231);
    assert_int_equal(sched_account_day(1798761600, 0), 20270101);
    assert_int_equal(sched_account_day(1798761600, 1), 20261231);
    assert_int_equal(sched_account_day(1798761600, 365), 20260101);
    assert_int_equal(sched_account_day(86400, 9999), 19700101);
}

/* Whoever has the client token can make up a name for each session. */
static void
owners_beyond_the_cap_of_a_day_share_a_row(void **state)
{
    struct sched_holding h = {.opened = 1};
    char name[16];

    (void)state;
    for (unsigned i = 0; i < SCHED_ACCOUNT_OWNERS_MAX + 50; i++) {
        snprintf(name, sizeof(name), "o%u", i);
        h.opened = 1;
        sched_account_enter(&set, &h, name, name, S);
    }
    assert_int_equal(set.rows.count, SCHED_ACCOUNT_OWNERS_MAX + 1);
    assert_int_equal(row_of(SCHED_ACCOUNT_REST)->sums.sessions, 50);
    assert_string_equal(row_of(SCHED_ACCOUNT_REST)->tenant, SCHED_ACCOUNT_REST);
    h.opened = 1;
    sched_account_enter(&set, &h, "o7", "o7", S); /* that has a row already */
    assert_int_equal(row_of("o7")->sums.sessions, 2);
}

/* Rows of @n days that end at @unix_s. */
static void
put_days(uint64_t unix_s, uint32_t n)
{
    while (n)
        assert_non_null(sched_account_get(&set, sched_account_day(unix_s, --n), "ada"));
}

#define DAY_S UINT64_C(86400)
#define NOON (UINT64_C(20300) * DAY_S + DAY_S / 2)

static void
clock_that_is_suddenly_far_ahead_ages_no_day_for_hours(void **state)
{
    struct sched_account_age age = {0};
    uint64_t ahead = NOON + 200 * DAY_S;

    (void)state;
    put_days(NOON, 92);
    assert_int_equal(sched_account_age_time(&age, &set, NOON, 1000), NOON);
    assert_int_equal(sched_account_age_time(&age, &set, NOON + 60, 1060), NOON + 60);
    assert_int_equal(sched_account_age_time(&age, &set, ahead, 1061), NOON + 60);
    /* What is entered meanwhile makes it no likelier. */
    put_days(ahead, 1);
    assert_int_equal(sched_account_age_time(&age, &set, ahead + 10 * 3600, 37061),
                     NOON + 60);
    /* It is set right. */
    assert_int_equal(sched_account_age_time(&age, &set, NOON + 36100, 37100),
                     NOON + 36100);
    /* It is ahead again, and stays so. */
    assert_int_equal(sched_account_age_time(&age, &set, ahead, 40000), NOON + 36100);
    assert_int_equal(sched_account_age_time(&age, &set,
                                            ahead + SCHED_ACCOUNT_STEADY_S - 1,
                                            40000 + SCHED_ACCOUNT_STEADY_S - 1),
                     NOON + 36100);
    assert_int_equal(sched_account_age_time(&age, &set, ahead + SCHED_ACCOUNT_STEADY_S,
                                            40000 + SCHED_ACCOUNT_STEADY_S),
                     ahead + SCHED_ACCOUNT_STEADY_S);
}

static void
start_by_a_clock_far_ahead_ages_no_day_for_hours(void **state)
{
    struct sched_account_age age = {0}, again = {0}, empty = {0};
    uint64_t ahead = NOON + 200 * DAY_S, last = NOON - DAY_S / 2;

    (void)state;
    assert_int_equal(sched_account_age_time(&empty, &set, NOON, 1), NOON);
    put_days(NOON, 5);
    assert_int_equal(sched_account_age_time(&age, &set, ahead, 1000), last);
    put_days(ahead, 1); /* a scheduler that is started again finds this day */
    assert_int_equal(sched_account_age_time(&again, &set, ahead + 60, 1060), last);
    assert_int_equal(sched_account_age_time(&again, &set, NOON + 9, 1070), NOON + 9);
    assert_int_equal(sched_account_age_time(&age, &set, ahead + SCHED_ACCOUNT_STEADY_S,
                                            1000 + SCHED_ACCOUNT_STEADY_S),
                     ahead + SCHED_ACCOUNT_STEADY_S);
}

static void
clock_that_was_behind_is_believed_at_once(void **state)
{
    struct sched_account_age age = {0}, idle = {0};

    (void)state;
    put_days(NOON, 5);
    assert_int_equal(sched_account_age_time(&age, &set, 100, 1), 100);
    /* A pool that was idle for less than a week. */
    assert_int_equal(sched_account_age_time(&idle, &set, NOON + 6 * DAY_S, 1),
                     NOON + 6 * DAY_S);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(sums_are_exact_however_often_they_are_entered),
        PROMISE(time_of_another_leader_is_not_entered),
        PROMISE(changed_rows_wait_in_the_order_of_their_change),
        PROMISE(keys_name_their_row_and_nothing_else),
        PROMISE(days_are_of_utc_and_go_back),
        PROMISE(owners_beyond_the_cap_of_a_day_share_a_row),
        PROMISE(clock_that_is_suddenly_far_ahead_ages_no_day_for_hours),
        PROMISE(start_by_a_clock_far_ahead_ages_no_day_for_hours),
        PROMISE(clock_that_was_behind_is_believed_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
