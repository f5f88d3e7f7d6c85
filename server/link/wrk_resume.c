/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_resume.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "wire_format.h"
#include "wrk_conf.h"
#include "wrk_desk.h"
#include "wrk_priv.h"
#include "wrk_request.h"
#include "wrk_state.h"
#include "wrk_tls.h"
#include "wrk_transport.h"
#include "xport.h"
#include "xport_resume.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often to see, while there is no link, whether the attachment ends. */
#define LOOK_MS 50
#define REPLY_NS GP_NS_PER_S

/* A connection that the supervisor has sent. */
struct arrived {
    int fd;          /* -1: none */
    uint32_t number; /* of the link */
    struct xport_resume_have peer;
    struct tls_keys tls;
};

static struct {
    struct gp_lock lock;
    struct wrk *worker;
    atomic_bool ending;
    atomic_bool rdma; /* the link in use is */
    uint32_t number;  /* of the link in use */
    struct arrived acks, link;
} links = {.acks.fd = -1, .link.fd = -1};

/* What the supervisor has sent; under the lock. */
static void
collect(void)
{
    struct pollfd pending = {.fd = WRK_FD_LINK, .events = POLLIN};
    struct wrk_request msg;
    int fd;

    while (poll(&pending, 1, 0) == 1 &&
           wrk_request_recv(WRK_FD_LINK, &msg, &fd, MSG_DONTWAIT) == 0 && fd >= 0) {
        struct arrived *at = msg.kind == WRK_REQUEST_LINK ? &links.link : &links.acks;

        if (at->fd >= 0)
            close(at->fd);
        *at = (struct arrived){
            fd, msg.own, {msg.bytes, msg.striped, msg.striped_sent}, msg.tls};
    }
}

/* Its socket and its layer; false: none, or none that can be used. */
static bool
take(struct arrived *at, int *ret_fd, struct gp_wire **ret_wire)
{
    struct gp_err err = {0};
    int r;

    if (at->fd < 0)
        return false;
    r = wrk_tls_layer(&at->tls, ret_wire, &err);
    explicit_bzero(&at->tls, sizeof(at->tls));
    *ret_fd = TAKE_FD(at->fd);
    if (r == 0)
        return true;
    gp_log_warn("worker", "a connection cannot be used: %s", gp_err_msg(&err, r));
    close(TAKE_FD(*ret_fd));
    return false;
}

static int
take_acks(struct xport_conn *conn, struct xport_resume_link *ret)
{
    bool here;

    (void)conn;
    gp_lock_take(&links.lock);
    collect();
    here = links.acks.number == links.number &&
           take(&links.acks, &ret->ack_fd, &ret->ack_wire);
    gp_lock_release(&links.lock);
    return here ? 0 : -EAGAIN;
}

static bool
knocks(struct xport_conn *conn)
{
    bool here;

    (void)conn;
    gp_lock_take(&links.lock);
    collect();
    here = links.link.fd >= 0;
    gp_lock_release(&links.lock);
    return here;
}

static bool
take_link(struct xport_resume_link *ret)
{
    bool here;

    gp_lock_take(&links.lock);
    collect();
    *ret = (struct xport_resume_link){
        .number = links.link.number, .ack_fd = -1, .peer = links.link.peer};
    here = take(&links.link, &ret->fd, &ret->wire);
    if (here)
        links.number = links.link.number;
    gp_lock_release(&links.lock);
    return here;
}

/* Tell the client where we are; it goes on when it has heard so. */
static int
greet(const struct xport_resume_link *link, const struct xport_resume_have *have)
{
    Gpupool__AttachReply msg = GPUPOOL__ATTACH_REPLY__INIT;
    uint8_t bytes[64];

    msg.status = GPUPOOL__ATTACH_STATUS__ATTACH_OK;
    msg.wire_minor = WIRE_MINOR;
    msg.resume_received = have->received;
    msg.resume_striped = have->striped;
    msg.resume_striped_sent = have->striped_sent;
    return gp_msg_send_over(link->wire, link->fd, bytes,
                            gpupool__attach_reply__pack(&msg, bytes),
                            gp_now_ns() + REPLY_NS, NULL);
}

/* Nobody has come. */
static int
give_up(uint32_t seconds)
{
    char *words = links.worker->priv->desks->desk->last_word;

    snprintf(words, WRK_ENDING_MAX, "its client did not come back within %u s",
             seconds);
    gp_log_warn("worker", "%s", words);
    return -ETIME;
}

static int
reconnect(struct xport_conn *conn, const struct xport_resume_have *have,
          struct xport_resume_link *ret)
{
    uint32_t seconds = links.worker->priv->conf.resume_s;
    uint64_t deadline = gp_now_ns() + seconds * GP_NS_PER_S;
    struct pollfd pending = {.fd = WRK_FD_LINK, .events = POLLIN};

    gp_log_info("worker", "the link is broken; waiting for another one");
    for (;;) {
        if (take_link(ret)) {
            if (greet(ret, have) == 0)
                return 0;
            close(ret->fd);
            gp_wire_free(ret->wire);
            continue;
        }
        if (atomic_load(&links.ending))
            return -ECONNRESET;
        if (xport_error(conn) < 0)
            return xport_error(conn);
        if (gp_now_ns() >= deadline)
            return give_up(seconds);
        poll(&pending, 1, LOOK_MS);
    }
}

/* The first link may have been RDMA. */
static void
replaced(struct xport_conn *conn)
{
    if (atomic_exchange(&links.rdma, false))
        gp_log_info("worker", "the link over RDMA broke; going on over TCP");
    wrk_transport_note(links.worker, conn);
}

static const struct xport_resume_owner owner = {
    .reconnect = reconnect,
    .ack_link = take_acks,
    .knocks = knocks,
    .replaced = replaced,
};

int
wrk_resume_open(struct wrk *w, int fd, struct xport_conn **ret, struct gp_err *err)
{
    links.worker = w;
    return xport_resume_new(fd, -1, WIRE_FRAME_MAX, &owner, ret, err);
}

int
wrk_resume_open_rdma(struct wrk *w, struct xport_conn *rdma, struct xport_conn **ret,
                     struct gp_err *err)
{
    int r;

    links.worker = w;
    atomic_store(&links.rdma, true);
    r = xport_resume_new_rdma(rdma, &owner, ret, err);
    if (r < 0)
        xport_free(rdma);
    return r;
}

void
wrk_resume_end(void)
{
    atomic_store(&links.ending, true);
}
