/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an RDMA peer sends: the hello in the private data of a connection request, and
 * all that it may write into the part of our memory that its key covers, with notes or
 * without: eager messages, stream bytes, offers of payloads, credits.
 *
 * There is no adapter.  This one's verbs are called by the same thread: a work request
 * is carried out when it is posted, and what arrives is taken from the input.  It traps
 * where the connection asks it to write into other memory of the peer's than the
 * hello named, or to use memory of our own that is not registered.  Buffers have the
 * exact length.
 */
#include "xport_rdma_cm.c"

#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEER UINT64_C(0x7fff00000000) /* where its struct rdma_region is */
#define RKEY 0x77u
#define MRS 64u
#define OPS_MAX 200
#define ARRIVALS (RDMA_RECV_DEPTH + 1)

struct input {
    const uint8_t *at, *end;
};

static struct {
    struct ibv_mr *mr[MRS];
    uint64_t receives[ARRIVALS]; /* wr_ids that are posted, in order */
    unsigned receive_first, n_receives;
    struct ibv_wc arrived[ARRIVALS], sent[RDMA_SEND_DEPTH + 1];
    unsigned arrived_first, n_arrived, sent_first, n_sent;
    struct input *events;
    struct rdma_cm_event event;
    uint8_t hello[256];
    struct rdma_cm_id *id; /* of the last request, until it is destroyed */
    int ended; /* descriptor that is always readable: the other end is closed */
} adapter;

/* ---- input ------------------------------------------------------------------------
 */

static uint64_t
number(struct input *in, unsigned bytes)
{
    uint64_t v = 0;

    for (; bytes && in->at < in->end; bytes--)
        v = v << 8 | *in->at++;
    return v;
}

static size_t
some(struct input *in, uint8_t *to, size_t max)
{
    size_t n = gp_min(max, (size_t)(in->end - in->at));

    memcpy(to, in->at, n);
    in->at += n;
    return n;
}

/* ---- verbs ------------------------------------------------------------------------
 */

static struct ibv_mr *
reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
    struct ibv_mr *mr;
    unsigned key = 1;

    (void)iova, (void)access;
    while (key < MRS && adapter.mr[key])
        key++;
    if (key == MRS) {
        errno = ENOMEM;
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    *mr = (struct ibv_mr){
        .pd = pd, .addr = addr, .length = len, .lkey = key, .rkey = key};
    return adapter.mr[key] = mr;
}

static int
dereg_mr(struct ibv_mr *mr)
{
    adapter.mr[mr->lkey] = NULL;
    free(mr);
    return 0;
}

static void
must_be_registered(const struct ibv_sge *sge)
{
    const struct ibv_mr *mr = sge->lkey < MRS ? adapter.mr[sge->lkey] : NULL;

    if (!mr || sge->addr < (uintptr_t)mr->addr || sge->length > mr->length ||
        sge->addr - (uintptr_t)mr->addr > mr->length - sge->length)
        __builtin_trap();
}

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    const struct ibv_sge *sge = wr->sg_list;
    uint64_t off = wr->wr.rdma.remote_addr - PEER;
    struct ibv_wc done = {.wr_id = wr->wr_id, .opcode = IBV_WC_RDMA_WRITE};
    volatile uint8_t sum = 0;

    (void)qp, (void)bad;
    if (!(wr->send_flags & IBV_SEND_INLINE))
        must_be_registered(sge);
    if (wr->opcode == IBV_WR_RDMA_READ) {
        done.opcode = IBV_WC_RDMA_READ;
        memset((void *)(uintptr_t)sge->addr, 0x11, sge->length);
    } else {
        if (wr->opcode != IBV_WR_SEND &&
            (wr->wr.rdma.rkey != RKEY || off > RDMA_REGION_SHARED ||
             sge->length > RDMA_REGION_SHARED - off))
            __builtin_trap();
        for (uint32_t i = 0; i < sge->length; i++)
            sum ^= ((const uint8_t *)(uintptr_t)sge->addr)[i];
    }
    if (wr->send_flags & IBV_SEND_SIGNALED) {
        if (adapter.n_sent == ARRAY_SIZE(adapter.sent))
            __builtin_trap();
        adapter
            .sent[(adapter.sent_first + adapter.n_sent++) % ARRAY_SIZE(adapter.sent)] =
            done;
    }
    return 0;
}

