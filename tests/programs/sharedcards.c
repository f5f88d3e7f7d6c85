/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed and mapped memory that every card of the session uses: what `make test` runs
 * on the cards of one machine and on those of several servers, and compares.
 *
 * Prints the same on any set of cards of one number.  One thread; CUDA's own threads
 * call the host functions.
 */
#include "prog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARDS_MAX 16
#define WORDS (600u * 1024u + 77u)
#define BYTES ((size_t)WORDS * 4)
#define ROUNDS 3u

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .attribute(.managed) .align 4 .u32 tally = 5;\n"
    /* p[i] = p[i] * 5 + add */
    ".visible .entry step(.param .u64 p, .param .u32 n, .param .u32 add)\n{\n"
    " .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [add];\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r6, %r3, %r4, %r5;\n setp.ge.u32 %q, %r6, %r1;\n @%q bra done;\n"
    " mul.wide.u32 %d3, %r6, 4; add.u64 %d4, %d1, %d3; ld.global.u32 %r7, [%d4];\n"
    " mad.lo.u32 %r7, %r7, 5, %r2; st.global.u32 [%d4], %r7;\n"
    "done:\n ret;\n}\n"
    ".visible .entry count(.param .u32 by)\n{\n"
    " .reg .b32 %r<4>; .reg .b64 %d;\n"
    " ld.param.u32 %r1, [by]; mov.u64 %d, tally; ld.global.u32 %r2, [%d];\n"
    " mad.lo.u32 %r3, %r2, 3, %r1; st.global.u32 [%d], %r3; ret;\n}\n";

struct card {
    CUdevice dev;
    CUcontext ctx;
    CUstream stream;
    CUevent event;
    CUdeviceptr plain;
};

static struct card cards[CARDS_MAX];
static unsigned n_cards;
static CUlibrary library;
static CUkernel step, count;
static uint32_t *host;

static uint32_t *
at(CUdeviceptr ptr)
{
    return (uint32_t *)(uintptr_t)ptr;
}

static uint32_t
sum(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

static void
fill(uint32_t *p, uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++)
        p[i] = i * 7 + seed;
}

