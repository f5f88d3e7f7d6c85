/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every card of the session at work, together: what `make test` runs on the cards of
 * one machine and on those of several servers, and compares.
 *
 * Prints the same on any set of cards of one number.  One thread; CUDA's own threads
 * call the host functions.
 */
#include "prog.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARDS_MAX 16
#define WORDS (700u * 1024u + 13u) /* several pieces of any transfer, and a rest */
#define BYTES ((size_t)WORDS * 4)
#define WIDTH 1000u /* bytes of a row of the rectangle */
#define PITCH 1536u
#define ROWS 300u
#define RINGS 3u

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 factor = 3;\n"
    /* p[i] = i * factor + seed */
    ".visible .entry fill(.param .u64 p, .param .u32 n, .param .u32 seed)\n{\n"
    " .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [seed];\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r6, %r3, %r4, %r5;\n setp.ge.u32 %q, %r6, %r1;\n @%q bra done;\n"
    " mov.u64 %d2, factor; ld.global.u32 %r7, [%d2];\n mad.lo.u32 %r7, %r6, %r7, %r2;\n"
    " mul.wide.u32 %d3, %r6, 4; add.u64 %d4, %d1, %d3; st.global.u32 [%d4], %r7;\n"
    "done:\n ret;\n}\n"
    /* p[i] = p[i] * 5 + add */
    ".visible .entry step(.param .u64 p, .param .u32 n, .param .u32 add)\n{\n"
    " .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [add];\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r6, %r3, %r4, %r5;\n setp.ge.u32 %q, %r6, %r1;\n @%q bra done;\n"
    " mul.wide.u32 %d3, %r6, 4; add.u64 %d4, %d1, %d3; ld.global.u32 %r7, [%d4];\n"
    " mad.lo.u32 %r7, %r7, 5, %r2; st.global.u32 [%d4], %r7;\n"
    "done:\n ret;\n}\n";

struct card {
    CUdevice dev;
    CUcontext ctx;
    CUstream stream;
    CUevent event;
    CUdeviceptr a, b;
};

static struct card cards[CARDS_MAX];
static unsigned n_cards;
static CUlibrary library;
static CUkernel fill, step;
static uint32_t *host;
static atomic_uint called;

static uint32_t
sum(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

static uint32_t
sum_of(CUdeviceptr from, size_t bytes)
{
    CU(cuMemcpyDtoH(host, from, bytes));
    return sum(host, bytes);
}

static void
launch(CUkernel kernel, CUdeviceptr p, unsigned n, unsigned value, CUstream stream)
{
    void *params[] = {&p, &n, &value};

    CU(cuLaunchKernel((CUfunction)kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream,
                      params, NULL));
}

static void
open_cards(void)
{
    int n;

    CU(cuInit(0));
    CU(cuDeviceGetCount(&n));
    n_cards = n > CARDS_MAX ? CARDS_MAX : (unsigned)n;
    CU(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&fill, library, "fill"));
    CU(cuLibraryGetKernel(&step, library, "step"));
    for (unsigned i = 0; i < n_cards; i++) /* before the first context of any */
        CU(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                1024 * (int)(n_cards - i), step, (int)i));
    for (unsigned i = 0; i < n_cards; i++) {
        struct card *c = &cards[i];

        CU(cuDeviceGet(&c->dev, (int)i));
        CU(cuDevicePrimaryCtxRetain(&c->ctx, c->dev));
        CU(cuCtxSetCurrent(c->ctx));
        CU(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
        CU(cuEventCreate(&c->event, CU_EVENT_DISABLE_TIMING));
        CU(cuMemAlloc(&c->a, BYTES));
        CU(cuMemAlloc(&c->b, BYTES));
        launch(fill, c->a, WORDS, i * 1000, NULL);
    }
    printf("%u cards\n", n_cards);
}

