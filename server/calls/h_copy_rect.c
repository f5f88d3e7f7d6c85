/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in two and three dimensions.
 *
 * The payload is `rows` rows that are `pitch` bytes apart, the last one only as wide as
 * the copy, whatever the layout in the client's memory was.  A chunk of this stream of
 * rows becomes one or a few rectangular copies between a staging buffer and the GPU.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_box.h"
#include "wrk_capture.h"
#include "wrk_governor.h"
#include "wrk_hostfn_due.h"
#include "wrk_transfer.h"

#include <string.h>

enum rect_shape {
    RECT_2D,
    RECT_2D_UNALIGNED,
    RECT_3D,
    RECT_PEER,
    RECT_PEER_ALL, /* in order with all work of the contexts */
};

/* A copy as the client described it; all shapes in the widest form. */
struct rect {
    CUDA_MEMCPY3D_PEER copy;
    enum rect_shape shape;
    uint64_t pitch; /* of the client's rows as they travel */
    uint64_t rows;
    uint64_t card_pitch, card_slice; /* of linear memory on the card; 0: an array */
};

static void
rect_from_2d(struct rect *rect, const CUDA_MEMCPY2D *c, enum rect_shape shape)
{
    memset(rect, 0, sizeof(*rect));
    rect->shape = shape;
    rect->copy.srcXInBytes = c->srcXInBytes;
    rect->copy.srcY = c->srcY;
    rect->copy.srcMemoryType = c->srcMemoryType;
    rect->copy.srcDevice = c->srcDevice;
    rect->copy.srcArray = c->srcArray;
    rect->copy.srcPitch = c->srcPitch;
    rect->copy.dstXInBytes = c->dstXInBytes;
    rect->copy.dstY = c->dstY;
    rect->copy.dstMemoryType = c->dstMemoryType;
    rect->copy.dstDevice = c->dstDevice;
    rect->copy.dstArray = c->dstArray;
    rect->copy.dstPitch = c->dstPitch;
    rect->copy.WidthInBytes = c->WidthInBytes;
    rect->copy.Height = c->Height;
    rect->copy.Depth = 1;
}

static void
rect_to_2d(CUDA_MEMCPY2D *c, const CUDA_MEMCPY3D_PEER *p)
{
    memset(c, 0, sizeof(*c));
    c->srcXInBytes = p->srcXInBytes;
    c->srcY = p->srcY;
    c->srcMemoryType = p->srcMemoryType;
    c->srcHost = p->srcHost;
    c->srcDevice = p->srcDevice;
    c->srcArray = p->srcArray;
    c->srcPitch = p->srcPitch;
    c->dstXInBytes = p->dstXInBytes;
    c->dstY = p->dstY;
    c->dstMemoryType = p->dstMemoryType;
    c->dstHost = p->dstHost;
    c->dstDevice = p->dstDevice;
    c->dstArray = p->dstArray;
    c->dstPitch = p->dstPitch;
    c->WidthInBytes = p->WidthInBytes;
    c->Height = p->Height;
}

/* The plain and the peer description differ in two words only. */
static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER), "one layout");

