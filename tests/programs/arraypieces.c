/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays larger than what is moved at a time, with elements of each size: a driver
 * refuses copies of parts of elements, so who moves a copy in pieces has to cut it
 * between elements.
 */
#include "parts.h"

#include <stdbool.h>

enum { WIDTH = 40000, ROWS = 3, PAD = 4 }; /* no multiple of 16 bytes, where it can */

static const struct {
    CUarray_format format;
    unsigned channels, size;
} elements[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, 1, 1}, {CU_AD_FORMAT_UNSIGNED_INT16, 1, 2},
    {CU_AD_FORMAT_HALF, 2, 4},          {CU_AD_FORMAT_FLOAT, 1, 4},
    {CU_AD_FORMAT_FLOAT, 2, 8},         {CU_AD_FORMAT_SIGNED_INT32, 4, 16},
};

enum {
    N_ELEMENTS = sizeof(elements) / sizeof(elements[0]),
    MOST = 16 * (WIDTH + PAD) * ROWS,
};

static unsigned char *ours, *back;
static CUstream stream;

static void
fill(void)
{
    for (size_t i = 0; i < MOST; i++)
        ours[i] = (unsigned char)(i * 2654435761u >> 20);
    memset(back, 0, MOST);
}

static int
start(void)
{
    CUcontext ctx;
    CUdevice dev;

    ours = malloc(MOST);
    back = malloc(MOST);
    if (!ours || !back)
        return 1;
    fill();
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int
array_new(CUarray *ret, unsigned which, size_t width, size_t rows)
{
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = width,
                                  .Height = rows,
                                  .Format = elements[which].format,
                                  .NumChannels = elements[which].channels};

    TRY(cuArrayCreate_v2(ret, &desc));
    return 0;
}

static int
same(size_t at, size_t n)
{
    SAME(memcmp(ours + at, back, n), 0);
    memset(back, 0, MOST);
    return 0;
}

/* Of one row, from its second element on. */
static int
linear(unsigned which, bool async)
{
    size_t size = elements[which].size, n = (3 * WIDTH - 1) * size;
    CUarray array;

    if (array_new(&array, which, 3 * WIDTH, 0))
        return 1;
    if (async) {
        TRY(cuMemcpyHtoAAsync_v2(array, size, ours, n, stream));
        TRY(cuMemcpyAtoHAsync_v2(back, array, size, n, stream));
        TRY(cuStreamSynchronize(stream));
    } else {
        TRY(cuMemcpyHtoA_v2(array, size, ours, n));
        TRY(cuMemcpyAtoH_v2(back, array, size, n));
    }
    if (same(0, n))
        return 1;
    TRY(cuArrayDestroy(array));
    return 0;
}

/* The host's rows are apart by @pad bytes. */
static int
rows(unsigned which, bool async, size_t pad)
{
    size_t width = WIDTH * elements[which].size;
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = ours,
                        .srcPitch = width + pad,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .WidthInBytes = width,
                        .Height = ROWS};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .dstPitch = width + pad,
                          .WidthInBytes = width,
                          .Height = ROWS};

    if (array_new(&up.dstArray, which, WIDTH, ROWS))
        return 1;
    down.srcArray = up.dstArray;
    if (async) {
        TRY(cuMemcpy2DAsync_v2(&up, stream));
        TRY(cuMemcpy2DAsync_v2(&down, stream));
        TRY(cuStreamSynchronize(stream));
    } else {
        TRY(cuMemcpy2D_v2(&up));
        TRY(cuMemcpy2D_v2(&down));
    }
    for (size_t row = 0; row < ROWS; row++)
        SAME(memcmp(ours + row * (width + pad), back + row * (width + pad), width), 0);
    memset(back, 0, MOST);
    TRY(cuArrayDestroy(up.dstArray));
    return 0;
}

static int
all(int (*one)(unsigned which, bool async))
{
    for (unsigned which = 0; which < N_ELEMENTS; which++) {
        if (one(which, false) || one(which, true)) {
            printf("elements of %u bytes\n", elements[which].size);
            return 1;
        }
    }
    return 0;
}

static int
linear_copies(void)
{
    return all(linear);
}

static int
rows_packed(unsigned which, bool async)
{
    return rows(which, async, 0);
}

static int
rows_apart(unsigned which, bool async)
{
    return rows(which, async, PAD) || rows(which, async, 1);
}

static int
boxes_packed(void)
{
    return all(rows_packed);
}

static int
boxes_apart(void)
{
    return all(rows_apart);
}

/* Nothing moves of a copy that goes beyond the end. */
static int
too_long(void)
{
    size_t n = 16 * 3 * WIDTH;
    CUarray array;

    if (array_new(&array, N_ELEMENTS - 1, 3 * WIDTH, 0))
        return 1;
    memset(back, 7, MOST);
    TRY(cuMemcpyHtoA_v2(array, 0, back, n));
    CODE(settled(cuMemcpyHtoA_v2(array, 16, ours, n)), CUDA_ERROR_INVALID_VALUE);
    memset(back, 0, MOST);
    CODE(settled(cuMemcpyAtoH_v2(back, array, 16, n)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        SAME(back[i], 0);
    TRY(cuMemcpyAtoH_v2(back, array, 0, n));
    for (size_t i = 0; i < n; i++)
        SAME(back[i], 7);
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
page_locked_memory(void)
{
    free(ours);
    free(back);
    TRY(cuMemAllocHost_v2((void **)&ours, MOST));
    TRY(cuMemAllocHost_v2((void **)&back, MOST));
    fill();
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {{"linear copies", linear_copies},
                                        {"boxes packed", boxes_packed},
                                        {"boxes apart", boxes_apart},
                                        {"too long", too_long},
                                        {"page-locked memory", page_locked_memory},
                                        {"linear copies", linear_copies},
                                        {"boxes packed", boxes_packed},
                                        {"boxes apart", boxes_apart},
                                        {"too long", too_long}};

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
