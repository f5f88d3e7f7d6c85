/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_rdma.h"

#include "gp_copy.h"
#include "gp_log.h"
#include "gp_time.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* How long to let the queue pair work when its send queue is full. */
#define POST_SLEEP_NS 10000

static int
send_done(struct rdma_conn *rdma, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS) {
        gp_log_debug("xport", "rdma send: %s", rdma->v->wc_status_str(wc->status));
        return wc->status == IBV_WC_WR_FLUSH_ERR ? -ECONNRESET : -EIO;
    }
    /* The device has taken this one and all in front of it; READs among those may still
     * be under way on iWARP, and are in order only among themselves. */
    rdma->completed = gp_max(rdma->completed, wc->wr_id);
    if (wc->opcode == IBV_WC_RDMA_READ)
        __atomic_store_n(&rdma->reads_done, rdma->reads_done + 1, __ATOMIC_RELEASE);
    return 0;
}

static int
reap_locked(struct rdma_conn *rdma)
{
    struct ibv_wc wc[RDMA_SIGNAL_EVERY];
    int n, r = 0;

    do {
        n = ibv_poll_cq(rdma->send_cq, ARRAY_SIZE(wc), wc);
        for (int i = 0; i < n && !r; i++)
            r = send_done(rdma, &wc[i]);
    } while (n == ARRAY_SIZE(wc) && !r);
    return n < 0 ? -EIO : r;
}

int
rdma_reap_sends(struct rdma_conn *rdma)
{
    int r;

    gp_lock_take(&rdma->send_lock);
    r = reap_locked(rdma);
    gp_lock_release(&rdma->send_lock);
    return r;
}

static bool
queue_full(const struct rdma_conn *rdma)
{
    return rdma->posted - rdma->completed >= RDMA_SEND_DEPTH - 1;
}

/* Room in the send queue.  Under the lock, which is let go while there is none: the
 * other thread may have to post what the peer waits for.  Completions need not come
 * from a connection that has ended (iWARP), so the peer is looked at as well. */
static int
post_room(struct rdma_conn *rdma)
{
    uint64_t now, look = 0;
    int r = 0;

    while (!r && queue_full(rdma)) {
        r = reap_locked(rdma);
        if (!r)
            r = __atomic_load_n(&rdma->stream.conn.error, __ATOMIC_RELAXED);
        if (!r && queue_full(rdma)) {
            gp_lock_release(&rdma->send_lock);
            nanosleep(&(struct timespec){0, POST_SLEEP_NS}, NULL);
            now = gp_now_ns();
            if (look && now > look)
                r = rdma_liveness(rdma);
            if (!look || now > look)
                look = now + RDMA_LIVENESS_NS;
            gp_lock_take(&rdma->send_lock);
        }
    }
    return r;
}

GP_HOT static int
post_locked(struct rdma_conn *rdma, struct ibv_send_wr *wr, bool signal)
{
    struct ibv_send_wr *bad;
    int r = unlikely(queue_full(rdma)) ? post_room(rdma) : 0;

    if (!r) {
        wr->wr_id = ++rdma->posted;
        if (signal || rdma->posted % RDMA_SIGNAL_EVERY == 0)
            wr->send_flags |= IBV_SEND_SIGNALED;
        r = -ibv_post_send(rdma->id->qp, wr, &bad);
        rdma->stream.conn.stats.tx_writes++;
    }
    return r;
}

GP_HOT int
rdma_post(struct rdma_conn *rdma, struct ibv_send_wr *wr, bool signal)
{
    int r;

    gp_lock_take(&rdma->send_lock);
    r = post_locked(rdma, wr, signal);
    gp_lock_release(&rdma->send_lock);
    return r;
}

int
rdma_post_read(struct rdma_conn *rdma, struct ibv_send_wr *wr, uint64_t *ret_number)
{
    int r;

    gp_lock_take(&rdma->send_lock);
    r = post_locked(rdma, wr, true);
    if (!r)
        *ret_number = ++rdma->reads;
    gp_lock_release(&rdma->send_lock);
    return r;
}

