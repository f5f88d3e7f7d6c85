/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for answers: the thread that waits reads the connection itself.
 *
 * At most one thread leads, that is, reads.  It deposits the answers of other calls
 * and wakes their threads; when its own answer is in, it keeps the reading end until
 * stub_call_end(), because the answer lies in the transport's buffer, and then hands
 * the lead to another waiter.  No thread exists only to read.  Each link has a lead of
 * its own; c->link, set before the call comes here, says which.
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

/* Before the frame can leave: its answer may be read by another thread at once.
 * @may_lead: if nobody reads, take the lead at once (c->leads), so that no other thread
 * needs to hear of the call.  Then the caller must not wait for anything but its answer
 * until stub_wait_step_back(), after which it is a call among others. */
void stub_wait_enter(struct stub_call *c, bool may_lead);
void stub_wait_step_back(struct stub_call *c);

/* Block until the answer is in; its result. */
CUresult stub_wait_for(struct stub_call *c);

/* The frame never left: forget the call. */
void stub_wait_cancel(struct stub_call *c);

/* Give up the lead, if @c has it. */
void stub_wait_leave(struct stub_call *c);

/* Wait, with a call that is never sent, until @ready() (called often, under a lock)
 * says that an event came; read the connection meanwhile if nobody else does.  @rest:
 * let others begin to, for the caller is in no hurry.  False: the link is dead. */
bool stub_wait_events(struct stub_call *c, bool (*ready)(const struct stub_call *c),
                      bool rest);

/* Make stub_wait_events() look at @ready() again.  @c stays valid for ever. */
void stub_wait_wake(struct stub_call *c);

/* The link is dead: remember it, and release every waiting call with an error.
 * @why goes to the log, once.  Takes wait; the caller may hold send. */
CUresult stub_link_lose(struct stub_link *link, const char *why);
/* The same where the transport has failed with @r (-errno): finds out why. */
CUresult stub_link_broken(struct stub_link *link, int r);

#endif
