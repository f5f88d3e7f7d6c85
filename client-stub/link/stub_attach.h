/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attach handshake: find the server, show the ticket, get the snapshot, agree on a
 * transport.
 *
 *   GPUPOOL_TRANSPORT=auto|tcp|shm|rdma
 *   GPUPOOL_COMPRESS=auto|off|always
 *
 * auto takes shared memory where the server is on this host and both want it, else the
 * socket of the handshake.  Used once per server, by stub_link.c.
 */
#ifndef STUB_ATTACH_H
#define STUB_ATTACH_H

#include "attach_proof.h"
#include "stub_secure.h"

#include <stdbool.h>
#include <stdint.h>

struct Gpupool__AttachReply;
struct gp_err;
struct stub_server;
struct xport_conn;

/* Within this time the server must have looked at the ticket, and, if
 * GPUPOOL_ATTACH_SECONDS says so, all of it must be done. */
#define STUB_ATTACH_SECONDS 5
/* After that a server that is there may take so long: it starts workers one after the
 * other when many clients come at once. */
#define STUB_ATTACH_QUEUE_SECONDS 60

struct stub_attach {
    /* What is sent: which of how many links this is, and how many devices the links
     * before it have. */
    uint32_t links;
    uint32_t link;
    uint32_t device_base;
    uint32_t payloads;    /* set here; values as in attach.proto */
    uint32_t resume_s;    /* set here: seconds to resume in, 0: never */
    const char *secret;   /* what the ticket is bound to, or NULL */
    uint64_t deadline_ns; /* set here: of the handshake under way */
    /* The outcome. */
    const struct Gpupool__AttachReply *reply; /* kept for ever */
    struct xport_conn *conn;
    bool proven; /* @key is the attachment's, and cookies are made from it */
    uint8_t key[ATTACH_KEY_SIZE];
    struct stub_secure tls;
    const char *address; /* which of the server's addresses answered */
    int status;          /* enum AttachStatus when the server refused */
};

/* -errno: no server, a refusal, or nonsense; nothing is owned then. */
int stub_attach(const struct stub_server *server, struct stub_attach *at,
                struct gp_err *err);

#endif
