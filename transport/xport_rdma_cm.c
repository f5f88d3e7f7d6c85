/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting and accepting, all through librdmacm: no hand-made GIDs. */
#include "xport_liveness.h"
#include "xport_rdma.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* An address is usually resolved in a millisecond; now and then the neighbour's answer
 * is lost (seen about once in twenty on a veth pair), and asking again is what helps.
 */
#define RESOLVE_MS 300
#define RESOLVE_TRIES 5
/* How long a port of the server may take when there are others to try. */
#define PORT_NS (1500 * GP_NS_PER_MS)
/* Of a connection over which no frame goes. */
#define PROBE_FRAME_MAX 4096u
/* 4.096 us * 2^17 = 0.5 s until a packet is sent again, six times: a way that is closed
 * is noticed in seconds.  (Seven, the most, is for ever with Soft-RoCE.) */
#define ACK_TIMEOUT 17
#define ACK_RETRIES 6

struct xport_rdma_listener {
    const struct xport_verbs *v;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *ids[XPORT_RDMA_PORTS_MAX];
    size_t n;
};

/* --- events --- */

/* The worker's @ctl_fd ends the wait when the client says something there instead, or
 * leaves; the client itself has none to look at (-1). */
static int
next_event(const struct xport_verbs *v, struct rdma_event_channel *channel, int ctl_fd,
           uint64_t deadline_ns, struct rdma_cm_event **ret)
{
    struct pollfd p[] = {{.fd = channel->fd, .events = POLLIN},
                         {.fd = ctl_fd, .events = POLLIN | POLLRDHUP}};
    int n;

    do
        n = poll(p, ARRAY_SIZE(p), gp_poll_ms(deadline_ns));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ETIMEDOUT;
    if (!p[0].revents)
        return -ECANCELED;
    return v->get_cm_event(channel, ret) ? -errno : 0;
}

/* Wait for exactly @type; anything else is an error with words. */
static int
expect(struct rdma_conn *rdma, enum rdma_cm_event_type type, int ctl_fd,
       uint64_t deadline_ns, struct rdma_hello *ret_hello, struct gp_err *err)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type got;
    int r, status;

    r = next_event(rdma->v, rdma->cm_channel, ctl_fd, deadline_ns, &event);
    if (r < 0)
        return gp_err_set(err, r, "no %s: %s", rdma->v->event_str(type), strerror(-r));
    got = event->event;
    status = event->status;
    if (ret_hello && event->param.conn.private_data &&
        event->param.conn.private_data_len >= sizeof(*ret_hello))
        memcpy(ret_hello, event->param.conn.private_data, sizeof(*ret_hello));
    rdma->v->ack_cm_event(event);
    if (got == type)
        return 0;
    return gp_err_set(err, -ECONNREFUSED, "%s instead of %s (status %d)",
                      rdma->v->event_str(got), rdma->v->event_str(type), status);
}

static void
hello_fill(const struct rdma_conn *rdma, const uint8_t *cookie,
           struct rdma_hello *hello)
{
    *hello = (struct rdma_hello){.region = (uintptr_t)rdma->region,
                                 .rkey = rdma->shared_mr->rkey,
                                 .magic = RDMA_MAGIC};
    if (cookie)
        memcpy(hello->cookie, cookie, sizeof(hello->cookie));
}

static void
conn_param(const struct rdma_conn *rdma, const struct rdma_hello *hello,
           struct rdma_conn_param *param)
{
    struct ibv_device_attr attr = {.max_qp_rd_atom = 1, .max_qp_init_rd_atom = 1};

    rdma->v->query_device(rdma->id->verbs, &attr);
    *param = (struct rdma_conn_param){
        .private_data = hello,
        .private_data_len = sizeof(*hello),
        .responder_resources = (uint8_t)gp_min(attr.max_qp_rd_atom, 16),
        .initiator_depth = (uint8_t)gp_min(attr.max_qp_init_rd_atom, 16),
        .retry_count = ACK_RETRIES,
        .rnr_retry_count = 7,
    };
}

