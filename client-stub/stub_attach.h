/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attach handshake: find the server, show the ticket, get the snapshot, agree on a
 * transport.
 *
 *   GPUPOOL_TRANSPORT=auto|tcp|shm
 *
 * auto takes shared memory where the server is on this host and both want it, else the
 * socket of the handshake.  Used once, by stub_link.c.
 */
#ifndef STUB_ATTACH_H
#define STUB_ATTACH_H

struct Gpupool__AttachReply;
struct gp_err;
struct stub_session;
struct xport_conn;

/* All of it must be done within this time. */
#define STUB_ATTACH_SECONDS 5

struct stub_attach {
    const struct Gpupool__AttachReply *reply; /* kept for ever */
    struct xport_conn *conn;
    const char *address; /* which of the session's addresses answered */
    int status;          /* enum AttachStatus when the server refused */
};

/* -errno: no server, a refusal, or nonsense; nothing is owned then. */
int stub_attach(const struct stub_session *session, struct stub_attach *ret,
                struct gp_err *err);

#endif
