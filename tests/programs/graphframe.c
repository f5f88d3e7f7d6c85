/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches a graph of a hundred kernels as often as told, and nothing else between two
 * waits: whoever runs it counts what travels.
 *
 *     graphframe LAUNCHES
 */
#include "prog.h"

#define NODES 100

PROG_EMBED(graphframe_ptx, "spin.ptx");

int
main(int argc, char **argv)
{
    int launches = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    CUstream stream;
    CUgraphExec exec;
    CUfunction bump;
    CUdeviceptr data;
    CUgraph graph;
    struct prog prog;
    uint32_t value = 0;
    unsigned one = 1;
    void *params[] = {&data, &one};

    prog_begin(&prog, 1, argv, "graphframe", graphframe_ptx);
    bump = prog_kernel(&prog, "bump");
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&data, 128));
    CU(cuMemsetD32(data, 0, 32));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < NODES; i++)
        CU(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < launches; i++)
        CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(&value, data, sizeof(value)));
    CU(cuMemFree(data));
    prog_end(&prog);
    return util_report("graphframe", value != (uint32_t)(launches * NODES),
                       "%d launches", launches);
}
