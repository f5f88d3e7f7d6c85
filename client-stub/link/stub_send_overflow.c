/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_send_overflow.h"

#include "gp_lock.h"
#include "gp_time.h"
#include "stub_link.h"
#include "xport.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SEND_LAST_MS 100

void
stub_send_overflow_begin(struct stub_link *link)
{
    struct stub_send_overflow *overflow = &link->overflow;

    if (unlikely(!overflow->room))
        overflow->room = malloc(STUB_SEND_OVERFLOW_MAX);
    atomic_store_explicit(&overflow->busy, 1, memory_order_relaxed);
    gp_lock_release(&link->send);
}

/* Frame by frame: a connection promises room for a frame, not for many. */
static int64_t
overflow_empty(struct stub_link *link)
{
    struct stub_send_overflow *overflow = &link->overflow;
    uint32_t used = overflow->used;

    overflow->used = 0;
    for (uint32_t at = 0; at < used;) {
        const struct wire_req *req = (const struct wire_req *)(overflow->room + at);
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
stub_send_overflow_end(struct stub_link *link)
{
    int64_t r;

    gp_lock_take(&link->send);
    r = overflow_empty(link);
    if (atomic_exchange(&link->overflow.busy, 0) == 2)
        gp_futex_wake(&link->overflow.busy, INT_MAX);
    return r;
}

struct wire_req *
stub_send_overflow_reserve(struct stub_send_overflow *overflow, uint32_t size)
{
    if (!overflow->room || size > STUB_SEND_OVERFLOW_MAX - overflow->used)
        return NULL;
    return (struct wire_req *)(overflow->room + overflow->used);
}

void
stub_send_overflow_wait(struct stub_link *link)
{
    struct stub_send_overflow *overflow = &link->overflow;

    while (stub_send_overflow_busy(overflow)) {
        atomic_store_explicit(&overflow->busy, 2, memory_order_relaxed);
        gp_lock_release(&link->send);
        gp_futex_wait(&overflow->busy, 2, NULL);
        gp_lock_take(&link->send);
    }
}

bool
stub_send_last(struct stub_link *link)
{
    for (int i = 0; i < SEND_LAST_MS; i++) {
        if (gp_lock_try(&link->send)) {
            if (!stub_send_overflow_busy(&link->overflow))
                return true;
            gp_lock_release(&link->send);
        }
        gp_sleep_ns(GP_NS_PER_MS);
    }
    return false;
}
