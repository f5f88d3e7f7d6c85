/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that CUDA calls potentially unsafe during a capture
 * (cuThreadExchangeStreamCaptureMode): where a capture forbids them to a thread they
 * are refused with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid.
 *
 * As an H200 with driver 580.159 answers, call by call (tests/programs/unsafe.c).
 * Copies that wait, loading modules, and making and destroying streams and events are
 * not among them.  Waits for streams are, and ours are calls of their own.
 */
#ifndef WIRE_UNSAFE_H
#define WIRE_UNSAFE_H

#include "wire_api.h"

#include <stdbool.h>
#include <stdint.h>

static inline bool
wire_call_is_unsafe(uint16_t call)
{
    switch (call) {
    case WIRE_CALL_cuCtxSynchronize:
    case WIRE_CALL_cuCtxSynchronize_v2:
    case WIRE_CALL_cuCtxSetLimit:
    case WIRE_CALL_cuEventQuery:
    case WIRE_CALL_cuEventSynchronize:
    case WIRE_CALL_cuStreamQuery:
    case WIRE_CALL_cuStreamSynchronize:
    case WIRE_CALL_gp_wait_elapsed:
    case WIRE_CALL_cuMemAlloc_v2:
    case WIRE_CALL_cuMemAllocPitch_v2:
    case WIRE_CALL_cuMemAllocManaged:
    case WIRE_CALL_cuMemFree_v2:
    case WIRE_CALL_cuMemAllocAsync:
    case WIRE_CALL_cuMemAllocFromPoolAsync:
    case WIRE_CALL_cuMemFreeAsync:
    case WIRE_CALL_cuMemPoolCreate:
    case WIRE_CALL_cuMemPoolDestroy:
    case WIRE_CALL_cuMemPoolTrimTo:
    case WIRE_CALL_cuMemHostAlloc:
    case WIRE_CALL_cuMemAllocHost_v2:
    case WIRE_CALL_cuMemFreeHost:
    case WIRE_CALL_cuMemHostRegister_v2:
    case WIRE_CALL_cuMemHostUnregister:
    case WIRE_CALL_cuArrayCreate_v2:
    case WIRE_CALL_cuArray3DCreate_v2:
    case WIRE_CALL_cuArrayDestroy:
    case WIRE_CALL_cuMipmappedArrayCreate:
    case WIRE_CALL_cuMipmappedArrayDestroy:
    case WIRE_CALL_cuModuleUnload:
    case WIRE_CALL_cuLibraryUnload:
    case WIRE_CALL_cuGraphInstantiateWithFlags:
    case WIRE_CALL_cuGraphInstantiateWithParams:
    case WIRE_CALL_cuGraphExecDestroy:
        return true;
    default:
        return false;
    }
}

#endif
