/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: calls that put work into a stream add nodes to a graph.
 *
 * One capture per origin stream, shared by every stream that joined it through
 * an event; owned by the origin stream until cuStreamEndCapture.  Lock held for
 * all functions.
 */
#ifndef SG_CAPTURE_H
#define SG_CAPTURE_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "sg_deps.h"

#include <pthread.h>
#include <stdbool.h>

struct sg_event;
struct sg_graph;
struct sg_graph_node;
struct sg_node_data;
struct sg_stream;

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

/* What a capture needs of graphs, which are a layer above. */
struct sg_capture_graphs {
    /* Adds a node behind those of @deps that still exist; takes over what @data owns,
     * also on failure. */
    CUresult (*add)(struct sg_graph *graph, const struct sg_deps *deps,
                    struct sg_node_data *data, struct sg_graph_node **ret_node,
                    uint64_t *ret_handle);
    void (*drop)(struct sg_node_data *data); /* frees what it owns */
    void (*free)(struct sg_graph *graph);
    const struct sg_node_data *(*data)(struct sg_graph_node *node);
};
void sg_capture_set_graphs(const struct sg_capture_graphs *functions);

/* Enters @cap into the list of active captures. */
void sg_capture_begin(struct sg_capture *cap);
/* Takes every stream and event out of @cap and frees it, not its graph. */
void sg_capture_end(struct sg_capture *cap);
/* A capturing stream that work in @stream, if that is the legacy stream, would have to
 * wait for; or NULL. */
struct sg_stream *sg_capture_blocking(struct sg_stream *stream);

/* Adds a node behind the stream's last ones.  Takes over what @data owns, also
 * on failure (then the capture is invalid). */
CUresult sg_capture_add(struct sg_stream *stream, struct sg_node_data *data,
                        struct sg_graph_node **ret_node);
/* What a node that was added does now, with what it was given there. */
const struct sg_node_data *sg_capture_node_data(struct sg_graph_node *node);
CUresult sg_capture_event_record(struct sg_stream *stream, struct sg_event *event,
                                 bool external);
/* A call that asks for an event of a capture: it is refused, and the capture invalid.
 */
CUresult sg_capture_event_used(const struct sg_event *event);
CUresult sg_capture_event_wait(struct sg_stream *stream, struct sg_event *event,
                               bool external);
/* Work is being captured into @graph. */
bool sg_capture_uses(const struct sg_graph *graph);

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid: streams that are
 * part of one may not be waited for or queried.  The legacy stream is part of those of
 * all blocking streams: as below. */
CUresult sg_capture_check_none(struct sg_stream *stream);

/* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and the capture is invalid, when work put
 * into @stream, a wait for it or a question about it would order itself behind a
 * capturing stream: only the legacy stream does that, with every blocking stream. */
CUresult sg_capture_check_legacy_stream(struct sg_stream *stream);
/* For calls that could wait or allocate: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
 * and the capture is invalid, while this thread may not make them. */
CUresult sg_capture_check_unsafe(void);

#endif
