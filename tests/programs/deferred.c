/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call that needs no answer is made to fail in the driver (tests/faultdrv), with
 * nothing wrong about its arguments: the error must be there when the program next
 * waits for anything, and once.
 *
 *     deferred CONTROL-FILE
 *
 * Prints the calls whose error got lost, and those that did not come to the driver;
 * then how many errors came with a later call, because their own had returned.
 */
#include "cuda_api.h"
#include "faultdrv.h"
#include "negative_calls.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* No result that means something to a client library. */
#define RESULT CUDA_ERROR_NOT_PERMITTED

static struct faultdrv *control;
static uint64_t live[WIRE_KIND_COUNT];
static CUdeviceptr memory;
static void *scratch;
static unsigned came_late;

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry k() { ret; }\n";

static void
must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, (int)r);
    exit(2);
}

#define NEW(kind, call, object)                                                        \
    do {                                                                               \
        must(call, #call);                                                             \
        live[kind] = (uintptr_t)(object);                                              \
    } while (0)

static void
destroyed(void *arg)
{
}

static void
called_back(CUstream stream, CUresult result, void *arg)
{
}

/* One of each: the call before may have destroyed any of them. */
static void
make_objects(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = {16, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUgraphNode node;
    CUmodule module;
    CUfunction func;
    CUstream stream;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    CUarray array;
    CUmemoryPool pool;
    CUdevResource sms;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUlinkState link;
    CUlibrary library;
    CUmipmappedArray mipmap;
    CUtexref texref;
    CUmemGenericAllocationHandle handle;
    CUuserObject object;
    CUDA_ARRAY3D_DESCRIPTOR deep = {16, 16, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location.type = CU_MEM_LOCATION_TYPE_DEVICE};

    must(cuMemAlloc_v2(&memory, 1 << 16), "cuMemAlloc");
    NEW(WIRE_KIND_MODULE, cuModuleLoadData(&module, ptx), module);
    NEW(WIRE_KIND_FUNC, cuModuleGetFunction(&func, module, "k"), func);
    NEW(WIRE_KIND_STREAM, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), stream);
    NEW(WIRE_KIND_EVENT, cuEventCreate(&event, 0), event);
    NEW(WIRE_KIND_GRAPH, cuGraphCreate(&graph, 0), graph);
    must(cuGraphAddEmptyNode(&node, graph, NULL, 0), "cuGraphAddEmptyNode");
    NEW(WIRE_KIND_GRAPHEXEC, cuGraphInstantiateWithFlags(&exec, graph, 0), exec);
    NEW(WIRE_KIND_ARRAY, cuArrayCreate_v2(&array, &flat), array);
    NEW(WIRE_KIND_MEMPOOL, cuMemPoolCreate(&pool, &props), pool);
    NEW(WIRE_KIND_LINK, cuLinkCreate_v2(0, NULL, NULL, &link), link);
    NEW(WIRE_KIND_LIBRARY,
        cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), library);
    NEW(WIRE_KIND_MIPMAP, cuMipmappedArrayCreate(&mipmap, &deep, 2), mipmap);
    NEW(WIRE_KIND_TEXREF, cuTexRefCreate(&texref), texref);
    NEW(WIRE_KIND_MEMHANDLE, cuMemCreate(&handle, 2 << 20, &where, 0), handle);
    NEW(WIRE_KIND_USEROBJ,
        cuUserObjectCreate(&object, NULL, destroyed, 4,
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        object);
    must(cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM),
         "cuDeviceGetDevResource");
    must(cuDevResourceGenerateDesc(&desc, &sms, 1), "cuDevResourceGenerateDesc");
    NEW(WIRE_KIND_GREENCTX,
        cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), green);
    must(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void
free_objects(CUcontext ctx)
{
    cuCtxSetCurrent(ctx);
    cuMemFree_v2(memory);
    cuModuleUnload((CUmodule)(uintptr_t)live[WIRE_KIND_MODULE]);
    cuStreamDestroy_v2((CUstream)(uintptr_t)live[WIRE_KIND_STREAM]);
    cuEventDestroy_v2((CUevent)(uintptr_t)live[WIRE_KIND_EVENT]);
    cuGraphExecDestroy((CUgraphExec)(uintptr_t)live[WIRE_KIND_GRAPHEXEC]);
    cuGraphDestroy((CUgraph)(uintptr_t)live[WIRE_KIND_GRAPH]);
    cuArrayDestroy((CUarray)(uintptr_t)live[WIRE_KIND_ARRAY]);
    cuMemPoolDestroy((CUmemoryPool)(uintptr_t)live[WIRE_KIND_MEMPOOL]);
    cuLinkDestroy((CUlinkState)(uintptr_t)live[WIRE_KIND_LINK]);
    cuLibraryUnload((CUlibrary)(uintptr_t)live[WIRE_KIND_LIBRARY]);
    cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)live[WIRE_KIND_MIPMAP]);
    cuTexRefDestroy((CUtexref)(uintptr_t)live[WIRE_KIND_TEXREF]);
    cuMemRelease(live[WIRE_KIND_MEMHANDLE]);
    cuGreenCtxDestroy((CUgreenCtx)(uintptr_t)live[WIRE_KIND_GREENCTX]);
    cuUserObjectRelease((CUuserObject)(uintptr_t)live[WIRE_KIND_USEROBJ], 1);
    cuCtxSynchronize();
    cuCtxSynchronize();
}

