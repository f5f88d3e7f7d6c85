/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands of the command line take beside a scheduler with a large pool.
 *
 * They are run by a process that stays small: the most memory that a process ever had
 * is kept over execve, so a child of a large one counts as large itself.
 */
#ifndef SCHED_COMMANDS_H
#define SCHED_COMMANDS_H

/* That process, for the `gpupool` beside the program @scheduler; -1: it cannot be. */
int sched_commands_new(const char *scheduler);
/* Run them against the scheduler at @address, print "key value" lines of each, and end
 * the process. -1: one failed. */
int sched_commands_run(int commands, const char *address);

#endif
