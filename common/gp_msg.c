/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_msg.h"

#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MSG_HEAD 4 /* bytes of the length in front */

int
gp_msg_send(int fd, const void *data, size_t len, uint64_t deadline_ns,
            struct gp_err *err)
{
    uint32_t head = htole32((uint32_t)len);
    struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    while (iov[0].iov_len + iov[1].iov_len) {
        ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        size_t first;

        if (n < 0 && errno == EAGAIN) {
            int r = gp_net_wait(fd, POLLOUT, deadline_ns);

            if (r < 0)
                return gp_err_set(err, r, "send: %s", strerror(-r));
            continue;
        }
        if (n < 0 && errno != EINTR)
            return gp_err_set(err, -errno, "send: %s", strerror(errno));
        first = gp_min((size_t)gp_max(n, 0), iov[0].iov_len);
        iov[0].iov_base = (char *)iov[0].iov_base + first;
        iov[0].iov_len -= first;
        iov[1].iov_base = (char *)iov[1].iov_base + ((size_t)gp_max(n, 0) - first);
        iov[1].iov_len -= (size_t)gp_max(n, 0) - first;
    }
    return 0;
}

static int
recv_exactly(int fd, void *buf, size_t len, uint64_t deadline_ns, struct gp_err *err)
{
    uint8_t *p = buf;

    while (len) {
        ssize_t n = recv(fd, p, len, MSG_DONTWAIT);

        if (n == 0)
            return gp_err_set(err, -ECONNRESET, "the other side closed the connection");
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            int r = gp_net_wait(fd, POLLIN, deadline_ns);

            if (r < 0)
                return gp_err_set(err, r, "no answer: %s", strerror(-r));
        } else if (errno != EINTR) {
            return gp_err_set(err, -errno, "receive: %s", strerror(errno));
        }
    }
    return 0;
}

int
gp_msg_recv(int fd, size_t max, uint64_t deadline_ns, void **ret, size_t *ret_len,
            struct gp_err *err)
{
    CLEANUP_FREE uint8_t *buf = NULL;
    uint32_t len;
    int r;

    r = recv_exactly(fd, &len, sizeof(len), deadline_ns, err);
    if (r < 0)
        return r;
    len = le32toh(len);
    if (len > max)
        return gp_err_set(err, -EMSGSIZE,
                          "a message of %u bytes, over the limit of %zu", len, max);
    buf = malloc((size_t)len + 1);
    if (!buf)
        return gp_err_set(err, -ENOMEM, "out of memory");
    r = recv_exactly(fd, buf, len, deadline_ns, err);
    if (r < 0)
        return r;
    buf[len] = 0;
    *ret = TAKE_PTR(buf);
    *ret_len = len;
    return 0;
}

static int
grow(uint8_t **buf, size_t *cap, size_t need)
{
    size_t want = gp_max(*cap, (size_t)4096);
    uint8_t *grown;

    if (need <= *cap)
        return 0;
    while (want < need)
        want *= 2;
    grown = realloc(*buf, want);
    if (!grown)
        return -ENOMEM;
    *buf = grown;
    *cap = want;
    return 0;
}

static void
fail(struct gp_msg_conn *conn, int code)
{
    gp_loop_fd_del(&conn->src);
    conn->on_close(conn, code);
}

/* Hand over every whole message in the buffer.  The callback may fini the connection or
 * take its socket away. */
static void
deliver(struct gp_msg_conn *conn)
{
    bool gone = false;
    uint32_t len;

    conn->gone = &gone;
    while (conn->src.loop && conn->in_len - conn->in_at >= MSG_HEAD) {
        memcpy(&len, conn->in + conn->in_at, MSG_HEAD);
        len = le32toh(len);
        if (len > conn->max_msg) {
            conn->gone = NULL;
            fail(conn, -EMSGSIZE);
            return;
        }
        if (conn->in_len - conn->in_at - MSG_HEAD < len)
            break;
        conn->in_at += MSG_HEAD + len;
        conn->on_msg(conn, conn->in + conn->in_at - len, len);
        if (gone)
            return;
    }
    conn->gone = NULL;
    conn->in_len -= conn->in_at;
    memmove(conn->in, conn->in + conn->in_at, conn->in_len);
    conn->in_at = 0;
}

