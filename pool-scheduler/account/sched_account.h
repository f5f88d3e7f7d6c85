/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting: what each owner held and used, day by day (UTC).
 *
 * A row is one owner on one day.  What sessions hold is integrated over time, in the
 * owner's struct sched_holding, and entered into the row of the day when the holding
 * changes, and now and then; what they use comes from the reports of their servers.
 * Rows that changed wait to be written (sched_account_keep.h).
 *
 * The set is part of struct sched_sessions.  Event loop thread only.
 */
#ifndef SCHED_ACCOUNT_H
#define SCHED_ACCOUNT_H

#include "gp_base.h"
#include "gp_tree.h"
#include "sched_tenant.h"

#include <stdint.h>

/* Owners are what clients say, so there is a bound to what they can fill: the owners of
 * a day that have rows of their own, and rows in all, of 200 bytes each.  The rest of a
 * day is one row, and the oldest days are forgotten first. */
#define SCHED_ACCOUNT_OWNERS_MAX 100000
#define SCHED_ACCOUNTS_MAX 500000
#define SCHED_ACCOUNT_REST "(others)"

/* Percent of cards, MiB and slices, times milliseconds: a day of the largest pool fits.
 */
struct sched_account_sums {
    uint64_t sessions; /* opened */
    uint64_t core_ms, memory_mib_ms, slice_ms;
    struct sched_spent spent;
};

struct sched_account {
    struct gp_tree_node node; /* of the day and a hash of the owner */
    uint32_t day;             /* 20261123 */
    struct sched_account_sums sums;
    bool dirty;
    uint64_t dirty_ns; /* since when */
    struct sched_account *dirty_next, **dirty_link;
    char tenant[CTL_OWNER_MAX]; /* when it was entered last */
    char owner[];
};

struct sched_accounts {
    bool on;        /* this scheduler leads; else rows come from the store only */
    uint32_t today; /* 20261123 */
    unsigned n_today;
    struct gp_tree rows;
    struct sched_account *dirty, **dirty_end; /* longest first */
};

/* Of one owner, embedded in it. */
struct sched_holding {
    struct sched_amount held;
    uint64_t since_ns; /* entered until then */
    uint64_t opened;   /* not entered yet, as is what was spent */
    struct sched_spent spent;
};

void sched_accounts_init(struct sched_accounts *set);
void sched_accounts_fini(struct sched_accounts *set);

/* Enter what @holding has come to until @now_ns. */
void sched_account_enter(struct sched_accounts *set, struct sched_holding *holding,
                         const char *owner, const char *tenant, uint64_t now_ns);

/* The row of the store's @day and @owner, which is made if there is none.  NULL: out of
 * memory. */
struct sched_account *sched_account_get(struct sched_accounts *set, uint32_t day,
                                        const char *owner);
void sched_account_drop(struct sched_accounts *set, struct sched_account *row);
/* Its change has been handed to the store. */
void sched_account_clean(struct sched_accounts *set, struct sched_account *row);

/* The key of the row of @owner on @day; of "DAY/HASH" as store keys end.  False: that
 * is none. */
void sched_account_key(uint32_t day, const char *owner, uint64_t key[2]);
bool sched_account_parse_key(const char *text, uint64_t key[2]);
#define SCHED_ACCOUNT_KEY_TEXT 40
void sched_account_format_key(const struct sched_account *row,
                              char text[SCHED_ACCOUNT_KEY_TEXT]);
struct sched_account *sched_account_find(const struct sched_accounts *set,
                                         const uint64_t key[2]);
/* The first row with a key of at least @key; the one behind @row.  NULL: none. */
struct sched_account *sched_account_at_least(const struct sched_accounts *set,
                                             const uint64_t key[2]);
struct sched_account *sched_account_next(const struct sched_accounts *set,
                                         const struct sched_account *row);

/* The day of the time @unix_s, and of @days before it. */
uint32_t sched_account_day(uint64_t unix_s, uint32_t days);

#endif
