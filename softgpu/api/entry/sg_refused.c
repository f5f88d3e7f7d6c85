/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a software card has nothing behind, with the answer that a card without
 * the feature gives; the attributes that promise the features are 0.
 *
 * They are exported because programs are linked against every name a driver has.  Most
 * look at no argument, so they declare none.
 */
#include "sg_core.h"
#include "sg_ctx.h"

#include "gp_log.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_stream.h"

static CUresult
refuse(const char *name, const char *why, CUresult answer)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    gp_log_info("softgpu", "%s is refused: %s", name, why);
    return sg_leave(answer);
}

#define REFUSED(name, why, answer)                                                     \
    SG_CALL(name, void)                                                                \
    {                                                                                  \
        return refuse(#name, why, answer);                                             \
    }

#define ABSENT(name, why) REFUSED(name, why, CUDA_ERROR_NOT_SUPPORTED)
#define BAD_KIND(name, why) REFUSED(name, why, CUDA_ERROR_INVALID_HANDLE)

/* Nothing but a graphics interface makes these objects. */
#define EXTERNAL "external memory and semaphores come from interfaces that are not here"
ABSENT(cuImportExternalMemory, EXTERNAL)
ABSENT(cuImportExternalSemaphore, EXTERNAL)
BAD_KIND(cuDestroyExternalMemory, EXTERNAL)
BAD_KIND(cuDestroyExternalSemaphore, EXTERNAL)
BAD_KIND(cuExternalMemoryGetMappedBuffer, EXTERNAL)
BAD_KIND(cuExternalMemoryGetMappedMipmappedArray, EXTERNAL)
BAD_KIND(cuSignalExternalSemaphoresAsync, EXTERNAL)
BAD_KIND(cuSignalExternalSemaphoresAsync_ptsz, EXTERNAL)
BAD_KIND(cuWaitExternalSemaphoresAsync, EXTERNAL)
BAD_KIND(cuWaitExternalSemaphoresAsync_ptsz, EXTERNAL)
ABSENT(cuGraphAddExternalSemaphoresSignalNode, EXTERNAL)
ABSENT(cuGraphAddExternalSemaphoresWaitNode, EXTERNAL)
ABSENT(cuGraphExecExternalSemaphoresSignalNodeSetParams, EXTERNAL)
ABSENT(cuGraphExecExternalSemaphoresWaitNodeSetParams, EXTERNAL)
ABSENT(cuGraphExternalSemaphoresSignalNodeGetParams, EXTERNAL)
ABSENT(cuGraphExternalSemaphoresSignalNodeSetParams, EXTERNAL)
ABSENT(cuGraphExternalSemaphoresWaitNodeGetParams, EXTERNAL)
ABSENT(cuGraphExternalSemaphoresWaitNodeSetParams, EXTERNAL)
ABSENT(cuDeviceGetNvSciSyncAttributes, EXTERNAL)

#define GRAPHICS "there is no graphics interface to share with"
BAD_KIND(cuGraphicsMapResources, GRAPHICS)
BAD_KIND(cuGraphicsMapResources_ptsz, GRAPHICS)
BAD_KIND(cuGraphicsUnmapResources, GRAPHICS)
BAD_KIND(cuGraphicsUnmapResources_ptsz, GRAPHICS)
BAD_KIND(cuGraphicsUnregisterResource, GRAPHICS)
BAD_KIND(cuGraphicsResourceGetMappedMipmappedArray, GRAPHICS)
BAD_KIND(cuGraphicsResourceGetMappedPointer, GRAPHICS)
BAD_KIND(cuGraphicsResourceGetMappedPointer_v2, GRAPHICS)
BAD_KIND(cuGraphicsResourceSetMapFlags, GRAPHICS)
BAD_KIND(cuGraphicsResourceSetMapFlags_v2, GRAPHICS)
BAD_KIND(cuGraphicsSubResourceGetMappedArray, GRAPHICS)

/* cudaGL.h, cudaEGL.h, cudaVDPAU.h. */
ABSENT(cuEGLStreamConsumerAcquireFrame, GRAPHICS)
ABSENT(cuEGLStreamConsumerConnect, GRAPHICS)
ABSENT(cuEGLStreamConsumerConnectWithFlags, GRAPHICS)
ABSENT(cuEGLStreamConsumerDisconnect, GRAPHICS)
ABSENT(cuEGLStreamConsumerReleaseFrame, GRAPHICS)
ABSENT(cuEGLStreamProducerConnect, GRAPHICS)
ABSENT(cuEGLStreamProducerDisconnect, GRAPHICS)
ABSENT(cuEGLStreamProducerPresentFrame, GRAPHICS)
ABSENT(cuEGLStreamProducerReturnFrame, GRAPHICS)
ABSENT(cuEventCreateFromEGLSync, GRAPHICS)
ABSENT(cuGLCtxCreate, GRAPHICS)
ABSENT(cuGLCtxCreate_v2, GRAPHICS)
ABSENT(cuGLGetDevices, GRAPHICS)
ABSENT(cuGLGetDevices_v2, GRAPHICS)
ABSENT(cuGLInit, GRAPHICS)
ABSENT(cuGLMapBufferObject, GRAPHICS)
ABSENT(cuGLMapBufferObjectAsync, GRAPHICS)
ABSENT(cuGLMapBufferObjectAsync_v2, GRAPHICS)
ABSENT(cuGLMapBufferObjectAsync_v2_ptsz, GRAPHICS)
ABSENT(cuGLMapBufferObject_v2, GRAPHICS)
ABSENT(cuGLMapBufferObject_v2_ptds, GRAPHICS)
ABSENT(cuGLRegisterBufferObject, GRAPHICS)
ABSENT(cuGLSetBufferObjectMapFlags, GRAPHICS)
ABSENT(cuGLUnmapBufferObject, GRAPHICS)
ABSENT(cuGLUnmapBufferObjectAsync, GRAPHICS)
ABSENT(cuGLUnregisterBufferObject, GRAPHICS)
ABSENT(cuGraphicsEGLRegisterImage, GRAPHICS)
ABSENT(cuGraphicsGLRegisterBuffer, GRAPHICS)
ABSENT(cuGraphicsGLRegisterImage, GRAPHICS)
ABSENT(cuGraphicsResourceGetMappedEglFrame, GRAPHICS)
ABSENT(cuGraphicsVDPAURegisterOutputSurface, GRAPHICS)
ABSENT(cuGraphicsVDPAURegisterVideoSurface, GRAPHICS)
ABSENT(cuVDPAUCtxCreate, GRAPHICS)
ABSENT(cuVDPAUCtxCreate_v2, GRAPHICS)
ABSENT(cuVDPAUGetDevice, GRAPHICS)

#define CHECKPOINT "processes on software cards cannot be frozen"
ABSENT(cuCheckpointProcessCheckpoint, CHECKPOINT)
ABSENT(cuCheckpointProcessGetRestoreThreadId, CHECKPOINT)
ABSENT(cuCheckpointProcessGetState, CHECKPOINT)
ABSENT(cuCheckpointProcessLock, CHECKPOINT)
ABSENT(cuCheckpointProcessRestore, CHECKPOINT)
ABSENT(cuCheckpointProcessUnlock, CHECKPOINT)

#define COREDUMP "a software card writes no core dumps"
ABSENT(cuCoredumpSetAttribute, COREDUMP)
ABSENT(cuCoredumpSetAttributeGlobal, COREDUMP)

ABSENT(cuFlushGPUDirectRDMAWrites, "no network card writes into software cards")
ABSENT(cuProfilerInitialize, "drivers have none of this since 12.0")

/* ---- calls whose arguments a card looks at before it says that it has not got the
 * feature: handles, devices, pointers, counts, as everywhere ------------------------
 */

static CUresult
enter_phys(CUmemGenericAllocationHandle handle)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_handle_get(SG_KIND_PHYS, handle) ? rc
                                               : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

static CUresult
refuse_inside(const char *name, const char *why)
{
    gp_log_info("softgpu", "%s is refused: %s", name, why);
    return sg_leave(CUDA_ERROR_NOT_SUPPORTED);
}

static CUresult
refuse_pointers(const char *name, const char *why, const void *first,
                const void *second)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!first || !second)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return refuse_inside(name, why);
}

