/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous copies to the host: one line per promise.
 *
 * The call returns although its stream is held, and yet the bytes are there whenever
 * something says so: a wait, a query, a host function, another copy, and likewise on
 * the card when a blocking copy to it has returned.  The stream is
 * held by a kernel that spins until this program overwrites its word, so a driver that
 * waits inside the call never ends here.
 */
#include "pages.h"

#include <string.h>
#include <time.h>

#define MIB (1024u * 1024u)
#define BIG (24u * MIB + 12345u)
#define SMALLS 1500u
#define STREAMS 4u
#define ROUNDS 25u
#define WAITING 160u

PROG_EMBED(landing_ptx, "spin.ptx");

static void
copy_down(struct pages *l, size_t size)
{
    memset(l->host, 0, size);
    CU(cuMemcpyDtoHAsync(l->host, l->data, size, l->stream));
}

static size_t
differ(const struct pages *l, size_t size)
{
    return memcmp(l->host, l->want, size) != 0;
}

static size_t
returns_while_the_stream_is_held(struct pages *l)
{
    size_t wrong = 0;

    pages_hold(l, l->stream);
    copy_down(l, BIG);
    wrong += cuStreamQuery(l->stream) != CUDA_ERROR_NOT_READY;
    pages_let_go(l);
    CU(cuStreamSynchronize(l->stream));
    return wrong + differ(l, BIG);
}

static size_t
bytes_are_there_after_waits_and_queries(struct pages *l)
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
    const struct pages *l;
    size_t wrong;
};

static void
see(void *user)
{
    struct seen *seen = user;

    seen->wrong += differ(seen->l, BIG);
}

static size_t
host_functions_find_the_bytes(struct pages *l)
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
later_work_does_not_overtake(struct pages *l)
{
    CUdeviceptr scratch;
    size_t wrong = 0;

    CU(cuMemAlloc(&scratch, 8 * MIB));
    pages_hold(l, l->stream);
    for (unsigned i = 0; i < 4; i++) {
        CU(cuMemsetD8Async(scratch, (unsigned char)(i + 1), 2 * MIB, l->stream));
        CU(cuMemcpyDtoHAsync(l->host + i * 2 * MIB, scratch, 2 * MIB, l->stream));
        /* The last one to the same place stays. */
        CU(cuMemcpyDtoHAsync(l->host + 9 * MIB, scratch, 100, l->stream));
    }
    CU(cuMemsetD8Async(scratch, 99, 2 * MIB, l->stream));
    pages_let_go(l);
    CU(cuStreamSynchronize(l->stream));
    for (unsigned i = 0; i < 8 * MIB; i++)
        wrong += l->host[i] != i / (2 * MIB) + 1;
    for (unsigned i = 0; i < 100; i++)
        wrong += l->host[9 * MIB + i] != 4;
    CU(cuMemFree(scratch));
    return wrong;
}

static size_t
copies_out_of_a_buffer_that_is_being_filled_wait(struct pages *l)
{
    CUdeviceptr twin;
    size_t wrong = 0;

    CU(cuMemAlloc(&twin, BIG));
    for (int i = 0; i < 4; i++) {
        CU(cuMemsetD8Async(twin, 0, BIG, l->stream));
        copy_down(l, BIG);
        CU(cuMemcpyHtoDAsync(twin, l->host, BIG, l->stream));
        CU(cuStreamSynchronize(l->stream));
        memset(l->host, 0, BIG);
        CU(cuMemcpyDtoH(l->host, twin, BIG));
        wrong += differ(l, BIG);
    }
    CU(cuMemFree(twin));
    return wrong;
}

static size_t
many_small_ones_all_arrive(struct pages *l)
{
    size_t wrong = 0;

    memset(l->host, 0, SMALLS * 64);
    for (unsigned i = 0; i < SMALLS; i++)
        CU(cuMemcpyDtoHAsync(l->host + 64 * i, l->data + 8 * i, 8,
                             i % 3 ? l->stream : l->other));
    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < SMALLS; i++)
        wrong += memcmp(l->host + 64 * i, l->want + 8 * i, 8) != 0;
    return wrong;
}

