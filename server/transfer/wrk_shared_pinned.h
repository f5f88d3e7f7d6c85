/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_pinned: page-locked memory that client and worker both map, so that the GPU
 * copies from and to it without a ring or staging buffer.
 *
 * The file is the client's.  The client may change the bytes at any time, which harms
 * only itself; the file's seals keep it from taking pages away during a copy.  A client
 * names the memory by a number of its choosing and an offset.  The mapping lasts until
 * the client gives it back and the last copy is complete.  If both sides have agreed on
 * addresses, the memory has the same address here and kernels can use it; for a client
 * on another host the pages are the worker's own, and changes are sent as lines
 * (wire_lines.h).  Receive thread only.
 */
#ifndef WRK_SHARED_PINNED_H
#define WRK_SHARED_PINNED_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

#include <stddef.h>

struct gp_err;
struct wire_line;
struct wrk;

/* Pieces of one client: some programs allocate every flag by itself. */
#define WRK_PINNED_MAX 4096u
/* All such memory of one client together, which is what a client can make this process
 * keep in memory; the same as for graph host memory.  Pages of the worker's own count
 * twice, because each has a shadow. */
#define WRK_PINNED_BYTES_MAX (UINT64_C(1) << 30)

/* Smaller memory is compared sooner than the driver is asked what has changed. */
#define WRK_PINNED_TOLD_MIN (UINT64_C(1) << 20)

/* How much of its own pages the reader compares for one answer: some milliseconds. */
#define WRK_PINNED_LOOK (UINT64_C(16) << 20)

/* Streams with copies in flight that are tracked for each allocation. */
#define WRK_PINNED_FENCES 16u

/* Where a copy goes on the client's side. */
struct wrk_pinned_place {
    uint32_t id;
    uint64_t offset, n;
};

/* Map the file if it is what it must be; -EPROTO with words if not. */
int wrk_pinned_map(int fd, uint64_t size, void **ret, struct gp_err *err);

/* What a client wants kept as number @id. */
struct wrk_pinned_request {
    uint32_t id;
    bool file;     /* the one handed over last; else pages of our own, with @addr */
    uint64_t addr; /* in the range agreed on (wrk_unified.h); 0: anywhere */
    uint64_t size;
};

/* False: it cannot be, or the client has enough.  Pages of our own that are there are
 * registered again in the current context if theirs is gone. */
bool wrk_pinned_add(struct wrk *w, const struct wrk_pinned_request *request);
void wrk_pinned_drop(struct wrk *w, uint32_t id);

/* Start a copy in @stream. */
CUresult wrk_pinned_start(struct wrk *w, const struct wrk_pinned_place *place,
                          CUdeviceptr device, bool down, CUstream stream);

/* The client has changed these bytes; false: @id has no pages of our own. */
bool wrk_pinned_lines_put(uint32_t id, const struct wire_line *lines, size_t n);

/* What the card has changed from byte *@offset of piece *@id on: at most WIRE_LINES_MAX
 * lines, and where to go on, *@id UINT32_MAX at the end. */
size_t wrk_pinned_lines_take(uint32_t *id, uint64_t *offset, struct wire_line *lines);

/* Memory that was given back while a stream was captured is taken back behind the last
 * capture: hooks of the loop. */
bool wrk_pinned_pending(const struct wrk *w);
void wrk_pinned_poll(struct wrk *w);

/* The context is gone. */
void wrk_pinned_forget(uint32_t ctx_index);

#endif
