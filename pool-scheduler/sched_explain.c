/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_place_explain(): the words to a decision.  Apart from sched_place.c because
 * it looks at every card, which a decision must not.
 */
#include "sched_place.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What was in the way, counted over the pool. */
struct obstacles {
    unsigned cards, core, memory, slots, shared, closed, unwanted, fit;
    uint32_t most_core;
    uint64_t most_memory;
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
};

static unsigned
card_obstacles(const struct sched_card *card, const struct sched_request *req)
{
    if (!card_wanted(card, req))
        return UNWANTED;
    if (!card->present || !sched_server_open(card->server))
        return CLOSED;
    if (card->slices >= CTL_SLICES_PER_CARD_MAX)
        return SLOTS;
    if (!sched_card_shares(card, req->in_space))
        return SHARED;
    return (sched_card_free_core(card) < req->core ? CORE : 0) |
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
    if (found & (UNWANTED | CLOSED | SLOTS | SHARED))
        return;
    sum->most_core = gp_max(sum->most_core, sched_card_free_core(card));
    sum->most_memory = gp_max(sum->most_memory, sched_card_free_memory(card));
}

static void
shortage_words(const struct sched_card *card, const struct sched_request *req,
               unsigned found, char *words, size_t size)
{
    int at = 0;

    if (found & CORE)
        at = snprintf(words, size, "core: %u %% free, %u %% wanted",
                      sched_card_free_core(card), req->core);
    if (found & MEMORY)
        snprintf(words + at, size - (size_t)at,
                 "%smemory: %.2f GiB of %.2f GiB free, %.2f GiB wanted", at ? "; " : "",
                 gib(sched_card_free_memory(card)), gib(card->facts.memory),
                 gib(req->memory));
}

static void
card_words(const struct sched_card *card, const struct sched_request *req,
           const struct sched_decision *chosen, unsigned found, char *words,
           size_t size)
{
    const char *closed = server_obstacle(card->server);

    if (found == UNWANTED)
        snprintf(words, size, "not the one that was asked for");
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
        snprintf(words, size, "%s: %u %% core and %.2f GiB free",
                 card_chosen(card, chosen) ? "chosen"
                 : chosen                  ? "would fit, another was better"
                                           : "would fit",
                 sched_card_free_core(card), gib(sched_card_free_memory(card)));
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

static void
summarise_obstacles(const struct sched_request *req, const struct obstacles *sum,
                    char *why, size_t size)
{
    why[0] = 0;
    if (sum->core)
        summary_add(why, size, "%u lack core (most free: %u %%, %u %% wanted)",
                    sum->core, sum->most_core, req->core);
    if (sum->memory)
        summary_add(why, size, "%u lack memory (most free: %.2f GiB, %.2f GiB wanted)",
                    sum->memory, gib(sum->most_memory), gib(req->memory));
    if (sum->slots)
        summary_add(why, size, "%u carry %d slices already, the most allowed",
                    sum->slots, CTL_SLICES_PER_CARD_MAX);
    if (sum->shared)
        summary_add(why, size, "%u are shared in %s", sum->shared,
                    req->in_space ? "time, not in space" : "space, not in time");
    if (sum->closed)
        summary_add(why, size, "%u are on servers that are not available", sum->closed);
    if (sum->unwanted)
        summary_add(why, size, "%u are not the one asked for", sum->unwanted);
}

static void
summarise(const struct sched_request *req, const struct obstacles *sum,
          const struct sched_decision *chosen, char *summary, size_t size)
{
    char why[240];

    if (chosen) {
        snprintf(summary, size, "%u of %u cards would fit, %u taken (%s)", sum->fit,
                 sum->cards, chosen->n_slices,
                 req->placement == SCHED_SPREAD ? "spread" : "binpack");
        return;
    }
    if (!sum->cards) {
        snprintf(summary, size, "the pool has no cards: no server has registered");
        return;
    }
    summarise_obstacles(req, sum, why, sizeof(why));
    if (sum->fit)
        snprintf(summary, size,
                 "no server has %u cards that fit, %u cards of the pool would%s%s%s",
                 req->cards, sum->fit,
                 sum->fit >= req->cards && !req->span
                     ? " (--span takes several servers)"
                     : "",
                 why[0] ? "; of the others " : "", why);
    else
        snprintf(summary, size, "none of %u cards fits: %s", sum->cards, why);
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

void
sched_place_explain(const struct sched_pool *pool, const struct sched_request *req,
                    const struct sched_decision *chosen, struct sched_reasons *ret)
{
    struct obstacles sum = {0};

    memset(ret, 0, sizeof(*ret));
    for (const struct sched_server *s = pool->servers; s; s = s->next)
        for (unsigned i = 0; i < s->n_cards; i++)
            explain_card(s->cards[i], req, chosen, &sum, ret);
    summarise(req, &sum, chosen, ret->summary, sizeof(ret->summary));
}
