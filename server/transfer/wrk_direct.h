/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads that the card reads and writes where they pass between client and worker:
 * the rings of shared memory, registered with the driver, are the slots.
 *
 * A piece holds its part of the ring until the card is done with it, so this is for
 * copies that nothing can hold up: the stream had nothing to do when the payload came,
 * or is the worker's own.  Two pieces at a time, so that the client fills (or empties)
 * one while the card has the other.
 */
#ifndef WRK_DIRECT_H
#define WRK_DIRECT_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_copy;
struct wrk_direct;
struct xport_conn;

/* For the connection, which stays. */
int wrk_direct_new(struct xport_conn *conn, struct wrk_direct **ret);
void wrk_direct_free(struct wrk_direct *direct); /* NULL is a no-op */

/* Can the rest of @copy, from @offset on, go this way? */
bool wrk_direct_can(struct wrk *w, const struct wrk_copy *copy, uint64_t offset);

/* Copy bytes from @offset to @end of the payload up; *ret_done of them have left the
 * connection.  @moves is told of each piece before it moves.  The reader. */
CUresult wrk_direct_up(struct wrk *w, const struct wrk_copy *copy, uint64_t offset,
                       void (*moves)(struct wrk *w, uint64_t bytes),
                       uint64_t *ret_done);

/* Where a copy down runs: a stream of the current context, a slice to charge. */
struct wrk_direct_side {
    CUstream stream;
    uint32_t ctx_index, slice;
};

/* The same down, under the sender's lock.  -errno: the link is dead; an error of the
 * card in *ret_result. */
int wrk_direct_down(struct wrk *w, const struct wrk_copy *copy, uint64_t offset,
                    const struct wrk_direct_side *side, CUresult *ret_result);

/* A context is gone. */
void wrk_direct_forget(struct wrk_direct *direct);

#endif
