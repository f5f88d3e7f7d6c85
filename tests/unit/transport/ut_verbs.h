/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adapter of this process's own for the tests of transport/: two connected queue
 * pairs whose work requests a thread carries out, in order, some time after they were
 * posted.  After a given number of bytes both queue pairs are in error, and what is
 * left is flushed, as when retries are used up.
 *
 * Only what transport/xport_rdma*.c uses: WRITE, WRITE_WITH_IMM, READ, inline data,
 * completion channels.  Keys are checked; memory that is not registered any more ends
 * both queue pairs.
 */
#ifndef UT_VERBS_H
#define UT_VERBS_H

#include "ut.h"

#include "gp_time.h"
#include "xport_rdma.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define UT_VERBS_MRS 8192u
#define UT_VERBS_DEPTH 1024u /* of each queue */

struct ut_cq {
    struct ibv_cq cq;
    struct ut_channel *channel;
    bool armed, event;
    unsigned first, n;
    struct ibv_wc wc[UT_VERBS_DEPTH];
};

struct ut_channel {
    struct ibv_comp_channel channel;
    struct ut_cq *cq[2];
};

struct ut_work {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint8_t bytes[RDMA_INLINE];
};

struct ut_qp {
    struct ibv_qp qp;
    struct ut_cq *send, *recv;
    struct ut_qp *peer;
    unsigned first, n, recv_first, recv_n;
    struct ut_work work[UT_VERBS_DEPTH];
    uint64_t receive[UT_VERBS_DEPTH]; /* wr_ids */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ibv_mr *mr[UT_VERBS_MRS];
    uint32_t last_key;
    struct ut_qp *qp[2]; /* those that live */
    int64_t left;        /* bytes until both are in error */
    bool broken, stop;
    int cm_fd[2];     /* of both ends' connection managers */
    bool manager_too; /* who hear of the end */
    unsigned reads_cut;
    pthread_t thread;
} ut_adapter = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- memory -----------------------------------------------------------------------
 */

static struct ibv_mr *
ut_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));

    (void)iova, (void)access;
    pthread_mutex_lock(&ut_adapter.lock);
    while (ut_adapter.mr[++ut_adapter.last_key % UT_VERBS_MRS])
        ;
    *mr = (struct ibv_mr){.pd = pd,
                          .addr = addr,
                          .length = len,
                          .lkey = ut_adapter.last_key,
                          .rkey = ut_adapter.last_key};
    ut_adapter.mr[mr->lkey % UT_VERBS_MRS] = mr;
    pthread_mutex_unlock(&ut_adapter.lock);
    return mr;
}

static int
ut_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&ut_adapter.lock);
    ut_adapter.mr[mr->lkey % UT_VERBS_MRS] = NULL;
    pthread_mutex_unlock(&ut_adapter.lock);
    free(mr);
    return 0;
}

static bool
ut_may(uint64_t addr, size_t len, uint32_t key)
{
    const struct ibv_mr *mr = ut_adapter.mr[key % UT_VERBS_MRS];

    return mr && mr->lkey == key && addr >= (uintptr_t)mr->addr && len <= mr->length &&
           addr - (uintptr_t)mr->addr <= mr->length - len;
}

static uint64_t
ut_word(const uint8_t *from)
{
    uint64_t word;

    if ((uintptr_t)from % 8 == 0)
        return __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
    memcpy(&word, from, 8);
    return word;
}

/* Into memory that somebody may be looking at: whole words where they are aligned. */
static void
ut_copy(uint64_t to, uint64_t from, size_t len)
{
    uint8_t *t = (uint8_t *)(uintptr_t)to;
    const uint8_t *f = (const uint8_t *)(uintptr_t)from;
    size_t i = 0;

    for (; to % 8 == 0 && i + 8 <= len; i += 8)
        __atomic_store_n((uint64_t *)(void *)(t + i), ut_word(f + i), __ATOMIC_RELEASE);
    for (; i < len; i++)
        __atomic_store_n(t + i, f[i], __ATOMIC_RELEASE);
}

/* ---- completions; under the lock --------------------------------------------------
 */

static void
ut_complete(struct ut_cq *cq, const struct ibv_wc *wc)
{
    assert_true(cq->n < UT_VERBS_DEPTH);
    cq->wc[(cq->first + cq->n++) % UT_VERBS_DEPTH] = *wc;
    if (cq->armed) {
        cq->armed = false;
        cq->event = true;
        assert_int_equal(eventfd_write(cq->channel->channel.fd, 1), 0);
    }
}

