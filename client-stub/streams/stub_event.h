/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that are known to be done, so that a query costs no round trip.
 *
 * Every frame has a position in its link's queue.  An event remembers the position of
 * its last record and the stream; a stream, and a context, remember the position of the
 * last wait for them that succeeded.  A record in front of such a wait is done.  Other
 * ways to record an event (captures, attributes of launches) make it unknown; and where
 * events are recorded at times that are not known here (graphs with such nodes, green
 * contexts, other processes), nothing is answered at all.
 *
 * The notes are in the handles' entries (stub_handle_notes()), written under the link's
 * send lock.  Any thread.
 */
#ifndef STUB_EVENT_H
#define STUB_EVENT_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_call;
struct stub_ctx;
struct stub_link;

/* The frame of @c, which was claimed and is not sent yet: its position.  Under send. */
uint64_t stub_event_position(const struct stub_call *c);

/* A wait for all work of @stream, as the wire names it, of the current context, or of
 * all of its streams, has succeeded.  @position: of the wait's frame. */
#define STUB_EVENT_ALL_STREAMS UINT64_MAX
void stub_event_waited(uint64_t stream, uint64_t position);

/* The same for a reply that came when all work of @stream was done. */
void stub_event_waited_by(const struct stub_call *c, uint64_t stream);

/* A wait that needs no frame, because a copy has waited and nothing was sent since:
 * blocks that were freed since (stub_spare.h) have the position of that copy. */
void stub_event_waited_without_frame(uint64_t stream);

/* The position of the last frame of @link. */
uint64_t stub_event_position_on(struct stub_link *link);

/* Has a wait for all work of @stream (as the wire names it, of @ctx) succeeded whose
 * frame is behind @position? */
bool stub_event_is_waited(const struct stub_ctx *ctx, uint64_t stream,
                          uint64_t position);

/* May anything be answered from what is noted, here and now? */
bool stub_event_notes_hold(void);

/* The position of the event's last record; 0: not known.  Under send. */
uint64_t stub_event_recorded(uint64_t event);

/* Is it done?  *ret_recorded: the position of its record, for
 * stub_event_mark_done(). */
bool stub_event_is_done(CUevent event, uint64_t *ret_recorded);

/* The server has said that it is, unless it was recorded again meanwhile. */
void stub_event_mark_done(CUevent event, uint64_t recorded);

/* The event is about to be recorded in another way. */
void stub_event_unknown(CUevent event);

/* Must a record of @event in @of, a stream or a context (@kind), be answered?  If other
 * processes know the event, or if the driver refuses the record because @of is of
 * another context. */
bool stub_event_asks(CUevent event, uint32_t kind, uint64_t of);

/* From now on graphs may record events, each time that they are launched. */
void stub_event_in_graphs(void);

#endif
