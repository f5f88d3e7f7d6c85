/* SPDX-License-Identifier: Apache-2.0 */
/* Large payloads: the sender offers an address, the receiver fetches it. */
#include "xport_rdma.h"

#include <errno.h>
#include <string.h>

/* One READ; several are under way at once so that the link does not idle between them.
 */
#define FETCH_CHUNK (256u << 10)

static int
write_offer(struct rdma_conn *rdma, const struct rdma_offer *offer)
{
    uint8_t pad[sizeof(*offer)] = {0};
    size_t room;
    int r = rdma_ring_room(rdma, sizeof(*offer), &room);

    if (!r && room < sizeof(*offer)) {
        r = rdma_write_ring(rdma, RDMA_PAD, pad, room);
        if (!r)
            r = rdma_ring_room(rdma, sizeof(*offer), &room);
    }
    return r < 0 ? r : rdma_write_ring(rdma, RDMA_OFFER, offer, sizeof(*offer));
}

/* -EAGAIN: the memory cannot be registered, send it through the ring. */
int
rdma_offer_bulk(struct rdma_conn *rdma, const void *data, size_t len)
{
    struct rdma_offer offer = {.addr = (uintptr_t)data, .len = len};
    bool temp;
    struct ibv_mr *mr = rdma_mr_get(rdma, data, len, &temp);
    int r;

    if (!mr)
        return -EAGAIN;
    offer.rkey = mr->rkey;
    r = write_offer(rdma, &offer);
    if (!r)
        r = rdma_wait_counter(rdma, &rdma->region->credit.done, ++rdma->offers);
    rdma_mr_put(rdma, mr, temp);
    if (!r)
        rdma->stream.conn.stats.tx_bytes += len;
    return r;
}

static int
read_remote(struct rdma_conn *rdma, const struct rdma_offer *offer, uint64_t at,
            void *buf, size_t len, uint32_t lkey)
{
    uint64_t last = 0;

    for (size_t done = 0; done < len;) {
        size_t n = gp_min(len - done, (size_t)FETCH_CHUNK);
        struct ibv_sge sge = {(uintptr_t)buf + done, (uint32_t)n, lkey};
        struct ibv_send_wr wr = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_READ,
            .wr.rdma = {offer->addr + at + done, offer->rkey},
        };
        int r = rdma_post(rdma, &wr, true);

        if (r < 0)
            return r;
        last = wr.wr_id;
        done += n;
    }
    return rdma_wait_counter(rdma, &rdma->completed, last);
}

/* Into memory that cannot be registered: by way of a buffer that can. */
static int
read_bounced(struct rdma_conn *rdma, const struct rdma_offer *offer, uint64_t at,
             uint8_t *buf, size_t len)
{
    CLEANUP_FREE uint8_t *bounce = aligned_alloc(4096, FETCH_CHUNK);
    struct ibv_mr *mr;
    int r = 0;

    if (!bounce)
        return -ENOMEM;
    mr = rdma->v->reg_mr(rdma->pd, bounce, FETCH_CHUNK, (uintptr_t)bounce,
                         IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        return -ENOMEM;
    for (size_t done = 0; done < len && !r;) {
        size_t n = gp_min(len - done, (size_t)FETCH_CHUNK);

        r = read_remote(rdma, offer, at + done, bounce, n, mr->lkey);
        if (!r)
            memcpy(buf + done, bounce, n);
        done += n;
    }
    rdma->v->dereg_mr(mr);
    return r;
}

static int
fetch_range(struct rdma_conn *rdma, const struct rdma_offer *offer, void *buf,
            size_t len)
{
    struct ibv_mr *mr;
    bool temp;
    int r;

    mr = rdma_mr_get(rdma, buf, len, &temp);
    if (!mr)
        return read_bounced(rdma, offer, rdma->offer_at, buf, len);
    r = read_remote(rdma, offer, rdma->offer_at, buf, len, mr->lkey);
    rdma_mr_put(rdma, mr, temp);
    return r;
}

int
rdma_fetch_bulk(struct rdma_conn *rdma, void *buf, size_t len, size_t *ret_n)
{
    struct rdma_offer offer;
    int r;

    if (rdma->tail % RDMA_RING_SIZE > RDMA_RING_SIZE - sizeof(offer))
        return -EPROTO;
    /* Read anew for each piece: a peer that changes it only misleads itself. */
    memcpy(&offer, rdma->region->ring + rdma->tail % RDMA_RING_SIZE, sizeof(offer));
    if (offer.len <= rdma->offer_at)
        return -EPROTO;
    len = gp_min(len, (size_t)(offer.len - rdma->offer_at));
    r = fetch_range(rdma, &offer, buf, len);
    if (r < 0)
        return r;
    *ret_n = len;
    rdma->offer_at += len;
    if (rdma->offer_at < offer.len)
        return 0;
    rdma->offer_at = 0;
    rdma->tail += sizeof(offer);
    rdma->seg_first = (rdma->seg_first + 1) % RDMA_RECV_DEPTH;
    rdma->seg_count--;
    rdma->region->out.done++;
    return rdma_credit(rdma, true);
}
