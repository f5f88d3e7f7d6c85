/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event sender thread: sends the events of host functions when the thread that has
 * them may not.
 *
 * An event must not overtake what a reply must not overtake either (wrk_hooks.h), and
 * to send that the driver has to be asked, which a thread of the driver may not do.
 * Started at first use, one per process, never ended.
 */
#ifndef WRK_SENDER_H
#define WRK_SENDER_H

struct wire_event_host_func;
struct wrk;
struct wrk_sender;

int wrk_sender_new(struct wrk_sender **ret);

/* Send @event behind what it must not overtake.  Any thread. */
void wrk_sender_event(struct wrk *w, const struct wire_event_host_func *event);

#endif
