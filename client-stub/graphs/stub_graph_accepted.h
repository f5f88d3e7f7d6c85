/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of kernel nodes in instances of graphs that need no answer.
 *
 * cuGraphExecKernelNodeSetParams has no result but its error, which the program expects
 * from the call itself.  Whether the driver refuses depends on the instance, the node,
 * the kernel, its shape and its attributes, not on the values of the arguments.  So
 * what it has accepted once it accepts again, until a graph, an instance, or an
 * attribute of a kernel or node changes (stub_accepted.h): then only the arguments are
 * new, and the call is posted.  Everything else is asked.
 *
 * For sessions of one server.  Any thread.
 */
#ifndef STUB_GRAPH_ACCEPTED_H
#define STUB_GRAPH_ACCEPTED_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_graph_accepted {
    uint64_t exec, node;
    CUDA_KERNEL_NODE_PARAMS params; /* without pointers */
    uint32_t ctx;                   /* index of the current context */
    uint32_t since;                 /* stub_accepted_since() */
};

/* Describe a call.  @params as it is sent. */
void stub_graph_accepted_init(struct stub_graph_accepted *call, CUgraphExec exec,
                              CUgraphNode node, const void *params);

/* Has the driver accepted it, and nothing changed since? */
bool stub_graph_accepted_known(const struct stub_graph_accepted *call);

/* It has. */
void stub_graph_accepted_note(const struct stub_graph_accepted *call);

#endif
