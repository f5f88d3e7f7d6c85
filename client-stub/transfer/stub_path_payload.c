/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path payload: the bytes follow the frame, or the reply, over the connection.
 *
 * Host to device: they go from the caller's buffer to the connection without a copy, so
 * the buffer may be reused when the call returns.  Device to host: the calling thread
 * waits, and they come straight into the caller's buffer.  How the worker moves them
 * from there, or to there, is its choice: staging, ring or registered_window.
 */
#include "gp_copy.h"
#include "stub_box.h"
#include "stub_call.h"
#include "stub_copy_facts.h"
#include "stub_d2h_async.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_path_h2d.h"
#include "stub_pieces.h"
#include "stub_received.h"
#include "stub_stream.h"
#include "wire_api.h"
#include "xport.h"

#include <string.h>

static_assert(sizeof(struct wire_cuMemcpyDtoH_v2_req) ==
                  sizeof(struct wire_cuMemcpyDtoHAsync_v2_req),
              "one writer for both");
static_assert(sizeof(struct wire_cuMemcpyAtoH_v2_req) ==
                  sizeof(struct wire_cuMemcpyAtoHAsync_v2_req),
              "one writer for both");

/* ---- host to device --------------------------------------------------------- */

/* Where the payload is waited for, or the program is about to wait for the stream, and
 * nothing but such copies is before it there, it is answered when it is complete.  Then
 * the program's own wait costs nothing. */
static bool
h2d_is_completed(const struct stub_copy *copy)
{
    const struct stub_link *link = stub_link_here();

    return link->uploads_complete && stub_stream_has_only_uploads(copy->stream_id) &&
           (stub_stream_waits_behind_uploads() ||
            xport_bulk_waits(link->conn, copy->n));
}

/* An address outside of all memory that we know is the driver's to judge, and its
 * result is waited for: programs expect it from this very call. */
static CUresult
payload_h2d(struct stub_copy *copy)
{
    const void *from = stub_copy_host_side(copy);
    bool completed = h2d_is_completed(copy);
    bool wait = completed || stub_copy_wants_reply(copy, copy->n);
    struct stub_call c;
    CUresult r = stub_path_begin_h2d(copy, copy->blocking || completed, &c, 0);
    uint32_t seq;

    if (r != CUDA_SUCCESS)
        return r;
    seq = stub_call_seq(&c);
    stub_stream_note_upload(seq);
    if (copy->facts & STUB_COPY_KNOWN && !wait) {
        r = stub_call_post_bulk(&c, from, copy->n);
        if (copy->blocking)
            stub_stream_note_only_uploads(seq, copy->stream_id);
        return stub_path_end_h2d(copy, r);
    }
    r = stub_call_wait_bulk(&c, from, copy->n);
    if (r == CUDA_SUCCESS && (copy->blocking || completed) && c.link->uploads_complete)
        stub_stream_idle(&c, copy->stream_id);
    stub_call_end(&c);
    return stub_path_end_h2d(copy, r);
}

/* ---- device to host --------------------------------------------------------- */

static void
d2h_request(const struct stub_copy *copy, void *body)
{
    if (copy->blocking)
        *(struct wire_cuMemcpyDtoH_v2_req *)body = (struct wire_cuMemcpyDtoH_v2_req){
            .srcDevice = copy->src, .hStream = copy->stream_id, .ByteCount = copy->n};
    else
        *(struct wire_cuMemcpyDtoHAsync_v2_req *)body =
            (struct wire_cuMemcpyDtoHAsync_v2_req){.srcDevice = copy->src,
                                                   .hStream = copy->stream_id,
                                                   .ByteCount = copy->n};
}

/* The bytes are part of the reply. */
static CUresult
d2h_from_reply(const struct stub_copy *copy, const struct stub_call *c)
{
    struct wire_cuMemcpyDtoH_v2_rep_view rep = {0};

    if (!wire_cuMemcpyDtoH_v2_rep_open(&rep, c->reply, c->reply_size, 0) ||
        rep.f->dstHost_n != copy->n)
        return stub_call_bad(c->call);
    gp_copy(stub_copy_host_side(copy), rep.dstHost, copy->n);
    return CUDA_SUCCESS;
}

