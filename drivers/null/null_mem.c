/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: an arena of host memory with a first-fit list.
 *
 * Pages are touched when they are first handed out, outside of any copy, so that
 * a measured transfer never meets a fresh page; what is freed stays touched.
 */
#include "gp_copy.h"
#include "null.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_SIZE (UINT64_C(64) << 30) /* address space, not memory */
#define ALIGNMENT 512u
#define BLOCKS_MAX 65536u
/* Touched at a time: little, because a process that allocates a few KiB, such as each
 * of a thousand clients, pays for all of it at its start and its end. */
#define TOUCH_BYTES (UINT64_C(1) << 16)
/* Of large allocations in huge pages, where the system has any: a card's memory is not
 * cut into pieces of 4 KiB, and a copy takes up to 10 % more or less by how they follow
 * each other in physical memory. */
#define HUGE_BYTES (UINT64_C(2) << 20)
#define LARGE_BYTES (UINT64_C(16) << 20)

struct block {
    uint64_t at, size; /* offsets in the arena; ordered, not overlapping */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *arena;
static uint64_t touched;
static struct block blocks[BLOCKS_MAX];
static unsigned n_blocks;
static uint64_t in_use;

bool
null_mem_open(void)
{
    if (!arena) {
        void *mem = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        arena = mem == MAP_FAILED ? NULL : mem;
    }
    return arena != NULL;
}

static void
ask_for_huge_pages(uint64_t at, uint64_t size)
{
    uintptr_t begin = GP_ALIGN_UP((uintptr_t)arena + at, (uintptr_t)HUGE_BYTES);
    uintptr_t end = ((uintptr_t)arena + at + size) & ~(uintptr_t)(HUGE_BYTES - 1);

    if (size >= LARGE_BYTES)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

static void
touch(uint64_t end)
{
    if (end <= touched)
        return;
    end = GP_ALIGN_UP(end, TOUCH_BYTES);
    for (uint64_t at = touched; at < end; at += 4096)
        arena[at] = 0;
    touched = end;
}

/* Index of the first block at or behind @at. */
static unsigned
block_lower(uint64_t at)
{
    unsigned lo = 0;
    unsigned hi = n_blocks;

    while (lo < hi) {
        unsigned mid = (lo + hi) / 2;

        if (blocks[mid].at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static CUresult
arena_alloc(CUdeviceptr *ret, uint64_t size)
{
    uint64_t need = GP_ALIGN_UP(size, (uint64_t)ALIGNMENT);
    uint64_t at = 0;
    unsigned i;
    unsigned n;
    uint64_t limit = null_cards(&n)[0].memory;
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&lock);
    for (i = 0; i < n_blocks && blocks[i].at - at < need; i++)
        at = blocks[i].at + blocks[i].size;
    if (arena && n_blocks < BLOCKS_MAX && need <= limit && in_use <= limit - need &&
        at + need <= ARENA_SIZE) {
        memmove(&blocks[i + 1], &blocks[i], (n_blocks - i) * sizeof(blocks[0]));
        blocks[i] = (struct block){at, need};
        n_blocks++;
        in_use += need;
        ask_for_huge_pages(at, need);
        touch(at + need);
        *ret = (CUdeviceptr)(uintptr_t)(arena + at);
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

static CUresult
arena_free(CUdeviceptr ptr)
{
    uint64_t at = ptr - (CUdeviceptr)(uintptr_t)arena;
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    unsigned i;

    pthread_mutex_lock(&lock);
    i = block_lower(at);
    if (i < n_blocks && blocks[i].at == at) {
        in_use -= blocks[i].size;
        n_blocks--;
        memmove(&blocks[i], &blocks[i + 1], (n_blocks - i) * sizeof(blocks[0]));
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

bool
null_mem_holds(CUdeviceptr ptr, uint64_t size)
{
    uint64_t at = ptr - (CUdeviceptr)(uintptr_t)arena;
    bool ok = false;
    unsigned i;

    pthread_mutex_lock(&lock);
    i = block_lower(at + 1);
    if (i > 0) {
        const struct block *b = &blocks[i - 1];

        ok = at - b->at <= b->size && size <= b->size - (at - b->at);
    }
    pthread_mutex_unlock(&lock);
    return ok || null_vmm_holds(ptr, size) || null_host_holds(ptr, size);
}

/* ---- allocation ---- */

CUresult
cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    return bytesize ? arena_alloc(dptr, bytesize) : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                   size_t Height, unsigned int ElementSizeBytes)
{
    (void)ElementSizeBytes;
    *pPitch = GP_ALIGN_UP(WidthInBytes, (size_t)ALIGNMENT);
    return arena_alloc(dptr, *pPitch * Height);
}

CUresult
cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    (void)flags;
    return cuMemAlloc_v2(dptr, bytesize);
}

CUresult
cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    (void)hStream;
    return cuMemAlloc_v2(dptr, bytesize);
}

CUresult
cuMemFree_v2(CUdeviceptr dptr)
{
    return dptr ? arena_free(dptr) : CUDA_SUCCESS;
}

CUresult
cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    (void)hStream;
    return cuMemFree_v2(dptr);
}

CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    unsigned n;

    *total = null_cards(&n)[0].memory;
    *free_bytes = *total - in_use;
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    uint64_t at = dptr - (CUdeviceptr)(uintptr_t)arena;
    unsigned i;

    if (!null_mem_holds(dptr, 1))
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&lock);
    i = block_lower(at + 1) - 1;
    if (pbase)
        *pbase = (CUdeviceptr)(uintptr_t)(arena + blocks[i].at);
    if (psize)
        *psize = blocks[i].size;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

static void *
at(CUdeviceptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

CUresult
cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                     CUstream hStream)
{
    (void)hStream;
    if (!null_mem_holds(dstDevice, ByteCount))
        return CUDA_ERROR_INVALID_VALUE;
    gp_copy(at(dstDevice), srcHost, ByteCount);
    return CUDA_SUCCESS;
}

CUresult
cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, NULL);
}

CUresult
cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                     CUstream hStream)
{
    (void)hStream;
    if (!null_mem_holds(srcDevice, ByteCount))
        return CUDA_ERROR_INVALID_VALUE;
    gp_copy(dstHost, at(srcDevice), ByteCount);
    return CUDA_SUCCESS;
}

CUresult
cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, NULL);
}

CUresult
cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                     CUstream hStream)
{
    (void)hStream;
    if (!null_mem_holds(dstDevice, ByteCount) || !null_mem_holds(srcDevice, ByteCount))
        return CUDA_ERROR_INVALID_VALUE;
    memmove(at(dstDevice), at(srcDevice), ByteCount);
    return CUDA_SUCCESS;
}

CUresult
cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, NULL);
}

CUresult
cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    (void)hStream;
    if (!null_mem_holds(dstDevice, N))
        return CUDA_ERROR_INVALID_VALUE;
    memset(at(dstDevice), uc, N);
    return CUDA_SUCCESS;
}

CUresult
cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return cuMemsetD8Async(dstDevice, uc, N, NULL);
}

CUresult
cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
    (void)hStream;
    if (N > ARENA_SIZE / 4 || !null_mem_holds(dstDevice, N * 4))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < N; i++)
        memcpy((uint8_t *)at(dstDevice) + i * 4, &ui, 4);
    return CUDA_SUCCESS;
}

CUresult
cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return cuMemsetD32Async(dstDevice, ui, N, NULL);
}
