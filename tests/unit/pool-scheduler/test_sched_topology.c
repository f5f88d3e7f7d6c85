/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several cards, as close to each other as the pool has them: on random pools of
 * islands, servers and fabrics the index finds what a search over every card finds.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_hash.h"
#include "gp_str.h"
#include "sched_hold.h"
#include "sched_place.h"
#include "sched_rules.h"
#include "sched_several.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define LIVE_MAX 100

static uint64_t seed;

static uint32_t
roll(uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++seed) % n);
}

/* ------------------------------------------------------------------- pools -- */

/* @islands: of each card, as digits; '0': none. */
static struct sched_server *
add_server(struct sched_pool *pool, const char *name, const char *islands,
           const char *fabric)
{
    struct sched_server *server;

    assert_int_equal(sched_pool_server_add(pool, name, &server, NULL), 0);
    server->alive = true;
    assert_int_equal(sched_pool_set_fabric(pool, server, fabric), 0);
    for (unsigned i = 0; islands[i]; i++) {
        struct sched_card_facts facts = {
            .memory = 16 * GIB, .index = i, .island = (uint32_t)(islands[i] - '0')};
        struct sched_card *card;

        memcpy(facts.uuid, &(uint64_t){server->serial}, 8);
        memcpy(facts.uuid + 8, &(uint64_t){i}, 8);
        assert_int_equal(sched_pool_card_put(pool, server, &facts, &card, NULL), 0);
    }
    sched_pool_server_update(pool, server);
    return server;
}

