/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_bulk.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_bulk_down.h"
#include "wrk_ctx.h"
#include "wrk_d2h_async.h"
#include "wrk_direct.h"
#include "wrk_evpool.h"
#include "wrk_h2d_fence.h"
#include "wrk_pinned.h"
#include "wrk_slot.h"
#include "wrk_wait.h"
#include "wrk_window.h"
#include "xport.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Pieces on their way in at a time, where the link can: enough that it does not idle
 * while one is handed to the card. */
#define PIECES_AHEAD 4

/* One transfer into a window: how long the session's turn to copy is, at least. */
#define PIECE_WINDOW (8u << 20)

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
static CUresult
slot_up(struct wrk *w, struct wrk_slot **ret_slot)
{
    struct wrk_bulk *b = w->priv->bulk;
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; i < b->n_up; i++) {
        unsigned at = (b->last + i) % b->n_up;

        if (b->up[at].taken || !wrk_slot_idle(w, &b->up[at]))
            continue;
        b->last = at;
        *ret_slot = &b->up[at];
        return wrk_slot_ready(w, &b->up[at], WRK_SLOT_SIZE);
    }
    if (b->n_up < WRK_SLOTS_UP_MAX) {
        r = wrk_slot_ready(w, &b->up[b->n_up], WRK_SLOT_SIZE);
        if (r == CUDA_SUCCESS) {
            b->last = b->n_up++;
            *ret_slot = &b->up[b->last];
            return r;
        }
    }
    if (b->n_up == 0)
        return r;
    /* Every slot is in flight behind work that goes on: only now does the reader
     * wait, and nobody else's wait with it. */
    wrk_flush(w);
    wrk_wait_hand_over(w);
    b->last = (b->last + 1) % b->n_up;
    *ret_slot = &b->up[b->last];
    wrk_slot_wait(w, *ret_slot);
    return wrk_slot_ready(w, *ret_slot, WRK_SLOT_SIZE);
}

/* --- up ----------------------------------------------------------------------------
 */

/* Pieces of one copy that are on their way into slots. */
struct up {
    struct wrk *w;
    const struct wrk_copy *copy;
    struct up_piece {
        struct wrk_slot *slot;
        uint64_t ticket, offset, len;
    } piece[PIECES_AHEAD];
    unsigned first, count;
    struct wrk_slot *last; /* handed to the card */
    bool soon;             /* wrk_settle_soon() */
    CUresult result;
};

/* The oldest piece: wait until it is there, and hand it to the card. */
static int
up_finish(struct up *up)
{
    struct up_piece *p = &up->piece[up->first];
    int r = xport_recv_bulk_wait(up->w->priv->conn, p->ticket);

    p->slot->taken = false;
    up->first = (up->first + 1) % PIECES_AHEAD;
    up->count--;
    if (r < 0 || up->result != CUDA_SUCCESS)
        return r;
    up->result = up->copy->start(up->w, up->copy, p->slot->mem, p->offset, p->len);
    if (up->result == CUDA_SUCCESS)
        wrk_slot_mark(up->w, p->slot, up->w->ctx_index, up->copy->stream);
    up->last = p->slot;
    return 0;
}

static int
up_begin(struct up *up, uint64_t offset, uint64_t len)
{
    struct up_piece *p = &up->piece[(up->first + up->count) % PIECES_AHEAD];
    struct wrk_slot *slot;
    CUresult ready = slot_up(up->w, &slot);
    int r;

    if (ready != CUDA_SUCCESS) {
        if (up->result == CUDA_SUCCESS)
            up->result = ready;
        return -ENOMEM;
    }
    *p = (struct up_piece){slot, 0, offset, len};
    r = xport_recv_bulk_start(up->w->priv->conn, slot->mem, len, &p->ticket);
    if (r < 0)
        return r;
    slot->taken = true;
    up->count++;
    /* Where pieces come one by one it is there already. */
    return p->ticket && up->count < PIECES_AHEAD ? 0 : up_finish(up);
}

/* Straight into the card's memory, as far as there are windows: only when nothing that
 * was called before could still use it.  What was received; *more: it may be tried
 * again behind the next piece. */
