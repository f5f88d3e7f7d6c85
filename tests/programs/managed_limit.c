/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory that cannot be brought back: the waiting call says so, and a later
 * wait brings it after all.
 *
 * There is no room in the process while the first wait runs.
 */
#include "cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define SIZE (16u << 20)
#define VALUE 0x5a

static void
must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, (int)r);
    exit(1);
}

/* Bytes of address space in use. */
static rlim_t
space_used(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (!f || fscanf(f, "%lu", &pages) != 1)
        exit(1);
    fclose(f);
    return (rlim_t)pages * 4096;
}

int
main(void)
{
    struct rlimit before, now;
    CUcontext ctx;
    CUdeviceptr p;
    CUresult r;

    must(cuInit(0), "cuInit");
    must(cuCtxCreate_v2(&ctx, 0, 0), "cuCtxCreate");
    must(cuMemAllocManaged(&p, SIZE, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    must(cuMemsetD8Async(p, VALUE, SIZE, NULL), "cuMemsetD8Async");
    must(getrlimit(RLIMIT_AS, &before) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS,
         "getrlimit");
    now = (struct rlimit){space_used(), before.rlim_max};
    must(setrlimit(RLIMIT_AS, &now) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS,
         "setrlimit");
    r = cuCtxSynchronize();
    must(setrlimit(RLIMIT_AS, &before) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS,
         "setrlimit");
    printf("wait without room: %d, byte %#x\n", (int)r,
           *(volatile unsigned char *)(p + SIZE / 2));
    r = cuCtxSynchronize();
    printf("next wait: %d, byte %#x\n", (int)r,
           *(volatile unsigned char *)(p + SIZE / 2));
    return 0;
}
