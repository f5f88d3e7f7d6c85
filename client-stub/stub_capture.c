/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: the thread's mode, and the arrays that a capture's description
 * points to, which live with the stream's handle until it is asked again.
 */
#include "stub_call.h"
#include "stub_gen.h"
#include "stub_handle.h"
#include "stub_lock.h"
#include "stub_manual.h"
#include "stub_tls.h"
#include "wire_api.h"

#include <string.h>

CUresult
stub_m_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult r = stub_enter();
    CUstreamCaptureMode old = (CUstreamCaptureMode)stub_tls.capture_mode;

    if (r != CUDA_SUCCESS)
        return r;
    if (!mode || (int)*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    stub_tls.capture_mode = (uint32_t)*mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* The last description of a capture.  Per thread: CUDA says that the arrays are valid
 * until the next call that changes them, and threads must not see each other's. */
struct capture_arrays {
    CUgraphNode *nodes;
    CUgraphEdgeData *edges;
};

static __thread struct capture_arrays arrays;

static CUresult
capture_keep(const struct wire_cuStreamGetCaptureInfo_v3_rep_view *rep)
{
    uint32_t n = rep->f->n_nodes, m = rep->f->n_edges;
    CUgraphNode *nodes = realloc(arrays.nodes, (n + 1) * sizeof(*nodes));
    CUgraphEdgeData *edges;

    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    arrays.nodes = nodes;
    edges = realloc(arrays.edges, (m + 1) * sizeof(*edges));
    if (!edges)
        return CUDA_ERROR_OUT_OF_MEMORY;
    arrays.edges = edges;
    for (uint32_t i = 0; i < n; i++)
        nodes[i] = (CUgraphNode)(uintptr_t)rep->nodes[i];
    if (m)
        memcpy(edges, rep->edges, m * sizeof(*edges));
    return CUDA_SUCCESS;
}

CUresult
stub_m_cuStreamGetCaptureInfo_v3(CUstream hStream,
                                 CUstreamCaptureStatus *captureStatus_out,
                                 cuuint64_t *id_out, CUgraph *graph_out,
                                 const CUgraphNode **dependencies_out,
                                 const CUgraphEdgeData **edgeData_out,
                                 size_t *numDependencies_out, bool per_thread)
{
    struct wire_cuStreamGetCaptureInfo_v3_rep_view rep = {0};
    struct wire_cuStreamGetCaptureInfo_v3_req *req;
    uint64_t stream = stub_stream_id(hStream, per_thread);
    struct stub_call c;
    CUresult r;

    if (!captureStatus_out)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuStreamGetCaptureInfo_v3, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->hStream = stream;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuStreamGetCaptureInfo_v3_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuStreamGetCaptureInfo_v3);
    if (r == CUDA_SUCCESS)
        r = capture_keep(&rep);
    if (r == CUDA_SUCCESS) {
        *captureStatus_out = (CUstreamCaptureStatus)rep.f->captureStatus_out;
        if (id_out)
            *id_out = rep.f->id_out;
        if (graph_out)
            *graph_out = (CUgraph)(uintptr_t)rep.f->graph_out;
        if (dependencies_out)
            *dependencies_out = arrays.nodes;
        if (edgeData_out)
            *edgeData_out = rep.f->n_edges ? arrays.edges : NULL;
        if (numDependencies_out)
            *numDependencies_out = rep.f->n_nodes;
    }
    stub_call_end(&c);
    return r;
}

CUresult
stub_m_cuStreamGetCaptureInfo_v2(CUstream hStream,
                                 CUstreamCaptureStatus *captureStatus_out,
                                 cuuint64_t *id_out, CUgraph *graph_out,
                                 const CUgraphNode **dependencies_out,
                                 size_t *numDependencies_out, bool per_thread)
{
    return stub_m_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out,
                                            graph_out, dependencies_out, NULL,
                                            numDependencies_out, per_thread);
}
