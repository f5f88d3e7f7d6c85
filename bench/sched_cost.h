/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scheduler costs, by the kernel's word: for sched_load.c, which plays its
 * peers.
 *
 * No state; any thread.  A process that is gone costs less than nothing (-1).
 */
#ifndef SCHED_COST_H
#define SCHED_COST_H

#include <stdint.h>
#include <sys/types.h>

/* Processor time of all threads of a process. */
double sched_cost_seconds(pid_t pid);

/* The same by what the threads are for. */
struct sched_cost_parts {
    double deciding, signing, writing;
};
struct sched_cost_parts sched_cost_parts(pid_t pid);

double sched_cost_bytes(pid_t pid); /* resident */

double sched_cost_own_seconds(void); /* of this process */

/* WHAT_p50_us, WHAT_p99_us and WHAT_max_us of @n times, which are sorted for that. */
void sched_cost_print_us(uint32_t *us, size_t n, const char *what);

#endif
