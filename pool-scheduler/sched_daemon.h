/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of one pool: its configuration and everything it holds.
 *
 * Starts it, ends it, and lets time pass.  Event loop thread only.  The order of
 * events:
 *
 *   request -> sched_serve (decode, caps) -> sched_handle_* (rules, decision)
 *           -> pool and sessions (memory) -> store (disk) -> reply
 *
 * Nothing is answered before it is on disk.  Time enters through one timer
 * (tick) that ends leases and notices silent servers.  (Not sched.h: that is the C
 * library's.)
 */
#ifndef SCHED_DAEMON_H
#define SCHED_DAEMON_H

#include "sched_types.h"

struct gp_err;

/* Open state and key, listen, start the clock.  On failure sched_fini() is still due.
 */
int sched_init(struct sched *sched, const struct sched_config *config,
               struct gp_err *err);
int sched_run(struct sched *sched); /* until SIGTERM or SIGINT */
void sched_fini(struct sched *sched);

#endif
