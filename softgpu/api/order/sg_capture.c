/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture.
 *
 * Streams and events remember nodes by handle: the graph under capture can be
 * got at by cuStreamGetCaptureInfo, and its nodes can be taken away.
 */
#include "sg_capture.h"

#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_event.h"
#include "sg_graph.h"
#include "sg_handle.h"
#include "sg_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sg_capture {
    struct sg_capture *next; /* all active captures */
    uint64_t id;
    struct sg_stream *origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    bool borrowed;       /* the graph is the caller's (cuStreamBeginCaptureToGraph) */
    struct sg_deps left; /* the last work of streams that were destroyed meanwhile */
    struct sg_graph *graph;
};

static struct sg_capture *captures; /* lock held */
static _Thread_local CUstreamCaptureMode thread_mode;

/* ---------------------------------------------------------------- dependencies */

void
sg_deps_clear(struct sg_deps *deps)
{
    free(deps->nodes);
    free(deps->edges);
    *deps = (struct sg_deps){0};
}

/* Room for @n of them, and one more so that there is something for none. */
static CUresult
deps_room(struct sg_deps *deps, size_t n)
{
    uint64_t *nodes = realloc(deps->nodes, (n + 1) * sizeof(*nodes));
    CUgraphEdgeData *edges;

    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    deps->nodes = nodes;
    edges = realloc(deps->edges, (n + 1) * sizeof(*edges));
    if (!edges)
        return CUDA_ERROR_OUT_OF_MEMORY;
    deps->edges = edges;
    return CUDA_SUCCESS;
}

/* @more: NULL edges are ordinary ones.  One that is there already stays as it is. */
static CUresult
add_deps(struct sg_deps *deps, const struct sg_deps *more)
{
    CUresult rc = deps_room(deps, deps->n + more->n);

    for (size_t i = 0; rc == CUDA_SUCCESS && i < more->n; i++) {
        size_t j = 0;

        while (j < deps->n && deps->nodes[j] != more->nodes[i])
            j++;
        if (j < deps->n)
            continue;
        deps->nodes[deps->n] = more->nodes[i];
        deps->edges[deps->n++] = more->edges ? more->edges[i] : (CUgraphEdgeData){0};
    }
    return rc;
}

static CUresult
set_deps(struct sg_deps *deps, const struct sg_deps *from)
{
    CUresult rc = deps_room(deps, from->n);

    if (rc == CUDA_SUCCESS) {
        deps->n = 0;
        rc = add_deps(deps, from);
    }
    return rc;
}

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

static void
leave_capture(struct sg_stream *stream)
{
    stream->capture = NULL;
    sg_deps_clear(&stream->capture_deps);
}

/* Takes every stream and event out of @cap and frees it, not its graph. */
static void
capture_end(struct sg_capture *cap)
{
    struct sg_capture **p = &captures;

    for (struct sg_ctx *c = sg_ctx_list; c; c = c->next) {
        for (struct sg_stream *s = c->streams; s; s = s->next)
            if (s->capture == cap)
                leave_capture(s);
        for (struct sg_event *e = c->events; e; e = e->next) {
            if (e->capture_id != cap->id)
                continue;
            e->capture_id = 0;
            sg_deps_clear(&e->capture_deps);
        }
    }
    while (*p != cap)
        p = &(*p)->next;
    *p = cap->next;
    sg_deps_clear(&cap->left);
    free(cap);
}

bool
sg_capture_uses(const struct sg_graph *graph)
{
    for (struct sg_capture *c = captures; c; c = c->next)
        if (c->graph == graph)
            return true;
    return false;
}

void
sg_capture_abandon(struct sg_stream *stream)
{
    struct sg_capture *cap = stream->capture;

    if (cap->origin != stream) { /* its work may have been joined, or be by events */
        if (add_deps(&cap->left, &stream->capture_deps) != CUDA_SUCCESS)
            cap->invalid = true;
        leave_capture(stream);
        return;
    }
    if (!cap->borrowed)
        sg_graph_free(cap->graph);
    leave_capture(stream);
    capture_end(cap);
}

/* ----------------------------------------------------------------- adding nodes */

CUresult
sg_capture_add(struct sg_stream *stream, struct sg_node_data *data,
               struct sg_graph_node **ret_node)
{
    struct sg_capture *cap = stream->capture;
    CLEANUP_FREE struct sg_graph_node **deps = NULL;
    CLEANUP_FREE CUgraphEdgeData *edges = NULL;
    struct sg_graph_node *node;
    size_t n;
    CUresult rc;

