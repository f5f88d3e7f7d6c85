/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in a session that has half of four multiprocessors: whatever context and
 * stream its kernels use, they run on two of them, always the same, and what it makes
 * in a context ends with it.
 */
#include "cuda_names.h"
#include "prog.h"

#define SMS 128
#define BLOCKS 12
#define WIDE 90000 /* bytes of shared memory: a multiprocessor holds one block */

extern const char where_ptx[];
__asm__(".pushsection .rodata\n"
        "where_ptx:\n"
        ".incbin \"where.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

static unsigned ever_used[SMS];
static int failures;

/* A kernel of which a multiprocessor holds one block. */
static CUfunction
wide_kernel(const char *name)
{
    CUfunction kernel;
    CUmodule module;

    CU(cuModuleLoadData(&module, where_ptx));
    CU(cuModuleGetFunction(&kernel, module, name));
    CU(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          WIDE));
    return kernel;
}

/* Run in that stream of the current context, and see where. */
static void
look(CUstream stream, const char *what)
{
    unsigned used[SMS], count = 0;
    CUfunction kernel = wide_kernel("where");
    CUdeviceptr at;
    void *params[] = {&at};

    CU(cuMemAlloc(&at, sizeof(used)));
    CU(cuMemsetD32(at, 0, SMS));
    CU(cuCtxSynchronize());
    CU(cuLaunchKernel(kernel, BLOCKS, 1, 1, 32, 1, 1, WIDE, stream, params, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH(used, at, sizeof(used)));
    for (int i = 0; i < SMS; i++)
        count += ever_used[i] |= used[i];
    if (count <= 2)
        return;
    printf("%s: now on %u multiprocessors\n", what, count);
    failures++;
}

/* Two blocks that wait for each other need both multiprocessors: how soon each takes
 * blocks of its own accord is a matter of the machine's load. */
static void
both_at_once(void)
{
    unsigned used[SMS + 1], blocks = 2, count = 0;
    CUfunction kernel = wide_kernel("meet");
    CUdeviceptr at, came;
    void *params[] = {&at, &came, &blocks};

    CU(cuMemAlloc(&at, sizeof(used)));
    came = at + SMS * sizeof(used[0]);
    CU(cuMemsetD32(at, 0, SMS + 1));
    CU(cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, WIDE, NULL, params, NULL));
    CU(cuMemcpyDtoH(used, at, sizeof(used)));
    for (int i = 0; i < SMS; i++) {
        count += used[i];
        ever_used[i] |= used[i];
    }
    if (count == blocks)
        return;
    printf("two blocks at a time on %u multiprocessors\n", count);
    failures++;
}

static void
streams(const char *what)
{
    CUstream stream;

    look(NULL, what);
    look((CUstream)2, what);
    CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    look(stream, what);
    CU(cuStreamDestroy(stream));
    CU(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1));
    look(stream, what);
}

static size_t
free_now(void)
{
    size_t available, total;

    CU(cuMemGetInfo(&available, &total));
    return available;
}

/* Memory of a context that ends is free again, for the session and on the card. */
static void
ends(CUdevice device)
{
    CUcontext context;
    CUdeviceptr at;
    size_t before;

    CU(cuCtxCreate(&context, 0, device));
    before = free_now();
    streams("a context that was created");
    CU(cuCtxDestroy(context));
    for (int i = 0; i < 20; i++) {
        CU(cuCtxCreate(&context, 0, device));
        if (free_now() != before) {
            printf("%zu bytes free, %zu before\n", free_now(), before);
            failures++;
        }
        CU(cuMemAlloc(&at, before)); /* all that the session has */
        CU(cuCtxDestroy(context));
    }
}

/* Ways out that are refused. */
static void
ways_out(CUdevice device)
{
    CUdevResource all, part[1];
    CUdevResourceDesc desc;
    unsigned n = 1;
    CUgreenCtx green;
    CUresult result;

    CU(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CU(cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0, all.sm.smCount));
    CU(cuDevResourceGenerateDesc(&desc, part, 1));
    result = cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM);
    if (result != CUDA_ERROR_NOT_SUPPORTED) {
        printf("a green context of the whole card: %d\n", (int)result);
        failures++;
    }
}

int
main(void)
{
    unsigned count = 0;
    CUcontext primary;
    CUdevice device;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&primary, device));
    CU(cuCtxSetCurrent(primary));
    streams("the primary context");
    CU(cuDevicePrimaryCtxRelease(device));
    ends(device);
    CU(cuDevicePrimaryCtxRetain(&primary, device));
    CU(cuCtxSetCurrent(primary));
    streams("the primary context, made again");
    both_at_once();
    ways_out(device);
    CU(cuDevicePrimaryCtxReset(device));
    for (int i = 0; i < SMS; i++)
        count += ever_used[i];
    if (count != 2) {
        printf("on %u multiprocessors in the end\n", count);
        failures++;
    }
    return failures != 0;
}
