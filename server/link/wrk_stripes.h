/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further connections of the client on their way from the supervisor's channel
 * (wrk_supervisor_channel.h) to the transport, in order, each with its TLS.
 */
#ifndef WRK_STRIPES_H
#define WRK_STRIPES_H

#include "xport_conn.h"

#include <stdint.h>

struct wrk_stripes {
    uint32_t n;
    int fd[XPORT_STRIPES_MAX]; /* 0: none */
    struct gp_wire *wire[XPORT_STRIPES_MAX];
};

/* Those that are still here are closed. */
void wrk_stripes_fini(struct wrk_stripes *stripes);

#endif
