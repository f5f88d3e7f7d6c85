/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events.
 */
#include "sg_event.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_handle.h"
#include "sg_ipc_event.h"
#include "sg_stream.h"
#include "sg_work.h"

#include "gp_base.h"
#include "gp_list.h"

#include <stdlib.h>

static const struct sg_work_class record_class = {
    .name = "event-record",
    .queue = SG_QUEUE_INLINE,
    .always = true,
};

static const struct sg_work_class wait_class = {
    .name = "event-wait",
    .queue = SG_QUEUE_INLINE,
    .always = true,
};

CUresult
sg_event_record(struct sg_event *event, struct sg_stream *stream)
{
    struct sg_work *work;
    CUresult rc;

    event->capture_id = 0;
    if (event->ipc)
        return sg_ipc_event_record(event->ipc, stream);
    work = calloc(1, sizeof(*work));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &record_class, stream->ctx);
    sg_work_ref(work);
    rc = sg_stream_enqueue(stream, work, NULL);
    if (rc != CUDA_SUCCESS) {
        sg_work_unref(work);
        return rc;
    }
    sg_work_unref(event->record);
    event->record = work;
    return CUDA_SUCCESS;
}

CUresult
sg_event_record_all(struct sg_event *event, struct sg_ctx *ctx, uint64_t green)
{
    struct sg_work *work = calloc(1, sizeof(*work));
    int r = 0;

    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &record_class, ctx);
    for (struct sg_stream *s = ctx->streams; s && r == 0; s = s->next)
        if (sg_stream_serves(s, green))
            r = sg_work_after(work, s->last);
    if (r < 0) {
        sg_work_unref(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_work_submit(work);
    sg_work_unref(event->record);
    event->record = work;
    return CUDA_SUCCESS;
}

CUresult
sg_event_wait(struct sg_stream *stream, struct sg_event *event)
{
    struct sg_work *work;

    if (event->ipc)
        return sg_ipc_event_wait(stream, event->ipc);
    if (sg_work_is_done(event->record))
        return CUDA_SUCCESS;
    work = calloc(1, sizeof(*work));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_work_init(work, &wait_class, stream->ctx);
    return sg_stream_enqueue(stream, work, event->record);
}

void
sg_event_destroy(struct sg_event *event)
{
    GP_LIST_DROP(event);
    sg_handle_drop(event->handle);
    sg_work_unref(event->record);
    sg_ipc_event_unref(event->ipc);
    sg_deps_clear(&event->capture_deps);
    free(event);
}

CUresult
sg_event_new(struct sg_ctx *ctx, unsigned flags, struct sg_event **ret_event)
{
    struct sg_event *event = calloc(1, sizeof(*event));

    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->handle = sg_handle_new(SG_KIND_EVENT, event);
    if (!event->handle) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->ctx = ctx;
    event->flags = flags;
    GP_LIST_ADD(&ctx->events, event);
    *ret_event = event;
    return CUDA_SUCCESS;
}
