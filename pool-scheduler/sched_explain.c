/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_place_explain(): the words to a decision.  Apart from sched_place.c because
 * it looks at every card, which a decision must not.
 */
#include "gp_str.h"
#include "sched_place.h"
#include "sched_several.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What was in the way, counted over the pool. */
struct obstacles {
    unsigned cards, core, memory, slots, shared, closed, unwanted, fit;
    unsigned selected, avoided, held, faulty, reserved, cordoned, unreached;
    uint32_t most_core;
    uint64_t most_memory, largest; /* free; in all, of those that lack some */
};

static double
gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

static const char *
server_obstacle(const struct sched_server *server)
{
    if (!server->alive)
        return "the server is not connected";
    if (server->drain_asked)
        return "the server is being drained";
    if (server->drain_self)
        return "the server is shutting down";
    if (server->unclean)
        return "the server is still ending old sessions";
    return NULL;
}

static bool
card_wanted(const struct sched_card *card, const struct sched_request *req)
{
    return (!req->has_uuid || !memcmp(card->facts.uuid, req->uuid, TICKET_UUID_SIZE)) &&
           (!req->server || !strcmp(card->server->name, req->server));
}

static bool
card_chosen(const struct sched_card *card, const struct sched_decision *chosen)
{
    for (unsigned i = 0; chosen && i < chosen->n_slices; i++)
        if (chosen->slices[i].card == card)
            return true;
    return false;
}

enum obstacle {
    UNWANTED = 1,
    CLOSED = 2,
    SLOTS = 4,
    CORE = 8,
    MEMORY = 16, /* with CORE, when both are in the way: one trip tells all */
    SHARED = 32,
    SELECTED = 64, /* not of the model, labels... that were asked for */
    AVOIDED = 128,
    HELD = 256,
    FAULTY = 512,
    CORDONED = 1024,
    UNREACHED = 2048, /* by the request's programs */
};
#define ALONE                                                                          \
    (UNWANTED | CLOSED | SLOTS | SHARED | SELECTED | AVOIDED | HELD | FAULTY |         \
     CORDONED | UNREACHED)

static unsigned
card_obstacles(const struct sched_card *card, const struct sched_request *req)
{
    struct sched_request apart = *req;
    char words[160];

    if (!card_wanted(card, req))
        return UNWANTED;
    if (req->where && sched_where_words(req->where, card->server->labels, &card->facts,
                                        words, sizeof(words)))
        return SELECTED;
    if (!card->present || !sched_server_open(card->server))
        return CLOSED;
    if (card->fault)
        return FAULTY;
    if (card->cordoned)
        return CORDONED;
    if (req->where && !sched_where_reaches(req->where, &card->server->reach, true))
        return UNREACHED;
    apart.where = NULL;
    if (!sched_place_accepts(card, &apart))
        return AVOIDED;
    if (card->hold)
        return HELD;
    if (card->slices >= CTL_SLICES_PER_CARD_MAX)
        return SLOTS;
    if (!sched_card_shares(card, req->in_space))
        return SHARED;
    return (sched_card_free_core(card) < sched_place_core(card, req) ? CORE : 0) |
           (sched_card_free_memory(card) < req->memory ? MEMORY : 0);
}

static void
count_obstacles(struct obstacles *sum, const struct sched_card *card, unsigned found)
{
    sum->cards++;
    sum->fit += !found;
    sum->unwanted += found == UNWANTED;
    sum->closed += found == CLOSED;
    sum->slots += found == SLOTS;
    sum->shared += found == SHARED;
    sum->core += !!(found & CORE);
    sum->memory += !!(found & MEMORY);
    sum->selected += found == SELECTED;
    sum->avoided += found == AVOIDED;
    sum->held += found == HELD && !card->hold_words;
    sum->reserved += found == HELD && card->hold_words;
    sum->faulty += found == FAULTY;
    sum->cordoned += found == CORDONED;
    sum->unreached += found == UNREACHED;
    if (found & ALONE)
        return;
    if (found & CORE)
        sum->most_core = gp_max(sum->most_core, sched_card_free_core(card));
    if (found & MEMORY) {
        sum->most_memory = gp_max(sum->most_memory, sched_card_free_memory(card));
        sum->largest = gp_max(sum->largest, card->facts.memory);
    }
}

