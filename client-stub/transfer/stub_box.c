/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of rectangles and boxes; see stub_box.h. */
#include "stub_box.h"

#include "gp_base.h"
#include "gp_size.h"
#include "stub_call.h"
#include "stub_copy_facts.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_memory.h"
#include "stub_registered.h"
#include "wire_api.h"

#include <assert.h>
#include <string.h>

/* A unified address is the host's or a device's by its value. */
static void
box_resolve_type(CUmemorytype *type, void *host_field, CUdeviceptr *device)
{
    void *host = (void *)(uintptr_t)*device;

    if (*type != CU_MEMORYTYPE_UNIFIED)
        return;
    if (stub_memory_is_device(*device)) {
        *type = CU_MEMORYTYPE_DEVICE;
        return;
    }
    *type = CU_MEMORYTYPE_HOST;
    memcpy(host_field, &host, sizeof(host));
}

/* The pitch and height of an array are its own.  A height has no effect where there is
 * one slice. */
static bool
box_side_has_room(CUmemorytype type, size_t x, size_t y, size_t pitch, size_t height,
                  const CUDA_MEMCPY3D *copy)
{
    uint64_t end;

    if (type == CU_MEMORYTYPE_ARRAY)
        return true;
    if (pitch && (!gp_add_ok(x, copy->WidthInBytes, &end) || end > pitch))
        return false;
    return copy->Depth <= 1 || !height ||
           (gp_add_ok(y, copy->Height, &end) && end <= height);
}

static bool
box_is_type(CUmemorytype type)
{
    return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

/* SIZE_MAX where the server does not know a limit. */
static size_t
box_max_pitch(void)
{
    const struct stub_device *dev =
        stub_tls.ctx ? stub_device_get(stub_tls.ctx->dev) : NULL;
    int limit = dev ? stub_device_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH) : 0;

    return limit > 0 ? (size_t)limit : SIZE_MAX;
}

/* A pitch or height that is given has room for the offset and the copy, and no pitch
 * exceeds the device's limit. */
static bool
box_has_room(const CUDA_MEMCPY3D *c)
{
    size_t most = box_max_pitch();

    return (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->srcPitch <= most) &&
           (c->dstMemoryType == CU_MEMORYTYPE_ARRAY || c->dstPitch <= most) &&
           box_side_has_room(c->srcMemoryType, c->srcXInBytes, c->srcY, c->srcPitch,
                             c->srcHeight, c) &&
           box_side_has_room(c->dstMemoryType, c->dstXInBytes, c->dstY, c->dstPitch,
                             c->dstHeight, c);
}

/* Offsets of the host side are applied here and vanish from the description. */
static bool
box_open_host(struct stub_box_host *host, const void *base, size_t *x, size_t *y,
              size_t *z, size_t *pitch, size_t *height, const CUDA_MEMCPY3D *copy)
{
    size_t p = *pitch ? *pitch : *x + copy->WidthInBytes;
    size_t h = *height ? *height : *y + copy->Height;
    uint64_t offset, part;

    if (!base || p < copy->WidthInBytes || h < copy->Height)
        return false;
    if (!gp_mul_ok(p, h, &host->slice) || !gp_mul_ok(host->slice, *z, &offset) ||
        !gp_mul_ok(p, *y, &part) || !gp_add_ok(offset, part, &offset) ||
        !gp_add_ok(offset, *x, &offset))
        return false;
    host->base = (char *)(uintptr_t)base + offset;
    host->pitch = p;
    *x = *y = *z = *pitch = *height = 0;
    return true;
}

static bool
box_host_is_gone(const struct stub_box *box, const struct stub_box_host *host)
{
    return host->base && box->rows && box->width &&
           stub_registered_is_gone(host->base, stub_box_extent(box, host));
}

