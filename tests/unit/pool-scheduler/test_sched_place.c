/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement: the rules of a request, the choice, the reasons, and for random pools that
 * the index says the same as looking at every card, and never gives anything twice.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "sched_place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

static uint64_t seed;

static uint32_t
roll(uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++seed) % n);
}

/* ------------------------------------------------------------------- pools -- */

static struct sched_card *
add_card(struct sched_pool *pool, struct sched_server *server, uint64_t memory)
{
    struct sched_card_facts facts = {.memory = memory, .index = server->n_cards};
    struct sched_card *card;

    memcpy(facts.uuid, &(uint64_t){server->serial}, 8);
    memcpy(facts.uuid + 8, &(uint64_t){server->n_cards}, 8);
    assert_int_equal(sched_pool_card_put(pool, server, &facts, &card, NULL), 0);
    return card;
}

static struct sched_server *
add_server(struct sched_pool *pool, const char *name, unsigned cards, uint64_t memory)
{
    struct sched_server *server;

    assert_int_equal(sched_pool_server_add(pool, name, &server, NULL), 0);
    server->alive = true;
    for (unsigned i = 0; i < cards; i++)
        add_card(pool, server, memory);
    sched_pool_server_update(pool, server);
    return server;
}

static struct sched_request
request(uint32_t core, uint64_t memory, uint32_t cards, enum sched_placement placement)
{
    struct sched_request req = {.placement = placement};

    assert_int_equal(sched_request_shape(&req, core, memory, cards, 0, NULL), 0);
    return req;
}

static void
take(struct sched_pool *pool, const struct sched_decision *d)
{
    for (uint32_t i = 0; i < d->n_slices; i++)
        assert_int_equal(sched_pool_take(pool, d->slices[i].card, d->slices[i].core,
                                         d->slices[i].memory, d->slices[i].in_space),
                         0);
}

static void
give(struct sched_pool *pool, const struct sched_decision *d)
{
    for (uint32_t i = 0; i < d->n_slices; i++)
        sched_pool_give(pool, d->slices[i].card, d->slices[i].core,
                        d->slices[i].memory);
}

/* The card of a session that wants @core and, or not, multiprocessors of its own. */
static struct sched_card *
place_one(struct sched_pool *pool, uint32_t core, bool in_space,
          enum sched_placement placement)
{
    struct sched_request req = request(core, GIB, 1, placement);
    struct sched_decision d;

    req.in_space = in_space;
    if (sched_place(pool, &req, &d) < 0)
        return NULL;
    take(pool, &d);
    return d.slices[0].card;
}

static void
cards_are_shared_in_time_or_in_space(void **state)
{
    for (unsigned placement = SCHED_BINPACK; placement <= SCHED_SPREAD; placement++) {
        CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
        struct sched_card *time, *space;
        struct sched_reasons reasons;
        struct sched_request req;

        add_server(pool, "a", 2, 8 * GIB);
        time = place_one(pool, 30, false, placement);
        space = place_one(pool, 30, true, placement);
        assert_true(time && space && time != space);
        assert_ptr_equal(place_one(pool, 30, true, placement), space);
        assert_ptr_equal(place_one(pool, 30, false, placement), time);
        assert_null(place_one(pool, 50, true, placement));
        assert_null(place_one(pool, 50, false, placement));
        assert_int_equal(sched_pool_take(pool, time, 10, 1, true), -ENOSPC);
        req = request(30, GIB, 2, placement);
        sched_place_explain(pool, &req, NULL, &reasons);
        assert_non_null(strstr(reasons.summary, "1 is shared in space, not in time"));
        /* A card that nobody uses can be either. */
        sched_pool_give(pool, space, 30, GIB);
        sched_pool_give(pool, space, 30, GIB);
        assert_ptr_equal(place_one(pool, 100, false, placement), space);
    }
}

/* What is short is said without what was not asked for. */
static void
shortage_of_whole_cards_names_no_memory(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(200, 0, 2, SCHED_BINPACK);
    char words[200];

    add_server(pool, "a", 1, GIB);
    add_server(pool, "b", 1, GIB);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_string_equal(words, "no server has 2 cards with 100 % core free "
                               "(--span takes several servers)");
    req = request(50, GIB, 2, SCHED_BINPACK);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_non_null(strstr(words, "with 50 % core and 1.00 GiB free"));
    (void)state;
}