static void
ut_flush(struct ut_qp *qp)
{
    struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR};

    for (; qp->n; qp->n--, qp->first++) {
        wc.wr_id = qp->work[qp->first % UT_VERBS_DEPTH].wr.wr_id;
        ut_adapter.reads_cut +=
            qp->work[qp->first % UT_VERBS_DEPTH].wr.opcode == IBV_WR_RDMA_READ;
        ut_complete(qp->send, &wc);
    }
    for (; qp->recv_n; qp->recv_n--, qp->recv_first++) {
        wc.wr_id = qp->receive[qp->recv_first % UT_VERBS_DEPTH];
        ut_complete(qp->recv, &wc);
    }
}

static void
ut_break(void)
{
    ut_adapter.broken = true;
    for (int i = 0; i < 2; i++) {
        if (ut_adapter.qp[i])
            ut_flush(ut_adapter.qp[i]);
        if (ut_adapter.manager_too)
            eventfd_write(ut_adapter.cm_fd[i], 1);
    }
}

/* False: the keys do not allow it, or nobody is ready to receive. */
static bool
ut_carry_out(struct ut_qp *qp, const struct ut_work *work)
{
    const struct ibv_send_wr *wr = &work->wr;
    bool is_inline = wr->send_flags & IBV_SEND_INLINE;
    uint64_t local = is_inline ? (uintptr_t)work->bytes : work->sge.addr;
    uint64_t remote = wr->wr.rdma.remote_addr;
    size_t len = work->sge.length;
    struct ut_qp *peer = qp->peer;
    struct ibv_wc done = {.wr_id = wr->wr_id, .opcode = IBV_WC_RDMA_WRITE};

    if (!ut_may(remote, len, wr->wr.rdma.rkey) ||
        (!is_inline && !ut_may(local, len, work->sge.lkey)))
        return false;
    if (wr->opcode == IBV_WR_RDMA_READ) {
        done.opcode = IBV_WC_RDMA_READ;
        if (len == 8)
            ut_copy(local, remote, len);
        else
            memcpy((void *)(uintptr_t)local, (void *)(uintptr_t)remote, len);
    } else {
        ut_copy(remote, local, len);
    }
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        struct ibv_wc arrived = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                                 .byte_len = (uint32_t)len,
                                 .imm_data = wr->imm_data,
                                 .wc_flags = IBV_WC_WITH_IMM};

        if (!peer->recv_n)
            return false;
        arrived.wr_id = peer->receive[peer->recv_first++ % UT_VERBS_DEPTH];
        peer->recv_n--;
        ut_complete(peer->recv, &arrived);
    }
    if (wr->send_flags & IBV_SEND_SIGNALED)
        ut_complete(qp->send, &done);
    ut_adapter.left -= (int64_t)len;
    return true;
}

static void *
ut_adapter_main(void *arg)
{
    unsigned turn = 0;

    (void)arg;
    pthread_mutex_lock(&ut_adapter.lock);
    while (!ut_adapter.stop) {
        struct ut_qp *qp = ut_adapter.qp[turn++ % 2];

        if (ut_adapter.broken || !((ut_adapter.qp[0] && ut_adapter.qp[0]->n) ||
                                   (ut_adapter.qp[1] && ut_adapter.qp[1]->n))) {
            pthread_cond_wait(&ut_adapter.changed, &ut_adapter.lock);
            continue;
        }
        if (qp && qp->n) {
            struct ut_work *work = &qp->work[qp->first % UT_VERBS_DEPTH];

            if (!qp->peer || ut_adapter.left <= 0 || !ut_carry_out(qp, work)) {
                ut_break();
                continue;
            }
            qp->first++;
            qp->n--;
        }
        /* Others get at their queues between two requests. */
        pthread_mutex_unlock(&ut_adapter.lock);
        pthread_mutex_lock(&ut_adapter.lock);
    }
    pthread_mutex_unlock(&ut_adapter.lock);
    return NULL;
}

/* ---- queues -----------------------------------------------------------------------
 */

static struct ut_qp *
ut_qp_of(struct ibv_qp *qp)
{
    return container_of(qp, struct ut_qp, qp);
}

static int
ut_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct ut_qp *qp = ut_qp_of(ibv);
    struct ut_work *work;

    (void)bad;
    pthread_mutex_lock(&ut_adapter.lock);
    assert_true(qp->n < UT_VERBS_DEPTH);
    work = &qp->work[(qp->first + qp->n++) % UT_VERBS_DEPTH];
    work->wr = *wr;
    work->sge = *wr->sg_list;
    if (wr->send_flags & IBV_SEND_INLINE)
        memcpy(work->bytes, (void *)(uintptr_t)work->sge.addr, work->sge.length);
    if (ut_adapter.broken)
        ut_flush(qp);
    pthread_cond_signal(&ut_adapter.changed);
    pthread_mutex_unlock(&ut_adapter.lock);
    return 0;
}

