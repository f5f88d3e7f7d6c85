/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that host and card both use, by the rules for devices without concurrent
 * access: one line per promise.  Like "features", the output of a remote run can be
 * compared with that of a run on the driver itself.
 */
#include "prog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define VALUES 300000u

PROG_EMBED(features_ptx, "features.ptx");

static const uint32_t factors[4] = {2, 3, 5, 7};

struct promise {
    const char *name;
    size_t (*check)(struct prog *prog);
};

#define TRY(call)                                                                      \
    do {                                                                               \
        CUresult try_result = (call);                                                  \
        if (try_result != CUDA_SUCCESS) {                                              \
            printf("managed: %s gave %d\n", #call, (int)try_result);                   \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

static uint32_t *
at(CUdeviceptr ptr)
{
    return (uint32_t *)(uintptr_t)ptr;
}

static void
fill(uint32_t *values)
{
    for (uint32_t i = 0; i < VALUES; i++)
        values[i] = i + 1;
}

static size_t
count_wrong(const uint32_t *values, unsigned times)
{
    size_t wrong = 0;

    for (uint32_t i = 0; i < VALUES; i++) {
        uint32_t want = i + 1;

        for (unsigned t = 0; t < times; t++)
            want *= factors[i % 4];
        wrong += values[i] != want;
    }
    return wrong;
}

static CUresult
scale(struct prog *prog, CUdeviceptr data, CUstream stream)
{
    unsigned count = VALUES;
    void *params[] = {&data, &count};

    return cuLaunchKernel(prog_kernel(prog, "feature_scale"), (VALUES + 127) / 128, 1,
                          1, 128, 1, 1, 0, stream, params, NULL);
}

static CUresult
set_factors(struct prog *prog)
{
    CUdeviceptr factor;
    CUresult r = cuModuleGetGlobal_v2(&factor, NULL, prog->module, "feature_factor");

    return r == CUDA_SUCCESS ? cuMemcpyHtoD(factor, factors, sizeof(factors)) : r;
}

/* The host writes, the card works, the host reads; and again with the card's result. */
static size_t
check_turns(struct prog *prog)
{
    size_t wrong = 0;
    CUdeviceptr data;

    TRY(cuMemAllocManaged(&data, VALUES * 4, CU_MEM_ATTACH_GLOBAL));
    fill(at(data));
    TRY(scale(prog, data, NULL));
    TRY(cuCtxSynchronize());
    wrong += count_wrong(at(data), 1);
    TRY(scale(prog, data, NULL));
    TRY(scale(prog, data, NULL));
    TRY(cuStreamSynchronize(NULL));
    wrong += count_wrong(at(data), 3);
    at(data)[5] = 1000;
    TRY(scale(prog, data, NULL));
    TRY(cuCtxSynchronize());
    wrong += at(data)[5] != 1000 * factors[1];
    wrong += at(data)[6] != 7u * 5 * 5 * 5 * 5;
    TRY(cuMemFree(data));
    return wrong;
}

static size_t
check_events(struct prog *prog)
{
    CUdeviceptr data, more;
    CUstream stream;
    CUevent event;
    size_t wrong = 0;
    CUresult r;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cuMemAllocManaged(&data, VALUES * 4, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAllocManaged(&more, VALUES * 4, CU_MEM_ATTACH_GLOBAL));
    fill(at(data));
    fill(at(more));
    TRY(scale(prog, data, stream));
    TRY(scale(prog, more, NULL));
    TRY(cuEventRecord(event, stream));
    TRY(cuEventSynchronize(event));
    wrong += count_wrong(at(data), 1);
    TRY(scale(prog, data, stream));
    while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
        ;
    TRY(r);
    wrong += count_wrong(at(data), 2);
    TRY(cuCtxSynchronize());
    wrong += count_wrong(at(more), 1);
    TRY(cuMemFree(data));
    TRY(cuMemFree(more));
    TRY(cuEventDestroy(event));
    TRY(cuStreamDestroy(stream));
    return wrong;
}

static size_t
check_copies(struct prog *prog)
{
    static uint32_t host[VALUES];
    CUdeviceptr data, plain;
    size_t wrong = 0;

    TRY(cuMemAllocManaged(&data, VALUES * 4, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAlloc(&plain, VALUES * 4));
    fill(host);
    TRY(cuMemcpyHtoD(data, host, VALUES * 4));
    wrong += count_wrong(at(data), 0);
    TRY(scale(prog, data, NULL));
    TRY(cuMemcpyHtoD(plain, at(data), VALUES * 4));
    TRY(scale(prog, plain, NULL));
    TRY(cuMemcpy((CUdeviceptr)(uintptr_t)host, plain, VALUES * 4));
    wrong += count_wrong(host, 2);
    fill(at(data));
    TRY(cuMemcpyDtoH(host, data, VALUES * 4));
    wrong += count_wrong(host, 0);
    TRY(cuMemcpy(data, plain, VALUES * 4));
    wrong += count_wrong(at(data), 2);
    TRY(cuMemsetD32(data, 7, VALUES));
    TRY(cuCtxSynchronize());
    for (uint32_t i = 0; i < VALUES; i++)
        wrong += at(data)[i] != 7;
    TRY(cuMemFree(data));
    TRY(cuMemFree(plain));
    return wrong;
}

static size_t
check_used_again(struct prog *prog)
{
    static uint32_t host[VALUES];
    size_t wrong = 0;

    for (int i = 0; i < 5; i++) {
        CUdeviceptr data;

        TRY(cuMemAllocManaged(&data, VALUES * 4 - 8, CU_MEM_ATTACH_GLOBAL));
        memset(at(data), 0, VALUES * 4 - 8);
        TRY(cuMemcpyDtoH(host, data, VALUES * 4 - 8));
        for (uint32_t k = 0; k < VALUES - 2; k++)
            wrong += host[k] != 0;
        TRY(cuMemsetD8(data, 0xff, VALUES * 4 - 8));
        TRY(cuMemFree(data));
    }
    (void)prog;
    return wrong;
}

static size_t
check_what_it_is(struct prog *prog)
{
    unsigned type = 0, managed = 0;
    int read_mostly = -1;
    CUdeviceptr data, dev = 0, none;
    void *host = NULL;
    size_t wrong = 0;

    TRY(cuMemAllocManaged(&data, VALUES, CU_MEM_ATTACH_GLOBAL));
    TRY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, data + 100));
    TRY(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, data));
    TRY(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, data));
    TRY(cuPointerGetAttribute(&dev, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, data));
    TRY(cuMemAdvise(data, VALUES, CU_MEM_ADVISE_SET_READ_MOSTLY, prog->device));
    TRY(cuMemPrefetchAsync(data, VALUES, prog->device, NULL));
    TRY(cuMemRangeGetAttribute(&read_mostly, sizeof(read_mostly),
                               CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, data, VALUES));
    wrong +=
        cuMemAllocManaged(&none, 0, CU_MEM_ATTACH_GLOBAL) != CUDA_ERROR_INVALID_VALUE;
    wrong += cuMemAllocManaged(&none, 16, 99) != CUDA_ERROR_INVALID_VALUE;
    wrong += type != CU_MEMORYTYPE_DEVICE || managed != 1 || read_mostly != 1;
    wrong += host != at(data) || dev != data;
    if (wrong)
        printf("managed: type %u, managed %u, read mostly %d, host %d, device %d\n",
               type, managed, read_mostly, host == at(data), dev == data);
    TRY(cuMemFree(data));
    return wrong;
}