/* A drained pool is not a full one. */
static void
shortage_names_cards_of_servers_that_drain_or_are_away(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(50, GIB, 1, SCHED_BINPACK);
    struct sched_server *a = add_server(pool, "a", 2, 8 * GIB);
    struct sched_server *b = add_server(pool, "b", 1, 8 * GIB);
    char words[200];

    a->drain_asked = true;
    b->alive = false;
    sched_pool_server_update(pool, a);
    sched_pool_server_update(pool, b);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_string_equal(words,
                        "none of 3 cards can be given; 2 are on servers that drain; 1 "
                        "is on a server that is not connected");
    assert_int_equal(sched_pool_server_remove(pool, b), 0);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_string_equal(words,
                        "none of 2 cards can be given; 2 are on servers that drain");
    a->drain_asked = false;
    sched_pool_server_update(pool, a);
    req = request(50, 9 * GIB, 1, SCHED_BINPACK);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_null(strstr(words, "drain"));
    (void)state;
}

/* A pool without anything free does not hide that no card would ever do. */
static void
shortage_names_what_no_card_has(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(50, 9 * GIB, 1, SCHED_BINPACK);
    struct sched_server *a = add_server(pool, "a", 2, 8 * GIB);
    struct sched_reasons reasons;
    char words[200];

    for (int i = 0; i < 2; i++)
        assert_int_equal(sched_pool_take(pool, a->cards[i], 100, 8 * GIB, false), 0);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_string_equal(words, "none of 2 cards fits: 9.00 GiB of memory wanted, the "
                               "largest has 8.00 GiB");
    sched_place_refusal(pool, &req, &reasons);
    assert_non_null(strstr(reasons.summary, "2 lack memory (the largest has 8.00 GiB, "
                                            "9.00 GiB wanted)"));
    req = request(50, 8 * GIB, 1, SCHED_BINPACK);
    sched_place_shortage(pool, &req, words, sizeof(words));
    assert_string_equal(words, "none of 2 cards has anything free");
    (void)state;
}

