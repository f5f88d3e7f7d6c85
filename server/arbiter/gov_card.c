/* SPDX-License-Identifier: Apache-2.0 */
#include "gov_card.h"

#include <errno.h>
#include <string.h>

#define FOR_EACH_TENANT(card, t)                                                       \
    for (struct gov_tenant *t = (card)->tenants;                                       \
         t < (card)->tenants + (card)->tenants_end; t++)                               \
        if (t->slots)

static uint32_t
index_of(const struct gov_card *card, const struct gov_tenant *t)
{
    return (uint32_t)(t - card->tenants);
}

static struct gov_tenant *
tenant_of(struct gov_card *card, int slot)
{
    return &card->tenants[card->slots[slot].tenant];
}

/* A report beyond this is none: more than a watchdog lets run. */
#define REPORT_MAX_NS UINT64_C(3600000000000)

/* ---- shares ---- */

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

/* Whether two tenants cannot be on the card at the same time. */
static bool
conflict(const struct gov_tenant *a, const struct gov_tenant *b)
{
    return a != b && (!a->in_space || !b->in_space || (a->units & b->units));
}

static void
count_rivals(struct gov_card *card)
{
    FOR_EACH_TENANT(card, t)
    {
        uint32_t rivals = 0;

        FOR_EACH_TENANT(card, other)
        rivals += conflict(t, other);
        t->rivals = rivals;
    }
}

/* How much of its pieces' time a tenant is promised, percent. */
static uint32_t
time_promised(uint32_t core, unsigned n, unsigned units)
{
    return core * units / n;
}

/* The load of one partition of the GPU: the sum over its tenants, at the fullest of the
 * @n partitions from @first on. */
static uint32_t
units_load(struct gov_card *card, unsigned first, unsigned n, unsigned units)
{
    uint32_t most = 0;

    for (unsigned i = first; i < first + n; i++) {
        uint32_t load = 0;

        FOR_EACH_TENANT(card, t)
        load += t->units >> i & 1
                    ? time_promised(t->core, (unsigned)__builtin_popcountll(t->units),
                                    units)
                    : 0;
        most = gp_max(most, load);
    }
    return most;
}

/* Choose adjacent partitions for @core percent where the least has been promised: as
 * few as can hold it, more where those are taken.  When nothing is left, all of them.
 */
static uint64_t
choose_units(struct gov_card *card, uint32_t core, unsigned units)
{
    for (unsigned n = gp_max((core * units + 99) / 100, 1u); n < units; n++) {
        uint32_t load, least = UINT32_MAX;
        unsigned best = 0;

        for (unsigned first = 0; first + n <= units; first++) {
            load = units_load(card, first, n, units);
            if (load < least)
                best = first;
            least = gp_min(least, load);
        }
        if (least + time_promised(core, n, units) <= 100)
            return ((UINT64_C(1) << n) - 1) << best;
    }
    return units < 64 ? (UINT64_C(1) << units) - 1 : UINT64_MAX;
}

/* Where the tenant runs; for as long as it is here, as its contexts are made so. */
static void
set_part(struct gov_card *card, struct gov_tenant *t, const struct gov_share *share)
{
    uint32_t core = gp_min(gp_max(share->core, 1u), 100u);
    unsigned units = gp_min(share->units, (unsigned)GOV_UNITS_MAX);

    t->in_space = share->in_space;
    t->part = 1000;
    if (!share->in_space)
        return;
    t->part = core * 10;
    if (!units)
        return;
    t->units = choose_units(card, core, units);
    t->part = (uint32_t)__builtin_popcountll(t->units) * 1000 / units;
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
    if (t->part <= t->ceiling * 10)
        t->ceiling = 100; /* it cannot get beyond: no bucket is needed */
    t->offline = share->offline;
}

/* Fill the token bucket up to its size.  An idle tenant saves little, but keeps what it
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

/* ---- charging ---- */

/* Charge most of the time that other tenants lost while they waited, whether or not the
 * worker reported it (gov_card.h). */
