/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The _ptsz variants that only pass on: the same call with stream 0 meaning the
 * calling thread's default stream.  Copies and fills have theirs beside them.
 */
#include "sg_core.h"

#define S(stream) SG_PTSZ(stream)

/* The name, its parameters, and the arguments with the stream translated. */
#define FORWARD(name, params, args)                                                    \
    CUresult name params;                                                              \
    CUresult name##_ptsz params;                                                       \
    __attribute__((visibility("default"))) CUresult name##_ptsz params                 \
    {                                                                                  \
        return name args;                                                              \
    }

FORWARD(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream s),
        (dptr, bytesize, S(s)))
FORWARD(cuMemAllocFromPoolAsync,
        (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream s),
        (dptr, bytesize, pool, S(s)))
FORWARD(cuMemFreeAsync, (CUdeviceptr dptr, CUstream s), (dptr, S(s)))
FORWARD(cuLaunchKernel,
        (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
         unsigned bz, unsigned shared, CUstream s, void **params, void **extra),
        (f, gx, gy, gz, bx, by, bz, shared, S(s), params, extra))
FORWARD(cuLaunchCooperativeKernel,
        (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
         unsigned bz, unsigned shared, CUstream s, void **params),
        (f, gx, gy, gz, bx, by, bz, shared, S(s), params))
FORWARD(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *arg), (S(s), fn, arg))
FORWARD(cuEventRecord, (CUevent event, CUstream s), (event, S(s)))
FORWARD(cuEventRecordWithFlags, (CUevent event, CUstream s, unsigned flags),
        (event, S(s), flags))
FORWARD(cuStreamWaitValue32_v2,
        (CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamWaitValue64_v2,
        (CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamWriteValue32_v2,
        (CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamWriteValue64_v2,
        (CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamBatchMemOp_v2,
        (CUstream s, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags),
        (S(s), n, ops, flags))
FORWARD(cuStreamWaitValue32,
        (CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamWaitValue64,
        (CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamWriteValue32,
        (CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamWriteValue64,
        (CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags),
        (S(s), addr, value, flags))
FORWARD(cuStreamBatchMemOp,
        (CUstream s, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags),
        (S(s), n, ops, flags))
FORWARD(cuStreamGetPriority, (CUstream s, int *priority), (S(s), priority))
FORWARD(cuStreamGetFlags, (CUstream s, unsigned *flags), (S(s), flags))
FORWARD(cuStreamGetId, (CUstream s, unsigned long long *id), (S(s), id))
FORWARD(cuStreamGetDevice, (CUstream s, CUdevice *dev), (S(s), dev))
FORWARD(cuStreamGetCtx, (CUstream s, CUcontext *ctx), (S(s), ctx))
FORWARD(cuStreamGetCtx_v2, (CUstream s, CUcontext *ctx, CUgreenCtx *green),
        (S(s), ctx, green))
FORWARD(cuStreamWaitEvent, (CUstream s, CUevent event, unsigned flags),
        (S(s), event, flags))
FORWARD(cuStreamAddCallback,
        (CUstream s, CUstreamCallback callback, void *arg, unsigned flags),
        (S(s), callback, arg, flags))
FORWARD(cuStreamSynchronize, (CUstream s), (S(s)))
FORWARD(cuStreamQuery, (CUstream s), (S(s)))
FORWARD(cuStreamAttachMemAsync,
        (CUstream s, CUdeviceptr dptr, size_t length, unsigned flags),
        (S(s), dptr, length, flags))
FORWARD(cuStreamCopyAttributes, (CUstream dst, CUstream src), (S(dst), S(src)))
FORWARD(cuStreamGetAttribute,
        (CUstream s, CUstreamAttrID attr, CUstreamAttrValue *value),
        (S(s), attr, value))
FORWARD(cuStreamSetAttribute,
        (CUstream s, CUstreamAttrID attr, const CUstreamAttrValue *value),
        (S(s), attr, value))
FORWARD(cuStreamBeginCapture, (CUstream s), (S(s)))
FORWARD(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode mode), (S(s), mode))
FORWARD(cuStreamBeginCaptureToGraph,
        (CUstream s, CUgraph graph, const CUgraphNode *deps,
         const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode),
        (S(s), graph, deps, data, n, mode))
FORWARD(cuStreamEndCapture, (CUstream s, CUgraph *graph), (S(s), graph))
FORWARD(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *status),
        (S(s), status))
FORWARD(cuStreamGetCaptureInfo,
        (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id), (S(s), status, id))
FORWARD(cuStreamGetCaptureInfo_v2,
        (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
         const CUgraphNode **deps, size_t *n),
        (S(s), status, id, graph, deps, n))
FORWARD(cuStreamGetCaptureInfo_v3,
        (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
         const CUgraphNode **deps, const CUgraphEdgeData **data, size_t *n),
        (S(s), status, id, graph, deps, data, n))
FORWARD(cuStreamUpdateCaptureDependencies,
        (CUstream s, CUgraphNode *deps, size_t n, unsigned flags),
        (S(s), deps, n, flags))
FORWARD(cuStreamUpdateCaptureDependencies_v2,
        (CUstream s, CUgraphNode *deps, const CUgraphEdgeData *data, size_t n,
         unsigned flags),
        (S(s), deps, data, n, flags))
FORWARD(cuGraphLaunch, (CUgraphExec exec, CUstream s), (exec, S(s)))
FORWARD(cuGraphUpload, (CUgraphExec exec, CUstream s), (exec, S(s)))
FORWARD(cuMemPrefetchAsync_v2,
        (CUdeviceptr dptr, size_t count, CUmemLocation location, unsigned flags,
         CUstream s),
        (dptr, count, location, flags, S(s)))

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
    c.hStream = S(c.hStream);
    return cuLaunchKernelEx(&c, f, kernelParams, extra);
}
