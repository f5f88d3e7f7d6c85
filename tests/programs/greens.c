/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts and the contexts made from them: current on a thread, beside the
 * primary context whose memory, modules and events they share, and how they end.
 */
#include "parts.h"
#include "strict.h"

#include <pthread.h>

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry put(.param .u64 at, .param .u32 value)\n"
                          "{\n"
                          "    .reg .b64 %rd<2>;\n"
                          "    .reg .b32 %r<2>;\n"
                          "    ld.param.u64 %rd1, [at];\n"
                          "    ld.param.u32 %r1, [value];\n"
                          "    st.global.u32 [%rd1], %r1;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry where(.param .u64 at)\n"
                          "{\n"
                          "    .reg .b64 %rd<4>;\n"
                          "    .reg .b32 %r<3>;\n"
                          "    ld.param.u64 %rd1, [at];\n"
                          "    mov.u32 %r1, %smid;\n"
                          "    mov.u32 %r2, %ctaid.x;\n"
                          "    mul.wide.u32 %rd2, %r2, 4;\n"
                          "    add.u64 %rd3, %rd1, %rd2;\n"
                          "    st.global.u32 [%rd3], %r1;\n"
                          "    ret;\n"
                          "}\n";

#define BLOCKS 64

static CUcontext primary;
static CUmodule module;
static CUfunction put, where;
static CUdeviceptr memory;

/* The part @at of parts of one multiprocessor, and its context. */
static int
make(unsigned at, CUgreenCtx *ret, CUcontext *ret_ctx)
{
    CUdevResource all, parts[64];
    CUdevResourceDesc desc;
    unsigned n = 64;

    TRY(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRY(cuDevSmResourceSplitByCount(parts, &n, &all, NULL, 0, 1));
    SAME(at < n, 1);
    TRY(cuDevResourceGenerateDesc(&desc, &parts[at], 1));
    TRY(cuGreenCtxCreate(ret, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    TRY(cuCtxFromGreenCtx(ret_ctx, *ret));
    return 0;
}

/* A kernel in @stream stores @value, which a copy brings back. */
static int
stores(CUfunction f, unsigned value, CUstream stream)
{
    void *params[] = {&memory, &value};
    unsigned got = 0;

    TRY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(&got, memory, 4));
    SAME(got, value);
    return 0;
}

/* The multiprocessors that a kernel in @stream ran on, one bit each. */
static int
places(CUstream stream, unsigned *ret)
{
    unsigned at[BLOCKS];
    void *params[] = {&memory};

    TRY(cuLaunchKernel(where, BLOCKS, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(at, memory, sizeof(at)));
    *ret = 0;
    for (int i = 0; i < BLOCKS; i++)
        *ret |= 1u << at[i];
    return 0;
}

static int
current_on_the_stack(void)
{
    CUcontext ctx, other, got = NULL;
    CUgreenCtx green, second;
    CUdevResource told;
    unsigned version;
    CUdevice dev;

    if (make(0, &green, &ctx) || make(1, &second, &other))
        return 1;
    TRY(cuCtxFromGreenCtx(&got, green));
    SAME(got == ctx, 1);
    SAME(ctx != other && ctx != primary, 1);
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuCtxGetCurrent(&got));
    SAME(got == ctx, 1);
    TRY(cuCtxGetDevice(&dev));
    SAME(dev, 0);
    TRY(cuCtxGetApiVersion(ctx, &version));
    TRY(cuCtxGetDevResource(ctx, &told, CU_DEV_RESOURCE_TYPE_SM));
    SAME(told.sm.smCount, 1);
    TRY(cuCtxPushCurrent_v2(primary));
    TRY(cuCtxPushCurrent_v2(other));
    TRY(cuCtxPopCurrent_v2(&got));
    SAME(got == other, 1);
    TRY(cuCtxPopCurrent_v2(&got));
    SAME(got == primary, 1);
    TRY(cuCtxGetCurrent(&got));
    SAME(got == ctx, 1);
    CODE(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
    TRY(cuCtxSetCurrent(primary));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuGreenCtxDestroy(second));
    return 0;
}

/* Memory, modules and events are the primary context's. */
static int
work_in_it(void)
{
    CUgreenCtx green, of_stream = NULL;
    CUcontext ctx, got = NULL;
    CUstream stream, own;
    CUmodule second;
    CUfunction f;
    CUdeviceptr more;
    CUevent event;
    unsigned word = 0;

    if (make(0, &green, &ctx))
        return 1;
    TRY(cuCtxSetCurrent(ctx));
    if (stores(put, 5, NULL) || stores(put, 6, CU_STREAM_PER_THREAD))
        return 1;
    TRY(cuModuleLoadData(&second, ptx));
    TRY(cuModuleGetFunction(&f, second, "put"));
    TRY(cuStreamCreate(&stream, 0));
    TRY(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0));
    CODE(cuGreenCtxStreamCreate(&own, green, CU_STREAM_DEFAULT, 0),
         CUDA_ERROR_INVALID_VALUE);
    if (stores(f, 7, stream) || stores(put, 8, own))
        return 1;
    TRY(cuStreamGetCtx(stream, &got));
    SAME(got == ctx, 1);
    TRY(cuStreamGetCtx_v2(own, &got, &of_stream));
    SAME(of_stream == green, 1);
    TRY(cuMemAlloc_v2(&more, 4096));
    TRY(cuMemsetD32_v2(more, 9, 1024));
    TRY(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_CONTEXT, more));
    SAME(got == primary, 1);
    TRY(cuEventCreate(&event, 0));
    TRY(cuGreenCtxRecordEvent(green, event));
    TRY(cuEventSynchronize(event));
    TRY(cuCtxRecordEvent(ctx, event));
    TRY(cuCtxWaitEvent(ctx, event));
    TRY(cuCtxSynchronize());
    TRY(cuEventQuery(event));
    TRY(cuCtxSetCurrent(NULL));
    TRY(cuGreenCtxDestroy(green));

    /* What was made in it outlives it. */
    TRY(cuCtxSetCurrent(primary));
    if (stores(f, 10, stream))
        return 1;
    TRY(cuMemcpyDtoH_v2(&word, more + 4092, 4));
    SAME(word, 9);
    TRY(cuEventRecord(event, stream));
    TRY(cuEventSynchronize(event));
    TRY(cuEventDestroy_v2(event));
    TRY(cuMemFree_v2(more));
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuStreamDestroy_v2(own));
    TRY(cuModuleUnload(second));
    return 0;
}

