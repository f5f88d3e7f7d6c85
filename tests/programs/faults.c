/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that fail: which call tells it, and that the process has no context of use
 * from then on, whatever it destroys and makes.  So each part has its own process.
 */
#include "parts.h"

#include <semaphore.h>

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry wild(.param .u64 at)\n"
                          "{\n"
                          "    .reg .b64 %rd<2>;\n"
                          "    .reg .b32 %r<2>;\n"
                          "    ld.param.u64 %rd1, [at];\n"
                          "    mov.u32 %r1, 7;\n"
                          "    st.global.u32 [%rd1], %r1;\n"
                          "    ret;\n"
                          "}\n"
                          ".extern .func __assertfail(.param .b64 m, .param .b64 f, "
                          ".param .b32 l, .param .b64 n, .param .b64 s);\n"
                          ".global .align 1 .b8 word[4] = {111, 110, 101, 0};\n"
                          ".visible .entry claim()\n"
                          "{\n"
                          "    .reg .b64 %rd<3>;\n"
                          "    mov.u64 %rd1, word;\n"
                          "    cvta.global.u64 %rd2, %rd1;\n"
                          "    { .param .b64 m; .param .b64 f; .param .b32 l;\n"
                          "      .param .b64 n; .param .b64 s;\n"
                          "      st.param.b64 [m], %rd2; st.param.b64 [f], %rd2;\n"
                          "      st.param.b32 [l], 7; st.param.b64 [n], %rd2;\n"
                          "      st.param.b64 [s], 1;\n"
                          "      call.uni __assertfail, (m, f, l, n, s); }\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry stop()\n"
                          "{\n"
                          "    trap;\n"
                          "    ret;\n"
                          "}\n";

struct bench {
    CUcontext ctx;
    CUmodule mod;
    CUfunction wild, stop;
    CUdeviceptr mem;
};

static int
begin(struct bench *b)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&b->ctx, 0, 0));
    TRY(cuModuleLoadData(&b->mod, ptx));
    TRY(cuModuleGetFunction(&b->wild, b->mod, "wild"));
    TRY(cuModuleGetFunction(&b->stop, b->mod, "stop"));
    TRY(cuMemAlloc_v2(&b->mem, 4096));
    return 0;
}

