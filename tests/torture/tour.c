/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short way through everything that a session has: context, module, memory of several
 * kinds, streams, events, host functions, a graph.  Ends with 0 and the right result,
 * or with 2 at the first call that fails; 1 would be a wrong result.
 */
#include "prog.h"

#include <string.h>

#define N 65536u
#define BLOCK 256u

PROG_EMBED(vecadd_ptx, "vecadd.ptx");

struct tour {
    CUfunction kernel;
    CUstream stream;
    CUdeviceptr a, b, sum;
    float *in;  /* N, page-locked */
    float *out; /* N, page-locked */
    int called; /* by the host functions */
};

static void
count_call(void *arg)
{
    (*(int *)arg)++;
}

static void
tour_begin(struct tour *tour, const struct prog *prog)
{
    size_t bytes = N * sizeof(float);

    tour->kernel = prog_kernel(prog, "vecadd");
    CU(cuStreamCreate(&tour->stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&tour->a, bytes));
    CU(cuMemAlloc(&tour->b, bytes));
    CU(cuMemAllocAsync(&tour->sum, bytes, tour->stream));
    CU(cuMemHostAlloc((void **)&tour->in, bytes, 0));
    CU(cuMemHostAlloc((void **)&tour->out, bytes, 0));
    for (unsigned i = 0; i < N; i++)
        tour->in[i] = (float)i;
    memset(tour->out, 0, bytes);
}

/* sum = a + b, and the copy of it to the host, as work of the stream. */
static void
tour_enqueue(struct tour *tour)
{
    unsigned n = N;
    void *params[] = {&tour->a, &tour->b, &tour->sum, &n};

    CU(cuLaunchKernel(tour->kernel, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, tour->stream,
                      params, NULL));
    CU(cuMemcpyDtoHAsync(tour->out, tour->sum, N * sizeof(float), tour->stream));
    CU(cuLaunchHostFunc(tour->stream, count_call, &tour->called));
}

static size_t
tour_wrong(const struct tour *tour, const float *small)
{
    size_t wrong = 0;

    for (unsigned i = 0; i < N; i++)
        wrong += tour->out[i] != tour->in[i] + (i < 16 ? small[i] : 0);
    return wrong;
}

static size_t
tour_streams(struct tour *tour, const float *small)
{
    CUevent done;
    float *pageable = util_alloc(N, sizeof(float));
    size_t wrong;

    CU(cuMemcpyHtoDAsync(tour->a, tour->in, N * sizeof(float), tour->stream));
    CU(cuMemcpyHtoD(tour->b, pageable, N * sizeof(float)));
    CU(cuMemcpyHtoD(tour->b, small, 16 * sizeof(float)));
    free(pageable);
    CU(cuEventCreate(&done, 0));
    tour_enqueue(tour);
    CU(cuEventRecord(done, tour->stream));
    CU(cuEventSynchronize(done));
    CU(cuEventDestroy(done));
    wrong = tour_wrong(tour, small);
    return wrong + (tour->called != 1);
}

static size_t
tour_graph(struct tour *tour, const float *small)
{
    CUgraph graph;
    CUgraphExec exec;
    size_t wrong;

    memset(tour->out, 0, N * sizeof(float));
    tour->called = 0;
    CU(cuStreamBeginCapture_v2(tour->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    tour_enqueue(tour);
    CU(cuStreamEndCapture(tour->stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++)
        CU(cuGraphLaunch(exec, tour->stream));
    CU(cuStreamSynchronize(tour->stream));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    wrong = tour_wrong(tour, small);
    return wrong + (tour->called != 2);
}

static void
tour_end(struct tour *tour)
{
    CU(cuMemFreeAsync(tour->sum, tour->stream));
    CU(cuStreamSynchronize(tour->stream));
    CU(cuStreamDestroy(tour->stream));
    CU(cuMemFree(tour->a));
    CU(cuMemFree(tour->b));
    CU(cuMemFreeHost(tour->in));
    CU(cuMemFreeHost(tour->out));
}

int
main(int argc, char **argv)
{
    struct prog prog;
    struct tour tour = {0};
    float small[16];
    size_t wrong;

    for (unsigned i = 0; i < 16; i++)
        small[i] = (float)(100 * i);
    prog_begin(&prog, argc, argv, "tour", vecadd_ptx);
    tour_begin(&tour, &prog);
    wrong = tour_streams(&tour, small);
    wrong += tour_graph(&tour, small);
    tour_end(&tour);
    prog_end(&prog);
    return util_report("tour", wrong, "%u elements, twice", N);
}
