/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_tenant.h"

#include "gp_hash.h"
#include "gp_str.h"
#include "sched_rules.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Two keyed hashes make 128 bits: owners that unauthenticated peers choose do not
 * collide. */
static void
name_key(const char *name, uint64_t key[2])
{
    const struct gp_hash_key *k = gp_hash_process_key();
    struct gp_hash_key other = {.k = {~k->k[1], k->k[0]}};

    key[0] = gp_hash_bytes(k, name, strlen(name));
    key[1] = gp_hash_bytes(&other, name, strlen(name));
}

void
sched_spent_add(struct sched_spent *sum, const struct sched_spent *more)
{
    sum->gpu_ns += more->gpu_ns;
    sum->wait_ns += more->wait_ns;
    sum->launches += more->launches;
    sum->moved_bytes += more->moved_bytes;
}

/* -------------------------------------------------------------------- gone -- */

static void
gone_take_out(struct sched_tenants *set, struct sched_tenant *tenant)
{
    gp_tree_remove(&set->gone, &tenant->by_name);
    gp_tree_remove(&set->gone_by_age, &tenant->by_age);
}

/* Room for one more line in metrics, at the price of the tenant that went first. */
static void
gone_make_room(struct sched_tenants *set)
{
    struct gp_tree_node *first = gp_tree_first(&set->gone_by_age);
    struct sched_tenant *tenant;

    if (!first || set->n_apart + set->gone.count < SCHED_TENANTS_APART)
        return;
    tenant = container_of(first, struct sched_tenant, by_age);
    gone_take_out(set, tenant);
    free(tenant);
}

static bool
spent_any(const struct sched_spent *spent)
{
    return spent->gpu_ns || spent->wait_ns || spent->launches || spent->moved_bytes;
}

/* Keep what @tenant has spent; false: it is not kept. */
static bool
gone_put(struct sched_tenants *set, struct sched_tenant *tenant, const uint64_t key[2])
{
    struct sched_spent spent = tenant->spent;
    char name[sizeof(tenant->name)];

    memcpy(name, tenant->name, sizeof(name));
    if (!tenant->apart) {
        sched_spent_add(&set->others_spent, &spent);
        return false;
    }
    if (!spent_any(&spent))
        return false;
    *tenant = (struct sched_tenant){.apart = true, .spent = spent};
    memcpy(tenant->name, name, sizeof(name));
    gp_tree_insert(&set->gone, &tenant->by_name, key[0], key[1]);
    gp_tree_insert(&set->gone_by_age, &tenant->by_age, ++set->n_gone, 0);
    return true;
}

/* The tenant of that name as it went, or NULL. */
static struct sched_tenant *
gone_take(struct sched_tenants *set, const uint64_t key[2])
{
    struct gp_tree_node *node = gp_tree_find(&set->gone, key[0], key[1]);
    struct sched_tenant *tenant;

    if (!node)
        return NULL;
    tenant = container_of(node, struct sched_tenant, by_name);
    gone_take_out(set, tenant);
    return tenant;
}

/* -------------------------------------------------------------------- life -- */

static struct sched_tenant *
tenant_new(struct sched_tenants *set, const char *name, const uint64_t key[2])
{
    struct sched_tenant *tenant = gone_take(set, key);

    if (!tenant)
        tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    gone_make_room(set);
    gp_str_copy(tenant->name, sizeof(tenant->name), name);
    tenant->serial = set->next_serial++;
    tenant->apart =
        set->n_apart < SCHED_TENANTS_APART && strcmp(name, SCHED_TENANTS_REST) != 0;
    set->n_apart += tenant->apart;
    gp_tree_insert(&set->by_name, &tenant->by_name, key[0], key[1]);
    return tenant;
}

struct sched_tenant *
sched_tenant_ref(struct sched_tenants *set, const char *owner)
{
    const struct sched_tenant_rule *rule =
        set->rules ? sched_rules_tenant(set->rules, owner) : NULL;
    /* One rule for each of the owners that it fits makes each a tenant of his own. */
    const char *name = rule && !rule->each ? rule->name : owner;
    struct sched_tenant *tenant;
    struct gp_tree_node *node;
    uint64_t key[2];

    name_key(name, key);
    node = gp_tree_find(&set->by_name, key[0], key[1]);
    tenant = node ? container_of(node, struct sched_tenant, by_name)
                  : tenant_new(set, name, key);
    if (!tenant)
        return NULL;
    tenant->weight = rule ? rule->weight : 1; /* the rules may be new */
    tenant->limit = rule ? rule->limit : (struct sched_amount){0};
    tenant->refs++;
    return tenant;
}

