/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant on its way to a client: a draft (sched_draft.h) of which a signing thread
 * makes tickets and a message, alone or among those of a batch (sched_renewed.h).
 *
 * Made and freed on the event loop's thread; its message is made on any thread.
 */
#ifndef SCHED_GRANT_H
#define SCHED_GRANT_H

#include "control.pb-c.h"
#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

/* The clocks of schedulers and servers may differ by this much. */
#define SCHED_CLOCK_SKEW_S 30

struct gp_err;
struct sched;
struct sched_draft;
struct sched_grant;
struct sched_grant_lists;
struct sched_session;

/* A grant of @session as it is now, the answer to @request.  @client_key: tickets are
 * for who has its secret; NULL: for anybody.  @keyed: with the lease key.  NULL: out of
 * memory. */
struct sched_grant *sched_grant_new(const struct sched *sched, uint32_t request,
                                    const struct sched_session *session,
                                    const uint8_t *client_key, bool keyed);
void sched_grant_free(struct sched_grant *grant);                 /* NULL is a no-op */
struct sched_draft *sched_grant_draft(struct sched_grant *grant); /* NULL: NULL */

/* Whether the holder of @session, whose newest tickets were made at @tickets_unix,
 * needs new ones. */
enum sched_due {
    SCHED_NOT_DUE,
    /* They end before the lease that begins now, the key is another, or a server has
     * registered since, perhaps with another address: now, or with the next renewal. */
    SCHED_DUE,
    SCHED_OVERDUE, /* they end before the next renewals */
};
enum sched_due sched_grant_due(const struct sched *sched,
                               const struct sched_session *session,
                               uint32_t tickets_unix);

/* Sign the tickets; @msg points to *ret_lists and to @grant.  As sched_draft.pack(). */
int sched_grant_message(const struct sched_grant *grant, Gpupool__Ctl__CtlGrant *msg,
                        struct sched_grant_lists **ret_lists, struct gp_err *err);
void sched_grant_lists_free(struct sched_grant_lists *lists); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_grant_lists, sched_grant_lists_free)

#endif