static uint64_t
least_charge(const struct gov_tenant *t, uint64_t now)
{
    uint64_t held = t->held_ns && now > t->held_ns ? now - t->held_ns : 0;
    uint64_t least = held / 100 * GOV_HELD_LEAST;

    return t->running && t->holding && least > t->held_charged ? least - t->held_charged
                                                               : 0;
}

/* Charge what was measured.  With several workers at once their times add up to more
 * than the time that passed, and the latter is what others lost: it caps the charge.
 * Reports lag behind the work, so some of what is reported has been charged already, as
 * the least charge of an earlier look: nothing is charged twice. */
static void
charge_measured(struct gov_tenant *t, uint64_t now)
{
    uint64_t passed = now > t->since_ns ? now - t->since_ns : 0;
    uint64_t known = gp_min(t->busy_ns, t->advance_ns), charge;

    t->busy_ns -= known;
    t->advance_ns -= known;
    charge = gp_min(gp_max(t->busy_ns, least_charge(t, now)), passed);
    t->advance_ns += charge - gp_min(t->busy_ns, charge);
    t->since_ns += charge;
    t->busy_ns -= gp_min(t->busy_ns, charge);
    t->held_charged += charge;
    charge = charge * t->part / 1000;
    refill(t, now);
    t->tokens_ns -= (int64_t)charge;
    t->vtime += charge * 100000 / t->weight;
    t->charged_ns += charge;
}

/* Whether others wait has changed, or who runs has. */
static void
note_held(struct gov_tenant *t, bool contended, uint64_t now)
{
    if (contended == t->contended)
        return;
    t->held_ns = contended ? now : 0;
    t->held_charged = 0;
}

/* ---- turns ---- */

/* Running without the turn is what began too late (gov_card_overrun()). */
static bool
waits(const struct gov_tenant *t)
{
    return t->wanting && !(t->running && t->holding);
}

/* Since when it wants nothing, though it may come back: it ran dry, or what it has on
 * the card began too late, outside of a turn (gov_card_overrun()).  UINT64_MAX: it
 * wants a turn, has one, or never had any. */
static uint64_t
quiet_since(const struct gov_tenant *t)
{
    if (!t->turns || t->wanting || (t->running && t->holding))
        return UINT64_MAX;
    return t->running ? gp_max(t->since_ns, t->idle_ns) : t->idle_ns;
}

/* It has been quiet for less than @than_ns. */
static bool
quiet_for_less(const struct gov_tenant *t, uint64_t than_ns, uint64_t now)
{
    uint64_t since = quiet_since(t);

    return since != UINT64_MAX && now - since < than_ns;
}

/* Its queue ran dry a moment ago. */
static bool
pauses(const struct gov_tenant *t, uint64_t now)
{
    return quiet_for_less(t, GOV_PAUSE_NS, now);
}

/* The virtual clock advances with a tenant that begins to run, but not past one that
 * only pauses: the service that the pausing tenant is behind by is kept even if another
 * tenant used the pause. */
static void
advance_clock_to(struct gov_card *card, uint64_t start, uint64_t now)
{
    FOR_EACH_TENANT(card, u)
    {
        if (pauses(u, now) && u->vtime < start)
            start = u->vtime;
    }
    card->vclock = gp_max(card->vclock, start);
}

static void
advance_clock(struct gov_card *card, const struct gov_tenant *t, uint64_t now)
{
    advance_clock_to(card, t->vtime, now);
}

/* Is @a due before @b? */
static bool
precedes(const struct gov_tenant *a, const struct gov_tenant *b)
{
    return a->offline != b->offline ? !a->offline : a->vtime < b->vtime;
}

/* Is there a running tenant that @t cannot run beside?  With @due_only, only tenants
 * that @t does not precede count, because those will not give way to it soon. */
static bool
blocked(struct gov_card *card, const struct gov_tenant *t, bool due_only)
{
    if (!card->holders)
        return false;
    FOR_EACH_TENANT(card, h)
    {
        if (h->holding && conflict(h, t) && !(due_only && precedes(t, h)))
            return true;
    }
    return false;
}

