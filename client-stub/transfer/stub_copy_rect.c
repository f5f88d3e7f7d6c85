/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rectangles and boxes: 2D, 3D and peer copies, and arrays of bytes.
 *
 * All shapes are converted to the 3D one.  Rows of host memory are sent packed: they
 * are gathered before sending and scattered after receiving, unless they are (nearly)
 * contiguous; then the whole span is sent as it is, and `pitch` is the distance of its
 * rows.  The worker sees `rows` rows of `pitch` bytes, the last one only as wide as the
 * copy, in place of the host side, whose offsets are applied already.
 */
#include "stub_copy_rect.h"

#include "stub_call.h"
#include "stub_copy_facts.h"
#include "stub_d2h_async.h"
#include "stub_graph_hostmem.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"
#include "stub_path_table.h"
#include "wire_api.h"

#include <string.h>

/* Sending a span wastes its gaps; gathering costs a copy of every byte. */
#define SPAN_WORTH(width, pitch) ((width) >= (pitch) - (pitch) / 4)

/* The host side of a copy; base NULL: it is not on the host. */
struct rect_host {
    char *base; /* of the first row */
    uint64_t pitch;
    uint64_t slice; /* from one z to the next */
};

struct rect {
    CUDA_MEMCPY3D copy; /* as it goes on the wire */
    struct rect_host src, dst;
    uint64_t rows;
    uint64_t width;
};

/* ---- understanding the description ------------------------------------------ */

/* A unified address says on which side it is. */
static void
rect_resolve_type(CUmemorytype *type, void *host_field, CUdeviceptr *device)
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

/* Offsets of the host side are applied here and vanish from the description. */
static bool
rect_host_open(struct rect_host *host, const void *base, size_t *x, size_t *y,
               size_t *z, size_t *pitch, size_t *height, const CUDA_MEMCPY3D *copy)
{
    size_t p = *pitch ? *pitch : copy->WidthInBytes;
    size_t h = *height ? *height : copy->Height;
    uint64_t offset, part;

    if (!base || (copy->Height > 1 && p < copy->WidthInBytes))
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

static CUresult
rect_open(struct rect *rect, const CUDA_MEMCPY3D *copy)
{
    CUDA_MEMCPY3D *c = &rect->copy;

    memset(rect, 0, sizeof(*rect));
    *c = *copy;
    rect_resolve_type(&c->srcMemoryType, &c->srcHost, &c->srcDevice);
    rect_resolve_type(&c->dstMemoryType, &c->dstHost, &c->dstDevice);
    rect->width = c->WidthInBytes;
    if (!gp_mul_ok(c->Height, c->Depth, &rect->rows))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->srcMemoryType == CU_MEMORYTYPE_HOST &&
        !rect_host_open(&rect->src, c->srcHost, &c->srcXInBytes, &c->srcY, &c->srcZ,
                        &c->srcPitch, &c->srcHeight, c))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->dstMemoryType == CU_MEMORYTYPE_HOST &&
        !rect_host_open(&rect->dst, c->dstHost, &c->dstXInBytes, &c->dstY, &c->dstZ,
                        &c->dstPitch, &c->dstHeight, c))
        return CUDA_ERROR_INVALID_VALUE;
    c->srcHost = NULL;
    c->dstHost = NULL;
    return CUDA_SUCCESS;
}

static char *
rect_row(const struct rect *rect, const struct rect_host *host, uint64_t i)
{
    uint64_t height = rect->copy.Height;

    return host->base + i / height * host->slice + i % height * host->pitch;
}

/* From the first byte to the last; there is at least one row. */
static uint64_t
rect_extent(const struct rect *rect, const struct rect_host *host)
{
    return (uint64_t)(rect_row(rect, host, rect->rows - 1) - host->base) + rect->width;
}

/* Do the rows follow each other at one distance? */
static bool
rect_is_span(const struct rect *rect, const struct rect_host *host)
{
    return rect->copy.Depth <= 1 ||
           host->slice == host->pitch * (uint64_t)rect->copy.Height;
}

/* ---- sending ---------------------------------------------------------------- */

/* The frame's tail, behind the image of the description: the same for every shape. */
struct rect_tail {
    uint64_t stream;
    uint64_t pitch;
    uint64_t rows;
    uint64_t input_len;
};

static_assert(sizeof(struct wire_cuMemcpy3D_v2_req) ==
                  sizeof(CUDA_MEMCPY3D) + sizeof(struct rect_tail),
              "image and tail");
static_assert(sizeof(struct wire_cuMemcpy2D_v2_req) ==
                  sizeof(CUDA_MEMCPY2D) + sizeof(struct rect_tail),
              "image and tail");
static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D),
              "they differ in the meaning of reserved words only");

