/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and payloads over a reliable connected queue pair.  Private to transport/; the
 * calls for others are in xport.h.
 *
 * Each side has a ring that the other writes with RDMA WRITE.  Where the device can,
 * the write carries an immediate that says where bytes arrived; where it cannot
 * (iWARP), a small SEND follows.  The reader returns credits by writing two counters
 * into the memory of the writer, so a receive is always posted and the ring never
 * overrun.  While the reader looks at its memory all the time, short pieces come as
 * eager messages, without any of that.
 *
 * A large payload is offered, not sent: the ring carries its address and key, the
 * receiver fetches it with RDMA READ straight into its own memory and then writes the
 * number of payloads done beside the credits.  Memory that cannot be registered goes
 * through the ring, and so does what is too small for a registration to pay.
 *
 *   xport_rdma_port.c   this host's ports, and which one to take
 *   xport_rdma_cm.c     connecting, accepting
 *   xport_rdma_conn.c   a connection's resources, its end
 *   xport_rdma_qp.c     posting, completions, credits
 *   xport_rdma_eager.c  short pieces that are found in memory
 *   xport_rdma_io.c     the byte stream for xport_stream.c, waiting
 *   xport_rdma_bulk.c   offers and fetches
 *   xport_rdma_mr.c     which memory is registered
 *   xport_guard.c       noticing that registered memory was unmapped
 */
#ifndef XPORT_RDMA_H
#define XPORT_RDMA_H

#include "gp_lock.h"
#include "xport.h"
#include "xport_guard.h"
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
#define RDMA_POST_BATCH 16   /* receives posted again at a time */
/* How often a side in idle sleep looks whether the peer is alive. */
#define RDMA_LIVENESS_NS (100 * GP_NS_PER_MS)
#define RDMA_INLINE 220 /* asked for; iWARP gives less */
#define RDMA_COOKIE_SIZE 16
/* A wait spins for as long as sleeping and waking through a completion channel costs.
 * The peer is mostly on another host: an interrupt between two looks says nothing, only
 * a whole slice of the scheduler's is proof that somebody wants the core.  And who
 * sleeps makes the peer's spin fail, which then sleeps too: both try again soon. */
#define RDMA_SPIN_NS 100000
#define RDMA_SPIN_GAP_NS 500000
#define RDMA_SPIN_SKIP_MAX 32
/* Payloads from here on are offered if their memory is registered already; below, a
 * copy through the ring costs less than the round trip. */
#define RDMA_OFFER_MIN (64u << 10)
/* From here on a registration pays for itself (docs/performance.md). */
#define RDMA_REGISTER_MIN (256u << 10)
/* One READ; so many are under way at once, so that the link does not idle between. */
#define RDMA_READ_CHUNK (1u << 20)
#define RDMA_READS_MAX 16
/* Offers that the receiver has not fetched yet. */
#define RDMA_OFFERS_MAX 16

/* Kinds of what is written into the ring with a note of it. */
enum rdma_kind {
    RDMA_DATA = 0,  /* bytes of the stream */
    RDMA_OFFER = 1, /* struct rdma_offer, in one piece */
    RDMA_PAD = 2,   /* nothing: the end of the ring was too short for an offer */
};
/* The note: kind, and place in the ring.  The length comes with the completion, or, in
 * a SEND, in the upper half. */
#define RDMA_NOTE(kind, place) ((uint32_t)(kind) << 24 | (uint32_t)(place))
#define RDMA_NOTE_KIND(note) ((enum rdma_kind)((note) >> 24 & 0xff))
#define RDMA_NOTE_PLACE(note) ((note)&0xffffffu)

/* A piece without a note (xport_rdma_eager.c), 8-aligned: this word, @len bytes, sum.
 * The mark tells it from what lay there before. */
#define RDMA_EAGER_EXTRA 16u
#define RDMA_EAGER_MAX (RDMA_INLINE / 8 * 8 - RDMA_EAGER_EXTRA)
#define RDMA_EAGER_HEAD(at, len)                                                       \
    ((uint64_t)((uint32_t)((at) >> 3) ^ 0x64636572u) << 32 | (uint32_t)(len))

