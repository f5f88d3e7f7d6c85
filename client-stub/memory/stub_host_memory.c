/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked host memory: plain memory of this process, entered in the registry.
 *
 * It is not page-locked for any device, since the devices are elsewhere; being in the
 * registry makes copies from and to it asynchronous where CUDA promises that.  Over
 * shared memory the worker maps it as well (stub_pinned.h), and kernels use it in
 * place.  Otherwise the server has pages of its own, at the same address
 * (stub_unified.h), for memory whose address was given to a device; changes are carried
 * between them (stub_managed.h). Registered memory has another address there, which the
 * program queries.
 *
 * Memory and registrations belong to the context that made them, and so does what the
 * servers have of them, whoever asked for its address: all of it ends with the context.
 */
#include "stub_host_memory.h"

#include "cuda_api.h"
#include "gp_lock.h"
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_ctx.h"
#include "stub_handle.h"
#include "stub_hooks.h"
#include "stub_hostfn.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_pinned.h"
#include "stub_registered.h"
#include "stub_result.h"
#include "stub_sticky.h"
#include "stub_stream.h"
#include "stub_unified.h"
#include "wire_api.h"
#include "xport.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HOST_FLAGS                                                                     \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                            \
     CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                 \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                      \
     CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

static CUresult
host_enter(void)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &ctx);
    return r == CUDA_SUCCESS ? stub_sticky_result() : r;
}

/* RDMA may keep the memory registered until it is freed. */
static void
host_pin(const void *p, size_t size)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        if (stub_links[i].conn)
            xport_pin(stub_links[i].conn, p, size);
}

static void
host_unpin(const void *p)
{
    for (uint32_t i = 0; i < stub_links_n; i++)
        if (stub_links[i].conn)
            xport_unpin(stub_links[i].conn, p);
}

/* The address is the card's as well where that can be (stub_unified.h). */
static void *
host_map(size_t size, uint32_t *ret_number, enum stub_memory_reach *ret_reach)
{
    bool unified = stub_unified_open();
    void *p = stub_pinned_new(size, ret_number, ret_reach);

    if (!p && unified) {
        p = stub_unified_map(size, -1);
        *ret_reach = p ? STUB_REACH_WAITING : STUB_REACH_NONE;
    }
    if (!p)
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                 0);
    return p == MAP_FAILED ? NULL : p;
}

static void
host_give_back(const struct stub_memory *m)
{
    if (m->reach == STUB_REACH_NONE)
        munmap((void *)(uintptr_t)m->range.start, m->mapped);
    else
        stub_unified_release(m->range.start, m->mapped);
    if (m->pinned)
        stub_pinned_drop(m->pinned_link, m->pinned);
}