static int
flush_out(struct gp_msg_conn *conn)
{
    while (conn->out_at < conn->out_len) {
        ssize_t n = send(conn->src.fd, conn->out + conn->out_at,
                         conn->out_len - conn->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
            return gp_loop_fd_set(&conn->src, EPOLLIN | EPOLLOUT);
        if (n < 0 && errno != EINTR)
            return -errno;
        conn->out_at += (size_t)gp_max(n, 0);
    }
    conn->out_at = conn->out_len = 0;
    return gp_loop_fd_set(&conn->src, EPOLLIN);
}

static void
on_ready(struct gp_loop_fd *src, uint32_t revents)
{
    struct gp_msg_conn *conn = container_of(src, struct gp_msg_conn, src);
    ssize_t n;
    int r;

    if (revents & EPOLLOUT) {
        r = flush_out(conn);
        if (r < 0) {
            fail(conn, r);
            return;
        }
    }
    if (!(revents & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    r = grow(&conn->in, &conn->in_cap, conn->in_len + 4096);
    if (r < 0) {
        fail(conn, r);
        return;
    }
    n = recv(src->fd, conn->in + conn->in_len, conn->in_cap - conn->in_len,
             MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        fail(conn, n < 0 ? -errno : 0);
        return;
    }
    conn->in_len += (size_t)n;
    deliver(conn);
}

int
gp_msg_conn_init(struct gp_msg_conn *conn, struct gp_loop *loop, int fd, size_t max_msg,
                 size_t max_queue,
                 void (*on_msg)(struct gp_msg_conn *, const void *, size_t),
                 void (*on_close)(struct gp_msg_conn *, int))
{
    *conn = (struct gp_msg_conn){.loop = loop,
                                 .max_msg = max_msg,
                                 .max_queue = max_queue,
                                 .on_msg = on_msg,
                                 .on_close = on_close};
    conn->src.fd = fd;
    return gp_loop_fd_add(loop, &conn->src, fd, EPOLLIN, on_ready);
}

void
gp_msg_conn_fini(struct gp_msg_conn *conn)
{
    if (conn->gone)
        *conn->gone = true;
    gp_loop_fd_del(&conn->src);
    if (conn->src.fd >= 0)
        close(conn->src.fd);
    free(conn->in);
    free(conn->out);
    *conn = (struct gp_msg_conn){.src.fd = -1};
}

int
gp_msg_conn_send(struct gp_msg_conn *conn, const void *data, size_t len)
{
    uint32_t head = htole32((uint32_t)len);
    int r;

    if (!conn->src.loop)
        return -ENOTCONN;
    if (conn->out_len - conn->out_at + len + MSG_HEAD > conn->max_queue)
        return -ENOBUFS;
    r = grow(&conn->out, &conn->out_cap, conn->out_len + len + MSG_HEAD);
    if (r < 0)
        return r;
    memcpy(conn->out + conn->out_len, &head, MSG_HEAD);
    memcpy(conn->out + conn->out_len + MSG_HEAD, data, len);
    conn->out_len += len + MSG_HEAD;
    /* A broken link shows as EPOLLHUP in the loop: on_close is not called here. */
    r = flush_out(conn);
    return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

int
gp_msg_conn_take_fd(struct gp_msg_conn *conn, int *ret_fd)
{
    if (conn->out_len != conn->out_at || conn->in_len != conn->in_at)
        return -EBUSY;
    gp_loop_fd_del(&conn->src);
    *ret_fd = TAKE_FD(conn->src.fd);
    return 0;
}