/* In the ring, 8-aligned like everything there. */
struct rdma_offer {
    uint64_t addr, len;
    uint32_t rkey, pad;
};
static_assert(sizeof(struct rdma_offer) == 24, "wire layout");

/* What the other side writes into our memory besides the ring. */
struct rdma_credit {
    uint64_t bytes;    /* of ours that it consumed, since the start */
    uint64_t writes;   /* likewise, receives that it posted again */
    uint64_t done;     /* payloads of ours that it fetched */
    uint64_t awake;    /* it looks for eager messages */
    uint64_t received; /* bytes of our stream, up to the first one that is missing */
    uint64_t pad[3];
};
static_assert(sizeof(struct rdma_credit) == 64, "wire layout");

/* The memory of one side.  The peer's key covers the front part only. */
struct rdma_region {
    struct rdma_credit credit; /* written by the peer */
    uint8_t ring[RDMA_RING_SIZE];
    uint64_t echo[7]; /* targets of READs of single words (enum rdma_echo) */
    /* where the last eager message that we wrote ends; the peer READs it */
    uint64_t sent;
    /* From here on the peer reaches nothing. */
    struct rdma_credit out; /* what we write into the peer's: source of that write */
    uint64_t notes[RDMA_RECV_DEPTH]; /* iWARP: targets of the SENDs */
    uint64_t note_out[RDMA_SEND_DEPTH];
    uint8_t stage[RDMA_RING_SIZE]; /* what goes into the peer's ring, same offsets */
};
enum rdma_echo {
    RDMA_ECHO_LIVENESS, /* of anything: is the peer there? */
    RDMA_ECHO_SENT,     /* of sent */
};
#define RDMA_REGION_SHARED offsetof(struct rdma_region, out)

/* In the private data of request and answer; IB leaves 56 bytes of a request. */
struct rdma_hello {
    uint8_t cookie[RDMA_COOKIE_SIZE];
    uint64_t region; /* address of struct rdma_region */
    uint32_t rkey;
    uint32_t magic;
};
static_assert(sizeof(struct rdma_hello) == 32, "wire layout");
#define RDMA_MAGIC 0x32727067u /* gpr2 */

/*
 * A registration.  Pinned: the owner of the memory promised to say when it goes.
 * Window: memory of a card.  Else it was made for a transfer and kept because the
 * memory is watched, or lives as long as its one transfer.
 */
enum rdma_mr_kind { RDMA_MR_PINNED, RDMA_MR_WINDOW, RDMA_MR_CACHED, RDMA_MR_ONCE };

struct rdma_mr {
    uintptr_t addr;
    size_t len;
    struct ibv_mr *mr; /* NULL: pinned, not needed yet */
    enum rdma_mr_kind kind;
    bool source;              /* the peer may READ it; else it is a target of ours */
    bool gone;                /* out of the table, freed with the last transfer */
    unsigned users;           /* transfers under way */
    uint64_t used;            /* for the oldest to go first */
    struct xport_guard guard; /* cached */
    struct rdma_mr *next;
};
/* What a connection keeps registered besides pinned memory and windows.  Entries: a
 * program copies from few places again and again (a training loop has under ten).
 * Bytes: registered memory is locked memory, which others want too. */
#define RDMA_CACHED_MAX 64
#define RDMA_CACHED_BYTES (UINT64_C(4) << 30)
/* Pinned ranges and windows: bounded like the cache; more are handled per transfer. */
#define RDMA_PINNED_MAX 1024

/* What arrived and is not consumed: runs of stream bytes and offers, in order. */
struct rdma_segment {
    uint64_t start; /* in the stream; eager messages stand before it */
    enum rdma_kind kind;
    uint32_t len;
};

/* A payload offered and not yet fetched by the peer. */
struct rdma_lent {
    uint64_t number; /* of the offer */
    struct rdma_mr *mr;
    uint64_t end; /* in the stream, where somebody counts that */
};

/* READs of one offer (or a part of one) that are under way. */
struct rdma_fetch {
    uint64_t last;      /* number of the last one, among all READs */
    struct rdma_mr *mr; /* the target, let go when done */
    bool whole;         /* the offer ends here, and the peer is notified */
    void *buf;          /* where the bytes are wanted; NULL: in a window */
    size_t len;
};

