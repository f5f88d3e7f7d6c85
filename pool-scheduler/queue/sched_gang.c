/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_gang.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_rules.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A plan that was not possible is made again after so many times what it took. */
#define TRY_PAUSE 20

/* ----------------------------------------------------------------- members -- */

static struct sched_gang *
gang_find(const struct sched_waits *waits, const char *owner, const char *name)
{
    struct sched_gang *gang = waits->gangs;

    while (gang && (strcmp(gang->name, name) != 0 ||
                    strcmp(gang->members[0]->owner, owner) != 0))
        gang = gang->next;
    return gang;
}

static bool
needs_more(const struct sched_request *a, const struct sched_request *b)
{
    if (a->cards != b->cards)
        return a->cards > b->cards;
    return a->core != b->core ? a->core > b->core : a->memory > b->memory;
}

static void
insert(struct sched_gang *gang, struct sched_wait *wait)
{
    unsigned at = gang->n++;

    for (; at && needs_more(&wait->open.req, &gang->members[at - 1]->open.req); at--)
        gang->members[at] = gang->members[at - 1];
    gang->members[at] = wait;
}

int
sched_gang_join(struct sched *sched, struct sched_wait *wait, struct gp_err *err)
{
    struct sched_waits *waits = sched->waits;
    struct sched_gang *gang = gang_find(waits, wait->owner, wait->open.gang);

    if (gang && gang->size != wait->open.gang_size)
        return gp_err_set(err, -EINVAL, "gang %s has %u members, not %u", gang->name,
                          gang->size, wait->open.gang_size);
    if (gang && gang->n == gang->size)
        return gp_err_set(err, -EBUSY,
                          "gang %s has its %u members already, and waits for room",
                          gang->name, gang->size);
    if (!gang) {
        gang = calloc(1, sizeof(*gang));
        if (!gang)
            return -ENOMEM;
        gp_str_copy_printable(gang->name, sizeof(gang->name), wait->open.gang);
        gang->waits = waits;
        gang->size = wait->open.gang_size;
        gang->next = waits->gangs;
        waits->gangs = gang;
    }
    insert(gang, wait);
    wait->gang = gang;
    return 0;
}

static void
gang_free(struct sched_gang *gang)
{
    struct sched_gang **at = &gang->waits->gangs;

    while (*at != gang)
        at = &(*at)->next;
    *at = gang->next;
    free(gang);
}

void
sched_gang_leave(struct sched_wait *wait)
{
    struct sched_gang *gang = wait->gang;
    unsigned i = 0;

    if (!gang)
        return;
    sched_gang_release(wait->sched, gang);
    wait->gang = NULL;
    while (gang->members[i] != wait)
        i++;
    gang->n--;
    memmove(&gang->members[i], &gang->members[i + 1],
            (gang->n - i) * sizeof(gang->members[0]));
    if (!gang->n)
        gang_free(gang);
}

/* ------------------------------------------------------------------- place -- */

static void
untake(struct sched *sched, const struct sched_decision *d, unsigned n)
{
    while (n--)
        for (uint32_t i = 0; i < d[n].n_slices; i++)
            sched_pool_untake(sched->pool, d[n].slices[i].card, d[n].slices[i].core,
                              d[n].slices[i].memory);
}

static int
take(struct sched *sched, const struct sched_decision *d)
{
    for (uint32_t i = 0; i < d->n_slices; i++) {
        const struct sched_slice *slice = &d->slices[i];

        if (!sched_pool_take(sched->pool, slice->card, slice->core, slice->memory,
                             slice->in_space))
            continue;
        while (i--)
            sched_pool_untake(sched->pool, d->slices[i].card, d->slices[i].core,
                              d->slices[i].memory);
        return -ENOSPC;
    }
    return 0;
}

