/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events shared between processes on one card.
 *
 * Two counters in a file beside the card's: how often the event was recorded,
 * and up to which record the work is done.  Waiting in another process polls
 * them; a recorder that died counts as done.  Counted object: the event holds
 * it, and every operation that waits.  Lock held for all functions.
 */
#ifndef SG_IPC_EVENT_H
#define SG_IPC_EVENT_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>

struct sg_ctx;
struct sg_event;
struct sg_ipc_event;
struct sg_work;
struct sg_stream;

CUresult sg_ipc_event_record(struct sg_event *event, struct sg_stream *stream);
/* Operations for graphs.  A record counts from the moment its operation is made. */
CUresult sg_ipc_event_record_work(struct sg_event *event, struct sg_ctx *ctx,
                                  struct sg_work **ret_work);
CUresult sg_ipc_event_wait_work(struct sg_event *event, struct sg_ctx *ctx,
                                struct sg_work **ret_work);
CUresult sg_ipc_event_wait(struct sg_stream *stream, struct sg_event *event);
bool sg_ipc_event_is_done(const struct sg_event *event);
/* Drops the lock while it waits. */
CUresult sg_ipc_event_synchronize(struct sg_event *event);
void sg_ipc_event_unref(struct sg_ipc_event *ipc); /* NULL is a no-op */

#endif