static size_t
check_mapped_at(struct prog *prog, uint32_t *host)
{
    CUdeviceptr data, later;
    size_t wrong = 0;

    fill(host);
    TRY(cuMemHostGetDevicePointer_v2(&data, host, 0));
    TRY(cuMemHostGetDevicePointer_v2(&later, host + 4, 0));
    TRY(scale(prog, data, NULL));
    TRY(cuCtxSynchronize());
    wrong += count_wrong(host, 1) + (later != data + 16);
    host[9] = 50;
    TRY(scale(prog, data, NULL));
    TRY(cuStreamSynchronize(NULL));
    wrong += (host[9] != 50u * 3) + (host[8] != 9u * 2 * 2);
    /* a fill of memory that is the host's too is done when the call returns */
    TRY(cuMemsetD8(data, 0xab, 64));
    wrong += (host[0] != 0xabababab) + (host[15] != 0xabababab);
    TRY(cuMemsetD2D32_v2(data, 32, 7, 2, 2));
    wrong += (host[0] != 7) + (host[2] != 0xabababab) + (host[9] != 7);
    return wrong;
}

static size_t
check_mapped(struct prog *prog)
{
    static uint32_t own[VALUES];
    size_t wrong = 0;
    void *host;

    TRY(cuMemHostAlloc(&host, VALUES * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    wrong += check_mapped_at(prog, host);
    TRY(cuMemFreeHost(host));
    TRY(cuMemHostRegister(own, sizeof(own), CU_MEMHOSTREGISTER_DEVICEMAP));
    wrong += check_mapped_at(prog, own);
    TRY(cuMemHostUnregister(own));
    return wrong;
}

struct beside {
    struct prog *prog;
    CUdeviceptr plain;
    atomic_bool over;
    size_t wrong;
};

/* Calls that nobody waits for, into memory of the card alone. */
static void *
beside_main(void *argument)
{
    struct beside *b = argument;
    CUstream stream;

    CU(cuCtxSetCurrent(b->prog->context));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 100000 && !atomic_load(&b->over); i++)
        b->wrong += cuMemsetD8Async(b->plain, 7, 64, stream) != CUDA_SUCCESS;
    b->wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    CU(cuStreamDestroy(stream));
    return NULL;
}

/* A range that takes several pieces to bring down. */
static size_t
check_threads(struct prog *prog)
{
    enum { BYTES = 9 << 20, ROUNDS = 8 };
    struct beside b = {.prog = prog};
    CUdeviceptr data;
    pthread_t thread;
    size_t wrong = 0;

    TRY(cuMemAllocManaged(&data, BYTES, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAlloc(&b.plain, 64));
    if (pthread_create(&thread, NULL, beside_main, &b) != 0)
        return 1;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        CU(cuMemsetD8Async(data, (unsigned char)i, BYTES, NULL));
        CU(cuStreamSynchronize(NULL));
        wrong += at(data)[0] != i * 0x01010101u;
        wrong += at(data)[BYTES / 4 - 1] != i * 0x01010101u;
    }
    atomic_store(&b.over, true);
    pthread_join(thread, NULL);
    TRY(cuMemFree(data));
    TRY(cuMemFree(b.plain));
    return wrong + b.wrong;
}

static const struct promise promises[] = {
    {"turns", check_turns},
    {"events", check_events},
    {"copies", check_copies},
    {"used again", check_used_again},
    {"what it is", check_what_it_is},
    {"mapped", check_mapped},
    {"beside another thread", check_threads},
};

int
main(int argc, char **argv)
{
    struct prog prog;
    size_t bad = 0;

    prog_begin(&prog, argc, argv, "managed", features_ptx);
    CU(set_factors(&prog));
    for (size_t i = 0; i < sizeof(promises) / sizeof(promises[0]); i++) {
        size_t wrong = promises[i].check(&prog);

        printf("managed: %s: %s\n", promises[i].name, wrong ? "WRONG" : "ok");
        bad += wrong != 0;
    }
    prog_end(&prog);
    return bad != 0;
}
