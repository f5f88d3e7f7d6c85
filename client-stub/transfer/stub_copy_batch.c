/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of copies: each element is a copy of its own, because either address may be
 * host memory.
 *
 * A batch has no order inside, may not go to the legacy default stream, and is refused
 * while its stream is captured; that capture goes on without it.  Any thread.
 */
#include "cuda_api.h"
#include "gp_copy.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_copy_facts.h"
#include "stub_handle.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "wire_api.h"

#include <string.h>

enum {
    /* A count past this is a number that was never set. */
    BATCH_MAX = 1 << 20,
    /* What is kept at a time of a page-locked source that is read during the call. */
    BATCH_STAGED = 1 << 20,
};

static CUresult
batch_enter(size_t n, CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!n || n > BATCH_MAX || (!stream && !per_thread) || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream > CU_STREAM_PER_THREAD &&
        !stub_handle_ok(WIRE_KIND_STREAM, (uintptr_t)stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (stub_capture_any())
        r = per_thread ? cuStreamIsCapturing_ptsz(stream, &status)
                       : cuStreamIsCapturing(stream, &status);
    return r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE
               ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
               : r;
}

static bool
batch_is_ordered(CUmemcpySrcAccessOrder order, unsigned flags)
{
    return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
           order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
           !(flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

/* A copy from [src, src + n) to a device would read it later, or wait until it may. */
static bool
batch_reads_later(CUdeviceptr src, uint64_t n)
{
    return !stub_memory_is_device(src) && stub_copy_is_host(src, n);
}

/* ---- linear copies ------------------------------------------------------------ */

/* Which copies have which attributes. */
struct batch_attrs {
    const CUmemcpyAttributes *list;
    const size_t *idxs;
    size_t n;
};

/* Every copy of @count has valid ones. */
static bool
batch_attrs_are_valid(const struct batch_attrs *a, size_t count)
{
    if (!a->list || !a->idxs || !a->n || a->n > count || a->idxs[0])
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->idxs[i] >= count || (i && a->idxs[i] <= a->idxs[i - 1]) ||
            !batch_is_ordered(a->list[i].srcAccessOrder, a->list[i].flags))
            return false;
    return true;
}

/* The source is read before this returns: pageable memory is. */
static CUresult
batch_copy_read(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream,
                bool per_thread)
{
    size_t most = gp_min(n, (size_t)BATCH_STAGED);
    CLEANUP_FREE void *staged = malloc(most);
    CUresult r = staged ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    for (size_t at = 0; at < n && r == CUDA_SUCCESS; at += most) {
        size_t part = gp_min(most, n - at);

        gp_copy(staged, (const char *)(uintptr_t)src + at, part);
        r = stub_impl_cuMemcpyAsync(dst + at, (uintptr_t)staged, part, stream,
                                    per_thread);
    }
    return r;
}

static CUresult
batch_copy(CUdeviceptr dst, CUdeviceptr src, size_t n, CUmemcpySrcAccessOrder order,
           CUstream stream, bool per_thread)
{
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
                   stub_memory_is_device(dst) && batch_reads_later(src, n)
               ? batch_copy_read(dst, src, n, stream, per_thread)
               : stub_impl_cuMemcpyAsync(dst, src, n, stream, per_thread);
}

static CUresult
batch_copies(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
             size_t count, const struct batch_attrs *attrs, size_t *fail,
             CUstream stream, bool per_thread)
{
    CUresult r = batch_enter(count, stream, per_thread);
    size_t at = 0;

    if (r == CUDA_SUCCESS &&
        (!dsts || !srcs || !sizes || !batch_attrs_are_valid(attrs, count)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS && fail)
        *fail = SIZE_MAX;
    for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
        if (at + 1 < attrs->n && attrs->idxs[at + 1] == i)
            at++;
        r = batch_copy(dsts[i], srcs[i], sizes[i], attrs->list[at].srcAccessOrder,
                       stream, per_thread);
        if (r != CUDA_SUCCESS && fail)
            *fail = i;
    }
    return r;
}

CUresult
stub_impl_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                             size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                             size_t numAttrs, size_t *failIdx, CUstream hStream,
                             bool per_thread)
{
    const struct batch_attrs a = {attrs, attrsIdxs, numAttrs};

    return batch_copies(dsts, srcs, sizes, count, &a, failIdx, hStream, per_thread);
}

CUresult
stub_impl_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                size_t count, CUmemcpyAttributes *attrs,
                                size_t *attrsIdxs, size_t numAttrs, CUstream hStream,
                                bool per_thread)
{
    const struct batch_attrs a = {attrs, attrsIdxs, numAttrs};

    return batch_copies(dsts, srcs, sizes, count, &a, NULL, hStream, per_thread);
}