/* Does somebody who is due before @t, and will soon run, want what @t would run on? */
static bool
preceded(struct gov_card *card, const struct gov_tenant *t, uint64_t now,
         uint64_t *ret_until)
{
    FOR_EACH_TENANT(card, w)
    {
        if (waits(w) && !w->holding && conflict(w, t) && precedes(w, t) &&
            within_ceiling(w, now, ret_until) && !blocked(card, w, true))
            return true;
    }
    return false;
}

/* Card time that @t has had beyond @u, as @t's weight counts it. */
static uint64_t
ahead_of(const struct gov_tenant *t, const struct gov_tenant *u)
{
    return t->vtime > u->vtime ? (t->vtime - u->vtime) / 100000 * t->weight : 0;
}

/* Is @t so far ahead of a tenant whose queue has just become empty that it must wait in
 * case that tenant returns?  It waits for an eighth of the difference. */
static bool
held_for_napper(struct gov_card *card, const struct gov_tenant *t, uint64_t now,
                uint64_t *ret_until)
{
    FOR_EACH_TENANT(card, u)
    {
        uint64_t owed = ahead_of(t, u), wait = gp_min(owed / 8, GOV_HELD_MAX_NS);

        if (owed < GOV_AHEAD_NS || u->offline != t->offline || !conflict(u, t) ||
            !quiet_for_less(u, wait, now))
            continue;
        *ret_until = gp_min(*ret_until, quiet_since(u) + wait);
        return true;
    }
    return false;
}

/* The tenant that gets the next turn, among those that wait and may run; NULL: none.
 * *ret_until: the earliest time at which the result could change without a new event.
 */
static struct gov_tenant *
next_tenant(struct gov_card *card, uint64_t now, uint64_t *ret_until)
{
    struct gov_tenant *best = NULL;

    FOR_EACH_TENANT(card, t)
    {
        if (!waits(t) || t->holding || !within_ceiling(t, now, ret_until) ||
            (best && !precedes(t, best)) || blocked(card, t, false) ||
            preceded(card, t, now, ret_until) ||
            held_for_napper(card, t, now, ret_until))
            continue;
        best = t;
    }
    return best;
}

static void
note_contention(struct gov_card *card, uint64_t now)
{
    FOR_EACH_TENANT(card, t)
    {
        uint32_t contended = 0;

        FOR_EACH_TENANT(card, w)
        contended |= waits(w) && !w->holding && conflict(t, w);
        note_held(t, contended, now);
        t->contended = contended;
    }
}

static void
take_turn(struct gov_card *card, struct gov_tenant *t, uint64_t now)
{
    t->holding = 1;
    card->holders++;
    t->turn_ns = now;
    advance_clock(card, t, now);
    t->turns++;
    card->seq++;
}

static void
end_turn(struct gov_card *card, struct gov_tenant *t)
{
    card->holders -= t->holding;
    t->holding = 0;
}

/* Give turns to all who are due and fit beside those who have one. */
static void
give_turns(struct gov_card *card, uint64_t now, uint64_t *ret_until)
{
    struct gov_tenant *next;

    while ((next = next_tenant(card, now, ret_until)))
        take_turn(card, next, now);
    note_contention(card, now);
}

/* @t has nothing on the card: the turn passes to who is due, itself included. */
static void
pass_turn(struct gov_card *card, struct gov_tenant *t, uint64_t now)
{
    uint64_t until = UINT64_MAX;

    end_turn(card, t);
    card->seq++;
    give_turns(card, now, &until);
}

/* Who should have the card rather than @t, which has it, go on?  NULL: nobody. */
static struct gov_tenant *
overtaker(struct gov_card *card, const struct gov_tenant *t, uint64_t now)
{
    uint64_t until = UINT64_MAX, ran = now - t->turn_ns;
    struct gov_tenant *best = NULL;

    FOR_EACH_TENANT(card, w)
    {
        if (waits(w) && !w->holding && conflict(w, t) &&
            within_ceiling(w, now, &until) && (!best || precedes(w, best)))
            best = w;
    }
    if (!best || !precedes(best, t))
        return NULL;
    if (best->offline != t->offline)
        return best;
    return ran >= (best->woke ? GOV_WAKE_QUANTUM_NS : GOV_QUANTUM_NS) ? best : NULL;
}

