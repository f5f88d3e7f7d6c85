/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_account.h"

#include "gp_blake3.h"
#include "gp_str.h"
#include "gp_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)
#define DAY_S 86400

uint32_t
sched_account_day(uint64_t unix_s, uint32_t days)
{
    time_t t = (time_t)(unix_s - gp_min(unix_s, (uint64_t)days * DAY_S));
    struct tm tm = {0};

    gmtime_r(&t, &tm);
    return (uint32_t)((tm.tm_year + 1900) * 10000 + (tm.tm_mon + 1) * 100 + tm.tm_mday);
}

/* -------------------------------------------------------------------- keys -- */

/* 96 bits of a hash without a key, which is the same for every scheduler of the pool.
 */
void
sched_account_key(uint32_t day, const char *owner, uint64_t key[2])
{
    uint8_t hash[GP_BLAKE3_SIZE];
    uint32_t high = 0;

    gp_blake3(owner, strlen(owner), hash);
    memcpy(&high, hash, sizeof(high));
    memcpy(&key[1], hash + sizeof(high), sizeof(key[1]));
    key[0] = (uint64_t)day << 32 | high;
}

bool
sched_account_parse_key(const char *text, uint64_t key[2])
{
    uint32_t day, high;
    int end = 0;

    if (sscanf(text, "%8" SCNu32 "/%8" SCNx32 "%16" SCNx64 "%n", &day, &high, &key[1],
               &end) != 3 ||
        text[end])
        return false;
    key[0] = (uint64_t)day << 32 | high;
    return true;
}

void
sched_account_format_key(const struct sched_account *row,
                         char text[SCHED_ACCOUNT_KEY_TEXT])
{
    snprintf(text, SCHED_ACCOUNT_KEY_TEXT, "%08" PRIu32 "/%08" PRIx32 "%016" PRIx64,
             row->day, (uint32_t)row->node.key[0], row->node.key[1]);
}

static struct sched_account *
row_of(struct gp_tree_node *node)
{
    return node ? container_of(node, struct sched_account, node) : NULL;
}

struct sched_account *
sched_account_find(const struct sched_accounts *set, const uint64_t key[2])
{
    return row_of(gp_tree_find(&set->rows, key[0], key[1]));
}

struct sched_account *
sched_account_at_least(const struct sched_accounts *set, const uint64_t key[2])
{
    return row_of(gp_tree_at_least(&set->rows, key[0], key[1]));
}

struct sched_account *
sched_account_next(const struct sched_accounts *set, const struct sched_account *row)
{
    return row_of(gp_tree_next(&set->rows, &row->node));
}

/* -------------------------------------------------------------------- rows -- */

void
sched_accounts_init(struct sched_accounts *set)
{
    memset(set, 0, sizeof(*set));
    set->dirty_end = &set->dirty;
    set->today = sched_account_day(gp_wall_ns() / GP_NS_PER_S, 0);
}

void
sched_accounts_fini(struct sched_accounts *set)
{
    struct gp_tree_node *node;

    while ((node = gp_tree_first(&set->rows)))
        sched_account_drop(set, row_of(node));
}

struct sched_account *
sched_account_get(struct sched_accounts *set, uint32_t day, const char *owner)
{
    size_t size = strlen(owner) + 1;
    struct sched_account *row;
    uint64_t key[2];

    sched_account_key(day, owner, key);
    row = sched_account_find(set, key);
    if (row)
        return row;
    row = calloc(1, sizeof(*row) + size);
    if (!row)
        return NULL;
    row->day = day;
    memcpy(row->owner, owner, size);
    gp_tree_insert(&set->rows, &row->node, key[0], key[1]);
    set->n_today += day == set->today;
    return row;
}

void
sched_account_clean(struct sched_accounts *set, struct sched_account *row)
{
    if (!row->dirty)
        return;
    *row->dirty_link = row->dirty_next;
    if (row->dirty_next)
        row->dirty_next->dirty_link = row->dirty_link;
    else
        set->dirty_end = row->dirty_link;
    row->dirty = false;
}

static void
make_dirty(struct sched_accounts *set, struct sched_account *row, uint64_t now_ns)
{
    if (row->dirty)
        return;
    row->dirty = true;
    row->dirty_ns = now_ns;
    row->dirty_next = NULL;
    row->dirty_link = set->dirty_end;
    *row->dirty_link = row;
    set->dirty_end = &row->dirty_next;
}

void
sched_account_drop(struct sched_accounts *set, struct sched_account *row)
{
    sched_account_clean(set, row);
    gp_tree_remove(&set->rows, &row->node);
    set->n_today -= row->day == set->today;
    free(row);
}

/* ----------------------------------------------------------------- entering -- */

/* Days go by the wall clock, and so may go back. */
static void
find_today(struct sched_accounts *set)
{
    uint32_t today = sched_account_day(gp_wall_ns() / GP_NS_PER_S, 0);
    uint64_t key[2] = {(uint64_t)today << 32, 0};

    if (today == set->today)
        return;
    set->today = today;
    set->n_today = 0;
    for (struct sched_account *row = sched_account_at_least(set, key);
         row && row->day == today; row = sched_account_next(set, row))
        set->n_today++;
}

static struct sched_account *
row_for(struct sched_accounts *set, const char *owner)
{
    uint64_t key[2];

    sched_account_key(set->today, owner, key);
    if (set->n_today >= SCHED_ACCOUNT_OWNERS_MAX && !sched_account_find(set, key))
        owner = SCHED_ACCOUNT_REST;
    return sched_account_get(set, set->today, owner);
}

static void
add_up(struct sched_account_sums *sums, const struct sched_holding *h, uint64_t ms)
{
    sums->sessions += h->opened;
    sums->core_ms += h->held.core * ms;
    sums->memory_mib_ms += h->held.memory / MIB * ms;
    sums->slice_ms += h->held.cards * ms;
    sums->spent.gpu_ns += h->spent.gpu_ns;
    sums->spent.wait_ns += h->spent.wait_ns;
    sums->spent.launches += h->spent.launches;
    sums->spent.moved_bytes += h->spent.moved_bytes;
}

void
sched_account_enter(struct sched_accounts *set, struct sched_holding *holding,
                    const char *owner, const char *tenant, uint64_t now_ns)
{
    uint64_t ms = (now_ns - gp_min(holding->since_ns, now_ns)) / GP_NS_PER_MS;
    struct sched_account *row;

    if (!set->on) {
        holding->since_ns = now_ns;
        return;
    }
    find_today(set);
    row = row_for(set, owner);
    if (!row) /* out of memory: it is entered the next time */
        return;
    add_up(&row->sums, holding, ms);
    gp_str_copy(row->tenant, sizeof(row->tenant),
                strcmp(row->owner, SCHED_ACCOUNT_REST) != 0 ? tenant
                                                            : SCHED_ACCOUNT_REST);
    holding->since_ns += ms * GP_NS_PER_MS;
    holding->opened = 0;
    memset(&holding->spent, 0, sizeof(holding->spent));
    make_dirty(set, row, now_ns);
}
