/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging: a payload between the connection and the GPU through staging buffers.
 *
 * Host to device, the receive thread receives a chunk into a buffer and starts the copy
 * from it before it receives the next one; where the connection can, up to CHUNKS_AHEAD
 * chunks are being received at a time.  Device to host, one chunk is copied while the
 * one before it is sent.
 */
#include "wrk_path.h"

#include "drv.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_staging_pool.h"
#include "xport.h"

#include <errno.h>

/* Chunks that are being received at a time, where the connection can: enough that it
 * does not idle while one is handed to the GPU. */
#define CHUNKS_AHEAD 4

/* Small enough to stay in the second-level cache between the socket and the copy
 * (measured: 1.2-2.5x on loopback), large enough for a copy engine. */
#define CHUNK_H2D (512u * 1024)

/* How long to poll for a chunk before sleeping in the driver. */
#define D2H_SPIN_NS 20000

/* What is read again at a time. */
#define REREAD_BYTES (256u << 10)

/* ---- host to device ---- */

/* Chunks that are being received, oldest first. */
struct receiving {
    struct wrk_h2d *t;
    struct chunk {
        struct wrk_staging *slot;
        uint64_t ticket, offset, len;
    } chunk[CHUNKS_AHEAD];
    unsigned first, count;
};

/* Wait until the oldest chunk has been received, and start its copy to the GPU. */
static int
receive_finish(struct receiving *rx)
{
    struct wrk_h2d *t = rx->t;
    struct chunk *c = &rx->chunk[rx->first];
    int r = xport_recv_bulk_wait(t->w->priv->conn, c->ticket);

    c->slot->taken = false;
    rx->first = (rx->first + 1) % CHUNKS_AHEAD;
    rx->count--;
    if (r < 0 || t->result != CUDA_SUCCESS)
        return r;
    t->result = t->copy->start(t->w, t->copy, c->slot->mem, c->offset, c->len);
    if (t->result == CUDA_SUCCESS)
        wrk_staging_fence(t->w, c->slot, t->w->ctx_index, t->copy->stream);
    t->last = c->slot;
    return 0;
}

static int
receive_begin(struct receiving *rx, uint64_t offset, uint64_t len)
{
    struct wrk_h2d *t = rx->t;
    struct chunk *c = &rx->chunk[(rx->first + rx->count) % CHUNKS_AHEAD];
    struct wrk_staging *slot;
    CUresult ready = wrk_staging_pool_get(t->w, len, &slot);
    int r;

    if (ready != CUDA_SUCCESS) {
        if (t->result == CUDA_SUCCESS)
            t->result = ready;
        return -ENOMEM;
    }
    *c = (struct chunk){slot, 0, offset, len};
    r = xport_recv_bulk_start(t->w->priv->conn, slot->mem, len, &c->ticket);
    if (r < 0)
        return r;
    slot->taken = true;
    rx->count++;
    /* Without a ticket the chunk has been received already. */
    return c->ticket && rx->count < CHUNKS_AHEAD ? 0 : receive_finish(rx);
}

int
wrk_path_staging_h2d_until(struct wrk_h2d *t, uint64_t end)
{
    struct receiving rx = {.t = t};
    uint32_t piece = xport_piece_in(t->w->priv->conn);
    uint64_t chunk = piece ? piece : CHUNK_H2D;
    int r = 0;

    while (t->offset < end && r == 0) {
        uint64_t len =
            gp_min(wrk_copy_chunk(t->copy, t->offset, chunk), end - t->offset);

        wrk_copy_account_receive(t->w, len);
        r = receive_begin(&rx, t->offset, len);
        if (r < 0)
            break;
        t->offset += len;
        t->rep->bulk -= len;
    }
    while (rx.count)
        receive_finish(&rx);
    return r;
}

void
wrk_path_staging_h2d(struct wrk_h2d *t)
{
    wrk_path_staging_h2d_until(t, t->copy->len);
}

/* ---- device to host ---- */

/* The kernel copies what is sent to pages where it begins at 0, at 8 behind the header
 * of a block or at 32 behind the reply: none of that may lie 1 to 63 bytes ahead of
 * where it begins in its buffer (gp_copy.h, docs/transfers.md). */
#define DOWN_AHEAD UINT64_C(64)
#define DOWN_ROOM 4096
static_assert(2 * DOWN_AHEAD <= DOWN_ROOM, "and a longer last piece");

/* Start one copy in the stream of @d. */
static CUresult
down_copy(struct wrk_d2h *d, uint8_t *to, uint64_t offset, uint64_t len)
{
    struct wrk_copy copy = *d->copy;

    copy.stream = d->stream;
    return copy.start(d->w, &copy, to, offset, len);
}

static struct wrk_d2h_chunk *
chunk_of(struct wrk_d2h *d, unsigned number)
{
    return &d->chunks[number % WRK_D2H_CHUNKS];
}

static bool
slot_has_chunk(struct wrk_d2h *d, const struct wrk_staging *slot)
{
    for (unsigned i = d->tail; i != d->head; i++)
        if (chunk_of(d, i)->slot == slot)
            return true;
    return false;
}

/* The first buffer that is free, for the caches have it; else the one that was sent
 * first. */
static struct wrk_staging *
slot_pick(struct wrk_d2h *d)
{
    struct wrk_staging *best = NULL;

    for (unsigned i = 0; i < d->n_slots; i++) {
        struct wrk_staging *slot = &d->slots[i];

        if (!slot_has_chunk(d, slot) && (!best || slot->ticket < best->ticket))
            best = slot;
    }
    return best;
}