static size_t
a_program_that_only_looks_sees_them_come(struct pages *l)
{
    volatile uint8_t *last = l->host + BIG - 1;
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
registered_and_freed_memory_is_waited_for(struct pages *l)
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
rectangles_land_row_by_row(struct pages *l)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = l->data,
                          .srcPitch = 4096,
                          .srcXInBytes = 8,
                          .srcY = 3,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = l->host,
                          .dstPitch = 1200,
                          .dstXInBytes = 16,
                          .WidthInBytes = 1000,
                          .Height = 3000};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = l->data,
                         .srcPitch = 1024,
                         .srcHeight = 100,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = l->host + 8 * MIB,
                         .dstPitch = 1100,
                         .dstHeight = 60,
                         .WidthInBytes = 900,
                         .Height = 50,
                         .Depth = 40};
    size_t wrong = 0;

    memset(l->host, 0xee, BIG);
    pages_hold(l, l->stream);
    CU(cuMemcpy2DAsync_v2(&flat, l->stream));
    CU(cuMemcpy3DAsync_v2(&box, l->stream));
    wrong += cuStreamQuery(l->stream) != CUDA_ERROR_NOT_READY;
    pages_let_go(l);
    CU(cuStreamSynchronize(l->stream));
    for (size_t y = 0; y < 3000; y++) {
        const uint8_t *row = l->host + y * 1200 + 16;

        wrong += memcmp(row, l->want + (y + 3) * 4096 + 8, 1000) != 0;
        wrong += row[-1] != 0xee || row[1000] != 0xee;
    }
    for (size_t i = 0; i < 40 * 50; i++) {
        const uint8_t *row = l->host + 8 * MIB + (i / 50 * 60 + i % 50) * 1100;

        wrong += memcmp(row, l->want + (i / 50 * 100 + i % 50) * 1024, 900) != 0;
        wrong += row[900] != 0xee;
    }
    return wrong;
}

/* As many bytes as may be under way at all, again and again: a copy follows as soon as
 * one before it has landed, while others sleep on those that have not. */
static size_t
streams_at_the_limit_go_on(struct pages *l)
{
    uint8_t *mine = util_alloc(2 * STREAMS, 8 * MIB), *host[STREAMS] = {0};
    CUstream streams[STREAMS];
    CUdeviceptr data[STREAMS];
    CUfunction bump = prog_kernel(&l->prog, "bump");
    unsigned step = 3;
    size_t wrong = 0;

    CU(cuMemHostRegister(mine, 2 * STREAMS * 8 * MIB, 0));
    for (unsigned i = 0; i < STREAMS; i++) {
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CU(cuMemAlloc(&data[i], 16 * MIB));
        CU(cuMemsetD32(data[i], i, 4 * MIB));
        host[i] = mine + (size_t)i * 16 * MIB;
        if (i % 2)
            CU(cuMemAllocHost((void **)&host[i], 16 * MIB));
    }
    CU(cuCtxSynchronize()); /* the streams do not wait for the default stream */
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < STREAMS; i++) {
            void *params[] = {&data[i], &step};

            CU(cuLaunchKernel(bump, 4 * MIB / 256, 1, 1, 256, 1, 1, 0, streams[i],
                              params, NULL));
            CU(cuMemcpyDtoHAsync(host[i], data[i], 16 * MIB, streams[i]));
        }
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        CU(cuStreamSynchronize(streams[i]));
        for (size_t at = 0; at < 4 * MIB; at++)
            wrong += ((uint32_t *)host[i])[at] != ROUNDS * step + i;
        if (i % 2)
            CU(cuMemFreeHost(host[i]));
        CU(cuMemFree(data[i]));
        CU(cuStreamDestroy(streams[i]));
    }
    CU(cuMemHostUnregister(mine));
    free(mine);
    return wrong;
}

static void
wait_for_the_word(void *word)
{
    pthread_mutex_lock(word);
    pthread_mutex_unlock(word);
}

static void *
wait_for_the_held_stream(void *pages)
{
    struct pages *l = pages;

    CU(cuCtxSetCurrent(l->prog.context));
    CU(cuStreamSynchronize(l->stream));
    return NULL;
}

/* More threads wait than a server has for them: nobody is left there to sleep on the
 * copies, and those go on. */
