/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear copies between host memory and arrays, and batches of boxes.
 */
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_copy_facts.h"
#include "stub_d2h_async.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_path_table.h"
#include "wire_api.h"

#include <string.h>

static_assert(sizeof(struct wire_cuMemcpyHtoA_v2_req) ==
                  sizeof(struct wire_cuMemcpyHtoAAsync_v2_req),
              "one writer for both");
static_assert(sizeof(struct wire_cuMemcpyAtoH_v2_req) ==
                  sizeof(struct wire_cuMemcpyAtoHAsync_v2_req),
              "one writer for both");

/* What every copy checks first. */
static CUresult
array_enter(CUarray array, CUstream hStream, bool per_thread, uint64_t *ret_stream)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && !stub_handle_ok(WIRE_KIND_ARRAY, (uintptr_t)array))
        r = CUDA_ERROR_INVALID_HANDLE;
    return r == CUDA_SUCCESS ? stub_stream_get(hStream, per_thread, ret_stream) : r;
}

static CUresult
array_from_host(uint16_t number, CUarray dst, size_t offset, const void *src, size_t n,
                CUstream hStream, bool per_thread)
{
    uint32_t facts = n <= STUB_COPY_INLINE ? STUB_COPY_SMALL : 0;
    struct wire_cuMemcpyHtoA_v2_req *req;
    struct stub_call c;
    uint64_t stream;
    bool small;
    CUresult r = array_enter(dst, hStream, per_thread, &stream);

    if (r != CUDA_SUCCESS || n == 0)
        return r;
    if (!src)
        return CUDA_ERROR_INVALID_VALUE;
    stub_d2h_async_wait(src, n);
    small = stub_path_choose(STUB_H2D, facts, n)->path == STUB_PATH_INLINE;
    r = stub_call_begin(&c, number,
                        (uint32_t)sizeof(*req) + (small ? wire_align((uint32_t)n) : 0));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemcpyHtoA_v2_req){
        .dstArray = (uintptr_t)dst,
        .dstOffset = offset,
        .hStream = stream,
        .ByteCount = n,
    };
    if (!small && number == WIRE_CALL_cuMemcpyHtoA_v2 && stub_copy_wants_reply(n)) {
        r = stub_call_wait_bulk(&c, src, n);
        stub_call_end(&c);
        return r;
    }
    if (!small)
        return stub_call_post_bulk(&c, src, n);
    memcpy(req + 1, src, n);
    return stub_call_post(&c);
}

static CUresult
array_to_host(uint16_t number, void *dst, CUarray src, size_t offset, size_t n,
              CUstream hStream, bool per_thread)
{
    struct wire_cuMemcpyAtoH_v2_rep_view rep = {0};
    struct wire_cuMemcpyAtoH_v2_req *req;
    struct stub_call c;
    uint64_t stream;
    CUresult r = array_enter(src, hStream, per_thread, &stream);

    if (r != CUDA_SUCCESS || n == 0)
        return r;
    if (!dst)
        return CUDA_ERROR_INVALID_VALUE;
    (void)stub_path_choose(STUB_D2H, 0, n); /* always payload */
    r = stub_call_begin(&c, number, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemcpyAtoH_v2_req){
        .srcArray = (uintptr_t)src,
        .srcOffset = offset,
        .ByteCount = n,
        .hStream = stream,
    };
    r = stub_call_wait_into(&c, dst, n, sizeof(struct wire_cuMemcpyAtoH_v2_rep));
    if (r == CUDA_SUCCESS &&
        (!wire_cuMemcpyAtoH_v2_rep_open(&rep, c.reply, c.reply_size,
                                        c.reply_flags & WIRE_F_BULK) ||
         rep.f->dstHost_n != n))
        r = stub_call_bad(number);
    else if (r == CUDA_SUCCESS && rep.dstHost)
        memcpy(dst, rep.dstHost, n);
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                          size_t ByteCount, bool per_thread)
{
    return array_from_host(WIRE_CALL_cuMemcpyHtoA_v2, dstArray, dstOffset, srcHost,
                           ByteCount, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                               size_t ByteCount, CUstream hStream, bool per_thread)
{
    return array_from_host(WIRE_CALL_cuMemcpyHtoAAsync_v2, dstArray, dstOffset, srcHost,
                           ByteCount, hStream, per_thread);
}

CUresult
stub_impl_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                          size_t ByteCount, bool per_thread)
{
    return array_to_host(WIRE_CALL_cuMemcpyAtoH_v2, dstHost, srcArray, srcOffset,
                         ByteCount, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                               size_t ByteCount, CUstream hStream, bool per_thread)
{
    return array_to_host(WIRE_CALL_cuMemcpyAtoHAsync_v2, dstHost, srcArray, srcOffset,
                         ByteCount, hStream, per_thread);
}

/* ---- batches ---------------------------------------------------------------- */

/* One side of a batch element as the fields of a 3D copy. */
struct array_side {
    size_t *x, *y, *z, *pitch, *height;
    CUmemorytype *type;
    CUdeviceptr *device;
    CUarray *array;
};

/* Bytes of the element in which lengths are counted: that of the array that takes
 * part, which only the server knows; without an array, lengths are in bytes. */
static CUresult
array_element(const CUmemcpy3DOperand *from, size_t *element)
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
        return r;
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
array_take_operand(const struct array_side *to, const CUmemcpy3DOperand *from,
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

static CUresult
array_batch_one(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream, bool per_thread)
{
    CUDA_MEMCPY3D c = {.Height = op->extent.height, .Depth = op->extent.depth};
    struct array_side src = {&c.srcXInBytes, &c.srcY,      &c.srcZ,
                             &c.srcPitch,    &c.srcHeight, &c.srcMemoryType,
                             &c.srcDevice,   &c.srcArray};
    struct array_side dst = {&c.dstXInBytes, &c.dstY,      &c.dstZ,
                             &c.dstPitch,    &c.dstHeight, &c.dstMemoryType,
                             &c.dstDevice,   &c.dstArray};
    size_t element = 1;
    CUresult r = array_element(&op->src, &element);

    if (r == CUDA_SUCCESS)
        r = array_element(&op->dst, &element);
    if (r == CUDA_SUCCESS && !gp_mul_ok(op->extent.width, element, &c.WidthInBytes))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (!c.WidthInBytes || !c.Height || !c.Depth))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = array_take_operand(&src, &op->src, element);
    if (r == CUDA_SUCCESS)
        r = array_take_operand(&dst, &op->dst, element);
    return r == CUDA_SUCCESS ? stub_impl_cuMemcpy3DAsync_v2(&c, stream, per_thread) : r;
}

CUresult
stub_impl_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                               size_t *failIdx, unsigned long long flags,
                               CUstream hStream, bool per_thread)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && (!opList || !numOps || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS && failIdx)
        *failIdx = SIZE_MAX;
    for (size_t i = 0; r == CUDA_SUCCESS && i < numOps; i++) {
        r = array_batch_one(&opList[i], hStream, per_thread);
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
