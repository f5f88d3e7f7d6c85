/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that are preferred: for random pools and requests the choice is that of the
 * request whose preferences are conditions, as many of them as any card can satisfy.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "sched_place.h"
#include "sched_several.h"
#include "sched_where.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define SERVERS 8
#define CARDS 3

static uint64_t seed;

static uint32_t
roll(uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++seed) % n);
}

static struct sched_server *
add_server(struct sched_pool *pool, unsigned number, const char *labels)
{
    struct sched_server *server;
    char name[16];

    snprintf(name, sizeof(name), "n%u", number);
    assert_int_equal(sched_pool_server_add(pool, name, &server, NULL), 0);
    server->alive = true;
    sched_pool_set_labels(pool, server, labels);
    for (unsigned i = 0; i < CARDS; i++) {
        struct sched_card_facts facts = {.memory = 16 * GIB, .index = i};
        uint64_t id = (uint64_t)number * CARDS + i + 1;
        struct sched_card *card;

        memcpy(facts.uuid, &id, sizeof(id));
        assert_int_equal(sched_pool_card_put(pool, server, &facts, &card, NULL), 0);
    }
    return server;
}

static struct sched_request
request(uint32_t core, uint32_t cards, const struct sched_where *where)
{
    struct sched_request req = {.placement = SCHED_BINPACK, .where = where};

    assert_int_equal(sched_request_shape(&req, core, GIB, cards, 0, NULL), 0);
    return req;
}

static struct sched_where
prefer(const char *first, const char *second)
{
    struct sched_where where = {0};

    assert_int_equal(sched_where_add_prefer(&where, first, NULL), 0);
    if (second)
        assert_int_equal(sched_where_add_prefer(&where, second, NULL), 0);
    return where;
}

static void
preferred_servers_come_first_and_others_after_them(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *other = add_server(pool, 0, "rack=r0,zone=b");
    struct sched_server *near = add_server(pool, 1, "rack=r1,zone=a");
    struct sched_where rack = prefer("rack=r1", NULL),
                       both = prefer("zone=b", "rack=r1");
    struct sched_request req = request(100, 1, &rack), two = request(50, 1, &both);
    struct sched_reasons reasons;
    struct sched_decision d;

    /* Binpack alone would fill the card that is begun. */
    assert_int_equal(sched_pool_take(pool, other->cards[0], 10, GIB, false), 0);
    for (unsigned i = 0; i < CARDS; i++) {
        assert_int_equal(sched_place(pool, &req, &d), 0);
        assert_ptr_equal(d.slices[0].card->server, near);
        assert_int_equal(sched_pool_take(pool, d.slices[0].card, 100, GIB, false), 0);
    }
    assert_int_equal(sched_place(pool, &req, &d), 0);
    assert_ptr_equal(d.slices[0].card->server, other);
    sched_place_explain(pool, &req, &d, &reasons);
    assert_non_null(strstr(reasons.list[1].words, "GiB free, rack=r1 is preferred, the "
                                                  "server has rack=r0,zone=b"));
    /* Nobody has both: the first counts more. */
    assert_int_equal(sched_place(pool, &two, &d), 0);
    assert_ptr_equal(d.slices[0].card->server, other);
    sched_pool_give(pool, near->cards[0], 100, GIB);
    assert_int_equal(sched_place(pool, &two, &d), 0);
    assert_ptr_equal(d.slices[0].card->server, other);
}

static void
preferences_are_labels_and_fit_beside_the_conditions(void **state)
{
    struct sched_where where = {0};
    struct gp_err err = {0};
    char label[SCHED_LABELS_MAX];

    assert_int_equal(sched_where_add_prefer(&where, "rack", &err), -EINVAL);
    assert_non_null(strstr(err.msg, "NAME=VALUE"));
    assert_true(sched_where_any(&where));
    snprintf(label, sizeof(label), "a=%0*d", 120, 0);
    assert_int_equal(sched_where_add_label(&where, label, NULL), 0);
    assert_int_equal(sched_where_add_prefer(&where, label, NULL), 0);
    assert_int_equal(sched_where_add_prefer(&where, "rack=r12345", &err), -EINVAL);
    assert_non_null(strstr(err.msg, "longer than"));
    assert_false(sched_where_any(&where));
}

/* -------------------------------------------------------------- properties -- */

static const char *const LABELS[] = {"rack=r0", "rack=r1", "zone=a", "zone!=a",
                                     "rack=none"};

/* Can any card, or any server for several, satisfy @req?  By looking at each. */
static bool
somewhere(const struct sched_pool *pool, const struct sched_request *req)
{
    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        unsigned n = 0;

        for (unsigned i = 0; i < s->n_cards; i++)
            n += sched_card_fits(s->cards[i], req);
        if (n >= req->cards)
            return true;
    }
    return false;
}

