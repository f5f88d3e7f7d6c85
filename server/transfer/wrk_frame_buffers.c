/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_frame_buffers.h"

#include "wrk.h"
#include "wrk_staging.h"
#include "xport.h"

#include <errno.h>
#include <stdlib.h>

/* What was received behind the frame moves to the other buffer. */
#define BEHIND_MAX (4u << 10)

struct wrk_frame_buffers {
    struct wrk_staging slot[WRK_FRAME_BUFFERS];
    unsigned n;       /* that have memory; the one in use may be known only by now */
    unsigned current; /* the connection's */
};

/* One that is not the connection's and not in flight. */
static struct wrk_staging *
find_idle(struct wrk *w, struct wrk_frame_buffers *buffers)
{
    struct wrk_staging *slot;

    for (unsigned i = 0; i < buffers->n; i++)
        if (i != buffers->current && wrk_staging_idle(w, &buffers->slot[i]))
            return &buffers->slot[i];
    if (buffers->n == WRK_FRAME_BUFFERS)
        return NULL;
    slot = &buffers->slot[buffers->n];
    slot->mem = xport_exchange_new(w->priv->conn, &slot->size);
    if (!slot->mem)
        return NULL;
    buffers->n++;
    return slot;
}

struct wrk_staging *
wrk_frame_buffers_take(struct wrk *w, const void *bytes, uint64_t len)
{
    struct wrk_frame_buffers *buffers = w->priv->frame_buffers;
    struct xport_conn *conn = w->priv->conn;
    struct wrk_staging *next, *full = &buffers->slot[buffers->current];
    uintptr_t at = (uintptr_t)bytes;

    if (len < WRK_FRAME_BYTES_MIN || xport_received(conn) > BEHIND_MAX ||
        !xport_can(conn, XPORT_CAN_EXCHANGE))
        return NULL;
    next = find_idle(w, buffers);
    if (!next)
        return NULL;
    full->mem = xport_exchange(conn, next->mem);
    full->size = next->size;
    buffers->current = (unsigned)(next - buffers->slot);
    return at >= (uintptr_t)full->mem &&
                   at + len <= (uintptr_t)full->mem + full->size &&
                   wrk_staging_ready(w, full, full->size) == CUDA_SUCCESS
               ? full
               : NULL;
}

void
wrk_frame_buffers_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_frame_buffers *buffers = w->priv->frame_buffers;

    for (unsigned i = 0; i < buffers->n; i++)
        wrk_staging_forget(&buffers->slot[i], ctx_index);
}

int
wrk_frame_buffers_new(struct wrk_frame_buffers **ret)
{
    struct wrk_frame_buffers *buffers = calloc(1, sizeof(*buffers));

    if (!buffers)
        return -ENOMEM;
    buffers->n = 1; /* the connection's own */
    *ret = buffers;
    return 0;
}

/* The buffers' memory goes with the process. */
void
wrk_frame_buffers_free(struct wrk_frame_buffers *buffers)
{
    free(buffers);
}
