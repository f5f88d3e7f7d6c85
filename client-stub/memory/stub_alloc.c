/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: allocating and freeing it, with its registry entry and its reserved
 * addresses.
 *
 * Allocation waits for the server, because the reply is the address; freeing does not
 * wait.
 */
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_spare.h"
#include "stub_sticky.h"
#include "wire_api.h"

#include <string.h>

/* @wait: the address is not one of ours, so the driver's result is waited for. */
GP_HOT static CUresult
alloc_free(CUdeviceptr dptr, bool wait)
{
    struct wire_cuMemFree_v2_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuMemFree_v2, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->dptr = dptr;
    return wait ? stub_call_post_checked(&c) : stub_call_post_release(&c);
}

/* An address that cannot be entered would be a leak: give it back. */
GP_HOT static CUresult
alloc_finish(enum stub_memory_kind kind, CUdeviceptr *dptr, uint64_t addr,
             uint64_t size, unsigned int flags)
{
    CUresult r = stub_memory_handed_out(kind, addr, size, flags);

    if (unlikely(r != CUDA_SUCCESS)) {
        alloc_free(addr, false);
        return r;
    }
    *dptr = addr;
    return CUDA_SUCCESS;
}

GP_HOT static CUresult
alloc_ask(size_t bytesize, uint64_t *ret_addr)
{
    struct wire_cuMemAlloc_v2_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuMemAlloc_v2, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->bytesize = bytesize;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        *ret_addr = ((const struct wire_cuMemAlloc_v2_rep *)c.reply)->dptr;
    stub_call_end(&c);
    return r;
}

GP_HOT CUresult
stub_impl_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    uint64_t addr = 0;
    bool again = false;
    CUresult r;

    if (!dptr || bytesize == 0) {
        r = stub_ctx_refuse();
        if (dptr && r == CUDA_ERROR_INVALID_VALUE)
            *dptr = 0; /* as a driver leaves it where an allocation fails */
        return r;
    }
    r = stub_capture_check();
    if (r != CUDA_SUCCESS)
        return r;
    r = alloc_ask(bytesize, &addr);
    if (unlikely(r != CUDA_SUCCESS))
        r = stub_spare_make_room(r, &again);
    if (unlikely(again))
        r = alloc_ask(bytesize, &addr);
    if (likely(r == CUDA_SUCCESS))
        return alloc_finish(STUB_MEMORY_DEVICE, dptr, addr, bytesize, 0);
    *dptr = 0;
    return r;
}

CUresult
stub_impl_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                             size_t Height, unsigned int ElementSizeBytes)
{
    struct wire_cuMemAllocPitch_v2_req *req;
    struct wire_cuMemAllocPitch_v2_rep rep;
    struct stub_call c;
    uint64_t size;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr || !pPitch)
        return CUDA_ERROR_INVALID_VALUE;
    r = WidthInBytes && Height ? stub_capture_check() : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        r = stub_call_begin(&c, WIRE_CALL_cuMemAllocPitch_v2, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->WidthInBytes = WidthInBytes;
    req->Height = Height;
    req->ElementSizeBytes = ElementSizeBytes;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        memcpy(&rep, c.reply, sizeof(rep));
    stub_call_end(&c);
    if (r != CUDA_SUCCESS)
        return r;
    if (!gp_mul_ok(rep.pPitch, Height, &size))
        return CUDA_ERROR_INVALID_VALUE;
    *pPitch = rep.pPitch;
    return alloc_finish(STUB_MEMORY_DEVICE, dptr, rep.dptr, size, 0);
}

/* The server's address has to be free here, too; if it is not, managed memory cannot
 * be allocated. */
static CUresult
alloc_share(CUdeviceptr *dptr, uint64_t addr, uint64_t size, unsigned int flags)
{
    CUresult r = alloc_finish(STUB_MEMORY_MANAGED, dptr, addr, size,
                              flags | STUB_MEMORY_EVERYWHERE);

    if (r != CUDA_SUCCESS)
        return r;
    r = stub_managed_add(addr, 0, size);
    if (r != CUDA_SUCCESS)
        stub_impl_cuMemFree_v2(addr);
    return r;
}

