/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room that is kept for requests that wait long, and sessions that end to make room
 * (preemption).
 */
#include "gp_audit.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_rules.h"
#include "sched_several.h"
#include "sched_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Old requests that are looked at each tick, and choices of cards, which cost most. */
#define AGED_EACH_TICK 64
#define CHOICES_EACH_TICK 2

/* ----------------------------------------------------------------- preemptible -- */

static const struct sched_class *
class_of(const struct sched *sched, const struct sched_session *session)
{
    const struct sched_class *class =
        sched_rules_class(sched->rules, session->class_name);

    return class ? class : sched_rules_class(sched->rules, "");
}

struct preempting {
    const struct sched *sched;
    const struct sched_class *class; /* for whom; NULL: whatever it is may end */
    const struct sched_wait_claim *claim;
};

static bool
may_end(const struct preempting *p, const struct sched_session *session)
{
    const struct sched_class *class;

    if (session->closing || session->pending || session->limits[SCHED_PREEMPTION].by)
        return false;
    if (!p->class)
        return true;
    class = class_of(p->sched, session);
    return class->preemptible && class->value < p->class->value;
}

/* What the sessions on @card that may end hold of it. */
static void
room_on(void *arg, const struct sched_card *card, uint32_t *core, uint64_t *memory)
{
    const struct preempting *p = arg;
    const struct sched_part *part = NULL;

    *core = 0;
    *memory = 0;
    if (!card->slices)
        return;
    while ((part = sched_sessions_next_on(&p->sched->sessions, card->server, part))) {
        const struct sched_session *session = part->session;

        if (!may_end(p, session))
            continue;
        for (uint32_t i = part->first; i < part->first + part->n_slices; i++) {
            if (session->slices[i].card != card)
                continue;
            *core += session->slices[i].core;
            *memory += session->slices[i].memory;
        }
    }
}

/* Is that for which cards are kept, as @hold, behind @waiter in the queue? */
static bool
is_behind(const struct sched_waits *waits, const void *hold,
          const struct sched_waiter *waiter)
{
    const struct sched_gang *gang = sched_gang_of_hold(waits, hold);

    if (gang)
        return sched_waiter_before(waiter, sched_gang_first(gang));
    for (unsigned i = 0; i < waits->n_holds; i++)
        if (waits->holds[i] == hold)
            return sched_waiter_before(waiter, &waits->holds[i]->waiter);
    return false; /* a reservation */
}

bool
sched_wait_kept_from(const struct sched *sched, const struct sched_wait_claim *claim,
                     const struct sched_card *card)
{
    return card->hold && !(claim && claim->before &&
                           is_behind(sched->waits, card->hold, claim->before));
}

static bool
is_barred(void *arg, const struct sched_card *card)
{
    const struct preempting *p = arg;

    return sched_wait_kept_from(p->sched, p->claim, card) ||
           (p->claim && p->claim->taken && p->claim->taken(p->claim->arg, card));
}

int
sched_wait_target(const struct sched *sched, const struct sched_open *open,
                  bool preempt, const struct sched_wait_claim *claim,
                  struct sched_target *ret)
{
    struct preempting p = {.sched = sched, .class = open->class, .claim = claim};
    struct sched_hold_view view = {
        .room = preempt ? room_on : NULL, .barred = is_barred, .arg = &p};
    struct sched_request req = open->req;
    struct sched_avoid avoid;

    sched_open_avoid(sched, open, &req, &avoid);
    return sched_hold_choose(sched->pool, &req, gp_hash_u64(gp_now_ns()), &view, ret);
}

void
sched_wait_room(const struct sched *sched, const struct sched_class *class,
                const struct sched_card *card, uint32_t *core, uint64_t *memory)
{
    struct preempting p = {.sched = sched, .class = class};

    room_on(&p, card, core, memory);
    *core += sched_card_free_core(card);
    *memory += sched_card_free_memory(card);
}

int
sched_wait_place_kept(struct sched_wait *wait, const struct sched_open *open,
                      struct sched_decision *ret)
{
    struct sched_request req = open->req;
    struct sched_avoid avoid;

    sched_open_avoid(wait->sched, open, &req, &avoid);
    return sched_place_held(wait->target.cards, wait->target.n, &req, ret);
}

/* Lower classes first, then the youngest, which has lost least. */
static bool
ends_before(const struct sched *sched, const struct sched_session *a,
            const struct sched_session *b)
{
    uint32_t va = class_of(sched, a)->value, vb = class_of(sched, b)->value;

    return va != vb ? va < vb : a->opened_unix > b->opened_unix;
}

