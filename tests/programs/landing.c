/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous copies to the host: one line per promise.
 *
 * The call returns although its stream is held, and yet the bytes are there whenever
 * something says so: a wait, a query, a host function, another copy.  The stream is
 * held by a kernel that spins until this program overwrites its word, so a driver that
 * waits inside the call never ends here.
 */
#include "prog.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MIB (1024u * 1024u)
#define BIG (24u * MIB + 12345u)
#define SMALLS 1500u
#define THREADS 4u

PROG_EMBED(landing_ptx, "spin.ptx");

struct landing {
    struct prog prog;
    CUstream stream, other;
    CUdeviceptr word; /* held while it is 7 */
    CUdeviceptr data; /* BIG bytes, as in `want` */
    uint8_t *want;
    uint8_t *pinned; /* BIG bytes */
};

static void
hold(struct landing *l, CUstream stream)
{
    uint32_t seven = 7;
    void *params[] = {&l->word, &seven};

    CU(cuMemcpyHtoDAsync(l->word, &seven, sizeof(seven), l->other));
    CU(cuStreamSynchronize(l->other));
    CU(cuLaunchKernel(prog_kernel(&l->prog, "spin"), 1, 1, 1, 32, 1, 1, 0, stream,
                      params, NULL));
}

static void
let_go(struct landing *l)
{
    static const uint32_t eight = 8;

    CU(cuMemcpyHtoDAsync(l->word, &eight, sizeof(eight), l->other));
    CU(cuStreamSynchronize(l->other));
}

static void
copy_down(struct landing *l, size_t size)
{
    memset(l->pinned, 0, size);
    CU(cuMemcpyDtoHAsync(l->pinned, l->data, size, l->stream));
}

static size_t
differ(const struct landing *l, size_t size)
{
    return memcmp(l->pinned, l->want, size) != 0;
}

static size_t
returns_while_the_stream_is_held(struct landing *l)
{
    size_t wrong = 0;

    hold(l, l->stream);
    copy_down(l, BIG);
    wrong += cuStreamQuery(l->stream) != CUDA_ERROR_NOT_READY;
    let_go(l);
    CU(cuStreamSynchronize(l->stream));
    return wrong + differ(l, BIG);
}

static size_t
bytes_are_there_after_waits_and_queries(struct landing *l)
{
    static const size_t sizes[] = {1, 16384, 16385, 65536, 65537, MIB, MIB + 3, BIG};
    size_t wrong = 0;
    CUevent event;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (size_t i = 0; i < 4 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i / 4];

        copy_down(l, size);
        CU(cuEventRecord(event, l->stream));
        if (i % 4 == 0)
            CU(cuEventSynchronize(event));
        else if (i % 4 == 1)
            while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
                ;
        else if (i % 4 == 2)
            while (cuStreamQuery(l->stream) == CUDA_ERROR_NOT_READY)
                ;
        else
            CU(cuCtxSynchronize());
        wrong += differ(l, size);
    }
    CU(cuEventDestroy(event));
    return wrong;
}

struct seen {
    const struct landing *l;
    size_t wrong;
};

static void
see(void *user)
{
    struct seen *seen = user;

    seen->wrong += differ(seen->l, BIG);
}

static size_t
host_functions_find_the_bytes(struct landing *l)
{
    struct seen seen = {l, 0};
    CUevent event;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 8; i++) {
        copy_down(l, BIG);
        if (i % 2) { /* in another stream, behind an event */
            CU(cuEventRecord(event, l->stream));
            CU(cuStreamWaitEvent(l->other, event, 0));
        }
        CU(cuLaunchHostFunc(i % 2 ? l->other : l->stream, see, &seen));
        CU(cuStreamSynchronize(i % 2 ? l->other : l->stream));
    }
    CU(cuEventDestroy(event));
    return seen.wrong;
}

