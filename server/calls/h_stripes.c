/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's further connections are put to use as stripes of its first one.
 */
#include "gp_err.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_stripes.h"
#include "wrk_supervisor_channel.h"
#include "xport.h"

#include <errno.h>
#include <string.h>

/* How many are in use: all of them, or none when another link has come meanwhile. */
static uint32_t
stripes_taken(struct wrk *w, uint32_t n, uint32_t round, uint32_t link)
{
    struct wrk_stripes stripes = {0};
    struct gp_err err = {0};
    int r = wrk_supervisor_stripes(round, n, &stripes);

    if (r < 0)
        gp_err_set(&err, r, "they did not arrive");
    else
        r = xport_stripes_add(w->priv->conn, stripes.fd, stripes.wire, n, link, &err);
    if (r < 0) {
        gp_log_at("worker", r == -ESTALE ? GP_LOG_INFO : GP_LOG_WARN,
                  "no further connections: %s", gp_err_msg(&err, r));
        wrk_stripes_fini(&stripes);
        return 0;
    }
    /* Those beyond @n. */
    memset(stripes.fd, 0, n * sizeof(stripes.fd[0]));
    memset(stripes.wire, 0, n * sizeof(stripes.wire[0]));
    wrk_stripes_fini(&stripes);
    return xport_stripes_use(w->priv->conn, link) < 0 ? 0 : n;
}

CUresult
h_gp_lanes(struct wrk *w, const struct wire_args_gp_lanes *a, struct wrk_reply *rep)
{
    struct wire_gp_lanes_rep *body = rep->body;

    if (a->n == 0 || a->n > XPORT_STRIPES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    body->taken = stripes_taken(w, a->n, 0, xport_stripes_link(w->priv->conn));
    return CUDA_SUCCESS;
}

CUresult
h_gp_stripes(struct wrk *w, const struct wire_args_gp_stripes *a, struct wrk_reply *rep)
{
    struct wire_gp_stripes_rep *body = rep->body;

    if (a->n == 0 || a->n > XPORT_STRIPES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    body->taken = stripes_taken(w, a->n, a->round, a->link);
    return CUDA_SUCCESS;
}
