/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards that are kept for a gang: for all of its members, or none.
 */
#include "gp_log.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_gang.h"
#include "sched_gang_search.h"
#include "sched_rules.h"
#include "sched_wait.h"

#include <errno.h>
#include <string.h>

/* A plan that was not possible is made again after so many times what it took. */
#define TRY_PAUSE 20

/* -------------------------------------------------------------------- plan -- */

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
    struct sched_wait_claim claim;
    struct planned of[SCHED_GANG_MAX * TICKET_SLICES_MAX];
    unsigned n;
    struct sched_target targets[SCHED_GANG_MAX]; /* of the members */
    /* the same, and room for a search */
    struct sched_decision decisions[SCHED_GANG_MAX];
    struct sched_session **victims;
    unsigned n_victims;
};

static struct planned *
plan_find(struct plan *plan, const struct sched_card *card)
{
    for (unsigned i = 0; i < plan->n; i++)
        if (plan->of[i].card == card)
            return &plan->of[i];
    return NULL;
}

static bool
is_planned(void *arg, const struct sched_card *card)
{
    return plan_find(arg, card) != NULL;
}

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

/* A part of @card is for @member. */
static void
plan_add(struct plan *plan, struct sched_wait *member, struct sched_card *card)
{
    const struct sched_request *req = &member->open.req;
    struct planned *p = plan_find(plan, card);

    if (!p) {
        p = &plan->of[plan->n++];
        *p = (struct planned){
            .card = card, .first = member, .room.in_space = req->in_space};
    }
    p->room.core += sched_place_core(card, req);
    p->room.memory += req->memory;
    p->members++;
}

/* Member @n beside those before it. */
static bool
plan_member(struct plan *plan, unsigned n)
{
    struct sched_wait *member = plan->gang->members[n];
    struct sched_target *target = &plan->targets[n];
    struct sched_decision *d = &plan->decisions[n];
    struct sched_open open = member->open;
    struct planned *shared;

    open.beside = plan->decisions;
    open.n_beside = n;
    shared = plan_share(plan, &open);
    if (plan->class)
        open.class = plan->class;
    if (shared)
        *target = (struct sched_target){.cards = {shared->card}, .n = 1};
    else if (sched_wait_target(plan->sched, &open, plan->class, &plan->claim, target) <
             0)
        return false;
    d->n_slices = target->n;
    for (unsigned i = 0; i < target->n; i++) {
        d->slices[i].card = target->cards[i];
        plan_add(plan, member, target->cards[i]);
    }
    return true;
}

static bool
plan_greedily(struct plan *plan)
{
    for (unsigned i = 0; i < plan->gang->n; i++)
        if (!plan_member(plan, i))
            return false;
    return true;
}

/* In any order, if one member after the other did not fit. */
static bool
plan_search(struct plan *plan)
{
    struct sched_wait_claim claim = {.before = plan->claim.before};

    if (sched_gang_search_later(plan->sched, plan->gang, plan->class, &claim,
                                plan->decisions) < 0)
        return false;
    plan->n = 0;
    for (unsigned i = 0; i < plan->gang->n; i++) {
        const struct sched_decision *d = &plan->decisions[i];
        struct sched_target *target = &plan->targets[i];

        *target = (struct sched_target){.n = d->n_slices};
        for (unsigned k = 0; k < d->n_slices; k++) {
            target->cards[k] = d->slices[k].card;
            plan_add(plan, plan->gang->members[i], d->slices[k].card);
        }
    }
    return true;
}

/* What is in the way on the cards of the plan.  False: even without it there is not
 * enough room. */
static bool
plan_victims(struct plan *plan)
{
    const unsigned most = plan->n * CTL_SLICES_PER_CARD_MAX;

    plan->victims = calloc(most, sizeof(struct sched_session *));
    for (unsigned i = 0; i < plan->n; i++) {
        struct planned *p = &plan->of[i];

        if (!plan->victims ||
            sched_wait_victims_on(plan->sched, plan->class, p->card, &p->room,
                                  plan->victims, &plan->n_victims, most) < 0)
            return false;
        p->victims_end = plan->n_victims;
    }
    return true;
}

static void
plan_free(struct plan *plan)
{
    if (plan)
        free(plan->victims);
    free(plan);
}
DEFINE_CLEANUP(struct plan, plan_free)

/* Cards for all members, on which least has to end; with @class, what is below it may.
 * @over: those that are kept for others behind the gang, too.  NULL: not possible. */
static struct plan *
plan_new(struct sched *sched, struct sched_gang *gang, const struct sched_class *class,
         bool over)
{
    CLEANUP(plan_freep) struct plan *plan = calloc(1, sizeof(*plan));

    if (!plan)
        return NULL;
    plan->sched = sched;
    plan->gang = gang;
    plan->class = class;
    plan->claim = (struct sched_wait_claim){
        .before = over ? sched_gang_first(gang) : NULL,
        .taken = is_planned,
        .arg = plan,
    };
    sched->waits->gang_placed = NULL;
    if (!plan_greedily(plan) && !plan_search(plan))
        return NULL;
    return !class || plan_victims(plan) ? TAKE_PTR(plan) : NULL;
}

