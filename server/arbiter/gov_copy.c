/* SPDX-License-Identifier: Apache-2.0 */
#include "gov_copy.h"

/* Weights are thousandths of a percent: this keeps fractions of a byte. */
#define SCALE 100000u

#define FOR_EACH_OTHER(card, self, t)                                                  \
    for (struct gov_tenant *t = (card)->tenants;                                       \
         t < (card)->tenants + (card)->tenants_end; t++)                               \
        if (t->slots && t != (self))

static bool
copies(const struct gov_tenant *t, uint64_t now)
{
    return t->copy_ns && now - t->copy_ns < GOV_COPY_IDLE_NS;
}

/* Of the tenants that copy now and are themselves not ahead of another: the one that
 * has copied least; NULL: @t is alone. */
static struct gov_tenant *
least_served(struct gov_card *card, const struct gov_tenant *t, uint64_t now)
{
    struct gov_tenant *least = NULL;

    FOR_EACH_OTHER(card, t, other)
    {
        if (copies(other, now) && (!least || other->copy_vtime < least->copy_vtime))
            least = other;
    }
    return least;
}

static uint64_t
ahead_of(const struct gov_tenant *t, uint64_t vtime)
{
    return t->copy_vtime > vtime ? (t->copy_vtime - vtime) * t->weight / SCALE : 0;
}

static uint64_t
rate_of(uint64_t bytes, uint64_t ns)
{
    return bytes * 1000 / gp_max(ns / 1000, UINT64_C(1));
}

/* From now on look at how @other does. */
static void
watch(struct gov_card *card, struct gov_tenant *t, const struct gov_tenant *other,
      uint64_t now)
{
    t->copy_for = (uint32_t)(other - card->tenants);
    t->copy_for_bytes = other->copy_bytes;
    t->copy_from_ns = now;
}

/* A pause begins: as long as @other needs for its part at the rate @t had. */
static void
begin_pause(struct gov_card *card, struct gov_tenant *t, const struct gov_tenant *other,
            uint64_t now)
{
    uint64_t ran = gp_min(now - t->copy_from_ns, (uint64_t)GOV_COPY_PAUSE_MAX_NS);
    uint64_t pause = ran * other->weight / t->weight;
    bool same = t->copy_for == (uint32_t)(other - card->tenants);

    pause = gp_max(pause, (uint64_t)GOV_COPY_PAUSE_MIN_NS);
    t->copy_for_rate =
        same ? rate_of(other->copy_bytes - t->copy_for_bytes, now - t->copy_from_ns)
             : 0;
    watch(card, t, other, now);
    t->copy_until_ns = now + gp_min(pause, (uint64_t)GOV_COPY_PAUSE_MAX_NS);
}

/* The pause is over.  What the other did not take is not kept for it. */
static void
end_pause(struct gov_card *card, struct gov_tenant *t, uint64_t now)
{
    struct gov_tenant *other = &card->tenants[t->copy_for];
    uint64_t gained = other->copy_bytes - t->copy_for_bytes;
    uint64_t wanted = GOV_COPY_AHEAD * other->weight / gp_max(t->weight, 1u);

    t->copy_until_ns = 0;
    if (!other->slots)
        return;
    /* The pause was useful: the other tenant moved about as much as it would with the
     * connection to itself, and more than before. */
    if (gained >= gp_min(wanted, GOV_COPY_AHEAD) / 2 &&
        rate_of(gained, now - t->copy_from_ns) * 4 >= t->copy_for_rate * 5)
        t->copy_useless = 0;
    else if (++t->copy_useless % GOV_COPY_USELESS == 0)
        t->copy_off_ns = now + ((uint64_t)GOV_COPY_OFF_NS
                                << gp_min(t->copy_useless / GOV_COPY_USELESS - 1,
                                          (uint32_t)GOV_COPY_OFF_DOUBLINGS));
    other->copy_vtime = gp_max(other->copy_vtime, t->copy_vtime);
    watch(card, t, other, now);
}

uint64_t
gov_copy_take(struct gov_card *card, int slot, uint64_t bytes, uint64_t now_ns)
{
    struct gov_tenant *t = &card->tenants[card->slots[slot].tenant];
    struct gov_tenant *other = least_served(card, t, now_ns);

    /* Back from copying nothing: no more behind than the others. */
    if (!copies(t, now_ns)) {
        t->copy_vtime = gp_max(t->copy_vtime, other ? other->copy_vtime : 0);
        t->copy_from_ns = now_ns;
        t->copy_until_ns = 0;
    }
    if (t->copy_until_ns && gov_copy_caught_up(card, slot, now_ns))
        end_pause(card, t, now_ns);
    t->copy_ns = now_ns;
    t->copy_bytes += bytes;
    t->copy_vtime += bytes * SCALE / t->weight;
    if (other && now_ns < t->copy_off_ns) {
        other->copy_vtime = gp_max(other->copy_vtime, t->copy_vtime);
        watch(card, t, other, now_ns);
    } else if (!t->copy_until_ns && other &&
               ahead_of(t, other->copy_vtime) >= GOV_COPY_AHEAD) {
        begin_pause(card, t, other, now_ns);
    }
    return t->copy_until_ns;
}

bool
gov_copy_caught_up(struct gov_card *card, int slot, uint64_t now_ns)
{
    const struct gov_tenant *t = &card->tenants[card->slots[slot].tenant];
    const struct gov_tenant *other = &card->tenants[t->copy_for];

    return now_ns >= t->copy_until_ns || !other->slots || !copies(other, now_ns) ||
           other->copy_vtime >= t->copy_vtime;
}