/* ---- boxes -------------------------------------------------------------------- */

/* One side of a batch element as the fields of a 3D copy. */
struct batch_side {
    size_t *x, *y, *z, *pitch, *height;
    CUmemorytype *type;
    CUdeviceptr *device;
    CUarray *array;
};

/* Bytes of the element in which lengths are counted: that of the array that takes
 * part, which only the server knows; without an array, lengths are in bytes. */
static CUresult
batch_element(const CUmemcpy3DOperand *from, size_t *element)
{
    static const uint8_t sizes[64] = {
        [CU_AD_FORMAT_UNSIGNED_INT8] = 1,  [CU_AD_FORMAT_SIGNED_INT8] = 1,
        [CU_AD_FORMAT_UNSIGNED_INT16] = 2, [CU_AD_FORMAT_SIGNED_INT16] = 2,
        [CU_AD_FORMAT_UNSIGNED_INT32] = 4, [CU_AD_FORMAT_SIGNED_INT32] = 4,
        [CU_AD_FORMAT_HALF] = 2,           [CU_AD_FORMAT_FLOAT] = 4,
    };
    CUDA_ARRAY3D_DESCRIPTOR d;
    unsigned size;
    CUresult r;

    if (from->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_SUCCESS;
    r = cuArray3DGetDescriptor_v2(&d, from->op.array.array);
    if (r != CUDA_SUCCESS)
        return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
    size = (unsigned)d.Format;
    size = size >= CU_AD_FORMAT_UNORM_INT8X1 && size <= CU_AD_FORMAT_SNORM_INT16X4
               ? 1 + ((size - CU_AD_FORMAT_UNORM_INT8X1) / 3) % 2
           : size < sizeof(sizes) ? sizes[size]
                                  : 0;
    if (!size)
        return stub_unsupported(WIRE_CALL_cuMemcpy3DBatchAsync_v2);
    *element = size * (size_t)d.NumChannels;
    return CUDA_SUCCESS;
}

static CUresult
batch_take_operand(const struct batch_side *to, const CUmemcpy3DOperand *from,
                   size_t element)
{
    bool fits;

    if (from->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        *to->type = CU_MEMORYTYPE_UNIFIED;
        *to->device = from->op.ptr.ptr;
        fits = gp_mul_ok(from->op.ptr.rowLength, element, to->pitch);
        *to->height = from->op.ptr.layerHeight;
        return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (from->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    *to->type = CU_MEMORYTYPE_ARRAY;
    *to->array = from->op.array.array;
    fits = gp_mul_ok(from->op.array.offset.x, element, to->x);
    *to->y = from->op.array.offset.y;
    *to->z = from->op.array.offset.z;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The box that an element describes. */
static CUresult
batch_describe(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *c)
{
    struct batch_side src = {&c->srcXInBytes, &c->srcY,      &c->srcZ,
                             &c->srcPitch,    &c->srcHeight, &c->srcMemoryType,
                             &c->srcDevice,   &c->srcArray};
    struct batch_side dst = {&c->dstXInBytes, &c->dstY,      &c->dstZ,
                             &c->dstPitch,    &c->dstHeight, &c->dstMemoryType,
                             &c->dstDevice,   &c->dstArray};
    size_t from = 1, to = 1, element;
    CUresult r = batch_element(&op->src, &from);

    *c = (CUDA_MEMCPY3D){.Height = op->extent.height, .Depth = op->extent.depth};
    if (r == CUDA_SUCCESS)
        r = batch_element(&op->dst, &to);
    element = gp_max(from, to);
    if (r == CUDA_SUCCESS &&
        (!gp_mul_ok(op->extent.width, element, &c->WidthInBytes) || !c->WidthInBytes ||
         !c->Height || !c->Depth || (from != to && op->src.type == op->dst.type) ||
         !batch_is_ordered(op->srcAccessOrder, op->flags)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = batch_take_operand(&src, &op->src, element);
    return r == CUDA_SUCCESS ? batch_take_operand(&dst, &op->dst, element) : r;
}

/* Bytes from the first one of the source to the last; false: there is no such source.
 */
static bool
batch_source(const CUDA_MEMCPY3D *c, uint64_t *ret_pitch, uint64_t *ret_slice,
             uint64_t *ret_extent)
{
    uint64_t height = c->srcHeight ? c->srcHeight : c->Height, rows, slices;

    *ret_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
    return *ret_pitch >= c->WidthInBytes && height >= c->Height &&
           gp_mul_ok(*ret_pitch, height, ret_slice) &&
           gp_mul_ok(*ret_pitch, c->Height - 1, &rows) &&
           gp_mul_ok(*ret_slice, c->Depth - 1, &slices) &&
           gp_add_ok(rows, slices, ret_extent) &&
           gp_add_ok(*ret_extent, c->WidthInBytes, ret_extent);
}

/* The source is read before this returns: pageable memory is. */
static CUresult
batch_box_read(CUDA_MEMCPY3D *c, uint64_t pitch, uint64_t slice, CUstream stream,
               bool per_thread)
{
    const char *from = (const char *)(uintptr_t)c->srcDevice;
    CLEANUP_FREE char *staged = malloc(c->WidthInBytes * c->Height * c->Depth);
    char *to = staged;

    if (!staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t z = 0; z < c->Depth; z++)
        for (size_t y = 0; y < c->Height; y++, to += c->WidthInBytes)
            memcpy(to, from + z * slice + y * pitch, c->WidthInBytes);
    c->srcDevice = (uintptr_t)staged;
    c->srcPitch = c->srcHeight = 0;
    return stub_impl_cuMemcpy3DAsync_v2(c, stream, per_thread);
}

static CUresult
batch_box(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream, bool per_thread)
{
    uint64_t pitch, slice, extent;
    CUDA_MEMCPY3D c;
    CUresult r = batch_describe(op, &c);

    if (r != CUDA_SUCCESS)
        return r;
    return op->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
                   c.srcMemoryType == CU_MEMORYTYPE_UNIFIED &&
                   (c.dstMemoryType == CU_MEMORYTYPE_ARRAY ||
                    stub_memory_is_device(c.dstDevice)) &&
                   batch_source(&c, &pitch, &slice, &extent) &&
                   batch_reads_later(c.srcDevice, extent)
               ? batch_box_read(&c, pitch, slice, stream, per_thread)
               : stub_impl_cuMemcpy3DAsync_v2(&c, stream, per_thread);
}

CUresult
stub_impl_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                               size_t *failIdx, unsigned long long flags,
                               CUstream hStream, bool per_thread)
{
    CUresult r = batch_enter(numOps, hStream, per_thread);

    if (r == CUDA_SUCCESS && (!opList || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS && failIdx)
        *failIdx = SIZE_MAX;
    for (size_t i = 0; r == CUDA_SUCCESS && i < numOps; i++) {
        r = batch_box(&opList[i], hStream, per_thread);
        if (r != CUDA_SUCCESS && failIdx)
            *failIdx = i;
    }
    return r;
}

CUresult
stub_impl_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                  unsigned long long flags, CUstream hStream,
                                  bool per_thread)
{
    return stub_impl_cuMemcpy3DBatchAsync(numOps, opList, NULL, flags, hStream,
                                          per_thread);
}