/* ---- slots ---- */

/* The tenant entry of the session, or the first free one; else the entry of a session
 * that has left with the least debt. */
static struct gov_tenant *
find_tenant(struct gov_card *card, uint64_t session)
{
    struct gov_tenant *best = NULL;

    for (unsigned i = 0; i < GOV_TENANTS_MAX; i++) {
        struct gov_tenant *t = &card->tenants[i];

        if (t->session == session)
            return t;
        if (t->slots || (best && !best->session))
            continue;
        if (!best || !t->session || t->tokens_ns > best->tokens_ns)
            best = t;
    }
    return best;
}

/* Whether a session that goes must not begin anew when it comes back. */
static bool
in_debt(const struct gov_card *card, const struct gov_tenant *t)
{
    return t->tokens_ns < 0 || t->vtime > card->vclock;
}

int
gov_card_join(struct gov_card *card, uint64_t session, int32_t pid,
              const struct gov_share *share, uint64_t now_ns)
{
    struct gov_tenant *t = find_tenant(card, session);
    int slot = 0;

    while (slot < GOV_SLOTS_MAX && card->slots[slot].pid)
        slot++;
    if (!t || slot == GOV_SLOTS_MAX)
        return -ENOSPC;
    if (t->session != session)
        *t = (struct gov_tenant){.session = session,
                                 .filled_ns = now_ns,
                                 .idle_ns = now_ns,
                                 .vtime = card->vclock};
    if (!t->slots++) {
        card->tenants_end = gp_max(card->tenants_end, index_of(card, t) + 1);
        card->n_tenants++;
        t->units = 0;
        set_part(card, t, share);
        set_share(t, share);
        reweigh(card);
        count_rivals(card);
    }
    card->slots[slot] = (struct gov_slot){.pid = pid, .tenant = index_of(card, t)};
    return slot;
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
    }
}

void
gov_card_leave(struct gov_card *card, int slot, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);

    gov_card_unask(card, slot, now_ns);
    /* What it had on the card was its own, whether measured or not. */
    if (card->slots[slot].running && now_ns > t->since_ns) {
        t->busy_ns = now_ns - t->since_ns;
        t->advance_ns = 0;
    }
    gov_card_drained(card, slot, now_ns);
    card->slots[slot] = (struct gov_slot){0};
    if (t->slots > 1) {
        t->slots--;
        return;
    }
    if (t->holding)
        pass_turn(card, t, now_ns);
    t->slots = 0;
    if (!in_debt(card, t))
        *t = (struct gov_tenant){0};
    card->n_tenants--;
    while (card->tenants_end && !card->tenants[card->tenants_end - 1].session)
        card->tenants_end--;
    reweigh(card);
    count_rivals(card);
}

/* ---- asking and running ---- */

/* The earliest start tag of somebody who comes back now. */
static uint64_t
late_start(const struct gov_card *card, const struct gov_tenant *t, uint64_t now)
{
    uint64_t pause = now - t->idle_ns;
    uint64_t back = pause < GOV_PAUSE_NS ? pause * 100000 / t->weight : 0;

    return card->vclock - gp_min(back, card->vclock);
}

static void
want(struct gov_card *card, int slot, uint64_t now)
{
    struct gov_tenant *t = tenant_of(card, slot);

    if (card->slots[slot].wanting)
        return;
    card->slots[slot].wanting = 1;
    if (!t->wanting && !t->running) {
        /* Back from doing nothing: what it did not use meanwhile is not saved up. */
        refill(t, now);
        FOR_EACH_TENANT(card, h)
        if (h->holding) /* it began while this one only slept, maybe */
            advance_clock(card, h, now);
        t->woke = now - t->idle_ns >= GOV_SLEPT_NS;
        t->vtime = gp_max(t->vtime, late_start(card, t, now));
        t->wanted_ns = now;
    }
    t->wanting++;
}