static void
run_step(CUdeviceptr p, unsigned n, unsigned add, CUstream stream)
{
    void *params[] = {&p, &n, &add};

    CU(cuLaunchKernel((CUfunction)step, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream,
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
    CU(cuLibraryGetKernel(&step, library, "step"));
    CU(cuLibraryGetKernel(&count, library, "count"));
    for (unsigned i = 0; i < n_cards; i++) {
        struct card *c = &cards[i];

        CU(cuDeviceGet(&c->dev, (int)i));
        CU(cuDevicePrimaryCtxRetain(&c->ctx, c->dev));
        CU(cuCtxSetCurrent(c->ctx));
        CU(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
        CU(cuEventCreate(&c->event, CU_EVENT_DISABLE_TIMING));
        CU(cuMemAlloc(&c->plain, BYTES));
    }
    printf("%u cards\n", n_cards);
}

static CUdeviceptr
managed_on(unsigned card)
{
    CUdeviceptr p;

    CU(cuCtxSetCurrent(cards[card].ctx));
    CU(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    return p;
}

/* The host and one card after the other, each seeing what the last one did. */
static void
take_turns(CUdeviceptr p, const char *name)
{
    fill(at(p), 1);
    for (unsigned k = 0; k < n_cards * ROUNDS; k++) {
        const struct card *c = &cards[k % n_cards];

        CU(cuCtxSetCurrent(c->ctx));
        run_step(p, WORDS, k, k & 1 ? c->stream : NULL);
        if (k % 3 == 0)
            CU(cuCtxSynchronize());
        else
            CU(cuStreamSynchronize(k & 1 ? c->stream : NULL));
        at(p)[k * 1000] += k;
        if (k % n_cards == n_cards - 1)
            printf("%s %u: %08x\n", name, k, sum(at(p), BYTES));
    }
}

static void
managed_turns(void)
{
    for (unsigned i = 0; i < n_cards; i++) {
        CUdeviceptr p = managed_on(i);

        take_turns(p, "turns");
        CU(cuCtxSetCurrent(cards[n_cards - 1].ctx));
        CU(cuMemFree(p));
    }
}

static void
mapped_turns(void)
{
    CUdeviceptr p, again;
    void *mem;

    CU(cuCtxSetCurrent(cards[n_cards - 1].ctx));
    CU(cuMemHostAlloc(&mem, BYTES,
                      CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    CU(cuMemHostGetDevicePointer_v2(&p, mem, 0));
    fill(mem, 3);
    for (unsigned k = 0; k < n_cards * ROUNDS; k++) {
        CU(cuCtxSetCurrent(cards[k % n_cards].ctx));
        CU(cuMemHostGetDevicePointer_v2(&again, mem, 0));
        if (again != p)
            puts("another address on another card");
        run_step(p, WORDS, k, NULL);
        CU(cuCtxSynchronize());
        ((uint32_t *)mem)[k * 500] += k;
    }
    printf("mapped: %08x\n", sum(mem, BYTES));
    CU(cuMemFreeHost(mem));
}

/* Card by card, in the order of events, without the host in between. */
static void
run_chain(void)
{
    CUdeviceptr p = managed_on(0);

    fill(at(p), 11);
    for (unsigned k = 0; k < n_cards * ROUNDS; k++) {
        const struct card *c = &cards[k % n_cards];

        CU(cuCtxSetCurrent(c->ctx));
        if (k)
            CU(cuStreamWaitEvent(c->stream, cards[(k - 1) % n_cards].event, 0));
        run_step(p, WORDS, k, c->stream);
        CU(cuEventRecord(c->event, c->stream));
    }
    CU(cuEventSynchronize(cards[n_cards - 1].event));
    printf("chain: %08x\n", sum(at(p), BYTES));
    CU(cuMemFree(p));
}

/* Each card a part, all at a time; parts meet inside of pages. */
static void
run_parts(void)
{
    CUdeviceptr p = managed_on(n_cards - 1);
    unsigned part = WORDS / n_cards;

    fill(at(p), 21);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < n_cards; i++) {
            CU(cuCtxSetCurrent(cards[i].ctx));
            run_step(p + (CUdeviceptr)i * part * 4, part, i, cards[i].stream);
        }
        for (unsigned i = 0; i < n_cards; i++) {
            CU(cuCtxSetCurrent(cards[i].ctx));
            CU(cuCtxSynchronize());
        }
        printf("parts %u: %08x\n", round, sum(at(p), BYTES));
    }
    CU(cuMemFree(p));
}

enum { DTOD, DTOD_ASYNC, ANY, PEER, PEER_ASYNC, RECTANGLE, WAYS };

static void
copy(unsigned way, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
     CUcontext src_ctx, CUstream stream)
{
    CUDA_MEMCPY2D rect = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = src,
                          .srcPitch = 4096,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = dst,
                          .dstPitch = 4096,
                          .WidthInBytes = 4000,
                          .Height = 500};

    switch (way) {
    case DTOD:
        CU(cuMemcpyDtoD(dst, src, BYTES));
        break;
    case DTOD_ASYNC:
        CU(cuMemcpyDtoDAsync(dst, src, BYTES, stream));
        break;
    case ANY:
        CU(cuMemcpy(dst, src, BYTES));
        break;
    case PEER:
        CU(cuMemcpyPeer(dst, dst_ctx, src, src_ctx, BYTES));
        break;
    case PEER_ASYNC:
        CU(cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, BYTES, stream));
        break;
    default:
        CU(cuMemcpy2D_v2(&rect));
    }
}

/* A wait for a stream that has no part in the copy fetches what the copy may still be
 * writing, and the next wait fetches it again.  On a card that is no harm; a software
 * card that is watched for races shows one. */
static void
wait_for_copy(unsigned way, CUstream stream)
{
#if defined(__SANITIZE_THREAD__)
    if (way != DTOD_ASYNC && way != PEER_ASYNC)
        CU(cuCtxSynchronize());
#endif
    CU(cuStreamSynchronize(stream));
    CU(cuCtxSynchronize());
}

static void
copy_to_and_fro(void)
{
    CUdeviceptr p = managed_on(0);

    for (unsigned way = 0; way < WAYS; way++)
        for (unsigned i = 0; i < n_cards; i++) {
            const struct card *c = &cards[i], *next = &cards[(i + 1) % n_cards];

            fill(at(p), way * 100 + i);
            CU(cuCtxSetCurrent(next->ctx)); /* neither's, mostly */
            copy(way, c->plain, c->ctx, p, cards[0].ctx, next->stream);
            wait_for_copy(way, next->stream);
            CU(cuCtxSetCurrent(c->ctx));
            CU(cuCtxSynchronize());
            run_step(c->plain, WORDS, 1, NULL);
            CU(cuCtxSynchronize());
            CU(cuMemsetD8(p, 0xaa, BYTES));
            CU(cuCtxSynchronize());
            copy(way, p, cards[0].ctx, c->plain, c->ctx, c->stream);
            wait_for_copy(way, c->stream);
            printf("copy %u.%u: %08x\n", way, i, sum(at(p), 500 * 4096));
        }
    CU(cuMemFree(p));
}

static void
copy_with_host(void)
{
    CUdeviceptr p = managed_on(0);

    for (unsigned i = 0; i < n_cards; i++) {
        CU(cuCtxSetCurrent(cards[i].ctx));
        fill(host, i);
        CU(cuMemcpyHtoD(p, host, BYTES));
        printf("up %u: %08x, ", i, sum(at(p), BYTES));
        run_step(p, WORDS, i, NULL);
        CU(cuMemcpyDtoH(host, p, BYTES)); /* behind it, in the default stream */
        printf("down %08x, ", sum(host, BYTES));
        CU(cuMemcpyHtoDAsync(p, host, BYTES / 2, cards[i].stream));
        CU(cuMemsetD32Async(p + 4096, i, 1000, cards[i].stream));
        CU(cuStreamSynchronize(cards[i].stream));
        printf("both %08x\n", sum(at(p), BYTES));
    }
    CU(cuMemFree(p));
}

static void
hints(void)
{
    CUdeviceptr p = managed_on(0), base, dev;
    size_t size;

    fill(at(p), 5);
    for (unsigned i = 0; i < n_cards; i++) {
        int ordinal = -1;
        unsigned managed = 0;

        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, cards[i].dev));
        CU(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, cards[i].dev));
        CU(cuMemPrefetchAsync(p, BYTES, cards[i].dev, cards[i].stream));
        CU(cuMemPrefetchAsync(p, BYTES, cards[(i + 1) % n_cards].dev, cards[i].stream));
        run_step(p, WORDS, i, cards[i].stream);
        CU(cuMemPrefetchAsync(p, BYTES, CU_DEVICE_CPU, cards[i].stream));
        CU(cuStreamSynchronize(cards[i].stream));
        CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
        CU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
        CU(cuPointerGetAttribute(&dev, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p + 8));
        CU(cuMemGetAddressRange(&base, &size, p + 100));
        printf("hints %u: card %d, managed %u, %s, %zu, sum %08x; %d %d %d %d\n", i,
               ordinal, managed, base == p && dev == p + 8 ? "itself" : "elsewhere",
               size, sum(at(p), BYTES),
               (int)cuMemPrefetchAsync(p, BYTES + 1, cards[i].dev, cards[i].stream),
               (int)cuMemPrefetchAsync(p, 0, cards[i].dev, cards[i].stream),
               (int)cuMemPrefetchAsync(p, BYTES, 77, cards[i].stream),
               (int)cuMemAdvise(p, BYTES, (CUmem_advise)99, cards[i].dev));
    }
    CU(cuMemFree(p));
}

