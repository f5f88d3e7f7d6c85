/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges that do not come from allocations: reserved ones, and memory of other
 * processes.  The server chooses the addresses; here they are kept free.
 */
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_range.h"
#include "wire_api.h"

#include <stdlib.h>
#include <string.h>

CUresult
stub_vmm_reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                 unsigned long long flags)
{
    struct wire_cuMemAddressReserve_req *req;
    struct wire_cuMemAddressReserve_rep_view rep = {0};
    struct stub_call c;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!ptr)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuMemAddressReserve, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemAddressReserve_req){
        .size = size, .alignment = alignment, .addr = addr, .flags = flags};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuMemAddressReserve_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuMemAddressReserve);
    if (r == CUDA_SUCCESS)
        *ptr = rep.f->ptr;
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                              CUdeviceptr addr, unsigned long long flags)
{
    CUresult r = stub_vmm_reserve(ptr, size, alignment, addr, flags);

    if (r == CUDA_SUCCESS)
        stub_memory_reserve(*ptr, size);
    return r;
}

CUresult
stub_impl_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    struct wire_cuMemAddressFree_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuMemAddressFree, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemAddressFree_req){.ptr = ptr, .size = size};
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

/* ---- what may be used ------------------------------------------------------- */

struct vmm_range {
    struct stub_range_node node;
};

/* Mapped, and every device that was named may read and write it. */
static struct stub_ranges usable;
static _Atomic bool some_usable;

/* Under the lock. */
static void
usable_end(const struct stub_range *where)
{
    struct stub_range_node *node;

    while ((node = stub_range_touching(&usable, where))) {
        stub_range_remove(&usable, node);
        free(container_of(node, struct vmm_range, node));
    }
}

static void
usable_note(uint64_t start, uint64_t size, bool may)
{
    struct vmm_range *range = may ? malloc(sizeof(*range)) : NULL;
    struct stub_range where = {start, size};
    uint64_t end;

    if (!size || !gp_add_ok(start, size, &end)) {
        free(range);
        return;
    }
    gp_lock_take(&usable.lock);
    usable_end(&where);
    if (range) {
        *range = (struct vmm_range){.node.range = where};
        stub_range_insert(&usable, &range->node);
        atomic_store(&some_usable, true);
    }
    gp_lock_release(&usable.lock);
}

bool
stub_vmm_is_usable(uint64_t addr, uint64_t n)
{
    const struct stub_range_node *node;
    bool is;

    if (!atomic_load_explicit(&some_usable, memory_order_relaxed))
        return false;
    gp_lock_take(&usable.lock);
    node = stub_range_at(&usable, addr);
    is = node && n <= node->range.size - (addr - node->range.start);
    gp_lock_release(&usable.lock);
    return is;
}

CUresult
stub_impl_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                         size_t count)
{
    CUresult r = stub_gen_cuMemSetAccess(ptr, size, desc, count);
    bool may = r == CUDA_SUCCESS && desc;

    for (size_t i = 0; may && i < count; i++)
        may = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    usable_note(ptr, size, may);
    return r;
}

/* ---- what is mapped --------------------------------------------------------- */

/* CUDA promises that a further reference to what is mapped has the handle that was
 * mapped.  So the client counts the references to one handle, in its notes, and the
 * worker has a single one, which ends with the last of them. */
enum vmm_note {
    VMM_NOTE_FURTHER, /* references beside the first */
    VMM_NOTE_MEMORY,  /* the number of the memory, 0: never mapped */
};

struct vmm_mapping {
    struct stub_range_node node;
    struct vmm_mapping *next;            /* of those that are being unmapped */
    CUmemGenericAllocationHandle handle; /* may have ended */
    uint64_t memory; /* its number: handles are used again, numbers are not */
};

/* Its lock also guards the notes, and is held over the calls that make and end
 * references: another thread must not see a handle that is about to end. */
static struct stub_ranges mapped;
static uint64_t memories; /* numbers given; under the lock */

/* An entry without memory is only missing: a further reference has another handle. */
static void
mapped_add(CUdeviceptr ptr, size_t size, CUmemGenericAllocationHandle handle)
{
    const struct stub_range where = {ptr, size};
    struct vmm_mapping *mapping = malloc(sizeof(*mapping));
    _Atomic uint64_t *notes;

    if (!mapping)
        return;
    *mapping = (struct vmm_mapping){.node.range = where, .handle = handle};
    gp_lock_take(&mapped.lock);
    notes = stub_handle_notes(WIRE_KIND_MEMHANDLE, handle);
    if (!notes || stub_range_touching(&mapped, &where)) {
        free(mapping); /* another thread has released it, or mapped at its place */
    } else {
        if (!atomic_load(&notes[VMM_NOTE_MEMORY]))
            atomic_store(&notes[VMM_NOTE_MEMORY], ++memories);
        mapping->memory = atomic_load(&notes[VMM_NOTE_MEMORY]);
        stub_range_insert(&mapped, &mapping->node);
    }
    gp_lock_release(&mapped.lock);
}

/* All references had ended and there is one again: it is of every mapping of the
 * memory.  Under the lock. */
static void
mapped_rename(uint64_t memory, CUmemGenericAllocationHandle handle)
{
    _Atomic uint64_t *notes = stub_handle_notes(WIRE_KIND_MEMHANDLE, handle);
    struct stub_range_node *node = stub_range_from(&mapped, 0);

    if (notes)
        atomic_store(&notes[VMM_NOTE_MEMORY], memory);
    for (; node; node = stub_range_from(&mapped, node->range.start + 1)) {
        struct vmm_mapping *mapping = container_of(node, struct vmm_mapping, node);

        if (mapping->memory == memory)
            mapping->handle = handle;
    }
}