/* Where the kernel knows how; else its own, longer time holds. */
static void
hurry(const struct xport_verbs *v, struct rdma_cm_id *id)
{
    uint8_t timeout = ACK_TIMEOUT;

    v->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                  sizeof(timeout));
}

/* Half of the ports being in use, as many tries fail once in four billion times. */
#define PORT_TRIES 32

/* The control socket carries nothing once the queue pairs are connected; it shows when
 * the peer's host is gone, which an idle queue pair does not. */
#define CTL_TIMEOUT_S 5

/* A new connection, or @again, which has ended. */
static int
conn_begin(const struct xport_verbs *v, struct rdma_conn *again, uint32_t frame_max,
           struct rdma_conn **ret, struct gp_err *err)
{
    if (!again)
        return rdma_conn_new(v, frame_max, ret, err);
    *ret = again;
    return rdma_conn_renew(again, err);
}

static void
conn_undo(struct rdma_conn *rdma, const struct rdma_conn *again)
{
    if (again)
        rdma_conn_end(rdma);
    else
        rdma_conn_free(&rdma->stream.conn);
}

/* The control socket becomes the connection's: its end is the peer's end. */
static void
adopt(struct rdma_conn *rdma, int ctl_fd)
{
    xport_keepalive(ctl_fd, CTL_TIMEOUT_S);
    fcntl(ctl_fd, F_SETFL, fcntl(ctl_fd, F_GETFL) | O_NONBLOCK);
    fcntl(rdma->cm_channel->fd, F_SETFL,
          fcntl(rdma->cm_channel->fd, F_GETFL) | O_NONBLOCK);
    rdma->stream.conn.fd = ctl_fd;
}

static int
resolve(const char *host, unsigned port, struct addrinfo **ret, struct gp_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    char text[12];
    int r;

    snprintf(text, sizeof(text), "%u", port);
    r = getaddrinfo(host, text, &hints, ret);
    return r ? gp_err_set(err, -EHOSTUNREACH, "%s: %s", host, gai_strerror(r)) : 0;
}

/* --- the client's side --- */

static int
client_resolve(struct rdma_conn *rdma, struct sockaddr *dst, uint64_t deadline_ns,
               struct gp_err *err)
{
    int r = -ETIMEDOUT;

    for (int i = 0; i < RESOLVE_TRIES && r < 0; i++) {
        if (rdma->v->resolve_addr(rdma->id, NULL, dst, RESOLVE_MS))
            return gp_err_set(err, -errno, "no RDMA port on the way there: %s",
                              strerror(errno));
        r = expect(rdma, RDMA_CM_EVENT_ADDR_RESOLVED, -1, deadline_ns, NULL, err);
    }
    return r;
}

static int
client_route(struct rdma_conn *rdma, struct sockaddr *dst, uint64_t deadline_ns,
             struct gp_err *err)
{
    int r;

    rdma->cm_channel = rdma->v->create_event_channel();
    if (!rdma->cm_channel ||
        rdma->v->create_id(rdma->cm_channel, &rdma->id, NULL, RDMA_PS_TCP))
        return gp_err_set(err, -errno, "no RDMA device: %s", strerror(errno));
    r = client_resolve(rdma, dst, deadline_ns, err);
    if (r < 0)
        return r;
    hurry(rdma->v, rdma->id);
    if (rdma->v->resolve_route(rdma->id, RESOLVE_MS))
        return gp_err_set(err, -errno, "no RDMA route: %s", strerror(errno));
    return expect(rdma, RDMA_CM_EVENT_ROUTE_RESOLVED, -1, deadline_ns, NULL, err);
}

static int
client_connect(struct rdma_conn *rdma, const uint8_t *cookie, uint64_t deadline_ns,
               struct gp_err *err)
{
    struct rdma_conn_param param;
    struct rdma_hello hello;
    int r = rdma_conn_resources(rdma, err);

    if (r < 0)
        return r;
    hello_fill(rdma, cookie, &hello);
    conn_param(rdma, &hello, &param);
    if (rdma->v->connect(rdma->id, &param))
        return gp_err_set(err, -errno, "rdma_connect: %s", strerror(errno));
    r = expect(rdma, RDMA_CM_EVENT_ESTABLISHED, -1, deadline_ns, &rdma->peer, err);
    if (!r && rdma->peer.magic != RDMA_MAGIC)
        r = gp_err_set(err, -EPROTO, "the peer speaks another protocol");
    return r;
}