static int
post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp, (void)bad;
    if (adapter.n_receives == RDMA_RECV_DEPTH)
        __builtin_trap();
    adapter.receives[(adapter.receive_first + adapter.n_receives++) % ARRIVALS] =
        wr->wr_id;
    return 0;
}

static int
poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    bool sends = cq->cq_context == adapter.sent;
    unsigned *first = sends ? &adapter.sent_first : &adapter.arrived_first;
    unsigned *count = sends ? &adapter.n_sent : &adapter.n_arrived;
    int n = 0;

    for (; n < most && *count; n++, (*count)--)
        wc[n] = sends ? adapter.sent[(*first)++ % ARRAY_SIZE(adapter.sent)]
                      : adapter.arrived[(*first)++ % ARRIVALS];
    return n;
}

static int
req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)cq, (void)solicited;
    return 0;
}

static struct ibv_device device = {.name = "fuzz"};
static struct ibv_context context = {.device = &device,
                                     .ops = {.poll_cq = poll_cq,
                                             .req_notify_cq = req_notify_cq,
                                             .post_send = post_send,
                                             .post_recv = post_recv}};

static struct ibv_pd *
alloc_pd(struct ibv_context *ctx)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = ctx;
    return pd;
}

static int
dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

static struct ibv_comp_channel *
create_comp_channel(struct ibv_context *ctx)
{
    struct ibv_comp_channel *ch = calloc(1, sizeof(*ch));

    ch->context = ctx;
    ch->fd = adapter.ended;
    return ch;
}

static int
destroy_comp_channel(struct ibv_comp_channel *ch)
{
    free(ch);
    return 0;
}

/* The first is the senders'. */
static struct ibv_cq *
create_cq(struct ibv_context *ctx, int cqe, void *cookie, struct ibv_comp_channel *ch,
          int vector)
{
    struct ibv_cq *cq = calloc(1, sizeof(*cq));

    (void)cookie, (void)ch, (void)vector;
    cq->context = ctx;
    cq->cq_context = cqe == RDMA_SEND_DEPTH ? (void *)adapter.sent : NULL;
    return cq;
}

static int
destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

static int
get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cookie)
{
    (void)ch, (void)cq, (void)cookie;
    return -1;
}

static void
ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq, (void)n;
}

static int
query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    (void)ctx;
    memset(attr, 0, sizeof(*attr));
    return 0;
}

static const char *
status_text(enum ibv_wc_status status)
{
    (void)status;
    return "status";
}

static int
create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    (void)attr;
    id->qp = calloc(1, sizeof(*id->qp));
    id->qp->context = pd->context;
    return 0;
}

static void
destroy_qp(struct rdma_cm_id *id)
{
    free(id->qp);
    id->qp = NULL;
}

static int
id_ok(struct rdma_cm_id *id)
{
    (void)id;
    return 0;
}

static int
destroy_id(struct rdma_cm_id *id)
{
    if (id == adapter.id)
        adapter.id = NULL;
    free(id);
    return 0;
}

static int
with_param(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id, (void)param;
    return 0;
}

static int
reject(struct rdma_cm_id *id, const void *words, uint8_t len)
{
    (void)id, (void)words, (void)len;
    return 0;
}

static int
set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
    (void)id, (void)level, (void)name, (void)value, (void)len;
    return 0;
}

/* The next connection request, or another event, of the input. */
static int
get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **ret)
{
    struct input *in = adapter.events;
    struct rdma_cm_event *e = &adapter.event;
    uint8_t *private;
    size_t len;

    (void)ch;
    if (in->at == in->end) {
        errno = EIO;
        return -1;
    }
    memset(e, 0, sizeof(*e));
    e->event = (enum rdma_cm_event_type)(number(in, 1) % 16);
    len = number(in, 1);
    private = malloc(len ? len : 1); /* its exact length */
    e->param.conn.private_data_len = (uint8_t)some(in, private, len);
    e->param.conn.private_data = private;
    if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        e->id = adapter.id = calloc(1, sizeof(*e->id));
        e->id->verbs = &context;
    }
    *ret = e;
    return 0;
}

static int
ack_cm_event(struct rdma_cm_event *e)
{
    free((void *)(uintptr_t)e->param.conn.private_data);
    return 0;
}