static void
run(struct gov_card *card, int slot, uint64_t now)
{
    struct gov_tenant *t = tenant_of(card, slot);

    if (card->slots[slot].running)
        return;
    card->slots[slot].running = 1;
    if (!t->running++) {
        refill(t, now);
        t->since_ns = now;
        t->busy_ns = 0;
        t->advance_ns = 0;
        t->held_ns = t->contended ? now : 0;
        t->held_charged = 0;
        t->woke = 0;
        t->waited_ns += now > t->wanted_ns ? now - t->wanted_ns : 0;
    }
}

/* A turn whose owner does not begin (its worker is being killed, say) is taken back. */
static void
drop_stale_turns(struct gov_card *card, uint64_t now)
{
    FOR_EACH_TENANT(card, t)
    {
        if (t->holding && !t->running && now - t->turn_ns > GOV_GRANT_NS)
            end_turn(card, t);
    }
}

bool
gov_card_ask(struct gov_card *card, int slot, uint64_t now_ns, uint64_t *ret_until_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);

    *ret_until_ns = UINT64_MAX;
    want(card, slot, now_ns);
    drop_stale_turns(card, now_ns);
    give_turns(card, now_ns, ret_until_ns);
    if (!t->holding) {
        within_ceiling(t, now_ns, ret_until_ns);
        *ret_until_ns = gp_min(*ret_until_ns, now_ns + GOV_GRANT_NS);
        return false;
    }
    /* Another worker of this tenant may be draining because the turn is over. */
    if (t->running && !gov_card_keep(card, slot, now_ns))
        return false;
    run(card, slot, now_ns);
    gov_card_unask(card, slot, now_ns);
    return true;
}

void
gov_card_unask(struct gov_card *card, int slot, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);

    if (!card->slots[slot].wanting)
        return;
    card->slots[slot].wanting = 0;
    t->wanting--;
    note_contention(card, now_ns);
    /* A turn that was given but not begun must not be kept from others. */
    if (t->holding && !t->wanting && !t->running && t->contended)
        pass_turn(card, t, now_ns);
}

void
gov_card_overrun(struct gov_card *card, int slot, uint64_t since_ns, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);
    bool first = !t->running;

    refill(t, now_ns); /* what came before, as of one that did nothing */
    run(card, slot, now_ns);
    if (first)
        t->since_ns = gp_min(gp_max(since_ns, t->idle_ns), now_ns);
}

void
gov_card_adopt(struct gov_card *card, int slot, uint64_t now_ns)
{
    run(card, slot, now_ns);
}

void
gov_card_rested(struct gov_card *card, int slot, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);
    uint64_t quantum = (uint64_t)GOV_QUANTUM_NS * 100000 / t->weight;
    uint64_t begun = t->vtime;

    charge_measured(t, now_ns);
    /* All but the quantum that it is in are over. */
    if (t->vtime - begun > quantum)
        begun = t->vtime - quantum;
    advance_clock_to(card, begun, now_ns);
}

bool
gov_card_keep(struct gov_card *card, int slot, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);
    uint64_t until = UINT64_MAX;

    charge_measured(t, now_ns);
    if (!t->holding || !within_ceiling(t, now_ns, &until) || overtaker(card, t, now_ns))
        return false;
    if (now_ns - t->turn_ns >= GOV_QUANTUM_NS) {
        t->turn_ns = now_ns; /* still its turn: another quantum, no drain */
        advance_clock(card, t, now_ns);
    }
    return true;
}

void
gov_card_report(struct gov_card *card, int slot, uint64_t busy_ns, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);

    (void)now_ns;
    if (t->running)
        t->busy_ns = gp_min(t->busy_ns + gp_min(busy_ns, REPORT_MAX_NS), REPORT_MAX_NS);
}