struct rdma_conn {
    struct xport_stream stream;
    const struct xport_verbs *v;
    struct rdma_event_channel *cm_channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of both queues; the receiver sleeps on it */
    struct ibv_cq *send_cq, *recv_cq;
    struct rdma_region *region;
    struct ibv_mr *shared_mr, *local_mr; /* the front part; all of it */
    struct rdma_hello peer;
    uint32_t inline_max;
    bool has_imm;

    struct gp_lock send_lock;   /* posting: sender; receiver for credits and fetches */
    uint64_t posted, completed; /* work requests */
    uint64_t reads, reads_done; /* those of them that are READs */

    /* sender */
    uint64_t head, writes, offers;
    /* region->sent, but for an eager message that is being written */
    uint64_t eager_end;
    uint32_t eager_max; /* bytes in one; 0: no eager messages on this connection */
    struct ibv_send_wr ring_wr; /* what all writes into the ring have in common */
    struct ibv_sge ring_sge;
    struct rdma_lent lent[RDMA_OFFERS_MAX];
    unsigned lent_first, lent_count;
    uint64_t lent_done; /* where the last offer ends that the peer has fetched */
    /* receiver */
    uint64_t got; /* bytes of the stream, without those that are being fetched */
    uint64_t tail, received;
    uint64_t credited_bytes, credited_writes, served;
    unsigned unposted, unposted_first; /* receives taken and not posted again */
    int recv_error;                    /* of what arrived last */
    unsigned recv_events, send_events; /* taken from the channel, not acknowledged */
    struct rdma_segment segments[RDMA_RECV_DEPTH];
    unsigned seg_first, seg_count;
    uint8_t spill[RDMA_EAGER_MAX]; /* of an eager message that was not wanted whole */
    unsigned spill_at, spill_end;
    bool noted;        /* no eager message can be on its way: sleeping is safe */
    unsigned unslept;  /* waits that ended without sleep, up to AWAKE_AFTER */
    uint64_t slept;    /* stats.rx_slept then */
    uint64_t offer_at; /* bytes requested of the first offer */
    struct rdma_fetch fetches[RDMA_READS_MAX];
    unsigned fetch_first, fetch_count;
    uint64_t fetched; /* fetches begun; the ticket of the newest */
    uint64_t probed; /* number of the READ that looked last whether the peer is there */
    uint8_t *bounce; /* RDMA_READ_CHUNK bytes, made when needed */

    pthread_mutex_t mr_lock;
    bool mr_ended; /* nothing is registered */
    struct rdma_mr *mrs;
    unsigned n_pinned, n_cached;
    uint64_t cached_bytes, mr_clock;
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
 * the send queue. */
int rdma_post(struct rdma_conn *rdma, struct ibv_send_wr *wr, bool signal);
/* The same for a READ; rdma_conn.reads_done reaches its number when it is done.  Only
 * the count of READs tells: on iWARP what was posted behind one may be done before. */
int rdma_post_read(struct rdma_conn *rdma, struct ibv_send_wr *wr,
                   uint64_t *ret_number);
uint64_t rdma_posted(struct rdma_conn *rdma);
/* Take completions of sends; -EIO with the queue pair in error. */
int rdma_reap_sends(struct rdma_conn *rdma);
/* Take what arrived into segments; -EAGAIN: nothing; another error: nothing any more,
 * but segments of before may still be there. */
int rdma_reap_recvs(struct rdma_conn *rdma);
int rdma_post_recvs(struct rdma_conn *rdma, unsigned first, unsigned n);
int rdma_credit_write(struct rdma_conn *rdma);
/* Write credits to the peer if enough has gathered; @now: if payloads are done. */
static inline int
rdma_credit(struct rdma_conn *rdma, bool now)
{
    const struct rdma_credit *out = &rdma->region->out;
    bool due = rdma->tail - rdma->credited_bytes >= RDMA_RING_SIZE / 4 ||
               out->writes - rdma->credited_writes >= RDMA_RECV_DEPTH / 4;

    /* What is left below a quarter never stops the peer: it writes a quarter at most.
     */
    if (likely(!due && !(now && out->done != rdma->served)))
        return 0;
    return rdma_credit_write(rdma);
}
/* Write @len staged bytes at the current head, as @kind. */
int rdma_write_ring(struct rdma_conn *rdma, enum rdma_kind kind, const void *data,
                    size_t len);

/* The same for an eager message; @place in the ring. */
int rdma_write_plain(struct rdma_conn *rdma, size_t place, const void *data,
                     size_t len);

/* READ a word of the peer's struct rdma_region: when that is completed, everything
 * written before has reached the peer. */
int rdma_echo(struct rdma_conn *rdma, enum rdma_echo what, size_t offset,
              uint64_t *ret_number);

/* --- xport_rdma_eager.c --- */

/* Send @len bytes as an eager message; -EAGAIN: not this time. */
int rdma_eager_put(struct rdma_conn *rdma, const uint8_t *data, size_t len);
/* Has something at the tail the looks of an eager message? */
static inline bool
rdma_eager_there(const struct rdma_conn *rdma)
{
    uint64_t at = GP_ALIGN_UP(rdma->tail, 8);
    const uint8_t *p = rdma->region->ring + at % RDMA_RING_SIZE;
    uint64_t head =
        __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_ACQUIRE);

