/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints about managed memory, mostly for sessions with several servers.
 *
 * The driver of the server that allocated the memory knows only its own devices.  A
 * hint that names a device of another server, or comes in another server's stream, is
 * checked here.  Prefetches are carried out: the memory is made at that server, and its
 * content is copied there.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"

#include <string.h>

/* Is it of several servers' concern?  Which one has allocated it, then. */
static bool
hint_is_shared(CUdeviceptr ptr, uint32_t *ret_home)
{
    uint32_t ctx;

    return stub_memory_is_everywhere(ptr) && stub_memory_owner(ptr, ret_home, &ctx);
}

static CUresult
hint_range(CUdeviceptr ptr, size_t count)
{
    struct stub_memory m;

    if (!count || !stub_memory_find(ptr, &m) || m.kind != STUB_MEMORY_MANAGED ||
        count > m.range.size || ptr - m.range.start > m.range.size - count)
        return CUDA_ERROR_INVALID_VALUE;
    return stub_enter();
}

/* Of a card: its link; of the host, or of no card: -1. */
static int
hint_link(const CUmemLocation *at)
{
    const struct stub_device *dev =
        at->type == CU_MEM_LOCATION_TYPE_DEVICE ? stub_device_get(at->id) : NULL;

    return dev ? (int)dev->link->number : -1;
}

static CUmemLocation
hint_place(CUdevice dev)
{
    return dev == CU_DEVICE_CPU
               ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}
               : (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev};
}

static bool
hint_place_is_wrong(const CUmemLocation *at)
{
    return at->type == CU_MEM_LOCATION_TYPE_DEVICE && hint_link(at) < 0;
}

static CUresult
hint_check(CUdeviceptr ptr, size_t count, const CUmemLocation *to, unsigned flags)
{
    CUresult r = hint_range(ptr, count);

    if (r == CUDA_SUCCESS && flags)
        return CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS && hint_place_is_wrong(to) ? CUDA_ERROR_INVALID_DEVICE : r;
}

static uint32_t
hint_stream_link(CUstream stream)
{
    uint64_t id = (uintptr_t)stream;

    return id > 2 ? wire_handle_link(id) : stub_link_here()->number;
}

/* The content is copied to the device that wants it; a device without room for it
 * goes without, and so does one whose server has no context yet to copy in. */
static void
hint_bring(uint32_t link)
{
    bool alive;

    if (stub_ctx_push_on(link, 0, &alive) < 0)
        return;
    if (alive)
        stub_managed_carry();
    stub_ctx_pop();
}

/* ---- prefetches ------------------------------------------------------------- */

static bool
hint_prefetch(CUresult *ret, CUdeviceptr ptr, size_t count, const CUmemLocation *to,
              unsigned flags, CUstream stream)
{
    int link = hint_link(to);
    uint32_t home;

    if (!hint_is_shared(ptr, &home) ||
        (hint_stream_link(stream) == home && (link < 0 || (uint32_t)link == home)))
        return false;
    *ret = hint_check(ptr, count, to, flags);
    if (*ret == CUDA_SUCCESS && link >= 0)
        hint_bring((uint32_t)link);
    return true;
}

bool
stub_multi_cuMemPrefetchAsync(CUresult *ret, CUdeviceptr devPtr, size_t count,
                              CUdevice dstDevice, CUstream hStream, bool per_thread)
{
    CUmemLocation to = hint_place(dstDevice);

    (void)per_thread;
    return hint_prefetch(ret, devPtr, count, &to, 0, hStream);
}

bool
stub_multi_cuMemPrefetchAsync_v2(CUresult *ret, CUdeviceptr devPtr, size_t count,
                                 CUmemLocation location, unsigned int flags,
                                 CUstream hStream, bool per_thread)
{
    (void)per_thread;
    return hint_prefetch(ret, devPtr, count, &location, flags, hStream);
}

/* What can be judged here is judged at once, as a driver does: the stream first. */
static CUresult
hint_result(CUdeviceptr ptr, size_t count, const CUmemLocation *to, unsigned flags,
            CUstream stream, bool per_thread)
{
    struct stub_memory m;
    uint64_t id;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(stream, per_thread, &id);
    return r == CUDA_SUCCESS && stub_memory_find(ptr, &m)
               ? hint_check(ptr, count, to, flags)
               : r;
}

CUresult
stub_impl_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                             CUstream hStream, bool per_thread)
{
    CUmemLocation to = hint_place(dstDevice);
    CUresult r = hint_result(devPtr, count, &to, 0, hStream, per_thread);

    if (r == CUDA_SUCCESS && to.type == CU_MEM_LOCATION_TYPE_DEVICE)
        stub_managed_prefetch(devPtr, count);
    return r == CUDA_SUCCESS ? stub_gen_cuMemPrefetchAsync(devPtr, count, dstDevice,
                                                           hStream, per_thread)
                             : r;
}

CUresult
stub_impl_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count,
                                CUmemLocation location, unsigned int flags,
                                CUstream hStream, bool per_thread)
{
    CUresult r = hint_result(devPtr, count, &location, flags, hStream, per_thread);

    if (r == CUDA_SUCCESS && location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        stub_managed_prefetch(devPtr, count);
    return r == CUDA_SUCCESS ? stub_gen_cuMemPrefetchAsync_v2(
                                   devPtr, count, location, flags, hStream, per_thread)
                             : r;
}

/* ---- advice ----------------------------------------------------------------- */

static bool
hint_advise(CUresult *ret, CUdeviceptr ptr, size_t count, CUmem_advise advice,
            const CUmemLocation *at)
{
    int link = hint_link(at);
    uint32_t home;

    if (!hint_is_shared(ptr, &home) || link < 0 || (uint32_t)link == home)
        return false;
    *ret = hint_range(ptr, count);
    if (*ret == CUDA_SUCCESS && (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
                                 advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
        *ret = CUDA_ERROR_INVALID_VALUE;
    return true;
}

bool
stub_multi_cuMemAdvise(CUresult *ret, CUdeviceptr devPtr, size_t count,
                       CUmem_advise advice, CUdevice device)
{
    CUmemLocation at = hint_place(device);

    return hint_advise(ret, devPtr, count, advice, &at);
}

bool
stub_multi_cuMemAdvise_v2(CUresult *ret, CUdeviceptr devPtr, size_t count,
                          CUmem_advise advice, CUmemLocation location)
{
    return hint_advise(ret, devPtr, count, advice, &location);
}

/* A stream of another server cannot own it, but the host may write all other memory
 * from now on. */
bool
stub_multi_cuStreamAttachMemAsync(CUresult *ret, CUstream hStream, CUdeviceptr dptr,
                                  size_t length, unsigned int flags, bool per_thread)
{
    uint32_t home;

    (void)length;
    (void)per_thread;
    if (!hint_is_shared(dptr, &home) || hint_stream_link(hStream) == home)
        return false;
    *ret = flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
                   flags != CU_MEM_ATTACH_SINGLE
               ? CUDA_ERROR_INVALID_VALUE
               : stub_enter();
    if (*ret == CUDA_SUCCESS)
        stub_managed_attached();
    return true;
}
