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

#include <stdbool.h>

struct sg_event;
struct sg_graph_node;
struct sg_node_data;
struct sg_stream;

/* What the next node comes behind: handles of nodes, and the edges from them. */
struct sg_deps {
    uint64_t *nodes;
    CUgraphEdgeData *edges;
    size_t n;
};

void sg_deps_clear(struct sg_deps *deps);

/* Adds a node behind the stream's last ones.  Takes over what @data owns, also
 * on failure (then the capture is invalid). */
CUresult sg_capture_add(struct sg_stream *stream, struct sg_node_data *data,
                        struct sg_graph_node **ret_node);
CUresult sg_capture_event_record(struct sg_stream *stream, struct sg_event *event,
                                 bool external);
CUresult sg_capture_event_wait(struct sg_stream *stream, struct sg_event *event,
                               bool external);
/* Work is being captured into @graph. */
struct sg_graph;
bool sg_capture_uses(const struct sg_graph *graph);
/* The stream goes away in the middle of a capture. */
void sg_capture_abandon(struct sg_stream *stream);

/* A call that is not allowed while @stream captures was made: nothing good can come of
 * the capture any more. */
void sg_capture_invalidate(struct sg_stream *stream);

/* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and the capture is invalid, when work put
 * into @stream would order itself behind a capturing stream: only the legacy
 * stream does that, with every blocking stream. */
CUresult sg_capture_check_legacy_stream(struct sg_stream *stream);
/* For calls that could wait or allocate: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
 * and the capture is invalid, while this thread may not make them. */
CUresult sg_capture_check_unsafe(void);

#endif
