/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not shown who they are yet.
 *
 * SCHED_UNPROVEN_MAX of them are served at a time, each for SCHED_UNPROVEN_NS at least:
 * thousands that connect at once, as after a restart, would else push each other out in
 * the middle of their handshakes.  Further ones wait, accepted and unread, and
 * addresses take turns: next is the oldest of the address of which fewest are served.
 * So an address that makes thousands of connections and says nothing waits behind
 * itself.  Where one has most of the places it gives its youngest at once to an address
 * that has hardly any.  When SCHED_DOOR_MAX wait, the address of which most wait loses
 * its youngest; while none of them has more than a few, which is a crowd and no flood,
 * further ones are left in the kernel's queue.
 *
 * Addresses are told apart as in sched_crowd.h.  The state is part of struct sched;
 * event loop thread only.
 */
#ifndef SCHED_DOOR_H
#define SCHED_DOOR_H

#include "sched_types.h"

void sched_door_init(struct sched *sched);
/* The served ones are gone. */
void sched_door_fini(struct sched *sched);

/* @fd, from @from, has been accepted, and is the door's: sched->door.serve() is called
 * for it, at once or later, or it is closed.  @in_turn: it may have to wait. */
void sched_door_knock(struct sched *sched, int fd, uint64_t from, bool in_turn);
/* @conn is served from now on. */
void sched_door_enter(struct sched_conn *conn);
/* It has shown who it is, or is gone; left before: a no-op. */
void sched_door_leave(struct sched_conn *conn);

#endif
