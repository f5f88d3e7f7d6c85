/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event sender thread: sends the messages of host functions for threads of the
 * driver.
 *
 * Such a message must not overtake the payloads that a reply must not overtake either
 * (wrk_hooks.h).  Sending those requires calls of the driver, which a thread of the
 * driver may not make.  One per process, started at first use, never ended.
 */
#ifndef WRK_SENDER_H
#define WRK_SENDER_H

#include <stdbool.h>

struct wire_event_host_func;
struct wrk;
struct wrk_sender;

typedef bool wrk_sender_due(struct wrk *w, const struct wire_event_host_func *event);

/* Without its thread, which begins with the first event.  It lives as long as the
 * process.  -ENOMEM. */
int wrk_sender_new(struct wrk_sender **ret);

/* Send @event behind what it must not overtake, unless @due says, with the send lock
 * held, that it need not be any more; NULL: it always is.  Any thread. */
void wrk_sender_event(struct wrk *w, const struct wire_event_host_func *event,
                      wrk_sender_due *due);

#endif
