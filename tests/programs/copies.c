/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies from and to memory of all kinds, at odd places: every byte is looked at.
 *
 * What is under the copies may be a window of the card's memory, a slot, or a buffer of
 * the network: this program knows of none, and moves what could confuse each of them -
 * memory that is unmapped and mapped again, allocations that are freed and made again,
 * ranges that begin and end between pages.  One thread.
 */
#include "prog.h"

#include <string.h>
#include <sys/mman.h>

#define MIB (1024ul * 1024ul)
#define LARGE (72 * MIB) /* more than any piece that is handled at a time */

static unsigned seed;

static void
fill(unsigned char *p, size_t n)
{
    seed = seed * 1103515245u + 12345u;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 + (i >> 12) + seed);
}

/* Up, down into other memory, compare. */
static void
round_trip(CUdeviceptr device, unsigned char *from, unsigned char *to, size_t n,
           const char *what)
{
    fill(from, n);
    memset(to, 0, n);
    CU(cuMemcpyHtoD(device, from, n));
    CU(cuMemcpyDtoH(to, device, n));
    if (memcmp(from, to, n)) {
        fprintf(stderr, "copies: %s: other bytes came back\n", what);
        exit(1);
    }
}

static unsigned char *
pages(void *where, size_t n)
{
    void *p = mmap(where, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);

    if (p == MAP_FAILED)
        exit(2);
    return p;
}

static void
odd_places(CUdeviceptr device, unsigned char *from, unsigned char *to)
{
    static const size_t lengths[] = {1, 65535, 65536, 262144, 1048577, 5 * MIB + 3};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        round_trip(device, from, to, lengths[i], "from the start");
        round_trip(device + 4097, from + 1, to + 3, lengths[i], "between pages");
        round_trip(device + 64 * MIB - 70001, from, to, lengths[i], "across pieces");
        round_trip(device + LARGE - lengths[i], from, to, lengths[i], "to the end");
    }
}

/* Of many lengths behind each other, so that what carries them ends everywhere once;
 * and what is refused in between leaves nothing behind. */
static void
many_lengths(CUdeviceptr device, unsigned char *from, unsigned char *to)
{
    for (size_t i = 0, n = 1; i < 400; i++, n = (n * 3 + 4099) % (300 * 1024) + 1) {
        round_trip(device + i, from, to, n, "one of many lengths");
        if (i % 20)
            continue;
        if (cuMemcpyDtoH(to, 64, n) == CUDA_SUCCESS ||
            cuMemcpyDtoH(to, device + LARGE - n / 2 - 1, n + 1) == CUDA_SUCCESS) {
            fprintf(stderr, "copies: from outside of all memory, or past its end\n");
            exit(1);
        }
    }
}

static void
memory_that_changes(CUdeviceptr device, unsigned char *to)
{
    unsigned char *p = pages(NULL, 4 * MIB);

    for (int i = 0; i < 3; i++) {
        round_trip(device, p, to, 4 * MIB, "memory that was unmapped");
        round_trip(device, to, p, 4 * MIB, "target that was unmapped");
        munmap(p, 4 * MIB);
        pages(p, 4 * MIB);
    }
    madvise(p, 4 * MIB, MADV_DONTNEED);
    round_trip(device, p, to, 4 * MIB, "memory whose pages were dropped");
    munmap(p, 4 * MIB);
}

static void
page_locked(CUdeviceptr device)
{
    unsigned char *from, *to, *own = pages(NULL, 2 * MIB);

    CU(cuMemHostAlloc((void **)&from, 2 * MIB, 0));
    CU(cuMemHostAlloc((void **)&to, 2 * MIB, 0));
    round_trip(device, from, to, 2 * MIB, "page-locked memory");
    CU(cuMemFreeHost(from));
    CU(cuMemHostAlloc((void **)&from, 2 * MIB, 0));
    round_trip(device, from, to, 2 * MIB, "page-locked memory made again");
    CU(cuMemHostRegister(own, 2 * MIB, 0));
    round_trip(device, own, to, 2 * MIB, "registered memory");
    CU(cuMemHostUnregister(own));
    munmap(own, 2 * MIB);
    CU(cuMemFreeHost(from));
    CU(cuMemFreeHost(to));
}

/* Copies in two streams, none waited for until the end. */
static void
streams(CUdeviceptr device, unsigned char *from, unsigned char *to)
{
    CUstream stream[2];

    fill(from, 32 * MIB);
    memset(to, 0, 32 * MIB);
    for (int i = 0; i < 2; i++)
        CU(cuStreamCreate(&stream[i], 1));
    for (size_t i = 0; i < 16; i++) {
        size_t at = i * 2 * MIB;

        CU(cuMemcpyHtoDAsync(device + at, from + at, 2 * MIB, stream[i % 2]));
        CU(cuMemcpyDtoHAsync(to + at, device + at, 2 * MIB, stream[i % 2]));
    }
    for (int i = 0; i < 2; i++) {
        CU(cuStreamSynchronize(stream[i]));
        CU(cuStreamDestroy(stream[i]));
    }
    if (memcmp(from, to, 32 * MIB)) {
        fprintf(stderr, "copies: streams: other bytes came back\n");
        exit(1);
    }
}

int
main(void)
{
    unsigned char *from = pages(NULL, LARGE), *to = pages(NULL, LARGE);
    CUcontext context;
    CUdevice dev;

    CU(cuInit(0));
    CU(cuDeviceGet(&dev, 0));
    CU(cuCtxCreate(&context, 0, dev));
    for (int i = 0; i < 2; i++) {
        CUdeviceptr device;

        CU(cuMemAlloc(&device, LARGE));
        round_trip(device, from, to, LARGE, "all of it");
        if (i == 0) {
            odd_places(device, from, to);
            many_lengths(device, from, to);
            memory_that_changes(device, to);
            page_locked(device);
            streams(device, from, to);
        }
        CU(cuMemFree(device));
    }
    CU(cuCtxDestroy(context));
    printf("copies: ok\n");
    return 0;
}
