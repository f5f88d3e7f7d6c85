/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the pieces are in which payloads travel, found by trying.
 *
 * A copy is cut into pieces at both ends: the worker copies one to its card, or from
 * it, while the next one is on its way, and the sender's queue holds about one.  Which
 * length is best depends on the caches, on how many cores the two ends have and on what
 * the card does, which no constant knows.  This end sees when a copy is over, so it
 * tries a shorter length (gp_trial.h), for each direction apart, and tells the worker
 * (gp_pieces) when that is faster or is not any more.
 *
 * Only over TCP to a peer that is near (xport_pieces_matter()).  Any thread; of copies
 * that several threads make at a time one is measured.
 */
#ifndef STUB_PIECES_H
#define STUB_PIECES_H

#include "stub_path_table.h"

struct stub_link;

/* A copy that is measured: from before it is sent until it is over.  The caller's;
 * between the two calls it must come back, whatever becomes of the copy. */
struct stub_pieces_use {
    struct stub_link *link; /* NULL: it is not measured */
    enum stub_direction direction;
    uint64_t n, begun;
};

/* Before the first frame of a copy of @n bytes, which goes over the link of the current
 * context. */
void stub_pieces_begin(struct stub_pieces_use *use, enum stub_direction direction,
                       uint64_t n);
/* After it; @whole: it was made. */
void stub_pieces_end(struct stub_pieces_use *use, bool whole);

#endif
