/* SPDX-License-Identifier: Apache-2.0 */
/* Spare blocks: which one is found, how many there may be, which addresses a frame
 * names, and what pools have in use. */
#include "ut.h"

#include "stub_spare_table.h"

#include <string.h>

#define BASE UINT64_C(0x310000000000)
#define SIZE UINT64_C(4096)

static struct stub_spare_ranges ranges;
static struct stub_spare_table table;

static struct stub_spare_table *
empty(void)
{
    ranges = (struct stub_spare_ranges){0};
    table = (struct stub_spare_table){.ranges = &ranges, .limit = 64 * SIZE};
    return &table;
}

static struct stub_spare
block(unsigned i)
{
    return (struct stub_spare){
        .addr = BASE + i * SIZE, .size = SIZE, .stream = 7, .ctx_unique = 3, .pool = 1};
}

static uint64_t
found(const struct stub_spare *want)
{
    int i = stub_spare_table_find(&table, want);

    return i < 0 ? 0 : table.at[i].addr;
}

static void
block_is_found_by_stream_context_pool_and_size(void **state)
{
    struct stub_spare_table *t = empty();
    struct stub_spare first = block(0), second = block(1), want = block(9);

    assert_int_equal(found(&want), 0);
    t->ranges = NULL; /* of a link that has had no such memory */
    assert_int_equal(found(&want), 0);
    assert_int_equal(stub_spare_table_oldest(t), -1);
    t->ranges = &ranges;
    stub_spare_table_enter(t, &first);
    stub_spare_table_enter(t, &second);
    assert_int_equal(found(&want), second.addr); /* what was freed last */
    want.stream = 0;
    assert_int_equal(found(&want), 0);
    want = block(9);
    want.ctx_unique = 4;
    assert_int_equal(found(&want), 0);
    want = block(9);
    want.pool = 2;
    assert_int_equal(found(&want), 0);
    want = block(9);
    want.size = SIZE + 1;
    assert_int_equal(found(&want), 0);
    want = block(9);
    stub_spare_table_remove(t, stub_spare_table_find(t, &want));
    assert_int_equal(found(&want), first.addr);
}

/* Sizes of one to three times SIZE. */
static void
longer_block_is_found_if_too_much_is_not_lost(void **state)
{
    struct stub_spare_table *t = empty();
    struct stub_spare three = block(0), two = block(4), last = block(8),
                      want = block(9);

    three.size = 3 * SIZE;
    two.size = last.size = 2 * SIZE;
    stub_spare_table_enter(t, &two);
    stub_spare_table_enter(t, &three);
    assert_int_equal(found(&want), two.addr);
    stub_spare_table_enter(t, &last);
    assert_int_equal(found(&want), last.addr);
    want.size = SIZE - 1; /* less than a half */
    assert_int_equal(found(&want), 0);
    want.size = 2 * SIZE + 1;
    assert_int_equal(found(&want), three.addr);
    want.size = 3 * SIZE + 1;
    assert_int_equal(found(&want), 0);
    want.size = 2 * SIZE - 1;
    t->slack = t->limit / 2 - 1;
    assert_int_equal(found(&want), last.addr);
    t->slack = t->limit / 2;
    assert_int_equal(found(&want), 0);
    want.size = 2 * SIZE;
    assert_int_equal(found(&want), last.addr);
}

/* Blocks and what is lost of others count together. */
static void
what_is_lost_of_longer_blocks_counts(void **state)
{
    struct stub_spare_table *t = empty();
    struct stub_spare spare = block(0);

    t->slack = t->limit - 2 * SIZE;
    assert_true(stub_spare_table_could_hold(t, 2 * SIZE));
    assert_false(stub_spare_table_could_hold(t, 2 * SIZE + 1));
    stub_spare_table_enter(t, &spare);
    assert_true(stub_spare_table_has_room(t, SIZE));
    assert_false(stub_spare_table_has_room(t, SIZE + 1));
    assert_true(stub_spare_table_could_hold(t, SIZE + 1));
}

