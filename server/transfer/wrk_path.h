/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path: one way for the bytes of a copy between the connection and the GPU's memory.
 *
 * Each path is one file, wrk_path_<name>.c, and one or two rows of the table in
 * wrk_paths.c, which says when a copy takes it.  The client's half has the same names
 * (stub_path_table.c).  This header has the state of a copy that the
 * paths share, and the functions that the table calls.
 *
 * A host-to-device copy runs on the receive thread.  A device-to-host copy that the
 * client waits for runs on the receive thread if its stream is idle and it is small,
 * else on a waiter thread (wrk_d2h_reply.c).
 */
#ifndef WRK_PATH_H
#define WRK_PATH_H

#include "cuda_abi.h"
#include "wire_format.h"
#include "wrk_copy.h"
#include "wrk_staging.h"
#include "xport.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_reply;
struct wrk_staging_pool;
struct wrk_window;

/* ---- host to device ---- */

struct wrk_h2d {
    struct wrk *w;
    struct wrk_reply *rep; /* rep->bulk: bytes of the payload not yet received */
    const struct wrk_copy *copy;
    const void *in_frame;     /* the bytes, if they came inside the frame; else NULL */
    uint64_t offset;          /* bytes received so far */
    struct wrk_staging *last; /* the staging buffer used last; NULL: none was */
    CUresult result;          /* the driver's first error */
};

/* Receive the payload and start its copies in the stream of @t->copy; the driver's
 * errors go to @t->result.  Bytes that are not received are drained by the dispatch;
 * the loop finds a dead connection. */
typedef void wrk_path_h2d(struct wrk_h2d *t);

wrk_path_h2d wrk_path_inline_h2d, wrk_path_staging_h2d, wrk_path_ring_h2d,
    wrk_path_registered_window_h2d;

/* Through staging buffers up to @end of the payload, for other paths; -errno: no more
 * can be received. */
int wrk_path_staging_h2d_until(struct wrk_h2d *t, uint64_t end);

/* ---- device to host, for a reply ---- */

/* At most one chunk is copied while another is sent. */
#define WRK_D2H_CHUNKS 2u

struct wrk_d2h {
    struct wrk *w;
    const struct wrk_copy *copy;
    const struct wire_req *req;
    struct wrk_staging *slots; /* WRK_STAGING_D2H_LENT staging buffers */
    unsigned n_slots;          /* that are used */
    CUstream stream;
    uint32_t ctx_index, slice;
    uint64_t started, sent;
    uint64_t chunk;      /* bytes of one */
    unsigned head, tail; /* of chunks: copies started, and sent */
    struct wrk_d2h_chunk {
        struct wrk_staging *slot;
        uint8_t *bytes; /* in the buffer */
        uint64_t len;
    } chunks[WRK_D2H_CHUNKS];   /* by their number */
    struct xport_source source; /* of the payload, for a link that breaks */
    uint8_t *reread;            /* what was read from it last, or NULL */
    uint64_t n_reread;          /* bytes in all */
    struct wrk_window *window;  /* taken by the registered_window path; else NULL */
    uint64_t window_len;
};

/* Where header and payload pass through memory that the peer sees: put both in their
 * places, as many bytes as are in one piece, and publish them together.  Under the send
 * lock.  An error is the call's result, and nothing was published; nor was with
 * @d->sent 0, and then the functions below are called. */
typedef CUresult wrk_path_d2h_whole(struct wrk_d2h *d, const void *header, size_t size);
/* Before the reply's header is sent: an error can still be the call's result. */
typedef CUresult wrk_path_d2h_begin(struct wrk_d2h *d);
/* After the header, under the send lock: send the payload, or wrk_path_d2h_broken(). */
typedef void wrk_path_d2h_send(struct wrk_d2h *d);

wrk_path_d2h_whole wrk_path_ring_d2h_whole;
wrk_path_d2h_begin wrk_path_staging_d2h_begin, wrk_path_registered_window_d2h_begin;
wrk_path_d2h_send wrk_path_staging_d2h_send, wrk_path_ring_d2h_send,
    wrk_path_registered_window_d2h_send;

/* struct xport_source of a copy that may be cut anywhere. */
int64_t wrk_path_staging_reread(struct xport_source *source, uint64_t at, uint64_t len,
                                const uint8_t **ret);

/* The last bytes of a source whose first @begun are looked at anyway: an invalid
 * address range is invalid at one of its ends, and now the error can still be the
 * call's result. */
CUresult wrk_path_d2h_probe(struct wrk_d2h *d, uint64_t begun);

/* Whether a registered window covers the first bytes; if so it stays open for the path
 * or wrk_path_registered_window_drop(). */
bool wrk_path_registered_window_take(struct wrk_d2h *d);
void wrk_path_registered_window_drop(struct wrk_d2h *d);

/* The copy failed after its header had been sent.  The length has been promised and
 * false bytes must not be delivered, so the attachment ends. */
void wrk_path_d2h_broken(struct wrk_d2h *d, CUresult result);

#endif