/* Is there anybody?  Nothing listens at the port any more, or it is not for us; to be
 * told so is an answer. */
static int
client_probe(struct rdma_conn *rdma, uint64_t deadline_ns, struct gp_err *err)
{
    struct rdma_conn_param param = {.retry_count = ACK_RETRIES};
    struct rdma_cm_event *event;
    enum rdma_cm_event_type got;
    int r = rdma_conn_resources(rdma, err);

    if (r < 0)
        return r;
    if (rdma->v->connect(rdma->id, &param))
        return gp_err_set(err, -errno, "rdma_connect: %s", strerror(errno));
    r = next_event(rdma->v, rdma->cm_channel, -1, deadline_ns, &event);
    if (r < 0)
        return gp_err_set(err, r, "no answer: %s", strerror(-r));
    got = event->event;
    rdma->v->ack_cm_event(event);
    return got == RDMA_CM_EVENT_REJECTED || got == RDMA_CM_EVENT_ESTABLISHED
               ? 0
               : gp_err_set(err, -EHOSTUNREACH, "%s", rdma->v->event_str(got));
}

/* What is wanted of a port of the server, and what with. */
struct client {
    const struct xport_verbs *v;
    struct rdma_conn *again; /* to be used instead of a new one; or NULL */
    uint32_t frame_max;
    const uint8_t *cookie; /* NULL: only to know whether the port can be reached */
};

static int
connect_once(const struct client *c, struct sockaddr *dst, uint64_t deadline_ns,
             struct rdma_conn **ret, struct gp_err *err)
{
    struct rdma_conn *rdma;
    int r = conn_begin(c->v, c->again, c->frame_max, &rdma, err);

    if (r < 0)
        return r;
    r = client_route(rdma, dst, deadline_ns, err);
    if (!r)
        r = c->cookie ? client_connect(rdma, c->cookie, deadline_ns, err)
                      : client_probe(rdma, deadline_ns, err);
    if (r < 0 || !c->cookie)
        conn_undo(rdma, c->again);
    else
        *ret = rdma;
    return r;
}

/* The port number of this end is chosen like a listener's: see listen_at(). */
static int
connect_port(const struct client *c, const struct xport_rdma_port *port,
             uint64_t deadline_ns, struct rdma_conn **ret, struct gp_err *err)
{
    struct addrinfo *list = NULL;
    int r = resolve(port->host, port->port, &list, err);

    if (r < 0)
        return r;
    r = -EADDRINUSE;
    for (int i = 0; i < PORT_TRIES && r == -EADDRINUSE; i++)
        r = connect_once(c, list->ai_addr, deadline_ns, ret, err);
    freeaddrinfo(list);
    return r < 0 ? gp_err_wrap(err, r, "rdma to %s", port->host) : 0;
}

/* The first of the ports that answers. */
static int
connect_any(struct client *c, struct xport_rdma_port *ports, size_t n,
            uint64_t deadline_ns, struct rdma_conn **ret, struct gp_err *err)
{
    struct xport_rdma_port own[XPORT_RDMA_PORTS_MAX];
    int r = -EHOSTUNREACH;

    c->v = xport_verbs_get(err);
    if (!c->v)
        return -EOPNOTSUPP;
    gp_err_set(err, r, "the server names no RDMA port");
    xport_rdma_rank(ports, n, own, xport_rdma_ports(own, NULL));
    for (size_t i = 0; i < n && r < 0 && gp_now_ns() < deadline_ns; i++)
        r = connect_port(c, &ports[i],
                         i + 1 == n ? deadline_ns
                                    : gp_min(deadline_ns, gp_now_ns() + PORT_NS),
                         ret, err);
    return r;
}

