/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls that begin, end and ask about stream captures, and how captured
 * work becomes nodes.
 */
#include "sg_graph_capture.h"

#include "sg_capture.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_graph.h"
#include "sg_handle.h"
#include "sg_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The nodes behind the handles, and the edges from them; those that were destroyed are
 * left out. */
static size_t
resolve_deps(const struct sg_deps *deps, struct sg_graph_node **nodes,
             CUgraphEdgeData *edges)
{
    size_t found = 0;

    for (size_t i = 0; i < deps->n; i++) {
        nodes[found] = sg_handle_get(SG_KIND_NODE, deps->nodes[i]);
        edges[found] = deps->edges[i];
        if (nodes[found])
            found++;
    }
    return found;
}

static CUresult
add_node(struct sg_graph *graph, const struct sg_deps *from, struct sg_node_data *data,
         struct sg_graph_node **ret_node, uint64_t *ret_handle)
{
    CLEANUP_FREE struct sg_graph_node **deps = calloc(from->n + 1, sizeof(*deps));
    CLEANUP_FREE CUgraphEdgeData *edges = calloc(from->n + 1, sizeof(*edges));
    CUresult rc;
    size_t n;

    if (!deps || !edges) {
        sg_node_data_fini(data);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    n = resolve_deps(from, deps, edges);
    rc = sg_graph_add(graph, deps, n, data, ret_node);
    if (rc == CUDA_SUCCESS)
        rc = sg_graph_edges_set(*ret_node, edges);
    if (rc == CUDA_SUCCESS)
        *ret_handle = (*ret_node)->handle;
    return rc;
}

static const struct sg_node_data *
node_data(struct sg_graph_node *node)
{
    return &node->data;
}

const struct sg_capture_graphs sg_graph_capture = {
    .add = add_node,
    .drop = sg_node_data_fini,
    .free = sg_graph_free,
    .data = node_data,
};

/* -------------------------------------------------------------------- the calls */

static CUresult
enter_stream(CUstream handle, struct sg_stream **ret_stream)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, handle, ret_stream);
    return rc == CUDA_SUCCESS ? rc : sg_leave(rc);
}

static CUresult
begin(struct sg_stream *stream, CUstreamCaptureMode mode, struct sg_graph *graph,
      struct sg_capture **ret_cap)
{
    static uint64_t last_id;
    struct sg_capture *cap;
    CUresult rc = CUDA_SUCCESS;

    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->kind == SG_STREAM_LEGACY_KIND)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    cap = calloc(1, sizeof(*cap));
    if (!cap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cap->borrowed = graph != NULL;
    cap->graph = graph;
    if (!graph)
        rc = sg_graph_new(&cap->graph);
    if (rc != CUDA_SUCCESS) {
        free(cap);
        return rc;
    }
    cap->id = ++last_id;
    cap->origin = stream;
    cap->mode = mode;
    cap->thread = pthread_self();
    sg_capture_begin(cap);
    stream->capture = cap;
    *ret_cap = cap;
    return CUDA_SUCCESS;
}

SG_CALL(cuStreamBeginCapture_v2, CUstream hStream, CUstreamCaptureMode mode)
{
    struct sg_stream *stream;
    struct sg_capture *cap;
    CUresult rc = enter_stream(hStream, &stream);

    return rc == CUDA_SUCCESS ? sg_leave(begin(stream, mode, NULL, &cap)) : rc;
}

