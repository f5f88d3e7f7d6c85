/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a link that is replaced (xport_resume.h).
 *
 *   GPUPOOL_RESUME=SECONDS   how long a broken link may stay broken; 0 (default): not
 * at all
 *
 * The thread that notices makes the new link, the others wait.  It goes on trying until
 * the time is over or the server says that the attachment is no more; a server whose
 * host refuses connections for two seconds counts as gone, because workers end with
 * their server.
 */
#ifndef STUB_RESUME_H
#define STUB_RESUME_H

#include <stdint.h>

struct Gpupool__AttachReply;
struct gp_err;
struct xport_conn;

/* GPUPOOL_RESUME, as the attach request wants it. */
uint32_t stub_resume_seconds(void);

/* The server at @address has agreed to it: a connection over @fd, which it owns on
 * success.  @key: of the attachment, if it was proven; NULL: the reply's. */
int stub_resume_open(const char *address, const uint8_t *key,
                     const struct Gpupool__AttachReply *reply, int fd,
                     uint64_t deadline, struct xport_conn **ret, struct gp_err *err);

#endif
