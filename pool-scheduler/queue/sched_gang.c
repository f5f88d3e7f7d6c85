/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_gang.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "sched_conn.h"
#include "sched_wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
    gang->members[gang->n++] = wait;
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
    struct sched_amount sum = {0};

    for (unsigned i = 0; i < gang->n; i++) {
        struct sched_amount amount = sched_decision_amount(&d[i]);

        sum.core += amount.core;
        sum.memory += amount.memory;
        sum.cards += amount.cards;
    }
    return !sched_tenant_check(tenant, &sum, NULL, 0);
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
            good = !sched_place_held(member->target.cards, member->target.n, &open.req,
                                     &ret[n]);
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
    uint32_t core;
    uint64_t memory;
};

struct plan {
    struct planned of[SCHED_GANG_MAX * TICKET_SLICES_MAX];
    unsigned n;
};

/* A part of a card can come beside parts of others of the gang. */
static struct planned *
plan_share(struct plan *plan, const struct sched_request *req)
{
    for (unsigned i = 0; req->cards == 1 && i < plan->n; i++) {
        struct planned *p = &plan->of[i];

        if (p->core + sched_place_core(p->card, req) <= 100 &&
            p->memory + req->memory <= p->card->facts.memory &&
            sched_place_accepts(p->card, req))
            return p;
    }
    return NULL;
}

static void
plan_add(struct planned *p, const struct sched_request *req)
{
    p->core += sched_place_core(p->card, req);
    p->memory += req->memory;
}

static bool
plan_member(struct sched *sched, struct sched_gang *gang, struct sched_wait *member,
            struct plan *plan)
{
    const struct sched_request *req = &member->open.req;
    struct planned *shared = plan_share(plan, req);

    if (shared) {
        plan_add(shared, req);
        member->target = (struct sched_target){.cards = {shared->card}, .n = 1};
        return true;
    }
    if (sched_wait_target(sched, &member->open, false, &member->target) < 0)
        return false;
    for (unsigned i = 0; i < member->target.n; i++) {
        struct planned *p = &plan->of[plan->n++];

        *p = (struct planned){.card = member->target.cards[i]};
        plan_add(p, req);
        sched_pool_hold(sched->pool, p->card, gang);
    }
    return true;
}

bool
sched_gang_keep(struct sched *sched, struct sched_gang *gang)
{
    struct plan *plan;
    bool good = true;

    if (gang->kept || gang->n < gang->size || sched->waits->gang_kept)
        return gang->kept;
    plan = calloc(1, sizeof(*plan));
    if (!plan)
        return false;
    gang->kept = true;
    sched->waits->gang_kept = gang;
    for (unsigned i = 0; good && i < gang->n; i++)
        good = plan_member(sched, gang, gang->members[i], plan);
    if (good)
        gp_log_info("queue", "gang %s of %s: %u cards are kept for its %u members",
                    gang->name, gang->members[0]->owner, plan->n, gang->n);
    else
        sched_gang_release(sched, gang);
    free(plan);
    return good;
}

void
sched_gang_release(struct sched *sched, struct sched_gang *gang)
{
    if (!gang->kept)
        return;
    for (unsigned i = 0; i < gang->n; i++) {
        struct sched_target *target = &gang->members[i]->target;

        for (unsigned k = 0; k < target->n; k++)
            if (target->cards[k]->hold == gang)
                sched_pool_hold(sched->pool, target->cards[k], NULL);
        target->n = 0;
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

void
sched_gang_words(const struct sched_gang *gang, char *words, size_t size)
{
    struct sched_amount sum = {0};
    char quota[160];

    for (unsigned i = 0; i < gang->n; i++) {
        sum.core += gang->members[i]->waiter.amount.core;
        sum.memory += gang->members[i]->waiter.amount.memory;
        sum.cards += gang->members[i]->waiter.amount.cards;
    }
    if (gang->n < gang->size)
        snprintf(words, size, "gang %s: %u of its %u members have come", gang->name,
                 gang->n, gang->size);
    else if (gang->kept)
        snprintf(words, size,
                 "gang %s: cards are kept for all of its %u members, first on server "
                 "%s, and not all are free yet",
                 gang->name, gang->size,
                 gang->members[0]->target.cards[0]->server->name);
    else if (sched_tenant_check(gang->members[0]->waiter.tenant, &sum, quota,
                                sizeof(quota)) < 0)
        snprintf(words, size, "gang %s: %s", gang->name, quota);
    else
        snprintf(words, size, "gang %s: no room for all of its %u members at once",
                 gang->name, gang->size);
}
