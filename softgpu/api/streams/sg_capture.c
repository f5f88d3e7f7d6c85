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
#include "sg_handle.h"
#include "sg_node.h"
#include "sg_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct sg_capture_graphs *graphs;
static struct sg_capture *captures; /* lock held */
static _Thread_local CUstreamCaptureMode thread_mode;

static void
leave_capture(struct sg_stream *stream)
{
    stream->capture = NULL;
    sg_deps_clear(&stream->capture_deps);
}

void
sg_capture_end(struct sg_capture *cap)
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

void
sg_capture_begin(struct sg_capture *cap)
{
    cap->next = captures;
    captures = cap;
}

bool
sg_capture_uses(const struct sg_graph *graph)
{
    for (struct sg_capture *c = captures; c; c = c->next)
        if (c->graph == graph)
            return true;
    return false;
}

static void
stream_destroyed(struct sg_stream *stream)
{
    struct sg_capture *cap = stream->capture;

    if (cap->origin != stream) { /* its work may have been joined, or be by events */
        if (sg_deps_add(&cap->left, &stream->capture_deps) != CUDA_SUCCESS)
            cap->invalid = true;
        leave_capture(stream);
        return;
    }
    if (!cap->borrowed)
        graphs->free(cap->graph);
    leave_capture(stream);
    sg_capture_end(cap);
}

/* ----------------------------------------------------------------- adding nodes */

void
sg_capture_set_graphs(const struct sg_capture_graphs *functions)
{
    graphs = functions;
    sg_stream_on_leaving_capture(stream_destroyed);
}

CUresult
sg_capture_add(struct sg_stream *stream, struct sg_node_data *data,
               struct sg_graph_node **ret_node)
{
    struct sg_capture *cap = stream->capture;
    struct sg_graph_node *node;
    uint64_t handle;
    CUresult rc;

    if (cap->invalid) {
        graphs->drop(data);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    rc = graphs->add(cap->graph, &stream->capture_deps, data, &node, &handle);
    if (rc == CUDA_SUCCESS)
        rc = sg_deps_set(&stream->capture_deps,
                         &(struct sg_deps){.nodes = &handle, .n = 1});
    if (rc != CUDA_SUCCESS) {
        cap->invalid = true;
        return rc;
    }
    if (ret_node)
        *ret_node = node;
    return CUDA_SUCCESS;
}

const struct sg_node_data *
sg_capture_node_data(struct sg_graph_node *node)
{
    return graphs->data(node);
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
    return sg_deps_set(&event->capture_deps, &stream->capture_deps);
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
sg_capture_event_used(const struct sg_event *event)
{
    struct sg_capture *cap = capture_of_event(event);

    if (cap)
        cap->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
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
    return sg_deps_add(&stream->capture_deps, &event->capture_deps);
}

/* ---------------------------------------------------------------- forbidden calls */

struct sg_stream *
sg_capture_blocking(struct sg_stream *stream)
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
    struct sg_stream *s = sg_capture_blocking(stream);

    if (!s)
        return CUDA_SUCCESS;
    s->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult
sg_capture_check_none(struct sg_stream *stream)
{
    if (!stream->capture)
        return sg_capture_check_legacy_stream(stream);
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
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
