/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_account_age.h"

#include "sched_account.h"

#include <stdlib.h>
#include <time.h>

/* The first second of @day, which is 20261123. */
static uint64_t
begin_of(uint32_t day)
{
    struct tm tm = {.tm_year = (int)(day / 10000) - 1900,
                    .tm_mon = (int)(day / 100 % 100) - 1,
                    .tm_mday = (int)(day % 100)};
    time_t t = timegm(&tm);

    return t > 0 ? (uint64_t)t : 0;
}

/* The last of the oldest days that follow each other: days behind a gap may have been
 * entered by a clock that was wrong.  0: there are no days. */
static uint64_t
unbroken(const struct sched_accounts *set)
{
    uint64_t key[2] = {0, 0}, last = 0;
    const struct sched_account *row;

    while ((row = sched_account_at_least(set, key))) {
        uint64_t begin = begin_of(row->day);

        if (last && begin > last + SCHED_ACCOUNT_IDLE_S)
            break;
        last = begin;
        key[0] = (uint64_t)(row->day + 1) << 32;
    }
    return last;
}

uint64_t
sched_account_age_time(struct sched_account_age *age, const struct sched_accounts *set,
                       uint64_t wall_s, uint64_t now_s)
{
    int64_t ahead = (int64_t)(wall_s - now_s);

    if (!age->begun) {
        age->begun = true;
        age->time_s = unbroken(set);
        age->steady_s = now_s;
        if (!age->time_s)
            age->time_s = wall_s;
    } else if (llabs(ahead - age->ahead_s) > SCHED_ACCOUNT_JUMP_S) {
        age->steady_s = now_s;
    }
    age->ahead_s = ahead;
    if (wall_s <= age->time_s + SCHED_ACCOUNT_IDLE_S ||
        now_s - age->steady_s >= SCHED_ACCOUNT_STEADY_S)
        age->time_s = wall_s;
    return age->time_s;
}