/* Of 20 bytes the program has 12 in its second life, of another pool's nothing. */
static void
pool_says_what_the_program_has_in_use_of_longer_blocks(void **state)
{
    struct stub_spare_table *t = empty();
    uint32_t pool = stub_spare_table_pool(t, 100, 0);

    stub_spare_table_count(t, pool, 20, 20);
    assert_int_equal(stub_spare_table_excess_now(t, 100), 0);
    stub_spare_table_count(t, pool, -20, 0);
    stub_spare_table_count(t, pool, 12, 0);
    assert_int_equal(stub_spare_table_excess_now(t, 100), 8);
    assert_int_equal(stub_spare_table_excess_now(t, 101), 0);
    stub_spare_table_reset(t, 100);
    assert_int_equal(stub_spare_table_excess(t, 100), 8);
    stub_spare_table_destroyed(t, 100);
    stub_spare_table_lose(t, pool, 12, 20);
    assert_int_equal(stub_spare_table_pool(t, 200, 0), pool); /* the other is over */
}

/* Whichever is emptied, all that are left are found, and bounds are no wider than them
 * when the last or an outer one has gone. */
static void
frames_are_searched_right_while_blocks_come_and_go(void **state)
{
    struct stub_spare_table *t = empty();
    bool there[STUB_SPARES_MAX] = {false};
    uint64_t word;

    for (unsigned k = 0; k < 2000; k++) {
        unsigned i = (k * 2654435761u >> 7) % STUB_SPARES_MAX;
        struct stub_spare spare = block(2 * i);

        if (!there[i]) {
            stub_spare_table_enter(t, &spare);
        } else {
            for (int at = 0; at < (int)STUB_SPARES_MAX; at++)
                if (t->at[at].addr == spare.addr)
                    stub_spare_table_remove(t, at);
        }
        there[i] = !there[i];
        for (unsigned at = 0; at < STUB_SPARES_MAX; at++) {
            word = BASE + 2 * at * SIZE + 1;
            assert_int_equal(stub_spare_ranges_named(&ranges, &word, sizeof(word)),
                             there[at]);
        }
    }
    while (stub_spare_table_oldest(t) >= 0)
        stub_spare_table_remove(t, stub_spare_table_oldest(t));
    assert_int_equal(atomic_load(&ranges.n), 0);
    assert_true(atomic_load(&ranges.low) > atomic_load(&ranges.high));
}

static void
bytes_and_blocks_are_bounded(void **state)
{
    struct stub_spare_table *t = empty();
    struct stub_spare spare;

    assert_false(stub_spare_table_has_room(t, t->limit + 1));
    assert_false(stub_spare_table_has_room(t, UINT64_MAX));
    assert_int_equal(stub_spare_table_oldest(t), -1);
    for (unsigned i = 0; i < STUB_SPARES_MAX; i++) {
        assert_true(stub_spare_table_has_room(t, SIZE));
        spare = block(i);
        stub_spare_table_enter(t, &spare);
    }
    assert_false(stub_spare_table_has_room(t, 1));
    assert_int_equal(t->at[stub_spare_table_oldest(t)].addr, BASE);
    stub_spare_table_remove(t, stub_spare_table_oldest(t));
    assert_int_equal(t->at[stub_spare_table_oldest(t)].addr, BASE + SIZE);
    assert_true(stub_spare_table_has_room(t, 33 * SIZE));
    assert_false(stub_spare_table_has_room(t, 33 * SIZE + 1));
    while (stub_spare_table_oldest(t) >= 0)
        stub_spare_table_remove(t, stub_spare_table_oldest(t));
    assert_int_equal(t->bytes, 0);
    assert_int_equal(atomic_load(&ranges.n), 0);
}

static void
frames_are_searched_for_addresses_inside_of_blocks(void **state)
{
    struct stub_spare_table *t = empty();
    struct stub_spare first = block(0), third = block(2);
    uint64_t words[4] = {0};

    words[2] = BASE;
    assert_false(stub_spare_ranges_named(&ranges, words, sizeof(words)));
    stub_spare_table_enter(t, &first);
    stub_spare_table_enter(t, &third);
    assert_true(stub_spare_ranges_named(&ranges, words, sizeof(words)));
    assert_false(stub_spare_ranges_named(&ranges, words, 2 * sizeof(*words) + 7));
    words[2] = BASE + SIZE - 1;
    assert_true(stub_spare_ranges_named(&ranges, words, sizeof(words)));
    words[2] = BASE + SIZE; /* between the two */
    assert_false(stub_spare_ranges_named(&ranges, words, sizeof(words)));
    words[3] = BASE + 3 * SIZE - 1;
    assert_true(stub_spare_ranges_named(&ranges, words, sizeof(words)));
    stub_spare_table_remove(t, 1);
    assert_false(stub_spare_ranges_named(&ranges, words, sizeof(words)));
    assert_false(stub_spare_ranges_named(&ranges, NULL, 0));
    words[3] = BASE - 1;
    assert_false(stub_spare_ranges_named(&ranges, words, sizeof(words)));
}