CUresult
stub_box_open(struct stub_box *box, uint16_t call, const CUDA_MEMCPY3D *given)
{
    CUDA_MEMCPY3D *c = &box->copy;
    uint64_t bytes;

    *box = (struct stub_box){.call = call, .given = given, .copy = *given};
    box_resolve_type(&c->srcMemoryType, &c->srcHost, &c->srcDevice);
    box_resolve_type(&c->dstMemoryType, &c->dstHost, &c->dstDevice);
    box->width = c->WidthInBytes;
    if (!c->WidthInBytes || !c->Height || !c->Depth)
        return CUDA_SUCCESS; /* nothing to copy, whatever the sides are */
    if (!gp_mul_ok(c->Height, c->Depth, &box->rows) ||
        !gp_mul_ok(box->rows, box->width, &bytes) || !box_has_room(c) || c->srcLOD ||
        c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    if (!box_is_type(c->srcMemoryType) || !box_is_type(c->dstMemoryType))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->srcMemoryType == CU_MEMORYTYPE_HOST &&
        !box_open_host(&box->src, c->srcHost, &c->srcXInBytes, &c->srcY, &c->srcZ,
                       &c->srcPitch, &c->srcHeight, c))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->dstMemoryType == CU_MEMORYTYPE_HOST &&
        !box_open_host(&box->dst, c->dstHost, &c->dstXInBytes, &c->dstY, &c->dstZ,
                       &c->dstPitch, &c->dstHeight, c))
        return CUDA_ERROR_INVALID_VALUE;
    c->srcHost = NULL;
    c->dstHost = NULL;
    return box_host_is_gone(box, &box->src) || box_host_is_gone(box, &box->dst)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

/* Its reserved words name contexts. */
static bool
box_is_peer(const struct stub_box *box)
{
    return box->call == WIRE_CALL_cuMemcpy3DPeer ||
           box->call == WIRE_CALL_cuMemcpy3DPeerAsync;
}

static bool
box_use_device(const struct stub_box *box, struct stub_box_host *host,
               CUmemorytype *type, CUdeviceptr *device, size_t *pitch, size_t *height)
{
    bool up = host == &box->src;
    uint64_t at = (uintptr_t)host->base;

    if (at && !stub_copy_has_same_address(at, stub_box_extent(box, host)))
        at = stub_copy_find_alias(up ? STUB_H2D : STUB_D2H, at);
    if (!at)
        return false;
    *type = CU_MEMORYTYPE_DEVICE;
    *device = at;
    *pitch = host->pitch;
    *height = host->slice / host->pitch;
    host->base = NULL;
    return true;
}

bool
stub_box_use_device(struct stub_box *box)
{
    CUDA_MEMCPY3D *c = &box->copy;
    bool src, dst;

    if (!box->rows || !box->width || box_is_peer(box))
        return false;
    src = box_use_device(box, &box->src, &c->srcMemoryType, &c->srcDevice, &c->srcPitch,
                         &c->srcHeight);
    dst = box_use_device(box, &box->dst, &c->dstMemoryType, &c->dstDevice, &c->dstPitch,
                         &c->dstHeight);
    return src || dst;
}

void
stub_box_widen(CUDA_MEMCPY3D *to, const CUDA_MEMCPY2D *from)
{
    *to = (CUDA_MEMCPY3D){
        .srcXInBytes = from->srcXInBytes,
        .srcY = from->srcY,
        .srcMemoryType = from->srcMemoryType,
        .srcHost = from->srcHost,
        .srcDevice = from->srcDevice,
        .srcArray = from->srcArray,
        .srcPitch = from->srcPitch,
        .dstXInBytes = from->dstXInBytes,
        .dstY = from->dstY,
        .dstMemoryType = from->dstMemoryType,
        .dstHost = from->dstHost,
        .dstDevice = from->dstDevice,
        .dstArray = from->dstArray,
        .dstPitch = from->dstPitch,
        .WidthInBytes = from->WidthInBytes,
        .Height = from->Height,
        .Depth = 1,
    };
}

static void
box_narrow(CUDA_MEMCPY2D *to, const CUDA_MEMCPY3D *from)
{
    *to = (CUDA_MEMCPY2D){
        .srcXInBytes = from->srcXInBytes,
        .srcY = from->srcY,
        .srcMemoryType = from->srcMemoryType,
        .srcDevice = from->srcDevice,
        .srcArray = from->srcArray,
        .srcPitch = from->srcPitch,
        .dstXInBytes = from->dstXInBytes,
        .dstY = from->dstY,
        .dstMemoryType = from->dstMemoryType,
        .dstDevice = from->dstDevice,
        .dstArray = from->dstArray,
        .dstPitch = from->dstPitch,
        .WidthInBytes = from->WidthInBytes,
        .Height = from->Height,
    };
}

char *
stub_box_row(const struct stub_box *box, const struct stub_box_host *host, uint64_t i)
{
    uint64_t height = box->copy.Height;

    return host->base + i / height * host->slice + i % height * host->pitch;
}

uint64_t
stub_box_extent(const struct stub_box *box, const struct stub_box_host *host)
{
    return (uint64_t)(stub_box_row(box, host, box->rows - 1) - host->base) + box->width;
}

