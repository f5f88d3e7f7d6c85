/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_account_keep.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_account.h"
#include "sched_commit.h"
#include "sched_replica.h"
#include "sched_store.h"
#include "sched_types.h"

/* Rows written or forgotten in a tick; more when there are so many that they would not
 * get their turn in a minute. */
#define TICK_ROWS 512
#define TICKS_A_MINUTE 240

static size_t
rows_a_tick(size_t all)
{
    return gp_max((size_t)TICK_ROWS, all / (TICKS_A_MINUTE / 2));
}

static void
write_dirty(struct sched *sched, uint64_t changed_before_ns, size_t most)
{
    struct sched_accounts *set = &sched->sessions.accounts;
    struct gp_err err = {0};

    for (; most && set->dirty && set->dirty->dirty_ns <= changed_before_ns; most--) {
        struct sched_account *row = set->dirty;

        sched_commit_soon(sched);
        if (sched_store_put_account(sched->store, row, &err) < 0)
            return; /* out of memory: it stays dirty */
        sched_account_clean(set, row);
    }
}

/* Old days, and what is too much. */
static void
forget(struct sched *sched, uint64_t now_ns)
{
    struct sched_accounts *set = &sched->sessions.accounts;
    uint32_t days = sched->config.account_days;
    uint64_t time_s = sched_account_age_time(
        &sched->account_age, set, gp_wall_ns() / GP_NS_PER_S, now_ns / GP_NS_PER_S);
    uint32_t first = sched_account_day(time_s, (days ? days : SCHED_ACCOUNT_DAYS) - 1);
    const uint64_t start[2] = {0, 0};
    struct gp_err err = {0};

    for (size_t most = rows_a_tick(set->rows.count); most; most--) {
        struct sched_account *row = sched_account_at_least(set, start);

        if (!row || (row->day >= first && set->rows.count <= SCHED_ACCOUNTS_MAX))
            return;
        sched_commit_soon(sched);
        if (sched_store_del_account(sched->store, row, &err) < 0)
            return;
        sched_account_drop(set, row);
    }
}

void
sched_account_tick(struct sched *sched, uint64_t now_ns)
{
    struct sched_accounts *set = &sched->sessions.accounts;
    uint64_t write_ns = (sched->config.account_write_ms ? sched->config.account_write_ms
                                                        : SCHED_ACCOUNT_WRITE_MS) *
                        GP_NS_PER_MS;

    if (!set->on) { /* what was before this one led is another's to enter */
        sched_sessions_enter(&sched->sessions, now_ns, 0, SIZE_MAX);
        set->on = true;
    }
    sched_sessions_enter(&sched->sessions, now_ns, write_ns / 2,
                         rows_a_tick(sched->sessions.owners.count));
    write_dirty(sched, now_ns - gp_min(now_ns, write_ns / 2),
                rows_a_tick(set->rows.count));
    forget(sched, now_ns);
}

void
sched_account_end(struct sched *sched)
{
    if (!sched->sessions.accounts.on || !sched_replica_leads(sched))
        return;
    sched_sessions_enter(&sched->sessions, gp_now_ns(), 0, SIZE_MAX);
    write_dirty(sched, UINT64_MAX, SIZE_MAX);
}
