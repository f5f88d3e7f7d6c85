/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of an attachment's transport, after a handshake over a plain socket.
 *
 *   Unix socket, client can shm     the rings follow the reply without negotiation
 *   TCP, client has RDMA            the worker listens at its RDMA ports; the client
 *                                   chooses one of them, or reports why it chose none
 *   otherwise                       the socket itself
 *
 * Main thread, while the attachment is set up; prepared before the sandbox closes.
 */
#ifndef WRK_LINK_H
#define WRK_LINK_H

#include "gp_base.h"
#include "wrk_rdma.h"
#include "xport.h"

struct gp_err;
struct gp_wire;
struct wrk;
struct wrk_conf;

struct wrk_link {
    const char *offer;         /* "shm", "rdma", or NULL: nothing but the socket */
    bool wakefds;              /* with shared memory */
    const uint8_t *parameters; /* of the offer, as in attach.proto */
    size_t parameters_len;
    char refusal[256]; /* why not what the client asked for */
    uint32_t payloads; /* what is offered, as in attach.proto */
    bool rereads;      /* the client knows XPORT_BLOCK_REREAD */
    struct wrk_rdma_offer rdma;
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    size_t n_ports;
    uint8_t cookie[XPORT_RDMA_COOKIE];
    struct gp_wire *wire; /* TLS of the client's socket; NULL: clear text */
};

/* Decide what to offer the client behind the socket @fd. */
void wrk_link_prepare(struct wrk_link *link, const struct wrk_conf *conf, int fd);

/* After the reply: open the connection that was chosen.  @fd belongs to *ret on
 * success. */
int wrk_link_open(struct wrk_link *link, struct wrk *w, int fd, struct xport_conn **ret,
                  struct gp_err *err);
void wrk_link_fini(struct wrk_link *link);

#endif