CUresult
stub_impl_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CUresult r = host_enter();
    struct stub_memory m = {.reach = STUB_REACH_NONE};
    void *p;

    if (r != CUDA_SUCCESS)
        return r;
    if (!pp || bytesize == 0 || Flags & ~HOST_FLAGS || bytesize > SIZE_MAX / 2)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_capture_check();
    if (r != CUDA_SUCCESS)
        return r;
    m.mapped = GP_ALIGN_UP(bytesize, 4096);
    p = host_map(m.mapped, &m.pinned, &m.reach);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m.range.start = (uintptr_t)p;
    m.pinned_link = stub_link_here()->number;
    if (stub_memory_add_pinned((uintptr_t)p, bytesize, Flags, m.mapped, m.pinned,
                               m.reach) < 0) {
        host_give_back(&m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    host_pin(p, bytesize);
    *pp = p;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return stub_impl_cuMemHostAlloc(pp, bytesize, 0);
}

void
stub_host_memory_end(const struct stub_memory *m)
{
    if (m->kind == STUB_MEMORY_REGISTERED)
        atomic_fetch_sub(&stub_registered_count, 1);
    host_unpin((void *)(uintptr_t)m->range.start);
    if (m->kind == STUB_MEMORY_HOST)
        host_give_back(m);
}

_Atomic uint32_t stub_host_memory_in_graphs;

static void
wait_in_context(uint64_t handle, void *data, void *ret_captured)
{
    struct stub_ctx *ctx = data;
    bool alive, captured = false;

    if (!ctx || !atomic_load(&ctx->alive) ||
        stub_ctx_push_on(wire_handle_link(handle), wire_handle_index(handle), &alive) <
            0)
        return;
    if (alive)
        stub_ctx_synchronize_uncaptured(&captured);
    if (captured)
        *(bool *)ret_captured = true;
    stub_ctx_pop();
}

/* Memory that was freed while a stream was captured: graphs that were launched before
 * may still have to copy from it or to it, and functions to write it.  It stays until a
 * later free has waited. */
struct host_kept {
    struct stub_memory memory;
    struct host_kept *next;
};

static struct {
    struct gp_lock lock;
    struct host_kept *first;
} kept;

static void
host_kept_end(struct host_kept *k)
{
    while (k) {
        struct host_kept *next = k->next;

        stub_host_memory_end(&k->memory);
        free(k);
        k = next;
    }
}

/* @m and those that were kept before it.  Without memory to note @m, it stays for
 * ever. */
static void
host_keep(const struct stub_memory *m, struct host_kept *before)
{
    struct host_kept *k = malloc(sizeof(*k)), **end;

    if (k) {
        *k = (struct host_kept){*m, before};
        before = k;
    }
    gp_lock_take(&kept.lock);
    for (end = &kept.first; *end; end = &(*end)->next)
        ;
    *end = before;
    gp_lock_release(&kept.lock);
}

static struct host_kept *
host_kept_take(void)
{
    struct host_kept *first;

    gp_lock_take(&kept.lock);
    first = kept.first;
    kept.first = NULL;
    gp_lock_release(&kept.lock);
    return first;
}

/* Work that may still use the memory is waited for, whatever context it is of, as a
 * driver does: that of cards, copies of graphs, whose bytes this process sends and
 * takes when the graph gets there, and functions of the program.  In a capture that
 * would be an error; there the worker waits for cards, and false says that what runs in
 * this process was not waited for. */
static bool
host_wait(const struct stub_memory *m)
{
    bool ours = atomic_load(&stub_host_memory_in_graphs) != 0 ||
                atomic_load(&stub_hostfn_of_program) != 0;
    bool captured = false;

    if (m->reach == STUB_REACH_SHARED || m->reach == STUB_REACH_MOVED || ours)
        stub_handle_each(WIRE_KIND_CTX, wait_in_context, &captured);
    return !ours || !captured;
}

void
stub_host_memory_hide(const struct stub_memory *shown)
{
    uint64_t skip = shown->range.start % 4096;

    stub_unified_release(shown->range.start - skip, skip + shown->range.size);
}

/* Of registered memory, in the context of the memory: that one's server made it. */
static void
host_hide(const struct stub_memory *m, CUdeviceptr dev)
{
    struct stub_ctx *ctx = stub_ctx_get((CUcontext)(uintptr_t)m->ctx);
    struct stub_memory shown;

    if (stub_unified_holds(dev)) {
        if (stub_memory_remove(dev, STUB_MEMORY_DEVICE, &shown))
            stub_host_memory_hide(&shown);
    } else if (ctx && stub_ctx_push(ctx) == 0) {
        stub_impl_cuMemFree_v2(dev);
        stub_ctx_pop();
    }
}

/* The copy at the server, if there is one, goes first. */
static void
host_unmap(const struct stub_memory *m)
{
    uint64_t p = m->range.start;
    CUdeviceptr dev = stub_managed_device(p);

    if (!dev)
        return;
    stub_managed_sync();
    stub_managed_drop(p);
    if (dev != p)
        host_hide(m, dev);
}

/* Sends from the memory are complete when the sending call returns; copies that are
 * still in flight to it are waited for.  NULL is freed as free(3) does it: the runtime
 * passes on what cudaMallocHost() of no bytes gave. */
CUresult
stub_impl_cuMemFreeHost(void *p)
{
    struct host_kept *before;
    struct stub_memory m;
    bool waited;
    CUresult r = p ? host_enter() : stub_enter(); /* nothing needs no context */

    if (r != CUDA_SUCCESS)
        return r;
    if (!p)
        return stub_sticky_result();
    r = stub_capture_check();
    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_memory_remove((uintptr_t)p, STUB_MEMORY_HOST, &m))
        return CUDA_ERROR_INVALID_VALUE;
    before = host_kept_take();
    waited = host_wait(&m);
    stub_hooks_drain(p, m.range.size);
    host_unmap(&m);
    if (waited) {
        stub_host_memory_end(&m);
        host_kept_end(before);
        return CUDA_SUCCESS;
    }
    host_keep(&m, before);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    CUresult r = host_enter();
    int e;

    if (r != CUDA_SUCCESS)
        return r;
    if (!p || bytesize == 0 || Flags & ~REGISTER_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return stub_unsupported(WIRE_CALL_cuMemHostRegister_v2);
    r = stub_capture_check();
    if (r != CUDA_SUCCESS)
        return r;
    e = stub_memory_add(STUB_MEMORY_REGISTERED, (uintptr_t)p, bytesize, Flags, 0);
    if (e == -EEXIST)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (e == 0) {
        atomic_fetch_add(&stub_registered_count, 1);
        host_pin(p, bytesize);
    }
    return stub_result_errno(e);
}

CUresult
stub_impl_cuMemHostUnregister(void *p)
{
    struct stub_memory m;
    CUresult r = host_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_capture_check();
    if (r != CUDA_SUCCESS)
        return r;
    /* While it is known that the memory is registered, and so may be unmapped. */
    if (stub_memory_find((uintptr_t)p, &m) && m.kind == STUB_MEMORY_REGISTERED)
        stub_hooks_drain(p, m.range.size);
    if (!stub_memory_remove((uintptr_t)p, STUB_MEMORY_REGISTERED, &m))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    host_wait(&m); /* beside a capture it is the program that keeps the memory */
    stub_hooks_drain(p, m.range.size);
    host_unmap(&m);
    stub_host_memory_end(&m);
    return CUDA_SUCCESS;
}

static bool
host_find(const void *p, struct stub_memory *ret)
{
    return stub_memory_find((uintptr_t)p, ret) &&
           (ret->kind == STUB_MEMORY_HOST || ret->kind == STUB_MEMORY_REGISTERED);
}

CUresult
stub_impl_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct stub_memory m;
    CUresult r = host_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!pFlags || !host_find(p, &m))
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = m.flags;
    if (m.kind == STUB_MEMORY_HOST) /* with unified addressing the card has all of it */
        *pFlags |= CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