/* As few servers as it takes, never two parts on one, and only when it is allowed. */
static void
spanning_takes_the_fewest_servers(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(100, 0, 7, SCHED_BINPACK);
    struct sched_decision d;

    add_server(pool, "a", 2, GIB);
    add_server(pool, "b", 4, GIB);
    add_server(pool, "c", 3, GIB);
    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    req.span = true;
    assert_int_equal(sched_place(pool, &req, &d), 0);
    assert_int_equal(d.n_slices, 7);
    for (unsigned i = 0; i < 7; i++) {
        assert_string_equal(d.slices[i].card->server->name, i < 4 ? "b" : "c");
        for (unsigned j = 0; j < i; j++)
            assert_ptr_not_equal(d.slices[i].card, d.slices[j].card);
    }
    req.cards = 4; /* one server has them: no need to */
    assert_int_equal(sched_place(pool, &req, &d), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_string_equal(d.slices[i].card->server->name, "b");
    req.cards = 10;
    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    req.cards = 9;
    assert_int_equal(sched_place(pool, &req, &d), 0);
    req.server = "b"; /* a server that is named is the only one */
    req.cards = 5;
    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    sched_pool_free(pool);
}

/* ------------------------------------------------------------------- rules -- */

static void
assert_rule(uint32_t core, uint64_t memory, uint32_t cards, uint32_t limit,
            const char *words)
{
    struct sched_request req = {0};
    struct gp_err err = {0};

    assert_int_equal(sched_request_shape(&req, core, memory, cards, limit, &err),
                     -EINVAL);
    if (!strstr(err.msg, words))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
}

static void
core_between_whole_cards_is_refused_by_rule(void **state)
{
    for (uint32_t core = 101; core < 1000; core++)
        if (core % 100)
            assert_rule(core, GIB, 0, 0, "the rule is 1..100");
    assert_rule(0, GIB, 0, 0, "the rule is 1..100");
    assert_rule(200, 0, 3, 0, "means 2 whole cards");
    assert_rule(1700, 0, 0, 0, "at most 16");
    assert_rule(30, GIB, 17, 0, "at most 16");
}

/* The core is what the scheduler makes of it, and nothing that was asked for. */
static void
part_of_a_card_by_speed_is_refused_by_its_speed(void **state)
{
    struct sched_where where = {.tflops = 5};
    struct sched_request req = {.where = &where};
    struct gp_err err = {0};

    (void)state;
    assert_int_equal(sched_request_shape(&req, 1, 0, 0, 0, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "5 TFLOPS without memory"));
    assert_null(strstr(err.msg, "core"));
    assert_int_equal(sched_request_shape(&req, 1, GIB, 0, 0, &err), 0);
}

static void
fraction_needs_memory_and_whole_cards_do_not(void **state)
{
    struct sched_request req = {0};

    assert_rule(99, 0, 0, 0, "needs a memory size");
    assert_int_equal(sched_request_shape(&req, 100, 0, 0, 0, NULL), 0);
    assert_true(req.whole && req.cards == 1 && req.core == 100);
    assert_int_equal(sched_request_shape(&req, 300, 0, 3, 0, NULL), 0);
    assert_true(req.whole && req.cards == 3 && req.core == 100);
    assert_int_equal(sched_request_shape(&req, 30, GIB, 2, 80, NULL), 0);
    assert_true(!req.whole && req.cards == 2 && req.core == 30 && req.core_limit == 80);
    assert_rule(30, GIB, 0, 29, "core..100");
    assert_rule(30, GIB, 0, 101, "core..100");
}

/* ----------------------------------------------------------------- choices -- */

static void
binpack_fills_a_card_before_it_opens_another(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(25, GIB, 0, SCHED_BINPACK);
    struct sched_decision d, first;

    add_server(pool, "a", 2, 16 * GIB);
    add_server(pool, "b", 2, 16 * GIB);
    assert_int_equal(sched_place(pool, &req, &first), 0);
    take(pool, &first);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(sched_place(pool, &req, &d), 0);
        assert_ptr_equal(d.slices[0].card, first.slices[0].card);
        take(pool, &d);
    }
    assert_int_equal(sched_place(pool, &req, &d), 0);
    assert_ptr_not_equal(d.slices[0].card, first.slices[0].card);
    assert_ptr_equal(d.slices[0].card->server, first.slices[0].card->server);
    sched_pool_free(pool);
}

static void
spread_uses_every_server_before_a_second_card(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(25, GIB, 0, SCHED_SPREAD);
    struct sched_decision d;

    for (int i = 0; i < 4; i++)
        add_server(pool, (char[]){(char)('a' + i), 0}, 2, 16 * GIB);
    for (int i = 0; i < 8; i++) {
        unsigned slices = 0;

        assert_int_equal(sched_place(pool, &req, &d), 0);
        assert_int_equal(d.slices[0].card->slices, 0);
        for (unsigned k = 0; k < 2; k++)
            slices += d.slices[0].card->server->cards[k]->slices;
        assert_int_equal(slices, i / 4);
        take(pool, &d);
    }
    sched_pool_free(pool);
}

static void
whole_cards_are_alone_and_take_all_memory(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_server *server = add_server(pool, "a", 3, 16 * GIB);
    struct sched_request part = request(1, GIB, 0, SCHED_BINPACK);
    struct sched_request two = request(200, 0, 0, SCHED_BINPACK);
    struct sched_decision d;

    assert_int_equal(sched_place(pool, &part, &d), 0);
    take(pool, &d);
    assert_int_equal(sched_place(pool, &two, &d), 0);
    assert_int_equal(d.n_slices, 2);
    assert_true(d.slices[0].memory == 16 * GIB && d.slices[0].core == 100);
    assert_ptr_not_equal(d.slices[0].card, d.slices[1].card);
    assert_int_equal(d.slices[0].card->slices + d.slices[1].card->slices, 0);
    take(pool, &d);
    assert_int_equal(sched_place(pool, &two, &d), -ENOSPC);
    assert_int_equal(server->free_core, 99);
    sched_pool_free(pool);
}

