/* SPDX-License-Identifier: Apache-2.0 */
/* Events, primary contexts, textures, clusters, occupancy, exports, the linker. */
#include "probes.h"

/* ---- events -------------------------------------------------------------------------
 */

static void
events(void)
{
    CUevent a, b, never, untimed;
    CUstream stream;
    float ms = -1;

    probe_begin();
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&a, 0));
    NEED(cuEventCreate(&b, 0));
    NEED(cuEventCreate(&never, 0));
    NEED(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventRecord(a, stream));
    NEED(cuEventRecord(b, stream));
    NEED(cuEventRecord(untimed, stream));
    NEED(cuStreamSynchronize(stream));
    SAY("time", cuEventElapsedTime(&ms, a, b));
    SAY("time of the same", cuEventElapsedTime(&ms, a, a));
    SAY("no place", cuEventElapsedTime(NULL, a, b));
    SAY("no place, never recorded", cuEventElapsedTime(NULL, never, b));
    SAY("never recorded", cuEventElapsedTime(&ms, a, never));
    SAY("never recorded at first", cuEventElapsedTime(&ms, never, b));
    SAY("untimed", cuEventElapsedTime(&ms, a, untimed));
    SAY("no event", cuEventElapsedTime(&ms, a, NULL));
    SAY("no events and no place", cuEventElapsedTime(NULL, NULL, NULL));
    SAY("v2: time", cuEventElapsedTime_v2(&ms, a, b));
    SAY("v2: no place", cuEventElapsedTime_v2(NULL, a, b));
    SAY("v2: never recorded", cuEventElapsedTime_v2(&ms, a, never));
    SAY("v2: untimed", cuEventElapsedTime_v2(&ms, a, untimed));
    SAY("v2: no event", cuEventElapsedTime_v2(&ms, NULL, b));
    SAY("query of one never recorded", cuEventQuery(never));
    SAY("wait for one never recorded", cuEventSynchronize(never));
    SAY("query of none", cuEventQuery(NULL));
    SAY("record none", cuEventRecord(NULL, stream));
    SAY("wait for none in a stream", cuStreamWaitEvent(stream, NULL, 0));
    SAY("destroy none", cuEventDestroy_v2(NULL));
    SAY("unknown flags", cuEventCreate(&a, 64));
    SAY("of processes, with time", cuEventCreate(&a, CU_EVENT_INTERPROCESS));
    SAY("no place", cuEventCreate(NULL, 0));
}