static int
kernels_run_on_its_part(void)
{
    unsigned whole, first, second, by_default;
    CUgreenCtx green, next;
    CUcontext ctx, other;
    CUstream a, b;

    if (make(0, &green, &ctx) || make(1, &next, &other))
        return 1;
    TRY(cuGreenCtxStreamCreate(&a, green, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuGreenCtxStreamCreate(&b, next, CU_STREAM_NON_BLOCKING, 0));
    if (places(a, &first) || places(b, &second))
        return 1;
    TRY(cuCtxSetCurrent(other));
    if (places(NULL, &by_default))
        return 1;
    TRY(cuCtxSetCurrent(primary));
    if (places(NULL, &whole))
        return 1;
    SAME(__builtin_popcount(first), 1);
    SAME(__builtin_popcount(second), 1);
    SAME(first != second, 1);
    SAME(by_default == second, 1);
    TRY(cuStreamDestroy_v2(a));
    TRY(cuStreamDestroy_v2(b));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuGreenCtxDestroy(next));
    return 0;
}

/* Default streams belong to the green context that is current. */
static int
streams_know_it(void)
{
    unsigned long long id = 0, same = 0;
    CUgreenCtx green, told = NULL;
    CUcontext ctx, got = NULL;
    CUstream own;

    if (make(1, &green, &ctx))
        return 1;
    TRY(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuStreamGetGreenCtx(own, &told));
    SAME(told == green, 1);
    TRY(cuStreamGetGreenCtx(NULL, &told));
    SAME(told == NULL, 1);
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamGetGreenCtx(NULL, &told));
    SAME(told == green, 1);
    told = NULL;
    TRY(cuStreamGetCtx_v2(CU_STREAM_LEGACY, &got, &told));
    SAME(told == green && got == primary, 1);
    TRY(cuGreenCtxGetId(green, &id));
    TRY(cuGreenCtxGetId(NULL, &same)); /* the current one's */
    SAME(id == same, 1);
    TRY(cuCtxSetCurrent(primary));
    SAME(cuGreenCtxGetId(NULL, &same) != CUDA_SUCCESS, 1);
    TRY(cuStreamGetCtx_v2(NULL, &got, &told));
    SAME(told == NULL && got == primary, 1);
    TRY(cuStreamDestroy_v2(own));
    TRY(cuGreenCtxDestroy(green));
    return 0;
}