    if (cap->invalid) {
        sg_node_data_fini(data);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    deps = calloc(stream->capture_deps.n + 1, sizeof(*deps));
    edges = calloc(stream->capture_deps.n + 1, sizeof(*edges));
    if (!deps || !edges) {
        sg_node_data_fini(data);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    n = resolve_deps(&stream->capture_deps, deps, edges);
    rc = sg_graph_add(cap->graph, deps, n, data, &node);
    if (rc == CUDA_SUCCESS)
        rc = sg_graph_set_edges(node, edges);
    if (rc == CUDA_SUCCESS)
        rc = set_deps(&stream->capture_deps,
                      &(struct sg_deps){.nodes = &node->handle, .n = 1});
    if (rc != CUDA_SUCCESS) {
        cap->invalid = true;
        return rc;
    }
    if (ret_node)
        *ret_node = node;
    return CUDA_SUCCESS;
}

CUresult
sg_capture_event_record(struct sg_stream *stream, struct sg_event *event, bool external)
{
    struct sg_capture *cap = stream->capture;

    if (cap->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (external) {
        struct sg_node_data data = {
            .type = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            .ctx = stream->ctx->handle,
            .event = event->handle,
        };

        return sg_capture_add(stream, &data, NULL);
    }
    event->capture_id = cap->id;
    return set_deps(&event->capture_deps, &stream->capture_deps);
}

static struct sg_capture *
capture_of_event(const struct sg_event *event)
{
    for (struct sg_capture *c = captures; c; c = c->next)
        if (c->id == event->capture_id)
            return c;
    return NULL;
}

CUresult
sg_capture_event_wait(struct sg_stream *stream, struct sg_event *event, bool external)
{
    struct sg_capture *cap = stream->capture, *from = capture_of_event(event);

    if (cap && cap->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (cap && external) {
        struct sg_node_data data = {
            .type = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
            .ctx = stream->ctx->handle,
            .event = event->handle,
        };

        return sg_capture_add(stream, &data, NULL);
    }
    if (!from) { /* work outside of the capture */
        if (cap)
            cap->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (cap && from != cap) {
        cap->invalid = from->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->kind == SG_STREAM_LEGACY_KIND) {
        from->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    stream->capture = from; /* an uncaptured stream joins */
    return add_deps(&stream->capture_deps, &event->capture_deps);
}

/* ---------------------------------------------------------------- forbidden calls */

void
sg_capture_invalidate(struct sg_stream *stream)
{
    stream->capture->invalid = true;
}

/* A capturing stream that work in @stream, if that is the legacy stream, would have to
 * wait for. */
static struct sg_stream *
blocked_by(struct sg_stream *stream)
{
    if (!captures || stream->kind != SG_STREAM_LEGACY_KIND)
        return NULL;
    for (struct sg_stream *s = stream->ctx->streams; s; s = s->next)
        if (s->capture && !s->non_blocking)
            return s;
    return NULL;
}

CUresult
sg_capture_check_legacy_stream(struct sg_stream *stream)
{
    struct sg_stream *s = blocked_by(stream);

    if (!s)
        return CUDA_SUCCESS;
    s->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult
sg_capture_check_unsafe(void)
{
    if (!captures || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct sg_capture *c = captures; c; c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self());

        if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        if (!mine && (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
                      thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
            continue;
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

SG_CALL(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode old = thread_mode;

    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

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
    cap->next = captures;
    captures = cap;
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
        rc = add_deps(&stream->capture_deps, &deps);
    return sg_leave(rc);
}

static void
mark_ancestors(struct sg_graph *graph, bool *marked)
{
    /* Captured nodes only depend on older ones: one pass from the end. */
    for (size_t i = graph->n_nodes; i-- > 0;) {
        struct sg_graph_node *n = graph->nodes[i];

        for (size_t d = 0; marked[i] && d < n->n_deps; d++)
            marked[n->deps[d]->index] = true;
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

    if (!marked)
        return false;
    for (size_t i = 0; i < graph->n_nodes; i++)
        graph->nodes[i]->index = i;
    for (size_t i = 0; i < cap->origin->capture_deps.n; i++) {
        struct sg_graph_node *n =
            sg_handle_get(SG_KIND_NODE, cap->origin->capture_deps.nodes[i]);

        if (n)
            marked[n->index] = true;
    }
    mark_ancestors(graph, marked);
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
    capture_end(cap);
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
    if (blocked_by(stream)) /* asking has no effect on the capture */
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
    if (blocked_by(stream))
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
        rc = add_deps(&stream->capture_deps, &deps);
    else
        rc = set_deps(&stream->capture_deps, &deps);
    return sg_leave(rc);
}

SG_CALL(cuStreamUpdateCaptureDependencies, CUstream hStream, CUgraphNode *dependencies,
        size_t numDependencies, unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL,
                                                numDependencies, flags);
}
