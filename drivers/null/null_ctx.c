/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, streams, events: nothing is ever pending but host functions. */
#include "null.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The primary context of device d is 0x10000 + d: other handles come later. */
#define PRIMARY ((uintptr_t)0x10000)

static _Atomic int primary_refs[NULL_CARDS_MAX];

/* Initial-exec: one instruction, although the driver is dlopen'ed. */
static _Thread_local CUcontext current __attribute__((tls_model("initial-exec")));

void *
null_handle(void)
{
    static atomic_uintptr_t last = 0x100000;

    return (void *)(atomic_fetch_add_explicit(&last, 16, memory_order_relaxed) + 16);
}

int
null_current_device(void)
{
    uintptr_t c = (uintptr_t)current;

    if (!current)
        return -1;
    return c < PRIMARY + NULL_CARDS_MAX ? (int)(c - PRIMARY) : 0;
}

CUresult
cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    unsigned count;

    null_cards(&count);
    if (dev < 0 || (unsigned)dev >= count)
        return CUDA_ERROR_INVALID_DEVICE;
    *pctx = (CUcontext)(PRIMARY + (uintptr_t)dev);
    atomic_fetch_add(&primary_refs[dev], 1);
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    if (dev >= 0 && dev < NULL_CARDS_MAX &&
        atomic_fetch_sub(&primary_refs[dev], 1) == 1)
        null_host_end((CUcontext)(PRIMARY + (uintptr_t)dev));
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    null_host_end((CUcontext)(PRIMARY + (uintptr_t)dev));
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    (void)dev;
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    (void)dev;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

CUresult
cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    (void)flags;
    (void)dev;
    *pctx = current = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
               CUdevice dev)
{
    (void)ctxCreateParams;
    return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult
cuCtxDestroy_v2(CUcontext ctx)
{
    if (ctx == current)
        current = NULL;
    null_host_end(ctx);
    return CUDA_SUCCESS;
}

CUresult
cuCtxSetCurrent(CUcontext ctx)
{
    current = ctx;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetCurrent(CUcontext *pctx)
{
    *pctx = current;
    return CUDA_SUCCESS;
}

/* NULLDRV_SAYS: words that a kernel would have printed, for tests: on stdout, on
 * stderr, and past the C library.  Read once: looking for it costs more than all that
 * a call through this driver should. */
static const char *words;
__attribute__((constructor)) static void
words_read(void)
{
    words = getenv("NULLDRV_SAYS");
}

static void
say(void)
{
    printf("stdout: %s\n", words);
    fprintf(stderr, "stderr: %s\n", words);
    dprintf(STDOUT_FILENO, "descriptor: %s\n", words);
}

CUresult
cuCtxSynchronize(void)
{
    if (unlikely(words))
        say();
    null_hostfn_wait();
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    (void)ctx;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetFlags(unsigned int *flags)
{
    *flags = 0;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    *pvalue = limit == CU_LIMIT_STACK_SIZE ? 1024 : 1 << 20;
    return CUDA_SUCCESS;
}

CUresult
cuCtxSetLimit(CUlimit limit, size_t value)
{
    (void)limit;
    (void)value;
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    *leastPriority = 0;
    *greatestPriority = -5;
    return CUDA_SUCCESS;
}

/* ---- parts of the card, notices ---- */

CUresult
cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    int n = 0;
    CUresult r =
        cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);

    if (r != CUDA_SUCCESS || type != CU_DEV_RESOURCE_TYPE_SM)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = (CUdevResource){
        .type = type,
        .sm = {.smCount = (unsigned)n,
               .minSmPartitionSize = 2,
               .smCoscheduledAlignment = 2},
    };
    return CUDA_SUCCESS;
}

CUresult
cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    (void)hCtx;
    return cuDeviceGetDevResource(gp_max(null_current_device(), 0), resource, type);
}

/* This driver has nothing to say. */
CUresult
cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
                       CUlogsCallbackHandle *callback_out)
{
    (void)callbackFunc;
    (void)userData;
    *callback_out = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
    (void)callback;
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUresult
cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    (void)Flags;
    *phStream = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    (void)flags;
    (void)priority;
    *phStream = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuStreamDestroy_v2(CUstream hStream)
{
    (void)hStream;
    return CUDA_SUCCESS;
}

CUresult
cuStreamQuery(CUstream hStream)
{
    (void)hStream;
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    return null_hostfn_pending() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult
cuStreamSynchronize(CUstream hStream)
{
    (void)hStream;
    null_hostfn_wait();
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult
cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    (void)hStream;
    (void)hEvent;
    (void)Flags;
    return CUDA_SUCCESS;
}

/* No stream is confined to a part of the card. */
CUresult
cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    (void)hStream;
    *phCtx = NULL;
    return CUDA_SUCCESS;
}

CUresult
cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    (void)hStream;
    *pCtx = current;
    *pGreenCtx = NULL;
    return CUDA_SUCCESS;
}

CUresult
cuStreamGetCtx(CUstream hStream, CUcontext *pCtx)
{
    (void)hStream;
    *pCtx = current;
    return CUDA_SUCCESS;
}

CUresult
cuStreamGetPriority(CUstream hStream, int *priority)
{
    (void)hStream;
    *priority = 0;
    return CUDA_SUCCESS;
}

CUresult
cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    (void)hStream;
    *flags = CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

/* ---- events ---- */

CUresult
cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    (void)Flags;
    *phEvent = null_handle();
    return CUDA_SUCCESS;
}

CUresult
cuEventDestroy_v2(CUevent hEvent)
{
    (void)hEvent;
    return CUDA_SUCCESS;
}

CUresult
cuEventRecord(CUevent hEvent, CUstream hStream)
{
    (void)hEvent;
    (void)hStream;
    return CUDA_SUCCESS;
}

CUresult
cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    (void)flags;
    return cuEventRecord(hEvent, hStream);
}

CUresult
cuEventQuery(CUevent hEvent)
{
    (void)hEvent;
    return null_hostfn_pending() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult
cuEventSynchronize(CUevent hEvent)
{
    (void)hEvent;
    null_hostfn_wait();
    return CUDA_SUCCESS;
}

CUresult
cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

CUresult
cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    (void)hStart;
    (void)hEnd;
    *pMilliseconds = 1; /* programs divide by it, and repeat what is too short */
    return CUDA_SUCCESS;
}
