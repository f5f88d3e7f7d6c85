/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large payloads: the sender offers an address, the receiver fetches it.
 *
 * Both sides may have several under way.  The sender learns from a counter which of its
 * offers are done; the receiver keeps its READs in order and counts an offer as done
 * when the last READ of it is.
 */
#include "xport_rdma.h"

#include "gp_copy.h"
#include "gp_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long to look for the end of a READ before sleeping. */
#define FETCH_SPIN_NS 20000

/* --- sender ------------------------------------------------------------------------
 */

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

/* Give the registrations of offers up to that number back. */
static void
lent_complete(struct rdma_conn *rdma, uint64_t number)
{
    while (rdma->lent_count && rdma->lent[rdma->lent_first].number <= number) {
        rdma_mr_put(rdma, rdma->lent[rdma->lent_first].mr);
        rdma->lent_done = rdma->lent[rdma->lent_first].end;
        rdma->lent_first = (rdma->lent_first + 1) % RDMA_OFFERS_MAX;
        rdma->lent_count--;
    }
}

int
rdma_offer_wait(struct rdma_conn *rdma, uint64_t ticket)
{
    int r = rdma_wait_counter(rdma, &rdma->region->credit.done, ticket);

    if (!r)
        lent_complete(rdma, ticket);
    return r;
}

uint64_t
rdma_peer_has(struct rdma_conn *rdma)
{
    const struct rdma_credit *credit = &rdma->region->credit;

    lent_complete(rdma, __atomic_load_n(&credit->done, __ATOMIC_ACQUIRE));
    return gp_max(rdma->lent_done,
                  __atomic_load_n(&credit->received, __ATOMIC_ACQUIRE));
}

void
rdma_offer_ends_at(struct rdma_conn *rdma, uint64_t end)
{
    unsigned last = (rdma->lent_first + rdma->lent_count - 1) % RDMA_OFFERS_MAX;

    rdma->lent[last].end = end;
}

int
rdma_offers_wait(struct rdma_conn *rdma, uint64_t until)
{
    uint64_t ticket = 0;

    for (unsigned i = 0; i < rdma->lent_count; i++) {
        const struct rdma_lent *lent =
            &rdma->lent[(rdma->lent_first + i) % RDMA_OFFERS_MAX];

        if (lent->end <= until)
            ticket = lent->number;
    }
    return ticket ? rdma_offer_wait(rdma, ticket) : 0;
}

/* Takes @m over. */
static int
offer_lend(struct rdma_conn *rdma, struct rdma_mr *m, uint64_t addr, size_t len,
           uint64_t *ret_ticket)
{
    struct rdma_offer offer = {.addr = addr, .len = len, .rkey = m->mr->rkey};
    unsigned at;
    int r = 0;

    if (rdma->lent_count == RDMA_OFFERS_MAX)
        r = rdma_offer_wait(rdma, rdma->lent[rdma->lent_first].number);
    if (!r)
        r = write_offer(rdma, &offer);
    if (r < 0) {
        rdma_mr_put(rdma, m);
        return r;
    }
    at = (rdma->lent_first + rdma->lent_count++) % RDMA_OFFERS_MAX;
    rdma->lent[at] = (struct rdma_lent){.number = ++rdma->offers, .mr = m};
    rdma->stream.conn.stats.tx_bytes += len;
    *ret_ticket = rdma->offers;
    return 0;
}

int
rdma_offer_start(struct rdma_conn *rdma, const void *data, size_t len,
                 uint64_t *ret_ticket)
{
    struct rdma_mr *m = rdma_mr_get(rdma, data, len, true);

    return m ? offer_lend(rdma, m, (uintptr_t)data, len, ret_ticket) : -EAGAIN;
}

int
rdma_offer_window(struct rdma_conn *rdma, uint64_t addr, size_t len,
                  uint64_t *ret_ticket)
{
    struct rdma_mr *m = rdma_mr_window(rdma, addr, len);

    return m ? offer_lend(rdma, m, addr, len, ret_ticket) : -ENOENT;
}

/* --- receiver ----------------------------------------------------------------------
 */

int
rdma_fetch_complete(struct rdma_conn *rdma)
{
    uint64_t done;
    int n = 0, r;

    if (!rdma->fetch_count)
        return 0;
    r = rdma_reap_sends(rdma);
    if (r < 0)
        return r;
    done = __atomic_load_n(&rdma->reads_done, __ATOMIC_ACQUIRE);
    while (rdma->fetch_count && rdma->fetches[rdma->fetch_first].last <= done) {
        struct rdma_fetch *f = &rdma->fetches[rdma->fetch_first];

        rdma_mr_put(rdma, f->mr);
        rdma->got += f->len;
        rdma->region->out.done += f->whole;
        rdma->fetch_first = (rdma->fetch_first + 1) % RDMA_READS_MAX;
        rdma->fetch_count--;
        n = 1;
    }
    r = rdma->region->out.done != rdma->served ? rdma_credit(rdma, true) : 0;
    return r < 0 ? r : n;
}