static void
card_carries_sixteen_slices_at_most(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(1, GIB, 0, SCHED_BINPACK);
    struct sched_reasons reasons;
    struct sched_decision d;

    add_server(pool, "a", 1, 64 * GIB);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(sched_place(pool, &req, &d), 0);
        take(pool, &d);
    }
    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    sched_place_explain(pool, &req, NULL, &reasons);
    assert_non_null(strstr(reasons.list[0].words, "slices: it has 16"));
    sched_pool_free(pool);
}

static void
slices_of_one_session_are_on_one_server(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request two = request(60, GIB, 2, SCHED_BINPACK);
    struct sched_request one = request(60, GIB, 1, SCHED_BINPACK);
    struct sched_reasons reasons;
    struct sched_decision d;

    add_server(pool, "a", 2, 16 * GIB);
    add_server(pool, "b", 2, 16 * GIB);
    one.server = "a";
    assert_int_equal(sched_place(pool, &one, &d), 0);
    take(pool, &d);
    assert_int_equal(sched_place(pool, &two, &d), 0);
    assert_string_equal(d.slices[0].card->server->name, "b");
    assert_string_equal(d.slices[1].card->server->name, "b");
    one.server = "b";
    assert_int_equal(sched_place(pool, &one, &d), 0);
    take(pool, &d);
    assert_int_equal(sched_place(pool, &two, &d), -ENOSPC);
    sched_place_explain(pool, &two, NULL, &reasons);
    assert_non_null(strstr(reasons.summary, "no server has 2 cards that fit"));
    sched_pool_free(pool);
}

static void
only_open_servers_are_chosen(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_server *s = add_server(pool, "a", 1, 16 * GIB);
    struct sched_request req = request(10, GIB, 0, SCHED_SPREAD);
    struct sched_reasons reasons;
    struct sched_decision d;
    bool *flags[] = {&s->drain_asked, &s->drain_self, &s->unclean};
    static const char *const words[] = {"being drained", "shutting down",
                                        "ending old sessions"};

    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        *flags[i] = true;
        sched_pool_server_update(pool, s);
        assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
        sched_place_explain(pool, &req, NULL, &reasons);
        assert_non_null(strstr(reasons.list[0].words, words[i]));
        *flags[i] = false;
        sched_pool_server_update(pool, s);
        assert_int_equal(sched_place(pool, &req, &d), 0);
    }
    s->alive = false;
    sched_pool_server_update(pool, s);
    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    sched_place_explain(pool, &req, NULL, &reasons);
    assert_non_null(strstr(reasons.summary, "not available"));
    sched_pool_free(pool);
}

static void
reasons_name_every_limit_of_every_card(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_server *s = add_server(pool, "a", 2, 4 * GIB);
    struct sched_request req = request(50, 8 * GIB, 0, SCHED_BINPACK);
    struct sched_reasons reasons;

    assert_int_equal(sched_pool_take(pool, s->cards[0], 60, 3 * GIB, false), 0);
    sched_place_explain(pool, &req, NULL, &reasons);
    assert_int_equal(reasons.n, 2);
    assert_string_equal(
        reasons.list[0].words,
        "core: 40 % free, 50 % wanted; memory: 1.00 GiB of 4.00 GiB free, "
        "8.00 GiB wanted");
    assert_string_equal(reasons.list[1].words,
                        "memory: 4.00 GiB of 4.00 GiB free, 8.00 GiB wanted");
    assert_string_equal(
        reasons.summary,
        "none of 2 cards fits: 1 lacks core (most free: 40 %, 50 % wanted), "
        "2 lack memory (the largest has 4.00 GiB, 8.00 GiB wanted)");
    sched_pool_free(pool);
}

static void
reasons_are_capped_and_say_so(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(50, 99 * GIB, 0, SCHED_BINPACK);
    struct sched_reasons reasons;

    add_server(pool, "a", CTL_SERVER_CARDS_MAX, GIB);
    add_server(pool, "b", 10, GIB);
    sched_place_explain(pool, &req, NULL, &reasons);
    assert_int_equal(reasons.n, CTL_REASONS_MAX);
    assert_int_equal(reasons.left_off, 10);
    sched_pool_free(pool);
}

