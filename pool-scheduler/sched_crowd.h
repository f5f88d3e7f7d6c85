/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections of clients there are from each address, so that an address that
 * takes all there are crowds out itself and nobody else.
 *
 * Addresses are told apart by a part of a keyed hash.  A connection is a client's until
 * it registers a server.  The counts are part of struct sched; event loop thread only.
 */
#ifndef SCHED_CROWD_H
#define SCHED_CROWD_H

#include "sched_types.h"

/* @conn is a client's, or is not any more. */
void sched_crowd_add(struct sched_conn *conn);
void sched_crowd_remove(struct sched_conn *conn);

/* May one more come from @from?  False: there is no room, and its address has most of
 * the connections.  *@ret_end is who is to be ended for it, or NULL: of the address
 * that has most, the oldest connection that nothing depends on; else the youngest that
 * waits; else the youngest. */
bool sched_crowd_admits(const struct sched *sched, uint64_t from,
                        struct sched_conn **ret_end);

#endif