int
xport_rdma_connect(int ctl_fd, struct xport_rdma_port *ports, size_t n,
                   const uint8_t cookie[XPORT_RDMA_COOKIE], uint32_t frame_max,
                   uint64_t deadline_ns, struct xport_conn **ret, struct gp_err *err)
{
    struct client c = {.frame_max = frame_max, .cookie = cookie};
    struct rdma_conn *rdma;
    int r = connect_any(&c, ports, n, deadline_ns, &rdma, err);

    if (r < 0)
        return r;
    adopt(rdma, ctl_fd);
    *ret = &rdma->stream.conn;
    return 0;
}

int
rdma_connect_again(struct rdma_conn *again, int ctl_fd, struct xport_rdma_port *ports,
                   size_t n, const uint8_t *cookie, uint64_t deadline_ns,
                   struct gp_err *err)
{
    struct client c = {.again = again, .cookie = cookie};
    struct rdma_conn *rdma;
    int r = connect_any(&c, ports, n, deadline_ns, &rdma, err);

    if (r == 0)
        adopt(again, ctl_fd);
    return r;
}

int
xport_rdma_probe(struct xport_rdma_port *ports, size_t n, uint64_t deadline_ns,
                 struct gp_err *err)
{
    struct client c = {.frame_max = PROBE_FRAME_MAX};
    struct rdma_conn *none;

    return connect_any(&c, ports, n, deadline_ns, &none, err);
}

/* --- the worker's side --- */

/* Bind @id to a free port of @addr and listen.  0 or -errno. */
static int
listen_once(struct xport_rdma_listener *l, struct rdma_cm_id *id, struct sockaddr *addr)
{
    if (l->v->bind_addr(id, addr))
        return -errno;
    if (!id->verbs)
        return -ENODEV;
    return l->v->listen(id, 4) ? -errno : 0;
}

/* An id that listens at the address, for the caller to destroy.
 *
 * The connection manager takes a port number at random from a space of its own.  An
 * iWARP device then needs the TCP port of that number, which may be in use by an
 * ordinary connection, or by one that has been closed in the last minute: EADDRINUSE.
 * Another number is as good. */
static int
listen_at(struct xport_rdma_listener *l, struct xport_rdma_port *port,
          struct rdma_cm_id **ret)
{
    struct addrinfo *list;
    int r = resolve(port->host, 0, &list, NULL);

    port->port = 0;
    if (r < 0)
        return r;
    r = -EADDRINUSE;
    for (int i = 0; i < PORT_TRIES && r == -EADDRINUSE; i++) {
        struct rdma_cm_id *id;

        if (l->v->create_id(l->channel, &id, NULL, RDMA_PS_TCP)) {
            r = -errno;
            break;
        }
        r = listen_once(l, id, list->ai_addr);
        if (r < 0) {
            l->v->destroy_id(id);
            continue;
        }
        port->port = ntohs(l->v->get_src_port(id));
        *ret = id;
    }
    freeaddrinfo(list);
    return r;
}

static int
listen_error(const char *host, int r, struct gp_err *err)
{
    if (r == -ENODEV || r == -EADDRNOTAVAIL)
        return gp_err_set(err, -ENODEV, "no RDMA port has the address %s", host);
    return gp_err_set(err, r, "cannot listen on the RDMA port with the address %s: %s",
                      host, strerror(-r));
}

static void
listener_close(struct xport_rdma_listener *l)
{
    while (l->n)
        l->v->destroy_id(l->ids[--l->n]);
}

int
xport_rdma_listen(struct xport_rdma_port *ports, size_t n,
                  struct xport_rdma_listener **ret, struct gp_err *err)
{
    const struct xport_verbs *v = xport_verbs_get(err);
    struct xport_rdma_listener *l;
    int r = -ENODEV;

    if (!v)
        return -EOPNOTSUPP;
    l = calloc(1, sizeof(*l));
    if (!l)
        return gp_err_set(err, -ENOMEM, "out of memory");
    l->v = v;
    l->channel = v->create_event_channel();
    for (size_t i = 0; l->channel && i < n && l->n < XPORT_RDMA_PORTS_MAX; i++) {
        struct rdma_cm_id *id = NULL;

        r = listen_at(l, &ports[i], &id);
        if (r == 0)
            l->ids[l->n++] = id;
    }
    if (!l->n) {
        xport_rdma_listener_free(l);
        return listen_error(n ? ports[n - 1].host : "(none)", r, err);
    }
    *ret = l;
    return 0;
}

