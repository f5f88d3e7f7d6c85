/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_rate.h"

#include "gp_time.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4
#define SETS (GP_RATE_BUCKETS / WAYS)

/* The bucket is full from @full_ns on; each event moves that time by step_ns. */
struct gp_rate_bucket {
    uint64_t who;
    uint64_t full_ns;
};

int
gp_rate_init(struct gp_rate *rate, uint32_t per_s)
{
    *rate = (struct gp_rate){0};
    if (!per_s)
        return 0;
    rate->buckets = calloc(GP_RATE_BUCKETS, sizeof(*rate->buckets));
    if (!rate->buckets)
        return -ENOMEM;
    rate->step_ns = gp_max(GP_NS_PER_S / per_s, UINT64_C(1));
    rate->burst_ns = GP_RATE_BURST_S * GP_NS_PER_S;
    return 0;
}

void
gp_rate_fini(struct gp_rate *rate)
{
    free(rate->buckets);
    *rate = (struct gp_rate){0};
}

/* The bucket of @who; else the fullest of its set, emptied of its past. */
static struct gp_rate_bucket *
find(struct gp_rate *rate, uint64_t who)
{
    struct gp_rate_bucket *set = &rate->buckets[who % SETS * WAYS], *fullest = set;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].who == who)
            return &set[i];
        if (set[i].full_ns < fullest->full_ns)
            fullest = &set[i];
    }
    *fullest = (struct gp_rate_bucket){.who = who};
    return fullest;
}

static uint64_t
take(struct gp_rate *rate, uint64_t who, uint64_t now_ns, bool count)
{
    struct gp_rate_bucket *bucket;
    uint64_t full;

    if (!rate->step_ns)
        return 0;
    bucket = find(rate, who);
    full = gp_max(bucket->full_ns, now_ns) + rate->step_ns;
    if (full - now_ns > rate->burst_ns) {
        rate->refused++;
        return full - now_ns - rate->burst_ns;
    }
    if (count)
        bucket->full_ns = full;
    return 0;
}

uint64_t
gp_rate_take(struct gp_rate *rate, uint64_t who, uint64_t now_ns)
{
    return take(rate, who, now_ns, true);
}

uint64_t
gp_rate_wait(struct gp_rate *rate, uint64_t who, uint64_t now_ns)
{
    return take(rate, who, now_ns, false);
}

void
gp_rate_spend(struct gp_rate *rate, uint64_t who, uint64_t n, uint64_t now_ns)
{
    struct gp_rate_bucket *bucket;

    if (!rate->step_ns)
        return;
    bucket = find(rate, who);
    bucket->full_ns = gp_max(bucket->full_ns, now_ns) + n * rate->step_ns;
}

uint32_t
gp_rate_ms(uint64_t wait_ns)
{
    return (uint32_t)gp_min(wait_ns / GP_NS_PER_MS + 1, (uint64_t)UINT32_MAX);
}