static bool
listed(struct sched_session *const *list, unsigned n, const struct sched_session *s)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i] == s)
            return true;
    return false;
}

static bool
slice_on(const struct sched_session *session, const struct sched_card *card,
         uint32_t *core, uint64_t *memory)
{
    bool found = false;

    for (uint32_t i = 0; i < session->n_slices; i++)
        if (session->slices[i].card == card) {
            *core += session->slices[i].core;
            *memory += session->slices[i].memory;
            found = true;
        }
    return found;
}

/* Lower classes first; see ends_before(). */
static struct sched_session *
next_victim(const struct preempting *p, const struct sched_card *card,
            struct sched_session *const *list, unsigned n)
{
    struct sched_session *best = NULL;
    struct sched_part *part = NULL;
    uint32_t some = 0;
    uint64_t more = 0;

    while ((part = sched_sessions_next_on(&p->sched->sessions, card->server, part)))
        if (may_end(p, part->session) && !listed(list, n, part->session) &&
            slice_on(part->session, card, &some, &more) &&
            (!best || ends_before(p->sched, part->session, best)))
            best = part->session;
    return best;
}

int
sched_wait_victims_on(const struct sched *sched, const struct sched_class *class,
                      const struct sched_card *card, const struct sched_room *room,
                      struct sched_session **list, unsigned *n, unsigned most)
{
    struct preempting p = {.sched = sched, .class = class};
    uint32_t core = sched_card_free_core(card), slices = 0;
    uint64_t memory = sched_card_free_memory(card);

    for (unsigned i = 0; i < *n; i++)
        slices += slice_on(list[i], card, &core, &memory);
    for (;;) {
        bool shares = sched_card_shares(card, room->in_space) || slices == card->slices;
        struct sched_session *best;

        if (shares && core >= room->core && memory >= room->memory)
            return 0;
        best = *n < most ? next_victim(&p, card, list, *n) : NULL;
        if (!best)
            return -ENOSPC;
        slices += slice_on(best, card, &core, &memory);
        list[(*n)++] = best;
    }
}

/* What has to end for a request of @open that could be placed on @target's cards; with
 * @class, of the preemptible sessions of lower classes only.  Returns how many. */
static unsigned
find_victims(const struct sched *sched, const struct sched_open *open,
             const struct sched_target *target, bool preempt,
             struct sched_session **ret, unsigned most)
{
    unsigned n = 0;

    for (unsigned i = 0; i < target->n; i++) {
        struct sched_room room = {.core =
                                      sched_place_core(target->cards[i], &open->req),
                                  .memory = open->req.memory,
                                  .in_space = open->req.in_space};

        sched_wait_victims_on(sched, preempt ? open->class : NULL, target->cards[i],
                              &room, ret, &n, most);
    }
    return n;
}

/* -------------------------------------------------------------------- notices -- */

void
sched_wait_notify(const struct sched_session *session, const char *words, uint32_t ms)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlSessionNotice notice = GPUPOOL__CTL__CTL_SESSION_NOTICE__INIT;

    if (!session->holder)
        return;
    notice.session_id = session->id;
    notice.words = (char *)words;
    notice.ends_in_ms = ms;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE;
    reply.session_notice = &notice;
    sched_conn_reply(session->holder, &reply);
}

/* When it ends now, if before its time limit, of which its client knows.  False: not
 * before. */
static bool
ends_early(const struct sched_session *session, uint64_t now, uint32_t *ret_ms)
{
    uint64_t end = UINT64_MAX;

    for (int i = 0; i < SCHED_LIMITS; i++)
        if (session->limits[i].by)
            end = gp_min(end, session->limits[i].end_ns);
    if (end > session->ends_ns || end == UINT64_MAX)
        return false;
    end = (end - gp_min(end, now) + GP_NS_PER_MS - 1) / GP_NS_PER_MS;
    *ret_ms = (uint32_t)gp_max(gp_min(end, (uint64_t)UINT32_MAX), (uint64_t)1);
    return true;
}

void
sched_wait_limit(struct sched *sched, struct sched_session *session,
                 enum sched_limit_kind kind, const struct sched_limit *limit)
{
    uint64_t now = gp_now_ns(), before = session->ends_ns;
    const char *words;
    uint32_t ms;

    sched_session_limit(&sched->sessions, session, kind, limit);
    if (session->ends_ns == before) /* something else ends it first */
        return;
    if (session->ends_ns > before) /* its lease was cut short */
        sched_session_lease(&sched->sessions, session,
                            now + session->lease_ms * GP_NS_PER_MS);
    if (!ends_early(session, now, &ms))
        return;
    words = sched_session_end_words(session);
    gp_log_info("session", "%s: ends in %u ms: %s", session->name, ms, words);
    sched_wait_notify(session, words, ms);
}