/* Two blocks, one behind the other, of which the first stays as a spare one. */
static void
pool_counts_what_the_server_has_too_many_in_use(void **state)
{
    struct stub_spare_table *t = empty();
    uint32_t pool = stub_spare_table_pool(t, 100, 0);

    assert_int_equal(pool, 1);
    assert_int_equal(stub_spare_table_pool(t, 100, 1), pool);
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
    stub_spare_table_count(t, pool, 10, 10);
    stub_spare_table_count(t, pool, -10, 0); /* kept */
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
    stub_spare_table_count(t, pool, 30, 30);
    assert_int_equal(stub_spare_table_excess(t, 100), 10);
    stub_spare_table_count(t, pool, 10, 0); /* taken: now both are in use */
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
    stub_spare_table_count(t, pool, -40, -40);
    stub_spare_table_reset(t, 100);
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
    assert_int_equal(stub_spare_table_excess(t, 101), 0);
}

/* A spare block is freed while an allocation waits for its answer, behind it or before
 * it: the server's order counts. */
static void
largest_use_is_that_of_the_servers_order(void **state)
{
    for (uint32_t free_first = 0; free_first < 2; free_first++) {
        struct stub_spare_table *t = empty();
        uint32_t pool = stub_spare_table_pool(t, 100, 0);

        stub_spare_table_count(t, pool, 10, 10);
        stub_spare_table_count(t, pool, -10, 0); /* kept */
        stub_spare_table_ask(t);
        stub_spare_table_sent(t, pool, 10, free_first ? UINT32_MAX : 1);
        stub_spare_table_answered(t, pool, 30, 0); /* numbers wrap around */
        assert_int_equal(stub_spare_table_excess(t, 100), free_first ? 0 : 10);
        assert_int_equal(t->n_changes, 0);
    }
}

/* Two threads wait, and are answered in both orders; another pool's changes and an
 * allocation that fails change nothing. */
static void
largest_use_with_two_that_wait(void **state)
{
    for (uint32_t second_first = 0; second_first < 2; second_first++) {
        struct stub_spare_table *t = empty();
        uint32_t pool = stub_spare_table_pool(t, 100, 0);
        uint32_t other = stub_spare_table_pool(t, 101, 0);

        stub_spare_table_count(t, pool, 10, 10);
        stub_spare_table_count(t, pool, -10, 0);
        for (int i = 0; i < 4; i++)
            stub_spare_table_ask(t);
        stub_spare_table_sent(t, pool, 10, 6);
        for (uint32_t i = 0; i < 2; i++)
            stub_spare_table_answered(t, pool, 3, i == second_first ? 5 : 7);
        stub_spare_table_answered(t, pool, 0, 8);
        stub_spare_table_answered(t, other, 1000, 4);
        assert_int_equal(t->asked, 0);
        /* 13 at the server, 10 of the program's. */
        assert_int_equal(stub_spare_table_excess(t, 100), 3);
        assert_int_equal(stub_spare_table_excess(t, 101), 0);
    }
}

/* More changes than are remembered: what pools have in use stays right. */
static void
changes_are_bounded(void **state)
{
    struct stub_spare_table *t = empty();
    uint32_t pool = stub_spare_table_pool(t, 100, 0);

    stub_spare_table_ask(t);
    for (uint32_t i = 0; i < 3 * STUB_SPARE_CHANGES; i++) {
        stub_spare_table_ask(t);
        stub_spare_table_answered(t, pool, 8, 2 * i);
        stub_spare_table_count(t, pool, -8, 0);
        stub_spare_table_sent(t, pool, 8, 2 * i + 1);
    }
    assert_int_equal(t->n_changes, STUB_SPARE_CHANGES);
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
    stub_spare_table_answered(t, pool, 8, 6 * STUB_SPARE_CHANGES);
    assert_int_equal(t->n_changes, 0);
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
    stub_spare_table_ask(t);
    stub_spare_table_answered(t, pool, 8, 1);
    assert_int_equal(t->pools[pool - 1].live, 16);
    stub_spare_table_reset(t, 100);
    assert_int_equal(t->pools[pool - 1].held_high, 16);
}

/* One block is freed, one stays in use behind the end of its context, and a third one
 * is as long as the first. */