static CUresult
launch(CUfunction f, CUdeviceptr at, CUstream stream)
{
    void *params[] = {&at};

    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* The context works: a kernel's store comes back. */
static int
works(const struct bench *b)
{
    unsigned int got = 0;

    TRY(launch(b->wild, b->mem, NULL));
    TRY(cuMemcpyDtoH_v2(&got, b->mem, 4));
    SAME(got, 7);
    return 0;
}

/* Everything in a context gives the error of the kernel that failed. */
static int
is_dead(const struct bench *b, CUresult error)
{
    unsigned int word = 0;
    CUdeviceptr more;
    CUmodule mod;
    size_t n, total;

    CODE(cuCtxSynchronize(), error);
    CODE(cuMemAlloc_v2(&more, 64), error);
    CODE(cuMemcpyDtoH_v2(&word, b->mem, 4), error);
    CODE(cuStreamSynchronize(NULL), error);
    CODE(cuModuleLoadData(&mod, ptx), error);
    CODE(cuMemGetInfo_v2(&n, &total), error);
    CODE(cuCtxSynchronize(), error);
    return 0;
}

/* No context, new or retained, comes behind it. */
static int
process_is_dead(CUresult error)
{
    CUcontext ctx;

    CODE(cuCtxCreate_v2(&ctx, 0, 0), error);
    CODE(cuDevicePrimaryCtxRetain(&ctx, 0), error);
    return 0;
}

static int
address_that_is_none(void)
{
    struct bench b;

    if (begin(&b) || works(&b))
        return 1;
    TRY(launch(b.wild, 16, NULL));
    if (is_dead(&b, CUDA_ERROR_ILLEGAL_ADDRESS))
        return 1;
    TRY(cuCtxDestroy_v2(b.ctx));
    return process_is_dead(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int
kernel_that_traps(void)
{
    struct bench b;

    if (begin(&b))
        return 1;
    TRY(cuLaunchKernel(b.stop, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    if (is_dead(&b, CUDA_ERROR_LAUNCH_FAILED))
        return 1;
    TRY(cuCtxDestroy_v2(b.ctx));
    return process_is_dead(CUDA_ERROR_LAUNCH_FAILED);
}

/* CUDA's documentation says it of the context alone. */
static int
kernel_that_asserts(void)
{
    CUfunction claim;
    struct bench b;

    if (begin(&b))
        return 1;
    TRY(cuModuleGetFunction(&claim, b.mod, "claim"));
    TRY(cuLaunchKernel(claim, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    if (is_dead(&b, CUDA_ERROR_ASSERT))
        return 1;
    TRY(cuCtxDestroy_v2(b.ctx));
    return process_is_dead(CUDA_ERROR_ASSERT);
}

static void
wait_for(void *gate)
{
    sem_wait(gate);
}

static int
told_by_the_wait_for_an_event(void)
{
    struct bench b;
    CUstream stream;
    CUevent event;
    sem_t gate;

    if (begin(&b))
        return 1;
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&event, 0));
    sem_init(&gate, 0, 0);
    TRY(cuLaunchHostFunc(stream, wait_for, &gate));
    TRY(launch(b.wild, 16, stream));
    TRY(cuEventRecord(event, stream));
    sem_post(&gate);
    CODE(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    CODE(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    CODE(cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    TRY(cuCtxDestroy_v2(b.ctx));
    return 0;
}

static int
other_contexts_have_it_too(void)
{
    struct bench good, bad;

    if (begin(&good) || begin(&bad))
        return 1;
    TRY(launch(bad.wild, 16, NULL));
    CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    TRY(cuCtxSetCurrent(good.ctx));
    if (is_dead(&good, CUDA_ERROR_ILLEGAL_ADDRESS))
        return 1;
    TRY(cuCtxDestroy_v2(bad.ctx));
    if (is_dead(&good, CUDA_ERROR_ILLEGAL_ADDRESS))
        return 1;
    TRY(cuCtxDestroy_v2(good.ctx));
    return process_is_dead(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int
reset_of_the_primary_context(void)
{
    CUcontext ctx;
    CUfunction f;
    CUmodule mod;

    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, 0));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuModuleLoadData(&mod, ptx));
    TRY(cuModuleGetFunction(&f, mod, "wild"));
    TRY(launch(f, 16, NULL));
    CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    printf("  reset: %d\n", (int)cuDevicePrimaryCtxReset_v2(0));
    return process_is_dead(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void
never(void *user)
{
    (void)user;
}

struct late {
    struct bench b;
    CUstream stream, other;
    CUevent event, fresh;
    CUgraph graph;
    CUgraphExec exec;
    void *pinned;
    unsigned char pageable[64];
};

#define HALF ((size_t)1 << 20)
#define SAY(name, call) printf("  %s: %d\n", name, (int)(call))

/* Calls that the program gets no value from: each is printed with its answer.  The two
 * streams work at a time, each with a half of the memory. */
static void
say_posted(struct late *l)
{
    CUdeviceptr half = l->b.mem + HALF;

    SAY("launch", launch(l->b.wild, half, NULL));
    SAY("launch on a stream", launch(l->b.wild, l->b.mem, l->stream));
    SAY("fill", cuMemsetD8_v2(half, 1, 64));
    SAY("fill on a stream", cuMemsetD32Async(l->b.mem, 1, 16, l->stream));
    SAY("copy up", cuMemcpyHtoD_v2(half, l->pageable, 64));
    SAY("copy up on a stream",
        cuMemcpyHtoDAsync_v2(l->b.mem, l->pageable, 64, l->stream));
    SAY("copy up from pinned memory",
        cuMemcpyHtoDAsync_v2(l->b.mem, l->pinned, HALF, l->stream));
    SAY("copy down to pinned memory",
        cuMemcpyDtoHAsync_v2(l->pinned, l->b.mem, 64, l->stream));
    SAY("copy on the card", cuMemcpyDtoDAsync_v2(half, half + 64, 64, NULL));
    SAY("record", cuEventRecord(l->event, l->stream));
    SAY("wait on the card", cuStreamWaitEvent(l->stream, l->event, 0));
    SAY("host function", cuLaunchHostFunc(l->stream, never, NULL));
    SAY("graph", cuGraphLaunch(l->exec, l->stream));
    SAY("stream-ordered free", cuMemFreeAsync(l->b.mem, l->stream));
    l->other = l->stream;
    SAY("new stream", cuStreamCreate(&l->other, CU_STREAM_NON_BLOCKING));
    printf("  its handle: %s\n", l->other == l->stream ? "as before"
                                 : l->other            ? "a new one"
                                                       : "none");
    SAY("new event", cuEventCreate(&l->fresh, 0));
    SAY("free", cuMemFree_v2(l->b.mem));
    SAY("free of pinned memory", cuMemFreeHost(l->pinned));
    SAY("end of a module", cuModuleUnload(l->b.mod));
    SAY("end of an event", cuEventDestroy_v2(l->event));
    SAY("end of a stream", cuStreamDestroy_v2(l->stream));
}

/* The same of calls that do give one, by the stub's own knowledge or the driver's. */
static void
say_answered(struct late *l)
{
    CUstreamCaptureStatus status;
    CUdeviceptr ptr;
    unsigned int flags;
    int least, most;
    void *host = NULL;
    size_t n;

    SAY("new pinned memory", cuMemHostAlloc(&host, 4096, 0));
    SAY("flags of pinned memory", cuMemHostGetFlags(&flags, l->pinned));
    SAY("its place on the card", cuMemHostGetDevicePointer_v2(&ptr, l->pinned, 0));
    SAY("memory to be pinned", cuMemHostRegister_v2(l->pageable, 64, 0));
    SAY("memory to be pinned no more", cuMemHostUnregister(l->pageable));
    SAY("priorities", cuCtxGetStreamPriorityRange(&least, &most));
    SAY("is it capturing", cuStreamIsCapturing(l->stream, &status));
    SAY("flags of a stream", cuStreamGetFlags(l->stream, &flags));
    SAY("a function", cuModuleGetFunction(&l->b.stop, l->b.mod, "stop"));
    SAY("a limit", cuCtxGetLimit(&n, CU_LIMIT_STACK_SIZE));
    SAY("a range", cuMemGetAddressRange_v2(&ptr, &n, l->b.mem));
    SAY("managed memory", cuMemAllocManaged(&ptr, 4096, CU_MEM_ATTACH_GLOBAL));
    SAY("stream-ordered memory", cuMemAllocAsync(&ptr, 4096, l->stream));
    SAY("is it done", cuStreamQuery(l->stream));
    SAY("a wait", cuStreamSynchronize(l->stream));
}

static int
late_begin(struct late *l)
{
    CUgraphNode node;
    CUDA_MEMSET_NODE_PARAMS fill = {
        .value = 1, .elementSize = 1, .width = 64, .height = 1};

    memset(l, 0, sizeof(*l));
    if (begin(&l->b))
        return 1;
    TRY(cuMemFree_v2(l->b.mem));
    TRY(cuMemAlloc_v2(&l->b.mem, 2 * HALF));
    fill.dst = l->b.mem;
    TRY(cuMemHostAlloc(&l->pinned, HALF, 0));
    TRY(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&l->event, 0));
    TRY(cuGraphCreate(&l->graph, 0));
    TRY(cuGraphAddMemsetNode(&node, l->graph, NULL, 0, &fill, l->b.ctx));
    TRY(cuGraphInstantiateWithFlags(&l->exec, l->graph, 0));
    return 0;
}

/* Once the error has been told, calls that nobody waits for tell it as well. */
static int
told_at_once_by_every_call(void)
{
    struct late l;

    if (late_begin(&l))
        return 1;
    TRY(launch(l.b.wild, 16, NULL));
    CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    say_answered(&l);
    say_posted(&l);
    TRY(cuCtxDestroy_v2(l.b.ctx));
    return 0;
}

/* What the same calls answer where nothing has failed. */
static int
without_an_error(void)
{
    struct late l;

    if (late_begin(&l))
        return 1;
    say_answered(&l);
    say_posted(&l);
    TRY(cuCtxDestroy_v2(l.b.ctx));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"address that is none", address_that_is_none},
        {"kernel that traps", kernel_that_traps},
        {"kernel that asserts", kernel_that_asserts},
        {"told by the wait for an event", told_by_the_wait_for_an_event},
        {"other contexts have it too", other_contexts_have_it_too},
        {"reset of the primary context", reset_of_the_primary_context},
        {"told at once by every call", told_at_once_by_every_call},
        {"without an error", without_an_error},
    };

    return parts_run_apart(parts, sizeof(parts) / sizeof(parts[0]));
}
