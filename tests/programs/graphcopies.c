/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that copy from and to memory of the program: what they read and write is what
 * is there when they run.
 */
#include "parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define N 20000u

static CUcontext ctx;
static CUdeviceptr card;
static CUstream stream;
static uint32_t from[N], to[N], other[N];

static CUDA_MEMCPY3D
linear(void *dst, CUdeviceptr dst_card, const void *src, CUdeviceptr src_card)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = N * 4, .Height = 1, .Depth = 1};

    c.srcMemoryType = src ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcHost = src;
    c.srcDevice = src_card;
    c.dstMemoryType = dst ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.dstHost = dst;
    c.dstDevice = dst_card;
    return c;
}

static void
fill(uint32_t *p, uint32_t seed)
{
    for (uint32_t i = 0; i < N; i++)
        p[i] = i * 2654435761u + seed;
}

static int
run(CUgraphExec exec)
{
    memset(to, 0, sizeof(to));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    return 0;
}

static int
nodes_read_what_is_there_at_launch(void)
{
    CUDA_MEMCPY3D up = linear(NULL, card, from, 0), down = linear(to, 0, NULL, card),
                  told;
    CUDA_MEMCPY3D elsewhere = linear(other, 0, NULL, card);
    CUgraphNodeType type;
    CUgraphNode n[2];
    CUgraphExec exec;
    CUgraph g;

    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddMemcpyNode(&n[0], g, NULL, 0, &up, ctx));
    TRY(cuGraphAddMemcpyNode(&n[1], g, n, 1, &down, ctx));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (uint32_t seed = 1; seed < 4; seed++) {
        fill(from, seed);
        TRY(run(exec));
        SAME(memcmp(from, to, sizeof(to)), 0);
    }
    TRY(cuGraphNodeGetType(n[0], &type));
    SAME(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    TRY(cuGraphMemcpyNodeGetParams(n[1], &told));
    SAME((uintptr_t)told.dstHost, (uintptr_t)to);
    SAME(told.dstMemoryType, CU_MEMORYTYPE_HOST);
    TRY(cuGraphExecMemcpyNodeSetParams(exec, n[1], &elsewhere, ctx));
    fill(from, 9);
    TRY(run(exec));
    SAME(to[N - 1], 0);
    SAME(memcmp(from, other, sizeof(other)), 0);
    TRY(cuGraphMemcpyNodeSetParams(n[1], &elsewhere));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    TRY(cuGraphDestroy(g));
    memset(other, 0, sizeof(other));
    TRY(run(exec));
    SAME(memcmp(from, other, sizeof(other)), 0);
    TRY(cuGraphExecDestroy(exec));
    return 0;
}

static int
captured_copies_are_nodes(void)
{
    uint32_t *pinned;
    CUgraphExec exec;
    CUgraph g;
    size_t n = 0;

    TRY(cuMemHostAlloc((void **)&pinned, N * 4, 0));
    memset(pinned, 0, N * 4);
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemcpyHtoDAsync_v2(card, from, N * 4, stream));
    TRY(cuMemcpyDtoHAsync_v2(to, card, N * 4, stream));
    TRY(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, card, N * 4, stream));
    TRY(cuStreamEndCapture(stream, &g));
    TRY(cuGraphGetNodes(g, NULL, &n));
    SAME(n, 3);
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (uint32_t seed = 11; seed < 13; seed++) {
        fill(from, seed);
        TRY(run(exec));
        SAME(memcmp(from, to, sizeof(to)), 0);
        SAME(memcmp(from, pinned, sizeof(to)), 0);
    }
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    TRY(cuMemFreeHost(pinned));
    return 0;
}

/* Rows of 40 words out of 100, into rows of 60. */
static int
rectangles(void)
{
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 400,
                        .srcXInBytes = 40,
                        .srcY = 3,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstPitch = 160,
                        .WidthInBytes = 160,
                        .Height = 50};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcPitch = 160,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = to,
                          .dstPitch = 240,
                          .WidthInBytes = 160,
                          .Height = 50};
    CUgraphExec exec;
    CUgraph g;

    up.dstDevice = down.srcDevice = card;
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemcpy2DAsync_v2(&up, stream));
    TRY(cuMemcpy2DAsync_v2(&down, stream));
    TRY(cuStreamEndCapture(stream, &g));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    fill(from, 77);
    TRY(run(exec));
    for (uint32_t y = 0; y < 50; y++)
        for (uint32_t x = 0; x < 60; x++)
            SAME(to[y * 60 + x], x < 40 ? from[(y + 3) * 100 + 10 + x] : 0);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

/* What is kept for a graph goes with it. */
static int
many_graphs_one_after_the_other(void)
{
    CUgraphExec exec;
    CUgraph g;

    for (uint32_t i = 0; i < 200; i++) {
        TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        TRY(cuMemcpyHtoDAsync_v2(card, from, 64, stream));
        TRY(cuMemcpyDtoHAsync_v2(to, card, 64, stream));
        TRY(cuStreamEndCapture(stream, &g));
        TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
        TRY(cuGraphDestroy(g));
        from[0] = i;
        TRY(run(exec));
        SAME(to[0], i);
        TRY(cuGraphExecDestroy(exec));
    }
    return 0;
}

static int
start(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuMemAlloc_v2(&card, N * 4));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

/* ---- memory that is freed while a graph of another context copies to it ---- */

static atomic_int begun, go_on, freed;

static void
hold(void *unused)
{
    (void)unused;
    atomic_store(&begun, 1);
    while (!atomic_load(&go_on))
        usleep(1000);
}

static void *
free_in_first_context(void *p)
{
    if (cuCtxSetCurrent(ctx) != CUDA_SUCCESS || cuMemFreeHost(p) != CUDA_SUCCESS)
        return p;
    atomic_store(&freed, 1);
    return NULL;
}

static int
memory_is_freed_behind_graphs_of_other_contexts(void)
{
    CUDA_HOST_NODE_PARAMS wait = {.fn = hold};
    CUcontext second;
    CUDA_MEMCPY3D down;
    CUgraphNode n[2];
    CUgraphExec exec;
    CUdeviceptr there;
    pthread_t freer;
    CUstream s;
    CUgraph g;
    void *p, *failed;

    TRY(cuMemAllocHost_v2(&p, N * 4));
    TRY(cuCtxCreate_v2(&second, 0, 0));
    TRY(cuMemAlloc_v2(&there, N * 4));
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    down = linear(p, 0, NULL, there);
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddHostNode(&n[0], g, NULL, 0, &wait));
    TRY(cuGraphAddMemcpyNode(&n[1], g, n, 1, &down, second));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    TRY(cuGraphLaunch(exec, s));
    while (!atomic_load(&begun))
        usleep(1000);
    SAME(pthread_create(&freer, NULL, free_in_first_context, p), 0);
    usleep(100000);
    SAME(atomic_load(&freed), 0);
    atomic_store(&go_on, 1);
    SAME(pthread_join(freer, &failed), 0);
    SAME((uintptr_t)failed, 0);
    TRY(cuStreamSynchronize(s));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    TRY(cuCtxDestroy_v2(second));
    TRY(cuCtxSetCurrent(ctx));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"nodes read what is there at launch", nodes_read_what_is_there_at_launch},
        {"captured copies are nodes", captured_copies_are_nodes},
        {"rectangles", rectangles},
        {"many graphs one after the other", many_graphs_one_after_the_other},
        {"memory is freed behind graphs of other contexts",
         memory_is_freed_behind_graphs_of_other_contexts},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