static int
ut_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct ut_qp *qp = ut_qp_of(ibv);

    (void)bad;
    pthread_mutex_lock(&ut_adapter.lock);
    assert_true(qp->recv_n < UT_VERBS_DEPTH);
    qp->receive[(qp->recv_first + qp->recv_n++) % UT_VERBS_DEPTH] = wr->wr_id;
    if (ut_adapter.broken)
        ut_flush(qp);
    pthread_mutex_unlock(&ut_adapter.lock);
    return 0;
}

static int
ut_poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *wc)
{
    struct ut_cq *cq = container_of(ibv, struct ut_cq, cq);
    int n = 0;

    pthread_mutex_lock(&ut_adapter.lock);
    for (; n < most && cq->n; n++, cq->n--)
        wc[n] = cq->wc[cq->first++ % UT_VERBS_DEPTH];
    pthread_mutex_unlock(&ut_adapter.lock);
    return n;
}

static int
ut_req_notify_cq(struct ibv_cq *ibv, int solicited)
{
    (void)solicited;
    pthread_mutex_lock(&ut_adapter.lock);
    container_of(ibv, struct ut_cq, cq)->armed = true;
    pthread_mutex_unlock(&ut_adapter.lock);
    return 0;
}

static struct ibv_device ut_device = {.name = "ut0",
                                      .transport_type = IBV_TRANSPORT_IB};
static struct ibv_context ut_context = {.device = &ut_device,
                                        .ops = {.poll_cq = ut_poll_cq,
                                                .req_notify_cq = ut_req_notify_cq,
                                                .post_send = ut_post_send,
                                                .post_recv = ut_post_recv}};

static struct ibv_comp_channel *
ut_create_comp_channel(struct ibv_context *ctx)
{
    struct ut_channel *ch = calloc(1, sizeof(*ch));

    ch->channel.context = ctx;
    ch->channel.fd = eventfd(0, EFD_CLOEXEC);
    return &ch->channel;
}

static int
ut_destroy_comp_channel(struct ibv_comp_channel *ch)
{
    close(ch->fd);
    free(container_of(ch, struct ut_channel, channel));
    return 0;
}

static struct ibv_cq *
ut_create_cq(struct ibv_context *ctx, int cqe, void *cookie,
             struct ibv_comp_channel *ch, int vector)
{
    struct ut_cq *cq = calloc(1, sizeof(*cq));

    (void)cqe, (void)vector;
    cq->cq.context = ctx;
    cq->cq.cq_context = cookie;
    cq->channel = container_of(ch, struct ut_channel, channel);
    cq->channel->cq[cq->channel->cq[0] != NULL] = cq;
    return &cq->cq;
}

static int
ut_destroy_cq(struct ibv_cq *cq)
{
    free(container_of(cq, struct ut_cq, cq));
    return 0;
}

static int
ut_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **ret, void **cookie)
{
    struct ut_channel *ch = container_of(ibv, struct ut_channel, channel);
    eventfd_t count;
    int r = -1;

    *cookie = NULL;
    pthread_mutex_lock(&ut_adapter.lock);
    for (int i = 0; i < 2 && r < 0; i++) {
        if (!ch->cq[i]->event)
            continue;
        ch->cq[i]->event = false;
        *ret = &ch->cq[i]->cq;
        r = 0;
    }
    if (r == 0 && !ch->cq[0]->event && !ch->cq[1]->event)
        eventfd_read(ch->channel.fd, &count);
    pthread_mutex_unlock(&ut_adapter.lock);
    return r;
}

static void
ut_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq, (void)n;
}

static struct ibv_pd *
ut_alloc_pd(struct ibv_context *ctx)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = ctx;
    return pd;
}

static int
ut_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

static int
ut_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ut_qp *qp = calloc(1, sizeof(*qp));

    qp->qp.context = pd->context;
    qp->send = container_of(attr->send_cq, struct ut_cq, cq);
    qp->recv = container_of(attr->recv_cq, struct ut_cq, cq);
    pthread_mutex_lock(&ut_adapter.lock);
    qp->peer = ut_adapter.qp[0];
    ut_adapter.qp[qp->peer != NULL] = qp;
    if (qp->peer)
        qp->peer->peer = qp;
    pthread_mutex_unlock(&ut_adapter.lock);
    id->qp = &qp->qp;
    return 0;
}

static void
ut_destroy_qp(struct rdma_cm_id *id)
{
    struct ut_qp *qp = ut_qp_of(id->qp);

    pthread_mutex_lock(&ut_adapter.lock);
    ut_adapter.reads_cut +=
        qp->n && qp->work[qp->first % UT_VERBS_DEPTH].wr.opcode == IBV_WR_RDMA_READ;
    for (int i = 0; i < 2; i++)
        if (ut_adapter.qp[i] == qp)
            ut_adapter.qp[i] = NULL;
    if (qp->peer)
        qp->peer->peer = NULL;
    free(qp);
    id->qp = NULL;
    pthread_mutex_unlock(&ut_adapter.lock);
}

