/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's objects as protobuf messages, for replies.
 *
 * A message built here points into the objects it shows, so it is packed at once and
 * never kept.  Event loop thread only.
 */
#ifndef SCHED_STATUS_H
#define SCHED_STATUS_H

#include "control.pb-c.h"
#include "sched_session.h"

struct sched;
struct sched_conn;

/* Answer request @id with the whole state. */
void sched_status_reply(struct sched_conn *conn, uint32_t id);
void sched_status_reply_servers(struct sched_conn *conn, uint32_t id);

#endif
