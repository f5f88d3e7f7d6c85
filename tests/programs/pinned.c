/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between page-locked memory and the card: one line per promise.
 *
 * The same program prints the same on a card of its own and over every transport; with
 * "shared" as its second argument it says at the end how much of its memory a server
 * on this host has mapped too.  A stream is held by a kernel that spins until this
 * program overwrites its word.
 */
#include "pages.h"

#include <string.h>

#define MIB (1024u * 1024u)
#define BIG (20u * MIB + 12345u)
#define MANY 300u

PROG_EMBED(pinned_ptx, "spin.ptx");

/* What the card has there, fetched into memory that is not page-locked. */
static size_t
card_differs(CUdeviceptr at, const uint8_t *want, size_t size)
{
    uint8_t *got = util_alloc(size, 1);
    size_t wrong;

    CU(cuMemcpyDtoH(got, at, size));
    wrong = memcmp(got, want, size) != 0;
    free(got);
    return wrong;
}

static size_t
blocking_copies_of_any_size_and_place(struct pages *p)
{
    static const size_t sizes[] = {1, 65535, 65536, 65537, MIB + 3, BIG - 100};
    static const size_t places[] = {0, 1, 99};
    size_t wrong = 0;

    for (size_t i = 0; i < 18; i++) {
        size_t size = sizes[i / 3], at = places[i % 3];

        CU(cuMemsetD8(p->data, 0, BIG));
        memcpy(p->host + at, p->want + at, size);
        CU(cuMemcpyHtoD(p->data + at, p->host + at, size));
        memset(p->host, 0xee, BIG); /* it has been read when the call returns */
        wrong += card_differs(p->data + at, p->want + at, size);
        CU(cuMemcpyDtoH(p->host + at, p->data + at, size));
        wrong += memcmp(p->host + at, p->want + at, size) != 0;
        wrong += at && p->host[at - 1] != 0xee;
        wrong += p->host[at + size] != 0xee;
    }
    return wrong;
}

static size_t
copies_up_keep_their_place_in_a_stream(struct pages *p)
{
    size_t wrong = 0, half = BIG / 2;

    for (int i = 0; i < 3; i++) {
        memcpy(p->host, p->want, BIG);
        pages_hold(p, p->stream);
        CU(cuMemsetD8Async(p->data, 1, BIG, p->stream));
        CU(cuMemcpyHtoDAsync(p->data, p->host, BIG, p->stream));
        CU(cuMemsetD8Async(p->data + half, 2, 100, p->stream));
        CU(cuMemcpyHtoDAsync(p->data + half, p->host + half, 50, p->stream));
        wrong += cuStreamQuery(p->stream) != CUDA_ERROR_NOT_READY;
        pages_let_go(p);
        CU(cuStreamSynchronize(p->stream));
        wrong += card_differs(p->data, p->want, half + 50);
        CU(cuMemcpyDtoH(p->host, p->data + half, 200));
        wrong += p->host[49] != p->want[half + 49] || p->host[50] != 2 ||
                 p->host[99] != 2 || p->host[100] != p->want[half + 100];
    }
    return wrong;
}

/* Down without a wait, then up from there, then down to the same place with one. */
static size_t
all_ways_mixed_do_not_overtake(struct pages *p)
{
    CUdeviceptr twin;
    size_t wrong = 0;

    CU(cuMemAlloc(&twin, BIG));
    for (int i = 0; i < 4; i++) {
        CU(cuMemcpyHtoD(p->data, p->want, BIG));
        CU(cuMemsetD8(twin, 7, BIG));
        memset(p->host, 0, BIG);
        CU(cuMemcpyDtoHAsync(p->host, p->data, BIG, NULL));
        CU(cuMemcpyHtoDAsync(twin, p->host, BIG, NULL));
        CU(cuMemsetD8Async(p->data, 9, BIG, NULL));
        CU(cuMemcpyDtoHAsync(p->host, p->data, 4 * MIB, NULL));
        CU(cuMemcpyDtoH(p->host, twin, BIG));
        wrong += memcmp(p->host, p->want, BIG) != 0;
    }
    CU(cuMemFree(twin));
    CU(cuMemFreeHost(NULL)); /* frees nothing, as free(3) */
    return wrong;
}

