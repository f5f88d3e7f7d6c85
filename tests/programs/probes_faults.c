/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of call answers once a kernel has failed, by the kind of failure. */
#include "probes.h"

static CUcontext good;
static CUstream stream;
static CUevent event, earlier;
static CUdeviceptr mem, managed, pooled;
static CUgraph graph;
static CUgraphExec exec;
static CUlinkState link_state;
static CUlibrary library;
static CUarray array;
static CUmemoryPool pool;
static CUmodule in_good;
static CUfunction known;
static void *pinned;
static char pageable[64];

static const char tiny[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry nothing() { ret; }\n";

static void
nothing(void *user)
{
    (void)user;
}

static CUDA_ARRAY_DESCRIPTOR
shape(void)
{
    return (CUDA_ARRAY_DESCRIPTOR){8, 8, CU_AD_FORMAT_UNSIGNED_INT8, 1};
}

/* One of everything; false with a line when something is missing. */
static int
prepare(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUDA_ARRAY_DESCRIPTOR d = shape();
    CUgraphNode node;
    CUresult r = cuInit(0);

#define STEP(call) r = r == CUDA_SUCCESS ? (call) : r
    STEP(cuCtxCreate_v2(&good, 0, 0));
    STEP(cuModuleLoadData(&in_good, tiny));
    if (r == CUDA_SUCCESS)
        probe_begin();
    STEP(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    STEP(cuEventCreate(&event, 0));
    STEP(cuEventCreate(&earlier, 0));
    STEP(cuEventRecord(earlier, stream));
    STEP(cuEventRecord(event, stream));
    STEP(cuMemAlloc_v2(&mem, 4096));
    STEP(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    STEP(cuMemPoolCreate(&pool, &props));
    STEP(cuMemAllocFromPoolAsync(&pooled, 4096, pool, stream));
    STEP(cuMemHostAlloc(&pinned, 4096, 0));
    STEP(cuArrayCreate_v2(&array, &d));
    STEP(cuGraphCreate(&graph, 0));
    STEP(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    STEP(cuGraphInstantiateWithFlags(&exec, graph, 0));
    STEP(cuLinkCreate_v2(0, NULL, NULL, &link_state));
    STEP(cuLibraryLoadData(&library, tiny, NULL, NULL, 0, NULL, NULL, 0));
    STEP(cuStreamSynchronize(stream));
#undef STEP
    known = r == CUDA_SUCCESS ? probe_kernel("store") : NULL;
    if (!known)
        printf("  cannot be asked: %d\n", (int)r);
    return known != NULL;
}

static void
ask_of_devices(void)
{
    unsigned flags;
    char name[64];
    size_t n;
    int v;

    SAY("cuInit", cuInit(0));
    SAY("cuDriverGetVersion", cuDriverGetVersion(&v));
    SAY("cuDeviceGetCount", cuDeviceGetCount(&v));
    SAY("cuDeviceGet", cuDeviceGet(&v, 0));
    SAY("cuDeviceGetName", cuDeviceGetName(name, sizeof(name), 0));
    SAY("cuDeviceGetAttribute", cuDeviceGetAttribute(&v, 1, 0));
    SAY("cuDeviceTotalMem", cuDeviceTotalMem_v2(&n, 0));
    SAY("cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState(0, &flags, &v));
    SAY("cuDeviceGetDefaultMemPool",
        cuDeviceGetDefaultMemPool(&(CUmemoryPool){NULL}, 0));
    SAY("cuDeviceCanAccessPeer", cuDeviceCanAccessPeer(&v, 0, 0));
    SAY("cuGetProcAddress",
        cuGetProcAddress_v2("cuInit", &(void *){NULL}, 12000, 0, NULL));
}

static void
ask_of_contexts(void)
{
    unsigned long long id;
    unsigned version;
    CUcontext ctx;
    CUdevice dev;
    CUfunc_cache cache;
    size_t n;
    int a, b;

    SAY("cuCtxGetCurrent", cuCtxGetCurrent(&ctx));
    SAY("cuCtxGetDevice", cuCtxGetDevice(&dev));
    SAY("cuCtxGetFlags", cuCtxGetFlags(&version));
    SAY("cuCtxSetFlags", cuCtxSetFlags(0));
    SAY("cuCtxGetApiVersion", cuCtxGetApiVersion(probe_ctx, &version));
    SAY("cuCtxGetId", cuCtxGetId(probe_ctx, &id));
    SAY("cuCtxGetLimit", cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
    SAY("cuCtxSetLimit", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
    SAY("cuCtxGetCacheConfig", cuCtxGetCacheConfig(&cache));
    SAY("cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange(&a, &b));
    SAY("cuCtxSetCurrent", cuCtxSetCurrent(probe_ctx));
    SAY("cuCtxPushCurrent", cuCtxPushCurrent_v2(probe_ctx));
    SAY("cuCtxPopCurrent", cuCtxPopCurrent_v2(&ctx));
    SAY("cuCtxSynchronize", cuCtxSynchronize());
}

static void
ask_of_memory(void)
{
    CUDA_ARRAY_DESCRIPTOR d = shape();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    unsigned flags;
    CUdeviceptr p;
    CUarray a;
    void *host;
    size_t n, total;

    SAY("cuMemGetInfo", cuMemGetInfo_v2(&n, &total));
    SAY("cuMemAlloc", cuMemAlloc_v2(&p, 64));
    SAY("cuMemAllocManaged", cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL));
    SAY("cuMemAllocAsync", cuMemAllocAsync(&p, 64, stream));
    SAY("cuMemAllocHost", cuMemAllocHost_v2(&host, 64));
    SAY("cuMemHostGetFlags", cuMemHostGetFlags(&flags, pinned));
    SAY("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer_v2(&p, pinned, 0));
    SAY("cuMemHostRegister", cuMemHostRegister_v2(pageable, sizeof(pageable), 0));
    SAY("cuMemHostUnregister", cuMemHostUnregister(pageable));
    SAY("cuMemGetAddressRange", cuMemGetAddressRange_v2(&p, &n, mem));
    SAY("cuPointerGetAttribute",
        cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mem));
    SAY("cuMemGetAllocationGranularity",
        cuMemGetAllocationGranularity(&n, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    SAY("cuMemAddressReserve", cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0));
    SAY("cuMemCreate", cuMemCreate(&handle, 2 * MIB, &prop, 0));
    SAY("cuMemPoolTrimTo", cuMemPoolTrimTo(pool, 0));
    SAY("cuArrayCreate", cuArrayCreate_v2(&a, &d));
    SAY("cuArrayGetDescriptor", cuArrayGetDescriptor_v2(&d, array));
    SAY("cuMemcpyHtoD", cuMemcpyHtoD_v2(mem, pageable, 64));
    SAY("cuMemcpyDtoH", cuMemcpyDtoH_v2(pageable, mem, 64));
    SAY("cuMemcpyDtoD", cuMemcpyDtoD_v2(mem + 64, mem, 64));
    SAY("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2(mem, pinned, 64, stream));
    SAY("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2(pinned, mem, 64, stream));
    SAY("cuMemsetD8", cuMemsetD8_v2(mem, 1, 64));
    SAY("cuMemPrefetchAsync", cuMemPrefetchAsync(managed, 4096, 0, stream));
    SAY("cuMemAdvise", cuMemAdvise(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
}

static void
ask_of_modules(void)
{
    CUfunction f = NULL;
    CUlinkState more;
    CUlibrary lib;
    CUkernel kernel;
    CUmodule module;
    CUdeviceptr p;
    size_t n;
    int v;

    SAY("cuModuleLoadData", cuModuleLoadData(&module, tiny));
    SAY("cuModuleGetFunction", cuModuleGetFunction(&f, probe_module, "store"));
    SAY("cuModuleGetFunction of none", cuModuleGetFunction(&f, probe_module, "none"));
    SAY("cuModuleGetGlobal", cuModuleGetGlobal_v2(&p, &n, probe_module, "variable"));
    SAY("cuFuncGetAttribute", cuFuncGetAttribute(&v, 0, known));
    SAY("cuFuncSetAttribute",
        cuFuncSetAttribute(known, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           1024));
    SAY("cuOccupancyMaxActiveBlocksPerMultiprocessor",
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, known, 32, 0));
    SAY("cuLinkCreate", cuLinkCreate_v2(0, NULL, NULL, &more));
    SAY("cuLinkAddData",
        cuLinkAddData_v2(link_state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)tiny,
                         sizeof(tiny), "x", 0, NULL, NULL));
    SAY("cuLibraryLoadData",
        cuLibraryLoadData(&lib, tiny, NULL, NULL, 0, NULL, NULL, 0));
    SAY("cuLibraryGetKernel", cuLibraryGetKernel(&kernel, library, "nothing"));
    SAY("cuLibraryGetModule", cuLibraryGetModule(&module, library));
}

static void
ask_of_streams(void)
{
    CUstreamCaptureStatus status;
    CUgraphExec more_exec;
    CUgraph more_graph;
    CUgraphNode node;
    CUstream more;
    CUevent another;
    unsigned flags;
    float ms;
    int v;

    SAY("cuStreamCreate", cuStreamCreate(&more, CU_STREAM_NON_BLOCKING));
    SAY("cuStreamGetFlags", cuStreamGetFlags(stream, &flags));
    SAY("cuStreamGetPriority", cuStreamGetPriority(stream, &v));
    SAY("cuStreamIsCapturing", cuStreamIsCapturing(stream, &status));
    SAY("cuStreamQuery", cuStreamQuery(stream));
    SAY("cuStreamSynchronize", cuStreamSynchronize(stream));
    SAY("cuStreamWaitEvent", cuStreamWaitEvent(stream, event, 0));
    SAY("cuStreamBeginCapture",
        cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY("cuLaunchHostFunc", cuLaunchHostFunc(stream, nothing, NULL));
    SAY("cuEventCreate", cuEventCreate(&another, 0));
    SAY("cuEventRecord", cuEventRecord(event, stream));
    SAY("cuEventQuery", cuEventQuery(event));
    SAY("cuEventSynchronize", cuEventSynchronize(event));
    SAY("cuEventElapsedTime", cuEventElapsedTime(&ms, earlier, event));
    SAY("cuGraphCreate", cuGraphCreate(&more_graph, 0));
    SAY("cuGraphAddEmptyNode", cuGraphAddEmptyNode(&node, graph, NULL, 0));
    SAY("cuGraphInstantiate", cuGraphInstantiateWithFlags(&more_exec, graph, 0));
    SAY("cuGraphLaunch", cuGraphLaunch(exec, stream));
    SAY("cuProfilerStart", cuProfilerStart());
}

/* A context that had no part in it, and new ones. */
static void
ask_of_others(void)
{
    CUcontext more;
    CUmodule module;
    CUdeviceptr p;
    size_t n, total;

    SAY("cuCtxSetCurrent of another", cuCtxSetCurrent(good));
    SAY("cuCtxSynchronize in another", cuCtxSynchronize());
    SAY("cuMemAlloc in another", cuMemAlloc_v2(&p, 64));
    SAY("cuMemGetInfo in another", cuMemGetInfo_v2(&n, &total));
    SAY("cuModuleLoadData in another", cuModuleLoadData(&module, tiny));
    SAY("cuModuleUnload in another", cuModuleUnload(in_good));
    SAY("cuCtxCreate", cuCtxCreate_v2(&more, 0, 0));
    SAY("cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags_v2(0, 0));
    SAY("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&more, 0));
    SAY("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
    SAY("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2(0));
}

static void
ask_of_endings(void)
{
    CUcontext more;

    SAY("cuCtxSetCurrent back", cuCtxSetCurrent(probe_ctx));
    SAY("cuGraphExecDestroy", cuGraphExecDestroy(exec));
    SAY("cuGraphDestroy", cuGraphDestroy(graph));
    SAY("cuLinkDestroy", cuLinkDestroy(link_state));
    SAY("cuLibraryUnload", cuLibraryUnload(library));
    SAY("cuArrayDestroy", cuArrayDestroy(array));
    SAY("cuMemFreeAsync", cuMemFreeAsync(pooled, stream));
    SAY("cuMemPoolDestroy", cuMemPoolDestroy(pool));
    SAY("cuMemFree of managed memory", cuMemFree_v2(managed));
    SAY("cuMemFree", cuMemFree_v2(mem));
    SAY("cuMemFree of what is none", cuMemFree_v2(4096));
    SAY("cuMemFreeHost", cuMemFreeHost(pinned));
    SAY("cuModuleUnload", cuModuleUnload(probe_module));
    SAY("cuEventDestroy", cuEventDestroy_v2(event));
    SAY("cuStreamDestroy", cuStreamDestroy_v2(stream));
    SAY("cuCtxDestroy", cuCtxDestroy_v2(probe_ctx));
    SAY("cuCtxDestroy of another", cuCtxDestroy_v2(good));
    SAY("cuCtxGetCurrent at last", cuCtxGetCurrent(&more));
    SAY("cuCtxCreate at last", cuCtxCreate_v2(&more, 0, 0));
    SAY("cuInit at last", cuInit(0));
}

static void
fail_and_ask(const char *kernel, CUdeviceptr offset)
{
    unsigned value = 1;
    CUdeviceptr at;
    void *params[] = {&at, &value};

    if (!prepare())
        return;
    at = offset == 1 ? mem + 1 : offset;
    SAY("launch", probe_launch(probe_kernel(kernel), offset ? params : NULL, NULL));
    SAY("wait", cuCtxSynchronize());
    ask_of_devices();
    ask_of_contexts();
    ask_of_modules();
    ask_of_memory();
    ask_of_streams();
    ask_of_others();
    ask_of_endings();
}

static void
illegal_address(void)
{
    fail_and_ask("store", 16);
}

static void
misaligned(void)
{
    fail_and_ask("store", 1);
}

static void
trap(void)
{
    fail_and_ask("stop", 0);
}

static void
assertion(void)
{
    fail_and_ask("asserts", 0);
}

static void
shared_memory(void)
{
    fail_and_ask("beyond", 0);
}

/* Without a wait: which calls bring the error of a kernel that has failed already. */
static void
first_to_tell(void)
{
    unsigned value = 1;
    CUdeviceptr at = 16, p;
    void *params[] = {&at, &value};
    unsigned flags;
    size_t n, total;
    int v;

    if (!prepare())
        return;
    SAY("launch", probe_launch(probe_kernel("store"), params, stream));
    usleep(500000);
    SAY("cuDeviceGetAttribute", cuDeviceGetAttribute(&v, 1, 0));
    SAY("cuCtxGetDevice", cuCtxGetDevice(&v));
    SAY("cuCtxGetLimit", cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
    SAY("cuStreamGetFlags", cuStreamGetFlags(stream, &flags));
    SAY("cuMemGetAddressRange", cuMemGetAddressRange_v2(&p, &n, mem));
    SAY("cuPointerGetAttribute",
        cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mem));
    SAY("cuEventQuery of an earlier record", cuEventQuery(event));
    SAY("cuMemGetInfo", cuMemGetInfo_v2(&n, &total));
    SAY("cuMemsetD8Async", cuMemsetD8Async(mem, 1, 4, NULL));
    SAY("launch again", probe_launch(known, params, stream));
    SAY("cuMemAlloc", cuMemAlloc_v2(&p, 64));
    SAY("cuStreamQuery of another", cuStreamQuery(NULL));
    SAY("cuStreamQuery", cuStreamQuery(stream));
}

const struct probe probes_faults[] = {
    {"after an illegal address", illegal_address},
    {"after a misaligned address", misaligned},
    {"after a trap", trap},
    {"after an assertion", assertion},
    {"after a store beyond shared memory", shared_memory},
    {"which calls tell first", first_to_tell},
};
const size_t n_probes_faults = sizeof(probes_faults) / sizeof(probes_faults[0]);