static int
ut_destroy_id(struct rdma_cm_id *id)
{
    free(id);
    return 0;
}

static int
ut_disconnect(struct rdma_cm_id *id)
{
    (void)id;
    return 0;
}

static void
ut_destroy_event_channel(struct rdma_event_channel *ch)
{
    free(ch);
}

static const char *
ut_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_WR_FLUSH_ERR ? "flushed" : "error";
}

static const struct xport_verbs ut_verbs = {
    .alloc_pd = ut_alloc_pd,
    .dealloc_pd = ut_dealloc_pd,
    .reg_mr = ut_reg_mr,
    .dereg_mr = ut_dereg_mr,
    .create_comp_channel = ut_create_comp_channel,
    .destroy_comp_channel = ut_destroy_comp_channel,
    .create_cq = ut_create_cq,
    .destroy_cq = ut_destroy_cq,
    .get_cq_event = ut_get_cq_event,
    .ack_cq_events = ut_ack_cq_events,
    .wc_status_str = ut_wc_status_str,
    .destroy_event_channel = ut_destroy_event_channel,
    .destroy_id = ut_destroy_id,
    .create_qp = ut_create_qp,
    .destroy_qp = ut_destroy_qp,
    .disconnect = ut_disconnect,
};

/* ---- a connected pair -------------------------------------------------------------
 */

/* What connecting makes. */
static void
ut_rdma_resources(struct rdma_conn *rdma, int ctl_fd, int cm_fd)
{
    rdma->id = calloc(1, sizeof(*rdma->id));
    rdma->id->verbs = &ut_context;
    rdma->cm_channel = calloc(1, sizeof(*rdma->cm_channel));
    rdma->cm_channel->fd = cm_fd;
    assert_int_equal(rdma_conn_resources(rdma, NULL), 0);
    rdma->stream.conn.fd = ctl_fd;
}

static struct rdma_conn *
ut_rdma_end(uint32_t frame_max, int ctl_fd, int cm_fd)
{
    struct rdma_conn *rdma;

    assert_int_equal(rdma_conn_new(&ut_verbs, frame_max, &rdma, NULL), 0);
    ut_rdma_resources(rdma, ctl_fd, cm_fd);
    return rdma;
}

static void
ut_rdma_meet(struct rdma_conn *end[2])
{
    for (int i = 0; i < 2; i++)
        end[i]->peer = (struct rdma_hello){.region = (uintptr_t)end[!i]->region,
                                           .rkey = end[!i]->shared_mr->rkey};
}

/* The same two ends again, which have ended; for @left bytes. */
static inline void
ut_verbs_again(struct rdma_conn *end[2], int64_t left, int ret_fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fd), 0);
    pthread_mutex_lock(&ut_adapter.lock);
    ut_adapter.left = left;
    ut_adapter.broken = false;
    pthread_mutex_unlock(&ut_adapter.lock);
    for (int i = 0; i < 2; i++) {
        close(ut_adapter.cm_fd[i]);
        ut_adapter.cm_fd[i] = eventfd(0, EFD_CLOEXEC);
        assert_int_equal(rdma_conn_renew(end[i], NULL), 0);
        ut_rdma_resources(end[i], ret_fd[i], ut_adapter.cm_fd[i]);
    }
    ut_rdma_meet(end);
}

/* Both ends of an RDMA connection whose queue pairs are in error after @left bytes;
 * with
 * @manager_too the connection managers hear of it. */
static void
ut_verbs_pair(uint32_t frame_max, int64_t left, bool manager_too,
              struct xport_conn *ret[2])
{
    struct rdma_conn *end[2];
    int fd[2];

    ut_adapter.left = left;
    ut_adapter.broken = ut_adapter.stop = false;
    ut_adapter.manager_too = manager_too;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++) {
        ut_adapter.cm_fd[i] = eventfd(0, EFD_CLOEXEC);
        end[i] = ut_rdma_end(frame_max, fd[i], ut_adapter.cm_fd[i]);
        ret[i] = &end[i]->stream.conn;
    }
    ut_rdma_meet(end);
    assert_int_equal(pthread_create(&ut_adapter.thread, NULL, ut_adapter_main, NULL),
                     0);
}

/* Both ends have been freed. */
static void
ut_verbs_pair_end(void)
{
    pthread_mutex_lock(&ut_adapter.lock);
    ut_adapter.stop = true;
    pthread_cond_signal(&ut_adapter.changed);
    pthread_mutex_unlock(&ut_adapter.lock);
    pthread_join(ut_adapter.thread, NULL);
    for (int i = 0; i < 2; i++)
        close(ut_adapter.cm_fd[i]);
    for (unsigned i = 0; i < UT_VERBS_MRS; i++)
        assert_null(ut_adapter.mr[i]);
}

#endif
