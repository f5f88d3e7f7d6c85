/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools, virtual memory, occupancy and launch attributes: results and error
 * codes, printed one by one.
 */
#include "parts.h"

#include <stdint.h>

#define GRANULE ((size_t)2 << 20)

/* Where nobody is by himself. */
#if defined(__SANITIZE_THREAD__) /* it allows mappings in few places only */
#define FAR_AWAY 0x7ef000000000
#else
#define FAR_AWAY 0x300000000000
#endif

static CUcontext ctx;
static CUdevice dev;
static CUfunction put;

/* put(p, v): p[block] = v + block. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry put(.param .u64 p, .param .u32 v)\n{\n"
                          " .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
                          " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
                          " mov.u32 %r2, %ctaid.x; add.u32 %r3, %r1, %r2;\n"
                          " mul.wide.u32 %d2, %r2, 4; add.u64 %d3, %d1, %d2;\n"
                          " st.global.u32 [%d3], %r3; ret;\n}\n";

static void
say(const char *what, CUresult r)
{
    printf("%s: %d\n", what, (int)r);
}

static CUmemAllocationProp
pinned(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
}

static int
virtual_memory(void)
{
    CUmemAllocationProp prop = pinned(), got;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, dev},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h, same;
    unsigned long long flags = 0;
    uint32_t word = 0;
    CUdeviceptr at, there;
    size_t granule;

    TRY(cuMemGetAllocationGranularity(&granule, &prop,
                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    printf("granularity %zu\n", granule);
    TRY(cuMemAddressReserve(&at, 8 * GRANULE, 0, 0, 0));
    TRY(cuMemCreate(&h, 2 * GRANULE, &prop, 0));
    TRY(cuMemGetAllocationPropertiesFromHandle(&got, h));
    printf("made for card %d, kind %d\n", got.location.id, (int)got.type);
    say("an odd size", cuMemCreate(&same, GRANULE + 1, &prop, 0));
    say("map to an odd place", cuMemMap(at + 1, 2 * GRANULE, 0, h, 0));
    say("map more than there is", cuMemMap(at, 4 * GRANULE, 0, h, 0));
    TRY(cuMemMap(at, 2 * GRANULE, 0, h, 0));
    say("map where something is", cuMemMap(at, 2 * GRANULE, 0, h, 0));
    say("write without access", settled(cuMemsetD32_v2(at, 1, 4)));
    TRY(cuMemSetAccess(at, 2 * GRANULE, &access, 1));
    TRY(cuMemGetAccess(&flags, &access.location, at));
    printf("access %llu\n", flags);
    TRY(cuMemMap(at + 4 * GRANULE, 2 * GRANULE, 0, h, 0)); /* a second time */
    TRY(cuMemSetAccess(at + 4 * GRANULE, 2 * GRANULE, &access, 1));
    TRY(cuMemsetD32_v2(at, 0x1234, 2 * GRANULE / 4));
    TRY(cuMemcpyDtoH_v2(&word, at + 4 * GRANULE + 4096, 4));
    printf("through the other mapping %x\n", word);
    TRY(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(at + 4 * GRANULE)));
    TRY(cuMemRelease(same));
    TRY(cuMemRelease(h));
    say("free what is mapped", settled(cuMemFree_v2(at)));
    say("give back addresses in use", settled(cuMemAddressFree(at, 8 * GRANULE)));
    TRY(cuMemUnmap(at, 2 * GRANULE));
    say("unmap twice", settled(cuMemUnmap(at, 2 * GRANULE)));
    TRY(cuMemcpyDtoH_v2(&word, at + 4 * GRANULE, 4));
    printf("still there %x\n", word);
    TRY(cuMemUnmap(at + 4 * GRANULE, 2 * GRANULE));
    TRY(cuMemAddressFree(at, 8 * GRANULE));
    /* The place is free again, and can be asked for. */
    TRY(cuMemAddressReserve(&there, GRANULE, 0, at, 0));
    printf("where it was asked for: %s\n", there == at ? "yes" : "no");
    TRY(cuMemAddressFree(there, GRANULE));
    TRY(cuMemAddressReserve(&there, GRANULE, 0, FAR_AWAY, 0));
    printf("at an address of the program's own: %s\n",
           there == FAR_AWAY ? "yes" : "no");
    TRY(cuMemAddressFree(there, GRANULE));
    return 0;
}

