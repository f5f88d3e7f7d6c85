/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection: a second connection of the client, for what its host
 * functions send while the receive thread may be in a driver call that returns only
 * when a host function does.
 *
 * A thread of its own reads it.  The frames are those of the main connection, numbered
 * from one on; the calls are few, and touch neither the driver nor the state of the
 * receive thread: gp_host_done, gp_stage_fill and gp_stage_read.  Any other frame ends
 * this connection, and nothing else.  A call that sends no reply on the main connection
 * is confirmed here if the frame has WIRE_F_REPLY.
 *
 * The worker says over it that a host function is due (WIRE_EVENT_HOST_URGENT) when the
 * main connection is in the middle of a payload: what that waits for may be a driver
 * that goes on when the function has returned.
 *
 * The client may have none, lose it or make another one at any time: whatever comes
 * over it may also come over the main connection.  The supervisor hands it over, and
 * the last one counts.
 */
#ifndef WRK_CONTROL_H
#define WRK_CONTROL_H

#include <stdint.h>

struct wrk;
struct xport_conn;

/* The largest frame: 32 KiB of a stage and what goes before them. */
#define WRK_CONTROL_FRAME_MAX 40960u

/* The client has given a host function: have the thread.  Receive thread. */
void wrk_control_want(struct wrk *w);

/* Execute one frame, whose length the transport has checked, and reply over @conn if
 * there is a reply.  @seq: the number that it must have.  NULL, or why the connection
 * has to end. */
const char *wrk_control_execute(struct wrk *w, struct xport_conn *conn,
                                const void *frame, uint32_t size, uint32_t seq);

#endif
