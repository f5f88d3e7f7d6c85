/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that keeps page-locked memory up to date at both ends while devices work,
 * so that each side sees flags that the other one sets (internal to stub_managed.c). It
 * runs from the first such memory on, sleeps while no device has work, and takes at
 * most a quarter of one processor.
 */
#ifndef STUB_MANAGED_LIVE_H
#define STUB_MANAGED_LIVE_H

#include <stdbool.h>

/* Its sleep between two exchanges: the least, and the most once nothing has changed
 * for a while; or three times as long as an exchange takes. */
#define MANAGED_LIVE_MIN_NS 500000u
#define MANAGED_LIVE_MAX_NS 5000000u

/* Any thread, under the lock of stub_managed.c.  wake: a card has got work. */
void managed_live_start(void);
void managed_live_wake(void);

/* One exchange with every server whose devices may be at work (stub_managed.c);
 * false: there is none.  *@ret_some: devices have changed something. */
bool managed_refresh(bool *ret_some);

#endif
