/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and payloads over a reliable connected queue pair.  Private to transport/; the
 * calls for others are in xport.h.
 *
 * Each side has a ring that the other writes with RDMA WRITE.  Where the device can,
 * the write carries an immediate that says how many bytes arrived; where it cannot
 * (iWARP), a small SEND follows.  The reader returns credits by writing two counters
 * into the memory of the writer, so a receive is always posted and the ring never
 * overrun.
 *
 * A large payload is offered, not sent: the ring carries its address and key, the
 * receiver fetches it with RDMA READ straight into its own memory and then writes the
 * number of payloads done beside the credits.  Memory that cannot be registered goes
 * through the ring.
 *
 *   xport_rdma_cm.c    addresses, connection, teardown
 *   xport_rdma_qp.c    posting, completions, credits
 *   xport_rdma_io.c    the byte stream for xport_stream.c, waiting
 *   xport_rdma_bulk.c  offers and fetches
 *   xport_rdma_mr.c    which memory is registered
 */
#ifndef XPORT_RDMA_H
#define XPORT_RDMA_H

#include "xport_stream.h"
#include "xport_verbs.h"

#include <assert.h>
#include <pthread.h>

#define RDMA_RING_SIZE (256u << 10)
/* Receives posted, and so writes that may be under way.  A write carries up to a
 * quarter of the ring, so this matters only for many small ones. */
#define RDMA_RECV_DEPTH 256
#define RDMA_SEND_DEPTH 128
#define RDMA_SIGNAL_EVERY 16 /* one completion for so many sends */
#define RDMA_INLINE 220      /* asked for; iWARP gives less */
#define RDMA_COOKIE_SIZE 16
/* Payloads from here on are fetched by the receiver; below, a copy through the ring
 * costs less than a registration and a round trip. */
#define RDMA_OFFER_MIN (64u << 10)

/* Kinds of what is written into the ring; in the top bits of the immediate. */
enum rdma_kind {
    RDMA_DATA = 0,  /* bytes of the stream */
    RDMA_OFFER = 1, /* struct rdma_offer, in one piece */
    RDMA_PAD = 2,   /* nothing: the end of the ring was too short for an offer */
};
#define RDMA_IMM(kind, n) ((uint32_t)(kind) << 24 | (n))
#define RDMA_IMM_KIND(imm) ((enum rdma_kind)((imm) >> 24))
#define RDMA_IMM_LEN(imm) ((imm)&0xffffffu)

/* In the ring, 8-aligned like everything there. */
struct rdma_offer {
    uint64_t addr, len;
    uint32_t rkey, pad;
};
static_assert(sizeof(struct rdma_offer) == 24, "wire layout");

/* What the other side writes into our memory besides the ring. */
struct rdma_credit {
    uint64_t bytes;  /* of ours that it consumed, since the start */
    uint64_t writes; /* likewise, receives that it posted again */
    uint64_t done;   /* payloads of ours that it fetched */
    uint64_t pad[5];
};
static_assert(sizeof(struct rdma_credit) == 64, "wire layout");

/* One registered region per side. */
struct rdma_region {
    struct rdma_credit credit; /* written by the peer */
    struct rdma_credit out;    /* what we write into the peer's: source of that write */
    uint64_t notes[RDMA_RECV_DEPTH]; /* iWARP: targets of the SENDs */
    uint64_t note_out[RDMA_SEND_DEPTH];
    uint8_t ring[RDMA_RING_SIZE]; /* written by the peer */
    uint8_t
        stage[RDMA_RING_SIZE]; /* what we write into the peer's ring, same offsets */
};

/* In the private data of request and answer; IB leaves 56 bytes of a request. */
struct rdma_hello {
    uint8_t cookie[RDMA_COOKIE_SIZE];
    uint64_t region; /* address of struct rdma_region */
    uint32_t rkey;
    uint32_t magic;
};
static_assert(sizeof(struct rdma_hello) == 32, "wire layout");
#define RDMA_MAGIC 0x31727067u /* gpr1 */