static CUdeviceptr seen;

static void
on_host(void *user)
{
    uint32_t *p = at(seen);

    p[1] = p[0] + (uint32_t)(uintptr_t)user;
}

/* A function of the host between two kernels: it sees what the first one did, the
 * second one sees what it did. */
static void
call_host(void)
{
    seen = managed_on(0);
    at(seen)[0] = 1;
    for (unsigned i = 0; i < n_cards; i++) {
        CU(cuCtxSetCurrent(cards[i].ctx));
        run_step(seen, 1, i, cards[i].stream);
        CU(cuLaunchHostFunc(cards[i].stream, on_host, (void *)(uintptr_t)i));
        run_step(seen + 4, 1, 2, cards[i].stream);
        CU(cuStreamSynchronize(cards[i].stream));
        printf("host function %u: %u %u\n", i, at(seen)[0], at(seen)[1]);
    }
    CU(cuMemFree(seen));
}

static void
run_graphs(void)
{
    CUdeviceptr p = managed_on(0);

    fill(at(p), 31);
    for (unsigned i = 0; i < n_cards; i++) {
        unsigned n = WORDS, add = i;
        void *params[] = {&p, &n, &add};
        CUDA_KERNEL_NODE_PARAMS k = {.kern = step,
                                     .gridDimX = (WORDS + 255) / 256,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 256,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
        CUDA_MEMSET_NODE_PARAMS set = {
            .dst = p + 256, .value = 9, .elementSize = 4, .width = 300, .height = 1};
        CUgraph graph;
        CUgraphNode first, second;
        CUgraphExec exec;

        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuGraphCreate(&graph, 0));
        CU(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, cards[i].ctx));
        CU(cuGraphAddKernelNode_v2(&second, graph, &first, 1, &k));
        CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CU(cuGraphLaunch(exec, cards[i].stream));
        CU(cuStreamSynchronize(cards[i].stream));
        printf("graph %u: %08x\n", i, sum(at(p), BYTES));
        CU(cuGraphExecDestroy(exec));
        CU(cuGraphDestroy(graph));
    }
    CU(cuMemFree(p));
}