/* Ask the server for managed memory, which every card of the session reaches. */
static CUresult
alloc_managed(uint64_t *ret, uint64_t size, unsigned int flags)
{
    struct wire_cuMemAllocManaged_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuMemAllocManaged, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->bytesize = size;
    req->flags = flags;
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        *ret = ((const struct wire_cuMemAllocManaged_rep *)c.reply)->dptr;
    stub_call_end(&c);
    return r;
}

CUresult
stub_alloc_mapped(CUdeviceptr *dptr, void *host, uint64_t size)
{
    uint64_t addr;
    CUresult r = alloc_managed(&addr, size, CU_MEM_ATTACH_GLOBAL);

    if (r == CUDA_SUCCESS)
        r = alloc_finish(STUB_MEMORY_DEVICE, dptr, addr, size, STUB_MEMORY_EVERYWHERE);
    if (r != CUDA_SUCCESS)
        return r;
    r = stub_managed_add(addr, (uintptr_t)host, size);
    if (r != CUDA_SUCCESS)
        stub_impl_cuMemFree_v2(addr);
    return r;
}

CUresult
stub_impl_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    uint64_t addr;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0;
    if (bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_capture_check();
    if (r == CUDA_SUCCESS)
        r = alloc_managed(&addr, bytesize, flags);
    return r == CUDA_SUCCESS ? alloc_share(dptr, addr, bytesize, flags) : r;
}

/* Interior pointers and unknown ones are the driver's to judge. */
static GP_INLINE CUresult
alloc_free_known(CUdeviceptr dptr)
{
    struct stub_memory_end end;

    if (unlikely(!stub_memory_freeing(dptr, true, &end)))
        return alloc_free(dptr, true);
    if (unlikely(end.pool))
        stub_spare_freed(&end);
    if (unlikely(end.kind == STUB_MEMORY_MANAGED)) {
        stub_managed_drop(dptr);
        return alloc_free(dptr, false);
    }
    return alloc_free(dptr, atomic_load(&stub_memory_exported));
}

/* What a capture forbids stays in the registry. */
GP_HOT CUresult
stub_impl_cuMemFree_v2(CUdeviceptr dptr)
{
    CUresult r = stub_enter();

    if (likely(r == CUDA_SUCCESS && dptr))
        r = stub_capture_check();
    return likely(r == CUDA_SUCCESS && dptr) ? alloc_free_known(dptr) : r;
}

/* ---- stream-ordered --------------------------------------------------------- */

/* What the two allocating calls ask for. */
struct alloc_async {
    uint16_t number;
    size_t size;
    CUmemoryPool pool;
    uint64_t stream;
};

/* The address, and the number of the call that asked for it. */
static CUresult
alloc_async_ask(const struct alloc_async *a, uint64_t *ret_addr, uint32_t *ret_seq)
{
    struct wire_cuMemAllocFromPoolAsync_req *pooled;
    struct wire_cuMemAllocAsync_req *plain;
    bool from_pool = a->number == WIRE_CALL_cuMemAllocFromPoolAsync;
    struct stub_call c;
    CUresult r =
        stub_call_begin(&c, a->number, from_pool ? sizeof(*pooled) : sizeof(*plain));

    if (r != CUDA_SUCCESS)
        return r;
    if (from_pool) {
        pooled = c.body;
        *pooled = (struct wire_cuMemAllocFromPoolAsync_req){
            .bytesize = a->size, .pool = (uintptr_t)a->pool, .hStream = a->stream};
    } else {
        plain = c.body;
        *plain = (struct wire_cuMemAllocAsync_req){.bytesize = a->size,
                                                   .hStream = a->stream};
    }
    static_assert(sizeof(struct wire_cuMemAllocAsync_rep) ==
                      sizeof(struct wire_cuMemAllocFromPoolAsync_rep),
                  "both answer with the address");
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS)
        *ret_addr = ((const struct wire_cuMemAllocAsync_rep *)c.reply)->dptr;
    *ret_seq = c.seq;
    stub_call_end(&c);
    return r;
}