static void
check_places(void)
{
    for (unsigned i = 0; i < n_cards; i++) {
        struct card *c = &cards[i];
        CUcontext ctx, of;
        CUdevice dev;
        int ordinal;
        size_t size;
        CUdeviceptr base, global;

        /* Asked from the next card's context. */
        CU(cuCtxSetCurrent(cards[(i + 1) % n_cards].ctx));
        CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, c->b));
        CU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, c->b));
        CU(cuStreamGetCtx(c->stream, &ctx));
        CU(cuMemGetAddressRange(&base, &size, c->b + 100));
        CU(cuCtxGetDevice(&dev));
        printf("card %u: pointer %d, %s, %s, %s, current %d\n", i, ordinal,
               of == c->ctx ? "its context" : "another context",
               ctx == c->ctx ? "its stream" : "another stream",
               base == c->b && size == BYTES ? "its range" : "another range", dev);
        CU(cuCtxSetCurrent(c->ctx));
        CU(cuLibraryGetGlobal(&global, &size, library, "factor"));
        CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 global));
        printf("card %u: variable on card %d, %zu bytes, filled %08x\n", i, ordinal,
               size, sum_of(c->a, BYTES));
    }
}

enum { PEER, PEER_ASYNC, DTOD, DTOD_ASYNC, ANY, ANY_ASYNC, RECTANGLE, WAYS };

static void
copy(unsigned way, struct card *to, struct card *from)
{
    CUDA_MEMCPY2D rect = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from->a,
                          .srcPitch = PITCH,
                          .srcXInBytes = 8,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = to->b,
                          .dstPitch = PITCH + 64,
                          .WidthInBytes = WIDTH,
                          .Height = ROWS};

    switch (way) {
    case PEER:
        CU(cuMemcpyPeer(to->b, to->ctx, from->a, from->ctx, BYTES));
        break;
    case PEER_ASYNC:
        CU(cuMemcpyPeerAsync(to->b, to->ctx, from->a, from->ctx, BYTES, to->stream));
        break;
    case DTOD:
        CU(cuMemcpyDtoD(to->b, from->a, BYTES));
        break;
    case DTOD_ASYNC:
        CU(cuMemcpyDtoDAsync(to->b, from->a, BYTES, to->stream));
        break;
    case ANY:
        CU(cuMemcpy(to->b, from->a, BYTES));
        break;
    case ANY_ASYNC:
        CU(cuMemcpyAsync(to->b, from->a, BYTES, to->stream));
        break;
    default:
        CU(cuMemcpy2DAsync(&rect, to->stream));
    }
}

static void
copy_all_pairs(void)
{
    static const char *const names[] = {"peer", "peer async", "dtod",     "dtod async",
                                        "any",  "any async",  "rectangle"};

    for (unsigned way = 0; way < WAYS; way++)
        for (unsigned i = 0; i < n_cards; i++)
            for (unsigned j = 0; j < n_cards; j++) {
                struct card *to = &cards[j];

                CU(cuCtxSetCurrent(to->ctx));
                CU(cuMemsetD8(to->b, 0xee, BYTES));
                CU(cuCtxSynchronize());
                copy(way, to, &cards[i]);
                if (way == PEER || way == DTOD || way == ANY)
                    CU(cuCtxSynchronize()); /* they may return early */
                /* In the order of its stream. */
                launch(step, to->b, 64, j, to->stream);
                CU(cuStreamSynchronize(to->stream));
                CU(cuCtxSynchronize());
                printf("%s %u->%u: %08x\n", names[way], i, j, sum_of(to->b, BYTES));
            }
}

