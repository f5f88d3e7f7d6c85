/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting as time passes: entering what is held, writing rows to the store a while
 * after they changed, forgetting old days.
 *
 * At most config.account_write_ms of it is lost when the scheduler is killed.  No state
 * of its own; event loop thread only.
 */
#ifndef SCHED_ACCOUNT_KEEP_H
#define SCHED_ACCOUNT_KEEP_H

#include "gp_base.h"

struct sched;

/* When the administrator does not say. */
#define SCHED_ACCOUNT_DAYS 92
#define SCHED_ACCOUNT_WRITE_MS 60000

void sched_account_tick(struct sched *sched, uint64_t now_ns);
/* The scheduler ends: everything goes to the store's next transaction. */
void sched_account_end(struct sched *sched);

#endif