/* Small ones, which share pages and what servers map; freed in another order. */
static void
come_and_go(void)
{
    CUdeviceptr p[60] = {0};
    uint32_t total = 0;

    for (unsigned k = 0; k < 300; k++) {
        const struct card *c = &cards[k % n_cards];
        unsigned slot = k * 7 % 60;

        CU(cuCtxSetCurrent(c->ctx));
        if (p[slot])
            CU(cuMemFree(p[slot]));
        CU(cuMemAllocManaged(&p[slot], 100 + k * 40, CU_MEM_ATTACH_GLOBAL));
        memset(at(p[slot]), 0, 100 + k * 40);
        at(p[slot])[3] = k;
        run_step(p[slot], 20, k, NULL);
        CU(cuCtxSynchronize());
        total = total * 31 + at(p[slot])[3] + at(p[slot])[19];
    }
    for (unsigned i = 0; i < 60; i++)
        if (p[i])
            CU(cuMemFree(p[i]));
    printf("come and go: %08x\n", total);
}

/* A variable of the library, which kernels find by its name. */
static void
count_all(void)
{
    CUdeviceptr var;
    size_t size;

    CU(cuCtxSetCurrent(cards[0].ctx));
    CU(cuLibraryGetManaged(&var, &size, library, "tally"));
    printf("variable: %zu bytes, %u\n", size, *at(var));
    for (unsigned k = 0; k < n_cards * ROUNDS; k++) {
        unsigned by = k;
        void *params[] = {&by};

        CU(cuCtxSetCurrent(cards[k % n_cards].ctx));
        CU(cuLaunchKernel((CUfunction)count, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        CU(cuCtxSynchronize());
        *at(var) += 1;
    }
    printf("variable: %u\n", *at(var));
}

static void
close_cards(void)
{
    CU(cuLibraryUnload(library));
    for (unsigned i = 0; i < n_cards; i++) {
        CU(cuCtxSetCurrent(cards[i].ctx));
        CU(cuEventDestroy(cards[i].event));
        CU(cuStreamDestroy(cards[i].stream));
        CU(cuMemFree(cards[i].plain));
        CU(cuCtxSynchronize());
        CU(cuDevicePrimaryCtxRelease(cards[i].dev));
    }
}

int
main(void)
{
    host = malloc(BYTES);
    if (!host)
        return 2;
    open_cards();
    managed_turns();
    mapped_turns();
    run_chain();
    run_parts();
    copy_to_and_fro();
    copy_with_host();
    hints();
    call_host();
    run_graphs();
    come_and_go();
    count_all();
    close_cards();
    free(host);
    puts("shared cards: ok");
    return 0;
}