static const char *
event_str(enum rdma_cm_event_type type)
{
    (void)type;
    return "event";
}

static void
destroy_event_channel(struct rdma_event_channel *ch)
{
    free(ch);
}

static const struct xport_verbs verbs = {
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = dereg_mr,
    .create_comp_channel = create_comp_channel,
    .destroy_comp_channel = destroy_comp_channel,
    .create_cq = create_cq,
    .destroy_cq = destroy_cq,
    .get_cq_event = get_cq_event,
    .ack_cq_events = ack_cq_events,
    .query_device = query_device,
    .wc_status_str = status_text,
    .destroy_event_channel = destroy_event_channel,
    .destroy_id = destroy_id,
    .create_qp = create_qp,
    .destroy_qp = destroy_qp,
    .connect = with_param,
    .accept = with_param,
    .reject = reject,
    .disconnect = id_ok,
    .get_cm_event = get_cm_event,
    .ack_cm_event = ack_cm_event,
    .event_str = event_str,
    .set_option = set_option,
};

/* ---- the hello --------------------------------------------------------------------
 */

static struct rdma_event_channel *
channel_new(void)
{
    struct rdma_event_channel *ch = calloc(1, sizeof(*ch));

    ch->fd = adapter.ended;
    return ch;
}

/* A worker's side: who is let in has the cookie. */
static void
listen_to(struct input *in)
{
    uint8_t cookie[RDMA_COOKIE_SIZE] = "the right cookie";
    struct xport_rdma_listener *l = calloc(1, sizeof(*l));
    struct xport_conn *conn = NULL;

    adapter.events = in;
    l->v = &verbs;
    l->channel = channel_new();
    if (xport_rdma_accept(l, -1, cookie, 65536, GP_FOREVER, &conn, NULL) == 0) {
        const struct rdma_conn *rdma = rdma_of(conn);

        if (rdma->peer.magic != RDMA_MAGIC ||
            memcmp(rdma->peer.cookie, cookie, sizeof(cookie)) != 0)
            __builtin_trap();
        xport_free(conn);
    }
    xport_rdma_listener_free(l);
    free(adapter.id); /* a request where none can come: no listener lives any more */
}

/* A client's: what the worker answers with. */
static void
connect_to(struct input *in, struct rdma_conn *rdma)
{
    uint8_t cookie[RDMA_COOKIE_SIZE] = "the right cookie";

    adapter.events = in;
    if (client_connect(rdma, cookie, GP_FOREVER, NULL) == 0 &&
        rdma->peer.magic != RDMA_MAGIC)
        __builtin_trap();
    free(adapter.id);
}

/* ---- the stream -------------------------------------------------------------------
 */

/* What the peer's adapter may do: bytes anywhere in the front part. */
static void
peer_writes(struct rdma_conn *rdma, struct input *in, size_t at, size_t len)
{
    uint8_t *front = (uint8_t *)rdma->region;

    at %= RDMA_REGION_SHARED;
    some(in, front + at, gp_min(len, RDMA_REGION_SHARED - at));
}

/* The same with a note, which takes a receive. */
static void
peer_notes(struct rdma_conn *rdma, struct input *in)
{
    uint32_t note = (uint32_t)number(in, 1) % 4 << 24, len;
    struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM};
    uint64_t slot;

    note |= number(in, 1) & 1 ? (uint32_t)number(in, 3)
                              : (uint32_t)(rdma->received % RDMA_RING_SIZE);
    len = (uint32_t)number(in, 2);
    if (len == sizeof(struct rdma_offer) + 1)
        len = RDMA_RING_SIZE;
    if (!adapter.n_receives || adapter.n_arrived == RDMA_RECV_DEPTH)
        return;
    slot = adapter.receives[adapter.receive_first++ % ARRIVALS];
    adapter.n_receives--;
    peer_writes(rdma, in,
                offsetof(struct rdma_region, ring) +
                    RDMA_NOTE_PLACE(note) % RDMA_RING_SIZE,
                gp_min(len, 64u));
    wc.wr_id = slot;
    wc.byte_len = len;
    wc.imm_data = htonl(note);
    wc.wc_flags = rdma->has_imm ? IBV_WC_WITH_IMM : 0;
    if (!rdma->has_imm)
        rdma->region->notes[slot] = (uint64_t)len << 32 | note;
    adapter.arrived[(adapter.arrived_first + adapter.n_arrived++) % ARRIVALS] = wc;
}

