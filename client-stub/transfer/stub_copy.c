/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear copies: the calls.  Each describes its copy (stub_path.h), finds its facts
 * (stub_copy_facts.h) and runs the path that the table names (stub_path_table.h).
 */
#include "cuda_api.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_copy_facts.h"
#include "stub_ctx.h"
#include "stub_graph_hostmem.h"
#include "stub_handle.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_path.h"
#include "stub_registered.h"

/* ---- between the host and a device ------------------------------------------ */

/* Graphs before it in its stream may write the source.  A device that reads it at the
 * same address does so in order. */
static GP_COLD CUresult
copy_wait_for_graphs(const struct stub_copy *copy)
{
    return copy->facts & (STUB_COPY_CAPTURED | STUB_COPY_SAME_ADDRESS)
               ? CUDA_SUCCESS
               : stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread);
}

/* A blocking copy has returned: another process that has the memory may look. */
static GP_COLD CUresult
copy_show(const struct stub_copy *copy, CUresult r)
{
    return r == CUDA_SUCCESS
               ? stub_impl_cuStreamSynchronize(copy->stream, copy->per_thread)
               : r;
}

/* In a capture the driver decides whether a copy of nothing becomes a node, and refuses
 * it where the capture is invalid. */
static GP_COLD CUresult
copy_nothing(CUdeviceptr device, CUstream stream, bool per_thread)
{
    return stub_capture_any()
               ? stub_gen_cuMemcpyDtoDAsync_v2(device, device, 0, stream, per_thread)
               : CUDA_SUCCESS;
}

/* What every copy checks comes first; an empty one is done.  Inlined, because the calls
 * below know the direction, and many of the stream; fields of @copy that belong to a
 * fact are set with it. */
static inline __attribute__((always_inline)) CUresult
copy_run(enum stub_direction direction, bool blocking, CUdeviceptr dst, CUdeviceptr src,
         uint64_t n, CUstream stream, bool per_thread)
{
    struct stub_copy copy;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(stream, per_thread, &copy.stream_id);
    if (r != CUDA_SUCCESS || unlikely(n == 0))
        return r == CUDA_SUCCESS && !blocking
                   ? copy_nothing(direction == STUB_H2D ? dst : src, stream, per_thread)
                   : r;
    copy.direction = direction;
    copy.blocking = blocking;
    copy.per_thread = per_thread;
    copy.dst = dst;
    copy.src = src;
    copy.n = n;
    copy.stream = stream;
    if (!stub_copy_host_side(&copy) ||
        stub_registered_is_gone(stub_copy_host_side(&copy), n))
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_copy_await_turn(&copy);
    if (r == CUDA_SUCCESS)
        r = stub_copy_find_facts(&copy);
    if (r == CUDA_SUCCESS && direction == STUB_H2D &&
        unlikely(stub_graph_hostmem_writes(src, n)))
        r = copy_wait_for_graphs(&copy);
    if (r != CUDA_SUCCESS)
        return r;
    r = stub_path_run(STUB_LINEAR, &copy);
    return blocking && direction == STUB_H2D &&
                   unlikely(atomic_load_explicit(&stub_memory_exported,
                                                 memory_order_relaxed))
               ? copy_show(&copy, r)
               : r;
}

CUresult
stub_impl_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                          bool per_thread)
{
    return copy_run(STUB_H2D, true, dstDevice, (uintptr_t)srcHost, ByteCount, NULL,
                    per_thread);
}

CUresult
stub_impl_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
                               size_t ByteCount, CUstream hStream, bool per_thread)
{
    return copy_run(STUB_H2D, false, dstDevice, (uintptr_t)srcHost, ByteCount, hStream,
                    per_thread);
}

CUresult
stub_impl_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                          bool per_thread)
{
    return copy_run(STUB_D2H, true, (uintptr_t)dstHost, srcDevice, ByteCount, NULL,
                    per_thread);
}

CUresult
stub_impl_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                               CUstream hStream, bool per_thread)
{
    return copy_run(STUB_D2H, false, (uintptr_t)dstHost, srcDevice, ByteCount, hStream,
                    per_thread);
}

/* ---- between devices -------------------------------------------------------- */

