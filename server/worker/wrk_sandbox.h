/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker may no longer do once it serves a client.
 *
 * The client's bytes reach the driver, so a worker is treated as if the client
 * ran in it: no new program, no new process, no network beyond the connection it
 * has, no other process's memory, no mounting, no privileges to gain.  Files
 * stay reachable because a real driver opens device nodes and its caches late.
 *
 * Two steps, once each, main thread: user before cuInit, filter after it and
 * before the first frame.
 */
#ifndef WRK_SANDBOX_H
#define WRK_SANDBOX_H

struct gp_err;

/* Become @user ("" = stay), drop every capability, gain none by exec, leave no
 * core files, die with the supervisor. */
int wrk_sandbox_user(const char *user, struct gp_err *err);

/* Install the system call filter, for all threads. */
int wrk_sandbox_filter(struct gp_err *err);

#endif