static struct sched_request
request(uint32_t core, uint32_t cards, enum sched_near near)
{
    struct sched_request req = {.placement = SCHED_BINPACK, .near = near};

    assert_int_equal(sched_request_shape(&req, core, 4 * GIB, cards, 0, NULL), 0);
    req.span = near == SCHED_NEAR_FABRIC;
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

static void
place(struct sched_pool *pool, const struct sched_request *req,
      struct sched_decision *ret)
{
    assert_int_equal(sched_place(pool, req, ret), 0);
    take(pool, ret);
}

static void
says(const char *words, const char *part)
{
    if (!strstr(words, part))
        fail_msg("\"%s\" does not say \"%s\"", words, part);
}

/* ------------------------------------------------------------------- cases -- */

static void
several_cards_are_linked_when_there_are_such(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request three = request(50, 3, SCHED_NEAR_ANY);
    struct sched_reasons reasons;
    struct sched_decision d;

    add_server(pool, "a", "00000000", "");
    add_server(pool, "b", "11221122", "");
    add_server(pool, "c", "11112222", "");
    place(pool, &three, &d);
    for (unsigned i = 0; i < 3; i++)
        assert_ptr_equal(d.slices[i].card->island, d.slices[0].card->island);
    sched_place_explain(pool, &three, &d, &reasons);
    says(reasons.summary, "linked to each other (island");
    says(reasons.list[8].words, "island 1");
}

static void
islands_are_wanted_or_nothing(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request four = request(50, 4, SCHED_NEAR_ISLAND);
    struct sched_reasons reasons;
    struct sched_decision d;
    char words[200];

    add_server(pool, "a", "00000000", "");
    add_server(pool, "b", "112233", "");
    assert_int_equal(sched_place(pool, &four, &d), -ENOSPC);
    sched_place_explain(pool, &four, NULL, &reasons);
    says(reasons.summary, "no island (cards that are linked) has 4 cards that fit");
    says(reasons.list[0].words, "in no island");
    sched_place_shortage(pool, &four, words, sizeof(words));
    says(words, "no island");
    four.server = "a";
    assert_int_equal(sched_place(pool, &four, &d), -ENOSPC);
    four.server = NULL;
    four.near = SCHED_NEAR_SERVER;
    place(pool, &four, &d);
}

static void
the_smallest_island_that_suffices_is_taken(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request two = request(100, 2, SCHED_NEAR_ANY);
    struct sched_request six = request(100, 6, SCHED_NEAR_ANY);
    struct sched_decision d;

    add_server(pool, "a", "11112200", "");
    two.server = six.server = "a";
    assert_int_equal(sched_place(pool, &two, &d), 0);
    assert_int_equal(d.slices[0].card->island->number, 2);
    assert_int_equal(sched_place(pool, &six, &d), 0);
    for (unsigned i = 0; i < 6; i++) /* two islands, and none of the lone cards */
        assert_non_null(d.slices[i].card->island);
}

static void
single_cards_leave_islands_whole(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request one = request(100, 1, SCHED_NEAR_ANY);
    struct sched_request four = request(100, 4, SCHED_NEAR_ISLAND);
    struct sched_decision d;

    add_server(pool, "a", "111122220", "");
    place(pool, &one, &d);
    assert_null(d.slices[0].card->island);
    for (int i = 0; i < 4; i++)
        place(pool, &one, &d);
    place(pool, &four, &d); /* the four were all of one island */
}

static void
servers_of_one_fabric_come_before_others(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request req = request(100, 6, SCHED_NEAR_ANY);
    struct sched_reasons reasons;
    struct sched_decision d;

    req.span = true;
    add_server(pool, "big", "11111", "");
    add_server(pool, "a", "1111", "row1");
    add_server(pool, "b", "1111", "row2");
    add_server(pool, "c", "11", "row2");
    assert_int_equal(sched_place(pool, &req, &d), 0);
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(d.slices[i].card->server->fabric->name, "row2");
    sched_place_explain(pool, &req, &d, &reasons);
    says(reasons.summary, "on 2 servers of fabric row2");
    req.near = SCHED_NEAR_FABRIC;
    req.cards = 7; /* there are fifteen, but nowhere seven */
    assert_int_equal(sched_place(pool, &req, &d), -ENOSPC);
    sched_place_explain(pool, &req, NULL, &reasons);
    says(reasons.summary, "no fabric has 7 cards");
    req.near = SCHED_NEAR_ANY;
    assert_int_equal(sched_place(pool, &req, &d), 0);
}

static void
cards_that_are_kept_are_near_as_well(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_request all = request(100, 2, SCHED_NEAR_ISLAND);
    struct sched_server *a = add_server(pool, "a", "1212", "");
    struct sched_target target;

    /* The cheapest two are not linked. */
    assert_int_equal(sched_pool_take(pool, a->cards[0], 90, GIB, false), 0);
    assert_int_equal(sched_pool_take(pool, a->cards[1], 10, GIB, false), 0);
    assert_int_equal(sched_pool_take(pool, a->cards[2], 10, GIB, false), 0);
    assert_int_equal(sched_pool_take(pool, a->cards[3], 30, GIB, false), 0);
    assert_int_equal(sched_hold_choose(pool, &all, 1, NULL, &target), 0);
    assert_int_equal(target.cost, 40);
    assert_ptr_equal(target.cards[0]->island, target.cards[1]->island);
}

static void
faulty_cards_are_not_given_and_come_back(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *a = add_server(pool, "a", "11", "f");
    struct sched_request one = request(50, 1, SCHED_NEAR_ANY);
    struct sched_request two = request(50, 2, SCHED_NEAR_ANY);
    struct sched_reasons reasons;
    struct sched_decision d;
    struct sched_card *held = a->cards[0];

    assert_int_equal(sched_pool_set_fault(pool, a->cards[0], "ECC error"), 0);
    assert_int_equal(pool->sums.n_faulty, 1);
    assert_int_equal(sched_place(pool, &two, &d), -ENOSPC);
    sched_place_explain(pool, &two, NULL, &reasons);
    assert_string_equal(reasons.list[0].words, "out of use: ECC error");
    says(reasons.summary, "1 is out of use, something is wrong with it");
    assert_int_equal(sched_place_held(&held, 1, &one, &d), -ENOSPC);
    for (int i = 0; i < 2; i++) {
        place(pool, &one, &d);
        assert_ptr_equal(d.slices[0].card, a->cards[1]);
    }
    assert_int_equal(sched_place(pool, &one, &d), -ENOSPC);
    while (sched_pool_freed(pool))
        ;
    assert_int_equal(sched_pool_set_fault(pool, a->cards[0], ""), 0);
    assert_ptr_equal(sched_pool_freed(pool), a->cards[0]); /* who waits is served */
    place(pool, &one, &d);
    assert_ptr_equal(d.slices[0].card, a->cards[0]);
    assert_int_equal(pool->sums.n_faulty, 0);
}

static void
islands_and_fabrics_change_under_the_index(void **state)
{
    CLEANUP(sched_pool_freep) struct sched_pool *pool = sched_pool_new();
    struct sched_server *a = add_server(pool, "a", "1122", "f");
    struct sched_request three = request(50, 3, SCHED_NEAR_ISLAND);
    struct sched_decision d;

    assert_int_equal(sched_place(pool, &three, &d), -ENOSPC);
    assert_int_equal(sched_pool_set_island(pool, a->cards[1], 2), 0);
    assert_int_equal(sched_place(pool, &three, &d), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(sched_pool_set_island(pool, a->cards[i], 0), 0);
    assert_int_equal(pool->n_islands, 0);
    assert_null(a->islands);
    assert_int_equal(sched_place(pool, &three, &d), -ENOSPC);
    assert_int_equal(sched_pool_set_fabric(pool, a, "g"), 0);
    assert_int_equal(pool->fabrics->next->n_servers, 0);
    assert_int_equal(pool->fabrics->next->unit.nth[0].core, 0);
    assert_int_equal(pool->fabrics->cards[100], 4);
    a->alive = false;
    sched_pool_server_update(pool, a);
    assert_int_equal(pool->fabrics->cards[100], 0);
    assert_int_equal(sched_pool_server_remove(pool, a), 0);
}

/* ------------------------------------------------------------------- rules -- */

static int
load(const char *text, struct sched_rules **ret, struct gp_err *err)
{
    char path[] = "/tmp/ut-topology-XXXXXX";
    int fd = mkstemp(path), r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    r = sched_rules_load(path, ret, err);
    unlink(path);
    return r;
}

static void
rules_say_what_is_linked(void **state)
{
    static const char *const wrong[] = {"0-3, 3-5", "3-1", "0-64", "x", "1,,2"};
    CLEANUP(sched_rules_freep) struct sched_rules *rules = NULL, *none = NULL;
    struct gp_err err = {0};

    assert_int_equal(load("[servers node-a*]\nislands = 0-3, 4 - 6,7\nfabric = row1\n"
                          "[servers node-*]\nlabels = x=y\n"
                          "[servers node-b]\nislands = none\n",
                          &rules, &err),
                     0);
    assert_int_equal(sched_rules_island(rules, "node-a1", 3, 9), 1);
    assert_int_equal(sched_rules_island(rules, "node-a1", 6, 9), 2);
    assert_int_equal(sched_rules_island(rules, "node-a1", 7, 9), 3);
    assert_int_equal(sched_rules_island(rules, "node-a1", 8, 9), 0);
    assert_int_equal(sched_rules_island(rules, "node-b", 0, 9), 0);
    assert_int_equal(sched_rules_island(rules, "node-c", 0, 9), 9);
    assert_string_equal(sched_rules_fabric(rules, "node-a1", "said"), "row1");
    assert_string_equal(sched_rules_fabric(rules, "node-b", ""), "");
    assert_string_equal(sched_rules_fabric(rules, "node-b", "said"), "said");
    for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
        char text[64];

        snprintf(text, sizeof(text), "[servers a]\nislands = %s\n", wrong[i]);
        assert_int_equal(load(text, &none, &err), -EINVAL);
        says(err.msg, ":2: ");
    }
}

/* -------------------------------------------------------------- properties -- */

static bool
fits(const struct sched_card *card, const struct sched_request *req)
{
    return sched_card_open(card) && card->slices < 16 &&
           (!card->slices || card->in_space == req->in_space) &&
           sched_card_free_core(card) >= req->core &&
           sched_card_free_memory(card) >= req->memory;
}

/* What looking at every card finds. */
struct found {
    bool island, server, fabric, anywhere;
};

static struct found
search(const struct sched_pool *pool, const struct sched_request *req)
{
    struct found found = {.island = false};
    unsigned fabrics[8] = {0}, all = 0;

    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        unsigned islands[10] = {0}, n = 0;

        for (unsigned i = 0; i < s->n_cards; i++) {
            if (!fits(s->cards[i], req))
                continue;
            n++;
            if (s->cards[i]->facts.island)
                islands[s->cards[i]->facts.island]++;
        }
        for (unsigned i = 1; i < 10; i++)
            found.island |= islands[i] >= req->cards;
        found.server |= n >= req->cards;
        all += n;
        if (s->fabric)
            fabrics[s->fabric->name[0] - 'a'] += n;
    }
    for (unsigned i = 0; i < 8; i++)
        found.fabric |= fabrics[i] >= req->cards;
    found.anywhere = all >= req->cards;
    return found;
}

