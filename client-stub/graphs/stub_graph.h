/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory behind pointers in the parameters of graph nodes.
 *
 * A driver returns pointers into a node when its parameters are queried, and the
 * application may hold them as long as the node exists.  The nodes are on the server,
 * so the memory that such a pointer leads to is kept here, by node, until the node has
 * other parameters.  Any thread.
 */
#ifndef STUB_GRAPH_H
#define STUB_GRAPH_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_feature;

/* A copy of @size bytes for the node @id that stays where it is while the content is
 * the same; NULL without memory.  Aligned for anything but tensor maps. */
void *stub_graph_keep(uint64_t id, const void *bytes, size_t size);

/* The same for kernel parameters laid out as @func has them: an array of pointers, one
 * per parameter, into a copy of @bytes. */
void **stub_graph_keep_params(uint64_t id, CUfunction func, const uint8_t *bytes,
                              uint32_t len);

/* True when @p reads or writes the client's own memory: such a copy needs graph host
 * memory (stub_graph_hostmem.h). */
bool stub_graph_copy_is_local(const CUDA_MEMCPY3D *p);

/* Remember which host function a node has, until the server gives @token back;
 * cuGraphHostNodeGetParams wants it. */
void stub_graph_set_host(uint64_t node, uint64_t token,
                         const CUDA_HOST_NODE_PARAMS *params);

/* The node @id is destroyed: what is kept for it goes. */
void stub_graph_forget(uint64_t id);

/* Takes the message that nodes have ended with their graph (WIRE_EVENT_GRAPH_ENDED). */
extern const struct stub_feature stub_graph_feature;

/* Memory that a node allocates is device memory from now on. */
void stub_graph_enter_memory(CUdeviceptr dptr, size_t size);

#endif