SG_CALL(cuCoredumpGetAttribute, CUcoredumpSettings attrib, void *value, size_t *size)
{
    (void)attrib;
    (void)value;
    return refuse_pointers(__func__, COREDUMP, size, size);
}

SG_CALL(cuCoredumpGetAttributeGlobal, CUcoredumpSettings attrib, void *value,
        size_t *size)
{
    (void)attrib;
    (void)value;
    return refuse_pointers(__func__, COREDUMP, size, size);
}

SG_CALL(cuDeviceGetLuid, char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!luid || !deviceNodeMask)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return refuse_inside(__func__, "only another operating system has these");
}

#define MULTICAST "no card reaches another's memory through a switch"

SG_CALL(cuMulticastCreate, CUmemGenericAllocationHandle *mcHandle,
        const CUmulticastObjectProp *prop)
{
    return refuse_pointers(__func__, MULTICAST, mcHandle, prop);
}

SG_CALL(cuMulticastGetGranularity, size_t *granularity,
        const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option)
{
    (void)option;
    return refuse_pointers(__func__, MULTICAST, granularity, prop);
}

SG_CALL(cuMulticastAddDevice, CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    CUresult rc = enter_phys(mcHandle);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    return refuse_inside(__func__, MULTICAST);
}

SG_CALL(cuMulticastUnbind, CUmemGenericAllocationHandle mcHandle, CUdevice dev,
        size_t mcOffset, size_t size)
{
    CUresult rc = enter_phys(mcHandle);

    (void)mcOffset;
    (void)size;
    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    return refuse_inside(__func__, MULTICAST);
}

