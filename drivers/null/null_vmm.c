/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory: address ranges, physical allocations, and their mappings.
 *
 * A physical allocation is a file in memory, mapped wherever the program maps it.
 * Reservations last until the program frees them; for each page only whether something
 * is mapped is known.
 */
#include "null.h"
#include "null_live.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE (UINT64_C(2) << 20)
#define SPACE_MAX                                                                      \
    (UINT64_C(1) << 40) /* of a range, for what is known of each granule */

struct piece {
    int fd;
    uint64_t size;
    unsigned refs; /* of the handle, and of each mapping */
    CUmemAllocationProp prop;
};

struct space {
    struct space *next;
    uint64_t base, size;
    struct piece *mapped[]; /* of each granule */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct space *spaces;

/* Lock held, as in the next four. */
static struct space *
space_find(uint64_t ptr, uint64_t size)
{
    struct space *s = spaces;

    while (s && (ptr - s->base >= s->size || size > s->size - (ptr - s->base)))
        s = s->next;
    return s;
}

static void
piece_unref(struct piece *piece)
{
    if (--piece->refs)
        return;
    null_live_leave(piece);
    close(piece->fd);
    free(piece);
}

/* NULL: it is none, or gone. */
static struct piece *
piece_get(CUmemGenericAllocationHandle handle)
{
    struct piece *piece = (struct piece *)(uintptr_t)handle;

    return null_live_is(piece, NULL_LIVE_PIECE) ? piece : NULL;
}

static bool
space_map(struct space *s, uint64_t ptr, uint64_t size, uint64_t offset,
          struct piece *piece)
{
    uint64_t first = (ptr - s->base) / GRANULE, n = size / GRANULE;

    for (uint64_t i = first; i < first + n; i++)
        if (s->mapped[i])
            return false;
    if (mmap((void *)(uintptr_t)ptr, size, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, piece->fd, (off_t)offset) == MAP_FAILED)
        return false;
    for (uint64_t i = first; i < first + n; i++)
        s->mapped[i] = piece;
    piece->refs += (unsigned)n;
    return true;
}

static void
space_unmap(struct space *s, uint64_t ptr, uint64_t size)
{
    uint64_t first = (ptr - s->base) / GRANULE, n = size / GRANULE;

    mmap((void *)(uintptr_t)ptr, size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (uint64_t i = first; i < first + n; i++)
        if (s->mapped[i]) {
            piece_unref(s->mapped[i]);
            s->mapped[i] = NULL;
        }
}

bool
null_vmm_holds(uint64_t ptr, uint64_t size)
{
    const struct space *s;
    bool ok;

    pthread_mutex_lock(&lock);
    s = space_find(ptr, size);
    ok = s != NULL;
    for (uint64_t at = ptr; ok && at < ptr + size; at = (at / GRANULE + 1) * GRANULE)
        ok = s->mapped[(at - s->base) / GRANULE] != NULL;
    pthread_mutex_unlock(&lock);
    return ok;
}

CUresult
cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                              CUmemAllocationGranularity_flags option)
{
    *granularity = GRANULE;
    return CUDA_SUCCESS;
}

CUresult
cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                    unsigned long long flags)
{
    struct space *s;
    uint8_t *at;

    if (!size || size % GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > SPACE_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s = calloc(1, sizeof(*s) + size / GRANULE * sizeof(s->mapped[0]));
    at = mmap(NULL, size + GRANULE, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!s || at == MAP_FAILED) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->base = GP_ALIGN_UP((uint64_t)(uintptr_t)at, GRANULE);
    s->size = size;
    *ptr = s->base;
    pthread_mutex_lock(&lock);
    s->next = spaces;
    spaces = s;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult
cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    struct space **at = &spaces, *s;

    pthread_mutex_lock(&lock);
    while (*at && ((*at)->base != ptr || (*at)->size != size))
        at = &(*at)->next;
    s = *at;
    if (s) {
        *at = s->next;
        space_unmap(s, s->base, s->size);
        munmap((void *)(uintptr_t)s->base, s->size);
        free(s);
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
            const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct piece *piece = calloc(1, sizeof(*piece));
    int fd = memfd_create("null-memory", MFD_CLOEXEC);

    if (!piece || fd < 0 || !size || size % GRANULE || ftruncate(fd, (off_t)size) < 0 ||
        !null_live_enter(piece, NULL_LIVE_PIECE)) {
        free(piece);
        if (fd >= 0)
            close(fd);
        return size % GRANULE ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *piece = (struct piece){.fd = fd, .size = size, .refs = 1, .prop = *prop};
    *handle = (uintptr_t)piece;
    return CUDA_SUCCESS;
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct piece *piece;

    pthread_mutex_lock(&lock);
    piece = piece_get(handle);
    if (piece)
        piece_unref(piece);
    pthread_mutex_unlock(&lock);
    return piece ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    uint64_t ptr = (uintptr_t)addr;
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    const struct space *s;
    struct piece *piece;

    pthread_mutex_lock(&lock);
    s = space_find(ptr, 1);
    piece = s ? s->mapped[(ptr - s->base) / GRANULE] : NULL;
    if (piece) {
        piece->refs++;
        *handle = (uintptr_t)piece;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                       CUmemGenericAllocationHandle handle)
{
    const struct piece *piece = piece_get(handle);

    if (!piece)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = piece->prop;
    return CUDA_SUCCESS;
}

CUresult
cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct piece *piece = piece_get(handle);
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    struct space *s;

    if (!piece || !size || (ptr | size | offset) % GRANULE || offset > piece->size ||
        size > piece->size - offset)
        return r;
    pthread_mutex_lock(&lock);
    s = space_find(ptr, size);
    if (s && space_map(s, ptr, size, offset, piece))
        r = CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult
cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    struct space *s;

    if (!size || (ptr | size) % GRANULE)
        return r;
    pthread_mutex_lock(&lock);
    s = space_find(ptr, size);
    if (s) {
        space_unmap(s, ptr, size);
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult
cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    return null_vmm_holds(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
               CUdeviceptr ptr)
{
    *flags = null_vmm_holds(ptr, 1) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
