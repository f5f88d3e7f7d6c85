/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection: a second connection to the worker of a link, for what host
 * functions send.
 *
 * A driver may hold a call back until a host function has returned.  The worker's
 * receive thread is in that call then, and a frame on the main connection that says
 * that the function has returned would not be read.  Another thread of the worker reads
 * this connection.
 *
 * A thread makes it when the first host function is registered, reads its replies, and
 * makes another one when it breaks.  Nobody waits for it but copies of graphs.  What
 * was sent and is not confirmed when it breaks is sent again over the next one, and
 * over the main one if that takes long; to say twice that a function has returned is
 * the same as once.
 *
 * One per link, for the life of the process; any thread.
 */
#ifndef STUB_CONTROL_H
#define STUB_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct stub_feature;
struct stub_link;

/* The link's connection has been replaced: this one may not know yet that it is broken
 * (stub_hooks.h). */
extern const struct stub_feature stub_control_feature;

/* A host function is about to be registered. */
void stub_control_want(struct stub_link *link);

/* False: there is none, and there will be none. */
bool stub_control_possible(struct stub_link *link);

/* Say that the function of @ticket has returned.  False: it has to be said over the
 * main connection, now. */
bool stub_control_done(struct stub_link *link, uint64_t ticket);

/* The number of the connection, from one on; waits for one that is being made.  0:
 * there is none, and there will be none. */
uint32_t stub_control_number(struct stub_link *link);

/* Fill a stage, or fetch from it (gp_stage_fill, gp_stage_read), over the connection of
 * that @number and no other: of what an earlier one has sent, nobody knows what came.
 * @n <= 32 KiB.  A fill waits for its confirmation, and that of the fills before it, if
 * it is the @last one.  -ECONNRESET: that connection has broken, and all has to be done
 * again over another one.  -EBADMSG: the worker refuses. */
int stub_control_fill(struct stub_link *link, uint32_t number, uint64_t ticket,
                      uint64_t token, uint64_t offset, const void *from, uint32_t n,
                      bool last);
int stub_control_fetch(struct stub_link *link, uint32_t number, uint64_t token,
                       uint64_t offset, void *to, uint32_t n);

/* For the child of a fork(): the socket, or -1.  Async-signal-safe. */
int stub_control_fd(const struct stub_link *link);

#endif