static void
check_choice(const struct sched_pool *pool, const struct sched_request *req,
             const char *const *preferred, unsigned n)
{
    struct sched_where where = *req->where;
    struct sched_request hard = *req;
    struct sched_decision found, expected;
    int r = sched_place(pool, req, &found);

    hard.where = &where;
    for (unsigned k = n;; k--) {
        where = *req->where;
        where.prefer[0] = '\0';
        memset(where.prefer, 0, sizeof(where.prefer));
        for (unsigned i = 0; i < k; i++)
            assert_int_equal(sched_where_add_label(&where, preferred[i], NULL), 0);
        if (somewhere(pool, &hard)) {
            assert_int_equal(r, 0);
            assert_int_equal(sched_place(pool, &hard, &expected), 0);
            assert_int_equal(found.n_slices, expected.n_slices);
            for (uint32_t i = 0; i < found.n_slices; i++) {
                assert_ptr_equal(found.slices[i].card, expected.slices[i].card);
                assert_true(sched_card_fits(found.slices[i].card, &hard));
            }
            return;
        }
        if (!k)
            break;
    }
    assert_int_equal(r, -ENOSPC);
}

static void
try_one(struct sched_pool *pool, struct sched_decision *taken)
{
    const char *preferred[3];
    struct sched_where where = {0};
    struct sched_request req;
    unsigned n = 1 + roll(3);

    if (roll(3) == 0)
        assert_int_equal(sched_where_add_label(&where, LABELS[roll(4)], NULL), 0);
    for (unsigned i = 0; i < n; i++) {
        preferred[i] = LABELS[roll(ARRAY_SIZE(LABELS))];
        assert_int_equal(sched_where_add_prefer(&where, preferred[i], NULL), 0);
    }
    req = request(10 + 10 * roll(10), 1 + roll(2), &where);
    req.placement = (enum sched_placement)(SCHED_BINPACK + roll(3));
    check_choice(pool, &req, preferred, n);
    taken->n_slices = 0;
    if (roll(3) && sched_place(pool, &req, taken) == 0)
        for (uint32_t i = 0; i < taken->n_slices; i++)
            assert_int_equal(sched_pool_take(pool, taken->slices[i].card,
                                             taken->slices[i].core,
                                             taken->slices[i].memory, false),
                             0);
}

static void
choice_is_that_of_as_many_preferences_as_can_be_had(void **state)
{
    static const char *const of[] = {"rack=r0,zone=a", "rack=r1,zone=a",
                                     "rack=r0,zone=b", "rack=r1", ""};

    for (unsigned round = 0; round < 40; round++) {
        CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
        struct sched_decision taken[40] = {0};

        for (unsigned i = 0; i < SERVERS; i++)
            add_server(pool, i, of[roll(ARRAY_SIZE(of))]);
        for (unsigned i = 0; i < 200; i++) {
            struct sched_decision *d = &taken[i % ARRAY_SIZE(taken)];

            for (uint32_t k = 0; k < d->n_slices; k++)
                sched_pool_give(pool, d->slices[k].card, d->slices[k].core,
                                d->slices[k].memory);
            try_one(pool, d);
        }
    }
}

/* Servers come and go with labels of their own, far more than there may be kinds of
 * cards at a time. */
static void
kinds_of_cards_that_have_gone_make_room_for_others(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *stays = add_server(pool, 0, "rack=stays"), *server;

    for (unsigned i = 1; i < 2 * SCHED_GROUPS_MAX; i++) {
        struct sched_where where = {0};
        struct sched_decision d = {0};
        struct sched_request req;
        char labels[32];

        snprintf(labels, sizeof(labels), "rack=r%u", i);
        server = add_server(pool, i, labels);
        assert_int_equal(sched_where_add_label(&where, labels, NULL), 0);
        req = request(30, 1, &where);
        assert_int_equal(sched_place(pool, &req, &d), 0);
        assert_ptr_equal(d.slices[0].card->server, server);
        where = (struct sched_where){0};
        assert_int_equal(sched_where_add_label(&where, "rack=stays", NULL), 0);
        assert_int_equal(sched_place(pool, &req, &d), 0);
        assert_ptr_equal(d.slices[0].card->server, stays);
        server->alive = false;
        sched_pool_cards_absent(pool, server);
        assert_int_equal(sched_pool_server_remove(pool, server), 0);
    }
    assert_true(pool->n_groups <= SCHED_GROUPS_MAX);

    /* As many as there may be at a time, and no more. */
    for (unsigned i = 1; i <= SCHED_GROUPS_MAX; i++) {
        struct sched_card_facts facts = {.memory = GIB};
        struct sched_card *card;
        char name[32], labels[32];
        uint64_t id = UINT64_C(1) << 32 | i;
        int r;

        snprintf(name, sizeof(name), "m%u", i);
        snprintf(labels, sizeof(labels), "rack=m%u", i);
        assert_int_equal(sched_pool_server_add(pool, name, &server, NULL), 0);
        sched_pool_set_labels(pool, server, labels);
        memcpy(facts.uuid, &id, sizeof(id));
        r = sched_pool_card_put(pool, server, &facts, &card, NULL);
        assert_int_equal(r, i < SCHED_GROUPS_MAX ? 0 : -ENOSPC);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preferred_servers_come_first_and_others_after_them),
        cmocka_unit_test(kinds_of_cards_that_have_gone_make_room_for_others),
        cmocka_unit_test(preferences_are_labels_and_fit_beside_the_conditions),
        cmocka_unit_test(choice_is_that_of_as_many_preferences_as_can_be_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
