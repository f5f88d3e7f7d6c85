/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What contexts, devices, functions, libraries, streams and green contexts say of
 * themselves, and settings that are remembered.
 */
#include "parts.h"

#include <stdint.h>
#include <unistd.h>

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry first(.param .u64 p, .param .u32 v)\n{\n"
    " .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v]; mov.u32 %r2, %tid.x;\n"
    " mul.wide.u32 %d2, %r2, 4; add.u64 %d3, %d1, %d2;\n"
    " st.global.u32 [%d3], %r1; ret;\n}\n"
    ".visible .entry second(.param .align 8 .b8 s[24], .param .u16 h)\n{\n ret;\n}\n";

static CUcontext ctx;
static CUdevice dev;
static CUmodule module;
static CUfunction first;
static CUstream stream;

static void
say(const char *what, CUresult r)
{
    printf("%s: %d\n", what, (int)r);
}

static int
contexts(void)
{
    unsigned version = 0, flags = 0, id_flags;
    unsigned long long id = 0, other_id = 0;
    CUcontext other, attached;
    CUsharedconfig banks;
    CUfunc_cache cache;
    int active;

    TRY(cuCtxGetApiVersion(ctx, &version));
    printf("version %u\n", version);
    TRY(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    TRY(cuCtxGetCacheConfig(&cache));
    printf("cache %d\n", (int)cache);
    say("banks", cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
    TRY(cuCtxGetSharedMemConfig(&banks));
    printf("banks of %d\n", (int)banks);
    TRY(cuCtxGetFlags(&flags));
    say("flags", cuCtxSetFlags(CU_CTX_SCHED_YIELD));
    TRY(cuCtxGetFlags(&id_flags));
    printf("flags %u, then %u\n", flags, id_flags);
    TRY(cuCtxGetId(ctx, &id));
    TRY(cuCtxCreate_v2(&other, 0, dev));
    TRY(cuCtxGetId(other, &other_id));
    SAME(id != other_id, 1);
    say("attach", cuCtxAttach(&attached, 0));
    say("detach", cuCtxDetach(other));
    say("detach its maker", cuCtxDetach(other));
    say("it is gone", cuCtxGetApiVersion(other, &version));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuCtxResetPersistingL2Cache());
    TRY(cuDevicePrimaryCtxSetFlags_v2(dev, CU_CTX_SCHED_BLOCKING_SYNC));
    TRY(cuDevicePrimaryCtxGetState(dev, &flags, &active));
    printf("primary: flags %u, active %d\n", flags, active);
    return 0;
}

static int
devices(void)
{
    static const CUatomicOperation ops[] = {CU_ATOMIC_OPERATION_INTEGER_ADD,
                                            CU_ATOMIC_OPERATION_CAS};
    unsigned host[2] = {9, 9}, peer[2] = {9, 9};
    int major = 0, minor = 0, affinity = 9, access = 9;
    CUdevprop prop;

    TRY(cuDeviceComputeCapability(&major, &minor, dev));
    TRY(cuDeviceGetProperties(&prop, dev));
    printf("%d.%d: %d threads, warps of %d\n", major, minor, prop.maxThreadsPerBlock,
           prop.SIMDWidth);
    TRY(cuDeviceGetExecAffinitySupport(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT, dev));
    printf("affinity %d\n", affinity);
    say("atomics of the host", cuDeviceGetHostAtomicCapabilities(host, ops, 2, dev));
    printf("%#x %#x\n", host[0], host[1]);
    say("atomics of itself", cuDeviceGetP2PAtomicCapabilities(peer, ops, 2, dev, dev));
    say("peer of itself",
        cuDeviceGetP2PAttribute(&access, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, dev,
                                dev));
    TRY(cuProfilerStart());
    TRY(cuProfilerStop());
    return 0;
}

static int
functions(void)
{
    CUfunctionLoadingState state = (CUfunctionLoadingState)9;
    CUfunction all[4] = {NULL};
    const char *name = NULL;
    int blocks = 0, grid = 0, size = 0;
    CUmodule of = NULL;
    unsigned n = 0;

    TRY(cuFuncGetName(&name, first));
    TRY(cuFuncGetModule(&of, first));
    SAME(of == module, 1);
    TRY(cuFuncLoad(first));
    TRY(cuFuncIsLoaded(&state, first));
    printf("%s: state %d\n", name, (int)state);
    TRY(cuFuncSetCacheConfig(first, CU_FUNC_CACHE_PREFER_SHARED));
    TRY(cuFuncSetSharedMemConfig(first, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
    TRY(cuModuleGetFunctionCount(&n, module));
    TRY(cuModuleEnumerateFunctions(all, n < 4 ? n : 4, module));
    for (unsigned i = 0; i < n && i < 4; i++) {
        TRY(cuFuncGetName(&name, all[i]));
        printf("function %u of %u: %s\n", i, n, name);
    }
    TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &blocks, first, 128, 0, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
    TRY(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &size, first, NULL, 0, 256,
                                                  CU_OCCUPANCY_DEFAULT));
    printf("%d blocks of 128, at best blocks of %d\n", blocks, size);
    return 0;
}

static int
libraries(void)
{
    size_t offset = 9, bytes = 9;
    CUkernel all[4] = {NULL}, k;
    const char *name = NULL;
    CUlibrary lib, of = NULL;
    CUmodule own = NULL;
    void *unified;
    int threads = 0;
    FILE *f = fopen("asked.ptx", "w");

    if (!f || fputs(ptx, f) < 0 || fclose(f) != 0)
        return 1;
    TRY(cuLibraryLoadFromFile(&lib, "asked.ptx", NULL, NULL, 0, NULL, NULL, 0));
    unlink("asked.ptx");
    TRY(cuLibraryEnumerateKernels(all, 4, lib));
    TRY(cuLibraryGetKernel(&k, lib, "second"));
    TRY(cuKernelGetName(&name, k));
    TRY(cuKernelGetLibrary(&of, k));
    SAME(of == lib, 1);
    for (size_t i = 0; i < 2; i++) {
        TRY(cuKernelGetParamInfo(k, i, &offset, &bytes));
        printf("%s: parameter %zu of %zu bytes at %zu\n", name, i, bytes, offset);
    }
    CODE(cuKernelGetParamInfo(k, 2, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    TRY(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096, k,
                             dev));
    TRY(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             k, dev));
    SAME(threads, 4096);
    TRY(cuKernelSetCacheConfig(k, CU_FUNC_CACHE_PREFER_NONE, dev));
    TRY(cuLibraryGetModule(&own, lib));
    SAME(own != NULL, 1);
    /* How it is refused depends on whether the card has such functions at all. */
    SAME(cuLibraryGetUnifiedFunction(&unified, lib, "first") != CUDA_SUCCESS, 1);
    TRY(cuLibraryUnload(lib));
    say("no such file",
        cuLibraryLoadFromFile(&lib, "asked.none", NULL, NULL, 0, NULL, NULL, 0));
    return 0;
}

static int
streams(void)
{
    CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_YIELD}, told = {{0}};
    unsigned long long id = 0, other_id = 0;
    CUgreenCtx green = (CUgreenCtx)&value;
    CUdevice of = 9;
    CUstream other;

    TRY(cuStreamCreate(&other, 0));
    TRY(cuStreamGetId(stream, &id));
    TRY(cuStreamGetId(other, &other_id));
    SAME(id != other_id, 1);
    TRY(cuStreamGetDevice(stream, &of));
    SAME(of, dev);
    TRY(cuStreamGetGreenCtx(stream, &green));
    SAME(green == NULL, 1);
    TRY(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                             &value));
    TRY(cuStreamCopyAttributes(other, stream));
    TRY(cuStreamGetAttribute(other, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &told));
    SAME(told.syncPolicy, CU_SYNC_POLICY_YIELD);
    TRY(cuStreamDestroy_v2(other));
    return 0;
}

/* What is left in a place that gets nothing, and what needs none. */
static int
nothing(void)
{
    CUdeviceptr p = 7, q = 7, none = 7;
    unsigned long long pool = 7;

    CODE(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(p, 0);
    CODE(cuMemAlloc_v2(&q, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    SAME(q, 0);
    q = 7;
    CODE(cuMemAllocManaged(&q, 16, 99), CUDA_ERROR_INVALID_VALUE);
    SAME(q, 0);
    TRY(cuMemAllocAsync(&none, 0, stream));
    CODE(cuCtxPushCurrent_v2(NULL), CUDA_ERROR_INVALID_VALUE);
    CODE(cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemAllocAsync(&p, 64, stream));
    TRY(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    SAME(pool, 0); /* its memory is of no context */
    TRY(cuMemFreeAsync(p, stream));
    return 0;
}

static int
values_in_memory(void)
{
    CUstreamBatchMemOpParams ops[2];
    uint64_t got[2] = {0};
    CUevent event;
    CUdeviceptr p, of_pool;

    TRY(cuMemAlloc_v2(&p, 16));
    TRY(cuMemsetD8_v2(p, 0, 16));
    memset(ops, 0, sizeof(ops));
    ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[0].writeValue.address = p;
    ops[0].writeValue.value64 = 0x123456789abc;
    ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    ops[1].waitValue.address = p;
    ops[1].waitValue.value64 = 0x123456789abc;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    TRY(cuStreamBatchMemOp_v2(stream, 2, ops, 0));
    TRY(cuStreamWriteValue64_v2(stream, p + 8, 42, 0));
    TRY(cuEventCreate(&event, 0));
    TRY(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT));
    TRY(cuEventSynchronize(event));
    CODE(cuStreamWriteValue64_v2(stream, p + 4, 42, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cuStreamWaitValue32_v2(stream, p + 2, 42, 0), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemAllocAsync(&of_pool, 16, stream));
    CODE(cuStreamWriteValue32_v2(stream, of_pool, 42, 0), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFreeAsync(of_pool, stream));
    TRY(cuMemcpyDtoH_v2(got, p, 16));
    SAME(got[0], 0x123456789abc);
    SAME(got[1], 42);
    TRY(cuEventDestroy_v2(event));
    TRY(cuMemFree_v2(p));
    return 0;
}

/* A part of the card: its events stand for all its streams.  It belongs to the primary
 * context, and so must they. */
static int
green_contexts(void)
{
    CUdevResource all, half, told;
    unsigned long long id = 0;
    CUdevResourceDesc desc;
    unsigned groups = 1;
    CUcontext primary;
    CUgreenCtx green;
    CUevent event, foreign;
    CUstream s;

    TRY(cuEventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
    TRY(cuDevicePrimaryCtxRetain(&primary, dev));
    TRY(cuCtxSetCurrent(primary));
    TRY(cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRY(cuDevSmResourceSplitByCount(&half, &groups, &all, NULL, 0, 1));
    TRY(cuDevResourceGenerateDesc(&desc, &half, 1));
    TRY(cuGreenCtxCreate(&green, desc, dev, CU_GREEN_CTX_DEFAULT_STREAM));
    TRY(cuGreenCtxGetDevResource(green, &told, CU_DEV_RESOURCE_TYPE_SM));
    SAME(told.sm.smCount, half.sm.smCount);
    TRY(cuGreenCtxGetId(green, &id));
    TRY(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cuGreenCtxRecordEvent(green, event));
    TRY(cuEventSynchronize(event));
    TRY(cuGreenCtxWaitEvent(green, event));
    TRY(cuStreamSynchronize(s));
    say("another context's event", settled(cuGreenCtxRecordEvent(green, foreign)));
    TRY(cuCtxRecordEvent(primary, event));
    TRY(cuCtxWaitEvent(primary, event));
    TRY(cuCtxSynchronize());
    TRY(cuEventDestroy_v2(event));
    TRY(cuStreamDestroy_v2(s));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuDevicePrimaryCtxRelease_v2(dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuEventDestroy_v2(foreign));
    return 0;
}

static int
launches_of_the_first_interface(void)
{
    uint32_t got = 0;
    CUdeviceptr p;

    TRY(cuMemAlloc_v2(&p, 128));
    TRY(cuFuncSetBlockShape(first, 32, 1, 1));
    TRY(cuParamSetv(first, 0, &p, sizeof(p)));
    TRY(cuParamSeti(first, 8, 1234));
    TRY(cuParamSetSize(first, 12));
    TRY(cuLaunchGridAsync(first, 1, 1, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(&got, p + 124, 4));
    SAME(got, 1234);
    TRY(cuMemFree_v2(p));
    return 0;
}

static int
start(void)
{
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuCtxCreate_v2(&ctx, 0, dev));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&first, module, "first"));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"contexts", contexts},
        {"devices", devices},
        {"functions", functions},
        {"libraries", libraries},
        {"streams", streams},
        {"nothing", nothing},
        {"values in memory", values_in_memory},
        {"green contexts", green_contexts},
        {"launches of the first interface", launches_of_the_first_interface},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