static void
arm(const char *name)
{
    /* An attribute of a launch for the driver. */
    if (strncmp(name, "cuLaunchCooperative", 19) == 0)
        name = "cuLaunchKernel";
    snprintf(control->stem, sizeof(control->stem), "%s", name);
    faultdrv_stem(control->stem);
    control->result = RESULT;
    control->late_ms = 1; /* so that what the server makes later is late */
    atomic_store(&control->armed, 1);
}

/* Launches: the two ways to pass parameters exclude each other, and a configuration is
 * more than zeros. */
static CUresult
launch(const char *name)
{
    CUfunction func = (CUfunction)(uintptr_t)live[WIRE_KIND_FUNC];
    CUstream stream = (CUstream)(uintptr_t)live[WIRE_KIND_STREAM];
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};
    bool own = strstr(name, "_ptsz") != NULL;

    if (strstr(name, "Ex"))
        return own ? cuLaunchKernelEx_ptsz(&config, func, NULL, NULL)
                   : cuLaunchKernelEx(&config, func, NULL, NULL);
    if (strstr(name, "Cooperative"))
        return own ? cuLaunchCooperativeKernel_ptsz(func, 1, 1, 1, 1, 1, 1, 0, stream,
                                                    NULL)
                   : cuLaunchCooperativeKernel(func, 1, 1, 1, 1, 1, 1, 0, stream, NULL);
    return own ? cuLaunchKernel_ptsz(func, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)
               : cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

/* Managed memory, which the client knows to be none otherwise. */
static CUresult
prefetch(const char *name)
{
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    bool newer = strstr(name, "_v2") != NULL, own = strstr(name, "_ptsz") != NULL;
    CUdeviceptr p;
    CUresult r;

    must(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    if (newer)
        r = own ? cuMemPrefetchAsync_v2_ptsz(p, 4096, here, 0, NULL)
                : cuMemPrefetchAsync_v2(p, 4096, here, 0, NULL);
    else
        r = own ? cuMemPrefetchAsync_ptsz(p, 4096, 0, NULL)
                : cuMemPrefetchAsync(p, 4096, 0, NULL);
    cuMemFree_v2(p);
    return r;
}

/* Calls whose right arguments a description of their types does not give. */
static CUresult
make_call(const struct negative_call *call, const struct negative *n)
{
    CUstream stream = (CUstream)(uintptr_t)live[WIRE_KIND_STREAM];

    if (strncmp(call->name, "cuLaunch", 8) == 0 && strstr(call->name, "Kernel"))
        return launch(call->name);
    if (strncmp(call->name, "cuMemPrefetchAsync", 18) == 0)
        return prefetch(call->name);
    if (strcmp(call->name, "cuStreamAddCallback") == 0)
        return cuStreamAddCallback(stream, called_back, NULL, 0);
    if (strcmp(call->name, "cuStreamAddCallback_ptsz") == 0)
        return cuStreamAddCallback_ptsz(stream, called_back, NULL, 0);
    return call->call(n);
}

enum outcome { SEEN, LOST, TWICE, NOT_REACHED };

/* Calls with an answer that wait for all unanswered ones, also for those that the
 * server makes later. */
static CUresult
ask_memory(void)
{
    size_t free_bytes, total;

    return cuMemGetInfo_v2(&free_bytes, &total);
}

static CUresult (*const answered[])(void) = {ask_memory, cuCtxSynchronize};

static enum outcome
try_call(const struct negative_call *call, const struct negative *n, CUcontext ctx,
         CUresult (*ask)(void))
{
    CUresult at_once, later, again;

    arm(call->name);
    at_once = make_call(call, n);
    cuCtxSetCurrent(ctx);
    later = ask();
    if (atomic_exchange(&control->armed, 0))
        return NOT_REACHED;
    again = ask();
    if (at_once != RESULT && later != RESULT)
        return LOST;
    came_late += at_once != RESULT;
    return again == CUDA_SUCCESS ? SEEN : TWICE;
}

/* With objects of its own.  @ask is the call after it. */
static enum outcome
look_for(const struct negative_call *call, CUcontext ctx, CUresult (*ask)(void))
{
    static const char *const words[] = {"", "lost", "seen twice", "not reached"};
    struct negative n = {.kind = NEGATIVE_NONE, .scratch = scratch, .live = live};
    enum outcome outcome;

    memset(scratch, 0, NEGATIVE_SCRATCH);
    make_objects();
    n.freed = memory;
    outcome = try_call(call, &n, ctx, ask);
    if (outcome != SEEN)
        printf("%s: %s, by %s\n", words[outcome], call->name,
               ask == ask_memory ? "cuMemGetInfo" : "cuCtxSynchronize");
    free_objects(ctx);
    return outcome;
}

int
main(int argc, char **argv)
{
    unsigned counts[4] = {0};
    CUcontext ctx = NULL;
    int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;

    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    scratch = calloc(1, NEGATIVE_SCRATCH);
    if (fd < 0 || control == MAP_FAILED || !scratch)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(cuInit(0), "cuInit");
    must(cuCtxCreate_v2(&ctx, 0, 0), "cuCtxCreate");
    live[WIRE_KIND_CTX] = (uintptr_t)ctx;
    for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++)
        for (unsigned j = 0; j < negative_call_count; j++)
            if (negative_calls[j].unanswered)
                counts[look_for(&negative_calls[j], ctx, answered[i])]++;
    printf("%u seen, %u lost, %u seen twice, %u not reached\n", counts[SEEN],
           counts[LOST], counts[TWICE], counts[NOT_REACHED]);
    printf("%u came late\n", came_late);
    return counts[LOST] || counts[TWICE];
}
