/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer access: kernels of one context touch the memory of another.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_mem.h"

#include <stdlib.h>

SG_CALL(cuDeviceCanAccessPeer, int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!canAccessPeer)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sg_dev_get(dev) || !sg_dev_get(peerDev))
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    *canAccessPeer = dev != peerDev;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetP2PAttribute, int *value, CUdevice_P2PAttribute attrib,
        CUdevice srcDevice, CUdevice dstDevice)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!value)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sg_dev_get(srcDevice) || !sg_dev_get(dstDevice) || srcDevice == dstDevice)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    switch ((int)attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED: /* all are */
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0;
        break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = 1;
        break;
    default:
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return sg_leave(CUDA_SUCCESS);
}

static int
peer_index(const struct sg_ctx *ctx, const struct sg_ctx *peer)
{
    for (unsigned i = 0; i < ctx->n_peers; i++)
        if (ctx->peers[i] == peer)
            return (int)i;
    return -1;
}

SG_CALL(cuCtxEnablePeerAccess, CUcontext peerContext, unsigned int Flags)
{
    struct sg_ctx *ctx, *peer, **p;
    CUresult rc = sg_enter(&ctx);

    if (rc != CUDA_SUCCESS)
        return rc;
    peer = SG_OBJ(sg_ctx, SG_KIND_CTX, peerContext);
    if (!peer || peer == ctx)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (Flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (peer->dev == ctx->dev)
        return sg_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (peer_index(ctx, peer) >= 0)
        return sg_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    p = realloc(ctx->peers, (ctx->n_peers + 1) * sizeof(*p));
    if (!p)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    ctx->peers = p;
    ctx->peers[ctx->n_peers++] = peer;
    return sg_leave(sg_mem_show_peer(ctx, peer));
}

SG_CALL(cuCtxDisablePeerAccess, CUcontext peerContext)
{
    struct sg_ctx *ctx, *peer;
    CUresult rc = sg_enter(&ctx);
    int i;

    if (rc != CUDA_SUCCESS)
        return rc;
    peer = SG_OBJ(sg_ctx, SG_KIND_CTX, peerContext);
    if (!peer)
        return sg_leave(CUDA_ERROR_INVALID_CONTEXT);
    i = peer_index(ctx, peer);
    if (i < 0)
        return sg_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    ctx->peers[i] = ctx->peers[--ctx->n_peers];
    sg_mem_hide_peer(ctx, peer);
    return sg_leave(CUDA_SUCCESS);
}
