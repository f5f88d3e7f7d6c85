/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls a capture forbids, and which of them invalidate it.
 *
 * For every call a capture begins in a stream, the call is made with other objects than
 * that stream, and the capture is ended: `NAME: RESULT END`, by the thread that
 * captures and then by another one, in both modes that forbid something.  It prints the
 * same on a driver and on a slice.
 */
#include "cuda_api.h"
#include "cuda_names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry nothing()\n{\n ret;\n}\n";

static CUcontext ctx;
static CUstream captured, other, created;
static CUevent event, begin, end, made;
static CUdeviceptr data, memory;
static CUmodule module, loaded;
static CUfunction nothing;
static CUgraph empty;
static CUgraphExec exec, instance;
static CUmemoryPool pool;
static void *pinned, *locked;
static char pageable[4096], registered[8192] __attribute__((aligned(4096)));
static CUarray array;

static void
must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, (int)r);
    exit(1);
}
#define MUST(call) must(call, #call)

static void
no_work(void *arg)
{
    (void)arg;
}

#define CALL(name, expression)                                                         \
    static CUresult do_##name(void)                                                    \
    {                                                                                  \
        return expression;                                                             \
    }

static const CUDA_ARRAY_DESCRIPTOR shape = {
    .Width = 16, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
static const CUmemPoolProps props = {
    .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static size_t room, all;
static float ms;
static int number;

CALL(event_query, cuEventQuery(event))
CALL(event_synchronize, cuEventSynchronize(event))
CALL(event_record, cuEventRecord(event, other))
CALL(event_elapsed, cuEventElapsedTime(&ms, begin, end))
CALL(event_create, cuEventCreate(&made, 0))
CALL(event_destroy, cuEventDestroy(made))
CALL(stream_query, cuStreamQuery(other))
CALL(stream_synchronize, cuStreamSynchronize(other))
CALL(stream_wait, cuStreamWaitEvent(other, event, 0))
CALL(stream_create, cuStreamCreate(&created, CU_STREAM_NON_BLOCKING))
CALL(stream_destroy, cuStreamDestroy(created))
CALL(ctx_synchronize, cuCtxSynchronize())
CALL(launch, cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL))
CALL(host_func, cuLaunchHostFunc(other, no_work, NULL))
CALL(mem_alloc, cuMemAlloc(&memory, 4096))
CALL(mem_free, cuMemFree(memory))
CALL(mem_alloc_async, cuMemAllocAsync(&memory, 4096, other))
CALL(mem_free_async, cuMemFreeAsync(memory, other))
CALL(mem_alloc_host, cuMemHostAlloc(&locked, 4096, 0))
CALL(mem_free_host, cuMemFreeHost(locked))
CALL(host_register, cuMemHostRegister(registered, 4096, 0))
CALL(host_unregister, cuMemHostUnregister(registered))
CALL(mem_alloc_managed, cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL))
CALL(mem_free_managed, cuMemFree(memory))
CALL(copy_up, cuMemcpyHtoD(data, pageable, 64))
CALL(copy_down, cuMemcpyDtoH(pageable, data, 64))
CALL(copy_device, cuMemcpyDtoD(data, data + 2048, 64))
CALL(copy_up_async, cuMemcpyHtoDAsync(data, pinned, 64, other))
CALL(copy_down_async, cuMemcpyDtoHAsync(pinned, data, 64, other))
CALL(copy_up_pageable_async, cuMemcpyHtoDAsync(data, pageable, 64, other))
CALL(copy_down_pageable_async, cuMemcpyDtoHAsync(pageable, data, 64, other))
CALL(memset, cuMemsetD8(data, 1, 64))
CALL(memset_async, cuMemsetD8Async(data, 1, 64, other))
CALL(mem_info, cuMemGetInfo(&room, &all))
CALL(array_create, cuArrayCreate_v2(&array, &shape))
CALL(array_destroy, cuArrayDestroy(array))
CALL(module_load, cuModuleLoadData(&loaded, ptx))
CALL(module_unload, cuModuleUnload(loaded))
CALL(function_get, cuModuleGetFunction(&nothing, module, "nothing"))
CALL(function_attribute,
     cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing))
CALL(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, nothing, 32, 0))
CALL(graph_instantiate, cuGraphInstantiateWithFlags(&instance, empty, 0))
CALL(graph_upload, cuGraphUpload(exec, other))
CALL(graph_launch, cuGraphLaunch(exec, other))
CALL(graph_exec_destroy, cuGraphExecDestroy(instance))
CALL(pool_create, cuMemPoolCreate(&pool, &props))
CALL(pool_trim, cuMemPoolTrimTo(pool, 0))
CALL(pool_destroy, cuMemPoolDestroy(pool))
CALL(ctx_limit, cuCtxGetLimit(&room, CU_LIMIT_STACK_SIZE))
CALL(ctx_set_limit, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048))

#define ENTRY(name)                                                                    \
    {                                                                                  \
#name, do_##name                                                               \
    }
