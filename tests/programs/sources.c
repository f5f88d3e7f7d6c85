/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of copies that are gone when the call has returned: copies to the card of
 * many sizes, whose memory is unmapped, or filled with other bytes, right behind each
 * of them. The first part has no stream of the program's own, the others have one, so
 * that a client may wait for the answer of a copy where it need not before.
 */
#include "parts.h"

#include <stdint.h>
#include <sys/mman.h>

#define KIB ((size_t)1 << 10)
#define MOST (3 * 1024 * KIB)
#define ROUNDS 12

static CUdeviceptr card;
static CUarray array;
static const size_t sizes[] = {5 * KIB,    70 * KIB,   200 * KIB,  400 * KIB,
                               600 * KIB,  1024 * KIB, 1500 * KIB, MOST,
                               1024 * KIB, 700 * KIB};
static const size_t n_sizes = sizeof(sizes) / sizeof(*sizes);
static uint32_t back[MOST / 4];

static uint32_t
word(size_t round, size_t i)
{
    return (uint32_t)(round * 2654435761u + i * 40503u);
}

static uint32_t *
source(size_t round, size_t size)
{
    uint32_t *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < size / 4; i++)
        p[i] = word(round, i);
    return p;
}

static int
came(size_t round, size_t size)
{
    TRY(cuMemcpyDtoH_v2(back, card, size));
    for (size_t i = 0; i < size / 4; i++)
        SAME(back[i], word(round, i));
    return 0;
}

static int
linear(void)
{
    for (size_t round = 0; round < ROUNDS * n_sizes; round++) {
        size_t size = sizes[round % n_sizes];
        uint32_t *p = source(round, size);

        SAME(p != NULL, 1);
        TRY(cuMemcpyHtoD_v2(card, p, size));
        munmap(p, size);
        if (came(round, size))
            return 1;
    }
    return 0;
}

static int
without_a_stream(void)
{
    return linear();
}

static int
with_a_stream(void)
{
    CUstream stream;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (linear())
        return 1;
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

/* The memory stays and gets other bytes. */
static int
filled_anew(void)
{
    CUstream stream;
    uint32_t *p = source(0, MOST);

    SAME(p != NULL, 1);
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t round = 0; round < ROUNDS * n_sizes; round++) {
        size_t size = sizes[round % n_sizes];

        for (size_t i = 0; i < size / 4; i++)
            p[i] = word(round, i);
        TRY(cuMemcpyHtoD_v2(card, p, size));
        memset(p, 0xff, size);
        if (came(round, size))
            return 1;
    }
    TRY(cuStreamDestroy_v2(stream));
    munmap(p, MOST);
    return 0;
}

/* Boxes and arrays, and calls that the driver refuses behind their payload. */
static int
other_shapes(void)
{
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcPitch = 4 * KIB,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = card,
                        .dstPitch = 4 * KIB,
                        .WidthInBytes = 4 * KIB,
                        .Height = 250};
    const size_t size = up.srcPitch * up.Height;
    CUstream stream;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        uint32_t *p = source(round, size);

        SAME(p != NULL, 1);
        up.srcHost = p;
        TRY(cuMemcpy2D_v2(&up));
        TRY(cuMemcpyHtoA_v2(array, 0, p, size));
        CODE(cuMemcpyHtoD_v2(card + MOST - size + 4, p, size),
             CUDA_ERROR_INVALID_VALUE);
        munmap(p, size);
        if (came(round, size))
            return 1;
        TRY(cuMemcpyAtoH_v2(back, array, 0, size));
        for (size_t i = 0; i < size / 4; i++)
            SAME(back[i], word(round, i));
    }
    TRY(cuStreamDestroy_v2(stream));
    return 0;
}

static const struct part parts[] = {{"without a stream", without_a_stream},
                                    {"with a stream", with_a_stream},
                                    {"filled anew", filled_anew},
                                    {"other shapes", other_shapes}};

int
main(void)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 64 * KIB, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 4};
    CUcontext ctx;
    CUdevice dev;

    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuCtxCreate_v2(&ctx, 0, dev));
    TRY(cuMemAlloc_v2(&card, MOST));
    TRY(cuArrayCreate_v2(&array, &desc));
    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
