/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for tests of gangs, beside those of ut_sched.h.
 */
#ifndef UT_GANG_H
#define UT_GANG_H

#include "ut_sched.h"

/* A request of ada@host that is one of @size members. */
Gpupool__Ctl__CtlOpen ut_gang_member(const char *gang, uint32_t size, uint32_t core);
/* Ask, and do not wait for the answer. */
void ut_gang_post(int fd, Gpupool__Ctl__CtlOpen open);
/* Ask; it waits, for @reason. */
void ut_gang_waits(int fd, Gpupool__Ctl__CtlOpen open, const char *reason);
/* The grant that comes after all news; the caller drops it. */
reply_t *ut_gang_granted(int fd);
/* How many requests wait, and why the first does (@reason may be NULL). */
uint32_t ut_gang_waiting(const struct world *w, char *reason, size_t size);
void ut_gang_await_waiting(const struct world *w, uint32_t n);
/* A session ends, and its server reports that @other runs, if not 0. */
void ut_gang_finish(int server, int client, const Gpupool__Ctl__CtlGrant *grant,
                    uint64_t other);
/* The scheduler starts again, with a file of @rules. */
void ut_gang_start_with(struct world *w, const char *rules);

#endif