int
rdma_fetch_wait(struct rdma_conn *rdma, uint64_t ticket)
{
    uint64_t begun = gp_now_ns();
    int r = rdma_fetch_complete(rdma);

    while (r >= 0 && rdma->fetched - rdma->fetch_count < ticket) {
        if (r == 0 && gp_now_ns() - begun > FETCH_SPIN_NS) {
            r = rdma_sleep_fetching(rdma);
            if (r < 0)
                return r;
        }
        r = rdma_fetch_complete(rdma);
    }
    return gp_min(r, 0);
}

static int
post_read(struct rdma_conn *rdma, const struct rdma_offer *offer, uint64_t at,
          void *buf, size_t len, uint32_t lkey, uint64_t *ret_number)
{
    struct ibv_sge sge = {(uintptr_t)buf, (uint32_t)len, lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .wr.rdma = {offer->addr + at, offer->rkey},
    };

    return rdma_post_read(rdma, &wr, ret_number);
}

/* The offer in front is asked for to its end: the next may come. */
static void
offer_pass(struct rdma_conn *rdma)
{
    rdma->offer_at = 0;
    rdma->tail += sizeof(struct rdma_offer);
    rdma_segment_done(rdma);
}

/* One READ of the offer in front into @to, which @m covers; @buf is where the bytes are
 * wanted. */
static int
fetch_chunk(struct rdma_conn *rdma, const struct rdma_offer *offer, struct rdma_mr *m,
            void *to, void *buf, size_t len)
{
    struct rdma_fetch *f;
    uint64_t number = 0;
    int r = 0;

    if (rdma->fetch_count == RDMA_READS_MAX)
        r = rdma_fetch_wait(rdma, rdma->fetched - RDMA_READS_MAX + 1);
    if (!r)
        r = post_read(rdma, offer, rdma->offer_at, to, len, m->mr->lkey, &number);
    if (r < 0)
        return r;
    rdma_mr_ref(rdma, m);
    rdma->offer_at += len;
    f = &rdma->fetches[(rdma->fetch_first + rdma->fetch_count++) % RDMA_READS_MAX];
    *f = (struct rdma_fetch){number, m, rdma->offer_at == offer->len, buf, len};
    rdma->fetched++;
    if (rdma->offer_at == offer->len)
        offer_pass(rdma);
    return 0;
}

/* Into memory that cannot be registered, or is not worth it: by way of a buffer, and
 * the bytes are there afterwards, unless that fails. */
static int
fetch_bounced(struct rdma_conn *rdma, const struct rdma_offer *offer, uint8_t *buf,
              size_t len, size_t *ret_n)
{
    struct rdma_mr *m;
    int r;

    if (!rdma->bounce) {
        rdma->bounce = aligned_alloc(4096, RDMA_READ_CHUNK);
        if (!rdma->bounce)
            return -ENOMEM;
        xport_pin(&rdma->stream.conn, rdma->bounce, RDMA_READ_CHUNK);
    }
    m = rdma_mr_get(rdma, rdma->bounce, RDMA_READ_CHUNK, false);
    if (!m)
        return -ENOMEM;
    r = fetch_chunk(rdma, offer, m, rdma->bounce, buf, len);
    if (r == 0) {
        *ret_n = len;
        r = rdma_fetch_wait(rdma, rdma->fetched);
        if (!rdma->fetch_count) /* it was done, whatever failed after that */
            gp_copy(buf, rdma->bounce, len);
    }
    rdma_mr_put(rdma, m);
    return r;
}

/* A chunk of the offer in front.  *m: the registration of all of @buf, looked for when
 * it is NULL.  @wanted: @buf, or NULL if it is a window's.  *ret_n: how many bytes are
 * asked for, also with an error. */
static int
fetch_front(struct rdma_conn *rdma, uint8_t *buf, void *wanted, size_t len,
            struct rdma_mr **m, size_t *ret_n)
{
    size_t at = rdma->tail % RDMA_RING_SIZE, n;
    struct rdma_offer offer;
    int r;

    if (at > RDMA_RING_SIZE - sizeof(offer))
        return -EPROTO;
    /* Read anew for each piece: a peer that changes it only misleads itself. */
    memcpy(&offer, rdma->region->ring + at, sizeof(offer));
    if (offer.len <= rdma->offer_at)
        return -EPROTO;
    n = gp_min(gp_min(len, (size_t)RDMA_READ_CHUNK),
               (size_t)(offer.len - rdma->offer_at));
    if (!*m)
        *m = rdma_mr_get(rdma, buf, len, false);
    if (!*m)
        return fetch_bounced(rdma, &offer, buf, n, ret_n);
    r = fetch_chunk(rdma, &offer, *m, buf, wanted, n);
    if (r == 0)
        *ret_n = n;
    return r;
}

/* Stream bytes, or what may be some. */
static bool
data_in_front(const struct rdma_conn *rdma)
{
    const struct rdma_segment *seg = &rdma->segments[rdma->seg_first];

    if (rdma->spill_at != rdma->spill_end)
        return true;
    if (!rdma->seg_count)
        return rdma->eager_max && rdma_eager_there(rdma);
    return seg->start != rdma->tail || seg->kind != RDMA_OFFER;
}