SG_CALL(cuStreamBeginCapture, CUstream hStream)
{
    return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SG_CALL(cuStreamBeginCaptureToGraph, CUstream hStream, CUgraph hGraph,
        const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
        size_t numDependencies, CUstreamCaptureMode mode)
{
    const struct sg_deps deps = {(uint64_t *)(uintptr_t)dependencies,
                                 (CUgraphEdgeData *)(uintptr_t)dependencyData,
                                 numDependencies};
    struct sg_stream *stream;
    struct sg_capture *cap;
    struct sg_graph *graph;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    graph = SG_OBJ(sg_graph, SG_KIND_GRAPH, hGraph);
    if (!graph || (numDependencies && !dependencies))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numDependencies; i++) {
        struct sg_graph_node *n = SG_OBJ(sg_graph_node, SG_KIND_NODE, dependencies[i]);

        if (!n || n->graph != graph)
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
    }
    rc = begin(stream, mode, graph, &cap);
    if (rc == CUDA_SUCCESS)
        rc = sg_deps_add(&stream->capture_deps, &deps);
    return sg_leave(rc);
}

/* Marks what the nodes in @todo, of which there are @n, depend on.  @todo has room for
 * all nodes. */
static void
mark_ancestors(struct sg_graph_node **todo, size_t n, bool *marked)
{
    while (n) {
        struct sg_graph_node *node = todo[--n];

        for (struct sg_graph_edge *e = node->deps.first; e; e = e->next_dep) {
            if (!marked[e->from->index])
                todo[n++] = e->from;
            marked[e->from->index] = true;
        }
    }
}

/* Whether all of @deps that still exist are marked. */
static bool
are_marked(const struct sg_deps *deps, const bool *marked)
{
    for (size_t i = 0; i < deps->n; i++) {
        struct sg_graph_node *n = sg_handle_get(SG_KIND_NODE, deps->nodes[i]);

        if (n && !marked[n->index])
            return false;
    }
    return true;
}

/* True when the origin's last work depends on all work of the other streams. */
static bool
all_joined(struct sg_capture *cap)
{
    struct sg_graph *graph = cap->graph;
    CLEANUP_FREE bool *marked = calloc(graph->n_nodes + 1, sizeof(*marked));
    CLEANUP_FREE struct sg_graph_node **todo =
        calloc(graph->n_nodes + 1, sizeof(*todo));
    size_t n_todo = 0;

    if (!marked || !todo)
        return false;
    sg_graph_number(graph);
    for (size_t i = 0; i < cap->origin->capture_deps.n; i++) {
        struct sg_graph_node *n =
            sg_handle_get(SG_KIND_NODE, cap->origin->capture_deps.nodes[i]);

        if (n && !marked[n->index]) {
            marked[n->index] = true;
            todo[n_todo++] = n;
        }
    }
    mark_ancestors(todo, n_todo, marked);
    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next)
        for (struct sg_stream *s = c->streams; s; s = s->next)
            if (s->capture == cap && !are_marked(&s->capture_deps, marked))
                return false;
    return are_marked(&cap->left, marked);
}

/* @ret_graph: NULL if the caller does not want the graph, which is freed then unless
 * somebody has a handle to it. */
