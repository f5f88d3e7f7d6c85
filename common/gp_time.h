/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and deadlines in nanoseconds.  No state, any thread. */
#ifndef GP_TIME_H
#define GP_TIME_H

#include "gp_base.h"

#define GP_NS_PER_US UINT64_C(1000)
#define GP_NS_PER_MS UINT64_C(1000000)
#define GP_NS_PER_S UINT64_C(1000000000)
#define GP_FOREVER UINT64_MAX /* a deadline that never comes */

uint64_t gp_now_ns(void);  /* CLOCK_MONOTONIC */
uint64_t gp_wall_ns(void); /* CLOCK_REALTIME, since the epoch */

void gp_sleep_ns(uint64_t ns); /* not cut short by a signal */

/* Milliseconds for poll(2) until @deadline_ns (monotonic): -1 for GP_FOREVER, rounded
 * up so that a wait never ends before its deadline. */
int gp_poll_ms(uint64_t deadline_ns);

#endif
