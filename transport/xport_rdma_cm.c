/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, connection and teardown, all through librdmacm: no hand-made GIDs. */
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
#include <sys/mman.h>

/* An address is usually resolved in a millisecond; now and then the neighbour's answer
 * is lost (seen about once in twenty on a veth pair), and asking again is what helps.
 */
#define RESOLVE_MS 300
#define RESOLVE_TRIES 5
#define DRAIN_NS (500 * GP_NS_PER_MS)

struct xport_rdma_listener {
    const struct xport_verbs *v;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    uint8_t cookie[RDMA_COOKIE_SIZE];
};

/* --- events --- */

static int
next_event(const struct xport_verbs *v, struct rdma_event_channel *channel,
           uint64_t deadline_ns, struct rdma_cm_event **ret)
{
    int r = gp_net_wait(channel->fd, POLLIN, deadline_ns);

    if (r < 0)
        return r;
    return v->get_cm_event(channel, ret) ? -errno : 0;
}

/* Wait for exactly @type; anything else is an error with words. */
static int
expect(struct rdma_conn *rdma, enum rdma_cm_event_type type, uint64_t deadline_ns,
       struct rdma_hello *ret_hello, struct gp_err *err)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type got;
    int r, status;

    r = next_event(rdma->v, rdma->cm_channel, deadline_ns, &event);
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

/* --- resources --- */

/* What was sent must have left before the queue pair goes: an empty write at the end of
 * the send queue tells.  Gives up when the peer does not take it.  Not on iWARP, where
 * an empty write is not answered (seen with siw): there the last words may be lost. */
static void
drain(struct rdma_conn *rdma)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {rdma->peer.region, rdma->peer.rkey}};
    uint64_t deadline = gp_now_ns() + DRAIN_NS;

    if (!rdma->has_imm || rdma->stream.conn.error || rdma_post(rdma, &wr, true) < 0)
        return;
    while (rdma_reap_sends(rdma) == 0 && rdma->completed < wr.wr_id &&
           gp_now_ns() < deadline)
        nanosleep(&(struct timespec){0, 10000}, NULL);
}

static void
rdma_free(struct xport_conn *conn)
{
    struct rdma_conn *rdma = rdma_of(conn);
    const struct xport_verbs *v = rdma->v;

    if (conn->fd >= 0)
        drain(rdma);
    if (rdma->id && rdma->id->qp)
        v->disconnect(rdma->id);
    rdma_mr_fini(rdma);
    if (rdma->id && rdma->id->qp)
        v->destroy_qp(rdma->id);
    if (rdma->recv_cq) {
        v->ack_cq_events(rdma->recv_cq, rdma->unarmed_events);
        v->destroy_cq(rdma->recv_cq);
    }
    if (rdma->send_cq)
        v->destroy_cq(rdma->send_cq);
    if (rdma->channel)
        v->destroy_comp_channel(rdma->channel);
    if (rdma->region_mr)
        v->dereg_mr(rdma->region_mr);
    if (rdma->pd)
        v->dealloc_pd(rdma->pd);
    if (rdma->id)
        v->destroy_id(rdma->id);
    if (rdma->cm_channel)
        v->destroy_event_channel(rdma->cm_channel);
    if (rdma->region)
        munmap(rdma->region, sizeof(*rdma->region));
    if (conn->fd >= 0)
        close(conn->fd);
    pthread_mutex_destroy(&rdma->send_lock);
    pthread_mutex_destroy(&rdma->mr_lock);
    xport_stream_fini(&rdma->stream);
    free(rdma);
}

static void
rdma_abort(struct xport_conn *conn)
{
    /* Sleepers poll this socket too. */
    shutdown(conn->fd, SHUT_RDWR);
}

const struct xport_ops xport_rdma_ops = {
    .name = "rdma",
    .reserve = xport_stream_reserve,
    .flush = xport_stream_flush,
    .fill = xport_stream_fill,
    .recv_bulk = xport_stream_recv_bulk,
    .release = xport_stream_release,
    .abort = rdma_abort,
    .free = rdma_free,
};

static int
conn_alloc(const struct xport_verbs *v, uint32_t frame_max, struct rdma_conn **ret,
           struct gp_err *err)
{
    struct rdma_conn *rdma = calloc(1, sizeof(*rdma));
    void *p;
    int r;

