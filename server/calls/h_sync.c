/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for streams and events; functions of the client in stream order.
 */
#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_elapsed.h"
#include "wrk_hostfn.h"
#include "wrk_left.h"
#include "wrk_wait.h"

CUresult
h_cuStreamSynchronize(struct wrk *w, const struct wire_args_cuStreamSynchronize *a,
                      struct wrk_reply *rep)
{
    return wrk_wait_stream(w, rep, a->hStream);
}

CUresult
h_cuStreamDestroy_v2(struct wrk *w, const struct wire_args_cuStreamDestroy_v2 *a,
                     struct wrk_reply *rep)
{
    CUresult r;

    (void)rep;
    wrk_left_note(w, a->hStream);
    r = WRK_CALL(w, cuStreamDestroy_v2, a->hStream);
    wrk_handle_del(w, WIRE_KIND_STREAM, a->hStream_id);
    return r;
}

CUresult
h_cuEventSynchronize(struct wrk *w, const struct wire_args_cuEventSynchronize *a,
                     struct wrk_reply *rep)
{
    return wrk_wait_event(w, rep, a->hEvent);
}

CUresult
h_gp_wait_elapsed(struct wrk *w, const struct wire_args_gp_wait_elapsed *a,
                  struct wrk_reply *rep)
{
    return wrk_wait_elapsed(
        w, rep, (enum wrk_wait_what)a->what, a->hStream,
        &(struct wrk_elapsed_ask){.start = a->start, .end = a->end});
}

CUresult
h_cuEventDestroy_v2(struct wrk *w, const struct wire_args_cuEventDestroy_v2 *a,
                    struct wrk_reply *rep)
{
    CUresult r = wrk_elapsed_destroy(w, a->hEvent);

    (void)rep;
    wrk_handle_del(w, WIRE_KIND_EVENT, a->hEvent_id);
    return r;
}

/* A host function in a stream runs once, unless the stream is being captured: then it
 * becomes a node, runs at each launch, and lives as long as the graphs that hold the
 * node. */
struct in_order {
    struct wrk_hostfn *host;
    CUgraph graph; /* NULL: no capture */
};

static bool
in_order_begin(struct wrk *w, struct in_order *f, CUstream stream, uint64_t token,
               uint64_t stream_id)
{
    f->graph = wrk_hostfn_graph(w, stream);
    f->host =
        wrk_hostfn_new(w, f->graph ? WRK_HOST_GRAPH : WRK_HOST_ONCE, token, stream_id);
    if (f->host && f->graph)
        wrk_hostfn_tie(f->host, f->graph);
    return f->host != NULL;
}

static CUresult
in_order_end(const struct in_order *f, CUresult r)
{
    if (r != CUDA_SUCCESS && f->graph)
        wrk_hostfn_untie(f->host, f->graph);
    else if (r != CUDA_SUCCESS)
        wrk_hostfn_refuse(f->host);
    return r;
}

void
h_cuLaunchHostFunc_lost(struct wrk *w, const struct wire_args_cuLaunchHostFunc *a,
                        struct wrk_reply *rep, CUresult r)
{
    struct wrk_hostfn *host = wrk_hostfn_new(w, WRK_HOST_ONCE, a->token, a->hStream_id);

    (void)rep;
    (void)r;
    if (host)
        wrk_hostfn_refuse(host);
}

CUresult
h_cuLaunchHostFunc(struct wrk *w, const struct wire_args_cuLaunchHostFunc *a,
                   struct wrk_reply *rep)
{
    struct in_order f;

    (void)rep;
    if (!in_order_begin(w, &f, a->hStream, a->token, a->hStream_id))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return in_order_end(
        &f, WRK_CALL(w, cuLaunchHostFunc, a->hStream, wrk_hostfn_run, f.host));
}

/* A program that has heard of success is called, with the error. */
static void
callback_refuse(const struct wrk_reply *rep, struct wrk_hostfn *host, CUresult r)
{
    if (rep->req->flags & WIRE_F_REPLY)
        wrk_hostfn_refuse(host);
    else
        wrk_hostfn_refuse_callback(host, r);
}

CUresult
h_cuStreamAddCallback(struct wrk *w, const struct wire_args_cuStreamAddCallback *a,
                      struct wrk_reply *rep)
{
    struct wrk_hostfn *host =
        wrk_hostfn_new(w, WRK_HOST_CALLBACK, a->token, a->hStream_id);
    CUresult r;

    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuStreamAddCallback, a->hStream, wrk_hostfn_stream_run, host,
                 a->flags);
    if (r != CUDA_SUCCESS)
        callback_refuse(rep, host, r);
    return r;
}

/* The stream does not exist: the call that made it was posted, and failed. */
void
h_cuStreamAddCallback_lost(struct wrk *w, const struct wire_args_cuStreamAddCallback *a,
                           struct wrk_reply *rep, CUresult r)
{
    struct wrk_hostfn *host =
        wrk_hostfn_new(w, WRK_HOST_CALLBACK, a->token, a->hStream_id);

    if (host)
        callback_refuse(rep, host, r);
}

CUresult
h_cuUserObjectCreate(struct wrk *w, const struct wire_args_cuUserObjectCreate *a,
                     struct wrk_reply *rep)
{
    struct wrk_hostfn *host = wrk_hostfn_new(w, WRK_HOST_NOTIFY, a->token, 0);
    CUuserObject object = NULL;
    CUresult r;

    (void)rep;
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = WRK_CALL(w, cuUserObjectCreate, &object, host, wrk_hostfn_run,
                 a->initialRefcount, a->flags);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_USEROBJ, a->object_out_id, object);
    else
        wrk_hostfn_drop(host);
    return r;
}

CUresult
h_gp_host_done(struct wrk *w, const struct wire_args_gp_host_done *a,
               struct wrk_reply *rep)
{
    (void)rep;
    wrk_hostfn_done(w, a->ticket);
    return CUDA_SUCCESS;
}
