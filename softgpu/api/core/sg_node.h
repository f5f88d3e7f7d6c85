/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node of a graph does: a launch, a copy, a wait...
 *
 * Calls describe their work with it when their stream is captured, and graphs keep a
 * private copy of everything it points to.  A plain description without functions.
 */
#ifndef SG_NODE_H
#define SG_NODE_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_cond;
struct sg_graph;
struct sg_graph_mem;

struct sg_launch_req {
    CUfunction func; /* as it was handed in */
    unsigned grid[3], block[3];
    unsigned cluster[3]; /* in blocks; 0, 0, 0: as the kernel says */
    unsigned shared;
    bool cooperative;
    int priority;
    bool has_priority;
};

/* Attributes of a kernel node that change no result here; they can be asked back. */
struct sg_kernel_hints {
    CUaccessPolicyWindow window;
    CUlaunchMemSyncDomainMap domain_map;
    CUlaunchMemSyncDomain domain;
    CUclusterSchedulingPolicy scheduling;
    unsigned preferred[3]; /* cluster, in blocks */
    unsigned carveout;
    unsigned nvlink;
};

struct sg_node_data {
    CUgraphNodeType type;
    uint64_t ctx; /* handle of the context it runs in */
    union {
        struct {
            struct sg_launch_req req;
            struct sg_kernel_hints hints;
            void *params;      /* owned; the kernel's buffer */
            void **param_ptrs; /* owned; into params, for GetParams */
        } kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        struct {
            CUhostFn fn;
            void *arg;
        } host;
        struct sg_graph *child; /* owned */
        uint64_t event;         /* handle */
        struct {
            CUstreamBatchMemOpParams *ops; /* owned */
            unsigned n, flags;
        } memops;
        struct {
            CUmemPoolProps props;
            uint64_t size;
            struct sg_graph_mem *mem; /* reference */
        } alloc;
        struct {
            struct sg_cond *cond; /* reference */
            CUgraphConditionalNodeType type;
            unsigned n;
            struct sg_graph **bodies; /* owned */
            CUgraph *handles;         /* owned; of the bodies, NULL in instances */
        } cond;
        CUdeviceptr free_ptr;
    };
};

#endif
