/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGraphDebugDotPrint: a graph as a picture for Graphviz.
 *
 * The file belongs on the program's machine, so it is written here, from what the
 * server says about the nodes.  The flags ask for more words about each node; what a
 * driver puts there is not specified, and nodes are named by number and kind, kernels
 * by their name as well.
 */
#include "cuda_api.h"
#include "gp_base.h"
#include "stub_manual.h"

#include <stdio.h>

struct dot {
    CUgraphNode *node;
    CUgraphNodeType *type;
    size_t n;
    CUgraphNode *from, *to;
    size_t n_edges;
};

static void
dot_fini(struct dot *dot)
{
    free(dot->node);
    free(dot->type);
    free(dot->from);
    free(dot->to);
}

static CUresult
dot_query_nodes(struct dot *dot, CUgraph graph)
{
    CUresult r = cuGraphGetNodes(graph, NULL, &dot->n);

    if (r != CUDA_SUCCESS)
        return r;
    dot->node = calloc(dot->n + 1, sizeof(dot->node[0]));
    dot->type = calloc(dot->n + 1, sizeof(dot->type[0]));
    if (!dot->node || !dot->type)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (dot->n)
        r = cuGraphGetNodes(graph, dot->node, &dot->n);
    for (size_t i = 0; r == CUDA_SUCCESS && i < dot->n; i++)
        r = cuGraphNodeGetType(dot->node[i], &dot->type[i]);
    return r;
}

static CUresult
dot_query_edges(struct dot *dot, CUgraph graph)
{
    CUresult r = cuGraphGetEdges(graph, NULL, NULL, &dot->n_edges);

    if (r != CUDA_SUCCESS || dot->n_edges == 0)
        return r;
    dot->from = calloc(dot->n_edges, sizeof(dot->from[0]));
    dot->to = calloc(dot->n_edges, sizeof(dot->to[0]));
    if (!dot->from || !dot->to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return cuGraphGetEdges(graph, dot->from, dot->to, &dot->n_edges);
}

static const char *
dot_type(CUgraphNodeType type)
{
    static const char *const names[] = {
        "KERNEL",         "MEMCPY",       "MEMSET",
        "HOST",           "GRAPH",        "EMPTY",
        "WAIT_EVENT",     "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
        "EXT_SEMAS_WAIT", "MEM_ALLOC",    "MEM_FREE",
        "BATCH_MEM_OP",   "CONDITIONAL",
    };

    return (unsigned)type < ARRAY_SIZE(names) ? names[type] : "?";
}

static size_t
dot_index(const struct dot *dot, CUgraphNode node)
{
    size_t i = 0;

    while (i < dot->n && dot->node[i] != node)
        i++;
    return i;
}

/* Of the kernel that @node runs, or NULL: no kernel, or one that was unloaded. */
static const char *
dot_kernel(const struct dot *dot, size_t node)
{
    CUDA_KERNEL_NODE_PARAMS p = {0};
    const char *name = NULL;
    CUresult r;

    if (dot->type[node] != CU_GRAPH_NODE_TYPE_KERNEL ||
        cuGraphKernelNodeGetParams_v2(dot->node[node], &p) != CUDA_SUCCESS)
        return NULL;
    r = p.func ? cuFuncGetName(&name, p.func) : cuKernelGetName(&name, p.kern);
    return r == CUDA_SUCCESS ? name : NULL;
}

static CUresult
dot_write(const struct dot *dot, const char *path)
{
    FILE *f = fopen(path, "we");

    if (!f)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(f, "digraph graph_1 {\n");
    for (size_t i = 0; i < dot->n; i++) {
        const char *kernel = dot_kernel(dot, i);

        fprintf(f, "  n%zu [label=\"%zu\\n%s%s%s\"];\n", i, i, dot_type(dot->type[i]),
                kernel ? "\\n" : "", kernel ? kernel : "");
    }
    for (size_t i = 0; i < dot->n_edges; i++)
        fprintf(f, "  n%zu -> n%zu;\n", dot_index(dot, dot->from[i]),
                dot_index(dot, dot->to[i]));
    fprintf(f, "}\n");
    return fclose(f) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult
stub_impl_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    CLEANUP(dot_fini) struct dot dot = {0};
    CUresult r = dot_query_nodes(&dot, hGraph);

    if (r == CUDA_SUCCESS && !path)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = dot_query_edges(&dot, hGraph);
    return r == CUDA_SUCCESS ? dot_write(&dot, path) : r;
}