/* Bytes that are in the ring, or a READ for an offer; sleeps until there is either.
 * Bytes of the ring are taken when the READs before them are done, so that what is
 * still under way is always the end of what was asked for. */
static int
fetch_some(struct rdma_conn *rdma, uint8_t *buf, size_t len, uint64_t deadline_ns,
           struct rdma_mr **m, size_t *ret_n)
{
    struct xport_spin *spin = &rdma->stream.spin;
    bool spins = !xport_spin_skips(spin);
    int r;

    if (spins)
        xport_spin_begin(spin);
    for (;;) {
        r = rdma_reap_recvs(rdma);
        if (rdma->fetch_count && data_in_front(rdma))
            return rdma_fetch_wait(rdma, rdma->fetched);
        *ret_n = rdma_take_data(rdma, buf, len);
        if (*ret_n)
            return rdma->recv_error ? 0 : rdma_credit(rdma, false);
        if (rdma->recv_error || (r < 0 && r != -EAGAIN))
            return rdma->recv_error ? rdma->recv_error : r;
        if (rdma->seg_count)
            return fetch_front(rdma, buf, buf, len, m, ret_n);
        r = rdma_fetch_complete(rdma);
        if (r < 0)
            return r;
        spins = spins && xport_spin_again(spin);
        if (!spins && r == 0)
            r = rdma_sleep(rdma, deadline_ns);
        if (r < 0)
            return r;
    }
}

int
rdma_fetch_start(struct rdma_conn *rdma, void *buf, size_t len, uint64_t deadline_ns,
                 uint64_t *ret_ticket, size_t *ret_n)
{
    struct rdma_mr *m = NULL;
    uint8_t *p = buf;
    int r = 0;

    *ret_n = 0;
    while (*ret_n < len && !r) {
        size_t n = 0;

        r = fetch_some(rdma, p + *ret_n, len - *ret_n, deadline_ns, &m, &n);
        *ret_n += n;
    }
    rdma_mr_put(rdma, m);
    rdma->stream.conn.stats.rx_bytes += *ret_n;
    *ret_ticket = rdma->fetched;
    return r;
}

int
rdma_recv_bulk(struct xport_conn *conn, void *buf, size_t len)
{
    struct rdma_conn *rdma = rdma_of(conn);
    uint64_t ticket;
    size_t n;
    int r = rdma_fetch_start(rdma, buf, len, GP_FOREVER, &ticket, &n);

    return r < 0 ? r : rdma_fetch_wait(rdma, ticket);
}

/* Waits until something is there; is it an offer? */
static int
offer_in_front(struct rdma_conn *rdma, bool *ret)
{
    int r = rdma_fetch_wait(rdma, rdma->fetched);

    while (!r && !rdma->seg_count && !data_in_front(rdma)) {
        r = rdma_reap_recvs(rdma);
        if (r == -EAGAIN)
            r = rdma_sleep(rdma, GP_FOREVER);
    }
    *ret = !r && rdma->seg_count && !data_in_front(rdma);
    return r;
}

/* To the end of the offer, or of @len. */
static int
fetch_window(struct rdma_conn *rdma, uint64_t addr, size_t len, struct rdma_mr *m)
{
    uint8_t *p = (uint8_t *)(uintptr_t)addr;
    size_t done = 0, n;
    int r = 0;

    do {
        n = 0;
        r = fetch_front(rdma, p + done, NULL, len - done, &m, &n);
        done += n;
    } while (!r && done < len && rdma->offer_at);
    return r < 0 ? r : rdma_fetch_wait(rdma, rdma->fetched);
}

int
rdma_recv_direct(struct xport_conn *conn, uint64_t addr, size_t len, size_t *ret_n)
{
    struct rdma_conn *rdma = rdma_of(conn);
    uint64_t begun;
    struct rdma_mr *m;
    bool offered;
    int r;

    *ret_n = 0;
    if (xport_buffered(conn))
        return 0;
    r = offer_in_front(rdma, &offered);
    if (!offered)
        return r;
    m = rdma_mr_window(rdma, addr, len);
    if (!m)
        return -ENOENT;
    begun = rdma->got;
    r = fetch_window(rdma, addr, len, m);
    *ret_n = (size_t)(rdma->got - begun);
    conn->stats.rx_bytes += *ret_n;
    rdma_mr_put(rdma, m);
    return r;
}

void
rdma_bulk_fini(struct rdma_conn *rdma)
{
    lent_complete(rdma, UINT64_MAX);
    while (rdma->fetch_count) {
        rdma_mr_put(rdma, rdma->fetches[rdma->fetch_first].mr);
        rdma->fetch_first = (rdma->fetch_first + 1) % RDMA_READS_MAX;
        rdma->fetch_count--;
    }
    if (rdma->bounce)
        xport_unpin(&rdma->stream.conn, rdma->bounce);
    free(TAKE_PTR(rdma->bounce));
}