static const struct call {
    const char *name;
    CUresult (*make)(void);
} calls[] = {
    ENTRY(event_query),
    ENTRY(event_synchronize),
    ENTRY(event_record),
    ENTRY(event_elapsed),
    ENTRY(event_create),
    ENTRY(event_destroy),
    ENTRY(stream_query),
    ENTRY(stream_synchronize),
    ENTRY(stream_wait),
    ENTRY(stream_create),
    ENTRY(stream_destroy),
    ENTRY(ctx_synchronize),
    ENTRY(launch),
    ENTRY(host_func),
    ENTRY(mem_alloc),
    ENTRY(mem_free),
    ENTRY(mem_alloc_async),
    ENTRY(mem_free_async),
    ENTRY(mem_alloc_host),
    ENTRY(mem_free_host),
    ENTRY(host_register),
    ENTRY(host_unregister),
    ENTRY(mem_alloc_managed),
    ENTRY(mem_free_managed),
    ENTRY(copy_up),
    ENTRY(copy_down),
    ENTRY(copy_device),
    ENTRY(copy_up_async),
    ENTRY(copy_down_async),
    ENTRY(copy_up_pageable_async),
    ENTRY(copy_down_pageable_async),
    ENTRY(memset),
    ENTRY(memset_async),
    ENTRY(mem_info),
    ENTRY(array_create),
    ENTRY(array_destroy),
    ENTRY(module_load),
    ENTRY(module_unload),
    ENTRY(function_get),
    ENTRY(function_attribute),
    ENTRY(occupancy),
    ENTRY(graph_instantiate),
    ENTRY(graph_upload),
    ENTRY(graph_launch),
    ENTRY(graph_exec_destroy),
    ENTRY(pool_create),
    ENTRY(pool_trim),
    ENTRY(pool_destroy),
    ENTRY(ctx_limit),
    ENTRY(ctx_set_limit),
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

struct made_by {
    const struct call *call;
    CUresult result;
};

static void *
make_there(void *arg)
{
    struct made_by *by = arg;

    MUST(cuCtxSetCurrent(ctx));
    by->result = by->call->make();
    return NULL;
}

/* What a call that was refused has not made or freed is made up for, so that the next
 * one finds the same. */
static void
make_up_for(const struct call *call, CUresult r)
{
    MUST(cuCtxSynchronize());
    if (r != CUDA_SUCCESS && strcmp(call->name, "event_elapsed") != 0)
        call->make();
    MUST(cuCtxSynchronize());
}

static void
ask(const struct call *call, CUstreamCaptureMode mode, int elsewhere)
{
    struct made_by by = {.call = call};
    CUgraph graph = NULL;
    pthread_t thread;
    CUresult r;

    MUST(cuStreamBeginCapture_v2(captured, mode));
    if (elsewhere) {
        if (pthread_create(&thread, NULL, make_there, &by) != 0)
            exit(1);
        pthread_join(thread, NULL);
    } else {
        by.result = call->make();
    }
    r = cuStreamEndCapture(captured, &graph);
    printf("%s: %d %d\n", call->name, (int)by.result, (int)r);
    if (graph)
        cuGraphDestroy(graph);
    make_up_for(call, by.result);
}

static void
begin_all(void)
{
    CUdevice dev;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&dev, 0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, dev));
    MUST(cuCtxSetCurrent(ctx));
    MUST(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, 0));
    MUST(cuEventCreate(&begin, 0));
    MUST(cuEventCreate(&end, 0));
    MUST(cuEventRecord(begin, other));
    MUST(cuEventRecord(end, other));
    MUST(cuEventRecord(event, other));
    MUST(cuMemAlloc(&data, 4096));
    MUST(cuMemHostAlloc(&pinned, 4096, 0));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&nothing, module, "nothing"));
    MUST(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
    MUST(cuGraphCreate(&empty, 0));
    MUST(cuGraphInstantiateWithFlags(&exec, empty, 0));
    MUST(cuCtxSynchronize());
}

/* An event recorded in the capturing stream is the capture's: asking for it. */
static void
ask_captured(const char *name, CUresult (*call)(CUevent))
{
    CUgraph graph = NULL;
    CUresult r;

    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuEventRecord(event, captured));
    r = call(event);
    printf("%s: %d", name, (int)r);
    r = cuStreamEndCapture(captured, &graph);
    printf(" %d\n", (int)r);
    if (graph)
        cuGraphDestroy(graph);
    MUST(cuEventRecord(event, other));
    MUST(cuCtxSynchronize());
}

/* Work that was launched just before is no part of the capture, however long that
 * takes. */
static void
ask_behind_work(void)
{
    CUgraph graph = NULL;
    size_t nodes = 0;
    CUresult r;

    for (int i = 0; i < 3; i++)
        MUST(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, captured, NULL, NULL));
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 20; i++) {
        MUST(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, captured, NULL, NULL));
        usleep(1000);
    }
    r = cuStreamEndCapture(captured, &graph);
    if (r == CUDA_SUCCESS)
        MUST(cuGraphGetNodes(graph, NULL, &nodes));
    printf("behind work: %d, %zu nodes\n", (int)r, nodes);
    if (graph)
        cuGraphDestroy(graph);
}

int
main(void)
{
    static const struct {
        const char *name;
        CUstreamCaptureMode mode;
    } modes[] = {{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
                 {"thread-local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}};

    setvbuf(stdout, NULL, _IOLBF, 0);
    begin_all();
    for (size_t m = 0; m < 2; m++) {
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            printf("%s, %s\n", modes[m].name,
                   elsewhere ? "by another thread" : "by the same thread");
            for (size_t i = 0; i < N_CALLS; i++)
                ask(&calls[i], modes[m].mode, elsewhere);
        }
    }
    ask_captured("query of the capture's event", cuEventQuery);
    ask_captured("wait for the capture's event", cuEventSynchronize);
    ask_behind_work();
    return 0;
}