uint64_t
rdma_posted(struct rdma_conn *rdma)
{
    uint64_t n;

    gp_lock_take(&rdma->send_lock);
    n = rdma->posted;
    gp_lock_release(&rdma->send_lock);
    return n;
}

int
rdma_post_recvs(struct rdma_conn *rdma, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned slot = (first + i) % RDMA_RECV_DEPTH;
        struct ibv_sge sge = {(uintptr_t)&rdma->region->notes[slot], sizeof(uint64_t),
                              rdma->local_mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

        if (ibv_post_recv(rdma->id->qp, &wr, &bad))
            return -EIO;
    }
    return 0;
}

/* Note one arrival; a peer that lies about lengths or ignores its credits is cut off.
 */
GP_HOT static int
arrived(struct rdma_conn *rdma, const struct ibv_wc *wc)
{
    uint64_t note, start;
    uint32_t len, place;
    struct rdma_segment *seg;

    if (wc->status != IBV_WC_SUCCESS) {
        gp_log_debug("xport", "rdma receive: %s", rdma->v->wc_status_str(wc->status));
        return wc->status == IBV_WC_WR_FLUSH_ERR ? -ECONNRESET : -EIO;
    }
    note = rdma->region->notes[wc->wr_id];
    len = (uint32_t)(note >> 32);
    if (likely(wc->wc_flags & IBV_WC_WITH_IMM)) {
        note = ntohl(wc->imm_data);
        len = wc->byte_len;
    }
    place = RDMA_NOTE_PLACE(note);
    start = rdma->tail + (place - rdma->tail) % RDMA_RING_SIZE;
    /* Between what came before and this piece there are eager messages, or nothing. */
    if (place >= RDMA_RING_SIZE || !len || len > RDMA_RING_SIZE - place ||
        start < rdma->received || (start > rdma->received && !rdma->eager_max) ||
        start + len - rdma->tail > RDMA_RING_SIZE)
        return -EPROTO;
    if (RDMA_NOTE_KIND(note) > RDMA_PAD ||
        (RDMA_NOTE_KIND(note) == RDMA_OFFER && len != sizeof(struct rdma_offer)))
        return -EPROTO;
    /* Bytes behind bytes are one run, so that a reader that falls behind has few. */
    seg = &rdma->segments[(rdma->seg_first + rdma->seg_count - 1) % RDMA_RECV_DEPTH];
    if (rdma->seg_count && RDMA_NOTE_KIND(note) == RDMA_DATA &&
        seg->kind == RDMA_DATA && start == rdma->received) {
        seg->len += len;
    } else {
        seg = &rdma->segments[(rdma->seg_first + rdma->seg_count++) % RDMA_RECV_DEPTH];
        *seg = (struct rdma_segment){start, RDMA_NOTE_KIND(note), len};
    }
    rdma->received = start + len;
    return 0;
}

/* Receives complete in the order they were posted, so those taken are a run. */
GP_HOT static int
post_again(struct rdma_conn *rdma, unsigned first, unsigned n)
{
    int r;

    if (!rdma->unposted)
        rdma->unposted_first = first;
    rdma->unposted += n;
    if (rdma->unposted < RDMA_POST_BATCH)
        return 0;
    r = rdma_post_recvs(rdma, rdma->unposted_first, rdma->unposted);
    rdma->region->out.writes += rdma->unposted;
    rdma->unposted = 0;
    return r;
}

GP_HOT int
rdma_reap_recvs(struct rdma_conn *rdma)
{
    struct ibv_wc wc[16];
    int n = gp_min((int)(RDMA_RECV_DEPTH - rdma->seg_count), (int)ARRAY_SIZE(wc));

    if (rdma->recv_error)
        return rdma->recv_error;
    if (unlikely(!n))
        return 0; /* what is there first: the peer has no more receives */
    n = ibv_poll_cq(rdma->recv_cq, n, wc);
    if (n < 0)
        return -EIO;
    for (int i = 0; i < n; i++) {
        int r = arrived(rdma, &wc[i]);

        /* What arrived before the end is still to be read. */
        if (r < 0)
            rdma->recv_error = r;
        if (r < 0)
            return i ? 0 : r;
    }
    if (!n)
        return -EAGAIN;
    return post_again(rdma, (unsigned)wc[0].wr_id, (unsigned)n);
}

