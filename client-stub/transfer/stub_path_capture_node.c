/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path capture_node: a copy in a captured stream becomes a node of its graph, and no
 * byte moves now (stub_graph_hostmem.h).
 */
#include "stub_box.h"
#include "stub_graph_hostmem.h"
#include "stub_path.h"

CUresult
stub_path_capture_node(struct stub_copy *copy)
{
    CUDA_MEMCPY3D box =
        stub_graph_hostmem_linear(copy->dst, copy->direction == STUB_D2H, copy->src,
                                  copy->direction == STUB_H2D, copy->n);

    return stub_graph_hostmem_capture(copy->stream, copy->per_thread, &box);
}

CUresult
stub_path_capture_node_box(struct stub_copy *copy)
{
    return stub_graph_hostmem_capture(copy->stream, copy->per_thread, copy->box->given);
}
