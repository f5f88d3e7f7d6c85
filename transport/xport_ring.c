/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_ring.h"

#include "gp_copy.h"
#include "gp_net.h"
#include "gp_time.h"

#include <poll.h>
#include <sched.h>

void
xport_ring_copy_in(struct xport_ring *ring, size_t at, const void *data, size_t len)
{
    size_t first = gp_min(len, XPORT_RING_SIZE - at);

    gp_copy(ring->bytes + at, data, first);
    if (unlikely(first < len))
        gp_copy(ring->bytes, (const uint8_t *)data + first, len - first);
}

void
xport_ring_copy_out(const struct xport_ring *ring, size_t at, void *buf, size_t len)
{
    size_t first = gp_min(len, XPORT_RING_SIZE - at);

    gp_copy(buf, ring->bytes + at, first);
    if (unlikely(first < len))
        gp_copy((uint8_t *)buf + first, ring->bytes, len - first);
}

int64_t
xport_ring_put_all(struct xport_ring *ring, const struct iovec *iov, size_t n_iov)
{
    int64_t used = xport_ring_used_by_producer(ring);
    size_t room = XPORT_RING_SIZE - (size_t)used, done = 0;

    if (unlikely(used < 0))
        return -EPROTO;
    for (size_t i = 0; i < n_iov && done < room; i++) {
        size_t len = gp_min(iov[i].iov_len, room - done);

        if (len) /* an empty piece may have no address */
            xport_ring_copy_in(ring, (ring->index + done) % XPORT_RING_SIZE,
                               iov[i].iov_base, len);
        done += len;
    }
    if (done)
        xport_ring_push(ring, done);
    return (int64_t)done;
}

int
xport_ring_room(struct xport_ring *ring, size_t ahead, size_t len, uint8_t **ret,
                size_t *ret_n)
{
    int64_t used = xport_ring_used_by_producer(ring);
    size_t at = (ring->index + ahead) % XPORT_RING_SIZE;

    if (used < 0 || (size_t)used + ahead > XPORT_RING_SIZE)
        return -EPROTO;
    len = gp_min(len, XPORT_RING_SIZE - (size_t)used - ahead);
    *ret = ring->bytes + at;
    *ret_n = gp_min(len, XPORT_RING_SIZE - at);
    return 0;
}

int
xport_ring_peek(const struct xport_ring *ring, size_t ahead, size_t len, uint8_t **ret,
                size_t *ret_n)
{
    int64_t used = xport_ring_used_by_consumer(ring);
    size_t at = (ring->index + ahead) % XPORT_RING_SIZE;

    if (used < 0 || (size_t)used < ahead)
        return -EPROTO;
    len = gp_min(len, (size_t)used - ahead);
    *ret = ring->bytes + at;
    *ret_n = gp_min(len, XPORT_RING_SIZE - at);
    return 0;
}

void
xport_ring_drop(struct xport_ring *ring, size_t n)
{
    int64_t used = xport_ring_used_by_consumer(ring);

    xport_ring_drop_of(ring, (size_t)gp_max(used, (int64_t)n), n);
}

static uint32_t
this_core(void)
{
    return (uint32_t)sched_getcpu() + 1;
}

void
xport_ring_push_bulk(struct xport_ring *ring, size_t n, bool more)
{
    struct xport_ring_shared *s = ring->shared;

    if (!more || !__atomic_load_n(&s->data_wanted, __ATOMIC_RELAXED) ||
        __atomic_load_n(&s->data_core, __ATOMIC_RELAXED) != this_core()) {
        xport_ring_push(ring, n);
        return;
    }
    ring->index += n;
    XPORT_RING_SENT(ring);
    __atomic_store_n(&s->head, ring->index, __ATOMIC_RELEASE);
}

/* Who closes sets the flag, then clears the word and wakes; here the word was set
 * before the flag is read: one sees the other. */
static int
sleep_on(const struct xport_ring *ring, uint32_t *word, uint64_t deadline_ns)
{
    struct timespec ts, *timeout = NULL;

    if (atomic_load(ring->closed))
        return 0;
    if (deadline_ns != GP_FOREVER) {
        uint64_t now = gp_now_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

        ts =
            (struct timespec){(time_t)(left / GP_NS_PER_S), (long)(left % GP_NS_PER_S)};
        timeout = &ts;
    }
    return xport_ring_futex(word, FUTEX_WAIT, 1, timeout) == -ETIMEDOUT ? -ETIMEDOUT
                                                                        : 0;
}

int
xport_ring_wait_room(struct xport_ring *ring, uint64_t deadline_ns)
{
    int64_t used;

    __atomic_store_n(&ring->shared->room_wanted, XPORT_RING_ON_FUTEX, __ATOMIC_SEQ_CST);
    used = xport_ring_used_by_producer(ring);
    if (used < 0)
        return -EPROTO;
    if (used <= XPORT_RING_SIZE / 2)
        return 0;
    return sleep_on(ring, &ring->shared->room_wanted, deadline_ns);
}

bool
xport_ring_empty(const struct xport_ring *ring)
{
    return xport_ring_used_by_consumer(ring) == 0;
}

static int
wait_wakefd_until(struct xport_ring *ring, uint64_t deadline_ns)
{
    int r;

    if (deadline_ns != GP_FOREVER) {
        if (!xport_ring_before_wakefd(ring))
            return 0;
        r = gp_net_wait(ring->wakefd, POLLIN, deadline_ns);
        if (r < 0)
            return r == -ETIMEDOUT ? r : 0;
    }
    xport_ring_wait_wakefd(ring);
    return 0;
}

int
xport_ring_wait_data(struct xport_ring *ring, uint64_t deadline_ns)
{
    uint32_t *wanted = &ring->shared->data_wanted;

    __atomic_store_n(&ring->shared->data_core, this_core(), __ATOMIC_RELAXED);
    if (ring->wakefd >= 0)
        return wait_wakefd_until(ring, deadline_ns);
    __atomic_store_n(wanted, XPORT_RING_ON_FUTEX, __ATOMIC_SEQ_CST);
    return xport_ring_used_by_consumer(ring) ? 0 : sleep_on(ring, wanted, deadline_ns);
}

void
xport_ring_kick(struct xport_ring *ring)
{
    int wakefd = __atomic_load_n(&ring->wakefd, __ATOMIC_RELAXED);

    __atomic_store_n(&ring->shared->room_wanted, XPORT_RING_AWAKE, __ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->shared->data_wanted, XPORT_RING_AWAKE, __ATOMIC_SEQ_CST);
    xport_ring_futex(&ring->shared->room_wanted, FUTEX_WAKE, INT32_MAX, NULL);
    xport_ring_futex(&ring->shared->data_wanted, FUTEX_WAKE, INT32_MAX, NULL);
    if (wakefd >= 0)
        xport_wakefd_kick(wakefd);
}
