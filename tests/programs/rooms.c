/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and texts for which the program says how much it has room for: for more than
 * there is, for less, for nothing, and no place to say it.
 */
#include "parts.h"
#include "strict.h"

#define NODES 40
#define ROOM 100000 /* more than anything that is asked for here has */

static CUcontext ctx;

/* A chain of empty nodes with one edge between each two. */
static int
chain(CUgraph *ret)
{
    CUgraphNode node = NULL;

    TRY(cuGraphCreate(ret, 0));
    for (int i = 0; i < NODES; i++) {
        CUgraphNode before = node;

        TRY(cuGraphAddEmptyNode(&node, *ret, before ? &before : NULL, i > 0));
    }
    return 0;
}

static int
nodes_and_edges(void)
{
    CUgraphNode *a = calloc(ROOM, sizeof(CUgraphNode));
    CUgraphNode *b = calloc(ROOM, sizeof(CUgraphNode));
    CUgraphEdgeData *data = calloc(ROOM, sizeof(CUgraphEdgeData));
    size_t n = ROOM;
    CUgraph graph;

    if (!a || !b || !data || chain(&graph))
        return 1;
    TRY(cuGraphGetNodes(graph, a, &n));
    SAME(n, NODES);
    SAME(a[NODES - 1] != NULL, 1);
    SAME(a[NODES] == NULL, 1);
    n = ROOM;
    TRY(cuGraphGetRootNodes(graph, a, &n));
    SAME(n, 1);
    n = ROOM;
    TRY(cuGraphGetEdges_v2(graph, a, b, data, &n));
    SAME(n, NODES - 1);
    n = ROOM;
    TRY(cuGraphGetEdges(graph, a, b, &n));
    SAME(n, NODES - 1);
    SAME(a[1] == b[0], 1);
    n = ROOM;
    TRY(cuGraphNodeGetDependencies(b[0], a, &n));
    SAME(n, 1);
    n = ROOM;
    TRY(cuGraphNodeGetDependentNodes(b[0], a, &n));
    SAME(n, 1);
    n = 3;
    TRY(cuGraphGetNodes(graph, a, &n));
    SAME(n, 3);
    n = 0;
    TRY(cuGraphGetNodes(graph, a, &n));
    SAME(n, 0);
    TRY(cuGraphGetNodes(graph, NULL, &n));
    SAME(n, NODES);
    CODE(cuGraphGetNodes(graph, a, NULL), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphGetEdges(graph, a, b, NULL), CUDA_ERROR_INVALID_VALUE);
    CODE(cuGraphNodeGetDependencies(b[0], a, NULL), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphDestroy(graph));
    free(data);
    free(b);
    free(a);
    return 0;
}

static int
groups_of_multiprocessors(void)
{
    CUdevResource all, *parts = calloc(ROOM, sizeof(CUdevResource));
    unsigned n = ROOM, most;

    if (!parts)
        return 1;
    TRY(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRY(cuDevSmResourceSplitByCount(NULL, &most, &all, NULL, 0, 1));
    TRY(cuDevSmResourceSplitByCount(parts, &n, &all, NULL, 0, 1));
    SAME(n, most);
    CODE(cuDevSmResourceSplitByCount(parts, NULL, &all, NULL, 0, 1),
         CUDA_ERROR_INVALID_VALUE);
    n = 0;
    CODE(cuDevSmResourceSplitByCount(parts, &n, &all, NULL, 0, 1),
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    free(parts);
    return 0;
}

#define LINES 120
#define LINE "CUDA_ERROR_UNSUPPORTED_LIMIT"

static int
count_lines(const char *text)
{
    int n = 0;

    while ((text = strstr(text, LINE))) {
        text += strlen(LINE);
        n++;
    }
    return n;
}

/* Longer than 8 KiB. */
static int
the_log(void)
{
    char *text = calloc(1, ROOM), path[] = "/tmp/roomsXXXXXX";
    CUlogIterator from, again;
    size_t size = ROOM;
    unsigned value;
    int fd = mkstemp(path);
    ssize_t n;

    if (!text || fd < 0)
        return 1;
    TRY(cuLogsCurrent(&from, 0));
    again = from;
    for (int i = 0; i < LINES; i++) /* the driver says so, and nobody before it */
        CODE(cuCtxGetLimit(&size, (CUlimit)99), CUDA_ERROR_UNSUPPORTED_LIMIT);
    value = from;
    TRY(cuLogsDumpToMemory(&from, text, &size, 0));
    SAME(size > 8192, 1);
    SAME(size, strlen(text));
    SAME(count_lines(text), LINES);
    SAME(from - value, LINES);
    TRY(cuLogsDumpToFile(&again, path, 0));
    SAME(again == from, 1);
    memset(text, 0, ROOM);
    n = read(fd, text, ROOM - 1);
    SAME(n, size);
    SAME(count_lines(text), LINES);
    from = value;
    size = 1000; /* for some of them: the rest comes next */
    TRY(cuLogsDumpToMemory(&from, text, &size, 0));
    SAME(size <= 1000 && from > value && from < again, 1);
    size = ROOM;
    TRY(cuLogsDumpToMemory(&from, text, &size, 0));
    SAME(from == again, 1);
    CODE(cuLogsDumpToMemory(&from, text, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cuLogsDumpToMemory(&from, NULL, &size, 0), CUDA_ERROR_INVALID_VALUE);
    close(fd);
    unlink(path);
    free(text);
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"nodes and edges", nodes_and_edges},
        {"groups of multiprocessors", groups_of_multiprocessors},
        {"the log", the_log}, /* a driver's own says other words */
    };
    const size_t n = sizeof(parts) / sizeof(parts[0]);

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, strict_asked(argc, argv) ? n : n - 1);
}