struct rdma_mr {
    uintptr_t addr;
    size_t len;
    struct ibv_mr *mr;
};
/* Pinned ranges that a connection keeps registered; more are registered per transfer.
 */
#define RDMA_PINNED_MAX 64

/* What arrived and is not consumed: runs of stream bytes and offers, in order. */
struct rdma_segment {
    enum rdma_kind kind;
    uint32_t len;
};

struct rdma_conn {
    struct xport_stream stream;
    const struct xport_verbs *v;
    struct rdma_event_channel *cm_channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of recv_cq */
    struct ibv_cq *send_cq, *recv_cq;
    struct rdma_region *region;
    struct ibv_mr *region_mr;
    struct rdma_hello peer;
    uint32_t inline_max;
    bool has_imm;

    pthread_mutex_t
        send_lock; /* posting: sender, and receiver for credits and fetches */
    uint64_t posted, completed;

    /* sender */
    uint64_t head, writes, offers;
    /* receiver */
    uint64_t tail, received;
    uint64_t credited_bytes, credited_writes, served;
    unsigned unarmed_events;
    struct rdma_segment segments[RDMA_RECV_DEPTH];
    unsigned seg_first, seg_count;
    uint64_t offer_at; /* bytes fetched of the offer that stands in front */

    pthread_mutex_t mr_lock;
    struct rdma_mr pinned[RDMA_PINNED_MAX];
    unsigned n_pinned;
};

static inline struct rdma_conn *
rdma_of(struct xport_conn *conn)
{
    return container_of(xport_stream_of(conn), struct rdma_conn, stream);
}

extern const struct xport_ops xport_rdma_ops;
extern const struct xport_stream_io xport_rdma_io;

/* --- xport_rdma_qp.c --- */

/* Post one work request; its wr_id and signalling are set here.  Waits for a place in
 * the send queue.  wr->wr_id is what rdma_conn.completed reaches when it is done. */
int rdma_post(struct rdma_conn *rdma, struct ibv_send_wr *wr, bool signal);
/* Take completions of sends; -EIO with the queue pair in error. */
int rdma_reap_sends(struct rdma_conn *rdma);
/* Take what arrived into segments; 0 or -errno. */
int rdma_reap_recvs(struct rdma_conn *rdma);
int rdma_post_recvs(struct rdma_conn *rdma, unsigned first, unsigned n);
/* Write credits and done counter to the peer if enough has gathered, or @now. */
int rdma_credit(struct rdma_conn *rdma, bool now);
/* Write @len staged bytes at the current head, as @kind. */
int rdma_write_ring(struct rdma_conn *rdma, enum rdma_kind kind, const void *data,
                    size_t len);

/* --- xport_rdma_io.c --- */
/* Room for one piece at the head: at most @want, a quarter of the ring, and no wrap. */
int rdma_ring_room(struct rdma_conn *rdma, size_t want, size_t *ret_room);
int rdma_wait_counter(struct rdma_conn *rdma, const uint64_t *word, uint64_t at_least);
int rdma_wait_arrival(struct rdma_conn *rdma, uint64_t deadline_ns);
int rdma_liveness(struct rdma_conn *rdma);

/* --- xport_rdma_bulk.c --- */
int rdma_offer_bulk(struct rdma_conn *rdma, const void *data, size_t len);
int rdma_fetch_bulk(struct rdma_conn *rdma, void *buf, size_t len, size_t *ret_n);

/* --- xport_rdma_mr.c --- */

/* A registration that covers the range: a pinned one, or a new one that *ret_temp tells
 * to give back with rdma_mr_put().  NULL: it cannot be registered. */
struct ibv_mr *rdma_mr_get(struct rdma_conn *rdma, const void *addr, size_t len,
                           bool *ret_temp);
void rdma_mr_put(struct rdma_conn *rdma, struct ibv_mr *mr, bool temp);
void rdma_mr_fini(struct rdma_conn *rdma);

#endif
