/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: who shares the pool, what each may hold, and what each holds now.
 *
 * A tenant is a group of owners that the rules name, or, without a rule, one owner.
 * Its quotas limit what all of its sessions hold together.  Its share is the largest
 * part that it holds of any resource of the pool (dominant resource), divided by its
 * weight; the queue serves the tenant with the smallest share first.
 *
 * Owned by struct sched_tenants, from sched_tenant_ref() until the last unref; what it
 * has spent is remembered for longer.  Event loop thread only.  It neither knows
 * sessions nor the queue: both charge it.
 */
#ifndef SCHED_TENANT_H
#define SCHED_TENANT_H

#include "ctl_limits.h"
#include "gp_tree.h"

#include <stdint.h>

struct sched_rules;

struct sched_amount {
    uint64_t core, memory, cards; /* percent of cards; bytes; slices */
};

static inline void
sched_amount_add(struct sched_amount *sum, const struct sched_amount *more)
{
    sum->core += more->core;
    sum->memory += more->memory;
    sum->cards += more->cards;
}

/* What sessions of a tenant have used since the scheduler knows it. */
struct sched_spent {
    uint64_t gpu_ns, wait_ns, launches, moved_bytes;
};

/* Tenants that are apart in metrics; the rest are summed up as one, because without
 * rules every owner is a tenant, and an owner is what a client says. */
#define SCHED_TENANTS_APART 1000
/* The name of that sum, which an owner who is called so is always a part of. */
#define SCHED_TENANTS_REST "(others)"

struct sched_tenant {
    char name[CTL_OWNER_MAX];
    uint32_t weight, serial, refs;
    struct sched_amount limit; /* 0: none */
    struct sched_amount used;
    uint64_t sessions, used_bytes; /* of them; of their memory, as reported last */
    struct sched_spent spent;
    bool apart;  /* one of SCHED_TENANTS_APART */
    void *lines; /* of the queue; its own */
    uint32_t n_lines;
    uint64_t waits_since; /* for the queue: when its oldest waiter arrived */
    /* For the queue: somebody waited so long for these quotas that @kept of them is
     * kept for him; and a place in the list of tenants whose quotas leave more than
     * before. */
    const void *kept_for;
    struct sched_amount kept;
    struct sched_tenant *freed_next;
    bool freed;
    struct gp_tree_node by_name;
    struct gp_tree_node by_age; /* of those that have gone */
};

struct sched_tenants {
    const struct sched_rules *rules; /* NULL: every owner is a tenant without quotas */
    struct gp_tree by_name;
    struct sched_amount total; /* of the pool, for shares */
    uint32_t next_serial, n_apart;
    /* Tenants that were apart and have gone, for what they have spent: a counter that
     * vanished with the last session and began anew with the next would count nothing
     * of a tenant whose sessions are short.  With those that are apart now there are
     * SCHED_TENANTS_APART at most; those that went first are forgotten. */
    struct gp_tree gone, gone_by_age;
    uint64_t n_gone;                 /* so far */
    struct sched_spent others_spent; /* by tenants that were not apart and have gone */
};

void sched_tenants_fini(struct sched_tenants *set);
/* The tenant that @owner belongs to.  NULL: out of memory. */
struct sched_tenant *sched_tenant_ref(struct sched_tenants *set, const char *owner);
void sched_tenant_unref(struct sched_tenants *set, struct sched_tenant *tenant);

/* May @want be had besides what is held?  -EDQUOT: no; @words (may be NULL) name the
 * quota.  -EFBIG: never, because the quota is smaller than @want alone. */
int sched_tenant_check(const struct sched_tenant *tenant,
                       const struct sched_amount *want, char *words, size_t size);
/* Would @want, for @who, take what is kept for somebody else? */
bool sched_tenant_kept_from(const struct sched_tenant *tenant, const void *who,
                            const struct sched_amount *want);
void sched_tenant_charge(struct sched_tenant *tenant, const struct sched_amount *what);
void sched_tenant_uncharge(struct sched_tenant *tenant,
                           const struct sched_amount *what);
/* What is left of the quotas; UINT64_MAX where there is none. */
struct sched_amount sched_tenant_left(const struct sched_tenant *tenant);
void sched_spent_add(struct sched_spent *sum, const struct sched_spent *more);
/* The dominant share by weight, in millionths of the pool. */
uint64_t sched_tenant_share(const struct sched_tenants *set,
                            const struct sched_tenant *tenant);

#endif
