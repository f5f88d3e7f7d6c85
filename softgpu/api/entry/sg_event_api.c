/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on events.
 */
#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_event.h"
#include "sg_handle.h"
#include "sg_ipc_event.h"
#include "sg_output.h"
#include "sg_stream.h"
#include "sg_work.h"

enum {
    EVENT_FLAGS =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS,
};

SG_CALL(cuEventCreate, CUevent *phEvent, unsigned int Flags)
{
    struct sg_ctx *ctx;
    struct sg_event *event;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phEvent || Flags & ~(unsigned)EVENT_FLAGS ||
        ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_event_new(ctx, Flags, &event);
    if (rc == CUDA_SUCCESS)
        *phEvent = (CUevent)(uintptr_t)event->handle;
    return sg_leave(rc);
}

/* Entry for calls that take an event and need no current context. */
static CUresult
enter_event(CUevent handle, struct sg_event **ret_event)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_event = SG_OBJ(sg_event, SG_KIND_EVENT, handle);
    return *ret_event ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_HANDLE);
}

SG_CALL(cuEventDestroy_v2, CUevent hEvent)
{
    struct sg_event *event;
    CUresult rc = enter_event(hEvent, &event);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (event->ctx->error != CUDA_SUCCESS)
        return sg_leave(event->ctx->error); /* it ends with its context */
    sg_event_destroy(event);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuEventRecordWithFlags, CUevent hEvent, CUstream hStream, unsigned int flags)
{
    struct sg_stream *stream;
    struct sg_event *event;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_work(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    event = SG_OBJ(sg_event, SG_KIND_EVENT, hEvent);
    if (!event)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->ctx != event->ctx)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture)
        return sg_leave(
            sg_capture_event_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL));
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return sg_leave(CUDA_ERROR_ILLEGAL_STATE);
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_event_record(event, stream);
    return sg_leave(rc);
}

SG_CALL(cuEventRecord, CUevent hEvent, CUstream hStream)
{
    return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

SG_CALL(cuEventQuery, CUevent hEvent)
{
    struct sg_event *event;
    CUresult rc = enter_event(hEvent, &event);
    bool done;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (event->capture_id)
        return sg_leave(sg_capture_event_used(event));
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (event->ctx->error != CUDA_SUCCESS)
        return sg_leave(event->ctx->error);
    done =
        event->ipc ? sg_ipc_event_is_done(event->ipc) : sg_work_is_done(event->record);
    return sg_leave(done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

SG_CALL(cuEventSynchronize, CUevent hEvent)
{
    struct sg_event *event;
    struct sg_ctx *ctx;
    struct sg_work *work;
    CUresult rc = enter_event(hEvent, &event);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (event->capture_id)
        return sg_leave(sg_capture_event_used(event));
    rc = sg_capture_check_unsafe();
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (event->ipc)
        return sg_leave(sg_ipc_event_synchronize(event->ipc, event->ctx));
    ctx = sg_ctx_ref(event->ctx);
    work = sg_work_ref(event->record);
    sg_work_wait(work);
    rc = ctx->error;
    sg_output_flush(ctx);
    sg_work_unref(work);
    sg_ctx_unref(ctx);
    return sg_leave(rc);
}

SG_CALL(cuEventElapsedTime_v2, float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    struct sg_event *start, *end;
    CUresult rc = enter_event(hStart, &start);
    int64_t ns;

    if (rc != CUDA_SUCCESS)
        return rc;
    end = SG_OBJ(sg_event, SG_KIND_EVENT, hEnd);
    if (!pMilliseconds || !end || !start->record || !end->record ||
        (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    if (start->ctx->error != CUDA_SUCCESS)
        return sg_leave(start->ctx->error);
    if (!sg_work_is_done(start->record) || !sg_work_is_done(end->record))
        return sg_leave(CUDA_ERROR_NOT_READY);
    ns = (int64_t)(end->record->done_ns - start->record->done_ns);
    *pMilliseconds = (float)((double)ns / 1e6);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamWaitEvent, CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    struct sg_stream *stream;
    struct sg_event *event;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter_work(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    event = SG_OBJ(sg_event, SG_KIND_EVENT, hEvent);
    if (!event)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture || event->capture_id)
        return sg_leave(
            sg_capture_event_wait(stream, event, Flags & CU_EVENT_WAIT_EXTERNAL));
    rc = sg_capture_check_legacy_stream(stream);
    if (rc == CUDA_SUCCESS)
        rc = sg_event_wait(stream, event);
    return sg_leave(rc);
}

SG_CALL(cuIpcGetEventHandle, CUipcEventHandle *pHandle, CUevent hEvent)
{
    struct sg_event *event;
    CUresult rc;

    if (!pHandle || !hEvent)
        return CUDA_ERROR_INVALID_VALUE;
    rc = enter_event(hEvent, &event);
    if (rc != CUDA_SUCCESS)
        return rc;
    /* One that was opened is its maker's to export. */
    if (!(event->flags & CU_EVENT_INTERPROCESS) || event->opened)
        return sg_leave(CUDA_ERROR_INVALID_HANDLE);
    return sg_leave(
        sg_ipc_event_share(event->ctx, event->record, &event->ipc, pHandle));
}

SG_CALL(cuIpcOpenEventHandle, CUevent *phEvent, CUipcEventHandle handle)
{
    struct sg_ipc_event *ipc;
    struct sg_event *event;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!phEvent)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    rc = sg_ipc_event_open(ctx->dev, &handle, &ipc);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    rc = sg_event_new(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, &event);
    if (rc != CUDA_SUCCESS) {
        sg_ipc_event_unref(ipc);
        return sg_leave(rc);
    }
    event->ipc = ipc;
    event->opened = true;
    *phEvent = (CUevent)(uintptr_t)event->handle;
    return sg_leave(CUDA_SUCCESS);
}
