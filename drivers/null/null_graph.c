/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures and graphs.  What a program captures is carried out at once, as everything
 * here is; a graph holds no nodes, and launching one does nothing.
 */
#include "null.h"

#include <pthread.h>
#include <stdlib.h>

struct capture {
    struct capture *next;
    CUstream stream;
    CUgraph graph;
    cuuint64_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static cuuint64_t last_id;

/* Where the pointer to @stream's capture is kept, or to the end; under the lock. */
static struct capture **
capture_place(CUstream stream)
{
    struct capture **at = &captures;

    while (*at && (*at)->stream != stream)
        at = &(*at)->next;
    return at;
}

CUresult
cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    struct capture *c = calloc(1, sizeof(*c));
    CUresult r = CUDA_SUCCESS;

    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->stream = hStream;
    c->graph = null_handle();
    pthread_mutex_lock(&lock);
    if (*capture_place(hStream)) {
        r = CUDA_ERROR_ILLEGAL_STATE;
    } else {
        c->id = ++last_id;
        c->next = captures;
        captures = TAKE_PTR(c);
    }
    pthread_mutex_unlock(&lock);
    free(c);
    return r;
}

CUresult
cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    struct capture **at, *c;

    pthread_mutex_lock(&lock);
    at = capture_place(hStream);
    c = *at;
    if (c)
        *at = c->next;
    pthread_mutex_unlock(&lock);
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    *phGraph = c->graph;
    free(c);
    return CUDA_SUCCESS;
}

CUresult
cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                          cuuint64_t *id_out, CUgraph *graph_out,
                          const CUgraphNode **dependencies_out,
                          const CUgraphEdgeData **edgeData_out,
                          size_t *numDependencies_out)
{
    const struct capture *c;

    pthread_mutex_lock(&lock);
    c = *capture_place(hStream);
    *captureStatus_out =
        c ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    if (c && id_out)
        *id_out = c->id;
    if (c && graph_out)
        *graph_out = c->graph;
    pthread_mutex_unlock(&lock);
    if (dependencies_out)
        *dependencies_out = NULL;
    if (edgeData_out)
        *edgeData_out = NULL;
    if (numDependencies_out)
        *numDependencies_out = 0;
    return CUDA_SUCCESS;
}

CUresult
cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                          cuuint64_t *id_out, CUgraph *graph_out,
                          const CUgraphNode **dependencies_out,
                          size_t *numDependencies_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
                                     dependencies_out, NULL, numDependencies_out);
}

CUresult
cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus, NULL, NULL, NULL, NULL,
                                     NULL);
}

CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode before = own;

    own = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult
cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    *phGraph = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuGraphDestroy(CUgraph hGraph)
{
    return CUDA_SUCCESS;
}

CUresult
cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    *numNodes = 0;
    return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                            unsigned long long flags)
{
    *phGraphExec = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    *phGraphExec = null_handle();
    instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult
cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    return CUDA_SUCCESS;
}

CUresult
cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    return CUDA_SUCCESS;
}

CUresult
cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    return CUDA_SUCCESS;
}