static size_t
many_come_and_go(struct pages *p)
{
    static uint8_t *all[MANY];
    size_t wrong = 0, size = MIB / 4;

    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < MANY; i++) {
            CU(cuMemHostAlloc((void **)&all[i], size, 0));
            memset(all[i], (int)(i + 1), size);
        }
        for (size_t i = 0; i < MANY; i += 7) {
            CU(cuMemcpyHtoDAsync(p->data, all[i], size, p->stream));
            CU(cuStreamSynchronize(p->stream));
            CU(cuMemcpyDtoH(p->host, p->data, size));
            wrong += memcmp(p->host, all[i], size) != 0;
        }
        for (size_t i = 0; i < MANY; i++)
            CU(cuMemFreeHost(all[i]));
    }
    return wrong;
}

static void *
worker_main(void *argument)
{
    struct pages_worker *worker = argument;
    struct pages *p = worker->pages;
    size_t size = 3 * MIB + worker->number, from = worker->number * 5 * MIB;
    CUstream stream;

    CU(cuCtxSetCurrent(p->prog.context));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 12; i++) {
        uint8_t *mine;

        CU(cuMemHostAlloc((void **)&mine, size, 0));
        memcpy(mine, p->want + from, size);
        CU(cuMemcpyHtoDAsync(p->data + from, mine, size, stream));
        CU(cuStreamSynchronize(stream));
        memset(mine, 0, size);
        if (i % 2)
            CU(cuMemcpyDtoH(mine, p->data + from, size));
        else
            CU(cuMemcpyDtoHAsync(mine, p->data + from, size, stream));
        CU(cuStreamSynchronize(stream));
        worker->wrong += memcmp(mine, p->want + from, size) != 0;
        CU(cuMemFreeHost(mine));
    }
    CU(cuStreamDestroy(stream));
    return NULL;
}

static size_t
threads_do_not_mix_theirs_up(struct pages *p)
{
    return pages_in_threads(p, worker_main);
}

/* A context takes its page-locked memory along; a new one starts afresh. */
static size_t
contexts_come_and_go(struct pages *p)
{
    size_t wrong = 0;

    for (int i = 0; i < 3; i++) {
        CUdeviceptr data;
        CUcontext context;
        uint8_t *mine;

        CU(cuCtxCreate(&context, 0, p->prog.device));
        CU(cuMemAlloc(&data, 2 * MIB));
        CU(cuMemHostAlloc((void **)&mine, 2 * MIB, CU_MEMHOSTALLOC_PORTABLE));
        memcpy(mine, p->want, 2 * MIB);
        CU(cuMemcpyHtoD(data, mine, 2 * MIB));
        wrong += card_differs(data, p->want, 2 * MIB);
        CU(cuCtxDestroy(context));
        CU(cuCtxSetCurrent(p->prog.context));
        memcpy(p->host, p->want, BIG);
        CU(cuMemcpyHtoD(p->data, p->host, BIG));
        wrong += card_differs(p->data, p->want, BIG);
    }
    return wrong;
}

static const struct pages_promise promises[] = {
    {"any size and place", blocking_copies_of_any_size_and_place},
    {"place in a stream", copies_up_keep_their_place_in_a_stream},
    {"not overtaken", all_ways_mixed_do_not_overtake},
    {"many", many_come_and_go},
    {"threads", threads_do_not_mix_theirs_up},
    {"contexts", contexts_come_and_go},
};

/* Mappings of files that a server was handed. */
static unsigned
shared_pieces(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned n = 0;

    while (maps && fgets(line, sizeof(line), maps))
        n += strstr(line, "/memfd:gpupool-pinned") != NULL;
    if (maps)
        fclose(maps);
    return n;
}

int
main(int argc, char **argv)
{
    struct pages p;
    int status;

    pages_begin(&p, argc, argv, "pinned", pinned_ptx, BIG);
    status = pages_check(&p, promises, sizeof(promises) / sizeof(promises[0]));
    if (argc > 2 && strcmp(argv[2], "shared") == 0)
        printf("shared: %u\n", shared_pieces());
    pages_end(&p);
    return status;
}
