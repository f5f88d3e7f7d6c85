/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers that a connection receives frames into, as sources of copies to the GPU.
 *
 * The bytes of a short copy come inside its frame.  The frame's memory is reused when
 * the next one is received, so either the bytes are copied to a staging buffer, or the
 * connection goes on with another buffer and the GPU reads them where they are.  That
 * is a buffer's change of owner instead of a copy of up to 64 KiB.
 *
 * There are WRK_FRAME_BUFFERS at most, registered with the driver, allocated when they
 * are first of use.  While copies from all others are in flight, and where a connection
 * cannot go on with another buffer, bytes have to be copied.  Receive thread only.
 */
#ifndef WRK_FRAME_BUFFERS_H
#define WRK_FRAME_BUFFERS_H

#include <stdint.h>

struct wrk;
struct wrk_frame_buffers;
struct wrk_staging;

#define WRK_FRAME_BUFFERS 4

/* Shorter bytes are copied in less time than a buffer takes to be exchanged. */
#define WRK_FRAME_BYTES_MIN (16u << 10)

int wrk_frame_buffers_new(struct wrk_frame_buffers **ret);
void wrk_frame_buffers_free(struct wrk_frame_buffers *buffers); /* NULL is a no-op */

/* The buffer that has the @len bytes at @bytes, which are of the frame received last,
 * for a copy that the caller starts, and fences (wrk_staging_fence()) before the next
 * call.  NULL: they have to be copied. */
struct wrk_staging *wrk_frame_buffers_take(struct wrk *w, const void *bytes,
                                           uint64_t len);

/* The context is gone. */
void wrk_frame_buffers_forget(struct wrk *w, uint32_t ctx_index);

#endif
