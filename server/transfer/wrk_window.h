/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered windows: parts of the GPUs' memory that an RDMA adapter accesses itself,
 * so that a copy uses neither a staging buffer nor the processor.
 *
 * How an adapter reaches a GPU's memory is the GPUDirect mode (enum wrk_gdr_mode of
 * wrk_segment.h).  The first mode that works is used for the whole attachment:
 *
 *   dmabuf    the driver exports a dma-buf of the range, and the adapter maps it
 *   peermem   the adapter registers the GPU's address, with the help of a kernel
 *             module; if that memory is ordinary memory of this process the mode is
 *             called "mapped"
 *   slots     neither works: copies go through staging buffers (wrk_staging.h)
 *
 * A window covers a part of an allocation, because many GPUs can map only little at a
 * time.  Only memory from cuMemAlloc has windows, because only its end is certain to be
 * seen.  Any thread; made after the connection is open, never freed.
 */
#ifndef WRK_WINDOW_H
#define WRK_WINDOW_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_window;
struct wrk_windows;

/* One window, at a multiple of its size: a few large copies use few of them. */
#define WRK_WINDOW_SIZE (UINT64_C(64) << 20)
/* As many as some cards can map at a time (256 MiB) would be 4; one that cannot be
 * opened takes the place of the oldest, so more only costs registrations. */
#define WRK_WINDOWS_MAX 32
/* Copies below this are not worth a round trip of their own. */
#define WRK_WINDOW_MIN (64u << 10)
/* Allocations that are remembered; of more, the copies go through slots. */
#define WRK_WINDOW_ALLOCS_MAX 65536

/* @allowed: "auto", "dmabuf", "peermem", "off".  -EOPNOTSUPP: the link is no RDMA. */
int wrk_windows_new(struct wrk *w, const char *allowed, struct wrk_windows **ret);
void wrk_windows_free(struct wrk_windows *ws); /* NULL is a no-op */

/* All of the following do nothing, and say no, for NULL. */

/* cuMemAlloc gave this range to the context. */
void wrk_windows_know(struct wrk_windows *ws, uint64_t addr, uint64_t size,
                      uint32_t ctx_index);
/* Is a transfer under way there?  Then forgetting it waits. */
bool wrk_windows_busy(struct wrk_windows *ws, uint64_t addr);
/* The allocation is about to be freed: its windows close. */
void wrk_windows_forget(struct wrk_windows *ws, uint64_t addr);
/* The context died with all it held. */
void wrk_windows_forget_ctx(struct wrk_windows *ws, uint32_t ctx_index);

/* How many of the @len bytes from @addr a window covers; it stays open until
 * wrk_window_put().  0: use a staging buffer, as always while the link is no RDMA.  A
 * context of the GPU is current. */
uint64_t wrk_window_take(struct wrk_windows *ws, uint64_t addr, uint64_t len,
                         struct wrk_window **ret);
void wrk_window_put(struct wrk_windows *ws, struct wrk_window *window);

/* The link was replaced, and no adapter knows the windows any more: those in use end
 * with their last user. */
void wrk_windows_link_replaced(struct wrk *w);

/* May the adapter write to the card of that slice, so that the card will see it? */
bool wrk_windows_writable(struct wrk_windows *ws, uint32_t slice);
/* The adapter has written: the card sees it when this returns. */
CUresult wrk_windows_flush(struct wrk_windows *ws, uint32_t slice);

#endif