static void
empty_pool_says_that_it_is_empty(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(50, GIB, 0, SCHED_BINPACK);
    struct sched_reasons reasons;
    struct sched_decision d;

    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    sched_place_explain(pool, &req, NULL, &reasons);
    assert_non_null(strstr(reasons.summary, "no server has registered"));
    sched_pool_free(pool);
}

static void
card_known_twice_is_refused(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_server *a = add_server(pool, "a", 1, GIB);
    struct sched_server *b = add_server(pool, "b", 0, GIB);
    struct sched_card_facts facts = a->cards[0]->facts;
    struct sched_card *card;
    struct gp_err err = {0};

    assert_int_equal(sched_pool_card_put(pool, b, &facts, &card, &err), -EEXIST);
    assert_non_null(strstr(err.msg, "server a as well"));
    assert_int_equal(sched_pool_take(pool, a->cards[0], 10, 1, false), 0);
    a->alive = false;
    sched_pool_server_update(pool, a);
    assert_int_equal(sched_pool_card_put(pool, b, &facts, &card, &err), -EEXIST);
    assert_non_null(strstr(err.msg, "still carries 1 slices"));
    sched_pool_give(pool, a->cards[0], 10, 1);
    assert_int_equal(sched_pool_card_put(pool, b, &facts, &card, &err), 0);
    assert_int_equal(a->n_cards, 0);
    assert_ptr_equal(card->server, b);
    sched_pool_free(pool);
}

static void
forgotten_server_leaves_nothing_behind(void **state)
{
    struct sched_pool *pool = sched_pool_new();
    struct sched_server *a = add_server(pool, "a", 2, GIB);
    struct sched_server *b = add_server(pool, "b", 1, GIB);
    struct sched_request req = request(10, 1, 0, SCHED_BINPACK);
    struct sched_card_facts facts = b->cards[0]->facts;
    struct sched_decision d;

    assert_int_equal(sched_pool_server_remove(pool, b), -EBUSY);
    assert_int_equal(sched_pool_take(pool, b->cards[0], 10, 1, false), 0);
    b->alive = false;
    sched_pool_server_update(pool, b);
    assert_int_equal(sched_pool_server_remove(pool, b), -EBUSY);
    sched_pool_give(pool, b->cards[0], 10, 1);
    assert_int_equal(sched_pool_server_remove(pool, b), 0);
    assert_null(sched_pool_server_find(pool, "b"));
    assert_null(sched_pool_card_find(pool, facts.uuid));
    assert_int_equal(pool->n_cards, 2);
    assert_int_equal(sched_place(pool, &req, &d), 0);
    assert_ptr_equal(d.slices[0].card->server, a);
    b = add_server(pool, "b", 1, GIB); /* the list's end is where it belongs */
    assert_ptr_equal(a->next, b);
    sched_pool_free(pool);
}

static void
fgd_leaves_what_others_can_use(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *a = add_server(pool, "a", 2, 16 * GIB);
    struct sched_request half = request(50, 4 * GIB, 1, SCHED_BINPACK);
    struct sched_request tenth = request(10, GIB, 1, SCHED_FGD);
    struct sched_decision d;

    for (int i = 0; i < 100; i++)
        sched_mix_note(&pool->mix, &half);
    assert_int_equal(sched_pool_take(pool, a->cards[0], 50, GIB, false), 0);
    assert_int_equal(sched_pool_take(pool, a->cards[1], 40, GIB, false), 0);
    assert_int_equal(sched_place(pool, &tenth, &d), 0);
    assert_ptr_equal(d.slices[0].card, a->cards[1]); /* 50 % are left on both */
    tenth.placement = SCHED_BINPACK;
    assert_int_equal(sched_place(pool, &tenth, &d), 0);
    assert_ptr_equal(d.slices[0].card, a->cards[0]); /* 40 % would be left */
}