static void
shortage_words(const struct sched_card *card, const struct sched_request *req,
               unsigned found, char *words, size_t size)
{
    int at = 0;

    if (found & CORE)
        at = snprintf(words, size, "core: %u %% free, %u %% wanted",
                      sched_card_free_core(card), sched_place_core(card, req));
    if (found & MEMORY)
        snprintf(words + at, size - (size_t)at,
                 "%smemory: %.2f GiB of %.2f GiB free, %.2f GiB wanted", at ? "; " : "",
                 gib(sched_card_free_memory(card)), gib(card->facts.memory),
                 gib(req->memory));
}

/* Of what is preferred. */
static int
missed_words(const struct sched_card *card, const struct sched_request *req,
             char *words, size_t size)
{
    const char *labels = card->server->labels;
    const char *missed = req->where ? sched_where_missed(req->where, labels) : NULL;

    if (!missed)
        return 0;
    snprintf(words, size, ", %.*s is preferred, the server has %.28s",
             (int)gp_min(strcspn(missed, ","), (size_t)32), missed,
             *labels ? labels : "no labels");
    return (int)strlen(words);
}

/* A card that fits; why not it, where that is because of the others. */
static void
fit_words(const struct sched_card *card, const struct sched_request *req,
          const struct sched_decision *chosen, char *words, size_t size)
{
    int at = snprintf(words, size, "%s: %u %% core and %.2f GiB free",
                      card_chosen(card, chosen) ? "chosen"
                      : chosen                  ? "would fit, another was better"
                                                : "would fit",
                      sched_card_free_core(card), gib(sched_card_free_memory(card)));

    at += missed_words(card, req, words + at, size - (size_t)at);
    if (req->cards < 2)
        return;
    if (card->island)
        snprintf(words + at, size - (size_t)at, ", island %u", card->island->number);
    else if (req->near == SCHED_NEAR_ISLAND)
        snprintf(words + at, size - (size_t)at, ", in no island");
    else if (req->near == SCHED_NEAR_FABRIC && !card->server->fabric)
        snprintf(words + at, size - (size_t)at, ", its server is in no fabric");
}

static void
card_words(const struct sched_card *card, const struct sched_request *req,
           const struct sched_decision *chosen, unsigned found, char *words,
           size_t size)
{
    const char *closed = server_obstacle(card->server);

    if (found == UNWANTED)
        snprintf(words, size, "not the one that was asked for");
    else if (found == SELECTED)
        sched_where_words(req->where, card->server->labels, &card->facts, words, size);
    else if (found == AVOIDED)
        snprintf(words, size, "apart: the owner has a session %s already",
                 req->avoid->servers ? "on this server" : "here");
    else if (found == HELD && card->hold_words)
        snprintf(words, size, "%s", card->hold_words);
    else if (found == HELD)
        snprintf(words, size, "it is kept free for a request that waits longer");
    else if (found == FAULTY)
        snprintf(words, size, "out of use: %s", card->fault);
    else if (found == CORDONED)
        snprintf(words, size, "cordoned by an administrator");
    else if (found == UNREACHED)
        snprintf(words, size, "%s", sched_where_reach_words(req->where));
    else if (found == CLOSED)
        snprintf(words, size, "%s",
                 closed ? closed : "the server has no such card any more");
    else if (found == SLOTS)
        snprintf(words, size, "slices: it has %u, the most a card can carry",
                 card->slices);
    else if (found == SHARED)
        snprintf(words, size,
                 card->in_space ? "sharing: its sessions have multiprocessors of their "
                                  "own (--spatial)"
                                : "sharing: its sessions take turns on all "
                                  "multiprocessors (no --spatial)");
    else if (found)
        shortage_words(card, req, found, words, size);
    else
        fit_words(card, req, chosen, words, size);
}

static void GP_PRINTF(3, 4) summary_add(char *text, size_t size, const char *fmt, ...)
{
    size_t at = strlen(text);
    va_list ap;

    if (at && at + 2 < size)
        at += (size_t)snprintf(text + at, size - at, ", ");
    va_start(ap, fmt);
    vsnprintf(text + at, size - at, fmt, ap);
    va_end(ap);
}