    return head >> 32 == RDMA_EAGER_HEAD(at, 0) >> 32;
}
/* Bytes of the eager message at the tail; 0: there is none. */
size_t rdma_eager_take(struct rdma_conn *rdma, uint8_t *buf, size_t len);
/* Would that take anything? */
bool rdma_eager_whole(const struct rdma_conn *rdma);

/* Something arrived and the peer sends no eager messages: ask for them if sleep is
 * rare. */
int rdma_eager_awake(struct rdma_conn *rdma);
/* Before sleeping: no eager message will come any more.  1: one is coming. */
int rdma_eager_asleep(struct rdma_conn *rdma);

/* --- xport_rdma_io.c --- */

/* The peer has closed the control socket in order, and something that it sent before
 * has not been read.  By the thread that reads, or in its place. */
bool rdma_last_words(struct rdma_conn *rdma);
/* Frames: what goes without waiting for the peer, or all of them. */
int rdma_send_now(struct rdma_conn *rdma, const uint8_t *data, size_t len,
                  size_t *ret_n);
int rdma_send_data(struct rdma_conn *rdma, const uint8_t *data, size_t len);
/* A payload: offered if that pays, else through the ring.  *ret_ticket 0: it left. */
int rdma_send_payload(struct rdma_conn *rdma, const void *data, size_t len,
                      uint64_t *ret_ticket);
/* Bytes of frames, as a transport's fill receives them.  *ret_n counts also with an
 * error. */
int rdma_read(struct rdma_conn *rdma, void *buf, size_t len, size_t *ret_n,
              uint64_t deadline_ns);
/* Room for one piece at the head: at most @want, a quarter of the ring, and no wrap. */
int rdma_ring_room(struct rdma_conn *rdma, size_t want, size_t *ret_room);
int rdma_wait_counter_slow(struct rdma_conn *rdma, const uint64_t *word,
                           uint64_t at_least);
/* Mostly it has been reached: then not even the clock is asked. */
static inline int
rdma_wait_counter(struct rdma_conn *rdma, const uint64_t *word, uint64_t at_least)
{
    if (likely(__atomic_load_n(word, __ATOMIC_ACQUIRE) >= at_least))
        return 0;
    return rdma_wait_counter_slow(rdma, word, at_least);
}
/* Copy out stream bytes that stand in front; with 0, what is in front is an offer,
 * nothing, or against the rules (recv_error). */
size_t rdma_take_data(struct rdma_conn *rdma, uint8_t *buf, size_t len);
void rdma_segment_done(struct rdma_conn *rdma);
/* Receiver: sleep until something arrived, or a fetch ended if some are under way; then
 * whatever arrived before has been taken. */
int rdma_sleep(struct rdma_conn *rdma, uint64_t deadline_ns);
/* Only until a fetch ended, though something may arrive. */
int rdma_sleep_fetching(struct rdma_conn *rdma);
int rdma_liveness(struct rdma_conn *rdma);