static size_t
later_work_does_not_overtake(struct landing *l)
{
    CUdeviceptr scratch;
    size_t wrong = 0;

    CU(cuMemAlloc(&scratch, 8 * MIB));
    hold(l, l->stream);
    for (unsigned i = 0; i < 4; i++) {
        CU(cuMemsetD8Async(scratch, (unsigned char)(i + 1), 2 * MIB, l->stream));
        CU(cuMemcpyDtoHAsync(l->pinned + i * 2 * MIB, scratch, 2 * MIB, l->stream));
        /* The last one to the same place stays. */
        CU(cuMemcpyDtoHAsync(l->pinned + 9 * MIB, scratch, 100, l->stream));
    }
    CU(cuMemsetD8Async(scratch, 99, 2 * MIB, l->stream));
    let_go(l);
    CU(cuStreamSynchronize(l->stream));
    for (unsigned i = 0; i < 8 * MIB; i++)
        wrong += l->pinned[i] != i / (2 * MIB) + 1;
    for (unsigned i = 0; i < 100; i++)
        wrong += l->pinned[9 * MIB + i] != 4;
    CU(cuMemFree(scratch));
    return wrong;
}

static size_t
copies_out_of_a_buffer_that_is_being_filled_wait(struct landing *l)
{
    CUdeviceptr twin;
    size_t wrong = 0;

    CU(cuMemAlloc(&twin, BIG));
    for (int i = 0; i < 4; i++) {
        CU(cuMemsetD8Async(twin, 0, BIG, l->stream));
        copy_down(l, BIG);
        CU(cuMemcpyHtoDAsync(twin, l->pinned, BIG, l->stream));
        CU(cuStreamSynchronize(l->stream));
        memset(l->pinned, 0, BIG);
        CU(cuMemcpyDtoH(l->pinned, twin, BIG));
        wrong += differ(l, BIG);
    }
    CU(cuMemFree(twin));
    return wrong;
}

static size_t
many_small_ones_all_arrive(struct landing *l)
{
    size_t wrong = 0;

    memset(l->pinned, 0, SMALLS * 64);
    for (unsigned i = 0; i < SMALLS; i++)
        CU(cuMemcpyDtoHAsync(l->pinned + 64 * i, l->data + 8 * i, 8,
                             i % 3 ? l->stream : l->other));
    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < SMALLS; i++)
        wrong += memcmp(l->pinned + 64 * i, l->want + 8 * i, 8) != 0;
    return wrong;
}

static size_t
a_program_that_only_looks_sees_them_come(struct landing *l)
{
    volatile uint8_t *last = l->pinned + BIG - 1;
    time_t end = time(NULL) + 60;

    l->want[BIG - 1] = 1;
    CU(cuMemcpyHtoD(l->data + BIG - 1, l->want + BIG - 1, 1));
    for (int i = 0; i < 3; i++) {
        copy_down(l, BIG);
#if defined(__SANITIZE_THREAD__) /* to look without a wait is a race by its nature */
        CU(cuStreamSynchronize(l->stream));
#endif
        while (!*last && time(NULL) < end)
            ;
        if (!*last)
            return 1;
    }
    CU(cuCtxSynchronize());
    return differ(l, BIG);
}

static size_t
registered_and_freed_memory_is_waited_for(struct landing *l)
{
    uint8_t *mine = util_alloc(8, MIB), *theirs;
    size_t wrong;

    for (int i = 0; i < 4; i++) {
        CU(cuMemHostAlloc((void **)&theirs, 8 * MIB, 0));
        CU(cuMemHostRegister(mine, 8 * MIB, 0));
        memset(mine, 0, 8 * MIB);
        CU(cuMemcpyDtoHAsync(theirs, l->data, 8 * MIB, l->stream));
        CU(cuMemcpyDtoHAsync(mine, l->data, 8 * MIB, l->stream));
        CU(cuMemFreeHost(theirs));
        CU(cuStreamSynchronize(l->stream));
        CU(cuMemHostUnregister(mine));
    }
    wrong = memcmp(mine, l->want, 8 * MIB) != 0;
    free(mine);
    return wrong;
}