/* Card by card, each after the one before it, without the host in between. */
static void
run_ring(void)
{
    struct card *last = &cards[n_cards - 1];

    CU(cuCtxSetCurrent(cards[0].ctx));
    launch(fill, cards[0].b, WORDS, 7, cards[0].stream);
    CU(cuEventRecord(cards[0].event, cards[0].stream));
    for (unsigned k = 1; k < n_cards * RINGS; k++) {
        struct card *from = &cards[(k - 1) % n_cards], *to = &cards[k % n_cards];

        CU(cuCtxSetCurrent(to->ctx));
        CU(cuStreamWaitEvent(to->stream, from->event, 0));
        CU(cuMemcpyPeerAsync(to->b, to->ctx, from->b, from->ctx, BYTES, to->stream));
        launch(step, to->b, WORDS, k, to->stream);
        CU(cuEventRecord(to->event, to->stream));
    }
    CU(cuEventSynchronize(last->event));
    printf("ring: %08x\n", sum_of(last->b, BYTES));
}

/* The stream of the source side: what follows there must see the copy done, too. */
static void
push_in_order(void)
{
    for (unsigned i = 0; i < n_cards; i++) {
        struct card *from = &cards[i], *to = &cards[(i + 1) % n_cards];

        CU(cuCtxSetCurrent(from->ctx));
        launch(fill, from->b, WORDS, 100 + i, from->stream);
        CU(cuMemcpyPeerAsync(to->a, to->ctx, from->b, from->ctx, BYTES, from->stream));
        launch(fill, from->b, WORDS, 0, from->stream); /* must not be what arrives */
        CU(cuEventRecord(from->event, from->stream));
        CU(cuCtxSetCurrent(to->ctx));
        CU(cuStreamWaitEvent(to->stream, from->event, 0));
        launch(step, to->a, WORDS, 1, to->stream);
        CU(cuStreamSynchronize(to->stream));
        printf("push %u: %08x\n", i, sum_of(to->a, BYTES));
    }
}

/* A graph of each card, with the kernel of the one library. */
static void
run_graphs(void)
{
    for (unsigned i = 0; i < n_cards; i++) {
        struct card *c = &cards[i];
        unsigned n = WORDS, seed = 5 + i;
        void *params[] = {&c->b, &n, &seed};
        CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = (WORDS + 255) / 256,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
        CUgraph graph;
        CUgraphNode node;
        CUgraphExec exec;

        CU(cuCtxSetCurrent(c->ctx));
        CU(cuKernelGetFunction(&p.func, fill)); /* it belongs to this context */
        CU(cuGraphCreate(&graph, 0));
        CU(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p));
        CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CU(cuCtxSetCurrent(cards[0].ctx));
        CU(cuGraphLaunch(exec, c->stream));
        CU(cuStreamSynchronize(c->stream));
        printf("graph %u: %08x\n", i, sum_of(c->b, BYTES));
        CU(cuGraphExecDestroy(exec));
        CU(cuGraphDestroy(graph));
    }
}

/* A function of one card's context is no node's of another one: on two servers that are
 * two reasons. */
static void
refuse_functions_of_others(void)
{
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    unsigned n = 0, value = 0, took = 0;
    CUmodule modules[CARDS_MAX];
    CUfunction f[CARDS_MAX];

    for (unsigned i = 0; i < n_cards; i++) {
        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuModuleLoadData(&modules[i], ptx));
        CU(cuModuleGetFunction(&f[i], modules[i], "fill"));
    }
    for (unsigned i = 0; i < n_cards; i++) {
        void *params[] = {&cards[i].b, &n, &value};
        CUgraphNode node, another;
        CUgraphExec exec;
        CUgraph graph;

        p.kernelParams = params;
        p.func = f[i];
        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuGraphCreate(&graph, 0));
        CU(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p));
        CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (unsigned k = 0; k < n_cards; k++) {
            p.func = f[k];
            if (k == i)
                continue;
            took += cuGraphAddKernelNode_v2(&another, graph, NULL, 0, &p) == 0;
            took += cuGraphKernelNodeSetParams_v2(node, &p) == 0;
            took += cuGraphExecKernelNodeSetParams_v2(exec, node, &p) == 0;
        }
        CU(cuGraphExecDestroy(exec));
        CU(cuGraphDestroy(graph));
    }
    for (unsigned i = 0; i < n_cards; i++) {
        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuModuleUnload(modules[i]));
    }
    printf("functions of other cards that nodes took: %u\n", took);
}

