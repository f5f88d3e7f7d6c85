/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a link that is replaced (xport_resume.h).
 *
 *   GPUPOOL_RESUME=TIME      how long a broken link may stay broken, XPORT_RESUME_S
 *                            unless it is set; 0: not at all
 *
 * Each connection is made as the first one was, through TLS or in clear text.
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
struct stub_secure;
struct xport_conn;

/* GPUPOOL_RESUME, as the attach request wants it. */
uint32_t stub_resume_seconds(void);

/* The server at @address, spoken to with @tls, has agreed to it: a connection over @fd,
 * which it owns on success.  @key: of the attachment, if it was proven; NULL: the
 * reply's. */
int stub_resume_open(const char *address, const struct stub_secure *tls,
                     const uint8_t *key, const struct Gpupool__AttachReply *reply,
                     int fd, struct xport_conn **ret, struct gp_err *err);

/* The same for the RDMA connection @rdma, which goes on over TCP then and looks for a
 * way back (stub_rdma.h); it is owned on success. */
int stub_resume_open_rdma(const char *address, const struct stub_secure *tls,
                          const uint8_t *key, const struct Gpupool__AttachReply *reply,
                          struct xport_conn *rdma, struct xport_conn **ret,
                          struct gp_err *err);

/* RDMA was offered and is not used: a server that replaces only TCP must know. */
void stub_resume_tell(struct xport_conn *conn);

/* The process ends: the log (level info) says how often the link was replaced and how
 * much was sent again for that. */
void stub_resume_end(struct xport_conn *conn);

#endif
