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
#include "wrk_hooks.h"
#include "wrk_priv.h"
#include "wrk_rdma.h"
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
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often to see, while there is no link, whether the attachment ends. */
#define LOOK_MS 50
#define REPLY_NS GP_NS_PER_S
/* For the client to come over RDMA; it gives up before, and says so. */
#define RDMA_NS (10 * GP_NS_PER_S)

/* A connection that the supervisor has sent. */
struct arrived {
    int fd;          /* -1: none */
    uint32_t number; /* of the link */
    bool rdma;       /* it may be RDMA */
    uint8_t cookie[XPORT_RDMA_COOKIE];
    struct xport_resume_have peer;
    struct tls_keys tls;
};

static struct {
    struct gp_lock lock;
    struct wrk *worker;
    atomic_bool ending;
    atomic_bool replaced; /* for wrk_resume_was_replaced() */
    atomic_bool rdma;     /* the link in use is */
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX]; /* of one that began over it */
    size_t n_ports;
    uint32_t number; /* of the link in use */
    struct arrived acks, link, control;
    int link_wake;    /* eventfd: a link has come, whoever has read so; -1: none */
    int control_wake; /* eventfd: its thread has to look; -1: none */
} links = {.acks.fd = -1,
           .link.fd = -1,
           .control.fd = -1,
           .link_wake = -1,
           .control_wake = -1};

/* Where a message of the supervisor goes; NULL: it is of a newer one. */
static struct arrived *
place_of(uint32_t kind)
{
    switch (kind) {
    case WRK_REQUEST_LINK:
        return &links.link;
    case WRK_REQUEST_ACKS:
        return &links.acks;
    case WRK_REQUEST_CONTROL:
        return &links.control;
    default:
        return NULL;
    }
}

