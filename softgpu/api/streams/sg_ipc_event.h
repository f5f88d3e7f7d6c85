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
struct sg_dev;
struct sg_ipc_event;
struct sg_work;
struct sg_stream;

CUresult sg_ipc_event_record(struct sg_ipc_event *ipc, struct sg_stream *stream);
/* Work items for graphs.  A record counts from the moment its item is made. */
CUresult sg_ipc_event_record_work(struct sg_ipc_event *ipc, struct sg_ctx *ctx,
                                  struct sg_work **ret_work);
CUresult sg_ipc_event_wait_work(struct sg_ipc_event *ipc, struct sg_ctx *ctx,
                                struct sg_work **ret_work);
CUresult sg_ipc_event_wait(struct sg_stream *stream, struct sg_ipc_event *ipc);
bool sg_ipc_event_is_done(const struct sg_ipc_event *ipc);
/* Drops the lock while it waits; the error of @ctx. */
CUresult sg_ipc_event_synchronize(struct sg_ipc_event *ipc, struct sg_ctx *ctx);
/* The handle for other processes; makes *@ipc if it is NULL, where @record, the event's
 * last one or NULL, counts. */
CUresult sg_ipc_event_share(struct sg_ctx *ctx, struct sg_work *record,
                            struct sg_ipc_event **ipc, CUipcEventHandle *ret_handle);
CUresult sg_ipc_event_open(struct sg_dev *dev, const CUipcEventHandle *handle,
                           struct sg_ipc_event **ret_ipc);
void sg_ipc_event_unref(struct sg_ipc_event *ipc); /* NULL is a no-op */

#endif