/* The fewest islands (a card in none counts as one) of @server that have the cards:
 * every set of islands is tried. */
static unsigned
fewest_islands(const struct sched_server *server, const struct sched_request *req)
{
    unsigned sizes[16], n = 0, best = 99, at[10] = {0};

    for (unsigned i = 0; i < server->n_cards; i++) {
        uint32_t island = server->cards[i]->facts.island;

        if (!fits(server->cards[i], req))
            continue;
        if (island && at[island]) {
            sizes[at[island] - 1]++;
            continue;
        }
        sizes[n++] = 1;
        if (island)
            at[island] = n;
    }
    for (unsigned set = 1; set < 1u << n; set++) {
        unsigned sum = 0, members = 0;

        for (unsigned i = 0; i < n; i++)
            if (set >> i & 1) {
                sum += sizes[i];
                members++;
            }
        if (sum >= req->cards && members < best)
            best = members;
    }
    return best;
}

static unsigned
islands_in(const struct sched_decision *d)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < d->n_slices; i++) {
        bool seen = false;

        for (uint32_t k = 0; k < i; k++)
            seen |= d->slices[i].card->island &&
                    d->slices[k].card->island == d->slices[i].card->island;
        n += !seen;
    }
    return n;
}

static bool
one_server(const struct sched_decision *d)
{
    for (uint32_t i = 1; i < d->n_slices; i++)
        if (d->slices[i].card->server != d->slices[0].card->server)
            return false;
    return true;
}

