/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of the control connection; see wrk_control.h. */
#include "wrk_control.h"

#include "wire_api.h"
#include "wrk.h"
#include "wrk_graph_hostmem.h"
#include "wrk_hostfn.h"
#include "xport.h"

#include <string.h>

/* What gp_stage_read may ask for (proto/api). */
#define READ_MAX 32768u

/* Room for the reply's body; NULL: the connection has ended. */
static void *
reply_begin(struct xport_conn *conn, const struct wire_req *req, uint32_t body_size,
            CUresult r)
{
    uint32_t size = (uint32_t)sizeof(struct wire_rep) + body_size;
    struct wire_rep *rep = xport_reserve(conn, size);

    if (!rep)
        return NULL;
    *rep = (struct wire_rep){.size = size,
                             .call = req->call,
                             .flags = r == CUDA_SUCCESS ? 0 : WIRE_F_ERROR,
                             .seq = req->seq,
                             .result = (int32_t)r};
    return rep + 1;
}

static void
reply_end(struct xport_conn *conn, uint32_t body_size)
{
    xport_commit(conn, (uint32_t)sizeof(struct wire_rep) + body_size);
    xport_flush(conn); /* an error is sticky: the next receive returns it */
}

static void
reply_result(struct xport_conn *conn, const struct wire_req *req, CUresult r)
{
    if (reply_begin(conn, req, 0, r))
        reply_end(conn, 0);
}

static const char *
run_done(struct wrk *w, struct xport_conn *conn, const struct wire_req *req,
         size_t body_size)
{
    struct wire_gp_host_done_req_view view;

    if (!wire_gp_host_done_req_open(&view, req + 1, body_size, req->flags))
        return "gp_host_done: malformed body";
    wrk_hostfn_done(w, view.f->ticket);
    if (req->flags & WIRE_F_REPLY)
        reply_result(conn, req, CUDA_SUCCESS);
    return NULL;
}

static const char *
run_fill(struct wrk *w, struct xport_conn *conn, const struct wire_req *req,
         size_t body_size)
{
    struct wire_gp_stage_fill_req_view view;
    bool ok;

    if (!wire_gp_stage_fill_req_open(&view, req + 1, body_size, req->flags))
        return "gp_stage_fill: malformed body";
    ok = wrk_graph_hostmem_fill(w, view.f->ticket, view.f->token, view.f->offset,
                                view.data, view.f->n);
    if (req->flags & WIRE_F_REPLY)
        reply_result(conn, req, ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    return ok ? NULL : "gp_stage_fill: outside of the stage";
}

static const char *
run_read(struct wrk *w, struct xport_conn *conn, const struct wire_req *req,
         size_t body_size)
{
    struct wire_gp_stage_read_req_view view;
    struct wire_gp_stage_read_rep fixed;
    struct wire_gp_stage_read_rep_room room;
    uint8_t piece[READ_MAX];
    uint32_t size;
    void *body;

    if (!wire_gp_stage_read_req_open(&view, req + 1, body_size, req->flags))
        return "gp_stage_read: malformed body";
    wrk_hostfns_see(w->priv->hosts);
    fixed = (struct wire_gp_stage_read_rep){.len = view.f->n};
    if (view.f->n > READ_MAX ||
        !wrk_graph_hostmem_read(view.f->token, view.f->offset, piece, view.f->n)) {
        reply_result(conn, req, CUDA_ERROR_INVALID_VALUE);
        return NULL;
    }
    size = wire_gp_stage_read_rep_size(&fixed);
    body = reply_begin(conn, req, size, CUDA_SUCCESS);
    if (!body)
        return NULL;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_stage_read_rep_place(&room, body);
    if (room.data)
        memcpy(room.data, piece, view.f->n);
    reply_end(conn, size);
    return NULL;
}

const char *
wrk_control_execute(struct wrk *w, struct xport_conn *conn, const void *frame,
                    uint32_t size, uint32_t seq)
{
    const struct wire_req *req = frame;

    if (size < sizeof(*req))
        return "shorter than a header";
    if (req->seq != seq)
        return "out of order";
    if (req->flags & ~WIRE_F_REPLY)
        return "unknown flags";
    switch (req->call) {
    case WIRE_CALL_gp_host_done:
        return run_done(w, conn, req, size - sizeof(*req));
    case WIRE_CALL_gp_stage_fill:
        return run_fill(w, conn, req, size - sizeof(*req));
    case WIRE_CALL_gp_stage_read:
        return run_read(w, conn, req, size - sizeof(*req));
    default:
        return "a call that does not belong on this connection";
    }
}
