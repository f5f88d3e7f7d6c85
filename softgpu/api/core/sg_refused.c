/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a software card has nothing behind, with the answer that a card without
 * the feature gives; the attributes that promise the features are 0.
 *
 * They are exported because programs are linked against every name a driver has.  No
 * argument is looked at, so none is declared.
 */
#include "sg_core.h"

#include "gp_log.h"

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
#define STRANGER(name, why) REFUSED(name, why, CUDA_ERROR_INVALID_HANDLE)

/* Nothing but a graphics interface makes these objects. */
#define EXTERNAL "external memory and semaphores come from interfaces that are not here"
ABSENT(cuImportExternalMemory, EXTERNAL)
ABSENT(cuImportExternalSemaphore, EXTERNAL)
STRANGER(cuDestroyExternalMemory, EXTERNAL)
STRANGER(cuDestroyExternalSemaphore, EXTERNAL)
STRANGER(cuExternalMemoryGetMappedBuffer, EXTERNAL)
STRANGER(cuExternalMemoryGetMappedMipmappedArray, EXTERNAL)
STRANGER(cuSignalExternalSemaphoresAsync, EXTERNAL)
STRANGER(cuSignalExternalSemaphoresAsync_ptsz, EXTERNAL)
STRANGER(cuWaitExternalSemaphoresAsync, EXTERNAL)
STRANGER(cuWaitExternalSemaphoresAsync_ptsz, EXTERNAL)
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
STRANGER(cuGraphicsMapResources, GRAPHICS)
STRANGER(cuGraphicsMapResources_ptsz, GRAPHICS)
STRANGER(cuGraphicsUnmapResources, GRAPHICS)
STRANGER(cuGraphicsUnmapResources_ptsz, GRAPHICS)
STRANGER(cuGraphicsUnregisterResource, GRAPHICS)
STRANGER(cuGraphicsResourceGetMappedMipmappedArray, GRAPHICS)
STRANGER(cuGraphicsResourceGetMappedPointer, GRAPHICS)
STRANGER(cuGraphicsResourceGetMappedPointer_v2, GRAPHICS)
STRANGER(cuGraphicsResourceSetMapFlags, GRAPHICS)
STRANGER(cuGraphicsResourceSetMapFlags_v2, GRAPHICS)
STRANGER(cuGraphicsSubResourceGetMappedArray, GRAPHICS)

#define CHECKPOINT "processes on software cards cannot be frozen"
ABSENT(cuCheckpointProcessCheckpoint, CHECKPOINT)
ABSENT(cuCheckpointProcessGetRestoreThreadId, CHECKPOINT)
ABSENT(cuCheckpointProcessGetState, CHECKPOINT)
ABSENT(cuCheckpointProcessLock, CHECKPOINT)
ABSENT(cuCheckpointProcessRestore, CHECKPOINT)
ABSENT(cuCheckpointProcessUnlock, CHECKPOINT)

#define COREDUMP "a software card writes no core dumps"
ABSENT(cuCoredumpGetAttribute, COREDUMP)
ABSENT(cuCoredumpGetAttributeGlobal, COREDUMP)
ABSENT(cuCoredumpSetAttribute, COREDUMP)
ABSENT(cuCoredumpSetAttributeGlobal, COREDUMP)

#define MULTICAST "no card reaches another's memory through a switch"
ABSENT(cuMulticastAddDevice, MULTICAST)
ABSENT(cuMulticastBindAddr, MULTICAST)
ABSENT(cuMulticastBindMem, MULTICAST)
ABSENT(cuMulticastCreate, MULTICAST)
ABSENT(cuMulticastGetGranularity, MULTICAST)
ABSENT(cuMulticastUnbind, MULTICAST)

ABSENT(cuMemMapArrayAsync, "there are no sparse arrays")
ABSENT(cuMemMapArrayAsync_ptsz, "there are no sparse arrays")
ABSENT(cuMemBatchDecompressAsync, "there is no decompression engine")
ABSENT(cuMemBatchDecompressAsync_ptsz, "there is no decompression engine")
ABSENT(cuFlushGPUDirectRDMAWrites, "no network card writes into software cards")
ABSENT(cuLaunchCooperativeKernelMultiDevice, "cards do not wait for each other's grids")
ABSENT(cuDeviceGetLuid, "only another operating system has these")
ABSENT(cuProfilerInitialize, "drivers have none of this since 12.0")