/* May their tenant have all of it at once? */
static bool
in_quota(const struct sched_gang *gang, const struct sched_decision *d)
{
    const struct sched_tenant *tenant = gang->members[0]->waiter.tenant;
    struct sched_amount sum = {0}, amount;

    for (unsigned i = 0; i < gang->n; i++) {
        amount = sched_decision_amount(&d[i]);
        sched_amount_add(&sum, &amount);
    }
    return !sched_tenant_check(tenant, &sum, NULL, 0) &&
           !sched_tenant_kept_from(tenant, gang, &sum);
}

/* As far as it is known before cards are chosen. */
static struct sched_amount
gang_amount(const struct sched_gang *gang)
{
    struct sched_amount sum = {0};

    for (unsigned i = 0; i < gang->n; i++)
        sched_amount_add(&sum, &gang->members[i]->waiter.amount);
    return sum;
}

int
sched_gang_check(const struct sched_gang *gang, char *words, size_t size)
{
    struct sched_amount sum = gang_amount(gang);
    char quota[200] = "";
    int r =
        sched_tenant_check(gang->members[0]->waiter.tenant, &sum, quota, sizeof(quota));

    if (r < 0 && words)
        snprintf(words, size, "gang %s: %s", gang->name, quota);
    return r;
}

/* One after the other, each beside what those before it would have, then all of it is
 * given back: nobody sees it, because this is one turn of the event loop. */
static int
try_all(struct sched *sched, const struct sched_gang *gang, bool kept,
        struct sched_decision *ret)
{
    unsigned n = 0;
    bool good = true;

    if (gang->n < gang->size)
        return -ENOSPC;
    for (; good && n < gang->n; n++) {
        struct sched_wait *member = gang->members[n];
        struct sched_open open = member->open;

        open.beside = ret;
        open.n_beside = n;
        if (kept)
            good = !sched_wait_place_kept(member, &open, &ret[n]);
        else
            good = sched_open_place(sched, &open, member->waiter.tenant, &ret[n], NULL,
                                    0) == 0;
        if (!good || take(sched, &ret[n]) < 0) {
            good = false;
            break;
        }
    }
    untake(sched, ret, n);
    return good && in_quota(gang, ret) ? 0 : -ENOSPC;
}

int
sched_gang_place(struct sched *sched, const struct sched_gang *gang,
                 struct sched_decision *ret)
{
    return try_all(sched, gang, false, ret);
}

int
sched_gang_place_kept(struct sched *sched, const struct sched_gang *gang,
                      struct sched_decision *ret)
{
    return gang->kept ? try_all(sched, gang, true, ret) : -ENOSPC;
}

/* ------------------------------------------------------------------- holds -- */

/* A card that is to be kept, and what of it members are to have. */
struct planned {
    struct sched_card *card;
    struct sched_wait *first; /* the member that it was chosen for */
    struct sched_room room;
    unsigned members;
    unsigned victims_end; /* behind those of this card, in the list of all */
};

struct plan {
    struct sched *sched;
    struct sched_gang *gang;
    const struct sched_class *class; /* sessions below it may end; NULL: all will end */
    struct planned of[SCHED_GANG_MAX * TICKET_SLICES_MAX];
    unsigned n;
};

static bool
has_room(const struct plan *plan, const struct planned *p,
         const struct sched_request *req)
{
    uint32_t core = 100;
    uint64_t memory = p->card->facts.memory;

    if (plan->class)
        sched_wait_room(plan->sched, plan->class, p->card, &core, &memory);
    return p->room.in_space == req->in_space && p->members < CTL_SLICES_PER_CARD_MAX &&
           p->room.core + sched_place_core(p->card, req) <= core &&
           p->room.memory + req->memory <= memory && sched_place_accepts(p->card, req);
}

/* A part of a card can come beside parts of others of the gang. */
static struct planned *
plan_share(struct plan *plan, const struct sched_open *open)
{
    struct sched_request req = open->req;
    struct sched_avoid avoid;

    sched_open_avoid(plan->sched, open, &req, &avoid);
    for (unsigned i = 0; req.cards == 1 && i < plan->n; i++)
        if (has_room(plan, &plan->of[i], &req))
            return &plan->of[i];
    return NULL;
}