/* An eager message behind what was received, right but for what the input changes. */
static void
peer_is_eager(struct rdma_conn *rdma, struct input *in)
{
    uint64_t at = GP_ALIGN_UP(rdma->received, 8), sum, word;
    size_t place = at % RDMA_RING_SIZE, len = number(in, 1) / 8 * 8;
    uint64_t head = RDMA_EAGER_HEAD(at, len) ^ number(in, 1) << 24;
    uint8_t *to = rdma->region->ring + place;

    if (place + len + RDMA_EAGER_EXTRA > RDMA_RING_SIZE)
        return;
    some(in, to + 8, len);
    memcpy(to, &head, 8);
    sum = (at ^ head) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < len; i += 8) {
        memcpy(&word, to + 8 + i, 8);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    }
    sum ^= number(in, 1) & 1;
    memcpy(to + 8 + len, &sum, 8);
}

static void
we_read(struct rdma_conn *rdma, unsigned what, bool bulk)
{
    static const size_t lens[] = {1, 8, 24, 100, 4096, 70000, 300000, 1 << 21};
    size_t len = lens[what % 8], n = 0;
    uint8_t *buf = malloc(len);

    if (bulk)
        xport_recv_bulk(&rdma->stream.conn, buf, len);
    else if (rdma_read(rdma, buf, len, &n, gp_now_ns()) == 0 && n > len)
        __builtin_trap();
    if (rdma->seg_count > RDMA_RECV_DEPTH || rdma->spill_at > rdma->spill_end ||
        rdma->spill_end > RDMA_EAGER_MAX)
        __builtin_trap();
    free(buf);
}

static void
we_send(struct rdma_conn *rdma, unsigned what)
{
    static const uint8_t frame[4096];
    size_t len = (what + 1) * 8, n = 0;

    if (rdma_send_now(rdma, frame, len, &n) == 0 && n > len)
        __builtin_trap();
}

static void
stream_of(struct rdma_conn *rdma, struct input *in)
{
    for (int i = 0; i < OPS_MAX && in->at < in->end; i++) {
        unsigned op = (unsigned)number(in, 1);

        switch (op % 8) {
        case 0:
        case 1:
            peer_notes(rdma, in);
            break;
        case 2:
            peer_is_eager(rdma, in);
            break;
        case 3:
            peer_writes(rdma, in, number(in, 3), number(in, 1));
            break;
        case 4:
            rdma->region->out.awake = op >> 3 & 1;
            break;
        case 5:
            we_send(rdma, op >> 3);
            break;
        default:
            we_read(rdma, op >> 3, op % 8 == 7);
        }
    }
}

static struct rdma_conn *
conn_new(void)
{
    struct rdma_conn *rdma;
    int fd[2];

    if (rdma_conn_new(&verbs, 65536, &rdma, NULL) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        __builtin_trap();
    close(fd[1]); /* nobody waits for what the input does not have */
    rdma->stream.conn.fd = fd[0];
    rdma->stream.spin.spin_ns = 0;
    rdma->id = calloc(1, sizeof(*rdma->id));
    rdma->id->verbs = &context;
    rdma->cm_channel = channel_new();
    return rdma;
}

/* The first byte: what the adapter is, and what is read of the peer. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data + 1, data + size};
    struct rdma_conn *rdma;
    int fd[2];

    if (size < 2)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        __builtin_trap();
    close(fd[1]);
    memset(&adapter, 0, sizeof(adapter));
    adapter.ended = fd[0];
    device.transport_type = data[0] & 1 ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    if (data[0] % 8 / 2 == 1) {
        listen_to(&in);
    } else {
        rdma = conn_new();
        if (data[0] % 8 / 2 == 2) {
            connect_to(&in, rdma);
        } else if (rdma_conn_resources(rdma, NULL) == 0) {
            rdma->peer =
                (struct rdma_hello){.region = PEER, .rkey = RKEY, .magic = RDMA_MAGIC};
            stream_of(rdma, &in);
        }
        rdma_conn_free(&rdma->stream.conn);
    }
    close(fd[0]);
    return 0;
}
