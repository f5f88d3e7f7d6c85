/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of a card that clears nothing: softgpu, but memory of one size is found as
 * whoever freed it last has left it, also by another process.
 *
 * The card's memory between two owners is the file RESIDUE_CARD (test_attacks_residue),
 * with a place for each kind; it is mapped before main(), so a jailed worker needs no
 * file for it.  A kind of which nothing has been freed yet is zero.
 */
#include "cuda_names.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((size_t)24 << 20) /* of tests/programs/residue.c */
#define WIDTH ((size_t)4096)
#define LIVE_MAX 64

enum kind { LINEAR, POOL, MAPPED, ARRAY, KINDS };

static uint8_t *left_behind; /* KINDS times SIZE; NULL: no control is wanted */
static struct {
    CUdeviceptr at;
    enum kind kind;
} live[LIVE_MAX];

__attribute__((constructor)) static void
begin(void)
{
    const char *path = getenv("RESIDUE_CARD");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, KINDS * SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map != MAP_FAILED)
        left_behind = map;
    if (fd >= 0)
        close(fd);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static CUresult
found(CUdeviceptr at, enum kind kind)
{
    for (unsigned i = 0; i < LIVE_MAX; i++)
        if (!live[i].at) {
            live[i].at = at;
            live[i].kind = kind;
            return NEXT(cuMemcpyHtoD_v2)(at, left_behind + kind * SIZE, SIZE);
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void
leave(CUdeviceptr at)
{
    for (unsigned i = 0; at && i < LIVE_MAX; i++)
        if (live[i].at == at) {
            live[i].at = 0;
            NEXT(cuMemcpyDtoH_v2)(left_behind + live[i].kind * SIZE, at, SIZE);
        }
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult
cuMemAlloc_v2(CUdeviceptr *ret, size_t size)
{
    CUresult r = NEXT(cuMemAlloc_v2)(ret, size);

    return r || !left_behind || size != SIZE ? r : found(*ret, LINEAR);
}

EXPORTED CUresult
cuMemFree_v2(CUdeviceptr at)
{
    leave(at);
    return NEXT(cuMemFree_v2)(at);
}

EXPORTED CUresult
cuMemAllocAsync(CUdeviceptr *ret, size_t size, CUstream stream)
{
    CUresult r = NEXT(cuMemAllocAsync)(ret, size, stream);

    if (r || !left_behind || size != SIZE)
        return r;
    r = NEXT(cuStreamSynchronize)(stream);
    return r ? r : found(*ret, POOL);
}

EXPORTED CUresult
cuMemFreeAsync(CUdeviceptr at, CUstream stream)
{
    NEXT(cuStreamSynchronize)(stream);
    leave(at);
    return NEXT(cuMemFreeAsync)(at, stream);
}

EXPORTED CUresult
cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n)
{
    CUresult r = NEXT(cuMemSetAccess)(at, size, desc, n);

    return r || !left_behind || size != SIZE ? r : found(at, MAPPED);
}

EXPORTED CUresult
cuMemUnmap(CUdeviceptr at, size_t size)
{
    leave(at);
    return NEXT(cuMemUnmap)(at, size);
}

static CUresult
copy_array(CUarray array, bool up)
{
    void *place = left_behind + ARRAY * SIZE;
    CUDA_MEMCPY2D_v2 copy = {.srcPitch = WIDTH,
                             .dstPitch = WIDTH,
                             .WidthInBytes = WIDTH,
                             .Height = SIZE / WIDTH};

    copy.srcMemoryType = up ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = up ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
    copy.srcHost = up ? place : NULL;
    copy.srcArray = up ? NULL : array;
    copy.dstHost = up ? NULL : place;
    copy.dstArray = up ? array : NULL;
    return NEXT(cuMemcpy2D_v2)(&copy);
}

EXPORTED CUresult
cuArrayCreate_v2(CUarray *ret, const CUDA_ARRAY_DESCRIPTOR_v2 *desc)
{
    CUresult r = NEXT(cuArrayCreate_v2)(ret, desc);

    return r || !left_behind || desc->Width * desc->Height != SIZE
               ? r
               : copy_array(*ret, true);
}

EXPORTED CUresult
cuArrayDestroy(CUarray array)
{
    if (left_behind)
        copy_array(array, false);
    return NEXT(cuArrayDestroy)(array);
}
