/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of one dimension, of two and of three; widths are in bytes. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

struct shape {
    size_t width, height, depth;
};

static const struct element {
    size_t size;
    CUarray_format format;
    unsigned channels;
} elements[] = {{1, CU_AD_FORMAT_UNSIGNED_INT8, 1},
                {2, CU_AD_FORMAT_HALF, 1},
                {4, CU_AD_FORMAT_FLOAT, 1},
                {8, CU_AD_FORMAT_FLOAT, 2},
                {16, CU_AD_FORMAT_UNSIGNED_INT32, 4}};

#define N_ELEMENTS (sizeof(elements) / sizeof(elements[0]))

static const struct element *
element_of(size_t size)
{
    for (size_t i = 1; i < N_ELEMENTS; i++)
        if (elements[i].size == size)
            return &elements[i];
    return &elements[0];
}

static size_t
size_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    for (size_t i = 1; i < N_ELEMENTS; i++)
        if (elements[i].format == d->Format && elements[i].channels == d->NumChannels)
            return elements[i].size;
    return 1;
}

static CUresult
shape_of(num array, struct shape *ret)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {0};
    CUresult r = cuArray3DGetDescriptor_v2(&d, rp.arrays[array]);

    *ret = (struct shape){d.Width * size_of(&d), d.Height ? d.Height : 1,
                          d.Depth ? d.Depth : 1};
    return r;
}

/* Between an array, from its last place that has room for it on, and memory. */
static CUresult
copy(num array, CUDA_MEMCPY3D *p, bool up, num stream)
{
    struct shape shape;
    CUresult r = shape_of(array, &shape);
    size_t x = shape.width - p->WidthInBytes, y = shape.height - p->Height,
           z = shape.depth - p->Depth;
    CUDA_MEMCPY2D flat;

    if (r != CUDA_SUCCESS)
        return r;
    if (up) {
        p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        p->dstArray = rp.arrays[array];
        p->dstXInBytes = x;
        p->dstY = y;
        p->dstZ = z;
    } else {
        p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        p->srcArray = rp.arrays[array];
        p->srcXInBytes = x;
        p->srcY = y;
        p->srcZ = z;
    }
    if (shape.depth > 1)
        return stream < 0 ? cuMemcpy3D_v2(p)
                          : cuMemcpy3DAsync_v2(p, replay_stream(stream));
    flat = (CUDA_MEMCPY2D){
        p->srcXInBytes, p->srcY,          p->srcMemoryType, p->srcHost,
        p->srcDevice,   p->srcArray,      p->srcPitch,      p->dstXInBytes,
        p->dstY,        p->dstMemoryType, p->dstHost,       p->dstDevice,
        p->dstArray,    p->dstPitch,      p->WidthInBytes,  p->Height};
    return stream < 0 ? cuMemcpy2D_v2(&flat)
                      : cuMemcpy2DAsync_v2(&flat, replay_stream(stream));
}

/* All of it, from or to packed memory of the host. */
static CUresult
copy_all(num array, void *host, const struct shape *shape, bool up)
{
    CUDA_MEMCPY3D p = {.WidthInBytes = shape->width,
                       .Height = shape->height,
                       .Depth = shape->depth,
                       .srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = host,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = host};

    return copy(array, &p, up, -1);
}

static bool
fits(num array, num width, num height, num depth)
{
    struct shape shape;

    return rp.arrays[array] && shape_of(array, &shape) == CUDA_SUCCESS &&
           (size_t)width <= shape.width && (size_t)height <= shape.height &&
           (size_t)depth <= shape.depth;
}

/* ARRAY ELEMENTS HEIGHT DEPTH FILL SIZE: a height or depth of 0 is none; what it is
 * filled with, or 0; bytes of an element, 0: one */
OP(ar)
{
    const struct element *element = element_of((size_t)a[5]);
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = (size_t)a[1],
                                 .Height = (size_t)a[2],
                                 .Depth = (size_t)a[3],
                                 .Format = element->format,
                                 .NumChannels = element->channels};
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = d.Width,
                                  .Height = d.Height,
                                  .Format = d.Format,
                                  .NumChannels = d.NumChannels};
    struct shape shape;
    uint8_t *bytes;
    CUresult r;

    replay_own(REPLAY_ARRAY, a[0]);
    r = d.Depth ? cuArray3DCreate_v2(&rp.arrays[a[0]], &d)
                : cuArrayCreate_v2(&rp.arrays[a[0]], &flat);
    if (r != CUDA_SUCCESS || !a[4])
        return (int)r;
    r = shape_of(a[0], &shape);
    bytes = malloc(shape.width * shape.height * shape.depth);
    memset(bytes, (int)a[4], shape.width * shape.height * shape.depth);
    if (r == CUDA_SUCCESS)
        r = copy_all(a[0], bytes, &shape, true);
    free(bytes);
    return (int)r;
}

