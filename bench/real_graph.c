/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of kernels in a chain, launched and updated; see real.h. */
#include "real.h"

static void
node_params(struct real *real, unsigned k, struct net_args *args,
            CUDA_KERNEL_NODE_PARAMS *params)
{
    unsigned grid, block;

    net_args_of(&real->net, k, args);
    net_shape(k % NET_SHAPES, &grid, &block);
    *params = (CUDA_KERNEL_NODE_PARAMS){.func = real->net.kernels[k],
                                        .gridDimX = grid,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = block,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = args->params};
}

void
real_graph_open(struct real *real)
{
    CUDA_KERNEL_NODE_PARAMS params;
    struct net_args args;

    CU(cuGraphCreate(&real->graph, 0));
    for (unsigned i = 0; i < REAL_NODES; i++) {
        node_params(real, i % NET_KERNELS, &args, &params);
        CU(cuGraphAddKernelNode_v2(&real->nodes[i], real->graph,
                                   i ? &real->nodes[i - 1] : NULL, i != 0, &params));
    }
    CU(cuGraphInstantiateWithFlags(&real->exec, real->graph, 0));
}

void
real_graph_close(struct real *real)
{
    CU(cuGraphExecDestroy(real->exec));
    CU(cuGraphDestroy(real->graph));
}

void
real_act_graph(void *data)
{
    struct real *real = data;

    CU(cuGraphLaunch(real->exec, real->streams[0]));
    real->launches += REAL_NODES;
    CU(cuStreamSynchronize(real->streams[0]));
}

/* Four nodes get other arguments, as between two batches. */
void
real_act_graph_update(void *data)
{
    struct real *real = data;
    CUDA_KERNEL_NODE_PARAMS params;
    struct net_args args;

    for (unsigned i = 0; i < 4; i++) {
        unsigned n = (unsigned)(real_random(real) % REAL_NODES);

        node_params(real, n % NET_KERNELS, &args, &params);
        CU(cuGraphExecKernelNodeSetParams_v2(real->exec, real->nodes[n], &params));
    }
    real_act_graph(real);
}
