/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of instances: from nodes to operations.  Lock held.
 */
#ifndef SG_GRAPH_RUN_H
#define SG_GRAPH_RUN_H

#include "cuda_abi.h"
#include "gp_base.h"

struct sg_graph_exec;
struct sg_stream;

CUresult sg_graph_run(struct sg_graph_exec *exec, struct sg_stream *stream);

#endif
