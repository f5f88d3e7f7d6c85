/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-dimensional copies between the client's memory and the GPU: addresses and arrays.
 * Small payloads come inside the frame, large ones follow it.
 *
 * A host-to-device copy is complete for the client when the worker has received its
 * bytes: the source may then be reused, as CUDA promises, and the copy to the GPU
 * continues in stream order.
 */
#include "drv.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_capture.h"
#include "wrk_transfer.h"
#include "xport.h"

/* What a piece of a payload has at least, and a multiple of. */
#define PIECE_LEAST (64u * 1024)
#define PIECE_PAGE 4096u

static CUresult
up_device(struct wrk *w, const struct wrk_copy *copy, void *slot, uint64_t offset,
          uint64_t len)
{
    return WRK_CALL(w, cuMemcpyHtoDAsync_v2, copy->base + offset, slot, len,
                    copy->stream);
}

static CUresult
down_device(struct wrk *w, const struct wrk_copy *copy, void *slot, uint64_t offset,
            uint64_t len)
{
    return WRK_CALL(w, cuMemcpyDtoHAsync_v2, slot, copy->base + offset, len,
                    copy->stream);
}

static CUarray
array_of(const struct wrk_copy *copy)
{
    return (CUarray)(uintptr_t)copy->arg;
}

static CUresult
up_array(struct wrk *w, const struct wrk_copy *copy, void *slot, uint64_t offset,
         uint64_t len)
{
    return WRK_CALL(w, cuMemcpyHtoAAsync_v2, array_of(copy), copy->base + offset, slot,
                    len, copy->stream);
}

static CUresult
down_array(struct wrk *w, const struct wrk_copy *copy, void *slot, uint64_t offset,
           uint64_t len)
{
    return WRK_CALL(w, cuMemcpyAtoHAsync_v2, slot, array_of(copy), copy->base + offset,
                    len, copy->stream);
}

/* A client that does not wait for the result has found the memory to be one
 * allocation's. */
static CUresult
copy_check(struct wrk *w, const struct wrk_reply *rep, const struct wrk_copy *copy)
{
    CUresult r = wrk_capture_refuses(w, copy->stream);

    if (r != CUDA_SUCCESS || likely(copy->len <= WRK_COPY_ONE_PIECE))
        return r;
    if (!copy->plain)
        return wrk_copy_check_array(w, array_of(copy), copy->base, copy->len);
    return rep->req->flags & WIRE_F_REPLY
               ? wrk_copy_check_range(w, copy->base, copy->len)
               : r;
}

static CUresult
copy_up(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
        const uint8_t *inside)
{
    CUresult r = copy_check(w, rep, copy);

    return r == CUDA_SUCCESS ? wrk_transfer_h2d(w, rep, copy, inside) : r;
}

static CUresult
copy_down(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    CUresult r = copy_check(w, rep, copy);

    if (r != CUDA_SUCCESS)
        return r;
    return copy->len > WIRE_BULK_MAX ? CUDA_ERROR_INVALID_VALUE
                                     : wrk_transfer_d2h(w, rep, copy, 0);
}

CUresult
h_cuMemcpyHtoD_v2(struct wrk *w, const struct wire_args_cuMemcpyHtoD_v2 *a,
                  struct wrk_reply *rep)
{
    return copy_up(w, rep,
                   &(struct wrk_copy){.start = up_device,
                                      .len = a->ByteCount,
                                      .stream = a->hStream,
                                      .base = a->dstDevice,
                                      .plain = true},
                   a->srcHost);
}

CUresult
h_cuMemcpyHtoDAsync_v2(struct wrk *w, const struct wire_args_cuMemcpyHtoDAsync_v2 *a,
                       struct wrk_reply *rep)
{
    return copy_up(w, rep,
                   &(struct wrk_copy){.start = up_device,
                                      .len = a->ByteCount,
                                      .stream = a->hStream,
                                      .base = a->dstDevice,
                                      .plain = true},
                   a->srcHost);
}

CUresult
h_cuMemcpyDtoH_v2(struct wrk *w, const struct wire_args_cuMemcpyDtoH_v2 *a,
                  struct wrk_reply *rep)
{
    return copy_down(w, rep,
                     &(struct wrk_copy){.start = down_device,
                                        .len = a->ByteCount,
                                        .stream = a->hStream,
                                        .base = a->srcDevice,
                                        .plain = true});
}

CUresult
h_cuMemcpyDtoHAsync_v2(struct wrk *w, const struct wire_args_cuMemcpyDtoHAsync_v2 *a,
                       struct wrk_reply *rep)
{
    return copy_down(w, rep,
                     &(struct wrk_copy){.start = down_device,
                                        .len = a->ByteCount,
                                        .stream = a->hStream,
                                        .base = a->srcDevice,
                                        .plain = true});
}

CUresult
h_cuMemcpyHtoA_v2(struct wrk *w, const struct wire_args_cuMemcpyHtoA_v2 *a,
                  struct wrk_reply *rep)
{
    return copy_up(w, rep,
                   &(struct wrk_copy){.start = up_array,
                                      .len = a->ByteCount,
                                      .stream = a->hStream,
                                      .grain = WRK_COPY_ELEMENT_MAX,
                                      .base = a->dstOffset,
                                      .arg = a->dstArray},
                   a->srcHost);
}

CUresult
h_cuMemcpyHtoAAsync_v2(struct wrk *w, const struct wire_args_cuMemcpyHtoAAsync_v2 *a,
                       struct wrk_reply *rep)
{
    return copy_up(w, rep,
                   &(struct wrk_copy){.start = up_array,
                                      .len = a->ByteCount,
                                      .stream = a->hStream,
                                      .grain = WRK_COPY_ELEMENT_MAX,
                                      .base = a->dstOffset,
                                      .arg = a->dstArray},
                   a->srcHost);
}

CUresult
h_cuMemcpyAtoH_v2(struct wrk *w, const struct wire_args_cuMemcpyAtoH_v2 *a,
                  struct wrk_reply *rep)
{
    return copy_down(w, rep,
                     &(struct wrk_copy){.start = down_array,
                                        .len = a->ByteCount,
                                        .stream = a->hStream,
                                        .grain = WRK_COPY_ELEMENT_MAX,
                                        .base = a->srcOffset,
                                        .arg = a->srcArray});
}

CUresult
h_cuMemcpyAtoHAsync_v2(struct wrk *w, const struct wire_args_cuMemcpyAtoHAsync_v2 *a,
                       struct wrk_reply *rep)
{
    return copy_down(w, rep,
                     &(struct wrk_copy){.start = down_array,
                                        .len = a->ByteCount,
                                        .stream = a->hStream,
                                        .grain = WRK_COPY_ELEMENT_MAX,
                                        .base = a->srcOffset,
                                        .arg = a->srcArray});
}

/* A length of pieces that a client may ask for: of whole pages, within a staging
 * buffer; any other is none. */
static uint32_t
piece_asked(uint32_t len)
{
    return len >= PIECE_LEAST && len <= WRK_STAGING_SIZE && len % PIECE_PAGE == 0 ? len
                                                                                  : 0;
}

CUresult
h_gp_pieces(struct wrk *w, const struct wire_args_gp_pieces *a, struct wrk_reply *rep)
{
    uint32_t up = piece_asked(a->up), down = piece_asked(a->down);

    (void)rep;
    gp_log_debug("copy", "pieces of %u bytes up and %u down from now on (0: our own)",
                 up, down);
    xport_pieces(w->priv->conn, down, up);
    return CUDA_SUCCESS;
}