static void
shared_events(void)
{
    CUipcEventHandle h = {{0}}, zero = {{0}}, ones;
    CUipcMemHandle m = {{0}};
    CUevent plain, shared, got;
    CUdeviceptr p, q;

    probe_begin();
    NEED(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    memset(&ones, 1, sizeof(ones));
    SAY("export a plain one", cuIpcGetEventHandle(&h, plain));
    SAY("export none", cuIpcGetEventHandle(&h, NULL));
    SAY("export to nowhere", cuIpcGetEventHandle(NULL, shared));
    SAY("export none to nowhere", cuIpcGetEventHandle(NULL, NULL));
    SAY("export", cuIpcGetEventHandle(&h, shared));
    SAY("open one's own", cuIpcOpenEventHandle(&got, h));
    SAY("open to nowhere", cuIpcOpenEventHandle(NULL, h));
    SAY("open zeros", cuIpcOpenEventHandle(&got, zero));
    SAY("open ones", cuIpcOpenEventHandle(&got, ones));
    NEED(cuMemAlloc_v2(&p, 4096));
    SAY("open memory of zeros", cuIpcOpenMemHandle_v2(&q, m, 1));
    memset(&m, 1, sizeof(m));
    SAY("open memory of ones", cuIpcOpenMemHandle_v2(&q, m, 1));
    SAY("export memory", cuIpcGetMemHandle(&m, p));
    SAY("open one's own memory", cuIpcOpenMemHandle_v2(&q, m, 1));
}

/* ---- contexts
 * ------------------------------------------------------------------------ */

static void
primary_now(const char *when)
{
    unsigned flags = 77;
    int active = 77;
    CUresult r = cuDevicePrimaryCtxGetState(0, &flags, &active);

    printf("  %s: %d, flags %u, active %d\n", when, (int)r, flags, active);
}

static void
primary_contexts(void)
{
    CUcontext ctx, now;
    unsigned flags = 7;

    NEED(cuInit(0));
    primary_now("at first");
    SAY("flags", cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_YIELD));
    primary_now("flags set");
    NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
    primary_now("retained");
    SAY("flags while active",
        cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
    primary_now("flags set");
    NEED(cuCtxSetCurrent(ctx));
    NEED(cuCtxGetFlags(&flags));
    printf("  flags of the context %u\n", flags);
    SAY("release", cuDevicePrimaryCtxRelease_v2(0));
    primary_now("released");
    SAY("release again", cuDevicePrimaryCtxRelease_v2(0));
    SAY("current", cuCtxGetCurrent(&now));
    printf("  %s\n", now == ctx ? "the released one" : now ? "another" : "none");
    SAY("wait in it", cuCtxSynchronize());
    SAY("flags of it", cuCtxGetFlags(&flags));
    NEED(cuDevicePrimaryCtxRetain(&now, 0));
    printf("  retained again: %s\n", now == ctx ? "the same" : "another");
    primary_now("retained again");
    SAY("wait in it", cuCtxSynchronize());
    SAY("flags", cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN));
    SAY("reset", cuDevicePrimaryCtxReset_v2(0));
    primary_now("reset");
    SAY("wait in it", cuCtxSynchronize());
    SAY("release it", cuDevicePrimaryCtxRelease_v2(0));
    SAY("destroy it", cuCtxDestroy_v2(ctx));
    SAY("unknown flags", cuDevicePrimaryCtxSetFlags_v2(0, 0x4000));
    SAY("no such card", cuDevicePrimaryCtxSetFlags_v2(99, 0));
    SAY("no such card and no place", cuDevicePrimaryCtxGetState(99, NULL, NULL));
    SAY("no such card", cuDevicePrimaryCtxRetain(&now, 99));
    SAY("no such card and no place", cuDevicePrimaryCtxRetain(NULL, 99));
    SAY("no such card", cuDeviceGetAttribute(&(int){0}, 1, 99));
    SAY("no such card and no place", cuDeviceGetAttribute(NULL, 1, 99));
}

static void
no_context(void)
{
    CUdeviceptr p;
    CUstream s;
    CUmodule m;
    CUgraph g;
    CUevent e;
    CUcontext ctx;
    CUmemoryPool pool;
    size_t n;
    void *host;
    int v;

    NEED(cuInit(0));
    SAY("cuMemAlloc", cuMemAlloc_v2(&p, 64));
    SAY("cuMemAlloc to nowhere", cuMemAlloc_v2(NULL, 64));
    SAY("cuMemAllocHost", cuMemAllocHost_v2(&host, 64));
    SAY("cuMemFree", cuMemFree_v2(4096));
    SAY("cuMemFree of nothing", cuMemFree_v2(0));
    SAY("cuMemFreeHost of nothing", cuMemFreeHost(NULL));
    SAY("cuMemGetInfo", cuMemGetInfo_v2(&n, &n));
    SAY("cuMemHostRegister", cuMemHostRegister_v2(&v, 4, 0));
    SAY("cuPointerGetAttribute",
        cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096));
    SAY("cuStreamCreate", cuStreamCreate(&s, 0));
    SAY("cuStreamSynchronize", cuStreamSynchronize(NULL));
    SAY("cuStreamQuery of a thread's", cuStreamQuery(CU_STREAM_PER_THREAD));
    SAY("cuEventCreate", cuEventCreate(&e, 0));
    SAY("cuModuleLoadData", cuModuleLoadData(&m, "x"));
    SAY("cuModuleLoadData of nothing", cuModuleLoadData(&m, NULL));
    SAY("cuGraphCreate", cuGraphCreate(&g, 0));
    SAY("cuCtxSynchronize", cuCtxSynchronize());
    SAY("cuCtxGetDevice", cuCtxGetDevice(&v));
    SAY("cuCtxGetDevice to nowhere", cuCtxGetDevice(NULL));
    SAY("cuCtxGetLimit", cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
    SAY("cuCtxPopCurrent", cuCtxPopCurrent_v2(&ctx));
    SAY("cuCtxSetCurrent to none", cuCtxSetCurrent(NULL));
    SAY("cuCtxPushCurrent of none", cuCtxPushCurrent_v2(NULL));
    SAY("cuCtxDestroy of none", cuCtxDestroy_v2(NULL));
    SAY("cuCtxGetId", cuCtxGetId(NULL, &(unsigned long long){0}));
    SAY("cuCtxGetApiVersion", cuCtxGetApiVersion(NULL, &(unsigned){0}));
    SAY("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&pool, 0));
    SAY("cuMemcpyHtoD", cuMemcpyHtoD_v2(4096, &v, 4));
    SAY("cuMemcpy",
        cuMemcpy((CUdeviceptr)(uintptr_t)&v, (CUdeviceptr)(uintptr_t)&n, 4));
    SAY("cuLinkCreate", cuLinkCreate_v2(0, NULL, NULL, &(CUlinkState){NULL}));
    SAY("cuMemAllocAsync", cuMemAllocAsync(&p, 64, NULL));
    SAY("cuMemAddressReserve", cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0));
}

