/* SPDX-License-Identifier: Apache-2.0 */
#include "gov_card.h"

#include <errno.h>
#include <string.h>

#define FOR_EACH_TENANT(card, t)                                                       \
    for (struct gov_tenant *t = (card)->tenants;                                       \
         t < (card)->tenants + GOV_TENANTS_MAX; t++)                                   \
        if (t->session)

int
gov_card_init(struct gov_card *card)
{
    pthread_mutexattr_t attr;
    int r;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    r = -pthread_mutex_init(&card->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    if (!r)
        card->magic = GOV_MAGIC;
    return r;
}

void
gov_card_lock(struct gov_card *card)
{
    if (pthread_mutex_lock(&card->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&card->lock);
}

void
gov_card_unlock(struct gov_card *card)
{
    pthread_mutex_unlock(&card->lock);
}

static uint32_t
index_of(const struct gov_card *card, const struct gov_tenant *t)
{
    return (uint32_t)(t - card->tenants);
}

static struct gov_tenant *
tenant_of(struct gov_card *card, int seat)
{
    return &card->tenants[card->seats[seat].tenant];
}

static bool
holds(const struct gov_card *card, const struct gov_tenant *t)
{
    return card->holder == index_of(card, t) + 1;
}

static void
changed(struct gov_card *card)
{
    __atomic_fetch_add(&card->seq, 1, __ATOMIC_RELEASE);
}

/* --- shares --- */

/* Best-effort tenants divide equally what the guaranteed ones leave, and at least a
 * hundredth of a percent each, so that weights are never zero. */
static void
reweigh(struct gov_card *card)
{
    uint32_t guaranteed = 0, n_best = 0, each;

    FOR_EACH_TENANT(card, t)
    {
        if (t->policy == GOV_BEST_EFFORT)
            n_best++;
        else
            guaranteed += t->core;
    }
    each = n_best && guaranteed < 100 ? (100 - guaranteed) * 1000 / n_best : 10;
    FOR_EACH_TENANT(card, t)
    t->weight = t->policy == GOV_BEST_EFFORT ? gp_max(each, 10u) : t->core * 1000;
}

static uint32_t
ceiling_of(const struct gov_share *share)
{
    if (share->policy == GOV_FIXED_SHARE)
        return share->core;
    if (share->policy == GOV_BURST_SHARE && share->core_limit > share->core)
        return gp_min(share->core_limit, 100u);
    return 100;
}

static void
set_share(struct gov_tenant *t, const struct gov_share *share)
{
    t->policy = share->policy;
    t->core = gp_min(gp_max(share->core, 1u), 100u);
    t->ceiling = gp_max(ceiling_of(share), 1u);
    t->offline = share->offline;
}

/* Tokens up to what the bucket holds.  Who is idle saves up little, but keeps what it
 * did not get while it waited. */
static void
refill(struct gov_tenant *t, uint64_t now)
{
    uint64_t passed = now > t->filled_ns ? now - t->filled_ns : 0;
    bool busy = t->wanting || t->running;
    int64_t cap = (busy ? GOV_BUCKET_NS : GOV_IDLE_BUCKET_NS) / 100 * t->ceiling;

    /* Whole percents of a nanosecond would be lost at every call otherwise. */
    passed -= passed % 100;
    t->filled_ns += passed;
    cap = gp_max(cap, t->tokens_ns);
    t->tokens_ns = gp_min(t->tokens_ns + (int64_t)(passed / 100 * t->ceiling), cap);
}

/* Whether the ceiling lets it run now; if not, from when on. */
static bool
within_ceiling(struct gov_tenant *t, uint64_t now, uint64_t *ret_from)
{
    refill(t, now);
    if (t->ceiling == 100 || t->tokens_ns > 0)
        return true;
    *ret_from =
        gp_min(*ret_from, now + ((uint64_t)-t->tokens_ns / t->ceiling + 1) * 100);
    return false;
}

/* --- charging --- */

/* Charge what was measured.  With several workers at once their times add up to more
 * than the time that passed, and the latter is what others lost: it caps the charge. */
static void
settle(struct gov_tenant *t, uint64_t now)
{
    uint64_t passed = now > t->since_ns ? now - t->since_ns : 0;
    uint64_t charge = gp_min(t->busy_ns, passed);

    t->since_ns += charge;
    t->busy_ns -= charge;
    refill(t, now);
    t->tokens_ns -= (int64_t)charge;
    t->vtime += charge * 100000 / t->weight;
    t->charged_ns += charge;
}

/* --- turns --- */

static bool
waits(const struct gov_tenant *t)
{
    return t->wanting && !t->running;
}

/* Who would go next among those who wait and may; NULL: nobody.  *ret_until: the
 * earliest time at which that could change by itself. */
static struct gov_tenant *
next_tenant(struct gov_card *card, uint64_t now, uint64_t *ret_until)
{
    struct gov_tenant *best = NULL;

    FOR_EACH_TENANT(card, t)
    {
        if (!waits(t) || holds(card, t) || !within_ceiling(t, now, ret_until))
            continue;
        if (!best || t->offline < best->offline ||
            (t->offline == best->offline && t->vtime < best->vtime))
            best = t;
    }
    return best;
}

static void
note_contention(struct gov_card *card)
{
    uint32_t contended = 0;

    FOR_EACH_TENANT(card, t)
    contended |= waits(t) && !holds(card, t);
    __atomic_store_n(&card->contended, contended, __ATOMIC_RELEASE);
}

static void
take_turn(struct gov_card *card, struct gov_tenant *t, uint64_t now)
{
    card->holder = index_of(card, t) + 1;
    card->turn_ns = now;
    card->vclock = gp_max(card->vclock, t->vtime);
    t->turns++;
    changed(card);
}

/* The holder has nothing on the card: pass the turn to who is due, itself included. */
static void
pass_turn(struct gov_card *card, uint64_t now)
{
    uint64_t until = UINT64_MAX;
    struct gov_tenant *next;

    card->holder = 0;
    next = next_tenant(card, now, &until);
    if (next)
        take_turn(card, next, now);
    else
        changed(card);
    note_contention(card);
}

/* Whether @other should have the card rather than the holder @t go on. */
static bool
overtakes(const struct gov_card *card, const struct gov_tenant *other,
          const struct gov_tenant *t, uint64_t now)
{
    if (other->offline != t->offline)
        return !other->offline;
    return now - card->turn_ns >=
               (other->woke ? GOV_WAKE_QUANTUM_NS : GOV_QUANTUM_NS) &&
           other->vtime < t->vtime;
}

/* --- seats --- */

static struct gov_tenant *
find_tenant(struct gov_card *card, uint64_t session)
{
    struct gov_tenant *empty = NULL;

    for (unsigned i = 0; i < GOV_TENANTS_MAX; i++) {
        struct gov_tenant *t = &card->tenants[i];

        if (t->session == session)
            return t;
        if (!t->session && !empty)
            empty = t;
    }
    return empty;
}

int
gov_card_join(struct gov_card *card, uint64_t session, int32_t pid,
              const struct gov_share *share, uint64_t now_ns)
{
    struct gov_tenant *t = find_tenant(card, session);
    int seat = 0;

    while (seat < GOV_SEATS_MAX && card->seats[seat].pid)
        seat++;
    if (!t || seat == GOV_SEATS_MAX)
        return -ENOSPC;
    if (!t->session) {
        *t = (struct gov_tenant){
            .session = session, .filled_ns = now_ns, .idle_ns = now_ns};
        card->n_tenants++;
        set_share(t, share);
        t->vtime = card->vclock;
        reweigh(card);
    }
    t->seats++;
    card->seats[seat] = (struct gov_seat){.pid = pid, .tenant = index_of(card, t)};
    return seat;
}

void
gov_card_reshare(struct gov_card *card, uint64_t session, const struct gov_share *share,
                 uint64_t now_ns)
{
    FOR_EACH_TENANT(card, t)
    {
        if (t->session != session)
            continue;
        refill(t, now_ns); /* the past at the old rate */
        set_share(t, share);
        reweigh(card);
        changed(card);
    }
}

void
gov_card_leave(struct gov_card *card, int seat, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, seat);

    gov_card_unask(card, seat, now_ns);
    gov_card_drained(card, seat, now_ns);
    card->seats[seat] = (struct gov_seat){0};
    if (--t->seats)
        return;
    if (holds(card, t))
        pass_turn(card, now_ns);
    *t = (struct gov_tenant){0};
    card->n_tenants--;
    reweigh(card);
}

void
gov_card_leave_pid(struct gov_card *card, int32_t pid, uint64_t now_ns)
{
    for (int i = 0; i < GOV_SEATS_MAX; i++)
        if (card->seats[i].pid == pid)
            gov_card_leave(card, i, now_ns);
}

/* --- asking and running --- */

/* The earliest start tag of somebody who comes back now. */
static uint64_t
late_start(const struct gov_card *card, const struct gov_tenant *t, uint64_t now)
{
    uint64_t nap = now - t->idle_ns;
    uint64_t back = nap < GOV_NAP_NS ? nap * 100000 / t->weight : 0;

    return card->vclock - gp_min(back, card->vclock);
}

static void
want(struct gov_card *card, int seat, uint64_t now)
{
    struct gov_tenant *t = tenant_of(card, seat);

    if (card->seats[seat].wanting)
        return;
    card->seats[seat].wanting = 1;
    if (!t->wanting && !t->running) {
        /* Back from doing nothing: what it did not use meanwhile is not saved up. */
        refill(t, now);
        t->woke = now - t->idle_ns >= GOV_SLEPT_NS;
        t->vtime = gp_max(t->vtime, late_start(card, t, now));
        t->wanted_ns = now;
    }
    t->wanting++;
}

static void
run(struct gov_card *card, int seat, uint64_t now)
{
    struct gov_tenant *t = tenant_of(card, seat);

    if (card->seats[seat].running)
        return;
    card->seats[seat].running = 1;
    if (!t->running++) {
        refill(t, now);
        t->since_ns = now;
        t->busy_ns = 0;
        t->woke = 0;
        t->waited_ns += now > t->wanted_ns ? now - t->wanted_ns : 0;
    }
}

/* A turn whose owner does not begin (its worker is being killed, say) is taken back. */
static void
drop_stale_turn(struct gov_card *card, uint64_t now)
{
    const struct gov_tenant *t = card->holder ? &card->tenants[card->holder - 1] : NULL;

    if (t && !t->running && now - card->turn_ns > GOV_GRANT_NS)
        card->holder = 0;
}

bool
gov_card_ask(struct gov_card *card, int seat, uint64_t now_ns, uint64_t *ret_until_ns)
{
    struct gov_tenant *t = tenant_of(card, seat), *next;

    *ret_until_ns = UINT64_MAX;
    want(card, seat, now_ns);
    drop_stale_turn(card, now_ns);
    if (!card->holder) {
        next = next_tenant(card, now_ns, ret_until_ns);
        if (next)
            take_turn(card, next, now_ns);
    }
    note_contention(card);
    if (!holds(card, t)) {
        within_ceiling(t, now_ns, ret_until_ns);
        *ret_until_ns = gp_min(*ret_until_ns, now_ns + GOV_GRANT_NS);
        return false;
    }
    /* Another worker of this tenant may be draining because the turn is over. */
    if (t->running && !gov_card_keep(card, seat, now_ns))
        return false;
    run(card, seat, now_ns);
    gov_card_unask(card, seat, now_ns);
    return true;
}

void
gov_card_unask(struct gov_card *card, int seat, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, seat);

    if (!card->seats[seat].wanting)
        return;
    card->seats[seat].wanting = 0;
    t->wanting--;
    note_contention(card);
    /* A turn that was given but not begun must not be kept from others. */
    if (holds(card, t) && !t->wanting && !t->running && card->contended)
        pass_turn(card, now_ns);
}

bool
gov_card_keep(struct gov_card *card, int seat, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, seat), *other;
    uint64_t until = UINT64_MAX;

    settle(t, now_ns);
    if (!within_ceiling(t, now_ns, &until))
        return false;
    other = next_tenant(card, now_ns, &until);
    if (other && overtakes(card, other, t, now_ns))
        return false;
    if (now_ns - card->turn_ns >= GOV_QUANTUM_NS) {
        card->turn_ns = now_ns; /* still its turn: another quantum, no drain */
        card->vclock = gp_max(card->vclock, t->vtime);
    }
    return true;
}

void
gov_card_report(struct gov_card *card, int seat, uint64_t busy_ns, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, seat);

    if (t->running)
        t->busy_ns += busy_ns;
}

void
gov_card_drained(struct gov_card *card, int seat, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, seat);

    if (!card->seats[seat].running)
        return;
    card->seats[seat].running = 0;
    if (--t->running)
        return;
    settle(t, now_ns);
    t->wanted_ns = now_ns; /* if it is wanting */
    t->idle_ns = now_ns;   /* if not */
    if (holds(card, t))
        pass_turn(card, now_ns);
}
