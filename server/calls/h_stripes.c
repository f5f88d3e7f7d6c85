/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's further connections are put to use as stripes of its first one.
 */
#include "gp_err.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_supervisor_channel.h"
#include "xport.h"

CUresult
h_gp_lanes(struct wrk *w, const struct wire_args_gp_lanes *a, struct wrk_reply *rep)
{
    struct wire_gp_lanes_rep *body = rep->body;
    struct gp_err err = {0};
    struct gp_wire **wires;
    int *fds;

    if (a->n == 0 || a->n > XPORT_STRIPES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    fds = wrk_supervisor_stripes(a->n, &wires);
    if (!fds || xport_stripes_add(w->priv->conn, fds, wires, a->n, &err) < 0) {
        gp_log_warn("worker", "no further connections: %s",
                    err.code ? err.msg : "they did not arrive");
        return CUDA_SUCCESS;
    }
    xport_stripes_use(w->priv->conn);
    body->taken = a->n;
    return CUDA_SUCCESS;
}
