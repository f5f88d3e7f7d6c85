/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offering RDMA to the client: listening at the ports of this host, and what the client
 * makes of that.
 *
 * For the first link all ports are looked for, which opens sockets and so has to happen
 * before the sandbox closes; for one that replaces another the same addresses are taken
 * again.  Whoever replaces a link does so alone; no locks here.
 */
#ifndef WRK_RDMA_H
#define WRK_RDMA_H

#include "xport.h"

struct gp_err;
struct gp_wire;

struct wrk_rdma_offer {
    struct xport_rdma_listener *listener; /* NULL: none */
    uint8_t parameters[1536];             /* an AttachRdma */
    size_t parameters_len;
};

/* Listen at the @n @ports.  @cookie, which may be NULL, is told to the client. */
int wrk_rdma_listen(struct xport_rdma_port *ports, size_t n, const uint8_t *cookie,
                    struct wrk_rdma_offer *ret, struct gp_err *err);
void wrk_rdma_offer_fini(struct wrk_rdma_offer *offer);

/* What the client goes on with, and why not RDMA if that. */
int wrk_rdma_choice(struct gp_wire *wire, int fd, bool *ret_rdma, char why[256],
                    struct gp_err *err);

#endif
