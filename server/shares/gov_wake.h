/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping on and waking at an arbiter's word (gov_card.h): the arbiter itself only
 * changes it.  Any process of the card, any thread.
 */
#ifndef GOV_WAKE_H
#define GOV_WAKE_H

#include "gov_card.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Lock; the result goes to gov_wake_unlock(). */
static inline uint32_t
gov_wake_lock(struct gov_card *card)
{
    gov_card_lock(card);
    return card->seq;
}

/* Unlock, and wake those who wait if anything changed for them. */
static inline void
gov_wake_unlock(struct gov_card *card, uint32_t seq)
{
    bool changed = card->seq != seq;

    gov_card_unlock(card);
    if (changed)
        syscall(SYS_futex, &card->seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleep until the word is not @seq any more, for @ns at most. */
static inline void
gov_wake_wait(struct gov_card *card, uint32_t seq, uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000),
                          .tv_nsec = (long)(ns % 1000000000)};

    syscall(SYS_futex, &card->seq, FUTEX_WAIT, seq, &ts, NULL, 0);
}

#endif
