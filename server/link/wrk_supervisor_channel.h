/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel from the supervisor to this worker.
 *
 * Replies to requests arrive on it and, between them and at any time, further
 * connections: stripes of the client's connection, which are kept here until the client
 * says how many there are or makes others instead, and connections of other workers,
 * which go to a hook (wrk_hooks.h).  Receive thread only.
 */
#ifndef WRK_SUPERVISOR_CHANNEL_H
#define WRK_SUPERVISOR_CHANNEL_H

#include <stdint.h>

struct wrk;
struct wrk_desks;
struct wrk_request;
struct wrk_stripes;

/* Before the first request: who tells of supervisors that take over. */
void wrk_supervisor_open(const struct wrk_desks *desks);

/* Send @ask, and @fd with it unless it is -1; the reply to it takes its place, and
 * *ret_fd is -1 or the caller's.  A supervisor that takes over from another meanwhile
 * is asked again.  -errno: the supervisor does not reply, and no further request may be
 * made. */
int wrk_supervisor_ask(struct wrk_request *ask, int fd, int *ret_fd);

/* Receive the connections that have arrived unsolicited. */
void wrk_supervisor_collect(void);

/* If the link has been replaced since: the same, of stripes that came for links before.
 * The supervisor sends no more while many are not taken. */
void wrk_supervisor_idle(struct wrk *w);

/* The client's @n stripes of that @round, which are the caller's then.  -ENOENT: they
 * are not all here. */
int wrk_supervisor_stripes(uint32_t round, uint32_t n, struct wrk_stripes *ret);

#endif
