/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path d2h_async: to page-locked memory; the call returns, and the bytes come when the
 * stream gets there (stub_d2h_async.h).
 */
#include "stub_box.h"
#include "stub_call.h"
#include "stub_d2h_async.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_path.h"
#include "wire_api.h"

static CUresult
d2h_async_part(struct stub_copy *copy, uint64_t at, uint64_t len)
{
    struct stub_d2h_place place = {(uint8_t *)stub_copy_host_side(copy) + at, len, len,
                                   1};
    struct stub_d2h_async *async = stub_d2h_async_claim(stub_link_here(), &place);
    struct stub_call c;
    CUresult r;

    if (!async)
        return stub_link_refusal(stub_link_here());
    r = stub_call_begin(&c, WIRE_CALL_cuMemcpyDtoHAsync_v2,
                        sizeof(struct wire_cuMemcpyDtoHAsync_v2_req));
    if (r != CUDA_SUCCESS) {
        stub_d2h_async_drop(async);
        return r;
    }
    *(struct wire_cuMemcpyDtoHAsync_v2_req *)c.body =
        (struct wire_cuMemcpyDtoHAsync_v2_req){
            .srcDevice = copy->src + at, .hStream = copy->stream_id, .ByteCount = len};
    return stub_d2h_async_post(&c, async);
}

CUresult
stub_path_d2h_async(struct stub_copy *copy)
{
    CUresult r = CUDA_SUCCESS;

    if (stub_managed_touches(copy->src, copy->n))
        stub_managed_work(copy->stream_id);
    for (uint64_t at = 0; at < copy->n && r == CUDA_SUCCESS; at += WIRE_D2H_LARGE)
        r = d2h_async_part(copy, at, gp_min(copy->n - at, (uint64_t)WIRE_D2H_LARGE));
    return r;
}

/* ---- boxes ------------------------------------------------------------------ */

/* A part of one layer, which goes to @place as a copy of its own. */
static CUresult
d2h_async_box_part(const struct stub_box *part, uint64_t stream,
                   const struct stub_d2h_place *place)
{
    struct stub_d2h_async *async = stub_d2h_async_claim(stub_link_here(), place);
    struct stub_call c;
    CUresult r;

    if (!async)
        return stub_link_refusal(stub_link_here());
    r = stub_box_begin(&c, part, stream, part->width, 0);
    if (r != CUDA_SUCCESS) {
        stub_d2h_async_drop(async);
        return r;
    }
    return stub_d2h_async_post(&c, async);
}

/* As many rows at a time as fit, or a part of a row that alone does not. */
CUresult
stub_path_d2h_async_box(struct stub_copy *copy)
{
    const struct stub_box *box = copy->box;
    uint64_t width = gp_min(box->width, (uint64_t)WIRE_D2H_LARGE);
    uint64_t most = width < box->width ? 1 : WIRE_D2H_LARGE / width;
    uint64_t height = box->copy.Height;
    CUresult r = CUDA_SUCCESS;

    for (uint64_t row = 0, x = 0; row < box->rows && r == CUDA_SUCCESS;) {
        struct stub_box part = *box;
        uint64_t n = gp_min(most, height - row % height);

        part.rows = n;
        part.width = gp_min(width, box->width - x);
        part.copy.srcXInBytes += x;
        part.copy.srcY += row % height;
        part.copy.srcZ += row / height;
        part.copy.WidthInBytes = part.width;
        part.copy.Height = n;
        part.copy.Depth = 1;
        r = d2h_async_box_part(
            &part, copy->stream_id,
            &(struct stub_d2h_place){(uint8_t *)stub_box_row(box, &box->dst, row) + x,
                                     part.width, box->dst.pitch, n});
        x += part.width;
        if (x == box->width) {
            x = 0;
            row += n;
        }
    }
    return r;
}
