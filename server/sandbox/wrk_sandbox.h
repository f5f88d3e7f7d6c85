/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker may no longer do once it serves a client.
 *
 * The client's bytes reach the driver, so a worker is treated as if the client ran
 * in it.  Three layers, each of which holds alone against most of what a hostile
 * worker could try:
 *
 *   the user     one user id per session where the supervisor may (srv_jail.c), no
 *                capability, not dumpable, resource limits
 *   Landlock     which paths can be opened, no tracing, no signals (wrk_landlock.h)
 *   seccomp      an allow list of system calls with arguments (wrk_filter.c)
 *
 * Two steps, once each, main thread: wrk_sandbox_enter() before cuInit,
 * wrk_sandbox_filter() after it and before the first frame.  What is promised, and
 * what is not, is in docs/security.md.
 */
#ifndef WRK_SANDBOX_H
#define WRK_SANDBOX_H

#include "wrk_sandbox_conf.h"

struct gp_err;

/* Descriptors of a worker: 256 pieces of pinned memory, a descriptor per shared
 * allocation, what a driver opens per context. */
#define WRK_FILES_MAX 8192

/* Threads of all workers of a session that has a user id of its own: 256 attachments
 * with 16 each, or one on a software card of 128 multiprocessors many times over. */
#define WRK_TASKS_MAX 4096

/* Be no more protected than others when the host is out of memory, become the user,
 * drop every capability, gain none by exec, leave no core file, be closed to other
 * processes, take limits, enter Landlock, die with the supervisor. */
int wrk_sandbox_enter(const struct wrk_sandbox *box, struct gp_err *err);

/* Limit private memory to what there is now and @box->memory.
 *
 * RLIMIT_DATA, not RLIMIT_AS: a driver reserves far more addresses than there is
 * memory.  Allocations beyond it fail with ENOMEM, which our own code answers with
 * CUDA_ERROR_OUT_OF_MEMORY. */
int wrk_sandbox_memory(const struct wrk_sandbox *box, struct gp_err *err);

/* Install the system call filter, for all threads. */
int wrk_sandbox_filter(const struct wrk_sandbox *box, struct gp_err *err);

#endif
