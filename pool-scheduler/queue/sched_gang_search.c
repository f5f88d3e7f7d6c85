/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_gang_search.h"

#include "gp_hash.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_gang.h"
#include "sched_pack.h"
#include "sched_reserve.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A card that the index does not have, and who may use it. */
struct known {
    struct sched_card *card;
    uint64_t most_ms;  /* a request that runs so long; UINT64_MAX: whatever it does */
    bool single;       /* a request for one card */
    const char *owner; /* a request of this one; NULL: of any */
    struct sched_pack_room room; /* of cards to keep */
};

/* Places in the table of cards to keep, by serial: twice as many as cards. */
#define TABLE (2 * SCHED_HOLD_SAMPLE)

struct gang_search {
    struct sched *sched;
    const struct sched_gang *gang;
    struct sched_avoid avoid[2]; /* of members that are kept apart from servers: the
                                    second */
    struct sched_pack_request requests[SCHED_GANG_MAX];
    struct known *known;
    unsigned n, room;
    uint32_t table[TABLE]; /* 1 + the card's place in known; 0: none */
};

/* ---------------------------------------------------------------- requests -- */

static void
ask_for(struct gang_search *search)
{
    for (unsigned i = 0; i < search->gang->n; i++) {
        const struct sched_open *open = &search->gang->members[i]->open;
        struct sched_pack_request *request = &search->requests[i];

        *request = (struct sched_pack_request){
            .req = open->req,
            .apart_card = open->apart_card,
            .apart_server = open->apart_server,
            .rights = open->run_ms,
        };
        sched_open_avoid(search->sched, open, &request->req,
                         &search->avoid[open->apart_server]);
    }
}

/* The caller fills in the rest. */
static struct known *
add(struct gang_search *search, struct sched_card *card, uint64_t most_ms)
{
    if (search->n == search->room) {
        unsigned room = search->room ? 2 * search->room : 64;
        void *more = realloc(search->known, room * sizeof(*search->known));

        if (!more)
            return NULL;
        search->known = more;
        search->room = room;
    }
    search->known[search->n] = (struct known){.card = card, .most_ms = most_ms};
    return &search->known[search->n++];
}

static struct sched_card *
next_known(void *arg, unsigned number, unsigned *at)
{
    const struct gang_search *search = arg;
    const struct sched_open *open = &search->gang->members[number]->open;

    while (*at < search->n) {
        const struct known *known = &search->known[(*at)++];

        if (known->owner && strcmp(known->owner, open->spec.owner) != 0)
            continue;
        if (known->most_ms == UINT64_MAX ||
            (open->run_ms && open->run_ms <= known->most_ms &&
             (!known->single || open->req.cards == 1)))
            return known->card;
    }
    return NULL;
}

static struct gang_search *
search_new(struct sched *sched, const struct sched_gang *gang)
{
    struct gang_search *search = calloc(1, sizeof(*search));

    if (!search)
        return NULL;
    search->sched = sched;
    search->gang = gang;
    ask_for(search);
    return search;
}

static void
search_free(struct gang_search *search)
{
    if (search)
        free(search->known);
    free(search);
}
DEFINE_CLEANUP(struct gang_search, search_free)

/* --------------------------------------------------------------- free cards -- */

static bool
add_kept(struct gang_search *search)
{
    const struct sched_gang *gang = search->gang;
    bool good = true;

    for (unsigned i = 0; gang->kept && i < gang->n; i++) {
        const struct sched_target *target = &gang->members[i]->target;

        for (unsigned k = 0; k < target->n; k++)
            good &= add(search, target->cards[k], UINT64_MAX) != NULL;
    }
    return good;
}

/* What @owner, or (NULL) any of them, gets of the reservations. */
static bool
add_reserved_for(struct gang_search *search, const char *owner)
{
    const struct sched_waits *waits = search->sched->waits;
    const char *asks = owner ? owner : search->gang->members[0]->open.spec.owner;
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;
    bool good = true;

    for (unsigned i = 0; i < waits->n_reserves; i++) {
        uint64_t most = sched_reserve_lends(search->sched, i, asks, now);

        for (unsigned k = 0; good && most && k < waits->reserves[i]->n; k++) {
            struct known *known = add(search, waits->reserves[i]->cards[k], most);

            good = known;
            if (good)
                known->owner = owner;
        }
    }
    return good;
}