/* So many cards of those of @sum, "it" where there is no other. */
static const char *
count_words(const struct obstacles *sum, unsigned n, char words[12])
{
    snprintf(words, 12, "%u", n);
    return sum->cards == 1 ? "it" : words;
}

/* "1 is reserved for others", "2 are reserved for others". */
static void
summary_are(char *text, size_t size, const struct obstacles *sum, unsigned n,
            const char *what)
{
    char count[12];

    if (n)
        summary_add(text, size, "%s %s %s", count_words(sum, n, count),
                    gp_plural(n, "is", "are"), what);
}

static void
summarise_obstacles(const struct sched_request *req, const struct obstacles *sum,
                    char *why, size_t size)
{
    char n[12];

    why[0] = 0;
    if (sum->core)
        summary_add(why, size, "%s %s core (most free: %u %%, %u %% wanted)",
                    count_words(sum, sum->core, n),
                    gp_plural(sum->core, "lacks", "lack"), sum->most_core, req->core);
    if (sum->memory) /* waiting does not help where even the largest is too small */
        summary_add(why, size, "%s %s memory (%s %.2f GiB, %.2f GiB wanted)",
                    count_words(sum, sum->memory, n),
                    gp_plural(sum->memory, "lacks", "lack"),
                    req->memory > sum->largest ? "the largest has" : "most free:",
                    gib(req->memory > sum->largest ? sum->largest : sum->most_memory),
                    gib(req->memory));
    if (sum->slots)
        summary_add(why, size, "%s %s %d slices already, the most allowed",
                    count_words(sum, sum->slots, n),
                    gp_plural(sum->slots, "carries", "carry"), CTL_SLICES_PER_CARD_MAX);
    summary_are(why, size, sum, sum->shared,
                req->in_space ? "shared in time, not in space"
                              : "shared in space, not in time");
    summary_are(why, size, sum, sum->selected, "not of the kind that is wanted");
    if (sum->avoided)
        summary_add(why, size, "%s %s a session of the owner already",
                    count_words(sum, sum->avoided, n),
                    gp_plural(sum->avoided, "has", "have"));
    summary_are(why, size, sum, sum->held, "kept free for a request that waits longer");
    summary_are(why, size, sum, sum->reserved, "reserved for others");
    summary_are(why, size, sum, sum->faulty,
                gp_plural(sum->faulty, "out of use, something is wrong with it",
                          "out of use, something is wrong with them"));
    summary_are(why, size, sum, sum->cordoned, "cordoned");
    summary_are(why, size, sum, sum->unreached,
                "not reached by the request's programs");
    summary_are(why, size, sum, sum->closed,
                gp_plural(sum->closed, "on a server that is not available",
                          "on servers that are not available"));
    summary_are(why, size, sum, sum->unwanted, "not the one asked for");
}

/* Where all cards of the request must be. */
static const char *
unit_words(const struct sched_request *req)
{
    return req->near == SCHED_NEAR_ISLAND   ? "island (cards that are linked)"
           : req->near == SCHED_NEAR_FABRIC ? "fabric"
                                            : "server";
}

static const char *
placement_name(enum sched_placement placement)
{
    return placement == SCHED_SPREAD ? "spread"
           : placement == SCHED_FGD  ? "fgd"
                                     : "binpack";
}

#define NONE_FITS_MAX 40

static const char *
none_fits(unsigned n, char words[NONE_FITS_MAX])
{
    snprintf(words, NONE_FITS_MAX, "none of %u cards fits", n);
    return n == 1 ? "the only card does not fit" : words;
}

static void
summarise(const struct sched_request *req, const struct obstacles *sum,
          const struct sched_decision *chosen, char *summary, size_t size)
{
    char why[240], none[NONE_FITS_MAX];

    if (chosen) {
        sched_several_words(chosen, why, sizeof(why));
        snprintf(summary, size, "%u of %u %s would fit, %u taken (%s%s)", sum->fit,
                 sum->cards, gp_plural(sum->cards, "card", "cards"), chosen->n_slices,
                 placement_name(req->placement), why);
        return;
    }
    if (!sum->cards) {
        snprintf(summary, size, "the pool has no cards: no server has registered");
        return;
    }
    summarise_obstacles(req, sum, why, sizeof(why));
    if (sum->fit)
        snprintf(
            summary, size, "no %s has %u cards that fit, %u %s of the pool would%s%s%s",
            unit_words(req), req->cards, sum->fit, gp_plural(sum->fit, "card", "cards"),
            sum->fit >= req->cards && !req->span && !req->near
                ? " (--span takes several servers)"
                : "",
            why[0] ? "; of the others " : "", why);
    else
        snprintf(summary, size, "%s: %s", none_fits(sum->cards, none), why);
}

