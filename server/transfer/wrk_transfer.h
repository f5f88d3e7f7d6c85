/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the connection and the GPU, for the calls: each takes the path that
 * the table of wrk_paths.h chooses.
 *
 * Receive thread only.  What the paths keep from copy to copy (staging buffers,
 * internal streams) belongs to struct wrk_priv and lives as long as the worker.
 */
#ifndef WRK_TRANSFER_H
#define WRK_TRANSFER_H

#include "cuda_abi.h"
#include "wrk_copy.h"

#include <stddef.h>
#include <stdint.h>

struct wrk;
struct wrk_reply;

/* Makes the staging buffers' pool and what downloads share, for the life of the
 * process. -ENOMEM. */
int wrk_transfer_init(struct wrk *w);

/* Copy the payload of @rep to the GPU; @in_frame are its bytes if they came inside the
 * frame, else NULL.  Returns when the last chunk has been received and its copy
 * started.  If rep->taken, the reply is sent later. */
CUresult wrk_transfer_h2d(struct wrk *w, struct wrk_reply *rep,
                          const struct wrk_copy *copy, const void *in_frame);

/* Copy from the GPU and send the bytes: with the reply to @rep, or for a frame with
 * WIRE_F_D2H_ASYNC as an unsolicited message.  @copy and the @arg_size bytes of its
 * @arg are kept for as long as that takes. */
CUresult wrk_transfer_d2h(struct wrk *w, struct wrk_reply *rep,
                          const struct wrk_copy *copy, size_t arg_size);

/* Receive the payload of @rep into @buf (an image, say); -errno: the connection is
 * dead. */
int wrk_transfer_receive(struct wrk *w, struct wrk_reply *rep, void *buf);

/* The context is gone. */
void wrk_transfer_forget(struct wrk *w, uint32_t ctx_index);

#endif
