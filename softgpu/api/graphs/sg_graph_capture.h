/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream captures as graphs see them: the functions that sg_capture.h asks for.
 */
#ifndef SG_GRAPH_CAPTURE_H
#define SG_GRAPH_CAPTURE_H

extern const struct sg_capture_graphs sg_graph_capture;

#endif