/* What the application called: its number and its description, host side stripped. */
struct rect_call {
    uint16_t number;
    const void *image;
    uint32_t image_size;
    uint64_t stream;
};

static bool
rect_blocks(uint16_t number)
{
    return number == WIRE_CALL_cuMemcpy2D_v2 ||
           number == WIRE_CALL_cuMemcpy2DUnaligned_v2 ||
           number == WIRE_CALL_cuMemcpy3D_v2 || number == WIRE_CALL_cuMemcpy3DPeer;
}

static CUresult
rect_begin(struct stub_call *c, const struct rect_call *call,
           const struct rect_tail *tail)
{
    uint32_t size = call->image_size + (uint32_t)sizeof(*tail);
    CUresult r = stub_call_begin(c, call->number, size);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c->body, call->image, call->image_size);
    memcpy((char *)c->body + call->image_size, tail, sizeof(*tail));
    return CUDA_SUCCESS;
}

static CUresult
rect_send(const struct rect *rect, const struct rect_call *call, const void *data,
          uint64_t pitch)
{
    struct rect_tail tail = {
        .stream = call->stream,
        .pitch = pitch,
        .rows = rect->rows,
        .input_len = data ? (rect->rows - 1) * pitch + rect->width : 0,
    };
    struct stub_call c;
    CUresult r = rect_begin(&c, call, &tail);

    if (r != CUDA_SUCCESS)
        return r;
    if (!data)
        return stub_call_post(&c);
    if (!rect_blocks(call->number) || !stub_copy_wants_reply(tail.input_len))
        return stub_call_post_bulk(&c, data, tail.input_len);
    r = stub_call_wait_bulk(&c, data, tail.input_len);
    stub_call_end(&c);
    return r;
}

static CUresult
rect_from_host(const struct rect *rect, const struct rect_call *call)
{
    CLEANUP_FREE char *packed = NULL;
    uint64_t total;

    stub_d2h_async_wait(rect->src.base, rect_extent(rect, &rect->src));
    if (rect_is_span(rect, &rect->src) && SPAN_WORTH(rect->width, rect->src.pitch))
        return rect_send(rect, call, rect->src.base, rect->src.pitch);
    if (!gp_mul_ok(rect->rows, rect->width, &total))
        return CUDA_ERROR_INVALID_VALUE;
    packed = malloc(total);
    if (!packed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < rect->rows; i++)
        memcpy(packed + i * rect->width, rect_row(rect, &rect->src, i), rect->width);
    return rect_send(rect, call, packed, rect->width);
}

/* ---- receiving -------------------------------------------------------------- */

static CUresult
rect_receive(const struct rect *rect, const struct rect_call *call, char *to,
             uint64_t total)
{
    struct rect_tail tail = {
        .stream = call->stream, .pitch = rect->width, .rows = rect->rows};
    struct wire_cuMemcpy3D_v2_rep_view rep = {0};
    struct stub_call c;
    CUresult r = rect_begin(&c, call, &tail);

    if (r != CUDA_SUCCESS)
        return r;
    r = stub_call_wait_into(&c, to, total, sizeof(struct wire_cuMemcpy3D_v2_rep));
    if (r == CUDA_SUCCESS &&
        (!wire_cuMemcpy3D_v2_rep_open(&rep, c.reply, c.reply_size,
                                      c.reply_flags & WIRE_F_BULK) ||
         rep.f->output_len != total))
        r = stub_call_bad(call->number);
    else if (r == CUDA_SUCCESS && rep.output)
        memcpy(to, rep.output, total);
    stub_call_end(&c);
    return r;
}