static size_t
copies_go_on_while_everybody_waits(struct pages *l)
{
    static pthread_mutex_t word = PTHREAD_MUTEX_INITIALIZER;
    pthread_t waiting[WAITING];
    CUfunction bump = prog_kernel(&l->prog, "bump");
    CUstream streams[STREAMS];
    CUdeviceptr scratch;
    unsigned step = 1;
    void *params[] = {&scratch, &step};
    size_t wrong = 0;

    CU(cuMemAlloc(&scratch, 4 * MIB));
    CU(cuMemsetD8(scratch, 0, 4 * MIB));
    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    memset(l->host, 0, STREAMS * MIB);
    pthread_mutex_lock(&word);
    CU(cuLaunchHostFunc(l->stream, wait_for_the_word, &word));
    for (unsigned i = 0; i < WAITING; i++)
        if (pthread_create(&waiting[i], NULL, wait_for_the_held_stream, l) != 0)
            exit(2);
    nanosleep(&(struct timespec){0, 50 * 1000 * 1000}, NULL); /* most are there */
    for (unsigned i = 0; i < 30 * STREAMS; i++) {
        size_t at = (size_t)(i % STREAMS) * MIB;

        CU(cuLaunchKernel(bump, MIB / 256, 1, 1, 256, 1, 1, 0, streams[i % STREAMS],
                          params, NULL));
        CU(cuMemcpyDtoHAsync(l->host + at, l->data + at, MIB, streams[i % STREAMS]));
        if (i % STREAMS == STREAMS - 1) {
            for (unsigned k = 0; k < STREAMS; k++)
                while (cuStreamQuery(streams[k]) == CUDA_ERROR_NOT_READY)
                    nanosleep(&(struct timespec){0, 1000 * 1000}, NULL);
        }
    }
    wrong += cuStreamQuery(l->stream) != CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&word);
    for (unsigned i = 0; i < WAITING; i++)
        pthread_join(waiting[i], NULL);
    CU(cuCtxSynchronize());
    for (unsigned i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy(streams[i]));
    CU(cuMemFree(scratch));
    return wrong + (memcmp(l->host, l->want, STREAMS * MIB) != 0);
}

static void *
worker_main(void *argument)
{
    struct pages_worker *worker = argument;
    struct pages *l = worker->pages;
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
threads_do_not_mix_theirs_up(struct pages *l)
{
    return pages_in_threads(l, worker_main);
}

static void *
let_go_later(void *pages)
{
    struct pages *l = pages;

    CU(cuCtxSetCurrent(l->prog.context));
    nanosleep(&(struct timespec){0, 30 * 1000 * 1000}, NULL);
    pages_let_go(l);
    return NULL;
}

/* In a stream that knows nothing of the default stream, with work in front of the copy
 * that somebody else has to end. */
static size_t
blocking_copies_up_are_there_for_every_stream(struct pages *l)
{
    static const size_t sizes[] = {65537, MIB + 3, 8 * MIB};
    const CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = l->want + 77,
                                .srcPitch = 1500,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstPitch = 1024,
                                .WidthInBytes = 1024,
                                .Height = 1024};
    CUdeviceptr twin;
    size_t wrong = 0;

    CU(cuMemAlloc(&twin, 8 * MIB));
    for (unsigned i = 0; i < 4; i++) {
        size_t n = i < 3 ? sizes[i] : MIB;
        CUDA_MEMCPY2D rows = flat;
        pthread_t thread;

        CU(cuMemsetD8(twin, 0, 8 * MIB));
        CU(cuCtxSynchronize());
        pages_hold(l, NULL);
        if (pthread_create(&thread, NULL, let_go_later, l) != 0)
            exit(2);
        rows.dstDevice = twin;
        if (i < 3)
            CU(cuMemcpyHtoD(twin, l->want, n));
        else
            CU(cuMemcpy2D_v2(&rows));
        CU(cuMemcpyDtoHAsync(l->host, twin, n, l->stream));
        CU(cuStreamSynchronize(l->stream));
        for (size_t row = 0; i == 3 && row < rows.Height; row++)
            wrong += memcmp(l->host + row * 1024, l->want + 77 + row * 1500, 1024) != 0;
        wrong += i < 3 && memcmp(l->host, l->want, n) != 0;
        pthread_join(thread, NULL);
    }
    CU(cuMemFree(twin));
    return wrong;
}

static const struct pages_promise promises[] = {
    {"returns while the stream is held", returns_while_the_stream_is_held},
    {"there after waits and queries", bytes_are_there_after_waits_and_queries},
    {"there for host functions", host_functions_find_the_bytes},
    {"not overtaken by later work", later_work_does_not_overtake},
    {"copied on when complete", copies_out_of_a_buffer_that_is_being_filled_wait},
    {"many small ones", many_small_ones_all_arrive},
    {"seen without a call", a_program_that_only_looks_sees_them_come},
    {"streams at the limit", streams_at_the_limit_go_on},
    {"while everybody waits", copies_go_on_while_everybody_waits},
    {"registered and freed memory", registered_and_freed_memory_is_waited_for},
    {"rectangles", rectangles_land_row_by_row},
    {"blocking copies up", blocking_copies_up_are_there_for_every_stream},
    {"threads", threads_do_not_mix_theirs_up},
};

int
main(int argc, char **argv)
{
    struct pages l;
    int status;

    pages_begin(&l, argc, argv, "landing", landing_ptx, BIG);
    status = pages_check(&l, promises, sizeof(promises) / sizeof(promises[0]));
    pages_end(&l);
    return status;
}