/* A device address may be that of page-locked memory, which is on this side. */
static bool
copy_is_of_host(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    if (!stub_capture_any() &&
        unlikely(stub_memory_may_be_host(dst) || stub_memory_may_be_host(src)) &&
        (stub_copy_is_host(dst, n) || stub_copy_is_host(src, n)))
        return true;
    if (unlikely(stub_paths_shown))
        stub_path_choose(STUB_LINEAR, STUB_D2D, 0, n);
    return false;
}

static bool
copy_overruns(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return stub_memory_overruns(dst, n) || stub_memory_overruns(src, n);
}

CUresult
stub_impl_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                          size_t ByteCount)
{
    if (copy_is_of_host(dstDevice, srcDevice, ByteCount))
        return stub_impl_cuMemcpy(dstDevice, srcDevice, ByteCount, false);
    if (copy_overruns(dstDevice, srcDevice, ByteCount))
        return CUDA_ERROR_INVALID_VALUE;
    return stub_gen_cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult
stub_impl_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                               size_t ByteCount, CUstream hStream, bool per_thread)
{
    if (copy_is_of_host(dstDevice, srcDevice, ByteCount))
        return stub_impl_cuMemcpyAsync(dstDevice, srcDevice, ByteCount, hStream,
                                       per_thread);
    return copy_overruns(dstDevice, srcDevice, ByteCount)
               ? stub_ctx_refuse()
               : stub_gen_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream,
                                               per_thread);
}

/* ---- unified addresses: the values say which copy it is --------------------- */

static CUresult
copy_host_to_host(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream,
                  bool per_thread)
{
    struct stub_copy copy = {.direction = STUB_H2H,
                             .per_thread = per_thread,
                             .dst = dst,
                             .src = src,
                             .n = n,
                             .stream = stream};

    if (stub_registered_is_gone((void *)(uintptr_t)dst, n) ||
        stub_registered_is_gone((void *)(uintptr_t)src, n))
        return CUDA_ERROR_INVALID_VALUE;
    return stub_path_run(STUB_LINEAR, &copy);
}

static CUresult
copy_any(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream, bool per_thread,
         bool async)
{
    bool to = stub_memory_is_device(dst), from = stub_memory_is_device(src);
    void *host_dst = (void *)(uintptr_t)dst, *host_src = (void *)(uintptr_t)src;

    if (to && from)
        return per_thread ? cuMemcpyDtoDAsync_v2_ptsz(dst, src, n, stream)
               : async    ? cuMemcpyDtoDAsync_v2(dst, src, n, stream)
                          : cuMemcpyDtoD_v2(dst, src, n);
    if (to)
        return async ? stub_impl_cuMemcpyHtoDAsync_v2(dst, host_src, n, stream,
                                                      per_thread)
                     : stub_impl_cuMemcpyHtoD_v2(dst, host_src, n, per_thread);
    if (from)
        return async ? stub_impl_cuMemcpyDtoHAsync_v2(host_dst, src, n, stream,
                                                      per_thread)
                     : stub_impl_cuMemcpyDtoH_v2(host_dst, src, n, per_thread);
    return copy_host_to_host(dst, src, n, stream, per_thread);
}

/* What a copy checks first.  No pointer of any kind is past the user's half of the
 * address space. */
static CUresult
copy_any_check(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream,
               bool per_thread)
{
    uint64_t id;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(stream, per_thread, &id);
    if (r != CUDA_SUCCESS || n == 0)
        return r;
    return dst && src && dst >> 47 == 0 && src >> 47 == 0 ? CUDA_SUCCESS
                                                          : CUDA_ERROR_INVALID_VALUE;
}

CUresult
stub_impl_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, bool per_thread)
{
    CUresult r = copy_any_check(dst, src, ByteCount, NULL, per_thread);

    if (r != CUDA_SUCCESS || ByteCount == 0)
        return r;
    r = copy_any(dst, src, ByteCount, NULL, per_thread, false);
    if (r == CUDA_SUCCESS && stub_managed_touches(dst, ByteCount))
        r = stub_managed_sync();
    return r;
}

CUresult
stub_impl_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                        CUstream hStream, bool per_thread)
{
    CUresult r = copy_any_check(dst, src, ByteCount, hStream, per_thread);

    if (r == CUDA_SUCCESS && ByteCount == 0)
        return stub_memory_is_device(dst)   ? copy_nothing(dst, hStream, per_thread)
               : stub_memory_is_device(src) ? copy_nothing(src, hStream, per_thread)
                                            : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        return r;
    return copy_any(dst, src, ByteCount, hStream, per_thread, true);
}