static void
plan_add(struct planned *p, const struct sched_request *req)
{
    p->room.core += sched_place_core(p->card, req);
    p->room.memory += req->memory;
    p->members++;
}

/* What those before it are to have, for a member that is kept apart from them. */
static void
plan_beside(const struct plan *plan, unsigned n, struct sched_open *open)
{
    struct sched_decision *d = plan->sched->waits->gang_decisions;

    open->beside = d;
    open->n_beside = n;
    if (!n)
        return;
    d[n - 1].n_slices = plan->gang->members[n - 1]->target.n;
    for (unsigned i = 0; i < d[n - 1].n_slices; i++)
        d[n - 1].slices[i].card = plan->gang->members[n - 1]->target.cards[i];
}

static bool
plan_member(struct plan *plan, unsigned n)
{
    struct sched_wait *member = plan->gang->members[n];
    struct sched_open open = member->open;
    struct planned *shared;

    plan_beside(plan, n, &open);
    shared = plan_share(plan, &open);
    if (shared) {
        plan_add(shared, &open.req);
        member->target = (struct sched_target){.cards = {shared->card}, .n = 1};
        return true;
    }
    if (plan->class)
        open.class = plan->class;
    if (sched_wait_target(plan->sched, &open, plan->class, &member->target) < 0)
        return false;
    for (unsigned i = 0; i < member->target.n; i++) {
        struct planned *p = &plan->of[plan->n++];

        *p = (struct planned){.card = member->target.cards[i],
                              .first = member,
                              .room.in_space = open.req.in_space};
        plan_add(p, &open.req);
        sched_pool_hold(plan->sched->pool, p->card, plan->gang);
    }
    return true;
}

/* End what is in the way on the cards of the plan; all of it, or, if that would not be
 * enough, nothing. */
static bool
plan_preempt(struct plan *plan)
{
    const unsigned most = plan->n * CTL_SLICES_PER_CARD_MAX;
    CLEANUP_FREE struct sched_session **victims = calloc(most, sizeof(*victims));
    unsigned n = 0;

    for (unsigned i = 0; i < plan->n; i++) {
        struct planned *p = &plan->of[i];

        if (!victims || sched_wait_victims_on(plan->sched, plan->class, p->card,
                                              &p->room, victims, &n, most) < 0)
            return false;
        p->victims_end = n;
    }
    for (unsigned i = 0, done = 0; i < plan->n; i++)
        for (; done < plan->of[i].victims_end; done++)
            sched_wait_preempt(plan->of[i].first, victims[done]);
    return true;
}

/* What its quota leaves for the gang is not given to others meanwhile. */
static void
keep_quota(struct sched_gang *gang)
{
    struct sched_tenant *tenant = gang->members[0]->waiter.tenant;

    if (tenant->kept_for && tenant->kept_for != gang)
        return;
    tenant->kept_for = gang;
    tenant->kept = gang_amount(gang);
}

/* Keep cards for all members, on which least has to end; with @class, what is below it
 * ends.  False: not possible now, and nothing is kept. */
static bool
keep(struct sched *sched, struct sched_gang *gang, const struct sched_class *class)
{
    CLEANUP_FREE struct plan *plan = calloc(1, sizeof(*plan));
    bool good = plan;

    if (!plan)
        return false;
    plan->sched = sched;
    plan->gang = gang;
    plan->class = class;
    gang->kept = true;
    sched->waits->gang_kept = gang;
    for (unsigned i = 0; good && i < gang->n; i++)
        good = plan_member(plan, i);
    if (!good || (class && !plan_preempt(plan))) {
        sched_gang_release(sched, gang);
        return false;
    }
    keep_quota(gang);
    gp_log_info("queue", "gang %s of %s: %u cards are kept for its %u members",
                gang->name, gang->members[0]->owner, plan->n, gang->n);
    return true;
}

