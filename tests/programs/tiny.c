/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates a byte at a time until that is refused or there are argv[1] of them, frees
 * all, and does it again: `COUNT RESULT FREE FREE_AFTERWARDS`, twice.
 */
#include "prog.h"

#include <stdlib.h>

static size_t
free_now(void)
{
    size_t available, total;

    CU(cuMemGetInfo(&available, &total));
    return available;
}

int
main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    CUdeviceptr *all = calloc(most, sizeof(*all));
    CUcontext context;
    CUdevice device;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    for (int round = 0; all && round < 2; round++) {
        CUresult result = CUDA_SUCCESS;
        size_t n = 0, left;

        while (n < most && (result = cuMemAlloc(&all[n], 1)) == CUDA_SUCCESS)
            n++;
        left = free_now();
        for (size_t i = 0; i < n; i++)
            CU(cuMemFree(all[i]));
        printf("%zu %d %zu %zu\n", n, (int)result, left, free_now());
        fflush(stdout);
    }
    free(all);
    return 0;
}