static CUresult
alloc_async(const struct alloc_async *a, CUdeviceptr *dptr)
{
    bool wrong = a->number == WIRE_CALL_cuMemAllocFromPoolAsync && !a->pool;
    struct stub_spare_taken spare = {0};
    bool again = false;
    CUresult r = CUDA_SUCCESS;
    uint32_t seq = 0;

    if (!wrong)
        r = stub_spare_take((uintptr_t)a->pool, a->stream, a->size, &spare);
    if (r == CUDA_SUCCESS && !spare.addr) {
        r = alloc_async_ask(a, &spare.addr, &seq);
        if (r != CUDA_SUCCESS)
            r = stub_spare_make_room(r, &again);
        if (again)
            r = alloc_async_ask(a, &spare.addr, &seq);
        stub_spare_answered(spare.pool, r == CUDA_SUCCESS ? a->size : 0, seq);
    }
    if (r == CUDA_SUCCESS)
        r = alloc_finish(STUB_MEMORY_DEVICE, dptr, spare.addr, a->size,
                         STUB_MEMORY_ORDERED);
    if (r == CUDA_SUCCESS && spare.pool)
        stub_memory_set_pool(spare.addr, spare.pool, spare.block);
    return r;
}

static CUresult
alloc_async_in(uint16_t number, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
               CUstream hStream, bool per_thread)
{
    struct alloc_async a = {.number = number, .size = bytesize, .pool = pool};
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(hStream, per_thread, &a.stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0;
    if (!bytesize && (pool || number == WIRE_CALL_cuMemAllocAsync))
        return stub_sticky_result(); /* no bytes: a success, and no address */
    return alloc_async(&a, dptr);
}

CUresult
stub_impl_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream,
                          bool per_thread)
{
    return alloc_async_in(WIRE_CALL_cuMemAllocAsync, dptr, bytesize, NULL, hStream,
                          per_thread);
}

CUresult
stub_impl_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                  CUstream hStream, bool per_thread)
{
    return alloc_async_in(WIRE_CALL_cuMemAllocFromPoolAsync, dptr, bytesize, pool,
                          hStream, per_thread);
}

/* While a capture may forbid it, or make a node of it: the server says which. */
static CUresult
free_async_captured(CUdeviceptr dptr, uint64_t stream)
{
    struct wire_cuMemFreeAsync_req *req;
    struct stub_memory_end end;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuMemFreeAsync, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemFreeAsync_req){.dptr = dptr, .hStream = stream};
    r = stub_call_post_checked(&c);
    if (r == CUDA_SUCCESS && stub_memory_freeing(dptr, false, &end) && end.pool)
        stub_spare_freed(&end);
    return r;
}

CUresult
stub_impl_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream, bool per_thread)
{
    struct wire_cuMemFreeAsync_req *req;
    struct stub_memory_end end;
    struct stub_call c;
    uint64_t stream;
    bool ours;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(hStream, per_thread, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (stub_capture_any() && stub_capture_forbids())
        return free_async_captured(dptr, stream);
    ours = stub_memory_freeing(dptr, false, &end);
    if (ours && end.pool) {
        if (stub_spare_keep(dptr, &end, stream))
            return CUDA_SUCCESS;
        stub_spare_freed(&end);
    }
    r = stub_call_begin(&c, WIRE_CALL_cuMemFreeAsync, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    memset(req, 0, sizeof(*req));
    req->dptr = dptr;
    req->hStream = stream;
    return ours ? stub_call_post(&c) : stub_call_post_checked(&c);
}