void
xport_rdma_listener_free(struct xport_rdma_listener *l)
{
    if (!l)
        return;
    listener_close(l);
    if (l->channel)
        l->v->destroy_event_channel(l->channel);
    free(l);
}

static int
server_accept(struct rdma_conn *rdma, int ctl_fd, uint64_t deadline_ns,
              struct gp_err *err)
{
    struct rdma_conn_param param;
    struct rdma_hello hello;
    int r = rdma_conn_resources(rdma, err);

    if (r < 0)
        return r;
    hurry(rdma->v, rdma->id);
    hello_fill(rdma, NULL, &hello);
    conn_param(rdma, &hello, &param);
    if (rdma->v->accept(rdma->id, &param))
        return gp_err_set(err, -errno, "rdma_accept: %s", strerror(errno));
    return expect(rdma, RDMA_CM_EVENT_ESTABLISHED, ctl_fd, deadline_ns, NULL, err);
}

/* One connection request with the right cookie; others are refused. */
static int
await_request(struct xport_rdma_listener *l, int ctl_fd, const uint8_t *cookie,
              uint64_t deadline_ns, struct rdma_cm_id **ret_id,
              struct rdma_hello *ret_hello, struct gp_err *err)
{
    for (;;) {
        struct rdma_cm_event *event;
        bool right = false;
        int r = next_event(l->v, l->channel, ctl_fd, deadline_ns, &event);

        if (r < 0)
            return gp_err_set(err, r, "no RDMA connection came: %s", strerror(-r));
        *ret_id = event->id;
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
            event->param.conn.private_data_len >= sizeof(*ret_hello)) {
            memcpy(ret_hello, event->param.conn.private_data, sizeof(*ret_hello));
            right = ret_hello->magic == RDMA_MAGIC &&
                    !memcmp(ret_hello->cookie, cookie, RDMA_COOKIE_SIZE);
        }
        r = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
        l->v->ack_cm_event(event);
        if (right)
            return 0;
        if (r) {
            gp_log_debug("xport", "rdma: a peer without the right cookie connected");
            l->v->reject(*ret_id, NULL, 0);
            l->v->destroy_id(*ret_id);
        }
    }
}

static int
accept_one(struct xport_rdma_listener *l, struct rdma_conn *again, int ctl_fd,
           const uint8_t *cookie, uint32_t frame_max, uint64_t deadline_ns,
           struct rdma_conn **ret, struct gp_err *err)
{
    struct rdma_conn *rdma;
    int r;

    r = conn_begin(l->v, again, frame_max, &rdma, err);
    if (r < 0)
        return r;
    r = await_request(l, ctl_fd, cookie, deadline_ns, &rdma->id, &rdma->peer, err);
    if (!r) {
        /* The request arrives on the listener's channel; from here the connection has
         * that channel to itself, the listener its end. */
        rdma->cm_channel = TAKE_PTR(l->channel);
        listener_close(l);
        r = server_accept(rdma, ctl_fd, deadline_ns, err);
    } else {
        rdma->id = NULL;
    }
    if (r < 0) {
        conn_undo(rdma, again);
        return gp_err_wrap(err, r, "rdma");
    }
    adopt(rdma, ctl_fd);
    *ret = rdma;
    return 0;
}

int
xport_rdma_accept(struct xport_rdma_listener *l, int ctl_fd,
                  const uint8_t cookie[XPORT_RDMA_COOKIE], uint32_t frame_max,
                  uint64_t deadline_ns, struct xport_conn **ret, struct gp_err *err)
{
    struct rdma_conn *rdma;
    int r = accept_one(l, NULL, ctl_fd, cookie, frame_max, deadline_ns, &rdma, err);

    if (r == 0)
        *ret = &rdma->stream.conn;
    return r;
}

int
rdma_accept_again(struct rdma_conn *again, struct xport_rdma_listener *l, int ctl_fd,
                  const uint8_t *cookie, uint64_t deadline_ns, struct gp_err *err)
{
    struct rdma_conn *rdma;

    return accept_one(l, again, ctl_fd, cookie, 0, deadline_ns, &rdma, err);
}