static CUresult
rect_to_host(const struct rect *rect, const struct rect_call *call)
{
    CLEANUP_FREE char *packed = NULL;
    uint64_t total;
    CUresult r;

    if (!gp_mul_ok(rect->rows, rect->width, &total))
        return CUDA_ERROR_INVALID_VALUE;
    if (rect_is_span(rect, &rect->dst) && rect->dst.pitch == rect->width)
        return rect_receive(rect, call, rect->dst.base, total);
    packed = malloc(total);
    if (!packed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = rect_receive(rect, call, packed, total);
    for (uint64_t i = 0; r == CUDA_SUCCESS && i < rect->rows; i++)
        memcpy(rect_row(rect, &rect->dst, i), packed + i * rect->width, rect->width);
    return r;
}

/* ---- device to host, nobody waits ------------------------------------------- */

static void
rect_narrow(CUDA_MEMCPY2D *to, const CUDA_MEMCPY3D *from)
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

/* True if the source is inside one known allocation.  Then only a fatal error of the
 * context can keep the bytes from coming. */
static bool
rect_source_inside(const struct rect *rect)
{
    const CUDA_MEMCPY3D *c = &rect->copy;
    uint64_t row, end;

    if (c->srcMemoryType != CU_MEMORYTYPE_DEVICE || c->srcPitch < rect->width ||
        (c->Depth > 1 && c->srcHeight < c->Height))
        return false;
    return gp_mul_ok(c->srcZ + c->Depth - 1, c->srcHeight, &row) &&
           gp_add_ok(row, c->srcY + c->Height - 1, &row) &&
           gp_mul_ok(row, c->srcPitch, &end) &&
           gp_add_ok(end, c->srcXInBytes + rect->width, &end) &&
           stub_copy_inside(c->srcDevice, end);
}

static bool
rect_may_be_async(const struct rect *rect, const struct rect_call *call)
{
    return !rect_blocks(call->number) && rect_source_inside(rect) &&
           (call->stream == 0 || stub_handle_ok(WIRE_KIND_STREAM, call->stream)) &&
           stub_d2h_async_possible(stub_link_here(), rect->dst.base,
                                   rect_extent(rect, &rect->dst));
}

/* A part of one layer, @part->copy, that goes to @place as a copy of its own. */
static CUresult
rect_d2h_async_part(const struct rect *part, const struct rect_call *whole,
                    const struct stub_d2h_place *place)
{
    struct rect_tail tail = {
        .stream = whole->stream, .pitch = part->width, .rows = part->rows};
    struct rect_call call = *whole;
    struct stub_d2h_async *async = stub_d2h_async_claim(stub_link_here(), place);
    CUDA_MEMCPY2D flat;
    struct stub_call c;
    CUresult r;

    if (!async)
        return stub_link_refusal(stub_link_here());
    call.image = &part->copy;
    if (call.image_size == sizeof(flat)) {
        rect_narrow(&flat, &part->copy);
        call.image = &flat;
    }
    r = rect_begin(&c, &call, &tail);
    if (r != CUDA_SUCCESS) {
        stub_d2h_async_drop(async);
        return r;
    }
    return stub_d2h_async_post(&c, async);
}

/* As many rows at a time as fit, or a part of a row that alone does not. */
static CUresult
rect_d2h_async(const struct rect *rect, const struct rect_call *call)
{
    uint64_t width = gp_min(rect->width, (uint64_t)WIRE_D2H_LARGE);
    uint64_t most = width < rect->width ? 1 : WIRE_D2H_LARGE / width;
    uint64_t height = rect->copy.Height;
    CUresult r = CUDA_SUCCESS;

    for (uint64_t row = 0, x = 0; row < rect->rows && r == CUDA_SUCCESS;) {
        struct rect part = *rect;
        uint64_t n = gp_min(most, height - row % height);

        part.rows = n;
        part.width = gp_min(width, rect->width - x);
        part.copy.srcXInBytes += x;
        part.copy.srcY += row % height;
        part.copy.srcZ += row / height;
        part.copy.WidthInBytes = part.width;
        part.copy.Height = n;
        part.copy.Depth = 1;
        r = rect_d2h_async_part(
            &part, call,
            &(struct stub_d2h_place){(uint8_t *)rect_row(rect, &rect->dst, row) + x,
                                     part.width, rect->dst.pitch, n});
        x += part.width;
        if (x == rect->width) {
            x = 0;
            row += n;
        }
    }
    return r;
}

/* ---- which way -------------------------------------------------------------- */

static enum stub_direction
rect_direction(const struct rect *rect)
{
    return rect->src.base   ? rect->dst.base ? STUB_H2H : STUB_H2D
           : rect->dst.base ? STUB_D2H
                            : STUB_D2D;
}

static void
rect_on_host(const struct rect *rect)
{
    stub_d2h_async_wait(rect->src.base, rect_extent(rect, &rect->src));
    stub_d2h_async_wait(rect->dst.base, rect_extent(rect, &rect->dst));
    for (uint64_t i = 0; i < rect->rows; i++)
        memmove(rect_row(rect, &rect->dst, i), rect_row(rect, &rect->src, i),
                rect->width);
}

/* Rectangles have only these paths: they never travel in a frame, and page-locked
 * memory that the worker has mapped is not used for them. */
static CUresult
rect_move(const struct rect *rect, const struct rect_call *call)
{
    enum stub_direction direction = rect_direction(rect);
    const struct stub_path_row *row;
    uint32_t facts = rect_blocks(call->number) ? STUB_COPY_BLOCKING : 0;

    if (rect->rows == 0 || rect->width == 0)
        return CUDA_SUCCESS;
    if (direction == STUB_D2H && rect_may_be_async(rect, call))
        facts |= STUB_COPY_KNOWN | STUB_COPY_UNAWAITED;
    row = stub_path_choose(direction, facts, rect->rows * rect->width);
    switch (row->path) {
    case STUB_PATH_HOST_COPY:
        rect_on_host(rect);
        return CUDA_SUCCESS;
    case STUB_PATH_D2H_ASYNC:
        return rect_d2h_async(rect, call);
    case STUB_PATH_PAYLOAD:
        return direction == STUB_H2D ? rect_from_host(rect, call)
                                     : rect_to_host(rect, call);
    default:
        return rect_send(rect, call, NULL, 0);
    }
}

/* With memory that host and device share, the host's side must be up to date before
 * the copy, and after a blocking copy the host sees its result. */
static CUresult
rect_run(const struct rect *rect, const struct rect_call *call)
{
    CUresult r = CUDA_SUCCESS;

    if (rect->src.base && stub_managed_pending())
        r = stub_managed_sync();
    if (r == CUDA_SUCCESS)
        r = rect_move(rect, call);
    if (r == CUDA_SUCCESS && rect_blocks(call->number))
        r = stub_managed_sync();
    return r;
}

/* ---- the shapes ------------------------------------------------------------- */

static CUresult
rect_3d(uint16_t number, const CUDA_MEMCPY3D *copy, CUstream stream, bool per_thread)
{
    struct rect rect;
    struct rect_call call = {number, &rect.copy, sizeof(rect.copy), 0};
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(stream, per_thread, &call.stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    r = rect_open(&rect, copy);
    if (r != CUDA_SUCCESS)
        return r;
    return rect_run(&rect, &call);
}

/* The 2D description as a box of depth one, and back with the host side stripped. */
void
stub_rect_widen(CUDA_MEMCPY3D *to, const CUDA_MEMCPY2D *from)
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

static CUresult
rect_2d(uint16_t number, const CUDA_MEMCPY2D *copy, CUstream stream, bool per_thread)
{
    struct rect rect;
    CUDA_MEMCPY2D flat;
    CUDA_MEMCPY3D wide;
    struct rect_call call = {number, &flat, sizeof(flat), 0};
    CUresult r = stub_enter();

    if (r == CUDA_SUCCESS)
        r = stub_stream_get(stream, per_thread, &call.stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    stub_rect_widen(&wide, copy);
    r = rect_open(&rect, &wide);
    if (r != CUDA_SUCCESS)
        return r;
    rect_narrow(&flat, &rect.copy);
    return rect_run(&rect, &call);
}

/* ---- the calls -------------------------------------------------------------- */

CUresult
stub_impl_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy, bool per_thread)
{
    return rect_2d(WIRE_CALL_cuMemcpy2D_v2, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy, bool per_thread)
{
    return rect_2d(WIRE_CALL_cuMemcpy2DUnaligned_v2, pCopy, NULL, per_thread);
}

/* What is captured becomes a node; false: it is not. */
static bool
rect_captured(const CUDA_MEMCPY3D *copy, CUstream stream, bool per_thread, CUresult *r)
{
    if (!copy || likely(!atomic_load_explicit(&stub_captures, memory_order_relaxed)) ||
        !stub_graph_hostmem_captures(stream, per_thread, copy, r))
        return false;
    if (*r == CUDA_SUCCESS)
        *r = stub_graph_hostmem_capture(stream, per_thread, copy);
    return true;
}

CUresult
stub_impl_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream,
                             bool per_thread)
{
    CUDA_MEMCPY3D wide;
    CUresult r;

    if (pCopy)
        stub_rect_widen(&wide, pCopy);
    if (rect_captured(pCopy ? &wide : NULL, hStream, per_thread, &r))
        return r;
    return rect_2d(WIRE_CALL_cuMemcpy2DAsync_v2, pCopy, hStream, per_thread);
}

CUresult
stub_impl_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy, bool per_thread)
{
    return rect_3d(WIRE_CALL_cuMemcpy3D_v2, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream,
                             bool per_thread)
{
    CUresult r;

    if (rect_captured(pCopy, hStream, per_thread, &r))
        return r;
    return rect_3d(WIRE_CALL_cuMemcpy3DAsync_v2, pCopy, hStream, per_thread);
}

/* Both memories say in which context they are. */
static CUresult
rect_peer(uint16_t number, const CUDA_MEMCPY3D_PEER *copy, CUstream stream,
          bool per_thread)
{
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stub_handle_ok(WIRE_KIND_CTX, (uintptr_t)copy->srcContext) ||
        !stub_handle_ok(WIRE_KIND_CTX, (uintptr_t)copy->dstContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    return rect_3d(number, (const CUDA_MEMCPY3D *)copy, stream, per_thread);
}

CUresult
stub_impl_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy, bool per_thread)
{
    return rect_peer(WIRE_CALL_cuMemcpy3DPeer, pCopy, NULL, per_thread);
}

CUresult
stub_impl_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream,
                              bool per_thread)
{
    return rect_peer(WIRE_CALL_cuMemcpy3DPeerAsync, pCopy, hStream, per_thread);
}