int
rdma_credit_write(struct rdma_conn *rdma)
{
    struct rdma_credit *out = &rdma->region->out;
    struct ibv_sge sge = {(uintptr_t)out, sizeof(*out), rdma->local_mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = rdma->inline_max >= sizeof(*out) ? IBV_SEND_INLINE : 0,
        .wr.rdma = {rdma->peer.region + offsetof(struct rdma_region, credit),
                    rdma->peer.rkey},
    };

    out->bytes = rdma->credited_bytes = rdma->tail;
    out->received = rdma->got;
    rdma->credited_writes = out->writes;
    rdma->served = out->done;
    return rdma_post(rdma, &wr, false);
}

static int
note_ring(struct rdma_conn *rdma, uint64_t content)
{
    /* As many notes as sends may be under way, so none is overwritten before it left.
     */
    uint64_t *note = &rdma->region->note_out[rdma->writes % RDMA_SEND_DEPTH];
    struct ibv_sge sge = {(uintptr_t)note, sizeof(*note), rdma->local_mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    *note = content;
    return rdma_post(rdma, &wr, false);
}

GP_HOT int
rdma_write_ring(struct rdma_conn *rdma, enum rdma_kind kind, const void *data,
                size_t len)
{
    size_t at = rdma->head % RDMA_RING_SIZE;
    uint32_t note = RDMA_NOTE(kind, at);
    struct ibv_send_wr *wr = &rdma->ring_wr;
    int r;

    if (likely(len <= rdma->inline_max)) {
        wr->send_flags = IBV_SEND_INLINE;
        rdma->ring_sge.addr = (uintptr_t)data;
    } else {
        wr->send_flags = 0;
        gp_copy(rdma->region->stage + at, data, len);
        rdma->ring_sge.addr = (uintptr_t)rdma->region->stage + at;
    }
    rdma->ring_sge.length = (uint32_t)len;
    wr->wr.rdma.remote_addr =
        rdma->peer.region + offsetof(struct rdma_region, ring) + at;
    wr->wr.rdma.rkey = rdma->peer.rkey;
    wr->opcode = rdma->has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    wr->imm_data = htonl(note);
    r = rdma_post(rdma, wr, false);
    if (!r && !rdma->has_imm)
        r = note_ring(rdma, (uint64_t)len << 32 | note);
    rdma->head += len;
    rdma->writes++;
    rdma->stream.conn.stats.tx_bytes += kind == RDMA_DATA ? len : 0;
    return r;
}

GP_HOT int
rdma_write_plain(struct rdma_conn *rdma, size_t place, const void *data, size_t len)
{
    struct ibv_send_wr *wr = &rdma->ring_wr;

    wr->send_flags = IBV_SEND_INLINE;
    wr->opcode = IBV_WR_RDMA_WRITE;
    rdma->ring_sge.addr = (uintptr_t)data;
    rdma->ring_sge.length = (uint32_t)len;
    wr->wr.rdma.remote_addr =
        rdma->peer.region + offsetof(struct rdma_region, ring) + place;
    wr->wr.rdma.rkey = rdma->peer.rkey;
    return rdma_post(rdma, wr, false);
}

int
rdma_echo(struct rdma_conn *rdma, enum rdma_echo what, size_t offset,
          uint64_t *ret_number)
{
    struct ibv_sge sge = {(uintptr_t)&rdma->region->echo[what], sizeof(uint64_t),
                          rdma->shared_mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .wr.rdma = {rdma->peer.region + offset, rdma->peer.rkey}};

    return rdma_post_read(rdma, &wr, ret_number);
}