void
gov_card_drained(struct gov_card *card, int slot, uint64_t now_ns)
{
    struct gov_tenant *t = tenant_of(card, slot);

    if (!card->slots[slot].running)
        return;
    if (t->running == 1)
        charge_measured(
            t, now_ns); /* as of one that runs: its bucket filled all the while */
    card->slots[slot].running = 0;
    if (--t->running)
        return;
    t->wanted_ns = now_ns; /* if it is wanting */
    t->idle_ns = now_ns;   /* if not */
    if (t->holding)
        pass_turn(card, t, now_ns);
}

/* ---- after an arbiter that died ---- */

bool
gov_card_is_of(const struct gov_card *card, int slot, uint64_t session)
{
    const struct gov_slot *s;

    if (slot < 0 || slot >= GOV_SLOTS_MAX)
        return false;
    s = &card->slots[slot];
    return s->pid && s->tenant < GOV_TENANTS_MAX &&
           card->tenants[s->tenant].session == session;
}

static void
not_after(uint64_t *time_ns, uint64_t now)
{
    *time_ns = gp_min(*time_ns, now);
}

/* No field of it may lead to a division by zero, an index or an endless wait. */
static void
mend_tenant(struct gov_tenant *t, uint64_t now)
{
    t->slots = t->wanting = t->running = 0;
    t->core = gp_min(gp_max(t->core, 1u), 100u);
    t->ceiling = gp_min(gp_max(t->ceiling, 1u), 100u);
    t->part = gp_min(gp_max(t->part, 1u), 1000u);
    t->weight = gp_max(t->weight, 1u);
    t->holding = t->holding != 0;
    t->copy_for = gp_min(t->copy_for, GOV_TENANTS_MAX - 1u);
    t->tokens_ns = gp_min(t->tokens_ns, (int64_t)GOV_BUCKET_NS);
    not_after(&t->filled_ns, now);
    not_after(&t->since_ns, now);
    not_after(&t->wanted_ns, now);
    not_after(&t->idle_ns, now);
    not_after(&t->turn_ns, now);
    not_after(&t->held_ns, now);
    not_after(&t->copy_ns, now);
    not_after(&t->copy_from_ns, now);
    not_after(&t->copy_until_ns, now + GOV_HELD_MAX_NS);
}

/* The counts of tenants are sums over their slots. */
static void
mend_counts(struct gov_card *card)
{
    for (int i = 0; i < GOV_SLOTS_MAX; i++) {
        struct gov_slot *s = &card->slots[i];
        struct gov_tenant *t = &card->tenants[gp_min(s->tenant, GOV_TENANTS_MAX - 1u)];

        if (!s->pid || s->tenant >= GOV_TENANTS_MAX || !t->session) {
            *s = (struct gov_slot){0};
            continue;
        }
        s->wanting = s->wanting != 0;
        s->running = s->running != 0;
        t->slots++;
        t->wanting += s->wanting;
        t->running += s->running;
    }
    card->holders = card->n_tenants = card->tenants_end = 0;
    for (uint32_t i = 0; i < GOV_TENANTS_MAX; i++) {
        struct gov_tenant *t = &card->tenants[i];

        if (!t->slots)
            t->holding = 0;
        if (!t->slots && !in_debt(card, t))
            *t = (struct gov_tenant){0};
        card->n_tenants += t->slots != 0;
        card->holders += t->holding;
        if (t->session)
            card->tenants_end = i + 1;
    }
}

void
gov_card_mend(struct gov_card *card, const bool here[GOV_SLOTS_MAX], uint64_t now_ns)
{
    uint64_t until = UINT64_MAX;

    for (uint32_t i = 0; i < GOV_TENANTS_MAX; i++)
        mend_tenant(&card->tenants[i], now_ns);
    mend_counts(card);
    reweigh(card);
    count_rivals(card);
    for (int i = 0; i < GOV_SLOTS_MAX; i++)
        if (card->slots[i].pid && !here[i])
            gov_card_leave(card, i, now_ns);
    card->seq++;
    drop_stale_turns(card, now_ns);
    give_turns(card, now_ns, &until);
}