static CUresult
payload_d2h(struct stub_copy *copy)
{
    struct stub_call c;
    uint64_t said;
    CUresult r;

    if (stub_managed_touches(copy->src, copy->n))
        stub_managed_work(copy->stream_id);
    said = stub_received_say(stub_link_here());
    r = stub_call_begin(
        &c, copy->blocking ? WIRE_CALL_cuMemcpyDtoH_v2 : WIRE_CALL_cuMemcpyDtoHAsync_v2,
        sizeof(struct wire_cuMemcpyDtoH_v2_req));
    if (r != CUDA_SUCCESS)
        return r;
    d2h_request(copy, c.body);
    r = stub_call_wait_into(&c, stub_copy_host_side(copy), copy->n,
                            sizeof(struct wire_cuMemcpyDtoH_v2_rep), said);
    if (r == CUDA_SUCCESS && !(c.reply_flags & WIRE_F_BULK))
        r = d2h_from_reply(copy, &c);
    if (r == CUDA_SUCCESS)
        stub_stream_idle(&c, copy->stream_id);
    stub_call_end(&c);
    /* A blocking copy is a wait. */
    return r == CUDA_SUCCESS && copy->blocking && stub_managed_is_on()
               ? stub_managed_waited(copy->stream_id)
               : r;
}

CUresult
stub_path_payload(struct stub_copy *copy)
{
    struct stub_pieces_use use;
    CUresult r;

    stub_pieces_begin(&use, copy->direction, copy->n);
    r = copy->direction == STUB_H2D ? payload_h2d(copy) : payload_d2h(copy);
    stub_pieces_end(&use, r == CUDA_SUCCESS);
    return r;
}

/* ---- boxes ------------------------------------------------------------------ */

/* Rows of host memory are sent packed: they are gathered before sending and scattered
 * after receiving, unless they are (nearly) contiguous; then the whole span is sent as
 * it is, and the pitch in the frame is the distance of its rows.
 *
 * Sending a span wastes its gaps; gathering costs a copy of every byte. */
#define SPAN_WORTH(width, pitch) ((width) >= (pitch) - (pitch) / 4)

/* Rows of an array that are wider than a piece come to the driver in parts of whole
 * elements, which their distance has to allow. */
#define ELEMENT_MAX 16
#define ROW_UNCUT (64u << 10)

static bool
box_span_is_sent(const struct stub_box *box)
{
    uint64_t pitch = box->src.pitch;

    return stub_box_is_span(box, &box->src) && SPAN_WORTH(box->width, pitch) &&
           (pitch <= ROW_UNCUT || pitch % ELEMENT_MAX == 0 ||
            box->copy.dstMemoryType != CU_MEMORYTYPE_ARRAY);
}

/* What the driver would judge by itself, it judges while the caller waits. */
static bool
box_wants_reply(const struct stub_copy *copy, uint64_t n)
{
    return stub_copy_wants_reply(copy, n) ||
           (copy->box->copy.dstMemoryType == CU_MEMORYTYPE_DEVICE &&
            !stub_box_target_inside(copy->box));
}

static CUresult
box_send(const struct stub_copy *copy, const void *data, uint64_t pitch)
{
    uint64_t n = (copy->box->rows - 1) * pitch + copy->box->width;
    bool wait = box_wants_reply(copy, n);
    struct stub_call c;
    CUresult r = stub_box_begin(&c, copy->box, copy->stream_id, pitch, n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wait)
        return stub_call_post_bulk(&c, data, n);
    r = stub_call_wait_bulk(&c, data, n);
    stub_call_end(&c);
    return r;
}

static CUresult
box_h2d(const struct stub_copy *copy)
{
    const struct stub_box *box = copy->box;
    CLEANUP_FREE char *packed = NULL;
    uint64_t total;

    stub_d2h_async_wait(box->src.base, stub_box_extent(box, &box->src));
    if (box_span_is_sent(box))
        return box_send(copy, box->src.base, box->src.pitch);
    if (!gp_mul_ok(box->rows, box->width, &total))
        return CUDA_ERROR_INVALID_VALUE;
    packed = malloc(total);
    if (!packed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < box->rows; i++)
        memcpy(packed + i * box->width, stub_box_row(box, &box->src, i), box->width);
    return box_send(copy, packed, box->width);
}