/* ---- textures
 * ------------------------------------------------------------------------ */

static CUresult
linear(CUtexObject *tex, CUdeviceptr p, size_t bytes)
{
    CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_LINEAR};

    res.res.linear.devPtr = p;
    res.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    res.res.linear.numChannels = 1;
    res.res.linear.sizeInBytes = bytes;
    return cuTexObjectCreate(tex, &res, &sampling, NULL);
}

static void
read_texel(const char *what, CUtexObject tex, CUdeviceptr out, unsigned at)
{
    void *params[] = {&tex, &out, &at};
    unsigned got = 0;

    NEED(cuMemsetD32_v2(out, 0xeeee, 1));
    NEED(probe_launch(probe_kernel("read1d"), params, NULL));
    printf("  %s: %d", what, (int)cuMemcpyDtoH_v2(&got, out, 4));
    printf(", %u\n", got);
}

static void
linear_textures(void)
{
    CUdeviceptr p, out, managed;
    CUtexObject tex;
    void *host;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 4096));
    NEED(cuMemAlloc_v2(&out, 64));
    NEED(cuMemsetD32_v2(p, 5, 1024));
    SAY("one word too many", linear(&tex, p, 4096 + 4));
    SAY("64 MiB too many", linear(&tex, p, 64 * MIB));
    SAY("at the largest", linear(&tex, p, (size_t)4 << 27));
    SAY("more than the largest", linear(&tex, p, ((size_t)4 << 28) + 4));
    SAY("no bytes", linear(&tex, p, 0));
    SAY("an odd number of bytes", linear(&tex, p, 1023));
    SAY("at an odd place", linear(&tex, p + 4, 64));
    SAY("at 32", linear(&tex, p + 32, 64));
    SAY("nowhere", linear(&tex, 0, 64));
    SAY("at 4096", linear(&tex, 4096, 64));
    NEED(cuMemHostAlloc(&host, 4096, 0));
    SAY("pinned memory", linear(&tex, (CUdeviceptr)(uintptr_t)host, 64));
    NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    SAY("managed memory", linear(&tex, managed, 64));
    SAY("pageable memory", linear(&tex, (CUdeviceptr)(uintptr_t)&tex, 64));
    NEED(linear(&tex, p, 4096));
    read_texel("the last texel", tex, out, 1023);
}

static void
texels_behind_the_last(void)
{
    CUdeviceptr p, out;
    CUtexObject tex;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 4096));
    NEED(cuMemAlloc_v2(&out, 64));
    NEED(cuMemsetD32_v2(p, 5, 1024));
    NEED(linear(&tex, p, 1024));
    read_texel("behind one that ends before its memory", tex, out, 256);
    NEED(linear(&tex, p, 4096));
    read_texel("behind one that ends with its memory", tex, out, 1024);
}

