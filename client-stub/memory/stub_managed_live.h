/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that keeps page-locked memory up to date at both ends while cards work, so
 * that either side sees a flag of the other move (internal to stub_managed.c).
 *
 * It is there from the first such memory on, sleeps while no card has work, and takes
 * at most a quarter of one processor.
 */
#ifndef STUB_MANAGED_LIVE_H
#define STUB_MANAGED_LIVE_H

#include <stdbool.h>

/* How long it sleeps between two exchanges, at least, and at most once nothing has
 * changed for a while; or three times as long as an exchange takes. */
#define MANAGED_LIVE_MIN_NS 500000u
#define MANAGED_LIVE_MAX_NS 5000000u

/* Any thread, under the lock of stub_managed.c.  wake: a card has got work. */
void managed_live_start(void);
void managed_live_wake(void);

/* One exchange with every server whose cards may be at work (stub_managed.c); false:
 * there is none.  *@ret_some: the cards have changed something. */
bool managed_refresh(bool *ret_some);

#endif
