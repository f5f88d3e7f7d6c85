/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's log, muted while the worker makes driver calls of its own.
 *
 * The worker makes some driver calls that it expects to fail, to find out what a driver
 * can do.  A log line that such a call causes is not the program's and must not reach
 * its log callback.  The state is per thread.
 */
#ifndef WRK_LOG_MUTE_H
#define WRK_LOG_MUTE_H

#include <stdbool.h>

/* Around calls of the worker's own on this thread; they nest. */
void wrk_log_mute(void);
void wrk_log_unmute(void);

/* Whether this thread is between the two. */
bool wrk_log_muted(void);

#endif
