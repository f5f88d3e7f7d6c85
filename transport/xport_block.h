/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads in blocks: as they are, or compressed where that is faster.  Private to
 * transport/; what the ends agree on is in xport.h.
 *
 * Before each block stands its header.  A raw block is as long as the sender likes; a
 * packed one is at most XPORT_BLOCK_PACKED bytes when unpacked, is unpacked into memory
 * of exactly the length that its header says, and refused if it is not that long: a
 * peer can make us hold two such blocks and no more.  Blocks end where payloads do.
 *
 * Whether packing pays is found out block by block: the time to pack one and send what
 * comes out, against the time the link takes for it as it is.  While it does not pay,
 * trials become rare; where even packing to nothing would be slower than the link,
 * there are none.
 *
 * The sending half belongs to the sender, the receiving half to the receiver.
 */
#ifndef XPORT_BLOCK_H
#define XPORT_BLOCK_H

#include "xport_conn.h"
#include "xport_rate.h"

#include <stdatomic.h>

#define XPORT_BLOCK_PACKED (128u * 1024)

/* What zstd may make of that at worst. */
#define XPORT_BLOCK_BOUND (XPORT_BLOCK_PACKED + XPORT_BLOCK_PACKED / 256 + 64)

/* So much of the end of a payload with a source is kept as others are: two pieces of it
 * and the rest of a third, so that one buffer is filled while the other one is sent.
 * Where pieces have no length, twice what the peer leaves unacknowledged at a time. */
#define XPORT_SOURCE_TAIL (2u << 20)

/* Longer ones are several. */
#define XPORT_BLOCK_RAW_MAX (1u << 29)

enum xport_block_kind {
    XPORT_BLOCK_RAW,
    XPORT_BLOCK_ZSTD,
    XPORT_BLOCK_STRIPED, /* its bytes come over the stripes (xport_stripes.h) */
    XPORT_BLOCK_REREAD,  /* raw, and has a source (struct xport_source) */
};

struct xport_block {
    uint32_t raw;  /* bytes of payload in it, never 0 */
    uint32_t wire; /* bytes that follow, of which the top two bits are the kind */
};

#define XPORT_BLOCK_KIND_SHIFT 30

static inline struct xport_block
xport_block_head(enum xport_block_kind kind, uint32_t raw, uint32_t wire)
{
    return (struct xport_block){
        .raw = raw, .wire = wire | (uint32_t)kind << XPORT_BLOCK_KIND_SHIFT};
}

struct xport_blocks {
    enum xport_pack pack;
    const struct xport_zstd *zstd;
    struct xport_stripes *_Atomic stripes; /* NULL: none */
    _Atomic uint64_t own_counts[2];
    _Atomic uint64_t *count_raw, *count_wire; /* of packed blocks, both ways */

    struct xport_blocks_tx {
        void *cctx;
        uint8_t *out;
        struct xport_rate link;
        double pack_ns; /* a byte, packing; fading mean */
        uint32_t skip;  /* blocks until the next trial */
        uint32_t backoff;
        uint32_t packed; /* blocks since the link was measured */
        uint32_t run;    /* bytes to send at a time on a link too fast for packing */
        uint32_t open;   /* bytes to come of a raw block whose header is sent */
        uint64_t total;  /* bytes to come of a payload that is sent in parts, or 0 */
        uint64_t length; /* of all of it */
        struct xport_source *source; /* that it can be read again from, or NULL */
        uint64_t tail;               /* how much of its end is kept all the same */
        uint32_t fast; /* bytes to send before the link is measured again */
        bool reread;   /* the raw block is an XPORT_BLOCK_REREAD */
        bool rereads;  /* the peer knows those */
    } tx;
    struct {
        void *dctx;
        uint8_t *in;       /* one block as it came */
        uint8_t *out;      /* one block unpacked, when it is not wanted whole */
        uint32_t pos, end; /* the part that has not been taken yet */
        uint32_t raw;      /* bytes to come of a raw or striped block */
        uint32_t at;       /* how many of a striped one have come */
        bool striped;
        bool reread;
    } rx;
};

/* The next bytes of the connection, without decoding blocks. */
int xport_recv_plain(struct xport_conn *conn, void *buf, size_t len);

/* Several calls may send one payload (xport_bulk_in_parts()): a raw block then goes on
 * in the next part, so that there is one header for many parts. */
int xport_blocks_send(struct xport_conn *conn, const uint8_t *buf, size_t len);
int xport_blocks_recv(struct xport_conn *conn, uint8_t *buf, size_t len);

/* Nothing of a block is left over: only then can a frame follow. */
static inline bool
xport_blocks_done(const struct xport_blocks *b)
{
    return b->rx.raw == 0 && b->rx.pos == b->rx.end;
}

/* How much of the end of a payload with a source is kept.  A payload of less than twice
 * as much gains nothing by a source. */
static inline uint64_t
xport_blocks_tail(const struct xport_conn *conn)
{
    uint32_t piece = xport_piece(conn);

    return piece ? UINT64_C(2) * piece : XPORT_SOURCE_TAIL;
}

void xport_blocks_free(struct xport_blocks *b); /* NULL is a no-op */

#endif