static void
fragments_are_what_no_request_can_use(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *a = add_server(pool, "a", 4, 16 * GIB);
    struct sched_request half = request(50, 4 * GIB, 1, SCHED_BINPACK);
    struct sched_request whole = request(300, 0, 0, SCHED_BINPACK);
    struct sched_slice slice = {.card = a->cards[1], .core = 1, .memory = GIB};
    struct sched_mix *mix = &pool->mix;

    assert_true(sched_mix_fragments(mix, a, NULL, 0) == 0); /* nobody has asked */
    sched_mix_note(mix, &half);
    sched_mix_note(mix, &whole);
    assert_true(sched_mix_fragments(mix, a, NULL, 0) == 0);
    assert_int_equal(sched_pool_take(pool, a->cards[0], 60, GIB, false), 0);
    /* 40 % are of no use for either. */
    assert_true(sched_mix_fragments(mix, a, NULL, 0) == 40);
    /* With another card begun, three whole ones are not there: half the requests have
     * no use for all that is free. */
    assert_true(sched_mix_fragments(mix, a, &slice, 1) == (40 + 40 + 99 + 200) / 2.0);
    for (uint32_t i = 1; i <= 100; i++) {
        struct sched_request other = request(i, i * GIB, 1, SCHED_BINPACK);

        sched_mix_note(mix, &other);
        for (int k = 0; k < 200; k++)
            sched_mix_note(mix, &half);
    }
    assert_int_equal(mix->n, SCHED_SHAPES_MAX);
    assert_true(mix->sum < SCHED_MIX_SUM);
    assert_int_equal(mix->shapes[0].core, 50); /* what is asked for most stays */
    assert_true(mix->shapes[0].count > mix->sum / 2);
}

/* -------------------------------------------------------------- properties -- */

/* The answer that looking at every card gives. */
static bool
fits_somewhere(const struct sched_pool *pool, const struct sched_request *req)
{
    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        unsigned n = 0;

        for (unsigned i = 0; sched_server_open(s) && i < s->n_cards; i++)
            n += s->cards[i]->present && s->cards[i]->slices < 16 &&
                 (!s->cards[i]->slices || s->cards[i]->in_space == req->in_space) &&
                 sched_card_free_core(s->cards[i]) >= req->core &&
                 sched_card_free_memory(s->cards[i]) >= req->memory;
        if (n >= req->cards)
            return true;
    }
    return false;
}

static void
check_decision(const struct sched_request *req, const struct sched_decision *d)
{
    assert_int_equal(d->n_slices, req->cards);
    for (uint32_t i = 0; i < d->n_slices; i++) {
        const struct sched_slice *slice = &d->slices[i];

        assert_ptr_equal(slice->card->server, d->slices[0].card->server);
        assert_true(sched_server_open(slice->card->server));
        assert_int_equal(slice->core, req->core);
        assert_true(slice->memory >= req->memory);
        assert_true(!slice->card->slices || slice->card->in_space == req->in_space);
        if (req->whole)
            assert_true(!slice->card->slices &&
                        slice->memory == slice->card->facts.memory);
        for (uint32_t k = 0; k < i; k++)
            assert_ptr_not_equal(slice->card, d->slices[k].card);
    }
}

/* No card's core or memory is given beyond what it has; the sums are those of the live
 * sessions. */
static void
check_books(const struct sched_pool *pool, const struct sched_decision *live,
            unsigned n)
{
    uint64_t core = 0, want_core = 0, memory = 0, want_memory = 0;

    for (unsigned i = 0; i < n; i++)
        for (uint32_t k = 0; k < live[i].n_slices; k++) {
            want_core += live[i].slices[k].core;
            want_memory += live[i].slices[k].memory;
        }
    for (const struct sched_server *s = pool->servers; s; s = s->next)
        for (unsigned i = 0; i < s->n_cards; i++) {
            assert_true(s->cards[i]->core_given <= 100);
            assert_true(s->cards[i]->memory_given <= s->cards[i]->facts.memory);
            assert_true(s->cards[i]->slices <= 16);
            core += s->cards[i]->core_given;
            memory += s->cards[i]->memory_given;
        }
    assert_int_equal(core, want_core);
    assert_int_equal(memory, want_memory);
}

static struct sched_request
random_request(void)
{
    enum sched_placement placement = (enum sched_placement)(SCHED_BINPACK + roll(3));

    if (!roll(8))
        return request(100 * (1 + roll(3)), roll(2) ? 0 : roll(40) * GIB, 0, placement);
    return request(1 + roll(60), (1 + roll(20)) * GIB / 2, 1 + (roll(4) ? 0 : roll(4)),
                   placement);
}

