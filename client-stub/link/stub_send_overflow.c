/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_send_overflow.h"

#include "gp_lock.h"
#include "stub_link.h"
#include "xport.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void
stub_aside_begin(struct stub_link *link)
{
    struct stub_aside *aside = &link->aside;

    if (unlikely(!aside->room))
        aside->room = malloc(STUB_ASIDE_MAX);
    atomic_store_explicit(&aside->busy, 1, memory_order_relaxed);
    gp_lock_release(&link->send);
}

/* Frame by frame: a connection promises room for a frame, not for many. */
static int64_t
aside_empty(struct stub_link *link)
{
    struct stub_aside *aside = &link->aside;
    uint32_t used = aside->used;

    aside->used = 0;
    for (uint32_t at = 0; at < used;) {
        const struct wire_req *req = (const struct wire_req *)(aside->room + at);
        void *room = xport_reserve(link->conn, req->size);

        if (!room)
            return -ECONNRESET;
        memcpy(room, req, req->size);
        xport_commit(link->conn, req->size);
        at += req->size;
    }
    return used;
}

int64_t
stub_aside_end(struct stub_link *link)
{
    int64_t r;

    gp_lock_take(&link->send);
    r = aside_empty(link);
    if (atomic_exchange(&link->aside.busy, 0) == 2)
        gp_futex_wake(&link->aside.busy, INT_MAX);
    return r;
}

struct wire_req *
stub_aside_reserve(struct stub_aside *aside, uint32_t size)
{
    if (!aside->room || size > STUB_ASIDE_MAX - aside->used)
        return NULL;
    return (struct wire_req *)(aside->room + aside->used);
}

void
stub_aside_wait(struct stub_link *link)
{
    struct stub_aside *aside = &link->aside;

    while (stub_aside_busy(aside)) {
        atomic_store_explicit(&aside->busy, 2, memory_order_relaxed);
        gp_lock_release(&link->send);
        gp_futex_wait(&aside->busy, 2, NULL);
        gp_lock_take(&link->send);
    }
}
