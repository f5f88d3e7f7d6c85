/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program has registered and unmapped before it unregisters it.  A
 * driver has the pages still and touches no address.  Here a copy is refused; the
 * process goes on in every case, and so does the stream.
 */
#include "parts.h"

#include <stdbool.h>
#include <sys/mman.h>

#define SIZE ((size_t)1 << 20)

static CUdeviceptr card;
static CUarray array;
static char *host;

/* Mapped and registered, far from where the kernel puts what is mapped without a
 * given address: nothing else is there when it is unmapped. */
static int
begin(void)
{
    host = mmap((void *)0x100000000000, SIZE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SAME(host != MAP_FAILED, true);
    memset(host, 3, SIZE);
    TRY(cuMemHostRegister_v2(host, SIZE, 0));
    return 0;
}

static int
end(void)
{
    TRY(cuCtxSynchronize());
    TRY(cuMemHostUnregister(host));
    CODE(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    return 0;
}

static int
copies_are_refused(void)
{
    static const size_t sizes[] = {4, 5000, 100000, SIZE};

    if (begin())
        return 1;
    munmap(host, SIZE);
    for (int i = 0; i < 4; i++) {
        size_t n = sizes[i];

        CODE(cuMemcpyHtoD_v2(card, host, n), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpyDtoH_v2(host, card, n), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpyHtoDAsync_v2(card, host, n, NULL), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpyDtoHAsync_v2(host, card, n, NULL), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpy((uintptr_t)host, card, n), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpy(card, (uintptr_t)host, n), CUDA_ERROR_INVALID_VALUE);
        CODE(cuMemcpy((uintptr_t)&sizes, (uintptr_t)host, 4), CUDA_ERROR_INVALID_VALUE);
    }
    CODE(cuMemcpyHtoA_v2(array, 0, host, 1000), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemcpyAtoH_v2(host, array, 0, 1000), CUDA_ERROR_INVALID_VALUE);
    return end();
}

static int
boxes_are_refused(void)
{
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcPitch = 1024,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = card,
                        .dstPitch = 1024,
                        .WidthInBytes = 1000,
                        .Height = 100};

    if (begin())
        return 1;
    up.srcHost = host;
    munmap(host + SIZE / 16, SIZE - SIZE / 16); /* the first rows are there */
    CODE(cuMemcpy2D_v2(&up), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemcpy2DAsync_v2(&up, NULL), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemcpyHtoD_v2(card, host, SIZE / 16));
    CODE(cuMemcpyHtoD_v2(card, host, SIZE / 16 + 1), CUDA_ERROR_INVALID_VALUE);
    munmap(host, SIZE);
    return end();
}

static void
rest(void *arg)
{
    (void)arg;
    usleep(50000);
}

/* They begin before and would end after it. */
static int
copies_under_way_go_nowhere(void)
{
    static const size_t sizes[] = {4, 5000, 100000, SIZE};

    for (int i = 0; i < 12; i++) {
        if (begin())
            return 1;
        TRY(cuLaunchHostFunc(NULL, rest, NULL));
        if (i % 3 == 0)
            TRY(cuMemcpyHtoDAsync_v2(card, host, sizes[i / 3], NULL));
        else
            TRY(cuMemcpyDtoHAsync_v2(host, card, sizes[i / 3], NULL));
        munmap(host, SIZE);
        if (i % 3 == 2) {
            TRY(cuMemHostUnregister(host));
            continue;
        }
        if (end())
            return 1;
    }
    return 0;
}

/* A new mapping at the old address is no other memory to the program. */
static int
mapped_again(void)
{
    char got[4] = {0};

    if (begin())
        return 1;
    munmap(host, SIZE);
    CODE(cuMemcpyHtoD_v2(card, host, SIZE), CUDA_ERROR_INVALID_VALUE);
    SAME(mmap(host, SIZE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == host,
         true);
    memset(host, 4, SIZE);
    TRY(cuMemcpyHtoD_v2(card, host, SIZE));
    TRY(cuMemcpyDtoH_v2(got, card, 4));
    SAME(got[0], 4);
    return end();
}

static int
left_at_the_end(void)
{
    CUdeviceptr shown;

    if (begin())
        return 1;
    TRY(cuMemHostGetDevicePointer_v2(&shown, host, 0));
    munmap(host, SIZE);
    TRY(cuMemsetD8Async(card, 1, SIZE, NULL));
    TRY(cuCtxSynchronize());
    return 0;
}

static int
set_up(void)
{
    CUDA_ARRAY_DESCRIPTOR form = {.Width = 1024,
                                  .Height = 0,
                                  .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                  .NumChannels = 1};
    CUcontext ctx;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuMemAlloc_v2(&card, SIZE));
    TRY(cuArrayCreate_v2(&array, &form));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"copies", copies_are_refused},
        {"boxes", boxes_are_refused},
        {"copies under way", copies_under_way_go_nowhere},
        {"mapped again", mapped_again},
        {"the end of the process", left_at_the_end},
    };

    return set_up() || parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
