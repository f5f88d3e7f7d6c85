/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervisors that take over: a thread that receives their memory on WRK_FD_ADOPT and
 * maps it in place of that of the one before.
 *
 * A thread of its own, because every other one may be waiting for exactly that. Started
 * before the worker waits for its supervisor for the first time; it ends with the
 * process.
 */
#ifndef WRK_SUCCESSOR_H
#define WRK_SUCCESSOR_H

struct gp_err;
struct wrk_desks;

/* @desks outlives the thread.  -errno of pthread_create(3). */
int wrk_successor_start(struct wrk_desks *desks, struct gp_err *err);

/* Whatever a supervisor had sent before this call is mapped behind it.  For who acts on
 * its word, and reads in its memory what that means: the thread above may not have had
 * a processor since.  Any thread. */
void wrk_successor_catch_up(struct wrk_desks *desks);

#endif