void
sched_wait_unlimit(struct sched *sched, struct sched_session *session,
                   enum sched_limit_kind kind, const char *words)
{
    uint64_t now = gp_now_ns(), before = session->ends_ns;
    uint32_t ms;

    if (session->closing)
        return;
    sched_session_unlimit(&sched->sessions, session, kind);
    if (session->ends_ns <= before)
        return;
    sched_session_lease(&sched->sessions, session,
                        now + session->lease_ms * GP_NS_PER_MS);
    if (ends_early(session, now, &ms)) {
        words = sched_session_end_words(session);
        gp_log_info("session", "%s: ends in %u ms: %s", session->name, ms, words);
        sched_wait_notify(session, words, ms);
        return;
    }
    gp_log_info("session", "%s: does not end, %s", session->name, words);
    sched_wait_notify(session, words, 0);
}

void
sched_wait_preempt(struct sched_wait *wait, struct sched_session *session)
{
    struct sched *sched = wait->sched;
    const struct sched_class *class = class_of(sched, session);
    struct sched_limit limit;
    char words[96];

    snprintf(words, sizeof(words), "it makes room for a request of class %s",
             wait->class_name);
    sched_events_add(&sched->events, "preempt", session->name,
                     session->parts[0].server->name, session->owner->name, words);
    gp_audit("preempt", "session", session->name, "who", session->owner->name, "for",
             wait->owner, NULL);
    sched->counters.preempted++;
    wait->victims[wait->n_victims++] = session->id;
    limit.by = wait;
    limit.end_ns = gp_now_ns() + class->grace_ms * GP_NS_PER_MS;
    limit.words = words;
    sched_wait_limit(sched, session, SCHED_PREEMPTION, &limit);
}

void
sched_wait_spare(struct sched_wait *wait)
{
    struct sched *sched = wait->sched;

    for (unsigned i = 0; i < wait->n_victims; i++) {
        struct sched_session *session =
            sched_sessions_find(&sched->sessions, wait->victims[i]);

        if (session && session->limits[SCHED_PREEMPTION].by == wait)
            sched_wait_unlimit(sched, session, SCHED_PREEMPTION,
                               "nobody needs its room any more");
    }
    wait->n_victims = 0;
}

/* ---------------------------------------------------------------------- holds -- */

void
sched_wait_release(struct sched_wait *wait)
{
    struct sched *sched = wait->sched;
    struct sched_waits *waits = sched->waits;

    if (wait->gang)
        return; /* its target is the gang's: sched_gang_release() */
    for (unsigned i = 0; wait->target.n && i < waits->n_holds; i++)
        if (waits->holds[i] == wait)
            waits->holds[i--] = waits->holds[--waits->n_holds];
    for (unsigned i = 0; i < wait->target.n; i++)
        if (wait->target.cards[i]->hold == wait)
            sched_pool_hold(sched->pool, wait->target.cards[i], NULL);
    wait->target.n = 0;
    sched_wait_spare(wait);
}

static void
keep(struct sched_wait *wait, const struct sched_target *target)
{
    struct sched_waits *waits = wait->sched->waits;

    wait->target = *target;
    for (unsigned i = 0; i < target->n; i++)
        sched_pool_hold(wait->sched->pool, target->cards[i], wait);
    waits->holds[waits->n_holds++] = wait;
    gp_log_info("queue",
                "%s has waited %" PRIu64 " s: %u cards are kept for it, first "
                "on server %s",
                wait->owner, sched_wait_waited(wait, gp_now_ns()) / GP_NS_PER_S,
                target->n, target->cards[0]->server->name);
}

struct sched_amount
sched_wait_target_amount(const struct sched_open *open,
                         const struct sched_target *target)
{
    struct sched_decision decision = {.n_slices = 0};

    for (unsigned i = 0; i < target->n; i++)
        sched_decide(&decision, &open->req, target->cards[i]);
    return sched_decision_amount(&decision);
}

/* Could @wait have @target's cards now, as far as its quotas go? */
static int
check_quota(const struct sched_wait *wait, const struct sched_target *target,
            struct sched_amount *ret_amount)
{
    *ret_amount = sched_wait_target_amount(&wait->open, target);
    return sched_tenant_check(wait->waiter.tenant, ret_amount, NULL, 0);
}