OP(ard)
{
    CUarray array = rp.arrays[a[0]];

    rp.arrays[a[0]] = NULL;
    return array ? (int)cuArrayDestroy(array) : NO_OBJECT;
}

OP(ahash)
{
    struct shape shape;
    uint8_t *bytes;
    size_t size;
    CUresult r;

    if (!rp.arrays[a[0]])
        return NO_OBJECT;
    r = shape_of(a[0], &shape);
    size = shape.width * shape.height * shape.depth;
    bytes = malloc(size);
    if (r == CUDA_SUCCESS)
        r = copy_all(a[0], bytes, &shape, false);
    if (r == CUDA_SUCCESS)
        replay_say(" %08x", replay_hash(bytes, size));
    free(bytes);
    return (int)r;
}

/* ARRAY OFFSET HOST OFFSET N */
OP(h2a)
{
    if (!rp.arrays[a[0]] || !replay_host_has(a[2], a[3], a[4]))
        return NO_OBJECT;
    return (int)cuMemcpyHtoA_v2(rp.arrays[a[0]], (size_t)a[1], rp.hosts[a[2]].at + a[3],
                                (size_t)a[4]);
}

OP(a2h)
{
    if (!rp.arrays[a[0]] || !replay_host_has(a[2], a[3], a[4]))
        return NO_OBJECT;
    return (int)cuMemcpyAtoH_v2(rp.hosts[a[2]].at + a[3], rp.arrays[a[0]], (size_t)a[1],
                                (size_t)a[4]);
}

/* The same with a STREAM. */
OP(h2aa)
{
    if (!rp.arrays[a[0]] || !replay_host_has(a[2], a[3], a[4]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)cuMemcpyHtoAAsync_v2(rp.arrays[a[0]], (size_t)a[1],
                                     rp.hosts[a[2]].at + a[3], (size_t)a[4],
                                     replay_stream(a[5]));
}

OP(a2ha)
{
    if (!rp.arrays[a[0]] || !replay_host_has(a[2], a[3], a[4]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)cuMemcpyAtoHAsync_v2(rp.hosts[a[2]].at + a[3], rp.arrays[a[0]],
                                     (size_t)a[1], (size_t)a[4], replay_stream(a[5]));
}

/* ARRAY HOST WIDTH HEIGHT DEPTH UP STREAM: packed in the host's memory */
OP(abox)
{
    CUDA_MEMCPY3D p = {
        .WidthInBytes = (size_t)a[2], .Height = (size_t)a[3], .Depth = (size_t)a[4]};

    if (!fits(a[0], a[2], a[3], a[4]) ||
        !replay_host_has(a[1], 0, a[2] * a[3] * a[4]) || !replay_stream_is(a[6]))
        return NO_OBJECT;
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_HOST;
    p.srcHost = p.dstHost = rp.hosts[a[1]].at;
    p.srcPitch = p.dstPitch = p.WidthInBytes;
    p.srcHeight = p.dstHeight = p.Height;
    return (int)copy(a[0], &p, a[5] != 0, a[6]);
}

/* ARRAY DEVICE WIDTH HEIGHT DEPTH UP STREAM: with a byte between rows on the device */
OP(adev)
{
    CUDA_MEMCPY3D p = {
        .WidthInBytes = (size_t)a[2], .Height = (size_t)a[3], .Depth = (size_t)a[4]};

    if (!fits(a[0], a[2], a[3], a[4]) || !rp.devs[a[1]].at ||
        (size_t)((a[2] + 1) * a[3] * a[4]) > rp.devs[a[1]].size ||
        !replay_stream_is(a[6]))
        return NO_OBJECT;
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = p.dstDevice = rp.devs[a[1]].at;
    p.srcPitch = p.dstPitch = p.WidthInBytes + 1;
    p.srcHeight = p.dstHeight = p.Height;
    return (int)copy(a[0], &p, a[5] != 0, a[6]);
}

const struct replay_op replay_array_ops[] = {
    NAMED(ar),   NAMED(ard),  NAMED(ahash), NAMED(h2a),  NAMED(a2h),
    NAMED(h2aa), NAMED(a2ha), NAMED(abox),  NAMED(adev), {NULL, NULL},
};