/* The lowest class of its members, if all of them may preempt. */
static const struct sched_class *
preempting_class(const struct sched_gang *gang)
{
    const struct sched_class *lowest = gang->members[0]->open.class;

    for (unsigned i = 0; i < gang->n; i++) {
        const struct sched_class *class = gang->members[i]->open.class;

        if (!class->preempts)
            return NULL;
        if (class->value < lowest->value)
            lowest = class;
    }
    return lowest;
}

bool
sched_gang_help(struct sched *sched, struct sched_gang *gang, bool aged)
{
    const struct sched_class *class = preempting_class(gang);
    struct sched_tenant *tenant = gang->members[0]->waiter.tenant;

    uint64_t now = gp_now_ns();

    if (gang->kept || gang->n < gang->size || sched->waits->gang_kept ||
        (!aged && !class) || now < gang->try_ns)
        return false;
    if (sched_gang_check(gang, NULL, 0) < 0) {
        if (!aged || (tenant->kept_for && tenant->kept_for != gang))
            return false;
        /* Its quota fills up for it alone, if there are cards for it at all. */
        if (keep(sched, gang, NULL)) {
            sched_gang_release(sched, gang);
            keep_quota(gang);
        }
    } else if (!(class && keep(sched, gang, class)) && aged) {
        keep(sched, gang, NULL);
    }
    /* A plan for many members takes long on a large pool. */
    gang->try_ns = now + TRY_PAUSE * (gp_now_ns() - now);
    return true;
}

void
sched_gang_release(struct sched *sched, struct sched_gang *gang)
{
    struct sched_tenant *tenant = gang->members[0]->waiter.tenant;

    if (tenant->kept_for == gang)
        tenant->kept_for = NULL;
    if (!gang->kept)
        return;
    for (unsigned i = 0; i < gang->n; i++) {
        struct sched_target *target = &gang->members[i]->target;

        for (unsigned k = 0; k < target->n; k++)
            if (target->cards[k]->hold == gang)
                sched_pool_hold(sched->pool, target->cards[k], NULL);
        target->n = 0;
        sched_wait_spare(gang->members[i]);
    }
    gang->kept = false;
    sched->waits->gang_kept = NULL;
}

struct sched_gang *
sched_gang_of_hold(const struct sched_waits *waits, const void *hold)
{
    return hold && waits->gang_kept == hold ? waits->gang_kept : NULL;
}

/* ------------------------------------------------------------------- words -- */

static bool
somebody_ends(const struct sched_gang *gang)
{
    for (unsigned i = 0; i < gang->n; i++)
        if (gang->members[i]->n_victims)
            return true;
    return false;
}

void
sched_gang_words(const struct sched_gang *gang, char *words, size_t size)
{
    const struct sched_tenant *tenant = gang->members[0]->waiter.tenant;
    struct sched_amount sum = gang_amount(gang);

    if (gang->n < gang->size)
        snprintf(words, size, "gang %s: %u of its %u members have come", gang->name,
                 gang->n, gang->size);
    else if (gang->kept)
        snprintf(words, size,
                 "gang %s: cards are kept for all of its %u members, first on server "
                 "%s, and %s",
                 gang->name, gang->size,
                 gang->members[0]->target.cards[0]->server->name,
                 somebody_ends(gang) ? "sessions of a lower class are ending there"
                                     : "not all are free yet");
    else if (sched_gang_check(gang, words, size) < 0)
        return;
    else if (sched_tenant_kept_from(tenant, gang, &sum))
        snprintf(words, size,
                 "gang %s: quota: what tenant %s has left is kept for an older request",
                 gang->name, tenant->name);
    else
        snprintf(words, size, "gang %s: no room for all of its %u members at once",
                 gang->name, gang->size);
}