static bool
add_reserved(struct gang_search *search)
{
    const struct sched_gang *gang = search->gang;
    bool good = true;

    if (!gang->of_owners)
        return add_reserved_for(search, NULL);
    for (unsigned i = 0; good && i < gang->n; i++)
        good = add_reserved_for(search, gang->members[i]->open.spec.owner);
    return good;
}

static bool
add_backfill(struct gang_search *search)
{
    const struct sched_waits *waits = search->sched->waits;
    uint64_t now = gp_now_ns(), most;
    bool good = true;

    for (unsigned i = 0; i < waits->n_holds; i++) {
        const struct sched_wait *wait = waits->holds[i];

        if (!sched_wait_kept_until(wait, now, &most) || !most)
            continue;
        for (unsigned k = 0; good && k < wait->target.n; k++) {
            struct known *known = add(search, wait->target.cards[k], most);

            good = known;
            if (good)
                known->single = true;
        }
    }
    return good;
}

int
sched_gang_search(struct sched *sched, const struct sched_gang *gang,
                  struct sched_decision *ret)
{
    CLEANUP(search_freep) struct gang_search *search = search_new(sched, gang);
    struct sched_pack pack = {.pool = sched->pool,
                              .n = gang->n,
                              .also = next_known,
                              .arg = search,
                              .steps = SCHED_PACK_STEPS};

    if (!search || !add_kept(search) || !add_reserved(search) || !add_backfill(search))
        return -ENOMEM;
    pack.requests = search->requests;
    return sched_pack(&pack, ret);
}

/* ------------------------------------------------------------ cards to keep -- */

static void
room_later(const struct sched *sched, const struct sched_class *class,
           const struct sched_card *card, struct sched_pack_room *ret)
{
    *ret = (struct sched_pack_room){.core = 100, .memory = card->facts.memory};
    if (class)
        sched_wait_room(sched, class, card, &ret->core, &ret->memory);
    ret->slices = ret->core < 100; /* each of them has some */
    ret->in_space = card->in_space;
}

static unsigned
place_of(const struct gang_search *search, const struct sched_card *card)
{
    unsigned at = card->serial % TABLE;

    while (search->table[at] && search->known[search->table[at] - 1].card != card)
        at = (at + 1) % TABLE;
    return at;
}

static void
known_room(void *arg, const struct sched_card *card, struct sched_pack_room *ret)
{
    const struct gang_search *search = arg;

    *ret = search->known[search->table[place_of(search, card)] - 1].room;
}

/* Least has to end on them first. */
static int
compare_known(const void *a, const void *b)
{
    const struct sched_card *x = ((const struct known *)a)->card,
                            *y = ((const struct known *)b)->card;

    if (x->core_given != y->core_given)
        return x->core_given < y->core_given ? -1 : 1;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

static bool
add_sample(struct gang_search *search, const struct sched_class *class,
           const struct sched_wait_claim *claim)
{
    struct sched *sched = search->sched;
    const struct sched_server *server =
        sched_hold_first(sched->pool, gp_hash_u64(gp_now_ns()));
    unsigned looked = 0;

    for (unsigned s = 0; s < sched->pool->n_servers && looked < SCHED_HOLD_SAMPLE;
         s++) {
        for (unsigned i = 0; i < server->n_cards && looked < SCHED_HOLD_SAMPLE; i++) {
            struct sched_card *card = server->cards[i];
            struct known *known;

            looked++;
            if (!sched_card_open(card) || sched_wait_kept_from(sched, claim, card))
                continue;
            known = add(search, card, UINT64_MAX);
            if (!known)
                return false;
            room_later(sched, class, card, &known->room);
        }
        server = server->next ? server->next : sched->pool->servers;
    }
    return true;
}

int
sched_gang_search_later(struct sched *sched, const struct sched_gang *gang,
                        const struct sched_class *class,
                        const struct sched_wait_claim *claim,
                        struct sched_decision *ret)
{
    CLEANUP(search_freep) struct gang_search *search = search_new(sched, gang);
    struct sched_pack pack = {.n = gang->n,
                              .also = next_known,
                              .room = known_room,
                              .arg = search,
                              .steps = SCHED_PACK_STEPS};

    if (!search || !add_sample(search, class, claim))
        return -ENOMEM;
    if (search->n)
        qsort(search->known, search->n, sizeof(*search->known), compare_known);
    for (unsigned i = 0; i < search->n; i++)
        search->table[place_of(search, search->known[i].card)] = i + 1;
    pack.requests = search->requests;
    return sched_pack(&pack, ret);
}