/* The address of other memory than ours begins at the same place in a page. */
static CUresult
host_show_other(const struct stub_memory *m, CUdeviceptr *ret)
{
    uint64_t skip = m->range.start % 4096, size = skip + m->range.size;
    uint64_t base = stub_unified_hold(size);
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    if (base && stub_memory_add(STUB_MEMORY_DEVICE, base + skip, m->range.size,
                                STUB_MEMORY_EVERYWHERE, 0) == 0) {
        r = stub_managed_add_pages(base + skip, m->range.start, m->range.size);
        if (r != CUDA_SUCCESS)
            stub_memory_remove(base + skip, STUB_MEMORY_DEVICE, NULL);
    }
    if (r == CUDA_SUCCESS)
        *ret = base + skip;
    else if (base)
        stub_unified_release(base, size);
    return r;
}

static CUresult
host_show_here(const struct stub_memory *m, CUdeviceptr *ret)
{
    if (m->reach != STUB_REACH_NONE) {
        *ret = m->range.start;
        stub_memory_want(m->range.start);
        return stub_managed_adopt();
    }
    if (m->kind == STUB_MEMORY_REGISTERED && stub_unified_open())
        return host_show_other(m, ret);
    return stub_alloc_mapped(ret, (void *)(uintptr_t)m->range.start, m->range.size);
}

/* Provides memory for it at the server, now: once the program has queried the
 * pointer, it may pass it to the device in any form.  In the context of the memory,
 * with which it ends.  The program only asks, which no capture forbids; so none forbids
 * the allocation that the answer takes. */
static CUresult
host_show(const struct stub_memory *m, CUdeviceptr *ret)
{
    struct stub_ctx *ctx = stub_ctx_get((CUcontext)(uintptr_t)m->ctx);
    uint32_t mode;
    CUresult r;

    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE; /* ended meanwhile */
    if (stub_ctx_push(ctx) < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mode = stub_tls_relax();
    r = host_show_here(m, ret);
    stub_tls_restore(mode);
    stub_ctx_pop();
    return r;
}

CUresult
stub_impl_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct stub_memory m;
    CUdeviceptr base;
    CUresult r = host_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!pdptr || Flags || !host_find(p, &m))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = stub_managed_device((uintptr_t)p);
    if (*pdptr)
        return CUDA_SUCCESS;
    stub_hooks_drain((void *)(uintptr_t)m.range.start, m.range.size);
    if (m.reach == STUB_REACH_SHARED) {
        *pdptr = (uintptr_t)p;
        return CUDA_SUCCESS;
    }
    r = host_show(&m, &base);
    if (r == CUDA_SUCCESS)
        *pdptr = base + ((uintptr_t)p - m.range.start);
    return r;
}