/* The quota of its tenant fills up for @wait alone. */
static void
keep_quota(struct sched_wait *wait, const struct sched_amount *amount)
{
    struct sched_tenant *tenant = wait->waiter.tenant;

    if (tenant->kept_for && tenant->kept_for != wait)
        return;
    tenant->kept_for = wait;
    tenant->kept = *amount;
}

static void
release_quota(const struct sched_wait *wait)
{
    if (wait->waiter.tenant->kept_for == wait)
        wait->waiter.tenant->kept_for = NULL;
}

static bool
try_preempt(struct sched_wait *wait)
{
    struct sched_session *victims[ARRAY_SIZE(wait->victims)];
    struct sched_target target;
    struct sched_amount amount;
    unsigned n;

    if (!wait->open.class->preempts || wait->sched->waits->n_holds >= SCHED_HOLDS_MAX ||
        sched_wait_target(wait->sched, &wait->open, true, NULL, &target) < 0 ||
        check_quota(wait, &target, &amount) < 0)
        return false;
    n = find_victims(wait->sched, &wait->open, &target, true, victims,
                     ARRAY_SIZE(victims));
    keep(wait, &target);
    for (unsigned i = 0; i < n; i++)
        sched_wait_preempt(wait, victims[i]);
    return true;
}

/* Could @wait be placed at all, if everything else ended?  What never can keeps neither
 * quotas nor cards from others.  @over: and if those behind it made way. */
static bool
possible(const struct sched_wait *wait, bool over, struct sched_target *ret)
{
    struct sched_wait_claim claim = {.before = over ? &wait->waiter : NULL};

    return sched_wait_target(wait->sched, &wait->open, false, &claim, ret) == 0;
}

void
sched_wait_take_over(struct sched *sched, const struct sched_card *card)
{
    struct sched_waits *waits = sched->waits;
    struct sched_gang *gang = sched_gang_of_hold(waits, card->hold);

    if (gang)
        sched_gang_release(sched, gang);
    for (unsigned i = 0; card->hold && i < waits->n_holds; i++)
        if (waits->holds[i] == card->hold) {
            sched_wait_release(waits->holds[i]);
            return;
        }
}

/* The last in the queue for whom cards are kept. */
static struct sched_wait *
last_hold(const struct sched_waits *waits)
{
    struct sched_wait *last = NULL;

    for (unsigned i = 0; i < waits->n_holds; i++)
        if (!last || sched_waiter_before(&last->waiter, &waits->holds[i]->waiter))
            last = waits->holds[i];
    return last;
}

/* Cards are kept for @wait, which has waited long: cards that are kept for nobody, else
 * those of others who are behind it in the queue. */
static void
keep_aged(struct sched_wait *wait)
{
    struct sched_waits *waits = wait->sched->waits;
    struct sched_wait *last =
        waits->n_holds == SCHED_HOLDS_MAX ? last_hold(waits) : NULL;
    struct sched_target target;
    struct sched_amount amount;
    int r;

    if (last && !sched_waiter_before(&wait->waiter, &last->waiter))
        return;
    if (!possible(wait, false, &target) && !possible(wait, true, &target)) {
        release_quota(wait); /* its server may have gone since */
        return;
    }
    r = check_quota(wait, &target, &amount);
    if (r < 0) { /* a whole card may have more memory than the quota leaves */
        if (r != -EFBIG)
            keep_quota(wait, &amount);
        return;
    }
    if (last)
        sched_wait_release(last);
    for (unsigned i = 0; i < target.n; i++)
        sched_wait_take_over(wait->sched, target.cards[i]);
    keep(wait, &target);
}

/* @wait has waited long, or may take room from others.  Whether cards were looked at.
 */
static bool
help(struct sched_wait *wait, uint64_t now)
{
    struct sched *sched = wait->sched;
    struct sched_tenant *tenant = wait->waiter.tenant;
    uint64_t bound = sched->rules->reserve_after_ms * GP_NS_PER_MS;
    bool aged = sched_wait_waited(wait, now) >= bound;
    struct sched_target target;

    if (wait->gang)
        return wait->gang->members[0] == wait &&
               sched_gang_help(sched, wait->gang, aged);
    if (wait->target.n || (!aged && !wait->open.class->preempts) ||
        sched_open_is_full(sched, wait->owner, 1, NULL, 0))
        return false;
    if (sched_tenant_check(tenant, &wait->waiter.amount, NULL, 0) < 0) {
        if (!aged || (tenant->kept_for && tenant->kept_for != wait))
            return false;
        release_quota(wait);
        if (possible(wait, true, &target))
            keep_quota(wait, &wait->waiter.amount);
        return true;
    }
    if (sched->waits->n_holds >= SCHED_HOLDS_MAX && !aged)
        return false;
    if (!try_preempt(wait) && aged)
        keep_aged(wait);
    return true;
}

