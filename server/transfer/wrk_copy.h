/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy between a client and the GPU, as every path sees it: the fields that the
 * calls fill in, how it is cut into chunks, and the accounting of each chunk before it
 * moves.  The paths are above (wrk_path.h).
 */
#ifndef WRK_COPY_H
#define WRK_COPY_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

#define WRK_STAGING_SIZE (1u << 20)

/* Staging buffers that copies in flight may hold: 96 MiB of page-locked memory.  When a
 * stream is delayed for longer than that many bytes, the receive thread waits for it.
 */
#define WRK_STAGING_H2D_MAX 96
/* Downloads: one is copied to, one is sent, and the others are on their way.  Where
 * what was sent stays lent, a buffer that is wanted again before the client has
 * acknowledged it is copied, so small ones are as many as hold twice what it
 * acknowledges at a time (1 MiB).  Powers of two: they are counted through the end of
 * an unsigned. */
#define WRK_STAGING_D2H 4
#define WRK_STAGING_D2H_LENT 16

/* No path cuts a copy of up to so many bytes into pieces. */
#define WRK_COPY_ONE_PIECE (128u * 1024)

/* The staging buffer for a piece of @len bytes.  Clients that copy little, or nothing
 * for hours, are many: each of their workers keeps two buffers or three. */
static inline uint64_t
wrk_staging_size(uint64_t len)
{
    return len <= WRK_COPY_ONE_PIECE ? WRK_COPY_ONE_PIECE : WRK_STAGING_SIZE;
}

/* Elements of arrays have 1, 2, 4, 8 or 16 bytes, and a driver copies whole ones. */
#define WRK_COPY_ELEMENT_MAX 16

/* A payload and where it goes to or comes from, for all kinds of copies. */
struct wrk_copy {
    /* Start the copy of @len bytes at @offset of the payload, between the staging
     * buffer @slot and the GPU, in @stream. */
    CUresult (*start)(struct wrk *w, const struct wrk_copy *copy, void *slot,
                      uint64_t offset, uint64_t len);
    uint64_t len; /* of the whole */
    /* Pieces are multiples of it (a row, elements of an array), or 0;
     * <= WRK_STAGING_SIZE */
    uint64_t grain;
    CUstream stream;
    uint64_t base;   /* for start(): a device address */
    bool plain;      /* bytes from that address on: a window may serve it */
    const void *arg; /* for start() */
};

/* Whether the driver knows memory at each of @len bytes from @base on: CUDA_SUCCESS, or
 * CUDA_ERROR_INVALID_VALUE for a range that begins in an allocation and leaves it.  A
 * copy that travels in pieces asks before the first one, because pieces that the driver
 * would accept must not move when it would refuse the whole.  An address of which the
 * driver knows no range is left to the copy itself.  Receive thread; does not wait. */
CUresult wrk_copy_check_range(struct wrk *w, uint64_t base, uint64_t len);

/* The same for @len bytes from byte @offset of @array on.  Arrays of several rows, and
 * of formats without elements, are left to the copy itself. */
CUresult wrk_copy_check_array(struct wrk *w, CUarray array, uint64_t offset,
                              uint64_t len);

/* How much of the copy goes in one piece at @offset, at most @most bytes. */
uint64_t wrk_copy_chunk(const struct wrk_copy *copy, uint64_t offset, uint64_t most);

/* Called before each chunk that moves between a client and the GPU of a slice: counts
 * it, and may wait for other sessions that copy (gov_copy.h). */
void wrk_copy_account(struct wrk *w, uint32_t slice, uint64_t bytes);

/* The same on the reader, for the current context. */
void wrk_copy_account_receive(struct wrk *w, uint64_t bytes);

#endif