static void
shake(struct sched_pool *pool)
{
    struct sched_server *s = pool->servers;

    for (uint32_t at = roll(pool->n_servers); at; at--)
        s = s->next;
    switch (roll(3)) {
    case 0:
        s->alive = !s->alive;
        break;
    case 1:
        s->drain_asked = !s->drain_asked;
        break;
    default:
        s->unclean = !s->unclean;
    }
    sched_pool_server_update(pool, s);
}

static void
random_pools_are_never_overcommitted(void **state)
{
    enum { LIVE_MAX = 200 };
    static struct sched_decision live[LIVE_MAX];

    for (int round = 0; round < 30; round++) {
        struct sched_pool *pool = sched_pool_new();
        unsigned n = 0;
        char name[16];

        for (unsigned i = 0, servers = 1 + roll(8); i < servers; i++) {
            snprintf(name, sizeof(name), "n%u", i);
            add_server(pool, name, 1 + roll(8), (4 + roll(28)) * GIB);
        }
        for (int step = 0; step < 1000; step++) {
            struct sched_request req = random_request();

            req.in_space = !roll(3);
            sched_mix_note(&pool->mix, &req);
            if (!roll(20))
                shake(pool);
            if (n == LIVE_MAX || (n && !roll(3))) {
                uint32_t victim = roll(n);

                give(pool, &live[victim]);
                live[victim] = live[--n];
            } else if (!sched_place(pool, &req, &live[n])) {
                check_decision(&req, &live[n]);
                take(pool, &live[n++]);
            } else if (fits_somewhere(pool, &req)) {
                fail_msg("round %d step %d: refused although it fits", round, step);
            }
            check_books(pool, live, n);
        }
        sched_pool_free(pool);
    }
}

static void
same_question_gets_same_answer(void **state)
{
    struct sched_pool *pool = sched_pool_new();

    add_server(pool, "a", 4, 16 * GIB);
    add_server(pool, "b", 4, 24 * GIB);
    for (int i = 0; i < 200; i++) {
        struct sched_request req = random_request();
        struct sched_decision one, two;
        int r = sched_place(pool, &req, &one);

        assert_int_equal(r, sched_place(pool, &req, &two));
        if (r < 0)
            continue;
        for (uint32_t k = 0; k < one.n_slices; k++)
            assert_ptr_equal(one.slices[k].card, two.slices[k].card);
        take(pool, &one);
    }
    sched_pool_free(pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_between_whole_cards_is_refused_by_rule),
        cmocka_unit_test(part_of_a_card_by_speed_is_refused_by_its_speed),
        cmocka_unit_test(fraction_needs_memory_and_whole_cards_do_not),
        cmocka_unit_test(binpack_fills_a_card_before_it_opens_another),
        cmocka_unit_test(spread_uses_every_server_before_a_second_card),
        cmocka_unit_test(whole_cards_are_alone_and_take_all_memory),
        cmocka_unit_test(card_carries_sixteen_slices_at_most),
        cmocka_unit_test(slices_of_one_session_are_on_one_server),
        cmocka_unit_test(only_open_servers_are_chosen),
        cmocka_unit_test(reasons_name_every_limit_of_every_card),
        cmocka_unit_test(reasons_are_capped_and_say_so),
        cmocka_unit_test(empty_pool_says_that_it_is_empty),
        cmocka_unit_test(card_known_twice_is_refused),
        cmocka_unit_test(forgotten_server_leaves_nothing_behind),
        cmocka_unit_test(cards_are_shared_in_time_or_in_space),
        cmocka_unit_test(fgd_leaves_what_others_can_use),
        cmocka_unit_test(fragments_are_what_no_request_can_use),
        cmocka_unit_test(random_pools_are_never_overcommitted),
        cmocka_unit_test(spanning_takes_the_fewest_servers),
        cmocka_unit_test(shortage_of_whole_cards_names_no_memory),
        cmocka_unit_test(shortage_names_cards_of_servers_that_drain_or_are_away),
        cmocka_unit_test(shortage_names_what_no_card_has),
        cmocka_unit_test(same_question_gets_same_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