/* Words only while there is room for them: the pool may be large. */
static void
explain_card(const struct sched_card *card, const struct sched_request *req,
             const struct sched_decision *chosen, struct obstacles *sum,
             struct sched_reasons *ret)
{
    unsigned found = card_obstacles(card, req);
    struct sched_reason *reason;

    count_obstacles(sum, card, found);
    if (ret->n == ARRAY_SIZE(ret->list)) {
        ret->left_off++;
        return;
    }
    reason = &ret->list[ret->n++];
    reason->server = card->server;
    reason->card = card;
    card_words(card, req, chosen, found, reason->words, sizeof(reason->words));
}

/* ---------------------------------------------------------------- shortage -- */

static unsigned
most_free_core(const struct sched_pool *pool, const struct sched_request *req)
{
    for (unsigned core = 100; core; core--)
        if (pool->by_fit[SCHED_FIT(req->in_space, core)].root)
            return core;
    return 0;
}

/* The most free memory among cards with at least @least percent free. */
static uint64_t
most_free_memory(const struct sched_pool *pool, const struct sched_request *req,
                 unsigned least)
{
    uint64_t most = 0;

    for (unsigned core = least; core <= 100; core++) {
        struct gp_tree_node *node =
            gp_tree_last(&pool->by_fit[SCHED_FIT(req->in_space, core)]);

        if (node)
            most = gp_max(most, node->key[0]);
    }
    return most;
}

/* Cards that could be given and are kept from everybody. */
static void
add_withheld(const struct sched_pool *pool, char *words, size_t size)
{
    const struct {
        uint32_t n;
        const char *one, *many;
    } kept[] = {{pool->sums.n_faulty, "is out of use", "are out of use"},
                {pool->sums.n_cordoned, "is cordoned", "are cordoned"},
                {pool->sums.n_draining, "is on a server that drains",
                 "are on servers that drain"},
                {pool->sums.n_away, "is on a server that is not connected",
                 "are on servers that are not connected"}};
    size_t at = strlen(words);

    for (size_t i = 0; i < ARRAY_SIZE(kept) && at < size; i++)
        if (kept[i].n)
            at += (size_t)snprintf(words + at, size - at, "; %u %s", kept[i].n,
                                   gp_plural(kept[i].n, kept[i].one, kept[i].many));
}

void
sched_place_shortage(const struct sched_pool *pool, const struct sched_request *req,
                     char *words, size_t size)
{
    unsigned core = most_free_core(pool, req);
    uint64_t memory = most_free_memory(pool, req, req->core);
    bool away = pool->sums.n_draining + pool->sums.n_away >= pool->n_cards;
    char wanted[40] = ""; /* of memory; whole cards have theirs */
    char none[NONE_FITS_MAX];

    if (!pool->n_cards)
        snprintf(words, size, "the pool has no cards: no server has registered");
    else if (req->memory > pool->most_memory)
        snprintf(words, size, "%s: %.2f GiB of memory wanted, %s %.2f GiB",
                 none_fits(pool->n_cards, none), gib(req->memory),
                 gp_plural(pool->n_cards, "it has", "the largest has"),
                 gib(pool->most_memory));
    else if (!core && pool->n_cards == 1 && away)
        snprintf(words, size, "the only card cannot be given");
    else if (!core && away)
        snprintf(words, size, "none of %u cards can be given", pool->n_cards);
    else if (!core && pool->n_cards == 1)
        snprintf(words, size, "the only card has nothing free");
    else if (!core)
        snprintf(words, size, "none of %u cards has anything free", pool->n_cards);
    else if (core < req->core)
        snprintf(words, size, "%s: %s core (most free: %u %%, %u %% wanted)",
                 none_fits(pool->n_cards, none),
                 gp_plural(pool->n_cards, "it lacks", "all lack"), core, req->core);
    else if (memory < req->memory)
        snprintf(words, size,
                 "%s: %s %u %% core free %s memory (most free: %.2f GiB, %.2f GiB "
                 "wanted)",
                 none_fits(pool->n_cards, none),
                 gp_plural(pool->n_cards, "it has", "those with"), req->core,
                 gp_plural(pool->n_cards, "but lacks", "lack"), gib(memory),
                 gib(req->memory));
    else if (req->has_uuid || req->server || req->where || req->avoid)
        snprintf(words, size, "%s: %s not of the kind that is wanted",
                 none_fits(pool->n_cards, none),
                 gp_plural(pool->n_cards, "it is", "those with enough room are"));
    else if (req->cards > 1) {
        if (req->memory)
            snprintf(wanted, sizeof(wanted), " and %.2f GiB", gib(req->memory));
        snprintf(words, size, "no %s has %u cards with %u %% core%s free%s",
                 unit_words(req), req->cards, req->core, wanted,
                 req->span || req->near ? "" : " (--span takes several servers)");
    } else
        snprintf(words, size, "%s: no card has core and memory",
                 none_fits(pool->n_cards, none));
    add_withheld(pool, words, size);
}