static bool
one_fabric(const struct sched_decision *d)
{
    for (uint32_t i = 0; i < d->n_slices; i++)
        if (!d->slices[i].card->server->fabric ||
            d->slices[i].card->server->fabric != d->slices[0].card->server->fabric)
            return false;
    return true;
}

static void
check_decision(const struct sched_request *req, const struct sched_decision *d,
               const struct found *found)
{
    assert_int_equal(d->n_slices, req->cards);
    for (uint32_t i = 0; i < d->n_slices; i++) {
        assert_true(fits(d->slices[i].card, req));
        for (uint32_t k = 0; k < i; k++)
            assert_ptr_not_equal(d->slices[i].card, d->slices[k].card);
    }
    if (found->island) {
        assert_int_equal(islands_in(d), 1);
        assert_true(one_server(d));
    } else if (found->server) {
        assert_true(one_server(d));
        assert_int_equal(islands_in(d), fewest_islands(d->slices[0].card->server, req));
    } else if (found->fabric) {
        assert_true(one_fabric(d));
    }
}

static void
shake(struct sched_pool *pool)
{
    struct sched_server *s = pool->servers;
    struct sched_card *card;

    for (uint32_t at = roll(pool->n_servers); at; at--)
        s = s->next;
    card = s->cards[roll(s->n_cards)];
    switch (roll(4)) {
    case 0:
        s->alive = !s->alive;
        sched_pool_server_update(pool, s);
        break;
    case 1:
        sched_pool_set_fault(pool, card, card->fault ? "" : "broken");
        break;
    case 2:
        sched_pool_set_island(pool, card, roll(4));
        break;
    default:
        sched_pool_set_fabric(pool, s, (char[]){(char)('a' + roll(3)), 0});
    }
}

static struct sched_pool *
random_pool(void)
{
    struct sched_pool *pool = sched_pool_new();
    unsigned servers = 1 + roll(8);

    for (unsigned i = 0; i < servers; i++) {
        char name[16], islands[16] = "", fabric[2] = "";
        unsigned cards = 1 + roll(8), kinds = 1 + roll(4);

        snprintf(name, sizeof(name), "n%u", i);
        for (unsigned k = 0; k < cards; k++)
            islands[k] = (char)('0' + roll(kinds + 1));
        if (roll(3))
            fabric[0] = (char)('a' + roll(3));
        add_server(pool, name, islands, fabric);
    }
    return pool;
}

static struct sched_request
random_request(void)
{
    struct sched_request req =
        request(10 * (1 + roll(10)), 2 + roll(7), (enum sched_near)roll(4));

    req.memory = (1 + roll(16)) * GIB;
    req.span |= req.near == SCHED_NEAR_ANY && roll(2);
    req.placement = (enum sched_placement)(SCHED_BINPACK + roll(3));
    return req;
}

static bool
possible(const struct sched_request *req, const struct found *found)
{
    switch (req->near) {
    case SCHED_NEAR_ISLAND:
        return found->island;
    case SCHED_NEAR_SERVER:
        return found->server;
    case SCHED_NEAR_FABRIC:
        return found->server || found->fabric;
    default:
        return found->server || (req->span && found->anywhere);
    }
}

static void
index_finds_what_a_search_of_every_card_finds(void **state)
{
    static struct sched_decision live[LIVE_MAX];

    for (int round = 0; round < 60; round++) {
        CLEANUP(sched_pool_freep) struct sched_pool *pool = random_pool();
        unsigned n = 0;

        for (int step = 0; step < 600; step++) {
            struct sched_request req = random_request();
            struct found found;
            int r;

            if (!roll(10))
                shake(pool);
            if (n == LIVE_MAX || (n && roll(5) < 2)) {
                uint32_t victim = roll(n);

                give(pool, &live[victim]);
                live[victim] = live[--n];
                continue;
            }
            sched_mix_note(&pool->mix, &req);
            found = search(pool, &req);
            r = sched_place(pool, &req, &live[n]);
            if ((r == 0) != possible(&req, &found))
                fail_msg("round %d step %d: %d, but the search says %d", round, step, r,
                         possible(&req, &found));
            if (r)
                continue;
            check_decision(&req, &live[n], &found);
            take(pool, &live[n++]);
        }
    }
}