    if (!rdma)
        return gp_err_set(err, -ENOMEM, "out of memory");
    rdma->v = v;
    pthread_mutex_init(&rdma->send_lock, NULL);
    pthread_mutex_init(&rdma->mr_lock, NULL);
    r = xport_stream_init(&rdma->stream, &xport_rdma_ops, &xport_rdma_io, frame_max,
                          err);
    p = mmap(NULL, sizeof(*rdma->region), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    rdma->region = p == MAP_FAILED ? NULL : p;
    if (!r && !rdma->region)
        r = gp_err_set(err, -ENOMEM, "out of memory");
    if (r < 0) {
        rdma_free(&rdma->stream.conn);
        return r;
    }
    *ret = rdma;
    return 0;
}

static int
make_queues(struct rdma_conn *rdma)
{
    struct ibv_context *ctx = rdma->id->verbs;
    const struct xport_verbs *v = rdma->v;

    rdma->pd = v->alloc_pd(ctx);
    rdma->channel = v->create_comp_channel(ctx);
    if (!rdma->pd || !rdma->channel)
        return -errno;
    fcntl(rdma->channel->fd, F_SETFL, fcntl(rdma->channel->fd, F_GETFL) | O_NONBLOCK);
    rdma->send_cq = v->create_cq(ctx, RDMA_SEND_DEPTH, NULL, NULL, 0);
    rdma->recv_cq = v->create_cq(ctx, RDMA_RECV_DEPTH, NULL, rdma->channel, 0);
    if (!rdma->send_cq || !rdma->recv_cq)
        return -errno;
    rdma->region_mr = v->reg_mr(rdma->pd, rdma->region, sizeof(*rdma->region),
                                (uintptr_t)rdma->region,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return rdma->region_mr ? 0 : -errno;
}

static int
make_qp(struct rdma_conn *rdma)
{
    /* What iWARP's software device gives at most, when the first size is refused. */
    static const uint32_t inline_sizes[] = {RDMA_INLINE, 80, 0};
    int r = -EINVAL;

    for (size_t i = 0; i < ARRAY_SIZE(inline_sizes) && r < 0; i++) {
        struct ibv_qp_init_attr attr = {
            .send_cq = rdma->send_cq,
            .recv_cq = rdma->recv_cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = RDMA_SEND_DEPTH,
                    .max_recv_wr = RDMA_RECV_DEPTH,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = inline_sizes[i]},
        };

        r = rdma->v->create_qp(rdma->id, rdma->pd, &attr) ? -errno : 0;
        rdma->inline_max = gp_min(inline_sizes[i], attr.cap.max_inline_data);
    }
    return r;
}

static int
make_resources(struct rdma_conn *rdma, struct gp_err *err)
{
    int r = make_queues(rdma);

    if (!r)
        r = make_qp(rdma);
    if (!r)
        r = rdma_post_recvs(rdma, 0, RDMA_RECV_DEPTH);
    rdma->has_imm = rdma->id->verbs->device->transport_type == IBV_TRANSPORT_IB;
    if (r < 0)
        return gp_err_set(err, r, "queue pair on %s: %s (locked memory limit?)",
                          rdma->id->verbs->device->name, strerror(-r));
    return 0;
}

static void
hello_fill(const struct rdma_conn *rdma, const uint8_t *cookie,
           struct rdma_hello *hello)
{
    *hello = (struct rdma_hello){.region = (uintptr_t)rdma->region,
                                 .rkey = rdma->region_mr->rkey,
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
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
}

/* The control socket becomes the connection's: its end is the peer's end. */
static void
adopt(struct rdma_conn *rdma, int ctl_fd, struct xport_conn **ret)
{
    xport_keepalive(ctl_fd, 2);
    fcntl(ctl_fd, F_SETFL, fcntl(ctl_fd, F_GETFL) | O_NONBLOCK);
    fcntl(rdma->cm_channel->fd, F_SETFL,
          fcntl(rdma->cm_channel->fd, F_GETFL) | O_NONBLOCK);
    rdma->stream.conn.fd = ctl_fd;
    *ret = &rdma->stream.conn;
}

static int
resolve_name(const char *host, unsigned port, struct addrinfo **ret, struct gp_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char text[8];
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
        r = expect(rdma, RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ns, NULL, err);
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
    if (rdma->v->resolve_route(rdma->id, RESOLVE_MS))
        return gp_err_set(err, -errno, "no RDMA route: %s", strerror(errno));
    return expect(rdma, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ns, NULL, err);
}

static int
client_connect(struct rdma_conn *rdma, const uint8_t *cookie, uint64_t deadline_ns,
               struct gp_err *err)
{
    struct rdma_conn_param param;
    struct rdma_hello hello;
    int r = make_resources(rdma, err);

