/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures.  What a program captures is carried out at once, as everything here is; one
 * empty node of the graph stands for it, because programs ask whether a capture had
 * any.
 */
#include "null.h"
#include "null_graph.h"

#include <pthread.h>
#include <stdlib.h>

struct capture {
    struct capture *next;
    CUstream stream;
    struct null_graph *graph;
    bool was_part; /* before it began */
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

/* @graph becomes the capture's on success. */
static CUresult
capture_begin(CUstream stream, struct null_graph *graph)
{
    struct capture *c = calloc(1, sizeof(*c));
    CUresult r = CUDA_SUCCESS;

    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->stream = stream;
    c->graph = graph;
    c->was_part = graph->is_part;
    pthread_mutex_lock(&lock);
    if (*capture_place(stream)) {
        r = CUDA_ERROR_ILLEGAL_STATE;
    } else {
        graph->is_part = true; /* until its end */
        c->id = ++last_id;
        c->next = captures;
        captures = TAKE_PTR(c);
    }
    pthread_mutex_unlock(&lock);
    free(c);
    return r;
}

CUresult
cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    struct null_graph *graph = null_graph_new();
    CUresult r = graph ? capture_begin(hStream, graph) : CUDA_ERROR_OUT_OF_MEMORY;

    if (r != CUDA_SUCCESS)
        null_graph_free(graph);
    return r;
}

CUresult
cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                            const CUgraphNode *dependencies,
                            const CUgraphEdgeData *dependencyData,
                            size_t numDependencies, CUstreamCaptureMode mode)
{
    struct null_graph *graph = null_graph_get(hGraph);

    return graph ? capture_begin(hStream, graph) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    CUgraphNodeParams done = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    struct null_node *node;
    struct capture **at, *c;
    CUresult r;

    pthread_mutex_lock(&lock);
    at = capture_place(hStream);
    c = *at;
    if (c)
        *at = c->next;
    pthread_mutex_unlock(&lock);
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!null_graph_get((CUgraph)c->graph)) { /* its graph's node is gone */
        free(c);
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    c->graph->is_part = c->was_part;
    r = null_node_add(c->graph, NULL, 0, &done, &node);
    *phGraph = (CUgraph)c->graph;
    free(c);
    return r;
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
        *graph_out = (CUgraph)c->graph;
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
