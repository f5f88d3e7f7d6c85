/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_control.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_wire.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_conf.h"
#include "wrk_graph_hostmem.h"
#include "wrk_hostfn.h"
#include "wrk_resume.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What gp_stage_read may ask for (proto/api). */
#define READ_MAX 32768u

struct control {
    struct wrk *w;
    int wake;                /* eventfd: somebody else has collected a connection */
    bool listens;            /* nobody else reads WRK_FD_LINK */
    struct xport_conn *conn; /* NULL: none now */
    uint32_t seq;            /* of its last frame */
};

/* ---- frames ------------------------------------------------------------------- */

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
run_read(struct xport_conn *conn, const struct wire_req *req, size_t body_size)
{
    struct wire_gp_stage_read_req_view view;
    struct wire_gp_stage_read_rep fixed;
    struct wire_gp_stage_read_rep_room room;
    uint8_t piece[READ_MAX];
    uint32_t size;
    void *body;

    if (!wire_gp_stage_read_req_open(&view, req + 1, body_size, req->flags))
        return "gp_stage_read: malformed body";
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
        return run_read(conn, req, size - sizeof(*req));
    default:
        return "a call that does not belong on this connection";
    }
}

/* ---- the thread ---------------------------------------------------------------- */

static void
control_close(struct control *c)
{
    xport_free(TAKE_PTR(c->conn));
    c->seq = 0;
}

/* The client has made another connection, so the one before is of no use to it. */
static void
control_renew(struct control *c)
{
    CLEANUP(gp_wire_freep) struct gp_wire *wire = NULL;
    struct gp_err err = {0};
    int fd, r;

    if (!wrk_resume_take_control(&fd, &wire))
        return;
    control_close(c);
    r = xport_tcp_new(fd, WRK_CONTROL_FRAME_MAX, &c->conn, &err);
    if (r < 0)
        close(fd);
    else if (wire)
        r = xport_wire_start(c->conn, TAKE_PTR(wire), &err);
    if (r < 0) {
        gp_log_warn("worker", "a control connection cannot be used: %s",
                    gp_err_msg(&err, r));
        control_close(c);
    }
}

/* Execute what has come. */
static void
control_serve(struct control *c)
{
    const char *bad = NULL;
    const void *frame;
    uint32_t size;
    int r = 0;

    while (!bad && (r = xport_recv(c->conn, &frame, &size, 0)) == 0)
        bad = wrk_control_execute(c->w, c->conn, frame, size, ++c->seq);
    if (bad || r == -EPROTO)
        gp_log_error("frame", "control connection: %s; it ends",
                     bad ? bad : "a frame of a length that no frame may have");
    if (bad || r != -EAGAIN)
        control_close(c);
}

static void
control_wait(struct control *c)
{
    struct pollfd fds[] = {{.fd = c->wake, .events = POLLIN},
                           {.fd = c->listens ? WRK_FD_LINK : -1, .events = POLLIN},
                           {.fd = c->conn ? c->conn->fd : -1, .events = POLLIN}};
    uint64_t count;

    if (poll(fds, ARRAY_SIZE(fds), -1) <= 0)
        return;
    if (fds[1].revents & ~POLLIN) /* its end would be announced again and again */
        c->listens = false;
    if (fds[0].revents && read(c->wake, &count, sizeof(count)) < 0)
        return; /* cannot be */
}

static void *
control_main(void *arg)
{
    struct control *c = arg;

    for (;;) {
        control_renew(c);
        if (c->conn)
            control_serve(c);
        control_wait(c);
    }
    return NULL;
}

void
wrk_control_want(struct wrk *w)
{
    static struct control control = {.wake = -1};
    static bool started;
    pthread_t thread;

    if (started || !w->priv->conf.control)
        return;
    started = true; /* without a thread or a descriptor the main connection must do */
    control.w = w;
    /* Where links are replaced others read it, and write to `wake`. */
    control.listens = !xport_resumes(w->priv->conn);
    control.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control.wake < 0)
        return;
    wrk_resume_control_wake(control.wake);
    if (pthread_create(&thread, NULL, control_main, &control) != 0)
        gp_log_warn("worker", "no thread for the control connection");
    else
        pthread_detach(thread);
}