/* The context that a stream is of, however it came to be. */
static int
streams_name_their_context(void)
{
    CUcontext ctx, other, got = NULL, later = NULL;
    CUstream own, before, in_it, in_other;
    CUgreenCtx green, next, told = NULL;
    CUdevResource all, parts[2];
    CUdevResourceDesc desc;
    unsigned n = 2;

    TRY(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
    if (make(0, &next, &other))
        return 1;
    TRY(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRY(cuDevSmResourceSplitByCount(parts, &n, &all, NULL, 0, 1));
    TRY(cuDevResourceGenerateDesc(&desc, &parts[1], 1));
    TRY(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    TRY(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuStreamGetCtx(own, &got)); /* which nobody has asked for yet */
    TRY(cuCtxFromGreenCtx(&ctx, green));
    SAME(got == ctx && ctx != primary, 1);
    TRY(cuCtxSetCurrent(got));
    TRY(cuStreamCreate(&in_it, CU_STREAM_NON_BLOCKING));
    TRY(cuCtxSetCurrent(other));
    TRY(cuStreamCreate(&in_other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++) {
        CUcontext now = i == 0 ? primary : i == 1 ? ctx : other;

        TRY(cuCtxSetCurrent(now));
        TRY(cuStreamGetCtx(own, &got));
        SAME(got == ctx, 1);
        TRY(cuStreamGetCtx(in_it, &got));
        SAME(got == ctx, 1);
        TRY(cuStreamGetCtx(in_other, &got));
        SAME(got == other, 1);
        TRY(cuStreamGetCtx(before, &got));
        SAME(got == primary, 1);
        TRY(cuStreamGetCtx(NULL, &got));
        SAME(got == now, 1);
        TRY(cuStreamGetCtx(CU_STREAM_LEGACY, &got));
        SAME(got == now, 1);
        TRY(cuStreamGetCtx(CU_STREAM_PER_THREAD, &got));
        SAME(got == now, 1);
        TRY(cuStreamGetCtx_v2(own, &got, &told));
        SAME(got == primary && told == green, 1);
        TRY(cuStreamGetCtx_v2(in_other, &got, &told));
        SAME(got == primary && told == next, 1);
        TRY(cuStreamGetCtx_v2(before, &got, &told));
        SAME(got == primary && told == NULL, 1);
        CODE(cuStreamGetCtx_v2(CU_STREAM_PER_THREAD, &got, &told),
             i ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS);
    }
    TRY(cuCtxSetCurrent(primary));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuStreamGetGreenCtx(own, &told)); /* which it outlives */
    SAME(told == NULL, 1);
    TRY(cuStreamGetCtx_v2(in_it, &later, &told));
    SAME(later == primary && told == NULL, 1);
    TRY(cuStreamGetCtx(own, &later));
    SAME(later == primary, 1);
    if (stores(put, 21, own) || stores(put, 22, in_it))
        return 1;
    TRY(cuStreamDestroy_v2(own));
    TRY(cuStreamDestroy_v2(in_it));
    TRY(cuStreamDestroy_v2(in_other));
    TRY(cuStreamDestroy_v2(before));
    TRY(cuGreenCtxDestroy(next));
    return 0;
}

/* Contexts made from green ones have numbers of their own. */
static int
numbers_of_contexts(void)
{
    unsigned long long of_whole, of_part, of_other, now;
    CUgreenCtx green, next;
    CUcontext ctx, other;

    if (make(0, &green, &ctx) || make(1, &next, &other))
        return 1;
    TRY(cuCtxGetId(primary, &of_whole));
    TRY(cuCtxGetId(ctx, &of_part));
    TRY(cuCtxGetId(other, &of_other));
    SAME(of_part != of_whole && of_other != of_whole && of_part != of_other, 1);
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuCtxGetId(NULL, &now));
    SAME(now == of_part, 1);
    TRY(cuCtxGetId(primary, &now));
    SAME(now == of_whole, 1);
    TRY(cuCtxSetCurrent(primary));
    TRY(cuCtxGetId(NULL, &now));
    SAME(now == of_whole, 1);
    TRY(cuGreenCtxDestroy(green));
    if (make(0, &green, &ctx))
        return 1;
    TRY(cuCtxGetId(ctx, &now));
    SAME(now != of_part && now != of_other && now != of_whole, 1);
    TRY(cuGreenCtxDestroy(green));
    TRY(cuGreenCtxDestroy(next));
    return 0;
}

/* The error of a call, which may come with the next one that waits. */
static CUresult
while_capturing(CUresult r)
{
    CUstreamCaptureStatus status;

    return r != CUDA_SUCCESS ? r : cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status);
}

/* An event of all its streams cannot be recorded or waited for while one is captured,
 * whose capture that ends; the other green context is not meant. */
static int
events_and_captures(void)
{
    CUcontext ctx, other;
    CUgreenCtx green, next;
    CUstream own, its;
    CUgraph graph;
    CUevent event;

    if (make(0, &green, &ctx) || make(1, &next, &other))
        return 1;
    TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuGreenCtxStreamCreate(&its, next, CU_STREAM_NON_BLOCKING, 0));
    for (int i = 0; i < 4; i++) {
        TRY(cuStreamBeginCapture_v2(own, CU_STREAM_CAPTURE_MODE_RELAXED));
        TRY(while_capturing(cuCtxRecordEvent(other, event)));
        TRY(while_capturing(cuGreenCtxWaitEvent(next, event)));
        CODE(while_capturing(i == 0   ? cuGreenCtxRecordEvent(green, event)
                             : i == 1 ? cuGreenCtxWaitEvent(green, event)
                             : i == 2 ? cuCtxRecordEvent(ctx, event)
                                      : cuCtxWaitEvent(primary, event)),
             CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CODE(cuStreamEndCapture(own, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    TRY(cuStreamDestroy_v2(own));
    TRY(cuStreamDestroy_v2(its));
    TRY(cuEventDestroy_v2(event));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuGreenCtxDestroy(next));
    return 0;
}

/* Pieces of one split make one description, whichever comes first, and each once. */
static int
pieces_are_put_together(void)
{
    CUdevResource all, pieces[2], told;
    CUdevResourceDesc desc;
    unsigned n = 1;
    CUgreenCtx green;

    TRY(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRY(cuDevSmResourceSplitByCount(&pieces[1], &n, &all, &pieces[0], 0, 1));
    TRY(cuDevResourceGenerateDesc(&desc, pieces, 2));
    TRY(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    TRY(cuGreenCtxGetDevResource(green, &told, CU_DEV_RESOURCE_TYPE_SM));
    SAME(told.sm.smCount == all.sm.smCount, 1);
    TRY(cuGreenCtxDestroy(green));
    pieces[1] = pieces[0];
    CODE(cuDevResourceGenerateDesc(&desc, pieces, 2),
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    CODE(cuGreenCtxCreate(&green, desc, 99, CU_GREEN_CTX_DEFAULT_STREAM),
         CUDA_ERROR_INVALID_DEVICE);
    return 0;
}

/* Nor need they lie side by side, but they are of one split. */
static int
pieces_that_lie_apart(void)
{
    CUdevResource all, pieces[4], others[4], both[2], told;
    unsigned n = 4, ran, rest;
    CUdevResourceDesc desc;
    CUgreenCtx green, beside;
    CUstream own, its;

    TRY(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRY(cuDevSmResourceSplitByCount(pieces, &n, &all, NULL, 0, 1));
    SAME(n, 4);
    TRY(cuDevSmResourceSplitByCount(others, &n, &all, NULL, 0, 1));
    both[0] = pieces[3];
    both[1] = others[0];
    CODE(cuDevResourceGenerateDesc(&desc, both, 2),
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    both[0] = all;
    both[1] = pieces[0];
    CODE(cuDevResourceGenerateDesc(&desc, both, 2),
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    both[0] = pieces[3];
    both[1] = pieces[1];
    TRY(cuDevResourceGenerateDesc(&desc, both, 2));
    TRY(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    TRY(cuGreenCtxGetDevResource(green, &told, CU_DEV_RESOURCE_TYPE_SM));
    SAME(told.sm.smCount, 2);
    both[0] = pieces[2];
    both[1] = pieces[0];
    TRY(cuDevResourceGenerateDesc(&desc, both, 2));
    TRY(cuGreenCtxCreate(&beside, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    TRY(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0));
    TRY(cuGreenCtxStreamCreate(&its, beside, CU_STREAM_NON_BLOCKING, 0));
    if (places(own, &ran) || places(its, &rest))
        return 1;
    SAME(ran & rest, 0);
    SAME(__builtin_popcount(ran) <= 2 && __builtin_popcount(rest) <= 2, 1);
    n = 4; /* what it has can be split again */
    TRY(cuDevSmResourceSplitByCount(pieces, &n, &told, &others[0], 0, 1));
    SAME(n, 2);
    SAME(others[0].type, CU_DEV_RESOURCE_TYPE_INVALID);
    TRY(cuStreamDestroy_v2(own));
    TRY(cuStreamDestroy_v2(its));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuGreenCtxDestroy(beside));
    return 0;
}

static CUcontext of_thread;
static int thread_wrong;

static void *
in_a_thread(void *value)
{
    thread_wrong = cuCtxSetCurrent(of_thread) != CUDA_SUCCESS ||
                   stores(put, (unsigned)(uintptr_t)value, CU_STREAM_PER_THREAD);
    return NULL;
}

static int
current_on_another_thread(void)
{
    CUgreenCtx green;
    pthread_t thread;

    if (make(1, &green, &of_thread) ||
        pthread_create(&thread, NULL, in_a_thread, (void *)77) != 0)
        return 1;
    pthread_join(thread, NULL);
    SAME(thread_wrong, 0);
    TRY(cuGreenCtxDestroy(green));
    return 0;
}

/* The context that is current ends with its green context, and comes back with none. */
static int
end_while_current(void)
{
    CUcontext ctx, next, got = NULL;
    CUgreenCtx green;
    CUdeviceptr more;
    CUdevice dev;

    if (make(0, &green, &ctx))
        return 1;
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuCtxGetCurrent(&got));
    SAME(got == ctx, 1);
    CODE(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CODE(cuMemAlloc_v2(&more, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CODE(cuCtxGetDevice(&dev), CUDA_ERROR_CONTEXT_IS_DESTROYED);

    /* Green contexts need no current one, and the next one is not it. */
    if (make(1, &green, &next))
        return 1;
    CODE(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CODE(cuMemAlloc_v2(&more, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    TRY(cuGreenCtxDestroy(green));
    TRY(cuCtxPopCurrent_v2(&got));
    SAME(got == ctx, 1);
    CODE(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
    TRY(cuCtxSetCurrent(primary));
    return stores(put, 11, NULL);
}

/* It holds the primary context.  Last: that one ends here. */
static int
holds_the_primary_context(void)
{
    unsigned flags;
    CUgreenCtx green;
    CUcontext ctx;
    int active;

    if (make(0, &green, &ctx))
        return 1;
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuDevicePrimaryCtxRelease_v2(0));
    TRY(cuDevicePrimaryCtxGetState(0, &flags, &active));
    SAME(active, 1);
    if (stores(put, 12, NULL))
        return 1;
    TRY(cuGreenCtxDestroy(green));
    TRY(cuDevicePrimaryCtxGetState(0, &flags, &active));
    SAME(active, 0);
    CODE(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"current on the stack", current_on_the_stack},
        {"work in it", work_in_it},
        {"kernels run on its part", kernels_run_on_its_part},
        {"streams know it", streams_know_it},
        {"streams name their context", streams_name_their_context},
        {"numbers of contexts", numbers_of_contexts},
        {"events and captures", events_and_captures},
        {"pieces are put together", pieces_are_put_together},
        {"pieces that lie apart", pieces_that_lie_apart},
        {"current on another thread", current_on_another_thread},
        {"end while current", end_while_current},
        {"holds the primary context", holds_the_primary_context},
    };
    const size_t n = sizeof(parts) / sizeof(parts[0]);

    if (cuInit(0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(primary) != CUDA_SUCCESS ||
        cuModuleLoadData(&module, ptx) != CUDA_SUCCESS ||
        cuModuleGetFunction(&put, module, "put") != CUDA_SUCCESS ||
        cuModuleGetFunction(&where, module, "where") != CUDA_SUCCESS ||
        cuMemAlloc_v2(&memory, 4096) != CUDA_SUCCESS)
        return 2;
    /* What a driver does with a current context that has ended is its own affair. */
    return parts_run(parts, strict_asked(argc, argv) ? n : n - 2);
}
