/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: reserved addresses, physical memory, and mappings
 * of one onto the other.
 *
 * Physical memory is a memory file, so that it can be mapped several times and
 * handed to another process as a descriptor.  It is charged to its card from
 * cuMemCreate until the last handle and the last mapping are gone.  Lock held
 * for everything here.
 */
#include "gp_fsize.h"
#include "sg_card.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_mem.h"
#include "sg_notice.h"
#include "sg_stream.h"
#include "sg_va.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VMM_GRANULE = 2 << 20, /* as on real cards */
};

#define PHYS_NAME "softgpu-memory-"

struct sg_phys {
    uint64_t handle;
    unsigned handles, mappings;
    int fd;
    uint64_t size;
    struct sg_dev *dev;
    CUmemAllocationProp prop;
    bool charged; /* imported memory is charged where it was made */
};

struct reservation {
    struct reservation *next;
    uint64_t base, size;
    bool foreign; /* outside of the arena */
};

static struct sg_va vmm_va;
static struct reservation *reservations;

/* ------------------------------------------------------------------- addresses */

static int
va_ready(void)
{
    uint64_t base = SG_VMM_BASE, size = SG_VMM_SIZE;

    sg_dev_slot(&base, &size);
    return vmm_va.free ? 0 : sg_va_init(&vmm_va, base, size);
}

static int
hold_range(uint64_t base, uint64_t size, int extra)
{
    void *p = mmap((void *)(uintptr_t)base, size, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra, -1, 0);

    return p == (void *)(uintptr_t)base ? 0 : -errno;
}

static bool
is_granular(uint64_t v)
{
    return v % VMM_GRANULE == 0;
}

static void
give_range(const struct reservation *r)
{
    if (!r->foreign)
        sg_va_give(&vmm_va, r->base, r->size);
}

/* Outside of the arena whatever is free in the process can be had. */
static bool
place_at(struct reservation *r, uint64_t hint)
{
    r->base = hint;
    r->foreign = hint < vmm_va.base || hint - vmm_va.base >= vmm_va.size;
    if (!r->foreign && sg_va_take_at(&vmm_va, hint, r->size) < 0)
        return false;
    if (hold_range(hint, r->size, MAP_FIXED_NOREPLACE) == 0)
        return true;
    give_range(r);
    return false;
}

/* A hint is one: another place is fine. */
static int
place_range(struct reservation *r, uint64_t hint, uint64_t alignment)
{
    if (hint && hint % alignment == 0 && place_at(r, hint))
        return 0;
    r->foreign = false;
    r->base = sg_va_take(&vmm_va, r->size, alignment);
    if (!r->base)
        return -ENOMEM;
    if (hold_range(r->base, r->size, MAP_FIXED_NOREPLACE) == 0)
        return 0;
    give_range(r);
    return -ENOMEM;
}

