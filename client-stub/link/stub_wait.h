/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for replies: the thread that waits reads the connection itself.
 *
 * At most one thread of a link leads, that is, reads.  It stores the replies of other
 * calls and wakes their threads.  When its own reply has come, it keeps the reading end
 * until stub_call_end(), because the reply is in the transport's buffer, and then hands
 * the lead to another waiter.  No thread exists only to read.  c->link, set before
 * these functions are called, says which link.
 */
#ifndef STUB_WAIT_H
#define STUB_WAIT_H

#include "cuda_abi.h"

#include <stdbool.h>

struct stub_call;
struct stub_link;

enum stub_call_state {
    STUB_CALL_PENDING,
    STUB_CALL_CALLED, /* woken to take the lead */
    STUB_CALL_DONE,
};

/* Enters the list of waiting calls.  To be called before the frame can be sent,
 * because another thread may read its reply at once.  @may_lead: if no thread reads,
 * take the lead at once (c->leads) and stay out of the list.  The caller must then
 * wait for nothing but its reply until stub_wait_step_back(), which makes it a call
 * like the others. */
void stub_wait_enter(struct stub_call *c, bool may_lead);
void stub_wait_step_back(struct stub_call *c);

/* Block until the reply is there; its result. */
CUresult stub_wait_for(struct stub_call *c);

/* The frame was not sent: remove the call from the list. */
void stub_wait_cancel(struct stub_call *c);

/* Give up the lead, if @c has it. */
void stub_wait_leave(struct stub_call *c);

/* Wait, with a call that is never sent, until @ready() (called often, under a lock)
 * returns true after a message has come; read the connection meanwhile if no other
 * thread does.  @rest: let other threads read first, because this one is in no
 * hurry.  False: the link is dead. */
bool stub_wait_events(struct stub_call *c, bool (*ready)(const struct stub_call *c),
                      bool rest);

/* Make stub_wait_events() call @ready() again.  @c stays valid for ever. */
void stub_wait_wake(struct stub_call *c);

/* Mark the link dead, and fail every waiting call.  @why is logged, once.  Takes
 * wait; the caller may hold send. */
CUresult stub_link_lose(struct stub_link *link, const char *why);
/* The same where the transport has failed with @r (-errno): finds out why. */
CUresult stub_link_broken(struct stub_link *link, int r);

#endif