/* ------------------------------------------------------------------- reach -- */

static void
random_reach(struct sched_pool *pool, struct sched_server *server)
{
    struct sched_reach reach = {
        .zone = (uint8_t)roll(4), .rdma = roll(2), .has_host = roll(4), .host = {1}};

    reach.host[1] = (uint8_t)roll(3);
    assert_int_equal(sched_pool_set_reach(pool, server, &reach), 0);
}

/* What the words of the request mean, card by card. */
static bool
is_reached(const struct sched_card *card, const struct sched_where *where)
{
    const struct sched_reach *reach = &card->server->reach;

    switch (where->over) {
    case SCHED_OVER_SHM:
        return reach->has_host && reach->host[1] == where->host[1];
    case SCHED_OVER_RDMA:
        return reach->rdma && !(where->unreached & UINT64_C(1) << reach->zone);
    default:
        return !(where->unreached & UINT64_C(1) << reach->zone);
    }
}

static bool
somewhere(const struct sched_pool *pool, const struct sched_request *req)
{
    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        unsigned n = 0;

        for (unsigned i = 0; i < s->n_cards; i++)
            n += fits(s->cards[i], req) && is_reached(s->cards[i], req->where);
        if (n >= req->cards)
            return true;
    }
    return false;
}

static void
check_reached(const struct sched_pool *pool, const struct sched_request *req,
              const struct sched_decision *d, bool placed)
{
    struct sched_reasons reasons;

    sched_place_explain(pool, req, placed ? d : NULL, &reasons);
    for (uint32_t i = 0; placed && i < d->n_slices; i++)
        assert_true(is_reached(d->slices[i].card, req->where));
    for (unsigned i = 0; i < reasons.n; i++)
        if (!strncmp(reasons.list[i].words, "reach: ", 7))
            assert_false(is_reached(reasons.list[i].card, req->where));
}

static void
cards_that_the_programs_do_not_reach_are_not_given(void **state)
{
    static struct sched_decision live[LIVE_MAX];

    (void)state;
    for (int round = 0; round < 40; round++) {
        CLEANUP(sched_pool_freep) struct sched_pool *pool = random_pool();
        unsigned n = 0;

        for (struct sched_server *s = pool->servers; s; s = s->next)
            random_reach(pool, s);
        for (int step = 0; step < 400; step++) {
            struct sched_request req = random_request();
            struct sched_where where = {.over = roll(4), .host = {1}};
            struct sched_server *some = pool->servers;
            int r;

            where.unreached = roll(8) << 1;
            where.host[1] = (uint8_t)roll(3);
            req.where = &where;
            req.cards = 1 + roll(2);
            req.near = req.cards > 1 ? SCHED_NEAR_SERVER : SCHED_NEAR_ANY;
            req.span = false;
            while (some->next && roll(2))
                some = some->next;
            if (!roll(10))
                random_reach(pool, some);
            if (n == LIVE_MAX || (n && roll(5) < 2)) {
                uint32_t victim = roll(n);

                give(pool, &live[victim]);
                live[victim] = live[--n];
                continue;
            }
            r = sched_place(pool, &req, &live[n]);
            if ((r == 0) != somewhere(pool, &req))
                fail_msg("round %d step %d: %d, but the search says %d", round, step, r,
                         somewhere(pool, &req));
            check_reached(pool, &req, &live[n], !r);
            if (!r)
                take(pool, &live[n++]);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_cards_are_linked_when_there_are_such),
        cmocka_unit_test(islands_are_wanted_or_nothing),
        cmocka_unit_test(the_smallest_island_that_suffices_is_taken),
        cmocka_unit_test(single_cards_leave_islands_whole),
        cmocka_unit_test(servers_of_one_fabric_come_before_others),
        cmocka_unit_test(cards_that_are_kept_are_near_as_well),
        cmocka_unit_test(faulty_cards_are_not_given_and_come_back),
        cmocka_unit_test(islands_and_fabrics_change_under_the_index),
        cmocka_unit_test(rules_say_what_is_linked),
        cmocka_unit_test(index_finds_what_a_search_of_every_card_finds),
        cmocka_unit_test(cards_that_the_programs_do_not_reach_are_not_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