bool
stub_box_is_span(const struct stub_box *box, const struct stub_box_host *host)
{
    return box->copy.Depth <= 1 ||
           host->slice == host->pitch * (uint64_t)box->copy.Height;
}

/* One side of a copy that is memory of a device, as far as the copy reaches. */
struct box_place {
    CUmemorytype type;
    CUdeviceptr base;
    uint64_t pitch, height, x, y, z;
};

static struct box_place
box_source(const struct stub_box *box)
{
    const CUDA_MEMCPY3D *c = &box->copy;

    return (struct box_place){c->srcMemoryType, c->srcDevice, c->srcPitch, c->srcHeight,
                              c->srcXInBytes,   c->srcY,      c->srcZ};
}

static struct box_place
box_target(const struct stub_box *box)
{
    const CUDA_MEMCPY3D *c = &box->copy;

    return (struct box_place){c->dstMemoryType, c->dstDevice, c->dstPitch, c->dstHeight,
                              c->dstXInBytes,   c->dstY,      c->dstZ};
}

/* Bytes from the base to the last one of the copy.  False: it is no such place. */
static bool
box_place_end(const struct stub_box *box, const struct box_place *at, uint64_t *ret)
{
    const CUDA_MEMCPY3D *c = &box->copy;
    uint64_t row, end;

    if (at->type != CU_MEMORYTYPE_DEVICE || at->pitch < box->width ||
        (c->Depth > 1 && at->height < c->Height))
        return false;
    return gp_mul_ok(at->z + c->Depth - 1, at->height, &row) &&
           gp_add_ok(row, at->y + c->Height - 1, &row) &&
           gp_mul_ok(row, at->pitch, &end) && gp_add_ok(end, at->x + box->width, ret);
}

static bool
box_place_inside(const struct stub_box *box, const struct box_place *at)
{
    uint64_t end;

    return box_place_end(box, at, &end) && stub_copy_inside(at->base, end);
}

bool
stub_box_source_inside(const struct stub_box *box)
{
    const struct box_place at = box_source(box);

    return box_place_inside(box, &at);
}

bool
stub_box_target_inside(const struct stub_box *box)
{
    const struct box_place at = box_target(box);

    return box_place_inside(box, &at);
}

/* A pitch or height of 0 is that of the copy itself. */
static bool
box_place_overruns(const struct stub_box *box, struct box_place at)
{
    uint64_t end;

    if (!at.pitch)
        at.pitch = at.x + box->width;
    if (!at.height)
        at.height = at.y + box->copy.Height;
    return box_place_end(box, &at, &end) && stub_memory_overruns(at.base, end);
}

bool
stub_box_overruns(const struct stub_box *box)
{
    return box->rows && box->width &&
           (box_place_overruns(box, box_source(box)) ||
            box_place_overruns(box, box_target(box)));
}

/* ---- the frame -------------------------------------------------------------- */

/* The frame's tail, behind the image of the description: the same for every call. */
struct box_tail {
    uint64_t stream;
    uint64_t pitch;
    uint64_t rows;
    uint64_t input_len;
};

static_assert(sizeof(struct wire_cuMemcpy3D_v2_req) ==
                  sizeof(CUDA_MEMCPY3D) + sizeof(struct box_tail),
              "image and tail");
static_assert(sizeof(struct wire_cuMemcpy2D_v2_req) ==
                  sizeof(CUDA_MEMCPY2D) + sizeof(struct box_tail),
              "image and tail");
static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D),
              "they differ in the meaning of reserved words only");

static bool
box_is_flat(const struct stub_box *box)
{
    return box->call == WIRE_CALL_cuMemcpy2D_v2 ||
           box->call == WIRE_CALL_cuMemcpy2DUnaligned_v2 ||
           box->call == WIRE_CALL_cuMemcpy2DAsync_v2;
}

CUresult
stub_box_begin(struct stub_call *c, const struct stub_box *box, uint64_t stream,
               uint64_t pitch, uint64_t input)
{
    struct box_tail tail = {stream, pitch, box->rows, input};
    const void *image = &box->copy;
    uint32_t size = sizeof(box->copy);
    CUDA_MEMCPY2D flat;
    CUresult r;

    if (box_is_flat(box)) {
        box_narrow(&flat, &box->copy);
        image = &flat;
        size = sizeof(flat);
    }
    r = stub_call_begin(c, box->call, size + (uint32_t)sizeof(tail));
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c->body, image, size);
    memcpy((char *)c->body + size, &tail, sizeof(tail));
    return CUDA_SUCCESS;
}
