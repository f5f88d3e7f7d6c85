/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_reserve.h"

#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_wait.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Cards that one tick looks at, of all reservations. */
#define LOOKS_MAX 16384
/* Cards of each reservation whose sessions one tick looks at. */
#define CHECKS_EACH_TICK 64u

static const struct sched_reservation_rule *
rule_of(const struct sched *sched, const struct sched_reserve *reserve)
{
    const struct sched_rules *rules = sched->rules;

    for (unsigned i = 0; i < rules->n_reservations; i++)
        if (!strcmp(rules->reservations[i].name, reserve->name))
            return &rules->reservations[i];
    return NULL;
}

static bool
in_time(const struct sched_reservation_rule *rule, uint64_t unix_s)
{
    return unix_s + rule->lead_ms / 1000 >= rule->from && unix_s < rule->until;
}

static void
time_words(uint64_t unix_s, char *words, size_t size)
{
    time_t t = (time_t)unix_s;
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(words, size, "%Y-%m-%dT%H:%MZ", &tm);
}

/* ------------------------------------------------------------------- cards -- */

static bool
is_on(const struct sched_part *part, const struct sched_card *card)
{
    for (uint32_t i = part->first; i < part->first + part->n_slices; i++)
        if (part->session->slices[i].card == card)
            return true;
    return false;
}

/* On one of its other cards. */
static bool
is_on_another(const struct sched_session *session, const struct sched_reserve *reserve,
              const struct sched_card *card)
{
    for (uint32_t i = 0; i < session->n_slices; i++)
        if (session->slices[i].card != card && session->slices[i].card->hold == reserve)
            return true;
    return false;
}

/* What was to end on @card because of @reserve goes on. */
static void
spare_others(struct sched *sched, const struct sched_reserve *reserve,
             const struct sched_card *card)
{
    struct sched_part *part = NULL;

    while ((part = sched_sessions_next_on(&sched->sessions, card->server, part)))
        if (part->session->limits[SCHED_RESERVATION].by == reserve &&
            is_on(part, card) && !is_on_another(part->session, reserve, card))
            sched_wait_unlimit(sched, part->session, SCHED_RESERVATION,
                               "its card is not reserved any more");
}

static void
drop_card(struct sched *sched, struct sched_reserve *reserve, unsigned i)
{
    struct sched_card *card = reserve->cards[i];

    spare_others(sched, reserve, card);
    if (card->hold == reserve)
        sched_pool_hold(sched->pool, card, NULL);
    reserve->cards[i] = reserve->cards[--reserve->n];
}

static bool
is_to_end(const struct sched_reservation_rule *rule,
          const struct sched_session *session)
{
    return rule->end && !sched_rules_reserved_for(rule, session->owner->name) &&
           !(session->ends_unix && session->ends_unix <= rule->from);
}

/* @session ends when the reservation begins, as the rules are now. */
static void
end_session(struct sched *sched, const struct sched_reserve *reserve,
            const struct sched_reservation_rule *rule, struct sched_session *session,
            uint64_t unix_s)
{
    const struct sched_limit *now = &session->limits[SCHED_RESERVATION];
    uint64_t left =
        rule->from > unix_s ? (rule->from - unix_s) * GP_NS_PER_S : GP_NS_PER_S;
    char words[SCHED_RULES_NAME + 32];
    struct sched_limit limit = {
        .by = reserve, .end_ns = gp_now_ns() + left, .words = words};

    if (now->by == reserve ? session->reserved_from == rule->from
                           : now->by && now->end_ns <= limit.end_ns)
        return; /* as it should be, or another reservation ends it before */
    snprintf(words, sizeof(words), "reservation %s begins then", rule->name);
    session->reserved_from = rule->from;
    sched_wait_limit(sched, session, SCHED_RESERVATION, &limit);
}

/* What others have on @card ends when the reservation begins, if the rules say so (and
 * goes on if they do not say so any more). */
static void
check_card(struct sched *sched, const struct sched_reserve *reserve,
           const struct sched_reservation_rule *rule, const struct sched_card *card,
           uint64_t unix_s)
{
    struct sched_part *part = NULL;

    while ((part = sched_sessions_next_on(&sched->sessions, card->server, part))) {
        struct sched_session *session = part->session;

        if (session->closing || session->pending || !is_on(part, card))
            continue;
        if (is_to_end(rule, session))
            end_session(sched, reserve, rule, session, unix_s);
        else if (session->limits[SCHED_RESERVATION].by == reserve)
            sched_wait_unlimit(sched, session, SCHED_RESERVATION,
                               "the reservation of its card does not end it any more");
    }
}