/* ----------------------------------------------------------------- explain -- */

#define NAMES_SHOWN 8 /* of servers, where the one that was asked for is not there */

void
sched_place_no_server(const struct sched_pool *pool, const char *name, char *words,
                      size_t size)
{
    char names[160] = "";
    unsigned n = 0;

    for (const struct sched_server *s = pool->servers; s; s = s->next, n++)
        if (n < NAMES_SHOWN)
            summary_add(names, sizeof(names), "%s", s->name);
    if (!n)
        snprintf(words, size, "no server %.*s: no server has registered",
                 CTL_NAME_MAX - 1, name);
    else
        snprintf(words, size, "no server %.*s; known servers: %s%s", CTL_NAME_MAX - 1,
                 name, names, n > NAMES_SHOWN ? " and others" : "");
}

/* Whether the request names a server or a card that the pool does not have; then no
 * card has to say that it is another one. */
static bool
names_nothing(const struct sched_pool *pool, const struct sched_request *req,
              char *summary, size_t size)
{
    char uuid[TICKET_UUID_TEXT];

    if (req->has_uuid && !sched_pool_card_find(pool, req->uuid)) {
        ticket_uuid_format(req->uuid, uuid);
        snprintf(summary, size, "the pool has no card %s", uuid);
        return true;
    }
    if (!req->server || sched_pool_server_find(pool, req->server))
        return false;
    sched_place_no_server(pool, req->server, summary, size);
    return true;
}

/* Refusals must cost no more than grants: the first cards are looked at, and the
 * summary comes from the index. */
void
sched_place_refusal(const struct sched_pool *pool, const struct sched_request *req,
                    struct sched_reasons *ret)
{
    struct obstacles sum = {0};

    ret->n = ret->left_off = 0;
    ret->unknown = names_nothing(pool, req, ret->summary, sizeof(ret->summary));
    if (ret->unknown)
        return;
    if (pool->n_cards <= ARRAY_SIZE(ret->list)) {
        sched_place_explain(pool, req, NULL, ret);
        return;
    }
    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        for (unsigned i = 0; i < s->n_cards && ret->n < SCHED_REFUSAL_REASONS; i++)
            explain_card(s->cards[i], req, NULL, &sum, ret);
        if (ret->n == SCHED_REFUSAL_REASONS)
            break;
    }
    ret->left_off = pool->n_cards - ret->n;
    sched_place_shortage(pool, req, ret->summary, sizeof(ret->summary));
}

void
sched_place_explain(const struct sched_pool *pool, const struct sched_request *req,
                    const struct sched_decision *chosen, struct sched_reasons *ret)
{
    struct obstacles sum = {0};

    memset(ret, 0, sizeof(*ret));
    ret->unknown = names_nothing(pool, req, ret->summary, sizeof(ret->summary));
    if (ret->unknown)
        return;
    for (const struct sched_server *s = pool->servers; s; s = s->next)
        for (unsigned i = 0; i < s->n_cards; i++)
            explain_card(s->cards[i], req, chosen, &sum, ret);
    summarise(req, &sum, chosen, ret->summary, sizeof(ret->summary));
}