static uint64_t
up_window(struct up *up, uint64_t offset, bool *more)
{
    struct wrk *w = up->w;
    struct wrk_windows *ws = w->priv->windows;
    uint32_t slice = wrk_ctx_slice(w, w->ctx_index);
    uint64_t begun = offset, len = up->copy->len;
    struct wrk_window *window;
    uint64_t n;

    while (
        (n = wrk_window_take(ws, up->copy->base + offset,
                             gp_min(len - offset, (uint64_t)PIECE_WINDOW), &window))) {
        size_t got = 0;

        if (wrk_windows_writable(ws, slice))
            xport_recv_bulk_direct(w->priv->conn, up->copy->base + offset, n, &got);
        wrk_window_put(ws, window);
        offset += got;
        if (!got) {
            *more = false;
            break;
        }
        wrk_bulk_moves(w, got);
    }
    if (offset != begun && up->result == CUDA_SUCCESS)
        up->result = wrk_windows_flush(ws, slice);
    return offset - begun;
}

/* Windows and the like are through when they return; slots are not. */
static CUresult
up_settle(struct up *up, struct wrk_reply *rep)
{
    return up->last ? wrk_settle_later(up->w, rep, up->copy->stream, up->last, up->soon)
                    : CUDA_SUCCESS;
}

CUresult
wrk_bulk_up(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy)
{
    struct up up = {.w = w, .copy = copy, .result = CUDA_SUCCESS};
    bool windows = copy->plain && w->priv->windows;
    bool direct = wrk_direct_can(w, copy, 0);
    uint64_t offset = 0;
    int r = 0;

    if (rep->bulk != copy->len)
        return CUDA_ERROR_INVALID_VALUE;
    up.soon = wrk_settle_soon(w, rep, copy->stream);
    if ((direct || windows) && wrk_wait_idle(w, copy->stream) != CUDA_SUCCESS)
        direct = windows = false;
    while (offset < copy->len && r == 0) {
        uint64_t len = windows ? up_window(&up, offset, &windows) : 0;

        if (direct && !xport_received(w->priv->conn)) {
            if (up.result == CUDA_SUCCESS)
                up.result = wrk_direct_up(w, copy, offset, wrk_bulk_moves, &len);
            rep->bulk -= len;
            break; /* what it left after an error is drained */
        }
        if (!len) {
            len = wrk_copy_piece(copy, offset, PIECE_UP);
            if (direct)
                len = gp_min(len, xport_received(w->priv->conn));
            wrk_bulk_moves(w, len);
            r = up_begin(&up, offset, len);
            if (r < 0)
                break; /* dispatch drains what is left; a dead link shows in the loop */
            if (windows && up.count)
                r = up_finish(&up); /* what a window takes comes behind it */
        }
        offset += len;
        rep->bulk -= len;
    }
    while (up.count)
        up_finish(&up);
    return up.result == CUDA_SUCCESS ? up_settle(&up, rep) : up.result;
}

CUresult
wrk_bulk_up_inline(struct wrk *w, struct wrk_reply *rep, const struct wrk_copy *copy,
                   const void *data)
{
    struct wrk_slot *slot;
    bool soon;
    CUresult r;

    /* The slot, and not the frame, because the card may read it after we return. */
    if (copy->len > WRK_SLOT_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    wrk_bulk_moves(w, copy->len);
    r = slot_up(w, &slot);
    if (r != CUDA_SUCCESS)
        return r;
    if (copy->len)
        memcpy(slot->mem, data, copy->len);
    soon = wrk_settle_soon(w, rep, copy->stream);
    r = copy->start(w, copy, slot->mem, 0, copy->len);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_slot_mark(w, slot, w->ctx_index, copy->stream);
    return wrk_settle_later(w, rep, copy->stream, slot, soon);
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
    wrk_pinned_forget(ctx_index);
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
        wrk_bulk_moves(w, copy->len);
        return wrk_land(w, rep, copy);
    }
    return wrk_down(w, w->priv->bulk->down, rep, copy, arg_size);
}
