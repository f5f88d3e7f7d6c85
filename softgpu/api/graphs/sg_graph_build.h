/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node of each kind is made of: checks the caller's structure and copies
 * it into node data.
 *
 * NULL structures are CUDA_ERROR_INVALID_VALUE.  On failure what @data holds is
 * still to be ended by the caller (sg_node_data_fini).  Lock held; building a
 * kernel node may drop it for a moment.
 */
#ifndef SG_GRAPH_BUILD_H
#define SG_GRAPH_BUILD_H

#include "cuda_abi.h"
#include "gp_base.h"

struct sg_node_data;

/* @old: the node this will replace, whose attributes stay; or NULL. */
CUresult sg_build_kernel(const CUDA_KERNEL_NODE_PARAMS *p,
                         const struct sg_node_data *old, struct sg_node_data *data);
CUDA_KERNEL_NODE_PARAMS sg_build_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *v1);
CUresult sg_build_copy(const CUDA_MEMCPY3D *p, CUcontext hctx,
                       struct sg_node_data *data);
CUresult sg_build_fill(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext hctx,
                       struct sg_node_data *data);
CUresult sg_build_host(const CUDA_HOST_NODE_PARAMS *p, struct sg_node_data *data);
CUresult sg_build_child(CUgraph handle, struct sg_node_data *data);
CUresult sg_build_event(CUevent handle, CUgraphNodeType type,
                        struct sg_node_data *data);
CUresult sg_build_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
                         struct sg_node_data *data);
CUresult sg_build_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *p, struct sg_node_data *data);
CUresult sg_build_free(CUdeviceptr dptr, struct sg_node_data *data);
CUresult sg_build_any(const CUgraphNodeParams *p, const struct sg_node_data *old,
                      struct sg_node_data *data);

#endif
