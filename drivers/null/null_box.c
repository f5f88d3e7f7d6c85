/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills of boxes in linear memory; there are no arrays here. */
#include "null_box.h"

#include "null.h"

#include <string.h>

/* Where one side of a copy begins, or NULL: an array, or nothing of this card's. */
static uint8_t *
side(CUmemorytype type, const void *host, CUdeviceptr device, size_t offset,
     size_t extent)
{
    if (type == CU_MEMORYTYPE_HOST)
        return (uint8_t *)(uintptr_t)host + offset;
    if (type == CU_MEMORYTYPE_ARRAY || !null_mem_holds(device + offset, extent))
        return NULL;
    return (uint8_t *)(uintptr_t)(device + offset);
}

CUresult
null_box_copy(const CUDA_MEMCPY3D *box)
{
    size_t from_slice = box->srcPitch * box->srcHeight;
    size_t to_slice = box->dstPitch * box->dstHeight;
    size_t rows = box->Height - 1, slices = box->Depth - 1;
    const uint8_t *from;
    uint8_t *to;

    if (!box->WidthInBytes || !box->Height || !box->Depth)
        return CUDA_SUCCESS;
    from = side(box->srcMemoryType, box->srcHost, box->srcDevice,
                box->srcXInBytes + box->srcY * box->srcPitch + box->srcZ * from_slice,
                slices * from_slice + rows * box->srcPitch + box->WidthInBytes);
    to = side(box->dstMemoryType, box->dstHost, box->dstDevice,
              box->dstXInBytes + box->dstY * box->dstPitch + box->dstZ * to_slice,
              slices * to_slice + rows * box->dstPitch + box->WidthInBytes);
    if (!from || !to)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t z = 0; z <= slices; z++)
        for (size_t y = 0; y <= rows; y++)
            memmove(to + z * to_slice + y * box->dstPitch,
                    from + z * from_slice + y * box->srcPitch, box->WidthInBytes);
    return CUDA_SUCCESS;
}

CUresult
null_box_fill(const CUDA_MEMSET_NODE_PARAMS_v2 *fill)
{
    size_t size = fill->elementSize, width = fill->width * size;
    uint8_t *row = (uint8_t *)(uintptr_t)fill->dst;

    if (!width || !fill->height)
        return CUDA_SUCCESS;
    if (size > sizeof(fill->value) ||
        !null_mem_holds(fill->dst, (fill->height - 1) * fill->pitch + width))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t y = 0; y < fill->height; y++, row += fill->pitch)
        for (size_t x = 0; x < width; x += size)
            memcpy(row + x, &fill->value, size);
    return CUDA_SUCCESS;
}

static CUresult
fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned size, size_t width,
     size_t height)
{
    return null_box_fill(&(CUDA_MEMSET_NODE_PARAMS_v2){.dst = dst,
                                                       .pitch = pitch,
                                                       .value = value,
                                                       .elementSize = size,
                                                       .width = width,
                                                       .height = height});
}

CUresult
cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, us, 2, N, 1);
}

CUresult
cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return fill(dstDevice, 0, us, 2, N, 1);
}

CUresult
cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                  size_t Width, size_t Height, CUstream hStream)
{
    return fill(dstDevice, dstPitch, uc, 1, Width, Height);
}

CUresult
cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                size_t Height)
{
    return fill(dstDevice, dstPitch, uc, 1, Width, Height);
}

CUresult
cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                   size_t Width, size_t Height, CUstream hStream)
{
    return fill(dstDevice, dstPitch, us, 2, Width, Height);
}

CUresult
cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                 size_t Width, size_t Height)
{
    return fill(dstDevice, dstPitch, us, 2, Width, Height);
}

CUresult
cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                   size_t Width, size_t Height, CUstream hStream)
{
    return fill(dstDevice, dstPitch, ui, 4, Width, Height);
}

CUresult
cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                 size_t Height)
{
    return fill(dstDevice, dstPitch, ui, 4, Width, Height);
}

CUresult
cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return null_box_copy(pCopy);
}

CUresult
cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    return null_box_copy(pCopy);
}

CUresult
cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    return null_box_copy(&(CUDA_MEMCPY3D){
        .srcXInBytes = pCopy->srcXInBytes,
        .srcY = pCopy->srcY,
        .srcMemoryType = pCopy->srcMemoryType,
        .srcHost = pCopy->srcHost,
        .srcDevice = pCopy->srcDevice,
        .srcPitch = pCopy->srcPitch,
        .dstXInBytes = pCopy->dstXInBytes,
        .dstY = pCopy->dstY,
        .dstMemoryType = pCopy->dstMemoryType,
        .dstHost = pCopy->dstHost,
        .dstDevice = pCopy->dstDevice,
        .dstPitch = pCopy->dstPitch,
        .WidthInBytes = pCopy->WidthInBytes,
        .Height = pCopy->Height,
        .Depth = 1,
    });
}

CUresult
cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return cuMemcpy2D_v2(pCopy);
}

CUresult
cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return cuMemcpy2D_v2(pCopy);
}