/* Takes the mappings that touch the range out of the set. */
static struct vmm_mapping *
mapped_take(CUdeviceptr ptr, size_t size)
{
    const struct stub_range where = {ptr, size};
    struct vmm_mapping *taken = NULL;
    struct stub_range_node *node;
    uint64_t end;

    if (!size || !gp_add_ok(ptr, size, &end))
        return NULL;
    gp_lock_take(&mapped.lock);
    while ((node = stub_range_touching(&mapped, &where))) {
        struct vmm_mapping *mapping = container_of(node, struct vmm_mapping, node);

        stub_range_remove(&mapped, node);
        mapping->next = taken;
        taken = mapping;
    }
    gp_lock_release(&mapped.lock);
    return taken;
}

/* The end of what mapped_take() took; @gone: it is mapped no more. */
static void
mapped_finish(struct vmm_mapping *taken, bool gone)
{
    struct vmm_mapping *next;

    gp_lock_take(&mapped.lock);
    for (; taken; taken = next) {
        const struct stub_range where = taken->node.range;

        next = taken->next;
        if (gone || stub_range_touching(&mapped, &where))
            free(taken);
        else
            stub_range_insert(&mapped, &taken->node);
    }
    gp_lock_release(&mapped.lock);
}

CUresult
stub_impl_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult r = stub_gen_cuMemMap(ptr, size, offset, handle, flags);

    if (r == CUDA_SUCCESS)
        mapped_add(ptr, size, handle);
    return r;
}

/* Under the lock. */
static CUresult
mapping_retain(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct stub_range_node *node = stub_range_at(&mapped, (uintptr_t)addr);
    struct vmm_mapping *mapping =
        node ? container_of(node, struct vmm_mapping, node) : NULL;
    _Atomic uint64_t *notes =
        mapping ? stub_handle_notes(WIRE_KIND_MEMHANDLE, mapping->handle) : NULL;
    CUresult r;

    if (notes && atomic_load(&notes[VMM_NOTE_MEMORY]) == mapping->memory) {
        atomic_fetch_add(&notes[VMM_NOTE_FURTHER], 1);
        *handle = mapping->handle;
        return CUDA_SUCCESS;
    }
    r = stub_gen_cuMemRetainAllocationHandle(handle, addr);
    if (r == CUDA_SUCCESS && mapping)
        mapped_rename(mapping->memory, *handle);
    return r;
}

CUresult
stub_impl_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    gp_lock_take(&mapped.lock);
    r = mapping_retain(handle, addr);
    gp_lock_release(&mapped.lock);
    return r;
}

CUresult
stub_impl_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult r = CUDA_SUCCESS;
    _Atomic uint64_t *notes;

    gp_lock_take(&mapped.lock);
    notes = stub_handle_notes(WIRE_KIND_MEMHANDLE, handle);
    if (notes && atomic_load(&notes[VMM_NOTE_FURTHER]))
        atomic_fetch_sub(&notes[VMM_NOTE_FURTHER], 1);
    else
        r = stub_gen_cuMemRelease(handle);
    gp_lock_release(&mapped.lock);
    return r;
}

/* Before the call: another thread may have memory there as soon as it is done.  What
 * the driver refuses to unmap is mapped as before. */
CUresult
stub_impl_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct vmm_mapping *taken;
    CUresult r;

    usable_note(ptr, size, false);
    taken = mapped_take(ptr, size);
    r = stub_gen_cuMemUnmap(ptr, size);
    mapped_finish(taken, r == CUDA_SUCCESS);
    return r;
}

/* ---- memory of other processes ---------------------------------------------- */

_Atomic bool stub_memory_exported;

CUresult
stub_impl_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    atomic_store(&stub_memory_exported, true);
    return stub_gen_cuIpcGetMemHandle(pHandle, dptr);
}

/* Only the owner knows the size of what was opened; the driver returns it. */
CUresult
stub_impl_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
                                unsigned int Flags)
{
    struct wire_cuIpcOpenMemHandle_v2_req *req;
    struct wire_cuIpcOpenMemHandle_v2_rep_view rep = {0};
    struct stub_call c;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!pdptr)
        return CUDA_ERROR_INVALID_VALUE;
    static_assert(sizeof(req->handle) == sizeof(handle), "sent as it is");
    r = stub_call_begin(&c, WIRE_CALL_cuIpcOpenMemHandle_v2, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuIpcOpenMemHandle_v2_req){.Flags = Flags};
    memcpy(req->handle, &handle, sizeof(handle));
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuIpcOpenMemHandle_v2_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuIpcOpenMemHandle_v2);
    if (r == CUDA_SUCCESS)
        *pdptr = rep.f->pdptr;
    stub_call_end(&c);
    if (r == CUDA_SUCCESS)
        stub_memory_reserve(*pdptr, 1);
    return r;
}

CUresult
stub_impl_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    struct wire_cuIpcCloseMemHandle_req *req;
    struct stub_call c;
    CUresult r = stub_call_begin(&c, WIRE_CALL_cuIpcCloseMemHandle, sizeof(*req));

    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    req->dptr = dptr;
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

#define RANGE_PAGE 4096u /* of the host's: a descriptor is mapped there */

/* A driver checks the range before it reports whether it has such descriptors. */
CUresult
stub_impl_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                        CUmemRangeHandleType handleType,
                                        unsigned long long flags)
{
    struct stub_ctx *ctx;
    CUresult r = stub_enter();

    (void)flags;
    if (r == CUDA_SUCCESS)
        r = stub_ctx_resolve(NULL, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!handle || !size || (dptr | size) & (RANGE_PAGE - 1) ||
        handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        !stub_memory_is_plausible(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    return stub_unsupported(WIRE_CALL_cuMemGetHandleForAddressRange);
}