static int
pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    CUmemAccess_flags access = 0;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, dev};
    CUmemoryPool pool, first, now;
    cuuint64_t used = 1, threshold = 1 << 20;
    CUdeviceptr a, b;
    CUstream stream;
    uint32_t word = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuDeviceGetDefaultMemPool(&first, dev));
    TRY(cuDeviceGetMemPool(&now, dev));
    printf("the default one is current: %s\n", first == now ? "yes" : "no");
    TRY(cuMemPoolCreate(&pool, &props));
    TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    threshold = 0;
    TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    printf("threshold %llu\n", (unsigned long long)threshold);
    TRY(cuMemPoolGetAccess(&access, pool, &here));
    printf("access %d\n", (int)access);
    TRY(cuMemAllocFromPoolAsync(&a, 100000, pool, stream));
    TRY(cuMemsetD32Async(a, 77, 25000, stream));
    TRY(cuMemAllocAsync(&b, 1000, stream));
    TRY(cuMemcpyDtoHAsync_v2(&word, a + 400, 4, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("word %u, in use %s\n", word, used >= 100000 ? "some" : "none");
    TRY(cuMemFreeAsync(a, stream));
    TRY(cuMemFreeAsync(b, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("in use %llu\n", (unsigned long long)used);
    TRY(cuMemPoolTrimTo(pool, 0));
    TRY(cuDeviceSetMemPool(dev, pool));
    TRY(cuDeviceGetMemPool(&now, dev));
    printf("the new one is current: %s\n", now == pool ? "yes" : "no");
    TRY(cuDeviceSetMemPool(dev, first));
    say("too much", cuMemAllocFromPoolAsync(&a, (size_t)1 << 46, pool, stream));
    say("nothing", cuMemAllocFromPoolAsync(&a, 0, pool, stream));
    say("nowhere", cuMemAllocAsync(NULL, 16, stream));
    TRY(cuMemPoolDestroy(pool));
    TRY(cuStreamDestroy(stream));
    return 0;
}

static int
occupancy(void)
{
    int blocks = 0, grid = 0, block = 0;
    size_t dynamic = 0;

    for (int threads = 32; threads <= 1024; threads *= 4) {
        TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, put, threads, 1024));
        printf("%d threads: %d blocks\n", threads, blocks);
    }
    TRY(cuOccupancyMaxPotentialBlockSize(&grid, &block, put, NULL, 0, 0));
    printf("best: %d blocks of %d\n", grid, block);
    TRY(cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, put, 2, 128));
    printf("shared memory left: %zu\n", dynamic);
    say("no threads", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, put, 0, 0));
    say("no place", cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, put, 32, 0));
    return 0;
}

static int
launch_with(const char *what, CUlaunchAttribute *attribute, unsigned blocks,
            unsigned threads)
{
    CUlaunchConfig config = {.gridDimX = blocks,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = attribute,
                             .numAttrs = attribute ? 1 : 0};
    uint32_t value = 10, got[2] = {0};
    CUdeviceptr p;
    CUresult r;
    void *params[] = {&p, &value};

    TRY(cuMemAlloc_v2(&p, 4096));
    TRY(cuMemsetD8_v2(p, 0, 4096));
    r = settled(cuLaunchKernelEx(&config, put, params, NULL));
    TRY(cuMemcpyDtoH_v2(got, p, sizeof(got)));
    printf("%s: %d, %u %u\n", what, (int)r, got[0], got[1]);
    TRY(cuMemFree_v2(p));
    return 0;
}

static int
launches(void)
{
    CUlaunchAttribute priority = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
                      cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE},
                      unknown = {.id = (CUlaunchAttributeID)900};
    uint32_t value = 5;
    CUdeviceptr p;
    void *params[] = {&p, &value};
    int bad = 0;

    cooperative.value.cooperative = 1;
    bad |= launch_with("plain", NULL, 2, 1);
    bad |= launch_with("priority", &priority, 2, 1);
    bad |= launch_with("cooperative", &cooperative, 2, 1);
    bad |= launch_with("cooperative, more than fit", &cooperative, 1000000, 1);
    bad |= launch_with("unknown attribute", &unknown, 2, 1);
    bad |= launch_with("too many threads", NULL, 1, 2048);
    bad |= launch_with("no blocks", NULL, 0, 1);
    TRY(cuMemAlloc_v2(&p, 64));
    say("cooperative call",
        settled(cuLaunchCooperativeKernel(put, 4, 1, 1, 1, 1, 1, 0, NULL, params)));
    say("too many for it", settled(cuLaunchCooperativeKernel(put, 1u << 20, 1, 1, 1, 1,
                                                             1, 0, NULL, params)));
    TRY(cuMemFree_v2(p));
    return bad;
}

static const struct part parts[] = {{"virtual memory", virtual_memory},
                                    {"pools", pools},
                                    {"occupancy", occupancy},
                                    {"launches", launches}};

int
main(void)
{
    CUmodule module;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&put, module, "put"));
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
