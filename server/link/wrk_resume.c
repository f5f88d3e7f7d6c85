/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_resume.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_lock.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_time.h"
#include "wire_format.h"
#include "wrk_conf.h"
#include "wrk_desk.h"
#include "wrk_priv.h"
#include "wrk_request.h"
#include "wrk_state.h"
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

static struct {
    struct gp_lock lock;
    struct wrk *worker;
    atomic_bool ending;
    int first_acks; /* -1 */
    int acks, fd;   /* of a new link; -1 */
    uint64_t received;
} links = {.first_acks = -1, .acks = -1, .fd = -1};

static void
keep(int *at, int fd)
{
    if (*at >= 0)
        close(*at);
    *at = fd;
}

/* What the supervisor has sent; under the lock. */
static void
collect(void)
{
    struct pollfd pending = {.fd = WRK_FD_LINK, .events = POLLIN};
    struct wrk_request msg;
    int fd;

    while (poll(&pending, 1, 0) == 1 &&
           wrk_request_recv(WRK_FD_LINK, &msg, &fd, MSG_DONTWAIT) == 0 && fd >= 0) {
        if (msg.kind == WRK_REQUEST_LINK) {
            keep(&links.fd, fd);
            links.received = msg.bytes;
        } else {
            keep(msg.own ? &links.acks : &links.first_acks, fd);
        }
    }
}

static int
take_first_acks(struct xport_conn *conn, struct xport_resume_link *ret)
{
    (void)conn;
    gp_lock_take(&links.lock);
    collect();
    ret->ack_fd = TAKE_FD(links.first_acks);
    gp_lock_release(&links.lock);
    return ret->ack_fd < 0 ? -EAGAIN : 0;
}

static bool
knocks(struct xport_conn *conn)
{
    bool here;

    (void)conn;
    gp_lock_take(&links.lock);
    collect();
    here = links.fd >= 0 && links.acks >= 0;
    gp_lock_release(&links.lock);
    return here;
}

/* A whole link, if one has come. */
static bool
take_link(struct xport_resume_link *ret)
{
    bool here;

    gp_lock_take(&links.lock);
    collect();
    here = links.fd >= 0 && links.acks >= 0;
    if (here)
        *ret = (struct xport_resume_link){.fd = TAKE_FD(links.fd),
                                          .ack_fd = TAKE_FD(links.acks),
                                          .received = links.received};
    gp_lock_release(&links.lock);
    return here;
}

/* Tell the client where we are; it goes on when it has heard so. */
static int
greet(const struct xport_resume_link *link, uint64_t received)
{
    Gpupool__AttachReply msg = GPUPOOL__ATTACH_REPLY__INIT;
    uint8_t bytes[64];

    msg.status = GPUPOOL__ATTACH_STATUS__ATTACH_OK;
    msg.wire_minor = WIRE_MINOR;
    msg.resume_received = received;
    return gp_msg_send(link->fd, bytes, gpupool__attach_reply__pack(&msg, bytes),
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
reconnect(struct xport_conn *conn, uint64_t received, struct xport_resume_link *ret)
{
    uint32_t seconds = links.worker->priv->conf.resume_s;
    uint64_t deadline = gp_now_ns() + seconds * GP_NS_PER_S;
    struct pollfd pending = {.fd = WRK_FD_LINK, .events = POLLIN};

    gp_log_info("worker", "the link is broken; waiting for another one");
    for (;;) {
        if (take_link(ret)) {
            if (greet(ret, received) == 0)
                return 0;
            close(ret->fd);
            close(ret->ack_fd);
            continue;
        }
        if (xport_resume_peer_gone(conn) || atomic_load(&links.ending))
            return -ECONNRESET;
        if (xport_error(conn) < 0)
            return xport_error(conn);
        if (gp_now_ns() >= deadline)
            return give_up(seconds);
        poll(&pending, 1, LOOK_MS);
    }
}

static const struct xport_resume_owner owner = {
    .reconnect = reconnect,
    .ack_link = take_first_acks,
    .knocks = knocks,
};

int
wrk_resume_open(struct wrk *w, int fd, struct xport_conn **ret, struct gp_err *err)
{
    links.worker = w;
    return xport_resume_new(fd, -1, WIRE_FRAME_MAX, &owner, ret, err);
}

void
wrk_resume_end(void)
{
    atomic_store(&links.ending, true);
}
