/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_control.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_wire.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_conf.h"
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

struct control {
    struct wrk *w;
    int wake;                /* eventfd: a connection was collected, or is needed */
    bool listens;            /* nobody else reads WRK_FD_LINK */
    struct xport_conn *conn; /* NULL: none now */
    uint32_t seq;            /* of its last frame */
};

static void
control_close(struct control *c)
{
    if (!c->conn)
        return;
    xport_free(TAKE_PTR(c->conn));
    c->seq = 0;
    wrk_hostfns_unsaid(c->w);
}

/* The client uses the connection only behind this: the supervisor's word is no proof
 * that it has arrived here. */
static void
control_greet(struct xport_conn *conn)
{
    struct wire_rep *rep = xport_reserve(conn, sizeof(*rep));

    if (!rep)
        return;
    *rep = (struct wire_rep){.size = sizeof(*rep), .call = WIRE_CALL_gp_ping};
    xport_commit(conn, sizeof(*rep));
    xport_flush(conn); /* an error is sticky: the next receive returns it */
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
        return;
    }
    control_greet(c->conn);
}

static void
control_say(void *arg, const struct wire_event_host_urgent *event)
{
    struct xport_conn *conn = arg;
    struct wire_rep *rep = xport_reserve(conn, sizeof(*rep) + sizeof(*event));

    if (!rep)
        return;
    *rep = (struct wire_rep){.size = sizeof(*rep) + sizeof(*event),
                             .call = WIRE_EVENT_HOST_URGENT,
                             .flags = WIRE_F_EVENT};
    memcpy(rep + 1, event, sizeof(*event));
    xport_commit(conn, rep->size);
    xport_flush(conn); /* an error is sticky: the next receive returns it */
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
            wrk_hostfns_say(c->w->priv->hosts, control_say, c->conn);
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