/* To a client nearby the first piece is shorter, so that the others begin shortly
 * before a multiple of their length: at the start of a page of the socket they then lie
 * ahead of the client's memory, not the other way round. */
static uint64_t
down_len(const struct wrk_d2h *d)
{
    uint64_t len = wrk_copy_chunk(d->copy, d->started, d->chunk);
    uint64_t left = d->copy->len - d->started;

    if (d->copy->grain > 1 || !xport_is_near(d->w->priv->conn))
        return len;
    if (left <= len + DOWN_AHEAD)
        return left;
    return d->started ? len : len - DOWN_AHEAD;
}

/* A buffer for as much as the connection's pieces have, or a little more. */
static CUresult
down_ready(struct wrk_d2h *d, struct wrk_staging *slot, uint64_t len)
{
    uint64_t piece = gp_max(len, 2 * DOWN_AHEAD) - DOWN_AHEAD;

    return wrk_staging_ready(d->w, slot, wrk_staging_size(piece) + DOWN_ROOM);
}

static CUresult
down_start(struct wrk_d2h *d)
{
    struct wrk_d2h_chunk chunk = {.slot = slot_pick(d), .len = down_len(d)};
    CUresult r = down_ready(d, chunk.slot, chunk.len);

    if (r != CUDA_SUCCESS)
        return r;
    /* What was sent from the buffer before may still be in flight. */
    xport_send_bulk_wait(d->w->priv->conn, chunk.slot->ticket);
    chunk.slot->ticket = 0;
    wrk_copy_account(d->w, d->slice, chunk.len);
    chunk.bytes = chunk.slot->mem + DOWN_AHEAD;
    r = down_copy(d, chunk.bytes, d->started, chunk.len);
    if (r == CUDA_SUCCESS)
        r = wrk_staging_fence(d->w, chunk.slot, d->ctx_index, d->stream);
    if (r != CUDA_SUCCESS)
        return r;
    d->started += chunk.len;
    *chunk_of(d, d->head++) = chunk;
    return CUDA_SUCCESS;
}

/* Wait until the copy of the oldest chunk is complete. */
static CUresult
down_wait(struct wrk_d2h *d)
{
    struct wrk_staging *slot = chunk_of(d, d->tail)->slot;

    return slot->event ? wrk_staging_result(d->w, slot, gp_now_ns() + D2H_SPIN_NS)
                       : CUDA_SUCCESS;
}

CUresult
wrk_path_d2h_probe(struct wrk_d2h *d, uint64_t begun)
{
    struct wrk_staging *probe = &d->slots[d->n_slots - 1];
    uint64_t tail = gp_max(d->copy->grain, UINT64_C(1));
    CUresult r;

    if (d->copy->len <= begun)
        return CUDA_SUCCESS;
    r = down_ready(d, probe, tail);
    return r == CUDA_SUCCESS ? down_copy(d, probe->mem, d->copy->len - tail, tail) : r;
}

/* Copy the first chunk. */
CUresult
wrk_path_staging_d2h_begin(struct wrk_d2h *d)
{
    const struct wrk_copy *copy = d->copy;
    CUresult r = wrk_path_d2h_probe(d, d->chunk);

    if (r == CUDA_SUCCESS && copy->len)
        r = down_start(d);
    return r == CUDA_SUCCESS && copy->len ? down_wait(d) : r;
}

/* For a link that broke behind bytes of which no buffer has a copy any more: struct
 * xport_source.  The call has not returned, so the memory is still what it copies. */
int64_t
wrk_path_staging_reread(struct xport_source *source, uint64_t at, uint64_t len,
                        const uint8_t **ret)
{
    struct wrk_d2h *d = container_of(source, struct wrk_d2h, source);
    struct wrk_copy copy = *d->copy;
    uint64_t n = gp_min(len, (uint64_t)REREAD_BYTES);
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    if (!d->reread)
        d->reread = malloc(REREAD_BYTES);
    copy.stream = d->stream;
    if (d->reread)
        r = copy.start(d->w, &copy, d->reread, at, n);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(d->w, cuStreamSynchronize, d->stream);
    if (r != CUDA_SUCCESS) {
        wrk_path_d2h_broken(d, r);
        return -EIO;
    }
    d->n_reread += n;
    *ret = d->reread;
    return (int64_t)n;
}

/* After a path that sent the first bytes itself, the next chunk has not been started.
 */
static CUresult
down_resume(struct wrk_d2h *d)
{
    CUresult r = d->head == d->tail ? down_start(d) : CUDA_SUCCESS;

    return r == CUDA_SUCCESS ? down_wait(d) : r;
}

void
wrk_path_staging_d2h_send(struct wrk_d2h *d)
{
    CUresult r = d->sent < d->copy->len ? down_resume(d) : CUDA_SUCCESS;

    while (r == CUDA_SUCCESS && d->sent < d->copy->len) {
        struct wrk_d2h_chunk *chunk = chunk_of(d, d->tail);

        if (d->started < d->copy->len && d->head - d->tail < WRK_D2H_CHUNKS)
            r = down_start(d);
        if (r == CUDA_SUCCESS &&
            xport_send_bulk_start(d->w->priv->conn, chunk->bytes, chunk->len,
                                  &chunk->slot->ticket) < 0)
            return; /* the loop finds the connection dead */
        d->sent += chunk->len;
        d->tail++;
        if (r == CUDA_SUCCESS && d->head != d->tail)
            r = down_wait(d);
    }
    if (r != CUDA_SUCCESS)
        wrk_path_d2h_broken(d, r);
}
