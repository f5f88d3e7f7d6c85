/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_bulk.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_bulk_down.h"
#include "wrk_copygate.h"
#include "wrk_ctx.h"
#include "wrk_direct.h"
#include "wrk_evpool.h"
#include "wrk_land.h"
#include "wrk_slot.h"
#include "wrk_wait.h"
#include "xport.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Small enough to stay in the second-level cache between the socket and the copy
 * (measured: 1.2-2.5x on loopback), large enough for a copy engine. */
#define PIECE_UP (512u * 1024)

struct wrk_bulk {
    struct wrk_slot up[WRK_SLOTS_UP_MAX];
    unsigned n_up; /* slots that have memory */
    unsigned last; /* slot used last */
    struct wrk_down *down;
};

/* --- slots --------------------------------------------------------------------- */

/* A free slot: the one used last if it can be, so that it is hot. */
static struct wrk_slot *
slot_up(struct wrk *w)
{
    struct wrk_bulk *b = w->priv->bulk;
    struct wrk_slot *slot;

    for (unsigned i = 0; i < b->n_up; i++) {
        unsigned at = (b->last + i) % b->n_up;

        if (wrk_slot_idle(w, &b->up[at]) &&
            wrk_slot_ready(w, &b->up[at], WRK_SLOT_SIZE)) {
            b->last = at;
            return &b->up[at];
        }
    }
    if (b->n_up < WRK_SLOTS_UP_MAX &&
        wrk_slot_ready(w, &b->up[b->n_up], WRK_SLOT_SIZE)) {
        b->last = b->n_up++;
        return &b->up[b->last];
    }
    if (b->n_up == 0)
        return NULL;
    /* Every slot is in flight behind work that goes on: only now does the reader
     * wait, and nobody else's wait with it. */
    wrk_flush(w);
    wrk_wait_hand_over(w);
    b->last = (b->last + 1) % b->n_up;
    slot = &b->up[b->last];
    wrk_slot_wait(w, slot);
    return slot;
}

uint64_t
wrk_copy_piece(const struct wrk_copy *copy, uint64_t offset, uint64_t most)
{
    uint64_t len = gp_min(copy->len - offset, most);

    if (copy->grain > 1 && len < copy->len - offset)
        len = copy->grain > most ? copy->grain : len - len % copy->grain;
    return gp_min(len, copy->len - offset);
}

/* --- up ----------------------------------------------------------------------------
 */

static int
piece_up(struct wrk *w, const struct wrk_copy *copy, uint64_t offset, uint64_t len,
         CUresult *result)
{
    struct wrk_slot *slot = slot_up(w);
    int r;

    if (!slot) {
        if (*result == CUDA_SUCCESS)
            *result = CUDA_ERROR_OUT_OF_MEMORY;
        return -ENOMEM;
    }
    r = xport_recv_bulk(w->priv->conn, slot->mem, len);
    if (r < 0 || *result != CUDA_SUCCESS)
        return r;
    *result = copy->start(w, copy, slot->mem, offset, len);
    if (*result == CUDA_SUCCESS)
        wrk_slot_mark(w, slot, w->ctx_index, copy->stream);
    return 0;
}

void
wrk_copy_moved(struct wrk *w, uint32_t slice, uint64_t bytes)
{
    uint64_t until = wrk_copygate_take(w, slice, bytes);

    if (unlikely(until))
        wrk_copygate_wait(w, slice, until);
}

/* The same on the reader: nobody's answer waits with it. */
static void
reader_moves(struct wrk *w, uint64_t bytes)
{
    uint32_t slice = wrk_ctx_slice(w, w->ctx_index);
    uint64_t until = wrk_copygate_take(w, slice, bytes);

    if (likely(!until))
        return;
    wrk_flush(w);
    wrk_wait_hand_over(w);
    wrk_copygate_wait(w, slice, until);
}

CUresult
wrk_bulk_up(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t offset = 0;

    bool direct;

    if (rep->bulk != copy->len)
        return CUDA_ERROR_INVALID_VALUE;
    direct =
        wrk_direct_can(w, copy, 0) && wrk_wait_idle(w, copy->stream) == CUDA_SUCCESS;
    while (offset < copy->len) {
        uint64_t len = wrk_copy_piece(copy, offset, PIECE_UP);

        if (direct && !xport_received(w->priv->conn)) {
            if (result == CUDA_SUCCESS)
                result = wrk_direct_up(w, copy, offset, reader_moves, &len);
            rep->bulk -= len;
            break; /* what it left after an error is drained */
        }
        if (direct)
            len = gp_min(len, xport_received(w->priv->conn));
        reader_moves(w, len);
        if (piece_up(w, copy, offset, len, &result) < 0)
            break; /* dispatch drains what is left; a dead link shows in the loop */
        offset += len;
        rep->bulk -= len;
    }
    return result;
}

CUresult
wrk_bulk_up_inline(struct wrk *w, const struct wrk_copy *copy, const void *data)
{
    struct wrk_slot *slot;
    CUresult r;

    /* The slot, and not the frame, because the card may read it after we return. */
    if (copy->len > WRK_SLOT_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    reader_moves(w, copy->len);
    slot = slot_up(w);
    if (!slot)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (copy->len)
        memcpy(slot->mem, data, copy->len);
    r = copy->start(w, copy, slot->mem, 0, copy->len);
    if (r == CUDA_SUCCESS)
        wrk_slot_mark(w, slot, w->ctx_index, copy->stream);
    return r;
}

CUresult
wrk_bulk_capturing(struct wrk *w, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if ((uintptr_t)stream > 2 &&
        WRK_CALL(w, cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS &&
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return CUDA_SUCCESS;
}

int
wrk_bulk_take(struct wrk *w, struct wrk_reply *rep, void *buf)
{
    uint64_t len = rep->bulk;

    rep->bulk = 0;
    return xport_recv_bulk(w->priv->conn, buf, len);
}

/* --- life ----------------------------------------------------------------------------
 */

void
wrk_bulk_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_bulk *b = w->priv->bulk;

    for (unsigned i = 0; i < b->n_up; i++)
        wrk_slot_forget(&b->up[i], ctx_index);
    wrk_down_forget(b->down, ctx_index);
    wrk_direct_forget(w->priv->direct);
    wrk_evpool_forget(ctx_index);
}

int
wrk_bulk_new(struct wrk_bulk **ret)
{
    struct wrk_bulk *b = calloc(1, sizeof(*b));
    int r = b ? wrk_down_new(&b->down) : -ENOMEM;

    if (r < 0) {
        wrk_bulk_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

/* The slots' memory goes with the process. */
void
wrk_bulk_free(struct wrk_bulk *b)
{
    if (!b)
        return;
    wrk_down_free(b->down);
    free(b);
}

CUresult
wrk_bulk_down(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
              size_t arg_size)
{
    if (rep->req->flags & WIRE_F_LAND) {
        reader_moves(w, copy->len);
        return wrk_land(w, rep, copy);
    }
    return wrk_down(w, w->priv->bulk->down, rep, copy, arg_size);
}