static CUresult
box_receive(const struct stub_copy *copy, char *to, uint64_t total)
{
    struct wire_cuMemcpy3D_v2_rep_view rep = {0};
    uint64_t said = stub_received_say(stub_link_here());
    struct stub_call c;
    CUresult r = stub_box_begin(&c, copy->box, copy->stream_id, copy->box->width, 0);

    if (r != CUDA_SUCCESS)
        return r;
    r = stub_call_wait_into(&c, to, total, sizeof(struct wire_cuMemcpy3D_v2_rep), said);
    if (r == CUDA_SUCCESS &&
        (!wire_cuMemcpy3D_v2_rep_open(&rep, c.reply, c.reply_size,
                                      c.reply_flags & WIRE_F_BULK) ||
         rep.f->output_len != total))
        r = stub_call_bad(copy->box->call);
    else if (r == CUDA_SUCCESS && rep.output)
        gp_copy(to, rep.output, total);
    stub_call_end(&c);
    return r;
}

static CUresult
box_d2h(const struct stub_copy *copy)
{
    const struct stub_box *box = copy->box;
    CLEANUP_FREE char *packed = NULL;
    uint64_t total;
    CUresult r;

    if (!gp_mul_ok(box->rows, box->width, &total))
        return CUDA_ERROR_INVALID_VALUE;
    if (stub_box_is_span(box, &box->dst) && box->dst.pitch == box->width)
        return box_receive(copy, box->dst.base, total);
    packed = malloc(total);
    if (!packed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = box_receive(copy, packed, total);
    for (uint64_t i = 0; r == CUDA_SUCCESS && i < box->rows; i++)
        memcpy(stub_box_row(box, &box->dst, i), packed + i * box->width, box->width);
    return r;
}

CUresult
stub_path_payload_box(struct stub_copy *copy)
{
    return copy->direction == STUB_H2D ? box_h2d(copy) : box_d2h(copy);
}

/* ---- arrays ----------------------------------------------------------------- */

static CUresult
array_h2d(struct stub_copy *copy)
{
    const void *from = stub_copy_host_side(copy);
    bool wait = stub_copy_wants_reply(copy, copy->n);
    struct stub_call c;
    CUresult r = stub_path_begin_h2a(copy, &c, 0);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wait)
        return stub_call_post_bulk(&c, from, copy->n);
    r = stub_call_wait_bulk(&c, from, copy->n);
    stub_call_end(&c);
    return r;
}

static CUresult
array_d2h(const struct stub_copy *copy)
{
    struct wire_cuMemcpyAtoH_v2_rep_view rep = {0};
    void *to = stub_copy_host_side(copy);
    uint64_t said = stub_received_say(stub_link_here());
    struct stub_call c;
    CUresult r = stub_call_begin(
        &c, copy->blocking ? WIRE_CALL_cuMemcpyAtoH_v2 : WIRE_CALL_cuMemcpyAtoHAsync_v2,
        sizeof(struct wire_cuMemcpyAtoH_v2_req));

    if (r != CUDA_SUCCESS)
        return r;
    *(struct wire_cuMemcpyAtoH_v2_req *)c.body =
        (struct wire_cuMemcpyAtoH_v2_req){.srcArray = copy->src,
                                          .srcOffset = copy->array_offset,
                                          .ByteCount = copy->n,
                                          .hStream = copy->stream_id};
    r = stub_call_wait_into(&c, to, copy->n, sizeof(struct wire_cuMemcpyAtoH_v2_rep),
                            said);
    if (r == CUDA_SUCCESS &&
        (!wire_cuMemcpyAtoH_v2_rep_open(&rep, c.reply, c.reply_size,
                                        c.reply_flags & WIRE_F_BULK) ||
         rep.f->dstHost_n != copy->n))
        r = stub_call_bad(c.call);
    else if (r == CUDA_SUCCESS && rep.dstHost)
        gp_copy(to, rep.dstHost, copy->n);
    stub_call_end(&c);
    return r;
}

CUresult
stub_path_payload_array(struct stub_copy *copy)
{
    return copy->direction == STUB_H2D ? array_h2d(copy) : array_d2h(copy);
}
