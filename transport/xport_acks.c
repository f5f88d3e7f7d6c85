/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_acks.h"

#include "gp_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The sender's congestion window begins with ten segments. */
#define PEEKED_MAX 8

/* Under the lock. */
static bool
socket_take(struct xport_acks *acks, const struct xport_resume_owner *owner,
            struct xport_conn *conn)
{
    struct xport_resume_link link = {.ack_fd = -1};

    if (acks->fd < 0 && owner->ack_link && owner->ack_link(conn, &link) == 0) {
        acks->wire = link.ack_wire;
        __atomic_store_n(&acks->fd, link.ack_fd, __ATOMIC_RELEASE);
    }
    return acks->fd >= 0;
}

bool
xport_acks_here(struct xport_acks *acks, const struct xport_resume_owner *owner,
                struct xport_conn *conn)
{
    bool here;

    if (likely(xport_acks_fd(acks) >= 0))
        return true;
    gp_lock_take(&acks->lock);
    here = socket_take(acks, owner, conn);
    gp_lock_release(&acks->lock);
    return here;
}

/* Under the lock.  A peer whose socket is full has enough of them to read.  A part of
 * one, or one that a layer keeps, would stand in the way of all that follow. */
static int
send_one(struct xport_acks *acks)
{
    uint64_t value = atomic_load(&acks->received);
    uint64_t striped = atomic_load(&acks->striped), values[2];
    struct iovec iov = {values, 0};
    size_t k = 0;
    ssize_t n;

    if (value != atomic_load(&acks->sent))
        values[k++] = value;
    if (striped != atomic_load(&acks->striped_sent))
        values[k++] = striped | XPORT_ACK_STRIPED;
    if (!k)
        return 0;
    iov.iov_len = k * sizeof(value);
    n = gp_wire_send(acks->wire, acks->fd, &iov, 1, MSG_DONTWAIT);
    if (n != (ssize_t)(k * sizeof(value)))
        return n == -EAGAIN && !acks->wire ? 0 : -ECONNRESET;
    atomic_store(&acks->sent, value);
    atomic_store(&acks->striped_sent, striped);
    return 0;
}

int
xport_acks_send(struct xport_acks *acks, const struct xport_resume_owner *owner,
                struct xport_conn *conn)
{
    int r = 0;

    gp_lock_take(&acks->lock);
    if (socket_take(acks, owner, conn))
        r = send_one(acks);
    gp_lock_release(&acks->lock);
    return r;
}

void
xport_acks_heard(struct xport_acks *acks, uint64_t upto)
{
    gp_lock_take(&acks->lock);
    if (atomic_load(&acks->sent) < upto)
        atomic_store(&acks->sent, upto);
    gp_lock_release(&acks->lock);
}

/* The values of @len bytes, of which the last may be a part of one. */
static void
take_values(const uint8_t *buf, size_t len, uint64_t *value, uint64_t *striped)
{
    for (size_t at = 0; at + 8 <= len; at += 8) {
        uint64_t one;

        memcpy(&one, buf + at, 8);
        if (unlikely(one & XPORT_ACK_STRIPED))
            *striped = gp_max(*striped, one & ~XPORT_ACK_STRIPED);
        else
            *value = gp_max(*value, one);
    }
}

/* Look at what has come without taking it out.  The kernel answers a read that empties
 * the queue with a TCP acknowledgement, which costs both ends more than the rest of the
 * read; so only every eighth acknowledgement of ours causes one.  False: it is time to
 * take them out, or there are none, or the socket is not the kernel's alone. */
static bool
peek(struct xport_acks *acks, uint64_t *value, uint64_t *striped)
{
    uint8_t buf[8 * PEEKED_MAX];
    ssize_t n;

    if (acks->wire || acks->part_len)
        return false;
    n = recv(acks->fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0 || n == sizeof(buf))
        return false;
    take_values(buf, (size_t)n, value, striped);
    acks->unread = true;
    return true;
}

int
xport_acks_read(struct xport_acks *acks, uint64_t *value, uint64_t *striped)
{
    return peek(acks, value, striped) ? 0 : xport_acks_take(acks, value, striped);
}

int
xport_acks_take(struct xport_acks *acks, uint64_t *value, uint64_t *striped)
{
    uint8_t buf[8 * 64];
    ssize_t n;

    acks->unread = false;
    do {
        size_t have = acks->part_len;

        memcpy(buf, acks->part, have);
        n = gp_wire_recv(acks->wire, acks->fd, buf + have, sizeof(buf) - have,
                         MSG_DONTWAIT);
        if (n <= 0)
            return n == -EAGAIN ? 0 : -ECONNRESET;
        have += (size_t)n;
        take_values(buf, have, value, striped);
        acks->part_len = have % 8;
        memcpy(acks->part, buf + have - have % 8, have % 8);
    } while (n > 256);
    return 0;
}

int
xport_acks_install(struct xport_acks *acks, const struct xport_resume_link *link)
{
    int r = 0;

    gp_lock_take(&acks->lock);
    gp_wire_free(acks->wire);
    acks->wire = link->ack_wire;
    acks->part_len = 0;
    acks->unread = false;
    atomic_store(&acks->sent, atomic_load(&acks->received));
    atomic_store(&acks->striped_sent, atomic_load(&acks->striped));
    if (acks->fd >= 0 && link->ack_fd >= 0) {
        r = dup3(link->ack_fd, acks->fd, O_CLOEXEC) < 0 ? -errno : 0;
        close(link->ack_fd);
    } else {
        if (acks->fd >= 0)
            close(acks->fd);
        __atomic_store_n(&acks->fd, link->ack_fd, __ATOMIC_RELEASE);
    }
    gp_lock_release(&acks->lock);
    return r;
}

void
xport_acks_fini(struct xport_acks *acks)
{
    if (acks->fd >= 0)
        close(acks->fd);
    gp_wire_free(acks->wire);
}