static CUresult
rect_issue(struct wrk *w, enum rect_shape shape, const CUDA_MEMCPY3D_PEER *p,
           CUstream stream)
{
    CUDA_MEMCPY2D flat;
    CUDA_MEMCPY3D box;

    switch (shape) {
    case RECT_2D:
        rect_to_2d(&flat, p);
        return WRK_CALL(w, cuMemcpy2DAsync_v2, &flat, stream);
    case RECT_2D_UNALIGNED:
        rect_to_2d(&flat, p);
        /* Only this form takes any pitch between two places on the card. */
        return stream ? WRK_CALL(w, cuMemcpy2DAsync_v2, &flat, stream)
                      : WRK_CALL(w, cuMemcpy2DUnaligned_v2, &flat);
    case RECT_3D:
        memcpy(&box, p, sizeof(box));
        box.reserved0 = NULL;
        box.reserved1 = NULL;
        return WRK_CALL(w, cuMemcpy3DAsync_v2, &box, stream);
    case RECT_PEER:
        return WRK_CALL(w, cuMemcpy3DPeerAsync, p, stream);
    case RECT_PEER_ALL: /* but not behind host functions: wrk_drv_shims.c says why */
        return wrk_hostfn_due(w) ? WRK_CALL(w, cuMemcpy3DPeerAsync, p, stream)
                                 : WRK_CALL(w, cuMemcpy3DPeer, p);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* Pieces go in stream order, whatever the whole does. */
static enum rect_shape
shape_of_piece(enum rect_shape shape)
{
    return shape == RECT_2D_UNALIGNED ? RECT_2D
           : shape == RECT_PEER_ALL   ? RECT_PEER
                                      : shape;
}

/* One rectangle: @n rows from row @row on, @width bytes from @x on; @host is its
 * address in the staging buffer. */
static CUresult
rect_piece(struct wrk *w, const struct rect *rect, CUstream stream, void *host,
           uint64_t row, uint64_t n, uint64_t x, uint64_t width)
{
    CUDA_MEMCPY3D_PEER p = rect->copy;
    uint64_t y = row % p.Height;
    uint64_t z = row / p.Height;
    uint64_t at = 0;

    if (rect->card_pitch) {
        at = z * rect->card_slice + y * rect->card_pitch + x;
        x = y = z = 0;
    }
    if (p.srcMemoryType == CU_MEMORYTYPE_HOST) {
        p.srcHost = host;
        p.srcPitch = rect->pitch;
        p.srcHeight = n;
        p.dstDevice += at;
        p.dstXInBytes += x;
        p.dstY += y;
        p.dstZ += z;
        p.dstPitch = n > 1 ? rect->card_pitch : 0;
    } else {
        p.dstHost = host;
        p.dstPitch = rect->pitch;
        p.dstHeight = n;
        p.srcDevice += at;
        p.srcXInBytes += x;
        p.srcY += y;
        p.srcZ += z;
        p.srcPitch = n > 1 ? rect->card_pitch : 0;
    }
    p.WidthInBytes = width;
    p.Height = n;
    p.Depth = 1;
    return rect_issue(w, shape_of_piece(rect->shape), &p, stream);
}

/* How many whole rows begin at @row within @len bytes, up to the end of its layer;
 * the very last row has no gap behind it. */
static uint64_t
whole_rows(const struct rect *rect, uint64_t row, uint64_t len)
{
    uint64_t n = len / rect->pitch;

    if (row + n + 1 == rect->rows && len - n * rect->pitch >= rect->copy.WidthInBytes)
        n++;
    return gp_min(n, rect->copy.Height - row % rect->copy.Height);
}

/* A piece of the stream of rows; rows wider than a slot come in parts. */
static CUresult
rect_start(struct wrk *w, const struct wrk_copy *copy, void *slot, uint64_t offset,
           uint64_t len)
{
    const struct rect *rect = copy->arg;
    uint64_t width = rect->copy.WidthInBytes;
    uint8_t *host = slot;
    CUresult r = CUDA_SUCCESS;

    while (len && r == CUDA_SUCCESS) {
        uint64_t row = offset / rect->pitch;
        uint64_t x = offset % rect->pitch;
        uint64_t n = x ? 0 : whole_rows(rect, row, len);
        uint64_t done;

        if (n) {
            r = rect_piece(w, rect, copy->stream, host, row, n, 0, width);
            done = gp_min(n * rect->pitch, len);
        } else {
            done = gp_min(len, rect->pitch - x);
            if (x < width)
                r = rect_piece(w, rect, copy->stream, host, row, 1, x,
                               gp_min(done, width - x));
        }
        offset += done;
        host += done;
        len -= done;
    }
    return r;
}

/* What the parts of a row that is too wide for a piece are multiples of: elements,
 * where it is an array's.  The client sees to it that the distance of the rows is a
 * multiple of them (stub_path_payload.c). */
static uint64_t
rect_part(const struct rect *rect)
{
    if (rect->copy.srcMemoryType != CU_MEMORYTYPE_ARRAY &&
        rect->copy.dstMemoryType != CU_MEMORYTYPE_ARRAY)
        return 0;
    return gp_min(rect->pitch & -rect->pitch, (uint64_t)WRK_COPY_ELEMENT_MAX);
}

/* The stream of rows of the description; false when the frame's pitch and row count do
 * not match it. */
static bool
rect_stream(const struct rect *rect, struct wrk_copy *copy)
{
    uint64_t rows, span;
    uint64_t width = rect->copy.WidthInBytes;

    if (!gp_mul_ok((uint64_t)rect->copy.Height, (uint64_t)rect->copy.Depth, &rows) ||
        rows == 0 || width == 0 || rows != rect->rows || rect->pitch < width)
        return false;
    if (!gp_mul_ok(rows - 1, rect->pitch, &span) ||
        !gp_add_ok(span, width, &copy->len) || copy->len > WIRE_BULK_MAX)
        return false;
    copy->grain = rect->pitch <= WRK_STAGING_SIZE / 4 ? rect->pitch : rect_part(rect);
    return true;
}

static CUresult
rect_on_card(struct wrk *w, const struct rect *rect, CUstream stream)
{
    const CUDA_MEMCPY3D_PEER *p = &rect->copy;
    struct wrk_charge charge;
    CUresult r;

    wrk_governor_acquire_copy(w, &charge, stream,
                              p->WidthInBytes * p->Height * p->Depth);
    r = rect_issue(w, rect->shape, p, stream);
    wrk_governor_launched(w, &charge);
    return r;
}

/* How far a byte is from the beginning of memory with rows and layers. */
static bool
rect_offset(uint64_t pitch, uint64_t rows, uint64_t z, uint64_t y, uint64_t x,
            uint64_t *ret)
{
    return gp_mul_ok(z, rows, ret) && gp_add_ok(*ret, y, ret) &&
           gp_mul_ok(*ret, pitch, ret) && gp_add_ok(*ret, x, ret);
}

/* Linear memory on the card begins at the first byte of the copy from here on.  A pitch
 * or height that is not given is that of the whole copy, which a driver cannot know of
 * a piece.  False: there is no such place. */
static bool
rect_locate(struct rect *rect, CUdeviceptr *device, size_t *x, size_t *y, size_t *z,
            size_t *pitch, size_t *height)
{
    const CUDA_MEMCPY3D_PEER *p = &rect->copy;
    uint64_t row = *pitch, rows = *height, offset;

    if (!*device || (!row && !gp_add_ok(*x, p->WidthInBytes, &row)) ||
        (!rows && !gp_add_ok(*y, p->Height, &rows)) ||
        !gp_mul_ok(row, rows, &rect->card_slice) ||
        !rect_offset(row, rows, *z, *y, *x, &offset) ||
        !gp_add_ok(*device, offset, device))
        return false;
    rect->card_pitch = row;
    *x = *y = *z = *height = 0;
    return true;
}

static bool
rect_locate_card(struct rect *rect, bool up)
{
    CUDA_MEMCPY3D_PEER *p = &rect->copy;

    if ((up ? p->dstMemoryType : p->srcMemoryType) != CU_MEMORYTYPE_DEVICE)
        return true;
    return up ? rect_locate(rect, &p->dstDevice, &p->dstXInBytes, &p->dstY, &p->dstZ,
                            &p->dstPitch, &p->dstHeight)
              : rect_locate(rect, &p->srcDevice, &p->srcXInBytes, &p->srcY, &p->srcZ,
                            &p->srcPitch, &p->srcHeight);
}

/* The card's side, from its first byte to its last. */
static CUresult
rect_check(struct wrk *w, const struct rect *rect, bool up, uint64_t len)
{
    const CUDA_MEMCPY3D_PEER *p = &rect->copy;
    uint64_t slices, span;

    if (len <= WRK_COPY_ONE_PIECE || !rect->card_pitch)
        return CUDA_SUCCESS;
    if (!gp_mul_ok(p->Depth - 1, rect->card_slice, &slices) ||
        !rect_offset(rect->card_pitch, 1, 0, p->Height - 1, p->WidthInBytes, &span) ||
        !gp_add_ok(slices, span, &span))
        return CUDA_ERROR_INVALID_VALUE;
    return wrk_copy_check_range(w, up ? p->dstDevice : p->srcDevice, span);
}

static CUresult
rect_run(struct wrk *w, struct wrk_reply *rep, struct rect *rect, CUstream stream,
         const uint8_t *inside)
{
    struct wrk_copy copy = {.start = rect_start, .stream = stream, .arg = rect};
    bool up = rect->copy.srcMemoryType == CU_MEMORYTYPE_HOST;
    bool down = rect->copy.dstMemoryType == CU_MEMORYTYPE_HOST;
    CUresult r;

    /* The client has resolved unified addresses, because it knows its own memory; here
     * such an address could only be memory of this process. */
    if ((up && down) || rect->copy.srcMemoryType == CU_MEMORYTYPE_UNIFIED ||
        rect->copy.dstMemoryType == CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    wrk_box_clear_peer(&rect->copy);
    if (!up && !down)
        return rect_on_card(w, rect, stream);
    if (!rect_stream(rect, &copy) || !rect_locate_card(rect, up))
        return CUDA_ERROR_INVALID_VALUE;
    r = wrk_capture_refuses(w, stream);
    if (r == CUDA_SUCCESS && !(rep->req->flags & WIRE_F_D2H_ASYNC))
        r = rect_check(w, rect, up, copy.len);
    if (r != CUDA_SUCCESS)
        return r;
    if (down)
        return wrk_transfer_d2h(w, rep, &copy, sizeof(*rect));
    return wrk_transfer_h2d(w, rep, &copy, inside);
}

static CUresult
run_2d(struct wrk *w, struct wrk_reply *rep, const CUDA_MEMCPY2D *c,
       enum rect_shape shape, CUstream stream, uint64_t pitch, uint64_t rows,
       const uint8_t *inside)
{
    struct rect rect;

    rect_from_2d(&rect, c, shape);
    rect.pitch = pitch;
    rect.rows = rows;
    return rect_run(w, rep, &rect, stream, inside);
}

static CUresult
run_3d(struct wrk *w, struct wrk_reply *rep, const void *c, enum rect_shape shape,
       CUstream stream, uint64_t pitch, uint64_t rows, const uint8_t *inside)
{
    struct rect rect;

    memset(&rect, 0, sizeof(rect));
    memcpy(&rect.copy, c, sizeof(rect.copy));
    rect.shape = shape;
    rect.pitch = pitch;
    rect.rows = rows;
    return rect_run(w, rep, &rect, stream, inside);
}

CUresult
h_cuMemcpy2D_v2(struct wrk *w, const struct wire_args_cuMemcpy2D_v2 *a,
                struct wrk_reply *rep)
{
    return run_2d(w, rep, a->pCopy, RECT_2D, a->hStream, a->pitch, a->rows, a->input);
}

CUresult
h_cuMemcpy2DAsync_v2(struct wrk *w, const struct wire_args_cuMemcpy2DAsync_v2 *a,
                     struct wrk_reply *rep)
{
    return run_2d(w, rep, a->pCopy, RECT_2D, a->hStream, a->pitch, a->rows, a->input);
}

CUresult
h_cuMemcpy2DUnaligned_v2(struct wrk *w,
                         const struct wire_args_cuMemcpy2DUnaligned_v2 *a,
                         struct wrk_reply *rep)
{
    return run_2d(w, rep, a->pCopy, RECT_2D_UNALIGNED, a->hStream, a->pitch, a->rows,
                  a->input);
}

CUresult
h_cuMemcpy3D_v2(struct wrk *w, const struct wire_args_cuMemcpy3D_v2 *a,
                struct wrk_reply *rep)
{
    return run_3d(w, rep, a->pCopy, RECT_3D, a->hStream, a->pitch, a->rows, a->input);
}

CUresult
h_cuMemcpy3DAsync_v2(struct wrk *w, const struct wire_args_cuMemcpy3DAsync_v2 *a,
                     struct wrk_reply *rep)
{
    return run_3d(w, rep, a->pCopy, RECT_3D, a->hStream, a->pitch, a->rows, a->input);
}

CUresult
h_cuMemcpy3DPeer(struct wrk *w, const struct wire_args_cuMemcpy3DPeer *a,
                 struct wrk_reply *rep)
{
    return run_3d(w, rep, a->pCopy, a->hStream ? RECT_PEER : RECT_PEER_ALL, a->hStream,
                  a->pitch, a->rows, a->input);
}

CUresult
h_cuMemcpy3DPeerAsync(struct wrk *w, const struct wire_args_cuMemcpy3DPeerAsync *a,
                      struct wrk_reply *rep)
{
    return run_3d(w, rep, a->pCopy, RECT_PEER, a->hStream, a->pitch, a->rows, a->input);
}
