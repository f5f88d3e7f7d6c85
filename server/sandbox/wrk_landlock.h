/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the worker's sandbox that knows paths: a Landlock domain.
 *
 * seccomp sees the numbers of a system call but not what a path names.  Landlock
 * does: after wrk_landlock_enter() this thread, and every thread that it makes later,
 * opens only what the driver needs.  The kernel also keeps a domain from tracing
 * any process outside it, which closes /proc/PID/mem, process_vm_readv() and their
 * kin even between processes of one user; from ABI 4 on it denies TCP bind and
 * connect, from ABI 6 on signals to processes outside.
 *
 * Main thread, before the driver makes threads.  Without Landlock in the kernel the
 * worker goes on and the log says what is missing.
 */
#ifndef WRK_LANDLOCK_H
#define WRK_LANDLOCK_H

struct gp_err;
struct wrk_sandbox;

/* 0: entered, or this kernel has no Landlock. */
int wrk_landlock_enter(const struct wrk_sandbox *box, struct gp_err *err);

#endif