static void
tell(int eventfd)
{
    static const uint64_t one = 1;

    if (eventfd >= 0 && write(eventfd, &one, sizeof(one)) < 0)
        gp_log_debug("worker", "an eventfd is full"); /* so it wakes its reader */
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
        struct arrived *at = place_of(msg.kind);

        if (!at) {
            close(fd);
            continue;
        }
        if (at->fd >= 0)
            close(at->fd);
        *at = (struct arrived){.fd = fd,
                               .number = msg.own,
                               .rdma = msg.slice == 1,
                               .peer = {msg.bytes, msg.striped, msg.striped_sent},
                               .tls = msg.tls};
        memcpy(at->cookie, msg.secret, sizeof(at->cookie));
        if (at == &links.link)
            tell(links.link_wake);
        if (at == &links.control)
            tell(links.control_wake);
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

/* *ret_rdma: may it be RDMA, to who shows @cookie? */
static bool
take_link(struct xport_resume_link *ret, bool *ret_rdma,
          uint8_t cookie[XPORT_RDMA_COOKIE])
{
    bool here;

    gp_lock_take(&links.lock);
    collect();
    *ret = (struct xport_resume_link){
        .number = links.link.number, .ack_fd = -1, .peer = links.link.peer};
    *ret_rdma = links.link.rdma && links.n_ports;
    memcpy(cookie, links.link.cookie, XPORT_RDMA_COOKIE);
    here = take(&links.link, &ret->fd, &ret->wire);
    if (here)
        links.number = links.link.number;
    gp_lock_release(&links.lock);
    return here;
}

/* Tell the client where we are, and what it may go on with; it goes on when it has
 * heard so. */
static int
greet(const struct xport_resume_link *link, const struct xport_resume_have *have,
      struct wrk_rdma_offer *offer, char *refusal)
{
    Gpupool__AttachReply msg = GPUPOOL__ATTACH_REPLY__INIT;
    Gpupool__AttachTransport rdma = GPUPOOL__ATTACH_TRANSPORT__INIT;
    Gpupool__AttachTransport *transports[] = {&rdma};
    uint8_t bytes[64 + sizeof(offer->parameters) + sizeof(((struct gp_err *)0)->msg)];

    msg.status = GPUPOOL__ATTACH_STATUS__ATTACH_OK;
    msg.wire_minor = WIRE_MINOR;
    msg.resume_received = have->received;
    msg.resume_striped = have->striped;
    msg.resume_striped_sent = have->striped_sent;
    rdma.name = (char *)(uintptr_t) "rdma";
    rdma.parameters.data = offer->parameters;
    rdma.parameters.len = offer->parameters_len;
    msg.transports = transports;
    msg.n_transports = offer->listener != NULL;
    msg.refusals = &refusal;
    msg.n_refusals = refusal[0] != '\0';
    return gp_msg_send_over(link->wire, link->fd, bytes,
                            gpupool__attach_reply__pack(&msg, bytes),
                            gp_now_ns() + REPLY_NS, NULL);
}

/* RDMA was offered: the client takes it, or says why it does not. */
static int
choose(struct xport_conn *conn, struct xport_resume_link *link,
       struct wrk_rdma_offer *offer, const uint8_t cookie[XPORT_RDMA_COOKIE])
{
    struct gp_err err = {0};
    char words[256] = "";
    int r = wrk_rdma_choice(link->wire, link->fd, &link->rdma, words, &err);

    if (r < 0 || !link->rdma)
        return r;
    r = xport_resume_rdma_accept(conn, offer->listener, link->fd, cookie,
                                 gp_now_ns() + RDMA_NS, &err);
    if (r == 0) {
        gp_wire_free(TAKE_PTR(link->wire));
        return 0;
    }
    r = wrk_rdma_choice(link->wire, link->fd, &link->rdma, words, NULL);
    gp_log_info("worker", "not back to RDMA: %s; the client says: %s", err.msg, words);
    return r == 0 && link->rdma ? -EPROTO : r;
}

/* The client is back, with @link. */
static int
agree(struct xport_conn *conn, const struct xport_resume_have *have, bool rdma,
      const uint8_t cookie[XPORT_RDMA_COOKIE], struct xport_resume_link *link)
{
    struct wrk_rdma_offer offer = {0};
    struct gp_err err = {0};
    int r = rdma ? wrk_rdma_listen(links.ports, links.n_ports, NULL, &offer, &err) : 0;

    r = greet(link, have, &offer, r < 0 ? err.msg : (char[]){""});
    if (r == 0 && offer.listener)
        r = choose(conn, link, &offer, cookie);
    wrk_rdma_offer_fini(&offer);
    return r;
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

/* Until something has come, perhaps; the thread that watches reads the channel too. */
static void
await_link(void)
{
    struct pollfd pending[] = {{.fd = WRK_FD_LINK, .events = POLLIN},
                               {.fd = links.link_wake, .events = POLLIN}};
    uint64_t count;

    if (poll(pending, ARRAY_SIZE(pending), LOOK_MS) > 0 && pending[1].revents &&
        read(links.link_wake, &count, sizeof(count)) < 0)
        gp_log_debug("worker", "another thread has read an eventfd");
}

static int
reconnect(struct xport_conn *conn, const struct xport_resume_have *have,
          struct xport_resume_link *ret)
{
    uint32_t seconds = links.worker->priv->conf.resume_s;
    uint64_t deadline = gp_now_ns() + seconds * GP_NS_PER_S;
    uint8_t cookie[XPORT_RDMA_COOKIE];
    bool rdma;

    gp_log_info("worker", "the link is broken; waiting for another one");
    for (;;) {
        if (take_link(ret, &rdma, cookie)) {
            if (agree(conn, have, rdma, cookie, ret) == 0)
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
        await_link();
    }
}

/* Windows are of the link that they were opened for. */
static void
replaced(struct xport_conn *conn)
{
    bool is = xport_link_kind(conn) == XPORT_KIND_RDMA;
    bool was = atomic_exchange(&links.rdma, is);

    atomic_store(&links.replaced, true);
    if (is != was)
        gp_log_info("worker", "the link %s; going on over %s",
                    was ? "over RDMA broke" : "can be RDMA again", is ? "RDMA" : "TCP");
    if (links.n_ports)
        wrk_hooks_run(wrk_hooks.link_replaced, links.worker);
    wrk_transport_note(links.worker, conn);
}

static const struct xport_resume_owner owner = {
    .reconnect = reconnect,
    .ack_link = take_acks,
    .knocks = knocks,
    .replaced = replaced,
};

/* Without the eventfd a link is found some time later. */
static void
begin(struct wrk *w)
{
    links.worker = w;
    links.link_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int
wrk_resume_open(struct wrk *w, int fd, struct xport_conn **ret, struct gp_err *err)
{
    begin(w);
    return xport_resume_new(fd, -1, WIRE_FRAME_MAX, &owner, ret, err);
}

int
wrk_resume_open_rdma(struct wrk *w, struct xport_conn *rdma,
                     const struct xport_rdma_port *ports, size_t n,
                     struct xport_conn **ret, struct gp_err *err)
{
    int r;

    begin(w);
    memcpy(links.ports, ports, n * sizeof(*ports));
    links.n_ports = n;
    atomic_store(&links.rdma, true);
    r = xport_resume_new_rdma(rdma, &owner, ret, err);
    if (r < 0)
        xport_free(rdma);
    return r;
}

bool
wrk_resume_was_replaced(void)
{
    return unlikely(atomic_load_explicit(&links.replaced, memory_order_relaxed)) &&
           atomic_exchange(&links.replaced, false);
}

void
wrk_resume_end(void)
{
    atomic_store(&links.ending, true);
}

/* ---- control connections ---- */

void
wrk_resume_collect(void)
{
    gp_lock_take(&links.lock);
    collect();
    gp_lock_release(&links.lock);
}

void
wrk_resume_control_wake(int eventfd)
{
    gp_lock_take(&links.lock);
    links.control_wake = eventfd;
    gp_lock_release(&links.lock);
}

void
wrk_resume_wake_control(struct wrk *w)
{
    (void)w;
    gp_lock_take(&links.lock);
    tell(links.control_wake);
    gp_lock_release(&links.lock);
}

bool
wrk_resume_take_control(int *ret_fd, struct gp_wire **ret_wire)
{
    bool here;

    gp_lock_take(&links.lock);
    collect();
    here = take(&links.control, ret_fd, ret_wire);
    gp_lock_release(&links.lock);
    return here;
}
