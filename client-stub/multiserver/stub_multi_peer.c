/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access of one device to another's memory: there is none between servers, only copies.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_link.h"
#include "stub_manual.h"

static bool
peer_is_elsewhere(CUdevice a, CUdevice b)
{
    const struct stub_device *x = stub_device_get(a), *y = stub_device_get(b);

    return x && y && x->link != y->link;
}

/* Whatever is asked for, between servers it is not there. */
bool
stub_multi_cuDeviceGetP2PAttribute(CUresult *ret, int *value,
                                   CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                   CUdevice dstDevice)
{
    if (!peer_is_elsewhere(srcDevice, dstDevice))
        return false;
    *ret = !value || (int)attrib <= 0 ||
                   attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
    if (*ret == CUDA_SUCCESS)
        *value = 0;
    return true;
}

bool
stub_multi_cuDeviceGetP2PAtomicCapabilities(CUresult *ret, unsigned int *capabilities,
                                            const CUatomicOperation *operations,
                                            unsigned int count, CUdevice srcDevice,
                                            CUdevice dstDevice)
{
    if (!peer_is_elsewhere(srcDevice, dstDevice))
        return false;
    *ret =
        capabilities && operations && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; *ret == CUDA_SUCCESS && i < count; i++)
        capabilities[i] = 0;
    return true;
}

static bool
peer_ctx_is_elsewhere(CUcontext peer)
{
    const struct stub_ctx *ctx = stub_ctx_get(peer);

    return ctx && stub_tls.ctx &&
           wire_handle_link(ctx->handle) != stub_link_here()->number;
}

bool
stub_multi_cuCtxEnablePeerAccess(CUresult *ret, CUcontext peerContext,
                                 unsigned int Flags)
{
    if (!peer_ctx_is_elsewhere(peerContext))
        return false;
    *ret = Flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return true;
}

bool
stub_multi_cuCtxDisablePeerAccess(CUresult *ret, CUcontext peerContext)
{
    if (!peer_ctx_is_elsewhere(peerContext))
        return false;
    *ret = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    return true;
}