static void
texture_of_freed_memory(void)
{
    CUdeviceptr p, out;
    CUtexObject tex;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 64 * MIB));
    NEED(cuMemAlloc_v2(&out, 64));
    NEED(linear(&tex, p, 4096));
    NEED(cuMemFree_v2(p));
    read_texel("read", tex, out, 0);
}

static void
texture_beyond_its_memory(void)
{
    CUdeviceptr p, out;
    CUtexObject tex;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 4096));
    NEED(cuMemAlloc_v2(&out, 64));
    SAY("made", linear(&tex, p, 256 * MIB));
    read_texel("read at 1 MiB", tex, out, 1 << 18);
    read_texel("read at 200 MiB", tex, out, 200 << 18);
}

static void
arrays(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 8,
                                 .Height = 4,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                 .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR told;
    CUDA_ARRAY_DESCRIPTOR flat;
    CUarray a;

    probe_begin();
    SAY("plain", cuArray3DCreate_v2(&a, &d));
    memset(&told, 7, sizeof(told));
    SAY("says", cuArray3DGetDescriptor_v2(&told, a));
    printf("  %zu %zu %zu, format %d, %u channels, flags %u\n", told.Width, told.Height,
           told.Depth, (int)told.Format, told.NumChannels, told.Flags);
    SAY("says flat", cuArrayGetDescriptor_v2(&flat, a));
    SAY("destroy", cuArrayDestroy(a));
    d.NumChannels = 3;
    SAY("three channels", cuArray3DCreate_v2(&a, &d));
    d.NumChannels = 1;
    d.Width = 0;
    SAY("no width", cuArray3DCreate_v2(&a, &d));
    d.Width = 8;
    d.Format = CU_AD_FORMAT_UNORM_INT8X4;
    d.NumChannels = 4;
    SAY("four bytes, normalised", cuArray3DCreate_v2(&a, &d));
    d.NumChannels = 2;
    SAY("the same with two channels", cuArray3DCreate_v2(&a, &d));
    d.NumChannels = 1;
    d.Format = (CUarray_format)0x77;
    SAY("unknown format", cuArray3DCreate_v2(&a, &d));
    d.Format = CU_AD_FORMAT_UNSIGNED_INT32;
    d.Flags = 0x40000000;
    SAY("unknown flags", cuArray3DCreate_v2(&a, &d));
    d.Flags = CUDA_ARRAY3D_LAYERED;
    SAY("layers, none", cuArray3DCreate_v2(&a, &d));
    d.Depth = 3;
    SAY("three layers", cuArray3DCreate_v2(&a, &d));
    d.Flags = CUDA_ARRAY3D_CUBEMAP;
    SAY("a cube of three", cuArray3DCreate_v2(&a, &d));
    d.Flags = 0;
    d.Width = 1 << 20;
    SAY("too wide", cuArray3DCreate_v2(&a, &d));
    SAY("nowhere", cuArray3DCreate_v2(NULL, &d));
    SAY("of nothing", cuArray3DCreate_v2(&a, NULL));
}

/* ---- launches
 * ------------------------------------------------------------------------ */