static void
memory_of_a_context_that_ended_stays_in_use(void **state)
{
    struct stub_spare_table *t = empty();
    uint32_t pool = stub_spare_table_pool(t, 100, 0);

    stub_spare_table_count(t, pool, 20, 20);
    stub_spare_table_count(t, pool, -20, 0); /* kept */
    stub_spare_table_count(t, pool, 1, 1);
    stub_spare_table_count(t, pool, 0, -20); /* freed before the end */
    stub_spare_table_lose(t, pool, 1, 1);
    assert_int_equal(stub_spare_table_excess(t, 100), 1);
    stub_spare_table_count(t, pool, 20, 20);
    assert_int_equal(stub_spare_table_excess(t, 100), 0);
}

static void
current_pool_gets_its_number_when_it_is_known(void **state)
{
    struct stub_spare_table *t = empty();
    uint32_t current = stub_spare_table_pool(t, 0, 0), other, later;

    assert_int_not_equal(current, 0);
    assert_int_equal(stub_spare_table_pool(t, 0, 0), current);
    assert_false(stub_spare_table_is_unclear(t, 0, 0));
    assert_true(stub_spare_table_is_unclear(t, 0, 1));
    assert_true(stub_spare_table_is_unclear(t, 200, 0));
    assert_int_equal(stub_spare_table_unknown(t), current);
    stub_spare_table_known(t, current, 200);
    assert_int_equal(stub_spare_table_unknown(t), 0);
    assert_false(stub_spare_table_is_unclear(t, 200, 0));
    assert_int_equal(stub_spare_table_pool(t, 200, 0), current);
    other = stub_spare_table_pool(t, 300, 0);
    assert_int_not_equal(other, current);

    stub_spare_table_forget_current(t);
    assert_true(stub_spare_table_is_unclear(t, 0, 0));
    later = stub_spare_table_pool(t, 0, 0);
    stub_spare_table_count(t, later, 5, 5);
    stub_spare_table_known(t, later, 300);
    assert_int_equal(stub_spare_table_pool(t, 0, 0), other);
    stub_spare_table_count(t, later, -5, 0);
    stub_spare_table_count(t, other, 6, 6);
    assert_int_equal(stub_spare_table_excess(t, 300), 5);
}

static void
pools_are_bounded(void **state)
{
    struct stub_spare_table *t = empty();

    for (uint32_t i = 0; i < STUB_SPARE_POOLS; i++)
        assert_int_equal(stub_spare_table_pool(t, 100 + i, 0), i + 1);
    assert_int_equal(stub_spare_table_pool(t, 99, 0), 0);
    assert_int_equal(stub_spare_table_pool(t, 0, 0), 0);
    assert_int_equal(stub_spare_table_pool(t, 0, -1), 0);
    assert_int_equal(stub_spare_table_pool(t, 0, STUB_SPARE_DEVICES), 0);
    assert_int_equal(stub_spare_table_pool(t, 100, 0), 1);

    stub_spare_table_count(t, 7, 8, 8);
    stub_spare_table_destroyed(t, 106);
    assert_int_equal(stub_spare_table_pool(t, 99, 0), 0); /* its memory is in use */
    stub_spare_table_count(t, 7, -8, -8);
    assert_int_equal(stub_spare_table_pool(t, 99, 0), 7);
    assert_int_equal(stub_spare_table_excess(t, 99), 0);

    stub_spare_table_count(t, 7, 8, 8);
    stub_spare_table_destroyed(t, 99);
    stub_spare_table_lose(t, 7, 8, 8); /* that nobody can free */
    assert_int_equal(stub_spare_table_pool(t, 98, 0), 7);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_is_found_by_stream_context_pool_and_size),
        cmocka_unit_test(longer_block_is_found_if_too_much_is_not_lost),
        cmocka_unit_test(what_is_lost_of_longer_blocks_counts),
        cmocka_unit_test(pool_says_what_the_program_has_in_use_of_longer_blocks),
        cmocka_unit_test(frames_are_searched_right_while_blocks_come_and_go),
        cmocka_unit_test(bytes_and_blocks_are_bounded),
        cmocka_unit_test(frames_are_searched_for_addresses_inside_of_blocks),
        cmocka_unit_test(pool_counts_what_the_server_has_too_many_in_use),
        cmocka_unit_test(largest_use_is_that_of_the_servers_order),
        cmocka_unit_test(largest_use_with_two_that_wait),
        cmocka_unit_test(changes_are_bounded),
        cmocka_unit_test(memory_of_a_context_that_ended_stays_in_use),
        cmocka_unit_test(current_pool_gets_its_number_when_it_is_known),
        cmocka_unit_test(pools_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
