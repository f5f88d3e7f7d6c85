/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant on its way to a client: what the scheduler decided, as plain values, until a
 * signing thread makes tickets and the message of it.
 *
 * Nothing in it points to a session, a server or a card, which change or end
 * meanwhile.  Made and freed on the event loop's thread; sched_grant_pack() runs on any
 * thread, and whoever runs it has the grant alone.
 */
#ifndef SCHED_GRANT_H
#define SCHED_GRANT_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct sched;
struct sched_grant;
struct sched_session;

/* A grant of @session as it is now, the answer to @request.  @client_key: tickets are
 * for who has its secret; NULL: for anybody.  @keyed: with the lease key.  NULL: out of
 * memory. */
struct sched_grant *sched_grant_new(const struct sched *sched, uint32_t request,
                                    const struct sched_session *session,
                                    const uint8_t *client_key, bool keyed);
void sched_grant_free(struct sched_grant *grant); /* NULL is a no-op */

const char *sched_grant_name(const struct sched_grant *grant); /* "s7" */

/* Sign the tickets and pack the CtlReply; *ret is the caller's, free().  -EINVAL: a
 * claim that no ticket may have; -EIO: libcrypto does not sign. */
int sched_grant_pack(const struct sched_grant *grant, uint8_t **ret, size_t *ret_size,
                     struct gp_err *err);

#endif
