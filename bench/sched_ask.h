/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single questions to a scheduler, each over a connection of its own, blocking: for
 * sched_load.c, which plays its peers.  No state; any thread.
 */
#ifndef SCHED_ASK_H
#define SCHED_ASK_H

#include <stdint.h>

/* Whether the scheduler at @address leads: 1, 0.  One that shares its state does only
 * when it has found out that nobody else does.  -EPIPE: it does not answer. */
int sched_ask_leads(const char *address, uint64_t patience_ns);

/* A port of this host for one that is to be started; 0: none. */
uint32_t sched_ask_free_port(void);

#endif