/* Every attribute of a link has a value, which depends on where the cards are. */
static void
ask_links(void)
{
    for (unsigned i = 1; i < n_cards; i++)
        for (int what = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
             what <= CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED;
             what++) {
            int value = -1;

            CU(cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)what,
                                       cards[0].dev, cards[i].dev));
            if (value < 0)
                exit(2);
        }
}

static void
on_host(void *user)
{
    atomic_fetch_add(&called, (unsigned)(uintptr_t)user);
}

static void
call_host(void)
{
    for (unsigned i = 0; i < n_cards; i++)
        CU(cuLaunchHostFunc(cards[i].stream, on_host, (void *)(uintptr_t)(1u << i)));
    for (unsigned i = 0; i < n_cards; i++)
        CU(cuStreamSynchronize(cards[i].stream));
    printf("host functions: %x\n", atomic_load(&called));
}

/* A kernel's attributes are those of one card each. */
static void
ask_limits(void)
{
    CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

    for (unsigned i = 0; i < n_cards; i++) {
        int of_kernel, of_function;
        CUfunction f;

        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuKernelGetAttribute(&of_kernel, most, step, cards[i].dev));
        CU(cuKernelGetFunction(&f, step));
        CU(cuFuncGetAttribute(&of_function, most, f));
        printf("card %u: %d and %d bytes of shared memory\n", i, of_kernel,
               of_function);
    }
}

/* From any context. */
static void
close_cards(void)
{
    CU(cuCtxSetCurrent(cards[0].ctx));
    for (unsigned i = 0; i < n_cards; i++) {
        CU(cuEventDestroy(cards[i].event));
        CU(cuStreamDestroy(cards[i].stream));
        CU(cuMemFree(cards[i].a));
        CU(cuMemFree(cards[i].b));
    }
    CU(cuLibraryUnload(library));
    for (unsigned i = 0; i < n_cards; i++)
        CU(cuDevicePrimaryCtxRelease(cards[i].dev));
    CU(cuCtxSetCurrent(NULL));
}

static void
print_place(const char *what, unsigned current, unsigned of, CUdeviceptr p)
{
    CUcontext ctx = cards[current].ctx;
    int ordinal = -1;

    CU(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    printf("%s, current %u, other %u: on %d, %s\n", what, current, of, ordinal,
           ctx ? "of a context" : "of no context");
}

/* Memory of a pool is where the pool is, and of no context, whichever is current. */
static void
look_at_pools(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr p;

    for (unsigned i = 0; i < n_cards; i++) {
        unsigned other = (i ^ 1) < n_cards ? i ^ 1 : i; /* of the same server */

        CU(cuCtxSetCurrent(cards[i].ctx));
        props.location.id = cards[other].dev;
        CU(cuMemPoolCreate(&pool, &props));
        CU(cuMemAllocFromPoolAsync(&p, 4096, pool, cards[i].stream));
        print_place("another card's pool", i, other, p);
        CU(cuMemFreeAsync(p, cards[i].stream));
        CU(cuMemAllocAsync(&p, 4096, cards[other].stream));
        print_place("another card's stream", i, other, p);
        CU(cuMemFreeAsync(p, cards[other].stream));
        CU(cuStreamSynchronize(cards[other].stream));
        CU(cuStreamSynchronize(cards[i].stream));
        CU(cuMemPoolDestroy(pool));
    }
}

int
main(void)
{
    host = malloc(BYTES);
    if (!host)
        return 2;
    open_cards();
    check_places();
    ask_links();
    copy_all_pairs();
    run_ring();
    push_in_order();
    run_graphs();
    refuse_functions_of_others();
    call_host();
    look_at_pools();
    ask_limits();
    close_cards();
    free(host);
    puts("cards: ok");
    return 0;
}