/* The rules may have changed, and sessions that were being opened are open: some of its
 * cards after the other. */
static void
check_cards(struct sched *sched, struct sched_reserve *reserve,
            const struct sched_reservation_rule *rule, uint64_t unix_s)
{
    for (unsigned i = 0; i < gp_min(reserve->n, CHECKS_EACH_TICK); i++)
        check_card(sched, reserve, rule,
                   reserve->cards[reserve->checked++ % reserve->n], unix_s);
}

/* The card with least in use on the servers that the rule names. */
static struct sched_card *
least_used(const struct sched *sched, const struct sched_reservation_rule *rule,
           unsigned *looks)
{
    struct sched_card *best = NULL;

    for (struct sched_server *s = sched->pool->servers; s && *looks < LOOKS_MAX;
         s = s->next) {
        ++*looks;
        if (fnmatch(rule->servers, s->name, 0) != 0)
            continue;
        *looks += s->n_cards;
        for (unsigned i = 0; i < s->n_cards; i++) {
            struct sched_card *card = s->cards[i];

            if (sched_card_open(card) && !card->hold &&
                (!best || card->core_given < best->core_given))
                best = card;
        }
        if (best && !best->core_given)
            break;
    }
    return best;
}

static void
keep_cards(struct sched *sched, struct sched_reserve *reserve,
           const struct sched_reservation_rule *rule, uint64_t unix_s, unsigned *looks)
{
    unsigned before = reserve->n;

    while (reserve->n < rule->cards) {
        struct sched_card *card = least_used(sched, rule, looks);

        if (!card)
            break;
        sched_pool_hold(sched->pool, card, reserve);
        card->hold_words = reserve->words;
        reserve->cards[reserve->n++] = card;
        check_card(sched, reserve, rule, card, unix_s);
    }
    if (reserve->n > before)
        gp_log_info("queue", "reservation %s: %u of %u cards are kept", reserve->name,
                    reserve->n, rule->cards);
    if (reserve->n < rule->cards && !reserve->short_logged)
        gp_log_warn("queue", "reservation %s: only %u of %u cards are there",
                    reserve->name, reserve->n, rule->cards);
    reserve->short_logged = reserve->n < rule->cards;
}

/* -------------------------------------------------------------------- time -- */

static struct sched_reserve *
reserve_find(struct sched_waits *waits, const char *name)
{
    for (unsigned i = 0; i < waits->n_reserves; i++)
        if (!strcmp(waits->reserves[i]->name, name))
            return waits->reserves[i];
    return NULL;
}

static void
begin(struct sched *sched, const struct sched_reservation_rule *rule)
{
    struct sched_waits *waits = sched->waits;
    struct sched_reserve *reserve, **more;
    char from[32], until[32];

    if (reserve_find(waits, rule->name))
        return;
    more = realloc(waits->reserves,
                   (waits->n_reserves + 1) * sizeof(struct sched_reserve *));
    if (!more)
        return; /* the next tick tries again */
    waits->reserves = more;
    reserve = calloc(1, sizeof(*reserve));
    if (!reserve)
        return;
    gp_str_copy(reserve->name, sizeof(reserve->name), rule->name);
    time_words(rule->from, from, sizeof(from));
    time_words(rule->until, until, sizeof(until));
    snprintf(reserve->words, sizeof(reserve->words), "reserved for %s, %s to %s",
             rule->name, from, until);
    waits->reserves[waits->n_reserves++] = reserve;
}

static void
end(struct sched *sched, unsigned i)
{
    struct sched_waits *waits = sched->waits;
    struct sched_reserve *reserve = waits->reserves[i];

    while (reserve->n)
        drop_card(sched, reserve, reserve->n - 1);
    gp_log_info("queue", "reservation %s is over", reserve->name);
    free(reserve);
    waits->reserves[i] = waits->reserves[--waits->n_reserves];
}

