/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a network as launches see it: many, each with parameters of its own.
 *
 * Their PTX is written here, because what matters is how many they are and how their
 * parameters differ.  Kernel k takes 2 + k % 5 pointers and one or two numbers, and its
 * first thread adds one to the k-th counter, so that a driver that executes them shows
 * how often each ran.
 */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include "bench.h"

#define NET_KERNELS 64u
#define NET_PARAMS_MAX 9u
#define NET_SHAPES 15u /* five grids by three blocks */

struct net {
    CUmodule module;
    CUfunction kernels[NET_KERNELS];
    CUdeviceptr counters, data;
    unsigned next;
};

/* In the context that is current. */
void net_open(struct net *net);
void net_close(struct net *net);

/* The next kernel with the next shape; @ex: by cuLaunchKernelEx. */
void net_launch(struct net *net, CUstream stream, int ex);

/* The arguments of kernel @k; @pointers and @numbers are theirs. */
struct net_args {
    CUdeviceptr pointers[7];
    unsigned numbers[2];
    void *params[NET_PARAMS_MAX];
};
void net_args_of(struct net *net, unsigned k, struct net_args *args);
void net_shape(unsigned number, unsigned *ret_grid, unsigned *ret_block);

/* How often kernel @k ran, where the driver executes kernels. */
unsigned net_count(const struct net *net, unsigned k);

#endif
