/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes of which only the extent is given: a pitch or height that is 0 is the copy's
 * own with its offset, however large the copy is and wherever its two sides are.  And
 * boxes that cannot be.
 */
#include "parts.h"

#include <stdbool.h>

enum { MAX_DEVICES = 4, SPACE = 28 << 20 };

struct place {
    CUcontext ctx;
    CUdeviceptr memory; /* SPACE bytes */
};

static struct place places[MAX_DEVICES];
static int n_places;
static CUstream stream; /* of the first place */
static unsigned char *ours, *back;

static int
start(void)
{
    CUdevice dev;

    ours = malloc(SPACE);
    back = malloc(SPACE);
    if (!ours || !back)
        return 1;
    for (size_t i = 0; i < SPACE; i++)
        ours[i] = (unsigned char)(i * 2654435761u >> 20);
    TRY(cuInit(0));
    TRY(cuDeviceGetCount(&n_places));
    n_places = n_places < MAX_DEVICES ? n_places : MAX_DEVICES;
    for (int i = n_places - 1; i >= 0; i--) {
        TRY(cuDeviceGet(&dev, i));
        TRY(cuDevicePrimaryCtxRetain(&places[i].ctx, dev));
        TRY(cuCtxSetCurrent(places[i].ctx));
        TRY(cuMemAlloc_v2(&places[i].memory, SPACE));
    }
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

/* Rows that are wider, and layers that are more, than what is moved at a time. */
static const CUDA_MEMCPY3D extents[] = {
    {.WidthInBytes = 1726229, .Height = 2, .Depth = 2},
    {.WidthInBytes = 1001, .Height = 3, .Depth = 1000},
    {.WidthInBytes = 70001, .Height = 50, .Depth = 1},
    {.WidthInBytes = 40, .Height = 5, .Depth = 4},
};

enum { N_EXTENTS = sizeof(extents) / sizeof(extents[0]), X = 16, Y = 3, Z = 1 };

/* Where the card's side has byte @x of row @y of layer @z. */
static size_t
inside(const CUDA_MEMCPY3D *c, size_t x, size_t y, size_t z)
{
    return ((Z + z) * (Y + c->Height) + Y + y) * (X + c->WidthInBytes) + X + x;
}

/* The same on the host's side, which has gaps. */
static size_t
outside(const CUDA_MEMCPY3D *c, size_t x, size_t y, size_t z)
{
    return (z * (c->Height + 1) + y) * (c->WidthInBytes + 7) + x;
}

/* The first row of which @a and @b differ, 0: none. */
static size_t
first_difference(const CUDA_MEMCPY3D *c, const unsigned char *a, const unsigned char *b)
{
    for (size_t z = 0; z < c->Depth; z++)
        for (size_t y = 0; y < c->Height; y++)
            if (memcmp(a + inside(c, 0, y, z), b + outside(c, 0, y, z),
                       c->WidthInBytes))
                return z * c->Height + y + 1;
    return 0;
}

static CUresult
copy(const CUDA_MEMCPY3D *c, bool waits)
{
    CUresult r = waits ? cuMemcpy3D_v2(c) : cuMemcpy3DAsync_v2(c, stream);

    return r == CUDA_SUCCESS && !waits ? cuStreamSynchronize(stream) : r;
}

static int
up(bool waits)
{
    for (int i = 0; i < N_EXTENTS; i++) {
        CUDA_MEMCPY3D c = extents[i];

        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = ours;
        c.srcPitch = c.WidthInBytes + 7;
        c.srcHeight = c.Height + 1;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = places[0].memory;
        c.dstXInBytes = X;
        c.dstY = Y;
        c.dstZ = Z;
        TRY(copy(&c, waits));
        TRY(cuMemcpyDtoH_v2(back, places[0].memory, SPACE));
        SAME(first_difference(&c, back, ours), 0);
    }
    return 0;
}

static int
down(bool waits)
{
    TRY(cuMemcpyHtoD_v2(places[0].memory, ours, SPACE));
    for (int i = 0; i < N_EXTENTS; i++) {
        CUDA_MEMCPY3D c = extents[i];

        memset(back, 0, SPACE);
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = back;
        c.dstPitch = c.WidthInBytes + 7;
        c.dstHeight = c.Height + 1;
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = places[0].memory;
        c.srcXInBytes = X;
        c.srcY = Y;
        c.srcZ = Z;
        TRY(copy(&c, waits));
        SAME(first_difference(&c, ours, back), 0);
    }
    return 0;
}

static int
up_at_once(void)
{
    return up(true);
}

static int
up_in_a_stream(void)
{
    return up(false);
}

static int
down_at_once(void)
{
    return down(true);
}

static int
down_in_a_stream(void)
{
    return down(false);
}

static int
between(const struct place *from, const struct place *to)
{
    TRY(cuMemcpyHtoD_v2(from->memory, ours, SPACE));
    for (int i = 0; i < N_EXTENTS; i++) {
        CUDA_MEMCPY3D c = extents[i];

        TRY(cuMemsetD8_v2(to->memory, 0, SPACE));
        c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = from->memory;
        c.srcXInBytes = X;
        c.srcY = Y;
        c.srcZ = Z;
        c.dstDevice = to->memory;
        c.dstPitch = c.WidthInBytes + 7;
        c.dstHeight = c.Height + 1;
        TRY(cuMemcpy3D_v2(&c));
        TRY(cuCtxSynchronize());
        TRY(cuMemcpyDtoH_v2(back, to->memory, SPACE));
        SAME(first_difference(&c, ours, back), 0);
    }
    return 0;
}

/* The second half of the one place's memory, where there is no other. */
static int
from_card_to_card(void)
{
    const struct place half = {places[0].ctx, places[0].memory};

    if (n_places == 1) {
        struct place other = half;

        TRY(cuMemAlloc_v2(&other.memory, SPACE));
        return between(&half, &other);
    }
    for (int i = 1; i < n_places; i++)
        if (between(&places[0], &places[i]) || between(&places[i], &places[0]))
            return 1;
    return 0;
}

static int
boxes_that_cannot_be(void)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = places[0].memory,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = places[0].memory + SPACE / 2,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = (size_t)1 << 63};
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = ours,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = back,
                       .WidthInBytes = 64,
                       .Height = 2,
                       .Depth = 2};

    CODE(cuMemcpy2D_v2(&flat), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemcpy2DUnaligned_v2(&flat), CUDA_ERROR_INVALID_VALUE);
    flat.Height = 2;
    TRY(cuMemcpy2D_v2(&flat));
    TRY(cuMemcpy3D_v2(&c));
    c.srcLOD = 1; /* must be 0 */
    CODE(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c.srcLOD = 0;
    c.dstLOD = 1;
    CODE(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    c.dstLOD = 0;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = places[0].memory;
    c.dstZ = (size_t)1 << 63; /* layers of an even size */
    CODE(settled(cuMemcpy3D_v2(&c)), CUDA_ERROR_INVALID_VALUE);
    c.dstZ = 0;
    c.dstY = (size_t)1 << 63;
    CODE(settled(cuMemcpy3D_v2(&c)), CUDA_ERROR_INVALID_VALUE);
    c.Height = (size_t)1 << 63;
    c.WidthInBytes = 0;
    TRY(cuMemcpy3D_v2(&c)); /* of nothing */
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"up at once", up_at_once},
        {"up in a stream", up_in_a_stream},
        {"down at once", down_at_once},
        {"down in a stream", down_in_a_stream},
        {"from card to card", from_card_to_card},
        {"boxes that cannot be", boxes_that_cannot_be},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
