/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one end of a connection has sent and the other end has not acknowledged yet: the
 * bytes that are sent again over a new link (xport_resume.h).  Private to transport/.
 *
 * The journal is a list of parts in the order of the stream.  A part lies in a block of
 * the journal's own, where frames were written in the first place and are not copied
 * again, or in memory that a caller has lent for the time of its call: a payload.  What
 * of a payload is unacknowledged when the call ends is copied into blocks.  Of bytes
 * that can be read again where they came from only their place there is kept.
 *
 * Offsets count the bytes of the stream since the first link.  One thread at a time;
 * who writes a frame at @frames.room needs no lock of the journal's users for that,
 * because nothing else is ever put there.
 */
#ifndef XPORT_JOURNAL_H
#define XPORT_JOURNAL_H

#include "gp_base.h"
#include "xport_buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One direction of one connection keeps at most this much memory, and the blocks of
 * large frames: what a long line holds (1 GB/s for 4 ms), and no peer can make us keep
 * more by not acknowledging. */
#define XPORT_JOURNAL_MAX (4u << 20)

/* What callers gather before they flush, and a frame more.  The shorter a block, the
 * sooner it is used again, while a cache still holds it (measured: 128 KiB cost an
 * asynchronous call three times as much as 36). */
#define XPORT_JOURNAL_BLOCK ((36u << 10) - XPORT_BUFFER_OUT)
#define XPORT_JOURNAL_BLOCKS_MAX 112u
/* Of these, so many until it turns out that waiting for the peer is no better: where it
 * is nearby, it acknowledges sooner than more of them would be used.  All of them are
 * written before a sender looks for acknowledgements, so together with the queues of
 * the sockets they have to stay in a second-level cache; with fewer of them the peer
 * would have to acknowledge more often, which costs more than caches save. */
#define XPORT_JOURNAL_BLOCKS_NEAR 20u
/* For frames that are longer than a block: each as long as the longest may be.  A block
 * is left for the next one when a frame does not fit, so two that follow each other
 * hold more than one has room for: 112 hold 2 MiB at least, 28 large ones 1.75. */
#define XPORT_JOURNAL_LARGE_MAX 28u

/* Payloads lent at a time, and frames between them. */
#define XPORT_JOURNAL_PARTS 256u

struct xport_journal_part {
    uint64_t at;
    const uint8_t *bytes;
    size_t len;
    int block; /* or XPORT_JOURNAL_LENT, _CARD, _SOURCE */
};
#define XPORT_JOURNAL_LENT (-1)
#define XPORT_JOURNAL_CARD (-2)
#define XPORT_JOURNAL_SOURCE (-3) /* @bytes is the place in the source */

/* Blocks of one size. */
struct xport_journal_blocks {
    size_t size;
    unsigned first;  /* their indexes from here on */
    unsigned most;   /* that the limit allows */
    unsigned wanted; /* of them, for frames: others are made when waiting is worse */
    unsigned made;   /* that have memory */
    unsigned n_idle;
    uint8_t idle[XPORT_JOURNAL_BLOCKS_MAX]; /* without parts, the warmest last */
};

struct xport_journal {
    uint64_t acked; /* by the peer; may be beyond @end while a write is under way */
    uint64_t end;   /* of what was sent */
    struct xport_journal_blocks blocks, large;
    struct xport_journal_cursor {
        int block;     /* -1: none yet */
        uint8_t *room; /* the first free byte of it */
    } frames, copies;  /* where frames are written, and lent bytes copied to */
    unsigned first, n; /* parts */
    struct xport_journal_part parts[XPORT_JOURNAL_PARTS];
    uint8_t *block[XPORT_JOURNAL_BLOCKS_MAX + XPORT_JOURNAL_LARGE_MAX];
    /* Parts in it, and 1 for a cursor's. */
    uint16_t refs[XPORT_JOURNAL_BLOCKS_MAX + XPORT_JOURNAL_LARGE_MAX];
};

/* Blocks of @block_size; frames may have up to @frame_max bytes.  -ENOMEM.  Frames may
 * be written at @frames.room from then on. */
int xport_journal_init(struct xport_journal *j, size_t block_size, size_t frame_max);
void xport_journal_fini(struct xport_journal *j);

/* The end of the block that frames are written to. */
static inline uint8_t *
xport_journal_room_end(const struct xport_journal *j)
{
    bool large = (unsigned)j->frames.block >= j->large.first;

    return j->block[j->frames.block] + (large ? j->large.size : j->blocks.size);
}

/* Frames go to the start of a block from now on that holds @n bytes, at most the
 * longest frame.  -EAGAIN: none is free before more has been acknowledged.  -ENOMEM. */
int xport_journal_next_block(struct xport_journal *j, size_t n);

/* Frames shall do with XPORT_JOURNAL_BLOCKS_NEAR blocks; with twice as many as they do
 * now (false: they have all); with all that the limit allows, as at first. */
void xport_journal_stay_small(struct xport_journal *j);
bool xport_journal_grow(struct xport_journal *j);
void xport_journal_use_all(struct xport_journal *j);

/* Frames go to the start of the block in use again, if nothing in it is needed. */
void xport_journal_rewind(struct xport_journal *j);

/* How much of that block has been used. */
static inline size_t
xport_journal_used(const struct xport_journal *j)
{
    return (size_t)(j->frames.room - j->block[j->frames.block]);
}

/* The next @len bytes of the stream have been sent: those at @frames.room, which moves
 * on; or those at @bytes, which are lent. */
void xport_journal_sent(struct xport_journal *j, size_t len);
void xport_journal_sent_lent(struct xport_journal *j, const void *bytes, size_t len);

/* The same for bytes of a card at @addr, which cannot be read here. */
void xport_journal_sent_card(struct xport_journal *j, uint64_t addr, size_t len);

/* The same for bytes of a source that begin at @place there. */
void xport_journal_sent_source(struct xport_journal *j, uint64_t place, size_t len);

/* Is some of a source not acknowledged? */
bool xport_journal_has_source(const struct xport_journal *j);

/* How many bytes from @at on are a source's, and where they are there; 0: none. */
uint64_t xport_journal_source(const struct xport_journal *j, uint64_t at,
                              uint64_t *ret_place);

/* The journal ends before a card's bytes that are not acknowledged: how many those are.
 * Nothing else may have been sent behind them: -EPROTO. */
int64_t xport_journal_give_back(struct xport_journal *j);

/* Is there a place for two more parts? */
static inline bool
xport_journal_full(const struct xport_journal *j)
{
    return j->n + 2 > XPORT_JOURNAL_PARTS;
}

/* Make few parts of many short ones, by copying them together: a stream of short
 * payloads has more of them between two acknowledgements than there are places. */
void xport_journal_compact(struct xport_journal *j);

/* The peer has the first @upto bytes; less than before is nothing new.  @limit: of what
 * can have been sent.  -EPROTO: more than that. */
int xport_journal_ack(struct xport_journal *j, uint64_t upto, uint64_t limit);

/* Unacknowledged bytes in lent memory, of those before @until. */
uint64_t xport_journal_lent(const struct xport_journal *j, uint64_t until);

/* Copy lent bytes before @until into blocks, as many as there is room for. */
void xport_journal_keep(struct xport_journal *j, uint64_t until);

/* The bytes of the stream from @at on that lie together; 0: @at is the end.  -ERANGE:
 * not kept any more, a source's, or never sent. */
int64_t xport_journal_at(const struct xport_journal *j, uint64_t at,
                         const uint8_t **ret);

#endif