SG_CALL(cuMemAddressReserve, CUdeviceptr *ptr, size_t size, size_t alignment,
        CUdeviceptr addr, unsigned long long flags)
{
    struct reservation *r;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!ptr || !size || !is_granular(size) || flags || (alignment & (alignment - 1)))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    r = calloc(1, sizeof(*r));
    if (!r || va_ready() < 0) {
        free(r);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    r->size = size;
    if (place_range(r, addr, gp_max(alignment, (size_t)VMM_GRANULE)) < 0) {
        free(r);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    r->next = reservations;
    reservations = r;
    *ptr = r->base;
    return sg_leave(CUDA_SUCCESS);
}

static struct reservation *
reservation_of(uint64_t base, uint64_t size)
{
    for (struct reservation *r = reservations; r; r = r->next)
        if (base >= r->base && size <= r->size && base - r->base <= r->size - size)
            return r;
    return NULL;
}

/* The first mapping that touches [base, base + size). */
static struct sg_alloc *
mapping_in(uint64_t base, uint64_t size)
{
    for (uint64_t at = base; at < base + size; at += VMM_GRANULE) {
        struct sg_alloc *a = sg_mem_find(at);

        if (a)
            return a;
    }
    return NULL;
}

SG_CALL(cuMemAddressFree, CUdeviceptr ptr, size_t size)
{
    struct reservation **p = &reservations, *r;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    while (*p && ((*p)->base != ptr || (*p)->size != size))
        p = &(*p)->next;
    r = *p;
    if (!r || mapping_in(ptr, size))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *p = r->next;
    munmap((void *)(uintptr_t)r->base, r->size);
    give_range(r);
    free(r);
    return sg_leave(CUDA_SUCCESS);
}

/* ------------------------------------------------------------- physical memory */

static void
phys_check(struct sg_phys *phys)
{
    if (phys->handles || phys->mappings)
        return;
    if (phys->charged) {
        sg_card_uncharge(phys->dev->card, phys->size);
        sg_notice_gave(phys->dev, phys->size);
    }
    close(phys->fd);
    free(phys);
}

/* Takes over @fd, also on failure. */
static CUresult
phys_new(struct sg_dev *dev, int fd, uint64_t size, const CUmemAllocationProp *prop,
         bool charge, struct sg_phys **ret_phys)
{
    struct sg_phys *phys = calloc(1, sizeof(*phys));

    if (phys)
        phys->handle = sg_handle_new(SG_KIND_PHYS, phys);
    if (!phys || !phys->handle || (charge && sg_card_charge(dev->card, size) < 0)) {
        if (phys)
            sg_handle_drop(phys->handle);
        free(phys);
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    phys->handles = 1;
    phys->fd = fd;
    phys->size = size;
    phys->dev = dev;
    phys->prop = *prop;
    phys->charged = charge;
    if (charge)
        sg_notice_took(dev, size);
    *ret_phys = phys;
    return CUDA_SUCCESS;
}

static CUresult
check_prop(const CUmemAllocationProp *prop)
{
    if (prop && prop->type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sg_dev_get(prop->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_WIN32)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)prop->requestedHandleTypes &
        ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

/* The name of the memory file says which card it is on: an importer has nothing else.
 */
static int
phys_file(const struct sg_dev *dev, uint64_t size)
{
    char name[64] = PHYS_NAME;
    CLEANUP_FD int fd = -1;
    int r;

    for (unsigned i = 0; i < sizeof(dev->uuid); i++)
        snprintf(name + strlen(PHYS_NAME) + 2 * i, 3, "%02x", dev->uuid[i]);
    fd = memfd_create(name, MFD_CLOEXEC);
    r = fd < 0 ? -errno : gp_fsize_resize(fd, size);
    return r < 0 ? r : TAKE_FD(fd);
}

/* NULL: it is no such file. */
static struct sg_dev *
phys_file_card(int fd)
{
    static const char start[] = "/memfd:" PHYS_NAME;
    char link[32], target[128] = "";
    uint8_t uuid[16];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof(target) - 1) < 0 ||
        strncmp(target, start, sizeof(start) - 1) != 0)
        return NULL;
    for (unsigned i = 0; i < sizeof(uuid); i++)
        if (sscanf(target + sizeof(start) - 1 + 2 * i, "%2hhx", &uuid[i]) != 1)
            return NULL;
    return sg_dev_by_uuid(uuid);
}

SG_CALL(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size,
        const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct sg_phys *phys;
    CUresult rc = sg_enter_init();
    int fd;

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = !handle || flags || !size || !is_granular(size) ? CUDA_ERROR_INVALID_VALUE
                                                         : check_prop(prop);
    if (rc != CUDA_SUCCESS)
        return sg_leave(rc);
    fd = phys_file(sg_dev_get(prop->location.id), size);
    if (fd < 0)
        return sg_leave(fd == -EMFILE || fd == -ENFILE ? CUDA_ERROR_OPERATING_SYSTEM
                                                       : CUDA_ERROR_OUT_OF_MEMORY);
    rc = phys_new(sg_dev_get(prop->location.id), fd, size, prop, true, &phys);
    if (rc == CUDA_SUCCESS)
        *handle = phys->handle;
    return sg_leave(rc);
}

static CUresult
enter_phys(CUmemGenericAllocationHandle handle, struct sg_phys **ret_phys)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_phys = sg_handle_get(SG_KIND_PHYS, handle);
    return *ret_phys ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuMemRelease, CUmemGenericAllocationHandle handle)
{
    struct sg_phys *phys;
    CUresult rc = enter_phys(handle, &phys);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (--phys->handles == 0) {
        sg_handle_drop(phys->handle);
        phys->handle = 0;
        phys_check(phys);
    }
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *addr)
{
    struct sg_alloc *alloc;
    struct sg_phys *phys;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find((uintptr_t)addr);
    if (!handle || !alloc || !alloc->phys)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    phys = alloc->phys;
    if (!phys->handle)
        phys->handle = sg_handle_new(SG_KIND_PHYS, phys);
    if (!phys->handle)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    phys->handles++;
    *handle = phys->handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemGetAllocationGranularity, size_t *granularity,
        const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = !granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
             ? CUDA_ERROR_INVALID_VALUE
             : check_prop(prop);
    if (rc == CUDA_SUCCESS)
        *granularity = VMM_GRANULE;
    return sg_leave(rc);
}

