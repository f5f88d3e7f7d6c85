/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory of a client on this host that the worker has mapped too, so that
 * the card copies from and to it without a ring between.
 *
 * The file is the client's: it may change the bytes at any time, which harms nobody but
 * itself, but its seals keep it from taking pages away under a copy.  A client names
 * the memory by a number of its choosing and an offset.  It lives until the client
 * gives it back and the last copy is over.  Reader thread only.
 */
#ifndef WRK_PINNED_H
#define WRK_PINNED_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct wrk;

/* Pieces of one client: programs keep few large ones. */
#define WRK_PINNED_MAX 256u
/* All of them together: what a client can make this process keep in memory this way,
 * as much as it may with stages. */
#define WRK_PINNED_BYTES_MAX (UINT64_C(1) << 30)

/* Streams with copies under way that are told apart, of one piece. */
#define WRK_PINNED_MARKS 16u

/* Where a copy goes on the client's side. */
struct wrk_pinned_place {
    uint32_t id;
    uint64_t offset, n;
};

/* Map the file if it is what it must be; -EPROTO with words if not. */
int wrk_pinned_map(int fd, uint64_t size, void **ret, struct gp_err *err);

/* Keep what the client has handed over last as number @id; false: it cannot be, or the
 * client has enough. */
bool wrk_pinned_add(struct wrk *w, uint32_t id, uint64_t size);
void wrk_pinned_drop(struct wrk *w, uint32_t id);

/* Start a copy in @stream. */
CUresult wrk_pinned_start(struct wrk *w, const struct wrk_pinned_place *place,
                          CUdeviceptr device, bool down, CUstream stream);

/* The context is gone. */
void wrk_pinned_forget(uint32_t ctx_index);

#endif
