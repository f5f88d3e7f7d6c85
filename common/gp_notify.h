/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon says to the service manager that started it (sd_notify(3)): that it is
 * ready, that it is alive, that it stops.
 *
 * Without $NOTIFY_SOCKET, which systemd sets for Type=notify, nothing happens.  A
 * message that cannot be sent is dropped: the manager's own time limits follow.  Event
 * loop thread only.
 */
#ifndef GP_NOTIFY_H
#define GP_NOTIFY_H

#include "gp_base.h"

/* "READY=1", "STOPPING=1", "STATUS=words", with newlines between several. */
void gp_notify(const char *text);

/* How often the manager has to hear of this process, halved for safety; 0: it does not
 * watch it. */
uint64_t gp_notify_period_ns(void);

/* "WATCHDOG=1", when half of the time that the manager allows without one
 * ($WATCHDOG_USEC, for this process) is over; call it as often as you like. */
void gp_notify_alive(uint64_t now_ns);

#endif