SG_CALL(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *prop,
        CUmemGenericAllocationHandle handle)
{
    struct sg_phys *phys;
    CUresult rc = enter_phys(handle, &phys);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!prop)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *prop = phys->prop;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemExportToShareableHandle, void *shareableHandle,
        CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
        unsigned long long flags)
{
    struct sg_phys *phys;
    CUresult rc = enter_phys(handle, &phys);
    int fd;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!shareableHandle || flags ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(phys->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    fd = fcntl(phys->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return sg_leave(CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(shareableHandle, &fd, sizeof(fd));
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle,
        void *osHandle, CUmemAllocationHandleType shHandleType)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    struct sg_phys *phys;
    struct sg_dev *dev;
    struct stat st;
    CUresult rc = sg_enter_init();
    int fd;

    if (rc != CUDA_SUCCESS)
        return rc;
    fd = (int)(intptr_t)osHandle;
    if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        !is_granular((uint64_t)st.st_size))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    dev = phys_file_card(fd);
    if (!dev)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    prop.location.id = dev->ordinal;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return sg_leave(CUDA_ERROR_OPERATING_SYSTEM);
    rc = phys_new(dev, fd, (uint64_t)st.st_size, &prop, false, &phys);
    if (rc == CUDA_SUCCESS)
        *handle = phys->handle;
    return sg_leave(rc);
}

/* -------------------------------------------------------------------- mappings */

SG_CALL(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset,
        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct sg_alloc *alloc;
    struct sg_phys *phys;
    CUresult rc = enter_phys(handle, &phys);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (flags || !size || !is_granular(ptr) || !is_granular(size) ||
        !is_granular(offset) || size > phys->size || offset > phys->size - size ||
        !reservation_of(ptr, size) || mapping_in(ptr, size))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (mmap((void *)(uintptr_t)ptr, size, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, phys->fd, (off_t)offset) == MAP_FAILED)
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    rc = sg_mem_new_foreign(NULL, phys->dev, ptr, size, SG_MEM_MAPPED, &alloc);
    if (rc != CUDA_SUCCESS) {
        hold_range(ptr, size, MAP_FIXED);
        return sg_leave(rc);
    }
    alloc->phys = phys;
    alloc->phys_offset = offset;
    alloc->handle_types = (uint64_t)phys->prop.requestedHandleTypes;
    alloc->internal = true; /* cuMemFree may not touch it */
    phys->mappings++;
    return sg_leave(CUDA_SUCCESS);
}

/* True when mappings fill [base, base + size) without remainder. */
static bool
is_whole(uint64_t base, uint64_t size)
{
    uint64_t end = base + size;

    while (base < end) {
        struct sg_alloc *a = sg_mem_find(base);

        if (!a || a->kind != SG_MEM_MAPPED || a->base != base || a->size > end - base)
            return false;
        base += a->size;
    }
    return true;
}

SG_CALL(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
    CUresult rc = sg_enter_init();
    struct sg_alloc *alloc;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!size || !is_granular(ptr) || !is_granular(size) || ptr + size < ptr)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    sg_streams_synchronize_all(); /* queued copies may still go there */
    if (!is_whole(ptr, size))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (uint64_t at = ptr; at < ptr + size;) {
        struct sg_phys *phys;
        uint64_t len;

        alloc = sg_mem_find(at);
        if (!alloc || alloc->base != at) /* the lock is dropped in between */
            break;
        phys = alloc->phys;
        len = alloc->size;
        sg_mem_free(alloc);
        hold_range(at, len, MAP_FIXED);
        phys->mappings--;
        phys_check(phys);
        at += len;
    }
    return sg_leave(CUDA_SUCCESS);
}

static CUresult
set_access(struct sg_alloc *alloc, const CUmemAccessDesc *desc)
{
    unsigned bit = 1u << desc->location.id;

    alloc->accessed_by &= ~bit;
    alloc->written_by &= ~bit;
    if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        alloc->accessed_by |= bit;
    if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        alloc->written_by |= bit;
    alloc->access = alloc->written_by    ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                    : alloc->accessed_by ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sg_mem_reshow(alloc);
}

SG_CALL(cuMemSetAccess, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
        size_t count)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!desc || !count || !size || ptr + size < ptr || !is_whole(ptr, size))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
             desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
             desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
            return sg_leave(CUDA_ERROR_INVALID_VALUE);
        if (!sg_dev_get(desc[i].location.id))
            return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    for (size_t i = 0; i < count && rc == CUDA_SUCCESS; i++) {
        for (uint64_t at = ptr; at < ptr + size && rc == CUDA_SUCCESS;) {
            struct sg_alloc *alloc = sg_mem_find(at);

            if (!alloc || alloc->base != at)
                return sg_leave(CUDA_ERROR_INVALID_VALUE);
            at += alloc->size;
            rc = set_access(alloc, &desc[i]);
        }
    }
    return sg_leave(rc);
}

SG_CALL(cuMemGetAccess, unsigned long long *flags, const CUmemLocation *location,
        CUdeviceptr ptr)
{
    struct sg_alloc *alloc;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    alloc = sg_mem_find(ptr);
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sg_dev_get(location->id) || !alloc || alloc->kind != SG_MEM_MAPPED)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *flags =
        alloc->written_by & (1u << location->id)    ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        : alloc->accessed_by & (1u << location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sg_leave(CUDA_SUCCESS);
}
