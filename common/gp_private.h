/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of this process that nobody else gets: neither a core file, nor another
 * process of the same user.
 *
 * For processes that hold tokens, keys or secrets of sessions.  execve() undoes the
 * half that concerns other processes, so each program calls it in main().  Sanitizer
 * builds only go without core files: the leak checker has to trace its own process.
 */
#ifndef GP_PRIVATE_H
#define GP_PRIVATE_H

#include <sys/resource.h>

/* @ret_core NULL: no process that descends from this one gets core files either.  Else
 * the limit of before, for gp_private_restore() in a child that runs somebody else's
 * program. */
void gp_private_begin(struct rlimit *ret_core);
void gp_private_restore(const struct rlimit *core);

#endif
