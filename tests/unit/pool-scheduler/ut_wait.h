/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a client that waits for room, beside those of ut_sched.h.
 *
 * Every function fails the test when the scheduler does not answer as it must.  A reply
 * belongs to the caller, who drops it.
 */
#ifndef UT_WAIT_H
#define UT_WAIT_H

#include "ut_sched.h"

Gpupool__Ctl__CtlOpen ut_wait_preference(const char *owner, uint32_t core);
/* Open and expect a place in the queue; the caller drops the reply. */
reply_t *ut_wait_queued(int fd, Gpupool__Ctl__CtlOpen open);
void ut_wait_says(const char *words, const char *part);
/* What comes after all news of the queue; the caller drops it. */
reply_t *ut_wait_outcome(int fd);
void ut_wait_granted(int fd);
/* A session ends, and its server has no workers of it. */
void ut_wait_finish(int server, int client, const Gpupool__Ctl__CtlGrant *grant);
reply_t *ut_wait_ask_queue(const struct world *w);

#endif
