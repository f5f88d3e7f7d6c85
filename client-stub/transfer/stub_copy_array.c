/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear copies between host memory and arrays: the calls.  They run the path that the
 * table names (stub_path_table.h).
 */
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_copy_facts.h"
#include "stub_graph_hostmem.h"
#include "stub_handle.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_path.h"
#include "stub_pinned.h"
#include "stub_registered.h"
#include "wire_api.h"

#include <string.h>

static CUresult
array_as_box(const struct stub_copy *copy, CUarray array)
{
    CUDA_MEMCPY3D box = {.WidthInBytes = copy->n, .Height = 1, .Depth = 1};

    if (copy->direction == STUB_H2D) {
        box.srcMemoryType = CU_MEMORYTYPE_HOST;
        box.srcHost = stub_copy_host_side(copy);
        box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        box.dstArray = array;
        box.dstXInBytes = copy->array_offset;
    } else {
        box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        box.srcArray = array;
        box.srcXInBytes = copy->array_offset;
        box.dstMemoryType = CU_MEMORYTYPE_HOST;
        box.dstHost = stub_copy_host_side(copy);
    }
    return copy->blocking
               ? stub_impl_cuMemcpy3D_v2(&box, copy->per_thread)
               : stub_impl_cuMemcpy3DAsync_v2(&box, copy->stream, copy->per_thread);
}

/* Memory that the device reaches, too, whatever other streams capture: the copies of
 * boxes keep the order with kernels that write the same pages (stub_box_use_device). */
static bool
array_host_is_of_device(const struct stub_copy *copy)
{
    uint64_t host = (uintptr_t)stub_copy_host_side(copy);

    return (stub_pinned_any() || stub_managed_is_on()) &&
           (stub_copy_has_same_address(host, copy->n) ||
            stub_copy_find_alias(copy->direction, host));
}

/* Those of boxes ask whether their stream is captured, and become nodes then; and they
 * wait for graphs that write their source. */
static bool
array_needs_box(const struct stub_copy *copy)
{
    return (stub_capture_any() && !copy->blocking) || array_host_is_of_device(copy) ||
           stub_copy_has_turn(copy, stub_copy_host_side(copy), copy->n) ||
           (copy->direction == STUB_H2D &&
            stub_graph_hostmem_writes(copy->src, copy->n));
}

static CUresult
array_copy(struct stub_copy *copy, CUarray array)
{
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS && !stub_handle_ok(WIRE_KIND_ARRAY, (uintptr_t)array))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        r = stub_stream_get(copy->stream, copy->per_thread, &copy->stream_id);
    if (r != CUDA_SUCCESS || copy->n == 0)
        return r;
    if (!stub_copy_host_side(copy) ||
        stub_registered_is_gone(stub_copy_host_side(copy), copy->n))
        return CUDA_ERROR_INVALID_VALUE;
    if (array_needs_box(copy))
        return array_as_box(copy, array);
    r = stub_copy_await_turn(copy);
    if (r != CUDA_SUCCESS)
        return r;
    copy->facts = copy->blocking ? STUB_COPY_BLOCKING : 0;
    if (copy->direction == STUB_H2D && copy->n <= STUB_COPY_INLINE)
        copy->facts |= STUB_COPY_SMALL;
    return stub_path_run(STUB_ARRAY, copy);
}

static CUresult
array_h2d(CUarray dst, size_t offset, const void *src, size_t n, CUstream stream,
          bool per_thread, bool blocking)
{
    struct stub_copy copy = {.direction = STUB_H2D,
                             .blocking = blocking,
                             .per_thread = per_thread,
                             .dst = (uintptr_t)dst,
                             .src = (uintptr_t)src,
                             .n = n,
                             .stream = stream,
                             .array_offset = offset};

    return array_copy(&copy, dst);
}

static CUresult
array_d2h(void *dst, CUarray src, size_t offset, size_t n, CUstream stream,
          bool per_thread, bool blocking)
{
    struct stub_copy copy = {.direction = STUB_D2H,
                             .blocking = blocking,
                             .per_thread = per_thread,
                             .dst = (uintptr_t)dst,
                             .src = (uintptr_t)src,
                             .n = n,
                             .stream = stream,
                             .array_offset = offset};

    return array_copy(&copy, src);
}

CUresult
stub_impl_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                          size_t ByteCount, bool per_thread)
{
    return array_h2d(dstArray, dstOffset, srcHost, ByteCount, NULL, per_thread, true);
}

CUresult
stub_impl_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                               size_t ByteCount, CUstream hStream, bool per_thread)
{
    return array_h2d(dstArray, dstOffset, srcHost, ByteCount, hStream, per_thread,
                     false);
}

CUresult
stub_impl_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                          size_t ByteCount, bool per_thread)
{
    return array_d2h(dstHost, srcArray, srcOffset, ByteCount, NULL, per_thread, true);
}

CUresult
stub_impl_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                               size_t ByteCount, CUstream hStream, bool per_thread)
{
    return array_d2h(dstHost, srcArray, srcOffset, ByteCount, hStream, per_thread,
                     false);
}