/* Rows of 1000 bytes out of rows of 4096 into rows of 1200. */
static size_t
rectangles_land_row_by_row(struct landing *l)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = l->data,
                          .srcPitch = 4096,
                          .srcXInBytes = 8,
                          .srcY = 3,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = l->pinned,
                          .dstPitch = 1200,
                          .dstXInBytes = 16,
                          .WidthInBytes = 1000,
                          .Height = 3000};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = l->data,
                         .srcPitch = 1024,
                         .srcHeight = 100,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = l->pinned + 8 * MIB,
                         .dstPitch = 1100,
                         .dstHeight = 60,
                         .WidthInBytes = 900,
                         .Height = 50,
                         .Depth = 40};
    size_t wrong = 0;

    memset(l->pinned, 0xee, BIG);
    hold(l, l->stream);
    CU(cuMemcpy2DAsync_v2(&flat, l->stream));
    CU(cuMemcpy3DAsync_v2(&box, l->stream));
    wrong += cuStreamQuery(l->stream) != CUDA_ERROR_NOT_READY;
    let_go(l);
    CU(cuStreamSynchronize(l->stream));
    for (size_t y = 0; y < 3000; y++) {
        const uint8_t *row = l->pinned + y * 1200 + 16;

        wrong += memcmp(row, l->want + (y + 3) * 4096 + 8, 1000) != 0;
        wrong += row[-1] != 0xee || row[1000] != 0xee;
    }
    for (size_t i = 0; i < 40 * 50; i++) {
        const uint8_t *row = l->pinned + 8 * MIB + (i / 50 * 60 + i % 50) * 1100;

        wrong += memcmp(row, l->want + (i / 50 * 100 + i % 50) * 1024, 900) != 0;
        wrong += row[900] != 0xee;
    }
    return wrong;
}

struct worker {
    struct landing *l;
    unsigned number;
    size_t wrong;
    pthread_t thread;
};

static void *
worker_main(void *argument)
{
    struct worker *worker = argument;
    struct landing *l = worker->l;
    size_t size = 3 * MIB + worker->number, from = worker->number * 5 * MIB;
    uint8_t *pinned;
    CUstream stream;

    CU(cuCtxSetCurrent(l->prog.context));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemHostAlloc((void **)&pinned, size, 0));
    for (int i = 0; i < 12; i++) {
        memset(pinned, 0, size);
        CU(cuMemcpyDtoHAsync(pinned, l->data + from, size, stream));
        CU(cuMemcpyHtoDAsync(l->data + from, pinned, size, stream));
        CU(cuStreamSynchronize(stream));
        worker->wrong += memcmp(pinned, l->want + from, size) != 0;
    }
    CU(cuMemFreeHost(pinned));
    CU(cuStreamDestroy(stream));
    return NULL;
}

static size_t
threads_do_not_mix_theirs_up(struct landing *l)
{
    struct worker workers[THREADS];
    size_t wrong = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.l = l, .number = i};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            exit(2);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    return wrong;
}

static const struct {
    const char *name;
    size_t (*check)(struct landing *l);
} promises[] = {
    {"returns while the stream is held", returns_while_the_stream_is_held},
    {"there after waits and queries", bytes_are_there_after_waits_and_queries},
    {"there for host functions", host_functions_find_the_bytes},
    {"not overtaken by later work", later_work_does_not_overtake},
    {"copied on when complete", copies_out_of_a_buffer_that_is_being_filled_wait},
    {"many small ones", many_small_ones_all_arrive},
    {"seen without a call", a_program_that_only_looks_sees_them_come},
    {"registered and freed memory", registered_and_freed_memory_is_waited_for},
    {"rectangles", rectangles_land_row_by_row},
    {"threads", threads_do_not_mix_theirs_up},
};

static void
landing_begin(struct landing *l, int argc, char **argv)
{
    uint64_t state = 1;

    prog_begin(&l->prog, argc, argv, "landing", landing_ptx);
    CU(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&l->other, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&l->word, 4));
    CU(cuMemAlloc(&l->data, BIG));
    CU(cuMemHostAlloc((void **)&l->pinned, BIG, 0));
    l->want = util_alloc(BIG, 1);
    for (size_t i = 0; i + 4 <= BIG; i += 4) {
        uint32_t value = util_random(&state);

        memcpy(l->want + i, &value, 4);
    }
    CU(cuMemcpyHtoD(l->data, l->want, BIG));
}

int
main(int argc, char **argv)
{
    struct landing l = {0};
    int status = 0;

    landing_begin(&l, argc, argv);
    for (int round = 0; round < l.prog.rounds; round++)
        for (size_t i = 0; i < sizeof(promises) / sizeof(promises[0]); i++)
            status |=
                util_report("landing", promises[i].check(&l), "%s", promises[i].name);
    free(l.want);
    CU(cuMemFreeHost(l.pinned));
    CU(cuMemFree(l.data));
    CU(cuMemFree(l.word));
    CU(cuStreamDestroy(l.stream));
    CU(cuStreamDestroy(l.other));
    prog_end(&l.prog);
    return status;
}