SG_CALL(cuMulticastBindAddr, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
        CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    CUresult rc = enter_phys(mcHandle);

    (void)mcOffset;
    (void)memptr;
    (void)size;
    (void)flags;
    return rc == CUDA_SUCCESS ? refuse_inside(__func__, MULTICAST) : rc;
}

SG_CALL(cuMulticastBindMem, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
        CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
        unsigned long long flags)
{
    CUresult rc = enter_phys(mcHandle);

    (void)mcOffset;
    (void)memOffset;
    (void)size;
    (void)flags;
    if (rc == CUDA_SUCCESS && !sg_handle_get(SG_KIND_PHYS, memHandle))
        rc = sg_leave(CUDA_ERROR_INVALID_VALUE);
    return rc == CUDA_SUCCESS ? refuse_inside(__func__, MULTICAST) : rc;
}

static CUresult
refuse_list(const char *name, const char *why, const void *list, size_t count,
            CUstream hStream)
{
    struct sg_stream *stream;
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = sg_stream_get(ctx, hStream, &stream);
    if (rc == CUDA_SUCCESS && count && (!list || count > UINT16_MAX))
        rc = CUDA_ERROR_INVALID_VALUE;
    return rc == CUDA_SUCCESS ? refuse_inside(name, why) : sg_leave(rc);
}

#define SPARSE "there are no sparse arrays"

SG_CALL(cuMemMapArrayAsync, CUarrayMapInfo *mapInfoList, unsigned int count,
        CUstream hStream)
{
    return refuse_list(__func__, SPARSE, mapInfoList, count, hStream);
}

SG_CALL(cuMemMapArrayAsync_ptsz, CUarrayMapInfo *mapInfoList, unsigned int count,
        CUstream hStream)
{
    return refuse_list(__func__, SPARSE, mapInfoList, count, SG_PTSZ(hStream));
}

#define DECOMPRESSION "there is no decompression engine"

SG_CALL(cuMemBatchDecompressAsync, CUmemDecompressParams *paramsArray, size_t count,
        unsigned int flags, size_t *errorIndex, CUstream stream)
{
    (void)flags;
    (void)errorIndex;
    return refuse_list(__func__, DECOMPRESSION, paramsArray, count, stream);
}

SG_CALL(cuMemBatchDecompressAsync_ptsz, CUmemDecompressParams *paramsArray,
        size_t count, unsigned int flags, size_t *errorIndex, CUstream stream)
{
    (void)flags;
    (void)errorIndex;
    return refuse_list(__func__, DECOMPRESSION, paramsArray, count, SG_PTSZ(stream));
}