void
sched_tenant_unref(struct sched_tenants *set, struct sched_tenant *tenant)
{
    uint64_t key[2];

    if (!tenant || --tenant->refs)
        return;
    name_key(tenant->name, key);
    gp_tree_remove(&set->by_name, &tenant->by_name);
    set->n_apart -= tenant->apart;
    if (!gone_put(set, tenant, key))
        free(tenant);
}

void
sched_tenants_fini(struct sched_tenants *set)
{
    struct gp_tree_node *node;

    assert(!set->by_name.count); /* sessions and the queue went before */
    while ((node = gp_tree_first(&set->gone))) {
        struct sched_tenant *tenant = container_of(node, struct sched_tenant, by_name);

        gone_take_out(set, tenant);
        free(tenant);
    }
}

/* ------------------------------------------------------------------ quotas -- */

static uint64_t
left_of(uint64_t limit, uint64_t used)
{
    return limit ? limit - gp_min(limit, used) : UINT64_MAX;
}

struct sched_amount
sched_tenant_left(const struct sched_tenant *tenant)
{
    return (struct sched_amount){
        .core = left_of(tenant->limit.core, tenant->used.core),
        .memory = left_of(tenant->limit.memory, tenant->used.memory),
        .cards = left_of(tenant->limit.cards, tenant->used.cards),
    };
}

static void
over_words(const struct sched_tenant *tenant, const struct sched_amount *want,
           char *words, size_t size)
{
    const double gib = 1024.0 * 1024 * 1024;
    struct sched_amount left = sched_tenant_left(tenant);

    if (want->core > left.core)
        snprintf(words, size,
                 "quota: tenant %s may hold %" PRIu64 " %% core and holds %" PRIu64
                 " %%, %" PRIu64 " %% wanted",
                 tenant->name, tenant->limit.core, tenant->used.core, want->core);
    else if (want->memory > left.memory)
        snprintf(words, size,
                 "quota: tenant %s may hold %.2f GiB and holds %.2f GiB, %.2f GiB "
                 "wanted",
                 tenant->name, (double)tenant->limit.memory / gib,
                 (double)tenant->used.memory / gib, (double)want->memory / gib);
    else
        snprintf(words, size,
                 "quota: tenant %s may hold %" PRIu64 " cards and holds %" PRIu64
                 ", %" PRIu64 " wanted",
                 tenant->name, tenant->limit.cards, tenant->used.cards, want->cards);
}

static bool
over(uint64_t limit, uint64_t used, uint64_t want)
{
    return limit && (used > limit || want > limit - used);
}

int
sched_tenant_check(const struct sched_tenant *tenant, const struct sched_amount *want,
                   char *words, size_t size)
{
    const struct sched_amount *l = &tenant->limit, *u = &tenant->used;

    if (!over(l->core, u->core, want->core) &&
        !over(l->memory, u->memory, want->memory) &&
        !over(l->cards, u->cards, want->cards))
        return 0;
    if (words)
        over_words(tenant, want, words, size);
    return over(l->core, 0, want->core) || over(l->memory, 0, want->memory) ||
                   over(l->cards, 0, want->cards)
               ? -EFBIG
               : -EDQUOT;
}

bool
sched_tenant_kept_from(const struct sched_tenant *tenant, const void *who,
                       const struct sched_amount *want)
{
    struct sched_amount both = tenant->kept;

    if (!tenant->kept_for || tenant->kept_for == who)
        return false;
    sched_amount_add(&both, want);
    return sched_tenant_check(tenant, &both, NULL, 0) < 0;
}

void
sched_tenant_charge(struct sched_tenant *tenant, const struct sched_amount *what)
{
    tenant->used.core += what->core;
    tenant->used.memory += what->memory;
    tenant->used.cards += what->cards;
}

void
sched_tenant_uncharge(struct sched_tenant *tenant, const struct sched_amount *what)
{
    assert(tenant->used.core >= what->core && tenant->used.memory >= what->memory &&
           tenant->used.cards >= what->cards);
    tenant->used.core -= what->core;
    tenant->used.memory -= what->memory;
    tenant->used.cards -= what->cards;
}

/* ------------------------------------------------------------------- share -- */

static uint64_t
part_of(uint64_t used, uint64_t total)
{
    return total ? (uint64_t)((double)used / (double)total * 1e6) : 0;
}

uint64_t
sched_tenant_share(const struct sched_tenants *set, const struct sched_tenant *tenant)
{
    uint64_t core = part_of(tenant->used.core, set->total.core);
    uint64_t memory = part_of(tenant->used.memory, set->total.memory);

    return gp_max(core, memory) / gp_max(tenant->weight, 1u);
}