/* Are cards kept for @wait that only its tenant's quota, or the number of its owner's
 * sessions, keeps it from?  Others get them, and it gets the quota as soon as that
 * comes free.  Cards that are in use yet stay kept, or whoever needs both cards and a
 * quota that seldom are free at once would never have them; but no session ends for a
 * request that could not take its place. */
static bool
is_held_up(struct sched_wait *wait)
{
    struct sched_decision decision;
    struct sched_amount amount;

    if (!wait->n_victims && sched_place_held(wait->target.cards, wait->target.n,
                                             &wait->open.req, &decision) < 0)
        return false;
    if (sched_open_is_full(wait->sched, wait->owner, 1, NULL, 0))
        return true;
    if (!check_quota(wait, &wait->target, &amount))
        return false;
    keep_quota(wait, &amount);
    return true;
}

/* Cards that are kept must still be there, and of use to whom they are kept for. */
static void
check_holds(struct sched *sched)
{
    struct sched_waits *waits = sched->waits;

    for (unsigned i = 0; i < waits->n_holds; i++) {
        struct sched_wait *wait = waits->holds[i];
        bool good = true;

        for (unsigned c = 0; c < wait->target.n; c++)
            good &= sched_card_open(wait->target.cards[c]);
        if (good && !is_held_up(wait))
            continue;
        sched_wait_release(wait);
        i--;
    }
    for (unsigned i = 0; i < waits->n_gang_holds; i++)
        if (!sched_gang_cards_open(waits->gang_holds[i]) ||
            sched_gang_check(waits->gang_holds[i], NULL, 0) < 0)
            sched_gang_release(sched, waits->gang_holds[i--]);
}

void
sched_wait_holds(struct sched *sched, uint64_t now)
{
    struct sched_waits *waits = sched->waits;
    unsigned choices = 0;

    check_holds(sched);
    for (unsigned i = 0; i < AGED_EACH_TICK && i < waits->queue.n; i++) {
        struct gp_tree_node *node =
            gp_tree_at_least(&waits->queue.by_age, waits->aged[0], waits->aged[1]);
        struct sched_waiter *waiter;

        if (!node) {
            waits->aged[0] = waits->aged[1] = 0; /* the oldest come first again */
            break;
        }
        if (choices == CHOICES_EACH_TICK)
            break; /* the next tick goes on here */
        waiter = container_of(node, struct sched_waiter, by_age);
        waits->aged[0] = waiter->arrived;
        waits->aged[1] = waiter->serial + 1;
        choices += help(container_of(waiter, struct sched_wait, waiter), now);
    }
    sched_wait_serve(sched);
}

int
sched_wait_backfill(const struct sched *sched, const struct sched_request *req,
                    uint64_t run_ms, struct sched_decision *ret)
{
    const struct sched_waits *waits = sched->waits;
    uint64_t now = gp_now_ns(), until;

    if (!run_ms || req->cards > 1)
        return -ENOSPC;
    for (unsigned i = 0; i < waits->n_holds; i++) {
        const struct sched_wait *wait = waits->holds[i];

        if (!sched_wait_kept_until(wait, now, &until) || run_ms > until)
            continue;
        for (unsigned c = 0; c < wait->target.n; c++)
            if (!sched_place_held(&wait->target.cards[c], 1, req, ret))
                return 0;
    }
    return -ENOSPC;
}

/* -------------------------------------------------------------------- explain -- */

#define EXPLAIN_MOST 16

void
sched_wait_explain(const struct sched *sched, const struct sched_open *open,
                   char *words, size_t size)
{
    struct sched_session *victims[EXPLAIN_MOST];
    struct sched_target target;
    bool preempts =
        open->class->preempts && !sched_wait_target(sched, open, true, NULL, &target);
    size_t at;
    unsigned n;

    words[0] = 0;
    if (!preempts && sched_wait_target(sched, open, false, NULL, &target) < 0)
        return;
    n = find_victims(sched, open, &target, preempts, victims, EXPLAIN_MOST);
    if (!n)
        return;
    at = (size_t)snprintf(words, size, "; it would fit on server %s if ",
                          target.cards[0]->server->name);
    for (unsigned i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(words + at, size - at, "%s%s (%s)", i ? ", " : "",
                               victims[i]->name, victims[i]->owner->name);
    if (at < size)
        snprintf(words + at, size - at, "%s",
                 preempts ? " ended, and class may do that" : " ended");
}