/* -------------------------------------------------------------------- hold -- */

/* Is a quota of its tenants kept for somebody else?  Then none is kept for the gang, or
 * two could each keep what the other waits for. */
static bool
is_behind(const struct sched_gang *gang)
{
    for (unsigned i = 0; i < gang->n; i++) {
        const struct sched_tenant *tenant = gang->members[i]->waiter.tenant;

        if (tenant->kept_for && tenant->kept_for != gang)
            return true;
    }
    return false;
}

/* What the quota of @tenant has to leave for @plan's cards. */
static struct sched_amount
plan_amount(const struct plan *plan, const struct sched_tenant *tenant)
{
    const struct sched_gang *gang = plan->gang;
    struct sched_amount sum = {0}, amount;

    for (unsigned i = 0; i < gang->n; i++) {
        if (gang->members[i]->waiter.tenant != tenant)
            continue;
        amount = sched_wait_target_amount(&gang->members[i]->open, &plan->targets[i]);
        sched_amount_add(&sum, &amount);
    }
    return sum;
}

/* What the quotas of its tenants leave for @plan's cards is not given to others
 * meanwhile. */
static void
keep_quotas(const struct plan *plan)
{
    if (is_behind(plan->gang))
        return;
    for (int i = -1; (i = sched_gang_next_tenant(plan->gang, i)) >= 0;) {
        struct sched_tenant *tenant = plan->gang->members[i]->waiter.tenant;

        tenant->kept_for = plan->gang;
        tenant->kept = plan_amount(plan, tenant);
    }
}

/* What cannot be placed, whatever ends, keeps none: its server may have gone. */
static void
release_quotas(const struct sched_gang *gang)
{
    for (unsigned i = 0; i < gang->n; i++) {
        struct sched_tenant *tenant = gang->members[i]->waiter.tenant;

        if (tenant && tenant->kept_for == gang)
            tenant->kept_for = NULL;
    }
}

/* As sched_gang_check(), of @plan's cards: whole ones may have more memory than a quota
 * leaves. */
static int
plan_check(const struct plan *plan)
{
    int r = 0;

    for (int i = -1; r != -EFBIG && (i = sched_gang_next_tenant(plan->gang, i)) >= 0;) {
        const struct sched_tenant *tenant = plan->gang->members[i]->waiter.tenant;
        struct sched_amount amount = plan_amount(plan, tenant);
        int it = sched_tenant_check(tenant, &amount, NULL, 0);

        r = it < 0 ? it : r;
    }
    return r;
}

/* May @gang be one more for which cards are kept?  @over: at the price of the last in
 * the queue, if that is behind it. */
static bool
has_place(const struct sched_waits *waits, const struct sched_gang *gang, bool over,
          struct sched_gang **ret_last)
{
    *ret_last = NULL;
    if (waits->n_gang_holds < SCHED_GANG_HOLDS_MAX)
        return true;
    for (unsigned i = 0; over && i < waits->n_gang_holds; i++) {
        struct sched_gang *other = waits->gang_holds[i];

        if (sched_waiter_before(sched_gang_first(*ret_last ? *ret_last : gang),
                                sched_gang_first(other)))
            *ret_last = other;
    }
    return *ret_last;
}

static void
hold_all(const struct plan *plan)
{
    struct sched *sched = plan->sched;
    struct sched_gang *gang = plan->gang;

    gang->kept = true;
    sched->waits->gang_holds[sched->waits->n_gang_holds++] = gang;
    for (unsigned i = 0; i < plan->n; i++)
        sched_pool_hold(sched->pool, plan->of[i].card, gang);
    for (unsigned i = 0; i < gang->n; i++)
        gang->members[i]->target = plan->targets[i];
    for (unsigned i = 0, done = 0; plan->class && i < plan->n; i++)
        for (; done < plan->of[i].victims_end; done++)
            sched_wait_preempt(plan->of[i].first, plan->victims[done]);
}

/* Keep cards for all members; with @class, end what is in the way.  -errno: not
 * possible now, and no cards are kept; -ENOSPC: there are none for it. */
static int
keep(struct sched *sched, struct sched_gang *gang, const struct sched_class *class,
     bool over)
{
    CLEANUP(plan_freep) struct plan *plan = NULL;
    struct sched_gang *last;
    int r;

    if (!has_place(sched->waits, gang, over, &last))
        return -EBUSY;
    plan = plan_new(sched, gang, class, over);
    if (!plan)
        return -ENOSPC;
    r = plan_check(plan);
    if (r < 0) {
        if (r != -EFBIG && !class)
            keep_quotas(plan);
        return r;
    }
    if (last)
        sched_gang_release(sched, last);
    for (unsigned i = 0; i < plan->n; i++)
        sched_wait_take_over(sched, plan->of[i].card);
    hold_all(plan);
    keep_quotas(plan);
    gp_log_info("queue", "gang %s of %s: %u cards are kept for its %u members",
                gang->name, gang->members[0]->owner, plan->n, gang->n);
    return 0;
}

