/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The _ptsz variants that have the stream inside of a structure.  Those that have it as
 * an argument come from the description of the interface (driver_streams.c).
 */
#include "sg_core.h"

CUresult cuGraphInstantiateWithParams(CUgraphExec *, CUgraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *);
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **);

/* Here the stream is a field. */
SG_CALL(cuGraphInstantiateWithParams_ptsz, CUgraphExec *phGraphExec, CUgraph hGraph,
        CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    return cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}

SG_CALL(cuLaunchKernelEx_ptsz, const CUlaunchConfig *config, CUfunction f,
        void **kernelParams, void **extra)
{
    CUlaunchConfig c;

    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    c = *config;
    c.hStream = SG_PTSZ(c.hStream);
    return cuLaunchKernelEx(&c, f, kernelParams, extra);
}