/* --- xport_rdma_bulk.c --- */

/* Offer the range; -EAGAIN: send it through the ring.  The ticket is what the peer's
 * count of payloads done will reach. */
int rdma_offer_start(struct rdma_conn *rdma, const void *data, size_t len,
                     uint64_t *ret_ticket);
/* The same for a window; -ENOENT: there is none that covers the range. */
int rdma_offer_window(struct rdma_conn *rdma, uint64_t addr, size_t len,
                      uint64_t *ret_ticket);
int rdma_offer_wait(struct rdma_conn *rdma, uint64_t ticket);
/* Where somebody counts the stream: the offer that was made last ends at @end; wait for
 * those that end up to @until; how much the peer has, as far as is known. */
void rdma_offer_ends_at(struct rdma_conn *rdma, uint64_t end);
int rdma_offers_wait(struct rdma_conn *rdma, uint64_t until);
uint64_t rdma_peer_has(struct rdma_conn *rdma);
/* *ret_n bytes are here or asked for, also with an error.  -ETIMEDOUT: fewer than @len,
 * and nothing more has come. */
int rdma_fetch_start(struct rdma_conn *rdma, void *buf, size_t len,
                     uint64_t deadline_ns, uint64_t *ret_ticket, size_t *ret_n);
int rdma_fetch_wait(struct rdma_conn *rdma, uint64_t ticket);
int rdma_recv_bulk(struct xport_conn *conn, void *buf, size_t len);
/* Of an offer in front, up to @len bytes into the window at @addr; 0 bytes when what is
 * in front is no offer.  *ret_n bytes are there, also with an error. */
int rdma_recv_direct(struct xport_conn *conn, uint64_t addr, size_t len, size_t *ret_n);
/* Tell the peer of fetches that ended; 1: some did. */
int rdma_fetch_complete(struct rdma_conn *rdma);
void rdma_bulk_fini(struct rdma_conn *rdma);

/* --- xport_rdma_mr.c --- */

/* A registration that covers the range, to be given back with rdma_mr_put().  NULL: it
 * cannot be registered, or that would not pay. */
struct rdma_mr *rdma_mr_get(struct rdma_conn *rdma, const void *addr, size_t len,
                            bool source);
struct rdma_mr *rdma_mr_window(struct rdma_conn *rdma, uint64_t addr, size_t len);
void rdma_mr_ref(struct rdma_conn *rdma, struct rdma_mr *m);
void rdma_mr_put(struct rdma_conn *rdma, struct rdma_mr *m);
/* Nothing is registered any more; what is pinned may be registered again. */
void rdma_mr_end(struct rdma_conn *rdma);
void rdma_mr_fini(struct rdma_conn *rdma);

/* --- xport_rdma_conn.c --- */

void rdma_conn_free(struct xport_conn *conn);
/* Gives back all that an adapter knows of; the connection carries nothing any more.
 * Neither sends nor receives. */
void rdma_conn_end(struct rdma_conn *rdma);
/* A connection that has ended is as new, and knows what is pinned. */
int rdma_conn_renew(struct rdma_conn *rdma, struct gp_err *err);
/* Wait until what was sent has arrived, so long at most. */
void rdma_conn_drain(struct rdma_conn *rdma, uint64_t limit_ns);
/* Without queue pair; the id is the caller's to fill in. */
int rdma_conn_new(const struct xport_verbs *v, uint32_t frame_max,
                  struct rdma_conn **ret, struct gp_err *err);
int rdma_conn_resources(struct rdma_conn *rdma, struct gp_err *err);

/* --- xport_rdma_cm.c --- */

/* As xport_rdma_connect() and xport_rdma_accept(), with a connection that has ended
 * instead of a new one, which has ended again after an error. */
int rdma_connect_again(struct rdma_conn *again, int ctl_fd,
                       struct xport_rdma_port *ports, size_t n, const uint8_t *cookie,
                       uint64_t deadline_ns, struct gp_err *err);
int rdma_accept_again(struct rdma_conn *again, struct xport_rdma_listener *l,
                      int ctl_fd, const uint8_t *cookie, uint64_t deadline_ns,
                      struct gp_err *err);

#endif