/* Cards that are kept for nobody, else those of others behind it in the queue. */
static void
keep_aged(struct sched *sched, struct sched_gang *gang, const struct sched_class *class)
{
    if (!keep(sched, gang, NULL, false) || (class && !keep(sched, gang, class, true)))
        return;
    if (keep(sched, gang, NULL, true) == -ENOSPC)
        release_quotas(gang);
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
    CLEANUP(plan_freep) struct plan *plan = NULL;
    const struct sched_class *class = preempting_class(gang);
    uint64_t now = gp_now_ns();

    if (gang->kept || gang->n < gang->size || (!aged && !class) || now < gang->try_ns ||
        sched_gang_is_full(gang, NULL, 0))
        return false;
    if (sched_gang_check(gang, NULL, 0) < 0) {
        if (!aged || is_behind(gang))
            return false;
        /* Its quotas fill up for it alone, if there are cards for it at all. */
        plan = plan_new(sched, gang, NULL, true);
        if (plan)
            keep_quotas(plan);
        else
            release_quotas(gang);
    } else if (sched_gang_kept_from(gang)) {
        return false; /* cards that it kept would be what the other waits for */
    } else if (!(class && !keep(sched, gang, class, false)) && aged) {
        keep_aged(sched, gang, class);
    }
    /* A plan for many members takes long on a large pool. */
    gang->try_ns = now + TRY_PAUSE * (gp_now_ns() - now);
    return true;
}

void
sched_gang_release(struct sched *sched, struct sched_gang *gang)
{
    struct sched_waits *waits = sched->waits;

    release_quotas(gang);
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
    for (unsigned i = 0; i < waits->n_gang_holds; i++)
        if (waits->gang_holds[i] == gang)
            waits->gang_holds[i--] = waits->gang_holds[--waits->n_gang_holds];
    gang->kept = false;
}

bool
sched_gang_cards_open(const struct sched_gang *gang)
{
    for (unsigned i = 0; i < gang->n; i++)
        for (unsigned k = 0; k < gang->members[i]->target.n; k++)
            if (!sched_card_open(gang->members[i]->target.cards[k]))
                return false;
    return true;
}

struct sched_gang *
sched_gang_of_hold(const struct sched_waits *waits, const void *hold)
{
    for (unsigned i = 0; hold && i < waits->n_gang_holds; i++)
        if (waits->gang_holds[i] == hold)
            return waits->gang_holds[i];
    return NULL;
}

/* ------------------------------------------------------------------- spare -- */

/* What members are to have of @card, and how many of them. */
static unsigned
wanted_of(const struct sched_gang *gang, const struct sched_card *card,
          struct sched_room *ret)
{
    unsigned members = 0;

    *ret = (struct sched_room){.core = 0};
    for (unsigned i = 0; i < gang->n; i++) {
        const struct sched_wait *member = gang->members[i];
        const struct sched_request *req = &member->open.req;

        for (unsigned k = 0; k < member->target.n; k++) {
            if (member->target.cards[k] != card)
                continue;
            ret->core += sched_place_core(card, req);
            ret->memory += req->whole ? card->facts.memory : req->memory;
            ret->in_space = req->in_space;
            members++;
        }
    }
    return members;
}

/* Has @card room for @req beside what @gang is to have of it? */
static bool
spares(const struct sched_gang *gang, const struct sched_card *card,
       const struct sched_request *req)
{
    struct sched_room room;
    unsigned members = wanted_of(gang, card, &room);

    return members && room.in_space == req->in_space &&
           card->slices + members < CTL_SLICES_PER_CARD_MAX &&
           room.core + sched_place_core(card, req) <= sched_card_free_core(card) &&
           room.memory + req->memory <= sched_card_free_memory(card);
}

int
sched_gang_spares(const struct sched *sched, const struct sched_request *req,
                  struct sched_decision *ret)
{
    const struct sched_waits *waits = sched->waits;

    if (req->cards > 1)
        return -ENOSPC;
    for (unsigned i = 0; i < waits->n_gang_holds; i++) {
        const struct sched_gang *gang = waits->gang_holds[i];

        for (unsigned k = 0; k < gang->n; k++) {
            const struct sched_target *target = &gang->members[k]->target;

            for (unsigned c = 0; c < target->n; c++)
                if (!sched_place_held(&target->cards[c], 1, req, ret) &&
                    spares(gang, target->cards[c], req))
                    return 0;
        }
    }
    return -ENOSPC;
}