static CUresult
end(struct sg_stream *stream, struct sg_graph **ret_graph)
{
    struct sg_capture *cap = stream->capture;
    CUresult rc = CUDA_SUCCESS;

    if (!cap)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (cap->origin != stream) {
        cap->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (cap->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(cap->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (cap->invalid)
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(cap))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (rc == CUDA_SUCCESS && ret_graph && !cap->graph->handle) {
        cap->graph->handle = sg_handle_new(SG_KIND_GRAPH, cap->graph);
        if (!cap->graph->handle)
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc == CUDA_SUCCESS && ret_graph)
        *ret_graph = cap->graph;
    else if (!cap->borrowed && (rc != CUDA_SUCCESS || !cap->graph->handle))
        sg_graph_free(cap->graph);
    sg_capture_end(cap);
    return rc;
}

SG_CALL(cuStreamEndCapture, CUstream hStream, CUgraph *phGraph)
{
    struct sg_graph *graph;
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (phGraph)
        *phGraph = NULL;
    rc = end(stream, phGraph ? &graph : NULL);
    if (rc == CUDA_SUCCESS && phGraph)
        *phGraph = (CUgraph)(uintptr_t)graph->handle;
    return sg_leave(rc);
}

static CUstreamCaptureStatus
status_of(const struct sg_stream *stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

SG_CALL(cuStreamIsCapturing, CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!captureStatus)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (sg_capture_blocking(stream)) /* asking has no effect on the capture */
        return sg_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    *captureStatus = status_of(stream);
    return sg_leave(CUDA_SUCCESS);
}

/* Who does not ask for the edges must not overlook that one is no ordinary one. */
static bool
edges_are_plain(const struct sg_deps *deps)
{
    static const CUgraphEdgeData plain;

    for (size_t i = 0; i < deps->n; i++)
        if (memcmp(&deps->edges[i], &plain, sizeof(plain)) != 0)
            return false;
    return true;
}

/* The arrays belong to the stream until its next call, as documented. */
SG_CALL(cuStreamGetCaptureInfo_v3, CUstream hStream,
        CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
        CUgraph *graph_out, const CUgraphNode **dependencies_out,
        const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    struct sg_capture *cap;
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!captureStatus_out)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (sg_capture_blocking(stream))
        return sg_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    *captureStatus_out = status_of(stream);
    cap = stream->capture;
    if (!cap || cap->invalid)
        return sg_leave(CUDA_SUCCESS);
    if (dependencies_out && !edgeData_out && !edges_are_plain(&stream->capture_deps))
        return sg_leave(CUDA_ERROR_LOSSY_QUERY);
    if (graph_out && !cap->graph->handle)
        cap->graph->handle = sg_handle_new(SG_KIND_GRAPH, cap->graph);
    if (id_out)
        *id_out = cap->id;
    if (graph_out)
        *graph_out = (CUgraph)(uintptr_t)cap->graph->handle;
    if (dependencies_out)
        *dependencies_out =
            (const CUgraphNode *)(const void *)stream->capture_deps.nodes;
    if (edgeData_out)
        *edgeData_out = stream->capture_deps.edges;
    if (numDependencies_out)
        *numDependencies_out = stream->capture_deps.n;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuStreamGetCaptureInfo_v2, CUstream hStream,
        CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
        CUgraph *graph_out, const CUgraphNode **dependencies_out,
        size_t *numDependencies_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
                                     dependencies_out, NULL, numDependencies_out);
}

SG_CALL(cuStreamGetCaptureInfo, CUstream hStream, CUstreamCaptureStatus *captureStatus,
        cuuint64_t *id)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus, id, NULL, NULL, NULL,
                                     NULL);
}

/* A count past this was never set. */
#define MAX_DEPENDENCIES (1u << 20)

SG_CALL(cuStreamUpdateCaptureDependencies_v2, CUstream hStream,
        CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
        size_t numDependencies, unsigned int flags)
{
    const struct sg_deps deps = {(uint64_t *)(void *)dependencies,
                                 (CUgraphEdgeData *)(uintptr_t)dependencyData,
                                 numDependencies};
    struct sg_stream *stream;
    CUresult rc = enter_stream(hStream, &stream);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (numDependencies > MAX_DEPENDENCIES)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!stream->capture)
        return sg_leave(CUDA_ERROR_ILLEGAL_STATE);
    if (stream->capture->invalid)
        return sg_leave(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if ((numDependencies && !dependencies) ||
        flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numDependencies; i++) {
        struct sg_graph_node *n = sg_handle_get(SG_KIND_NODE, deps.nodes[i]);

        if (!n || n->graph != stream->capture->graph)
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
        rc = sg_deps_add(&stream->capture_deps, &deps);
    else
        rc = sg_deps_set(&stream->capture_deps, &deps);
    return sg_leave(rc);
}

SG_CALL(cuStreamUpdateCaptureDependencies, CUstream hStream, CUgraphNode *dependencies,
        size_t numDependencies, unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL,
                                                numDependencies, flags);
}
