/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's resources, from the queue pair to the memory, and its end. */
#include "xport_rdma.h"

#include "gp_err.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* How long the last words may take to arrive. */
#define DRAIN_NS (5 * GP_NS_PER_S)

/* What was sent must have arrived before the queue pair goes: a READ behind it tells.
 * Gives up when the peer does not answer. */
void
rdma_conn_drain(struct rdma_conn *rdma, uint64_t limit_ns)
{
    uint64_t deadline = gp_now_ns() + limit_ns, number;

    if (rdma->stream.conn.error || rdma_echo(rdma, RDMA_ECHO_LIVENESS, 0, &number) < 0)
        return;
    /* Who has gone already reads nothing, and its adapter is asked for seconds. */
    while (rdma_liveness(rdma) == 0 && rdma->reads_done < number &&
           gp_now_ns() < deadline)
        nanosleep(&(struct timespec){0, 10000}, NULL);
}

static void
queues_fini(struct rdma_conn *rdma)
{
    const struct xport_verbs *v = rdma->v;

    if (rdma->recv_cq) {
        v->ack_cq_events(rdma->recv_cq, rdma->recv_events);
        v->destroy_cq(TAKE_PTR(rdma->recv_cq));
    }
    if (rdma->send_cq) {
        v->ack_cq_events(rdma->send_cq, rdma->send_events);
        v->destroy_cq(TAKE_PTR(rdma->send_cq));
    }
    if (rdma->channel)
        v->destroy_comp_channel(TAKE_PTR(rdma->channel));
}

void
rdma_conn_end(struct rdma_conn *rdma)
{
    const struct xport_verbs *v = rdma->v;

    if (rdma->id && rdma->id->qp)
        v->disconnect(rdma->id);
    if (rdma->id && rdma->id->qp)
        v->destroy_qp(rdma->id); /* from here on nothing writes into anybody's memory */
    rdma_bulk_fini(rdma);
    rdma_mr_end(rdma);
    queues_fini(rdma);
    if (rdma->shared_mr)
        v->dereg_mr(TAKE_PTR(rdma->shared_mr));
    if (rdma->local_mr)
        v->dereg_mr(TAKE_PTR(rdma->local_mr));
    if (rdma->pd)
        v->dealloc_pd(TAKE_PTR(rdma->pd));
    if (rdma->id)
        v->destroy_id(TAKE_PTR(rdma->id));
    if (rdma->cm_channel)
        v->destroy_event_channel(TAKE_PTR(rdma->cm_channel));
    if (rdma->region)
        munmap(TAKE_PTR(rdma->region), sizeof(*rdma->region));
}

void
rdma_conn_free(struct xport_conn *conn)
{
    struct rdma_conn *rdma = rdma_of(conn);

    if (conn->fd >= 0)
        rdma_conn_drain(rdma, DRAIN_NS);
    rdma_conn_end(rdma);
    rdma_mr_fini(rdma);
    if (conn->fd >= 0)
        close(conn->fd);
    pthread_mutex_destroy(&rdma->mr_lock);
    xport_stream_fini(&rdma->stream);
    free(rdma);
}

static int
region_new(struct rdma_conn *rdma, struct gp_err *err)
{
    void *p = mmap(NULL, sizeof(*rdma->region), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    rdma->region = p == MAP_FAILED ? NULL : p;
    return rdma->region ? 0 : gp_err_set(err, -ENOMEM, "out of memory");
}

int
rdma_conn_renew(struct rdma_conn *rdma, struct gp_err *err)
{
    const size_t from = offsetof(struct rdma_conn, peer);
    uint64_t fetched = rdma->fetched; /* tickets of before stay good */

    __atomic_store_n(&rdma->stream.conn.error, 0, __ATOMIC_RELAXED);
    memset((char *)rdma + from, 0, offsetof(struct rdma_conn, mr_lock) - from);
    rdma->fetched = fetched;
    return region_new(rdma, err);
}

int
rdma_conn_new(const struct xport_verbs *v, uint32_t frame_max, struct rdma_conn **ret,
              struct gp_err *err)
{
    struct rdma_conn *rdma = xport_stream_alloc(sizeof(*rdma));
    int r;

    if (!rdma)
        return gp_err_set(err, -ENOMEM, "out of memory");
    rdma->v = v;
    pthread_mutex_init(&rdma->mr_lock, NULL);
    r = xport_stream_init(&rdma->stream, &xport_rdma_ops, &xport_rdma_io, frame_max,
                          err);
    rdma->stream.spin.spin_ns = RDMA_SPIN_NS;
    rdma->stream.spin.gap_ns = RDMA_SPIN_GAP_NS;
    rdma->stream.spin.skip_max = RDMA_SPIN_SKIP_MAX;
    if (!r)
        r = region_new(rdma, err);
    if (r < 0) {
        rdma_conn_free(&rdma->stream.conn);
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
    rdma->send_cq = v->create_cq(ctx, RDMA_SEND_DEPTH, NULL, rdma->channel, 0);
    rdma->recv_cq = v->create_cq(ctx, RDMA_RECV_DEPTH, NULL, rdma->channel, 0);
    if (!rdma->send_cq || !rdma->recv_cq)
        return -errno;
    rdma->shared_mr = v->reg_mr(
        rdma->pd, rdma->region, RDMA_REGION_SHARED, (uintptr_t)rdma->region,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    rdma->local_mr = v->reg_mr(rdma->pd, rdma->region, sizeof(*rdma->region),
                               (uintptr_t)rdma->region, IBV_ACCESS_LOCAL_WRITE);
    return rdma->shared_mr && rdma->local_mr ? 0 : -errno;
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

int
rdma_conn_resources(struct rdma_conn *rdma, struct gp_err *err)
{
    int r;

    rdma->has_imm = rdma->id->verbs->device->transport_type == IBV_TRANSPORT_IB;
    r = make_queues(rdma);
    if (!r)
        r = make_qp(rdma);
    if (!r)
        r = rdma_post_recvs(rdma, 0, RDMA_RECV_DEPTH);
    if (!r) {
        rdma->ring_sge.lkey = rdma->local_mr->lkey;
        rdma->ring_wr.sg_list = &rdma->ring_sge;
        rdma->ring_wr.num_sge = 1;
        if (rdma->has_imm && rdma->inline_max > RDMA_EAGER_EXTRA)
            rdma->eager_max =
                gp_min(rdma->inline_max - RDMA_EAGER_EXTRA, RDMA_EAGER_MAX);
        rdma->noted = true;
        pthread_mutex_lock(&rdma->mr_lock);
        rdma->mr_ended = false;
        pthread_mutex_unlock(&rdma->mr_lock);
    }
    if (r < 0)
        return gp_err_set(err, r, "queue pair on %s: %s (locked memory limit?)",
                          rdma->id->verbs->device->name, strerror(-r));
    return 0;
}