void
sched_reserve_tick(struct sched *sched, uint64_t unix_s)
{
    struct sched_waits *waits = sched->waits;
    const struct sched_rules *rules = sched->rules;
    unsigned looks = 0;

    for (unsigned i = 0; i < rules->n_reservations; i++)
        if (in_time(&rules->reservations[i], unix_s))
            begin(sched, &rules->reservations[i]);
    for (unsigned i = 0; i < waits->n_reserves; i++) {
        struct sched_reserve *reserve = waits->reserves[i];
        const struct sched_reservation_rule *rule = rule_of(sched, reserve);

        if (!rule || !in_time(rule, unix_s)) {
            end(sched, i--);
            continue;
        }
        for (unsigned k = 0; k < reserve->n; k++)
            if (!sched_card_open(reserve->cards[k]) || reserve->n > rule->cards)
                drop_card(sched, reserve, k--);
        keep_cards(sched, reserve, rule, unix_s, &looks);
        check_cards(sched, reserve, rule, unix_s);
    }
}

void
sched_reserve_row(const struct sched *sched, const struct sched_reservation_rule *rule,
                  Gpupool__Ctl__CtlReservation *ret)
{
    const struct sched_reserve *reserve = reserve_find(sched->waits, rule->name);

    gpupool__ctl__ctl_reservation__init(ret);
    ret->name = (char *)(uintptr_t)rule->name;
    ret->owners = (char *)(uintptr_t)rule->owners;
    ret->servers = (char *)(uintptr_t)rule->servers;
    ret->cards = rule->cards;
    ret->kept = reserve ? reserve->n : 0;
    ret->from_unix = rule->from;
    ret->until_unix = rule->until;
    ret->chosen_unix = rule->from - gp_min(rule->from, (uint64_t)rule->lead_ms / 1000);
    ret->ends_others = rule->end;
}

unsigned
sched_reserve_cards(const struct sched_waits *waits)
{
    unsigned n = 0;

    for (unsigned i = 0; i < waits->n_reserves; i++)
        n += waits->reserves[i]->n;
    return n;
}

void
sched_reserve_fini(struct sched_waits *waits)
{
    for (unsigned i = 0; i < waits->n_reserves; i++)
        free(waits->reserves[i]);
    free(waits->reserves);
}

/* ------------------------------------------------------------------- place -- */

/* As many cards of one server (or, if it may span, of any) as the request wants, those
 * in use before others. */
static int
place_on(const struct sched_reserve *reserve, const struct sched_request *req,
         const struct sched_server *server, struct sched_decision *ret)
{
    struct sched_card *cards[TICKET_SLICES_MAX];
    unsigned n = 0;

    for (int used = 1; used >= 0; used--)
        for (unsigned i = 0; i < reserve->n && n < req->cards; i++) {
            struct sched_card *card = reserve->cards[i];

            if ((server && card->server != server) || !!card->slices != used ||
                sched_place_held(&card, 1, req, ret) < 0)
                continue;
            cards[n++] = card;
        }
    return n < req->cards ? -ENOSPC : sched_place_held(cards, n, req, ret);
}

static int
place_in(const struct sched_reserve *reserve, const struct sched_request *req,
         struct sched_decision *ret)
{
    int r = -ENOSPC;

    for (unsigned i = 0; r && i < reserve->n; i++)
        r = place_on(reserve, req, reserve->cards[i]->server, ret);
    return r && req->span ? place_on(reserve, req, NULL, ret) : r;
}

uint64_t
sched_reserve_lends(const struct sched *sched, unsigned i, const char *owner,
                    uint64_t unix_s)
{
    const struct sched_reservation_rule *rule =
        rule_of(sched, sched->waits->reserves[i]);

    if (!rule || !in_time(rule, unix_s))
        return 0;
    if (sched_rules_reserved_for(rule, owner))
        return UINT64_MAX;
    return rule->from > unix_s ? (rule->from - unix_s - 1) * 1000 : 0;
}

int
sched_reserve_place(const struct sched *sched, const struct sched_open *open,
                    const struct sched_request *req, uint64_t unix_s,
                    struct sched_decision *ret)
{
    const struct sched_waits *waits = sched->waits;

    for (unsigned i = 0; i < waits->n_reserves; i++) {
        uint64_t most = sched_reserve_lends(sched, i, open->spec.owner, unix_s);
        bool leaves = open->run_ms && open->run_ms <= most;

        if ((leaves || most == UINT64_MAX) && !place_in(waits->reserves[i], req, ret))
            return 0;
    }
    return -ENOSPC;
}
