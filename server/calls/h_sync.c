/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for streams and events; functions of the client in stream order.
 */
#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_host.h"
#include "wrk_wait.h"

CUresult
h_cuStreamSynchronize(struct wrk *w, const struct wire_args_cuStreamSynchronize *a,
                      struct wrk_reply *rep)
{
    return wrk_wait_stream(w, rep, a->hStream);
}

CUresult
h_cuEventSynchronize(struct wrk *w, const struct wire_args_cuEventSynchronize *a,
                     struct wrk_reply *rep)
{
    return wrk_wait_event(w, rep, a->hEvent);
}

CUresult
h_cuLaunchHostFunc(struct wrk *w, const struct wire_args_cuLaunchHostFunc *a,
                   struct wrk_reply *rep)
{
    struct wrk_host *host = wrk_host_new(w, WRK_HOST_ONCE, a->token, a->hStream_id);
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuLaunchHostFunc, a->hStream, wrk_host_run, host);
    if (r != CUDA_SUCCESS)
        wrk_host_drop(host);
    return r;
}

CUresult
h_cuStreamAddCallback(struct wrk *w, const struct wire_args_cuStreamAddCallback *a,
                      struct wrk_reply *rep)
{
    struct wrk_host *host = wrk_host_new(w, WRK_HOST_ONCE, a->token, a->hStream_id);
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuStreamAddCallback, a->hStream, wrk_host_stream_run, host,
                 a->flags);
    if (r != CUDA_SUCCESS)
        wrk_host_drop(host);
    return r;
}

CUresult
h_cuUserObjectCreate(struct wrk *w, const struct wire_args_cuUserObjectCreate *a,
                     struct wrk_reply *rep)
{
    struct wrk_host *host = wrk_host_new(w, WRK_HOST_NOTIFY, a->token, 0);
    CUuserObject object = NULL;
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuUserObjectCreate, &object, host, wrk_host_run, a->initialRefcount,
                 a->flags);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_USEROBJ, a->object_out_id, object);
    else
        wrk_host_drop(host);
    return r;
}

CUresult
h_gp_host_done(struct wrk *w, const struct wire_args_gp_host_done *a,
               struct wrk_reply *rep)
{
    (void)rep;
    wrk_host_done(w, a->ticket);
    return CUDA_SUCCESS;
}