static void
clusters(void)
{
    static const unsigned sizes[] = {0, 1, 2, 3, 4, 8, 16, 17, 32};
    CUfunction f;
    int has = 0;

    probe_begin();
    NEED(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
    printf("  clusters: %d\n", has);
    f = probe_kernel("store");
    for (int wide = 0; wide < 2; wide++) {
        if (wide)
            SAY("allow more",
                cuFuncSetAttribute(
                    f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
            CUlaunchConfig c = {.gridDimX = 16,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = 32,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .attrs = sizes[i] ? &attr : NULL,
                                .numAttrs = sizes[i] != 0};
            int size = -1, active = -1;
            CUresult a, b;

            attr.value.clusterDim.x = sizes[i];
            attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
            a = cuOccupancyMaxPotentialClusterSize(&size, f, &c);
            b = cuOccupancyMaxActiveClusters(&active, f, &c);
            printf("  %u of 16: potential %d (%d), active %s (%d)\n", sizes[i], size,
                   (int)a,
                   active > 0    ? "some"
                   : active == 0 ? "none"
                                 : "untouched",
                   (int)b);
        }
    }
}

static void
occupancy(void)
{
    static const int threads[] = {32, 128, 1024};
    static const size_t shared[] = {0, 20000, 48 << 10, 49153, 60 << 10};
    static const CUfunc_cache configs[] = {
        CU_FUNC_CACHE_PREFER_NONE, CU_FUNC_CACHE_PREFER_SHARED, CU_FUNC_CACHE_PREFER_L1,
        CU_FUNC_CACHE_PREFER_EQUAL};
    CUfunction f, much;
    int n;

    probe_begin();
    f = probe_kernel("store");
    much = probe_kernel("much");
    SAY("static shared memory that nothing uses",
        cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, much));
    printf("  %d\n", n);
    for (int k = 0; k < 9; k++) {
        if (k == 4)
            SAY("allow 60 KiB",
                cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   60 << 10));
        if (k == 8)
            SAY("carveout of 50",
                cuFuncSetAttribute(
                    f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
        NEED(cuCtxSetCacheConfig(configs[k % 4]));
        printf("  cache %d:", (int)configs[k % 4]);
        for (int i = 0; i < 15; i++) {
            int a = -1, b = -1;

            cuOccupancyMaxActiveBlocksPerMultiprocessor(&a, f, threads[i / 5],
                                                        shared[i % 5]);
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&b, much, threads[i / 5],
                                                        shared[i % 5]);
            printf(" %d/%d", a, b);
        }
        printf("\n");
    }
    SAY("set more than may be",
        cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           1 << 20));
    SAY("set less than none",
        cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
    SAY("set a carveout of 101",
        cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
    SAY("set what is read only", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 8));
}

/* ---- exports
 * -------------------------------------------------------------------------- */

static void
exports(void)
{
    static const int kinds[] = {CU_MEM_HANDLE_TYPE_NONE,
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                CU_MEM_HANDLE_TYPE_WIN32,
                                CU_MEM_HANDLE_TYPE_FABRIC,
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
                                    CU_MEM_HANDLE_TYPE_FABRIC,
                                64};
    int fabric = 0, pools = 0;

    probe_begin();
    cuDeviceGetAttribute(&fabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0);
    cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0);
    printf("  fabric %d, pools %d\n", fabric, pools);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes =
                                        (CUmemAllocationHandleType)kinds[i],
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .handleTypes = (CUmemAllocationHandleType)kinds[i],
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        CUmemGenericAllocationHandle h = 0;
        CUmemoryPool pool = NULL;
        char room[64];
        CUresult a = cuMemCreate(&h, 2 * MIB, &prop, 0);
        CUresult b = cuMemPoolCreate(&pool, &props);

        printf("  kind %d: memory %d, pool %d", kinds[i], (int)a, (int)b);
        if (a == CUDA_SUCCESS)
            printf(", exported as a descriptor %d, for a fabric %d",
                   (int)cuMemExportToShareableHandle(
                       room, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   (int)cuMemExportToShareableHandle(room, h, CU_MEM_HANDLE_TYPE_FABRIC,
                                                     0));
        if (b == CUDA_SUCCESS)
            printf(", the pool %d",
                   (int)cuMemPoolExportToShareableHandle(
                       room, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        printf("\n");
    }
}

/* ---- the linker
 * ------------------------------------------------------------------------ */

static const char good[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .global .align 4 .u32 offset = 100;\n";

static CUresult
add(CUlinkState link, const char *text, size_t size)
{
    return cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, size, "x",
                            0, NULL, NULL);
}

static void
linker(void)
{
    char bytes[8] = "garbage";
    CUlinkState link;
    void *image;
    size_t size;

    probe_begin();
    SAY("no place", cuLinkCreate_v2(0, NULL, NULL, NULL));
    NEED(cuLinkCreate_v2(0, NULL, NULL, &link));
    SAY("add", add(link, good, sizeof(good)));
    SAY("no data", add(link, NULL, 10));
    SAY("no bytes", add(link, good, 0));
    SAY("garbage", add(link, bytes, sizeof(bytes)));
    SAY("garbage as a cubin",
        cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, bytes, 8, "x", 0, NULL, NULL));
    SAY("unknown kind",
        cuLinkAddData_v2(link, (CUjitInputType)77, bytes, 8, "x", 0, NULL, NULL));
    SAY("no such file",
        cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/nonexistent/x.ptx", 0, NULL, NULL));
    SAY("complete", cuLinkComplete(link, &image, &size));
    SAY("add behind the end", add(link, good, sizeof(good)));
    SAY("complete again", cuLinkComplete(link, &image, &size));
    SAY("destroy", cuLinkDestroy(link));
    NEED(cuLinkCreate_v2(0, NULL, NULL, &link));
    SAY("complete without input", cuLinkComplete(link, &image, &size));
    SAY("destroy", cuLinkDestroy(link));
}

static void
linker_without_a_state(void)
{
    void *image;
    size_t size;

    probe_begin();
    SAY("add", add(NULL, good, sizeof(good)));
    SAY("complete", cuLinkComplete(NULL, &image, &size));
    SAY("destroy", cuLinkDestroy(NULL));
}

static void
linker_without_a_place(void)
{
    CUlinkState link;
    size_t size;

    probe_begin();
    NEED(cuLinkCreate_v2(0, NULL, NULL, &link));
    NEED(add(link, good, sizeof(good)));
    SAY("complete", cuLinkComplete(link, NULL, &size));
}

static void
linker_options(void)
{
    CUjit_option bad[] = {(CUjit_option)9999};
    void *value[] = {NULL};
    CUlinkState link;
    CUmodule m;

    probe_begin();
    SAY("an unknown option", cuLinkCreate_v2(1, bad, value, &link));
    SAY("an unknown option of a module", cuModuleLoadDataEx(&m, good, 1, bad, value));
    SAY("a module of garbage", cuModuleLoadData(&m, "garbage"));
    SAY("a module of nothing", cuModuleLoadData(&m, ""));
    SAY("options without values", cuLinkCreate_v2(1, bad, NULL, &link));
}

static void
a_library_of_nothing(void)
{
    CUlibrary lib;

    probe_begin();
    SAY("cuLibraryLoadData", cuLibraryLoadData(&lib, "", NULL, NULL, 0, NULL, NULL, 0));
    SAY("of garbage", cuLibraryLoadData(&lib, "garbage", NULL, NULL, 0, NULL, NULL, 0));
    SAY("of NULL", cuLibraryLoadData(&lib, NULL, NULL, NULL, 0, NULL, NULL, 0));
}

static void
logs(void)
{
    CUlogsCallbackHandle h;
    CUlogIterator from;
    char text[256];
    size_t size = sizeof(text);
    CUfunction f;

    probe_begin();
    SAY("no callback", cuLogsRegisterCallback(NULL, NULL, &h));
    SAY("current", cuLogsCurrent(&from, 0));
    SAY("unknown flags", cuLogsCurrent(&from, 1));
    NEED(cuLogsCurrent(&from, 0));
    SAY("a mistake", cuModuleGetFunction(&f, probe_module, "missing"));
    SAY("dump", cuLogsDumpToMemory(&from, text, &size, 0));
    printf("  %zu bytes: %.*s\n", size, (int)(size < 256 ? size : 255), text);
    SAY("unregister none", cuLogsUnregisterCallback(NULL));
}

const struct probe probes_objects[] = {
    {"events", events},
    {"events of processes", shared_events},
    {"primary contexts", primary_contexts},
    {"no context", no_context},
    {"linear textures", linear_textures},
    {"texels behind the last", texels_behind_the_last},
    {"a texture of freed memory", texture_of_freed_memory},
    {"a texture beyond its memory", texture_beyond_its_memory},
    {"arrays", arrays},
    {"clusters", clusters},
    {"occupancy", occupancy},
    {"exports", exports},
    {"linker", linker},
    {"linker without a state", linker_without_a_state},
    {"linker without a place", linker_without_a_place},
    {"options", linker_options},
    {"a library of nothing", a_library_of_nothing},
    {"logs", logs},
};
const size_t n_probes_objects = sizeof(probes_objects) / sizeof(probes_objects[0]);