    if (r < 0)
        return r;
    hello_fill(rdma, cookie, &hello);
    conn_param(rdma, &hello, &param);
    if (rdma->v->connect(rdma->id, &param))
        return gp_err_set(err, -errno, "rdma_connect: %s", strerror(errno));
    r = expect(rdma, RDMA_CM_EVENT_ESTABLISHED, deadline_ns, &rdma->peer, err);
    if (!r && rdma->peer.magic != RDMA_MAGIC)
        r = gp_err_set(err, -EPROTO, "the peer speaks another protocol");
    return r;
}

int
xport_rdma_connect(int ctl_fd, const char *host, unsigned port,
                   const uint8_t cookie[XPORT_RDMA_COOKIE], uint32_t frame_max,
                   uint64_t deadline_ns, struct xport_conn **ret, struct gp_err *err)
{
    const struct xport_verbs *v = xport_verbs_get(err);
    struct addrinfo *list = NULL;
    struct rdma_conn *rdma;
    int r;

    if (!v)
        return -EOPNOTSUPP;
    r = resolve_name(host, port, &list, err);
    if (r < 0)
        return r;
    r = conn_alloc(v, frame_max, &rdma, err);
    if (!r) {
        r = client_route(rdma, list->ai_addr, deadline_ns, err);
        if (!r)
            r = client_connect(rdma, cookie, deadline_ns, err);
        if (r < 0)
            rdma_free(&rdma->stream.conn);
        else
            adopt(rdma, ctl_fd, ret);
    }
    freeaddrinfo(list);
    return r < 0 ? gp_err_wrap(err, r, "rdma to %s", host) : 0;
}

/* --- the worker's side --- */

int
xport_rdma_listen(const char *host, struct xport_rdma_listener **ret,
                  unsigned *ret_port, struct gp_err *err)
{
    const struct xport_verbs *v = xport_verbs_get(err);
    struct xport_rdma_listener *l;
    struct addrinfo *list;
    int r;

    if (!v)
        return -EOPNOTSUPP;
    r = resolve_name(host, 0, &list, err);
    if (r < 0)
        return r;
    l = calloc(1, sizeof(*l));
    if (!l) {
        freeaddrinfo(list);
        return gp_err_set(err, -ENOMEM, "out of memory");
    }
    l->v = v;
    l->channel = v->create_event_channel();
    if (!l->channel || v->create_id(l->channel, &l->id, NULL, RDMA_PS_TCP) ||
        v->bind_addr(l->id, list->ai_addr) || !l->id->verbs || v->listen(l->id, 4)) {
        r = gp_err_set(err, -ENODEV, "no RDMA port has the address %s", host);
        xport_rdma_listener_free(l);
        l = NULL;
    }
    freeaddrinfo(list);
    if (r < 0)
        return r;
    *ret_port = ntohs(v->get_src_port(l->id));
    *ret = l;
    return 0;
}

void
xport_rdma_listener_free(struct xport_rdma_listener *l)
{
    if (!l)
        return;
    if (l->id)
        l->v->destroy_id(l->id);
    if (l->channel)
        l->v->destroy_event_channel(l->channel);
    free(l);
}

static int
server_accept(struct rdma_conn *rdma, uint64_t deadline_ns, struct gp_err *err)
{
    struct rdma_conn_param param;
    struct rdma_hello hello;
    int r = make_resources(rdma, err);

    if (r < 0)
        return r;
    hello_fill(rdma, NULL, &hello);
    conn_param(rdma, &hello, &param);
    if (rdma->v->accept(rdma->id, &param))
        return gp_err_set(err, -errno, "rdma_accept: %s", strerror(errno));
    return expect(rdma, RDMA_CM_EVENT_ESTABLISHED, deadline_ns, NULL, err);
}

/* One connection request with the right cookie; strangers are turned away. */
static int
await_request(struct xport_rdma_listener *l, const uint8_t *cookie,
              uint64_t deadline_ns, struct rdma_cm_id **ret_id,
              struct rdma_hello *ret_hello, struct gp_err *err)
{
    for (;;) {
        struct rdma_cm_event *event;
        bool right = false;
        int r = next_event(l->v, l->channel, deadline_ns, &event);

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
            gp_log_debug("xport", "rdma: a stranger connected");
            l->v->reject(*ret_id, NULL, 0);
            l->v->destroy_id(*ret_id);
        }
    }
}

int
xport_rdma_accept(struct xport_rdma_listener *l, int ctl_fd,
                  const uint8_t cookie[XPORT_RDMA_COOKIE], uint32_t frame_max,
                  uint64_t deadline_ns, struct xport_conn **ret, struct gp_err *err)
{
    struct rdma_conn *rdma;
    int r;

    r = conn_alloc(l->v, frame_max, &rdma, err);
    if (r < 0)
        return r;
    r = await_request(l, cookie, deadline_ns, &rdma->id, &rdma->peer, err);
    if (!r) {
        /* The request arrives on the listener's channel; from here the connection has
         * that channel to itself, the listener its end. */
        rdma->cm_channel = TAKE_PTR(l->channel);
        l->v->destroy_id(TAKE_PTR(l->id));
        r = server_accept(rdma, deadline_ns, err);
    } else {
        rdma->id = NULL;
    }
    if (r < 0) {
        rdma_free(&rdma->stream.conn);
        return gp_err_wrap(err, r, "rdma");
    }
    adopt(rdma, ctl_fd, ret);
    return 0;
}
