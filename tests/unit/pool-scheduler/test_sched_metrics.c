/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of servers and the pool after random changes, and the lines that show them.
 */
#include "ut.h"

#include "gp_hash.h"
#include "gp_http.h"
#include "sched_metrics_cards.h"
#include "sched_pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define SERVERS 6
#define CARDS 4

static uint64_t seed;

static uint32_t
roll(uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++seed) % n);
}

/* Card @number comes to @server, if it may. */
static void
put_card(struct sched_pool *pool, struct sched_server *server, uint64_t number)
{
    struct sched_card_facts facts = {.memory = (8 + roll(4)) * GIB,
                                     .index = (uint32_t)(number % CARDS)};
    struct sched_card *card;

    memcpy(facts.uuid, &number, sizeof(number));
    sched_pool_card_put(pool, server, &facts, &card, NULL);
}

static struct sched_server *
add_server(struct sched_pool *pool, unsigned number)
{
    struct sched_server *server;
    char name[16];

    snprintf(name, sizeof(name), "n%u", number);
    assert_int_equal(sched_pool_server_add(pool, name, &server, NULL), 0);
    server->alive = true;
    for (unsigned i = 0; i < CARDS; i++)
        put_card(pool, server, (uint64_t)number * CARDS + i);
    return server;
}

static void
add_card(struct sched_sums *sums, const struct sched_card *card)
{
    const struct sched_server *server = card->server;
    bool drains = server->drain_asked || server->drain_self;

    sums->memory += card->facts.memory;
    sums->core_given += card->core_given;
    sums->memory_given += card->memory_given;
    sums->slices += card->slices;
    sums->memory_used += card->used_bytes;
    sums->busy += card->busy_percent;
    sums->n_faulty += !!card->fault;
    sums->n_cordoned += card->cordoned;
    sums->n_away += !server->alive;
    sums->n_draining += server->alive && drains;
}

static void
check_sums(const struct sched_pool *pool)
{
    struct sched_sums all = {0};

    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        struct sched_sums sums = {0};

        for (unsigned i = 0; i < s->n_cards; i++) {
            add_card(&sums, s->cards[i]);
            add_card(&all, s->cards[i]);
        }
        assert_memory_equal(&sums, &s->sums, sizeof(sums));
    }
    assert_memory_equal(&all, &pool->sums, sizeof(all));
}

/* What sessions, reports and administrators do to @card. */
static void
change(struct sched_pool *pool, struct sched_card *card)
{
    static const char *const faults[] = {"", "ECC", "Xid 79"};

    switch (roll(6)) {
    case 0:
    case 1:
        sched_pool_take(pool, card, 5, GIB, false);
        break;
    case 2:
        if (card->slices)
            sched_pool_give(pool, card, 5, GIB);
        break;
    case 3:
        sched_pool_used(pool, card, roll(8) * GIB, roll(100));
        break;
    case 4:
        assert_int_equal(sched_pool_set_fault(pool, card, faults[roll(3)]), 0);
        break;
    default:
        sched_pool_set_cordoned(pool, card, roll(2));
    }
}

/* Everything about @server; the one that is in its place afterwards. */
static struct sched_server *
shake(struct sched_pool *pool, struct sched_server *server, unsigned number)
{
    switch (roll(3)) {
    case 0: /* it registers again; cards of others may have come to it */
        put_card(pool, server, roll(SERVERS * CARDS));
        break;
    case 1:
        server->alive = roll(2);
        server->drain_asked = roll(2);
        sched_pool_server_update(pool, server);
        break;
    default:
        server->alive = false;
        for (unsigned i = 0; i < server->n_cards; i++)
            while (server->cards[i]->slices)
                sched_pool_give(pool, server->cards[i], 5, GIB);
        assert_int_equal(sched_pool_server_remove(pool, server), 0);
        server = add_server(pool, number);
    }
    return server;
}

static void
sums_are_those_of_the_cards(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *servers[SERVERS];

    for (unsigned i = 0; i < SERVERS; i++)
        servers[i] = add_server(pool, i);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned at = roll(SERVERS);
        struct sched_server *s = servers[at];

        if (roll(10) == 0 || !s->n_cards)
            servers[at] = shake(pool, s, at);
        else
            change(pool, s->cards[roll(s->n_cards)]);
        if (i % 10 == 0)
            check_sums(pool);
    }
    assert_true(pool->servers_removed > 10); /* else nothing was shaken */
}

/* What was added to @answer, as a string; the caller's to free. */
static char *
tail_of(const struct gp_http_answer *answer)
{
    char *text = strndup(answer->tail, answer->tail_size);

    assert_non_null(text);
    assert_int_equal(strlen(text), answer->tail_size);
    return text;
}

static void
lines_of_servers_stay_as_they_are_while_they_are_sent(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_metrics_page *kept = NULL;
    struct gp_http_answer first = {0}, second = {0}, third = {0};
    struct sched_server *a = add_server(pool, 1);
    CLEANUP_FREE char *before = NULL, *after = NULL, *last = NULL;
    const void *memory;

    assert_int_equal(sched_metrics_put_servers(&kept, pool, false, &first), 0);
    before = tail_of(&first);
    assert_non_null(
        strstr(before, "# HELP gpupool_server_cards Cards that the server has or had.\n"
                       "# TYPE gpupool_server_cards gauge\n"
                       "gpupool_server_cards{server=\"n1\"} 4\n"));
    assert_non_null(strstr(before, "\ngpupool_server_slices{server=\"n1\"} 0\n"));
    assert_int_equal(sched_pool_take(pool, a->cards[0], 30, GIB, false), 0);
    add_server(pool, 2);
    assert_int_equal(sched_metrics_put_servers(&kept, pool, false, &second), 0);
    after = tail_of(&second);
    assert_non_null(strstr(after,
                           "\ngpupool_server_core_given_percent{server=\"n1\"} 30"
                           "\ngpupool_server_core_given_percent{server=\"n2\"} 0"
                           "\n"));
    assert_memory_equal(first.tail, before, first.tail_size);
    memory = first.tail;
    first.done(first.state);
    second.done(second.state);
    /* What has been sent is written over. */
    assert_int_equal(sched_pool_server_remove(pool, a), -EBUSY);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(sched_metrics_put_servers(&kept, pool, false, &third), 0);
        if (i)
            assert_ptr_equal(third.tail, memory);
        memory = third.tail;
        third.done(third.state);
    }
    last = tail_of(&third);
    assert_string_equal(last, after);
    sched_metrics_page_free(kept);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_cards),
        cmocka_unit_test(lines_of_servers_stay_as_they_are_while_they_are_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
