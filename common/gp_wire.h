/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies between a stream of bytes and its socket: nothing, or a layer such as TLS
 * records.  Everything that reads or writes a stream socket of ours does so with
 * gp_wire_send() and gp_wire_recv(), which behave like the system calls with one
 * layer or with none.
 *
 * A layer belongs to one socket and to the object that owns the socket.  It keeps no
 * descriptor: the caller names it at each call.  One sender and one receiver at a time;
 * they may be different threads, so the two directions of a layer share nothing.
 *
 * Not here: framing (gp_msg.h, xport.h), handshakes, liveness, reconnecting.
 */
#ifndef GP_WIRE_H
#define GP_WIRE_H

#include "gp_base.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct gp_wire;

struct gp_wire_ops {
    /* Send some of the @n_iov parts of @iov, with sendmsg(2)'s meaning of @flags; how
     * many bytes have left for the socket, or -errno.  -EAGAIN: none; bytes of them may
     * already be protected and wait inside, so the next call must begin with the same
     * ones. */
    ssize_t (*send)(struct gp_wire *wire, int fd, const struct iovec *iov, size_t n_iov,
                    int flags);
    /* Receive up to @len bytes, with recv(2)'s meaning of @flags; 0: the orderly end.
     * -EBADMSG: the peer, or somebody on the way, broke the layer's rules. */
    ssize_t (*recv)(struct gp_wire *wire, int fd, void *buf, size_t len, int flags);
    /* Bytes have come that the next recv returns without asking the kernel: no poll(2)
     * of the socket announces them. */
    bool (*pending)(const struct gp_wire *wire);
    void (*free)(struct gp_wire *wire);
};

struct gp_wire {
    const struct gp_wire_ops *ops;
};

/* The system call's result as a gp_wire function returns it.  A peer that is gone has
 * one error, whichever of the two the kernel chose. */
static GP_INLINE ssize_t
gp_wire_result(ssize_t n)
{
    if (likely(n >= 0))
        return n;
    return errno == EPIPE ? -ECONNRESET : errno == EINTR ? -EAGAIN : -errno;
}

/* @wire NULL: the socket itself.  -EAGAIN also stands for an interrupted call. */
static GP_INLINE ssize_t
gp_wire_send(struct gp_wire *wire, int fd, const struct iovec *iov, size_t n_iov,
             int flags)
{
    struct msghdr msg;

    if (unlikely(wire != NULL))
        return wire->ops->send(wire, fd, iov, n_iov, flags);
    if (n_iov == 1)
        return gp_wire_result(
            send(fd, iov->iov_base, iov->iov_len, flags | MSG_NOSIGNAL));
    msg =
        (struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n_iov};
    return gp_wire_result(sendmsg(fd, &msg, flags | MSG_NOSIGNAL));
}

static GP_INLINE ssize_t
gp_wire_recv(struct gp_wire *wire, int fd, void *buf, size_t len, int flags)
{
    if (unlikely(wire != NULL))
        return wire->ops->recv(wire, fd, buf, len, flags);
    return gp_wire_result(recv(fd, buf, len, flags));
}

/* Who waits for the socket to become readable asks this first. */
static GP_INLINE bool
gp_wire_pending(const struct gp_wire *wire)
{
    return unlikely(wire != NULL) && wire->ops->pending(wire);
}

static inline void
gp_wire_free(struct gp_wire *wire) /* NULL is a no-op */
{
    if (wire)
        wire->ops->free(wire);
}
DEFINE_CLEANUP(struct gp_wire, gp_wire_free)

#endif
